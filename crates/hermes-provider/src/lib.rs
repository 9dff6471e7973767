//! Model providers: the wire as bytes, and the way there and back.
//!
//! - [`encode`] turns an assembled request into the exact body that is sent. It is pure.
//! - [`profile_for`] knows the quirks of endpoints as data; [`learn`] adds to it from an error.
//! - [`Client::converse`] makes the attempts at one call: ledger row, bytes, stream, retry,
//!   fallback.
//! - [`Client::job`] does the jobs beside the conversation: a summary, a capsule, a title.
//! - [`rehearsal`] is the deterministic model server behind the first conversation, the tests and
//!   the lab.
//!
//! What must always hold: no byte leaves before its ledger row is committed; the body is a
//! function of the assembled request, profile, model and parameters alone; credentials are in
//! headers only; arguments of a tool call that were cut off are never [`CallArguments::Whole`];
//! no parser here panics on any input.

mod arguments;
mod assembly;
mod attend;
mod auxiliary;
mod backoff;
mod classify;
mod converse;
mod encode;
mod endpoint;
mod error;
mod json;
mod models;
mod profile;
mod receive;
pub mod rehearsal;
mod reply;
mod schema;
mod sse;
mod transport;
mod usage;

pub use arguments::classify_arguments;
pub use assembly::{Assembly, Fragment};
pub use attend::{Attendant, Instead, Later, Prepared, Taken};
pub use auxiliary::{
    Candidate, Job, JobAnswer, JobError, JobPlace, JobPrompt, JobSlots, PlaceFailure,
};
pub use backoff::Backoff;
pub use classify::{Failure, Limits, classify};
pub use converse::{ConverseInput, Delta, LedgerFacts};
pub use encode::{Encoded, encode};
pub use endpoint::{Endpoint, Timeouts, public_url};
pub use error::{Answered, ConverseError};
pub use models::ModelInfo;
pub use profile::{learn, output_cap_field, profile_for};
pub use reply::{CallArguments, Finish, Reply, ReplyCall};
pub use schema::check_schema;
pub use sse::{SseEvent, SseParser};
pub use transport::Client;
