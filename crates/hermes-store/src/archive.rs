//! Archiving: sessions leave the lists and stay as they are.
//!
//! A conversation is archived with its whole compaction chain. A deliberate archive that changes
//! anything writes one event; an automatic one, and taking out of the archive, write none.

use hermes_core::{DeleteReason, OutboxEvent, SessionDelete, SessionId};
use rusqlite::Connection;

use crate::db::Doing as _;
use crate::store::Store;
use crate::{StoreError, apply, engage};

const DOING: &str = "archiving sessions";

/// A request to archive sessions or to take them out.
#[derive(Clone, Debug)]
pub struct ArchiveRequest {
    /// The sessions.
    pub ids: Vec<SessionId>,
    /// Into the archive, or out of it.
    pub archived: bool,
    /// Done by a sweep of idle sessions, not by a person.
    pub automatic: bool,
    /// The profile, for the event.
    pub profile: String,
    /// A folder of the caller's that holds files of the sessions, for the event.
    pub sessions_dir: Option<String>,
    /// Report what would change and change nothing.
    pub dry_run: bool,
}

impl ArchiveRequest {
    /// A person archives these, or takes them out.
    pub fn new(ids: Vec<SessionId>, archived: bool) -> Self {
        Self {
            ids,
            archived,
            automatic: false,
            profile: "default".to_owned(),
            sessions_dir: None,
            dry_run: false,
        }
    }
}

impl Store {
    /// Archives sessions or takes them out; returns those that changed, chains included.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] or [`StoreError::Deleted`] if one is not there.
    pub fn archive(&self, request: ArchiveRequest) -> Result<Vec<SessionId>, StoreError> {
        for id in &request.ids {
            if self.session(id)?.is_none() {
                return Err(self.missing(id)?);
            }
        }
        let inner = self.inner();
        let (wait, now) = (inner.options().busy_timeout, inner.now());
        if request.dry_run {
            let changed = inner.read_at_once(|connection| {
                let mut changed = Vec::new();
                for id in &request.ids {
                    change(connection, &request, id, &mut changed)?;
                }
                Ok(changed)
            })?;
            return Ok(changed.unwrap_or_default());
        }
        inner.write(move |side| {
            side.transaction(wait, |tx| {
                let mut changed = Vec::new();
                for id in &request.ids {
                    change(tx, &request, id, &mut changed)?;
                }
                if let Some(first) = changed.first()
                    && request.archived
                    && !request.automatic
                {
                    let event = OutboxEvent::OnSessionDelete(SessionDelete {
                        session_id: first.clone(),
                        reason: DeleteReason::Archive,
                        profile: request.profile.clone(),
                        deleted_ids: if changed.len() > 1 { changed.clone() } else { Vec::new() },
                        sessions_dir: request.sessions_dir.clone(),
                    });
                    apply::store_event(tx, &event, now)?;
                }
                Ok(changed)
            })
        })
    }
}

fn change(
    tx: &Connection,
    request: &ArchiveRequest,
    id: &SessionId,
    changed: &mut Vec<SessionId>,
) -> Result<(), StoreError> {
    let Some(own) = engage::number_of(tx, id)? else { return Ok(()) };
    let mut chain: Vec<i64> =
        crate::search::chain_of(tx, id.as_str())?.into_iter().filter(|no| *no != own).collect();
    chain.sort_unstable();
    for session_no in std::iter::once(own).chain(chain) {
        let (id, was): (String, bool) = tx
            .query_row(
                "SELECT id, archived FROM sessions WHERE session_no = ?1",
                [session_no],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .doing(DOING)?;
        let id = SessionId::new(id);
        if was == request.archived || changed.contains(&id) {
            continue;
        }
        if !request.dry_run {
            tx.execute(
                "UPDATE sessions SET archived = ?2, auto_archived = ?3 WHERE session_no = ?1",
                rusqlite::params![
                    session_no,
                    request.archived,
                    request.archived && request.automatic
                ],
            )
            .doing(DOING)?;
        }
        changed.push(id);
    }
    Ok(())
}
