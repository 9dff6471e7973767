//! The store's public face.

use std::io;
use std::sync::Arc;

use hermes_core::{Digest, Env, GenerationNo, RequestId, Seq, SessionId, Snapshot, WireProfile};

use crate::{
    Batch, ClaimedEvent, DeleteReceipt, DeleteRequest, EventNo, Finding, History, OpenMode,
    Recovered, RequestFilter, RequestRecord, SessionFilter, SessionInfo, SessionInit,
    SessionWriter, StoreError, StoreOptions, StorePaths, TitleSource,
};

/// A session store. Cheap to clone.
#[derive(Clone)]
pub struct Store;

#[expect(
    unused_variables,
    clippy::needless_pass_by_value,
    clippy::unused_self,
    reason = "signatures first"
)]
impl Store {
    /// Opens the store.
    pub fn open(paths: StorePaths, env: Arc<dyn Env>, mode: OpenMode) -> Result<Self, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// As [`Store::open`], with other bounds.
    pub fn open_with(
        paths: StorePaths,
        env: Arc<dyn Env>,
        mode: OpenMode,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Creates a session and takes its lease.
    pub fn create_session(
        &self,
        init: SessionInit,
        first: Batch,
    ) -> Result<SessionWriter, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Takes the lease of a session.
    pub fn open_session(&self, id: &SessionId) -> Result<SessionWriter, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Copies `from` up to `cut` at `generation` into a new session.
    pub fn branch(
        &self,
        from: &SessionId,
        at: GenerationNo,
        cut: Seq,
        init: SessionInit,
    ) -> Result<SessionWriter, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Takes in what dead processes left.
    pub fn recover_all(&self) -> Result<Vec<Recovered>, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// The facts of a session.
    pub fn session(&self, id: &SessionId) -> Result<Option<SessionInfo>, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Finds a session by id, unique prefix, title or `latest`.
    pub fn resolve(
        &self,
        reference: &str,
        workspace: Option<&str>,
    ) -> Result<SessionId, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Lists sessions.
    pub fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Rows and generations of a session.
    pub fn history(&self, id: &SessionId) -> Result<History, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// The prompt of a generation.
    pub fn snapshot(&self, id: &SessionId, g: GenerationNo) -> Result<Snapshot, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// A prompt or tool array.
    pub fn text(&self, digest: &Digest) -> Result<Option<Arc<str>>, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// A wire profile.
    pub fn wire_profile(&self, digest: &Digest) -> Result<Option<WireProfile>, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Binary content.
    pub fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Lists ledger rows.
    pub fn requests(&self, filter: &RequestFilter) -> Result<Vec<RequestRecord>, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// One ledger row by id or unique prefix.
    pub fn request(&self, reference: &str) -> Result<RequestRecord, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// The kept body of a request.
    pub fn kept_body(&self, id: &RequestId) -> Result<Option<Vec<u8>>, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Writes a session as one JSON line.
    pub fn export_jsonl(&self, id: &SessionId, out: &mut dyn io::Write) -> Result<(), StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// The one delete function.
    pub fn delete_session(&self, request: DeleteRequest<'_>) -> Result<DeleteReceipt, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Gives a session a title; None takes it away.
    pub fn set_title(
        &self,
        id: &SessionId,
        title: Option<&str>,
        source: TitleSource,
    ) -> Result<Option<String>, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Claims undelivered events.
    pub fn claim_events(
        &self,
        session: Option<&SessionId>,
        limit: usize,
    ) -> Result<Vec<ClaimedEvent>, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Marks a claimed event delivered.
    pub fn event_delivered(&self, no: EventNo) -> Result<(), StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// How many events wait for delivery.
    pub fn pending_events(&self) -> Result<u64, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Keeps what was learned about an endpoint.
    pub fn remember_profile(
        &self,
        endpoint_key: &str,
        profile: &WireProfile,
    ) -> Result<(), StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// What was learned about an endpoint.
    pub fn learned_profile(&self, endpoint_key: &str) -> Result<Option<WireProfile>, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Checks the file and every invariant.
    pub fn check(&self) -> Result<Vec<Finding>, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Closes the store.
    pub fn close(self) {}
}
