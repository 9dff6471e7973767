//! Choosing sessions by what they are: for bulk deletion and archiving, and for the sweeps.

use std::collections::BTreeSet;

use hermes_core::{SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, ToSql, params};

use crate::db::Doing as _;
use crate::delete::with_relatives;
use crate::engage;
use crate::store::Store;
use crate::{SessionInfo, StoreError};

const DOING: &str = "choosing sessions";

/// Which sessions; every condition that is given must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Last used before this point.
    pub idle_since: Option<Timestamp>,
    /// Last used at this point or later.
    pub used_since: Option<Timestamp>,
    /// Started before this point.
    pub started_before: Option<Timestamp>,
    /// Started at this point or later.
    pub started_after: Option<Timestamp>,
    /// The surface.
    pub source: Option<String>,
    /// Words in the title, in any case.
    pub title: Option<String>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// The working directory or git root, or a folder above it.
    pub cwd: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The provider.
    pub provider: Option<String>,
    /// The git branch.
    pub branch: Option<String>,
    /// The profile that it says it belongs to.
    pub owner: Option<String>,
    /// At least so many messages.
    pub min_messages: Option<u64>,
    /// At most so many messages.
    pub max_messages: Option<u64>,
    /// Archived ones too.
    pub archived: bool,
    /// Pinned ones too.
    pub pinned: bool,
    /// Only sessions without a row, a title and a child.
    pub empty: bool,
    /// Only sessions that ended.
    pub ended: bool,
}

impl Selection {
    /// Whether any condition is given that narrows the choice.
    pub fn is_narrow(&self) -> bool {
        let widest = Self { archived: self.archived, pinned: self.pinned, ..Self::default() };
        *self != widest
    }

    /// Sessions that never held a message and that nobody goes on with: ended, or idle since then.
    pub fn ghosts(idle_since: Timestamp) -> Self {
        Self { empty: true, idle_since: Some(idle_since), archived: true, ..Self::default() }
    }
}

impl Store {
    /// The sessions that a selection names, the least recently used first.
    pub fn select(&self, selection: &Selection) -> Result<Vec<SessionInfo>, StoreError> {
        let ids = self.inner().read_at_once(|connection| {
            let found = select(connection, selection)?;
            spare(connection, selection, found)
        })?;
        let mut found = Vec::new();
        for id in ids.unwrap_or_default() {
            found.extend(self.session(&id)?.filter(|info| !(selection.empty && info.spooled)));
        }
        Ok(found)
    }
}

impl Store {
    /// Whether something that is done from time to time is due; then it counts as done now.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn is_due(&self, what: &str, every_millis: i64) -> Result<bool, StoreError> {
        const DOING: &str = "looking when something was done";
        let inner = self.inner();
        let (wait, now) = (inner.options().busy_timeout, inner.now());
        let key = format!("done_{what}");
        let last = |connection: &Connection| -> Result<Option<i64>, StoreError> {
            connection
                .query_row(
                    "SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = ?1",
                    [&key],
                    |row| row.get(0),
                )
                .optional()
                .doing(DOING)
        };
        let is_due = |last: Option<i64>| {
            last.is_none_or(|last| now >= Timestamp(last).plus_millis(every_millis))
        };
        // Most times it is not, and a read costs little.
        if !is_due(inner.read(last)?.flatten()) {
            return Ok(false);
        }
        inner.write(|side| {
            side.light_transaction(wait, |tx| {
                let due = is_due(last(tx)?);
                if due {
                    tx.execute(
                        "INSERT OR REPLACE INTO state_meta (key, value) VALUES (?1, ?2)",
                        params![key, now.0.to_string()],
                    )
                    .doing(DOING)?;
                }
                Ok(due)
            })
        })
    }
}

/// Leaves out those whose relatives a choice does not mean: what goes along with a session (its
/// compaction chain, the work it delegated) is no less pinned, archived or in use than itself, and a
/// session that holds nothing takes none along that does.
fn spare(
    connection: &Connection,
    selection: &Selection,
    found: Vec<SessionId>,
) -> Result<Vec<SessionId>, StoreError> {
    let chosen: BTreeSet<SessionId> = found.iter().cloned().collect();
    let mut kept = Vec::new();
    for id in found {
        let Some(no) = engage::number_of(connection, &id)? else { continue };
        let own = (id.clone(), no);
        let family = with_relatives(connection, &[first_of(connection, own.clone())?])?;
        let mut spared = false;
        for (relative, no) in family.iter().filter(|(relative, _)| *relative != id) {
            let (pinned, archived, activity): (bool, bool, f64) = connection
                .prepare_cached(
                    "SELECT pinned, archived, coalesce(last_activity_at, started_at)
                     FROM sessions WHERE session_no = ?1",
                )
                .and_then(|mut statement| {
                    statement.query_row([no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                })
                .doing(DOING)?;
            let late = |at: Timestamp| activity >= at.as_seconds_f64();
            spared |= (pinned && !selection.pinned)
                || (archived && !selection.archived)
                || selection.idle_since.is_some_and(late)
                || (selection.empty && !chosen.contains(relative) && goes(connection, &own, *no)?);
        }
        if !spared {
            kept.push(id);
        }
    }
    Ok(kept)
}

/// Whether a session goes along with another one.
fn goes(connection: &Connection, with: &(SessionId, i64), no: i64) -> Result<bool, StoreError> {
    let along = with_relatives(connection, std::slice::from_ref(with))?;
    Ok(along.iter().any(|(_, other)| *other == no))
}

/// Where the chain begins, and whose work it is.
fn first_of(
    connection: &Connection,
    session: (SessionId, i64),
) -> Result<(SessionId, i64), StoreError> {
    let mut seen = BTreeSet::from([session.1]);
    let mut first = session;
    let mut statement = connection
        .prepare_cached(
            "SELECT p.id, p.session_no FROM sessions c JOIN sessions p ON p.id = c.parent_session_id
             WHERE c.session_no = ?1 AND c.parent_kind IN ('compaction', 'delegate')",
        )
        .doing(DOING)?;
    loop {
        let parent = statement
            .query_row([first.1], |row| Ok((SessionId::new(row.get::<_, String>(0)?), row.get(1)?)))
            .optional()
            .doing(DOING)?;
        match parent {
            Some((id, no)) if seen.insert(no) => first = (id, no),
            _ => return Ok(first),
        }
    }
}

fn select(connection: &Connection, selection: &Selection) -> Result<Vec<SessionId>, StoreError> {
    let mut wheres: Vec<String> = vec!["1".to_owned()];
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    let mut add = |condition: &str, value: Box<dyn ToSql>| {
        values.push(value);
        wheres.push(condition.replace('#', &format!("?{}", values.len())));
    };
    let seconds = |at: Timestamp| Box::new(at.as_seconds_f64());
    let activity = "coalesce(s.last_activity_at, s.started_at)";
    if let Some(at) = selection.idle_since {
        add(&format!("{activity} < #"), seconds(at));
    }
    if let Some(at) = selection.used_since {
        add(&format!("{activity} >= #"), seconds(at));
    }
    if let Some(at) = selection.started_before {
        add("s.started_at < #", seconds(at));
    }
    if let Some(at) = selection.started_after {
        add("s.started_at >= #", seconds(at));
    }
    for (condition, value) in [
        ("s.source = #", &selection.source),
        ("instr(lower(s.title), lower(#)) > 0", &selection.title),
        ("s.end_reason = #", &selection.end_reason),
        ("s.model = #", &selection.model),
        ("s.billing_provider = #", &selection.provider),
        ("s.git_branch = #", &selection.branch),
        ("s.profile_name = #", &selection.owner),
    ] {
        if let Some(value) = value {
            add(condition, Box::new(value.clone()));
        }
    }
    if let Some(folder) = &selection.cwd {
        let folder = folder.trim_end_matches('/').to_owned();
        add(
            "(s.cwd = # OR s.git_repo_root = # OR substr(s.cwd, 1, length(#) + 1) = # || '/')",
            Box::new(folder),
        );
    }
    if let Some(least) = selection.min_messages {
        add("s.message_count >= #", Box::new(i64::try_from(least).unwrap_or(i64::MAX)));
    }
    if let Some(most) = selection.max_messages {
        add("s.message_count <= #", Box::new(i64::try_from(most).unwrap_or(i64::MAX)));
    }
    if !selection.archived {
        wheres.push("s.archived = 0".to_owned());
    }
    if !selection.pinned {
        wheres.push("s.pinned = 0".to_owned());
    }
    if selection.owner.is_some() {
        // Delegated work is where the session is that handed it on.
        wheres.push(
            "NOT (s.parent_kind IS 'delegate' AND EXISTS
                 (SELECT 1 FROM sessions p WHERE p.id = s.parent_session_id))"
                .to_owned(),
        );
    }
    if selection.ended {
        wheres.push("s.ended_at IS NOT NULL".to_owned());
    }
    if selection.empty {
        wheres.push(
            "s.title IS NULL
             AND NOT EXISTS (SELECT 1 FROM row r WHERE r.session_no = s.session_no)
             AND NOT EXISTS (SELECT 1 FROM sessions c WHERE c.parent_session_id = s.id
                 AND c.parent_kind IN ('compaction', 'delegate'))"
                .to_owned(),
        );
    }
    let sql = format!(
        "SELECT s.id FROM sessions s WHERE {} ORDER BY {activity}, s.session_no",
        wheres.join(" AND ")
    );
    let values: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
    let mut statement = connection.prepare(&sql).doing(DOING)?;
    let found = statement
        .query_map(values.as_slice(), |row| row.get::<_, String>(0).map(SessionId::new))
        .doing(DOING)?;
    found.collect::<Result<_, _>>().doing(DOING)
}
