//! Reading sessions: facts, histories, prompts, with whatever still waits in side files.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_core::{
    AttemptOutcome, Digest, Generation, GenerationNo, Lane, Row, Seq, SessionId, Snapshot,
    Standing, Timestamp, Usage, WireProfile,
};
use rusqlite::{Connection, OptionalExtension as _, ToSql};

use crate::codes::parent_of_word;
use crate::db::Doing as _;
use crate::engage;
use crate::rows::{self, unreadable};
use crate::spool::SpoolContents;
use crate::{History, Record, SessionFilter, SessionInfo, StoreError, title};

const COLUMNS: &str = "s.id, s.source, s.lane, s.cwd, s.git_repo_root, s.git_branch, s.model,
    s.billing_provider, s.billing_base_url, s.parent_session_id, s.parent_kind, s.title,
    s.started_at, s.ended_at, s.end_reason, s.last_activity_at, s.message_count,
    s.tool_call_count, s.api_call_count, s.input_tokens, s.output_tokens, s.cache_read_tokens,
    s.cache_write_tokens, s.reasoning_tokens, s.compactions, s.archived";

/// Surfaces on which no person speaks.
const UNATTENDED: [&str; 5] = ["cron", "batch", "kanban", "subagent", "tool"];

/// A point in time from an epoch-second REAL.
pub(crate) fn time_of(seconds: f64) -> Timestamp {
    Timestamp((seconds * 1e6).round() as i64)
}

fn info_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<SessionInfo> {
    let count = |at: usize| row.get::<_, Option<i64>>(at).map(|n| n.unwrap_or(0) as u64);
    let text = |at: usize| row.get::<_, Option<String>>(at);
    let time = |at: usize| row.get::<_, Option<f64>>(at).map(|seconds| seconds.map(time_of));
    let started_at = time(12)?.unwrap_or_default();
    let kind = text(10)?.as_deref().and_then(parent_of_word);
    Ok(SessionInfo {
        id: SessionId::new(row.get::<_, String>(0)?),
        source: row.get(1)?,
        lane: text(2)?.map(Lane::from_key),
        cwd: text(3)?,
        git_root: text(4)?,
        git_branch: text(5)?,
        model: text(6)?.unwrap_or_default(),
        provider: text(7)?.unwrap_or_default(),
        base_url: text(8)?,
        parent: text(9)?.map(SessionId::new).zip(kind),
        title: text(11)?,
        started_at,
        ended_at: time(13)?,
        end_reason: text(14)?,
        last_activity_at: time(15)?.unwrap_or(started_at),
        message_count: count(16)?,
        tool_call_count: count(17)?,
        api_calls: count(18)?,
        usage: Usage {
            input: Some(count(19)?),
            output: Some(count(20)?),
            cache_read: Some(count(21)?),
            cache_write: Some(count(22)?),
            reasoning: Some(count(23)?),
        },
        compactions: row.get(24)?,
        archived: row.get(25)?,
        spooled: false,
    })
}

/// The facts of one session.
pub(crate) fn session(
    connection: &Connection,
    id: &SessionId,
) -> Result<Option<SessionInfo>, StoreError> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM sessions s WHERE s.id = ?1"))
        .and_then(|mut statement| statement.query_row([id.as_str()], info_of).optional())
        .doing("reading a session")
}

/// Sessions that match, the most recently used first.
pub(crate) fn sessions(
    connection: &Connection,
    filter: &SessionFilter,
) -> Result<Vec<SessionInfo>, StoreError> {
    const DOING: &str = "listing sessions";
    let mut wheres = vec!["1".to_owned()];
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    if !filter.sources.is_empty() {
        let marks: Vec<String> = (1..=filter.sources.len()).map(|n| format!("?{n}")).collect();
        wheres.push(format!("s.source IN ({})", marks.join(",")));
        for source in &filter.sources {
            values.push(Box::new(source.clone()));
        }
    }
    if let Some(workspace) = &filter.workspace {
        values.push(Box::new(workspace.clone()));
        wheres.push(format!("coalesce(s.git_repo_root, s.cwd) = ?{}", values.len()));
    }
    if let Some(lane) = &filter.lane {
        values.push(Box::new(lane.key().to_owned()));
        wheres.push(format!("s.lane = ?{}", values.len()));
    }
    if !filter.archived {
        wheres.push("s.archived = 0".to_owned());
    }
    if !filter.delegates {
        wheres.push("s.parent_kind IS NOT 'delegate'".to_owned());
    }
    if filter.to_go_on {
        let unattended = UNATTENDED.map(|source| format!("'{source}'")).join(",");
        wheres.push(format!("s.message_count > 0 AND s.source NOT IN ({unattended})"));
    }
    let limit = filter.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions s WHERE {}
         ORDER BY s.last_activity_at DESC, s.session_no DESC LIMIT {limit}",
        wheres.join(" AND ")
    );
    let values: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
    let mut statement = connection.prepare_cached(&sql).doing(DOING)?;
    let found = statement.query_map(values.as_slice(), info_of).doing(DOING)?;
    found.collect::<Result<_, _>>().doing(DOING)
}

/// Whether a session passes the filter; for those that are only in a side file.
pub(crate) fn passes(info: &SessionInfo, filter: &SessionFilter) -> bool {
    let workspace = info.git_root.as_ref().or(info.cwd.as_ref());
    (filter.sources.is_empty() || filter.sources.contains(&info.source))
        && filter.workspace.as_ref().is_none_or(|wanted| workspace == Some(wanted))
        && filter.lane.as_ref().is_none_or(|wanted| info.lane.as_ref() == Some(wanted))
        && (filter.delegates || !matches!(info.parent, Some((_, crate::ParentKind::Delegate))))
        && (!filter.to_go_on
            || (info.message_count > 0 && !UNATTENDED.contains(&info.source.as_str())))
}

/// Ids that begin with a prefix, the first few, and the session with a title: letter for letter, or the
/// only one that differs in capitals alone.
pub(crate) fn candidates(
    connection: &Connection,
    reference: &str,
) -> Result<(Vec<SessionId>, Option<SessionId>), StoreError> {
    const DOING: &str = "resolving a session";
    let mut statement = connection
        .prepare_cached("SELECT id FROM sessions WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 6")
        .doing(DOING)?;
    let ids = statement
        .query_map([reference, &format!("{reference}\u{10ffff}")], |row| row.get::<_, String>(0))
        .doing(DOING)?
        .map(|id| id.map(SessionId::new))
        .collect::<Result<_, _>>()
        .doing(DOING)?;
    let title = title::clean(reference);
    let with = |sql: &str| -> Result<Vec<String>, StoreError> {
        let mut statement = connection.prepare_cached(sql).doing(DOING)?;
        let found = statement.query_map([&title], |row| row.get(0)).doing(DOING)?;
        found.collect::<Result<_, _>>().doing(DOING)
    };
    let mut titled = with("SELECT id FROM sessions WHERE title = ?1")?;
    if titled.is_empty() {
        titled = with("SELECT id FROM sessions WHERE title = ?1 COLLATE NOCASE LIMIT 2")?;
    }
    let titled = (titled.len() == 1).then(|| titled.pop()).flatten();
    Ok((ids, titled.map(SessionId::new)))
}

/// The session in which one goes on after compactions that made a new one each time: the last with a
/// message in it. Where several go on, the one that was compacted again, then one that has not ended,
/// then the newest.
pub(crate) fn tip(connection: &Connection, id: &SessionId) -> Result<SessionId, StoreError> {
    const LONGEST: usize = 1000;
    let mut tip = id.clone();
    let mut seen = vec![id.clone()];
    while let Some(at) = seen.last().filter(|_| seen.len() <= LONGEST) {
        let next = connection
            .prepare_cached(
                "SELECT id, message_count > 0 FROM sessions
                 WHERE parent_session_id = ?1 AND parent_kind = 'compaction'
                 ORDER BY end_reason IS NOT 'compression', ended_at IS NOT NULL, started_at DESC,
                     session_no DESC LIMIT 1",
            )
            .and_then(|mut statement| {
                let row = |row: &rusqlite::Row<'_>| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, Option<bool>>(1)?.unwrap_or(false)))
                };
                statement.query_row([at.as_str()], row).optional()
            })
            .doing("looking for the end of a conversation")?;
        let Some((next, has_messages)) = next else { break };
        let next = SessionId::new(next);
        if seen.contains(&next) {
            break;
        }
        if has_messages {
            tip.clone_from(&next);
        }
        seen.push(next);
    }
    Ok(tip)
}

/// What the database has of a session's history; None if it does not know the session.
pub(crate) fn history(
    connection: &Connection,
    id: &SessionId,
) -> Result<Option<History>, StoreError> {
    let Some(session_no) = engage::number_of(connection, id)? else { return Ok(None) };
    let rows = rows::load_rows(connection, session_no, None)?;
    let generations = rows::load_generations(connection, session_no)?;
    Ok(Some(History {
        head: generations.last().map(|generation| generation.n),
        rows,
        generations,
        last_seq: engage::last_seq(connection, session_no)?,
    }))
}

/// Adds what waits in a side file.
pub(crate) fn merge(history: &mut History, spool: &SpoolContents) {
    let mut rows: BTreeMap<Seq, Row> =
        std::mem::take(&mut history.rows).into_iter().map(|row| (row.seq, row)).collect();
    let mut generations: BTreeMap<GenerationNo, Generation> =
        std::mem::take(&mut history.generations).into_iter().map(|g| (g.n, g)).collect();
    let mut last = history.last_seq;
    for record in spool.records() {
        match record {
            Record::Row(row) => {
                rows.entry(row.seq).or_insert_with(|| row.clone());
            }
            Record::Part(part) => {
                if let Some(row) = rows.get_mut(&part.row)
                    && row.parts.iter().all(|known| known.seq != part.seq)
                {
                    row.parts.push(part.clone());
                }
            }
            Record::Generation(generation) => {
                last = last.max(crate::flags::reach(&generation.ops));
                generations.entry(generation.n).or_insert_with(|| generation.clone());
            }
            Record::AttemptStarted(attempt) => last = last.max(attempt.cut),
            _ => {}
        }
    }
    for row in rows.values_mut() {
        row.sort_parts();
        last = last.max(row.seq);
        last = row.parts.iter().map(|part| part.seq).fold(last, Seq::max);
    }
    *history = History {
        rows: rows.into_values().collect(),
        head: generations.keys().next_back().copied(),
        generations: generations.into_values().collect(),
        last_seq: last,
    };
}

/// The facts of a session with what waits in its side file; None if neither knows it.
pub(crate) fn merge_info(
    stored: Option<SessionInfo>,
    spool: &SpoolContents,
) -> Option<SessionInfo> {
    let mut info = match (stored, &spool.header.init) {
        (Some(info), _) => info,
        (None, Some(init)) => SessionInfo {
            id: init.id.clone(),
            source: init.source.clone(),
            lane: init.lane.clone(),
            cwd: init.cwd.clone(),
            git_root: init.git_root.clone(),
            git_branch: init.git_branch.clone(),
            model: init.model.clone(),
            provider: init.provider.clone(),
            base_url: init.base_url.clone(),
            parent: init.parent.clone(),
            title: init.title.as_deref().and_then(crate::title::clean),
            started_at: init.started_at,
            ended_at: None,
            end_reason: None,
            last_activity_at: init.started_at,
            message_count: 0,
            tool_call_count: 0,
            api_calls: 0,
            usage: Usage {
                input: Some(0),
                output: Some(0),
                cache_read: Some(0),
                cache_write: Some(0),
                reasoning: Some(0),
            },
            compactions: 0,
            archived: false,
            spooled: true,
        },
        (None, None) => return None,
    };
    info.spooled = true;
    let add = |total: &mut Option<u64>, more: Option<u64>| {
        *total = Some(total.unwrap_or(0) + more.unwrap_or(0));
    };
    for record in spool.records() {
        match record {
            Record::Row(row) => {
                info.last_activity_at = info.last_activity_at.max(row.created_at);
                if row.standing == Standing::InOrder {
                    info.message_count += 1;
                    info.tool_call_count += row.tool_calls().count() as u64;
                }
            }
            Record::AttemptEnded(end) => {
                info.last_activity_at = info.last_activity_at.max(end.ended_at);
                info.api_calls += u64::from(end.outcome == AttemptOutcome::Ok);
                add(&mut info.usage.input, end.usage.input);
                add(&mut info.usage.output, end.usage.output);
                add(&mut info.usage.cache_read, end.usage.cache_read);
                add(&mut info.usage.cache_write, end.usage.cache_write);
                add(&mut info.usage.reasoning, end.usage.reasoning);
            }
            Record::Patch(patch) => {
                let set = |place: &mut Option<String>, value: &Option<String>| {
                    if value.is_some() {
                        place.clone_from(value);
                    }
                };
                set(&mut info.title, &patch.title);
                set(&mut info.cwd, &patch.cwd);
                set(&mut info.git_root, &patch.git_root);
                set(&mut info.git_branch, &patch.git_branch);
                set(&mut info.base_url, &patch.base_url);
                if let Some(model) = &patch.model {
                    info.model.clone_from(model);
                }
                if let Some(provider) = &patch.provider {
                    info.provider.clone_from(provider);
                }
                if patch.reopened {
                    info.ended_at = None;
                    info.end_reason = None;
                }
                if let Some(ended) = &patch.ended
                    && info.ended_at.is_none()
                {
                    info.ended_at = Some(ended.at);
                    info.end_reason = Some(ended.reason.clone());
                }
                info.compactions = patch.compactions.unwrap_or(info.compactions);
            }
            _ => {}
        }
    }
    Some(info)
}

/// A prompt or tool array.
pub(crate) fn text(
    connection: &Connection,
    digest: &Digest,
) -> Result<Option<Arc<str>>, StoreError> {
    connection
        .prepare_cached("SELECT body FROM text WHERE digest = ?1")
        .and_then(|mut statement| {
            statement
                .query_row([digest.as_bytes()], |row| {
                    row.get_ref(0)?.as_str().map(Arc::from).map_err(Into::into)
                })
                .optional()
        })
        .doing("reading a text")
}

/// Binary content.
pub(crate) fn blob(
    connection: &Connection,
    digest: &Digest,
) -> Result<Option<Arc<[u8]>>, StoreError> {
    connection
        .prepare_cached("SELECT bytes FROM blob WHERE digest = ?1")
        .and_then(|mut statement| {
            statement
                .query_row([digest.as_bytes()], |row| {
                    row.get_ref(0)?.as_blob().map(Arc::from).map_err(Into::into)
                })
                .optional()
        })
        .doing("reading a blob")
}

/// A wire profile.
pub(crate) fn profile(
    connection: &Connection,
    digest: &Digest,
) -> Result<Option<WireProfile>, StoreError> {
    let json: Option<String> = connection
        .prepare_cached("SELECT json FROM wire_profile WHERE digest = ?1")
        .and_then(|mut statement| {
            statement.query_row([digest.as_bytes()], |row| row.get(0)).optional()
        })
        .doing("reading a wire profile")?;
    json.map(|json| {
        serde_json::from_str(&json).map_err(|error| {
            unreadable(format!("wire profile {}", digest.short()), error.to_string())
        })
    })
    .transpose()
}

/// The manifest of a generation.
pub(crate) fn manifest(
    connection: &Connection,
    session_no: i64,
    generation: GenerationNo,
) -> Result<Option<Vec<hermes_core::Block>>, StoreError> {
    let packed: Option<Vec<u8>> = connection
        .query_row(
            "SELECT blocks FROM manifest WHERE session_no = ?1 AND n = ?2",
            rusqlite::params![session_no, generation.0],
            |row| row.get(0),
        )
        .optional()
        .doing("reading a manifest")?;
    let Some(packed) = packed else { return Ok(None) };
    let place = || format!("manifest of generation {generation}");
    let json = zstd::stream::decode_all(packed.as_slice())
        .map_err(|error| unreadable(place(), error.to_string()))?;
    serde_json::from_slice(&json).map(Some).map_err(|error| unreadable(place(), error.to_string()))
}

/// The prompt of a generation: its text and the manifest in force, which is its own or that of
/// the nearest ancestor with the same prompt.
pub(crate) fn snapshot(
    generations: &[Generation],
    at: GenerationNo,
    mut text: impl FnMut(&Digest) -> Result<Option<Arc<str>>, StoreError>,
    mut manifest: impl FnMut(GenerationNo) -> Result<Option<Vec<hermes_core::Block>>, StoreError>,
) -> Result<Snapshot, StoreError> {
    let find = |n: GenerationNo| generations.iter().find(|generation| generation.n == n);
    let Some(generation) = find(at) else {
        return Err(StoreError::NotFound {
            what: "generation",
            reference: at.to_string(),
            hint: "run `hermes sessions check`".to_owned(),
        });
    };
    let digest = generation.prompt;
    let Some(text) = text(&digest)? else {
        return Err(StoreError::Damaged { what: "prompt text", digest });
    };
    let mut blocks = Vec::new();
    let mut next = Some(generation);
    let mut steps = 0;
    while let Some(generation) = next {
        if generation.prompt != digest || steps > generations.len() {
            break;
        }
        if let Some(found) = manifest(generation.n)? {
            blocks = found;
            break;
        }
        next = generation.parent.and_then(find);
        steps += 1;
    }
    Ok(Snapshot { text, digest, blocks })
}
