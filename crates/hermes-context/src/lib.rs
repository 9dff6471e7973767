//! What the model sees: sources of context, the prompt snapshot that is built of them once per
//! session, and `assemble`, which turns a snapshot and a view of the history into messages.
//!
//! Invariants: a built snapshot is never read back from files; every source that was considered
//! has a block in the manifest, in or out; `assemble` is a pure function of stored inputs; nothing
//! recognises what a text is by its wording.

mod assemble;
mod cut;
pub mod hints;
pub mod memory;
pub mod project;
mod receipt;
pub mod references;
pub mod skills;
mod snapshot;
pub mod source_text;
mod sources;
pub mod threat;
mod tokens;
mod workspace;

pub use assemble::{
    AssembleError, AssembleInput, BlobSource, NoBlobs, RENDERER, assemble, awaits_answer,
};
pub use receipt::WriteReceipt;
pub use snapshot::{
    Built, Difference, PluginSection, SnapshotInput, build_snapshot, leave_out, refresh_snapshot,
    snapshot_differences, text_of,
};
pub use sources::{SOURCES, SourceKind, source_kind, source_of_path, sources_table};
pub use tokens::estimate_tokens;
pub use workspace::Workspace;
