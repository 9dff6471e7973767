//! The holder's side of a session.

use std::path::Path;

use hermes_core::{Seq, SessionId, TurnNo};

use crate::{Batch, Committed, StoreError};

/// Writes to one session while it holds its lease.
pub struct SessionWriter {
    lease: SessionLease,
    last: Seq,
}

/// Proof that a session is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLease {
    session: SessionId,
}

#[expect(
    unused_variables,
    clippy::unused_self,
    clippy::needless_pass_by_ref_mut,
    reason = "signatures first"
)]
impl SessionWriter {
    /// The session.
    pub fn id(&self) -> &SessionId {
        &self.lease.session
    }
    /// The lease, for [`crate::DeleteRequest::held`].
    pub fn lease(&self) -> &SessionLease {
        &self.lease
    }
    /// Gives out the next seq.
    pub fn next_seq(&mut self) -> Seq {
        self.last = self.last.next();
        self.last
    }
    /// The last seq given out.
    pub fn last_seq(&self) -> Seq {
        self.last
    }
    /// Stores a batch.
    pub fn commit(&mut self, batch: Batch) -> Result<Committed, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Renews the lease.
    pub fn renew(&mut self) -> Result<(), StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Begins the draft of an answer; takes a seq for its row.
    pub fn draft(&mut self, turn: TurnNo) -> Result<Draft, StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Gives the lease back.
    pub fn release(self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// What a piece of a draft is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DraftKind {
    /// Text of the answer.
    Text,
    /// Reasoning.
    Reasoning,
}

/// The draft of a streaming answer.
#[derive(Debug)]
pub struct Draft {
    row: Seq,
    path: std::path::PathBuf,
}

#[expect(
    unused_variables,
    clippy::unused_self,
    clippy::needless_pass_by_ref_mut,
    reason = "signatures first"
)]
impl Draft {
    /// The seq that the answer's row takes.
    pub fn row(&self) -> Seq {
        self.row
    }
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Appends a piece: one write, before it is shown.
    pub fn append(&mut self, kind: DraftKind, text: &str) -> Result<(), StoreError> {
        Err(StoreError::ReadOnly)
    }
    /// Removes the draft, after its row is committed (the commit of that row does it too).
    pub fn discard(self) -> Result<(), StoreError> {
        Ok(())
    }
}
