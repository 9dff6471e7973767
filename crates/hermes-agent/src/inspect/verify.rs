//! Rebuilding a request's exact bytes from stored rows, and the verdict on them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use hermes_context::{AssembleInput, assemble};
use hermes_core::{
    Assembled, Digest, GenerationNo, RequestId, SessionId, Snapshot, ToolSet, ViewError, fold_view,
};
use hermes_provider::{Encoded, encode};
use hermes_store::{History, RequestRecord, Store, StoreError};
use serde::Serialize;

use crate::pinned::parse_tools;

/// Why a request cannot be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session was deleted, and its texts with it.
    #[error(
        "request {0} belongs to a deleted session: its texts are gone, digests and counts remain"
    )]
    Deleted(RequestId),
    /// The stored rows do not fit together.
    #[error("request {id}: {source}")]
    View {
        /// The request.
        id: RequestId,
        /// What does not fit.
        source: ViewError,
    },
    /// A session's rows and generations do not fit together.
    #[error("{source}")]
    History {
        /// What does not fit.
        source: ViewError,
    },
    /// A stored piece is missing or cannot be read.
    #[error("request {id}: {what}; hint: run `hermes sessions check`")]
    Broken {
        /// The request.
        id: RequestId,
        /// What is wrong.
        what: String,
    },
    /// No request was ever sent in this session.
    #[error("session {0} has sent no request yet")]
    NoRequest(SessionId),
}

/// A request made again from what is stored.
pub struct Rebuilt {
    /// The messages before encoding.
    pub assembled: Assembled,
    /// The bytes and where each part stands in them.
    pub encoded: Encoded,
}

/// The answer to "are these the bytes that were sent?".
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The rebuilt bytes have the digest of the sent ones.
    Verified,
    /// They have not.
    Differs {
        /// Which part differs, or why nothing could be rebuilt.
        why: String,
    },
    /// The session was deleted. Not an error.
    Deleted,
    /// The store could not be read, so nothing can be said.
    Unreadable {
        /// Why.
        why: String,
    },
}

/// Counts over many requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Rebuilt and equal.
    pub verified: u64,
    /// Not equal.
    pub differs: u64,
    /// Session deleted.
    pub deleted: u64,
    /// Store not readable.
    pub unreadable: u64,
}

/// Rebuilds requests; keeps the last session's history and texts at hand, because requests are
/// looked at session by session.
pub struct Inspector<'a> {
    store: &'a Store,
    history: Option<(SessionId, Arc<History>)>,
    snapshots: HashMap<(SessionId, GenerationNo), Arc<Snapshot>>,
    tools: HashMap<Digest, Arc<ToolSet>>,
}

impl<'a> Inspector<'a> {
    /// Looks into `store`.
    pub fn new(store: &'a Store) -> Self {
        Self { store, history: None, snapshots: HashMap::new(), tools: HashMap::new() }
    }

    /// The store it looks into.
    pub const fn store(&self) -> &'a Store {
        self.store
    }

    /// Makes the request again from stored rows, whatever body was kept.
    ///
    /// # Errors
    /// If the session is deleted or something it needs is missing.
    pub fn rebuild(&mut self, request: &RequestRecord) -> Result<Rebuilt, InspectError> {
        let attempt = &request.attempt;
        let id = &attempt.id;
        if request.session_deleted {
            return Err(InspectError::Deleted(id.clone()));
        }
        let broken = |what: String| InspectError::Broken { id: id.clone(), what };
        let history = self.history(&attempt.session)?;
        let view = fold_view(&history.rows, &history.generations, attempt.generation, attempt.cut)
            .map_err(|source| InspectError::View { id: id.clone(), source })?;
        let snapshot = self.snapshot(&attempt.session, attempt.generation)?;
        let tools = self.tools(&attempt.tools, id)?;
        let profile = self.store.wire_profile(&attempt.wire_profile)?.ok_or_else(|| {
            broken(format!("wire profile {} is not stored", attempt.wire_profile.short()))
        })?;
        let store = self.store;
        let assembled = assemble(&AssembleInput {
            snapshot: &snapshot,
            tools: &tools,
            view: &view,
            profile: &profile,
            blobs: &|digest: &Digest| store.blob(digest).ok().flatten(),
            renderer: attempt.renderer,
        })
        .map_err(|error| broken(error.to_string()))?;
        let encoded = encode(&assembled, &profile, &attempt.model, &attempt.params);
        Ok(Rebuilt { assembled, encoded })
    }

    /// The exact bytes of the request: the kept body where there is one, else rebuilt.
    ///
    /// # Errors
    /// If the session is deleted or something it needs is missing.
    pub fn body(&mut self, request: &RequestRecord) -> Result<Bytes, InspectError> {
        if request.session_deleted {
            return Err(InspectError::Deleted(request.attempt.id.clone()));
        }
        if request.has_kept_body
            && let Some(body) = self.store.kept_body(&request.attempt.id)?
        {
            return Ok(Bytes::from(body));
        }
        Ok(self.rebuild(request)?.encoded.body)
    }

    /// Whether the request's bytes can be shown to be the ones that were sent.
    pub fn verify(&mut self, request: &RequestRecord) -> Verdict {
        let attempt = &request.attempt;
        let body = match self.body(request) {
            Ok(body) => body,
            Err(InspectError::Deleted(_)) => return Verdict::Deleted,
            // Nothing is known about the bytes when the store could not be read.
            Err(error @ InspectError::Store(_)) => {
                return Verdict::Unreadable { why: error.to_string() };
            }
            Err(error) => return Verdict::Differs { why: error.to_string() },
        };
        let digest = Digest::of(&body);
        if digest == attempt.body {
            return Verdict::Verified;
        }
        let why = match self.rebuild(request) {
            Ok(rebuilt) if rebuilt.assembled.snapshot.digest != attempt.prompt => "the prompt",
            Ok(rebuilt) if rebuilt.assembled.tools.digest != attempt.tools => "the tool list",
            Ok(rebuilt) if rebuilt.encoded.history != attempt.history => "the history",
            Ok(_) | Err(_) => "the body around prompt, tools and history",
        };
        let (sent, now) = (attempt.body.short(), digest.short());
        Verdict::Differs { why: format!("{why} differs: sent {sent}, rebuilt {now}") }
    }

    pub(super) fn history(&mut self, session: &SessionId) -> Result<Arc<History>, InspectError> {
        if let Some((known, history)) = &self.history
            && known == session
        {
            return Ok(history.clone());
        }
        let history = Arc::new(self.store.history(session)?);
        self.history = Some((session.clone(), history.clone()));
        self.snapshots.clear();
        Ok(history)
    }

    fn snapshot(
        &mut self,
        session: &SessionId,
        generation: GenerationNo,
    ) -> Result<Arc<Snapshot>, InspectError> {
        let key = (session.clone(), generation);
        if let Some(snapshot) = self.snapshots.get(&key) {
            return Ok(snapshot.clone());
        }
        let snapshot = Arc::new(self.store.snapshot(session, generation)?);
        self.snapshots.insert(key, snapshot.clone());
        Ok(snapshot)
    }

    fn tools(&mut self, digest: &Digest, id: &RequestId) -> Result<Arc<ToolSet>, InspectError> {
        if let Some(tools) = self.tools.get(digest) {
            return Ok(tools.clone());
        }
        let broken = |what: String| InspectError::Broken { id: id.clone(), what };
        let text = self
            .store
            .text(digest)?
            .ok_or_else(|| broken(format!("tool list {} is not stored", digest.short())))?;
        let tools = parse_tools(&text)
            .map_err(|error| broken(format!("tool list {} is damaged: {error}", digest.short())))?;
        let tools = Arc::new(tools);
        self.tools.insert(*digest, tools.clone());
        Ok(tools)
    }
}
