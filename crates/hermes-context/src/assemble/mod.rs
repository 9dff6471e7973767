//! From a snapshot and a view to neutral messages that a strict provider accepts.
//!
//! Invariants: a pure function of its input; every renderer that ever sent a request is kept as it
//! was, under its version, because past requests are rebuilt with it; what a text is comes from
//! its origin, never from its wording.

mod v1;

/// The frames of the present renderer, which the prompt uses and explains.
pub(crate) use self::v1::fence::{escape, fence};

use std::sync::Arc;

use hermes_core::{Assembled, Digest, Message, Role, Snapshot, ToolSet, View, WireProfile};

/// The version of the renderer that new requests use.
pub const RENDERER: u32 = 1;

/// Stored inputs of one request.
pub struct AssembleInput<'a> {
    /// The prompt.
    pub snapshot: &'a Arc<Snapshot>,
    /// The pinned tools.
    pub tools: &'a Arc<ToolSet>,
    /// The rows and parts that the request may see.
    pub view: &'a View,
    /// What decides the bytes beside the content.
    pub profile: &'a WireProfile,
    /// Where images are.
    pub blobs: &'a dyn BlobSource,
    /// Version of the renderer; [`RENDERER`] for a new request.
    pub renderer: u32,
}

/// Gives stored bytes by their digest.
pub trait BlobSource {
    /// The bytes; None if they are gone.
    fn blob(&self, digest: &Digest) -> Option<Arc<[u8]>>;
}

impl<F: Fn(&Digest) -> Option<Arc<[u8]>>> BlobSource for F {
    fn blob(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        self(digest)
    }
}

/// Holds no blob.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBlobs;

impl BlobSource for NoBlobs {
    fn blob(&self, _digest: &Digest) -> Option<Arc<[u8]>> {
        None
    }
}

/// A request that cannot be assembled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// The request was rendered by a version that this program does not have.
    #[error(
        "renderer {0} is not known to this version (it has 1 to {RENDERER}); hint: use a newer \
         `hermes`"
    )]
    UnknownRenderer(u32),
}

/// Renders the view into messages.
///
/// The encoder joins the text pieces of one message by blank lines.
///
/// # Errors
/// If the renderer's version is unknown.
pub fn assemble(input: &AssembleInput<'_>) -> Result<Assembled, AssembleError> {
    let messages = match input.renderer {
        1 => v1::render(input.view, input.profile, input.blobs),
        unknown => return Err(AssembleError::UnknownRenderer(unknown)),
    };
    Ok(Assembled { snapshot: input.snapshot.clone(), tools: input.tools.clone(), messages })
}

/// Whether the history ends with something a model can answer: a user message or a tool result.
/// A request without it must not be sent.
pub fn awaits_answer(messages: &[Message]) -> bool {
    messages.last().is_some_and(|last| matches!(last.role, Role::User | Role::Tool))
}
