//! Choosing sessions by what they are: for bulk deletion and archiving, and for the sweeps.

use hermes_core::{SessionId, Timestamp};
use rusqlite::ToSql;

use crate::db::Doing as _;
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
        let ids = self.inner().read(|connection| select(connection, selection))?;
        let mut found = Vec::new();
        for id in ids.unwrap_or_default() {
            found.extend(self.session(&id)?.filter(|info| !(selection.empty && info.spooled)));
        }
        Ok(found)
    }
}

fn select(
    connection: &rusqlite::Connection,
    selection: &Selection,
) -> Result<Vec<SessionId>, StoreError> {
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
