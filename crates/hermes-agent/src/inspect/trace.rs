//! Where a text is now and was: files, snapshots, tool definitions, rows by origin; and the first
//! and last request that carried it in each place.
//!
//! Each stored text is searched once. Which requests carried it follows from generation and cut,
//! without making any body again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use hermes_context::{hints, skills, source_of_path, source_text};
use hermes_core::{
    Block, Digest, GenerationNo, RequestId, Row, Seq, SessionId, Snapshot, Source, Standing,
    Timestamp, fold_view,
};
use hermes_store::{Carrier, Frame, Store};
use serde::Serialize;

use super::{InspectError, sources, words};
use crate::Services;
use crate::conversation::Conversation;

/// Rows that are listed; the others are counted.
const MAX_ROWS: usize = 200;

/// Folder entries that are looked at for nested project files.
const MAX_ENTRIES: usize = 50_000;

/// Every place of a text.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceReport {
    /// The text.
    pub text: String,
    /// Files of context that hold it now.
    pub files: Vec<FilePlace>,
    /// Prompts that hold it.
    pub snapshots: Vec<SnapshotPlace>,
    /// Rows that hold it.
    pub rows: Vec<RowPlace>,
    /// Rows that hold it and are not listed.
    pub more_rows: u64,
}

/// A file that holds the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilePlace {
    /// Its path.
    pub path: String,
    /// The first line with the text, from 1.
    pub line: usize,
    /// How often it holds the text.
    pub times: usize,
    /// What kind of source it is.
    pub kind: &'static str,
    /// What would become of it in a new session here.
    pub verdict: String,
    /// When a change of it reaches the model.
    pub reaches_model: &'static str,
}

/// A prompt or tool list that holds the text, in one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotPlace {
    /// The session.
    pub session: SessionId,
    /// The generations that carry it.
    pub generations: Vec<GenerationNo>,
    /// Digest of the prompt, or of the tool definitions.
    pub digest: Digest,
    /// The blocks that hold the text; `tools` for the tool definitions.
    pub blocks: Vec<String>,
    /// Whether the session's next request would carry it.
    pub in_force: bool,
    /// The requests that carried it.
    pub carried: Carried,
}

/// A row's part that holds the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowPlace {
    /// The session.
    pub session: SessionId,
    /// The row.
    pub row: Seq,
    /// The part.
    pub part: Seq,
    /// The row's role.
    pub role: &'static str,
    /// Where the part's text came from.
    pub origin: &'static str,
    /// Its source inside the origin.
    pub label: Option<String>,
    /// The tool call it belongs to.
    pub tool: Option<String>,
    /// When it was stored.
    pub created_at: Timestamp,
    /// Whether the session's next request would carry it.
    pub live: bool,
    /// The requests that carried it.
    pub carried: Carried,
}

/// The requests that carried a text in one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Carried {
    /// How many.
    pub requests: u64,
    /// The first.
    pub first: Option<RequestId>,
    /// The last.
    pub last: Option<RequestId>,
}

/// Finds every place of `text`. Files are those of `conversation`'s home and workspace; the rest is
/// the whole store.
///
/// # Errors
/// If the store cannot be read.
pub fn trace(
    services: &Services,
    conversation: &Conversation,
    text: &str,
) -> Result<TraceReport, InspectError> {
    let mut report = stored(&services.store, text)?;
    report.files = files(services, conversation, text);
    Ok(report)
}

/// The places of `text` in the store.
///
/// # Errors
/// If the store cannot be read.
pub fn stored(store: &Store, text: &str) -> Result<TraceReport, InspectError> {
    let mut report = TraceReport { text: text.to_owned(), ..TraceReport::default() };
    if text.is_empty() {
        return Ok(report);
    }
    let mut sessions = Sessions { store, known: HashMap::new() };
    report.snapshots = snapshots(&mut sessions, text)?;
    let found = store.rows_with(text, MAX_ROWS)?;
    report.more_rows = found.more;
    for hit in found.hits {
        let facts = sessions.get(&hit.session)?;
        for seq in &hit.parts {
            let Some(part) = hit.row.parts.iter().find(|part| part.seq == *seq) else { continue };
            let shown = facts.generations_showing(&hit.row, *seq)?;
            report.rows.push(RowPlace {
                session: hit.session.clone(),
                row: hit.row.seq,
                part: *seq,
                role: hit.row.role.as_str(),
                origin: words::origin(part.origin),
                label: part.label.as_deref().map(str::to_owned),
                tool: hit.row.tool.as_ref().map(|link| format!("{} {}", link.name, link.call_id)),
                created_at: part.created_at,
                live: facts.head().is_some_and(|head| shown.contains(&head)),
                carried: facts.carried(&shown, (*seq).max(hit.row.seq)),
            });
        }
    }
    Ok(report)
}

fn snapshots(sessions: &mut Sessions<'_>, text: &str) -> Result<Vec<SnapshotPlace>, InspectError> {
    let mut places: BTreeMap<(SessionId, Digest), SnapshotPlace> = BTreeMap::new();
    for hit in sessions.store.texts_with(text)? {
        for generation in hit.generations {
            let session = generation.session;
            let key = (session.clone(), hit.digest);
            if let Some(place) = places.get_mut(&key) {
                place.generations.push(generation.generation);
                continue;
            }
            let blocks = if generation.is_tools {
                vec!["tools".to_owned()]
            } else {
                let snapshot = sessions.store.snapshot(&session, generation.generation)?;
                blocks_with(&snapshot, text)
            };
            let place = SnapshotPlace {
                session,
                generations: vec![generation.generation],
                digest: hit.digest,
                blocks,
                in_force: false,
                carried: Carried::default(),
            };
            places.insert(key, place);
        }
    }
    let mut places: Vec<SnapshotPlace> = places.into_values().collect();
    for place in &mut places {
        let facts = sessions.get(&place.session)?;
        let generations: BTreeSet<GenerationNo> = place.generations.iter().copied().collect();
        place.in_force = facts.head().is_some_and(|head| generations.contains(&head));
        place.carried = facts.carried(&generations, Seq(0));
    }
    Ok(places)
}

/// Ids of the blocks whose range holds the text; the text may stand in none but across two.
fn blocks_with(snapshot: &Snapshot, text: &str) -> Vec<String> {
    let holds = |block: &&Block| {
        snapshot.text.get(block.range.start..block.range.end).is_some_and(|it| it.contains(text))
    };
    snapshot.blocks.iter().filter(holds).map(|block| block.id.clone()).collect()
}

/// What is known of the sessions that came up.
struct Sessions<'a> {
    store: &'a Store,
    known: HashMap<SessionId, Facts>,
}

/// What decides whether rows are in a session's views, and its requests.
struct Facts {
    frame: Frame,
    carriers: Vec<Carrier>,
    /// Generations of which at least one request was sent, and the newest.
    used: Vec<GenerationNo>,
}

impl Sessions<'_> {
    fn get(&mut self, id: &SessionId) -> Result<&Facts, InspectError> {
        if !self.known.contains_key(id) {
            let frame = self.store.frame(id)?;
            let carriers = self.store.carriers(id)?;
            let mut used: BTreeSet<GenerationNo> = carriers.iter().map(|c| c.generation).collect();
            used.extend(frame.generations.last().map(|newest| newest.n));
            let used = used.into_iter().collect();
            self.known.insert(id.clone(), Facts { frame, carriers, used });
        }
        Ok(&self.known[id])
    }
}

impl Facts {
    /// The newest generation.
    fn head(&self) -> Option<GenerationNo> {
        self.frame.generations.last().map(|newest| newest.n)
    }

    /// The generations whose view shows this part, once its cut is high enough.
    fn generations_showing(
        &self,
        row: &Row,
        part: Seq,
    ) -> Result<BTreeSet<GenerationNo>, InspectError> {
        // What a view does with a row depends on the row and the summaries alone.
        let mut rows = self.frame.summaries.clone();
        if row.standing != Standing::ByOp {
            rows.push(row.clone());
        }
        let mut shown = BTreeSet::new();
        for generation in &self.used {
            let view = fold_view(&rows, &self.frame.generations, *generation, Seq(u64::MAX))
                .map_err(|source| InspectError::History { source })?;
            let parts = view.rows.iter().filter(|it| it.row.seq == row.seq);
            if parts.flat_map(|it| &it.row.parts).any(|it| it.seq == part) {
                shown.insert(*generation);
            }
        }
        Ok(shown)
    }

    /// The requests of these generations that could see `seq`.
    fn carried(&self, generations: &BTreeSet<GenerationNo>, seq: Seq) -> Carried {
        let mut carried = Carried::default();
        let saw =
            |carrier: &&Carrier| carrier.cut >= seq && generations.contains(&carrier.generation);
        for carrier in self.carriers.iter().filter(saw) {
            carried.requests += 1;
            if carried.first.is_none() {
                carried.first = Some(carrier.id.clone());
            }
            carried.last = Some(carrier.id.clone());
        }
        carried
    }
}

/// The files of context that hold the text now.
fn files(services: &Services, conversation: &Conversation, text: &str) -> Vec<FilePlace> {
    let workspace = conversation.workspace();
    let fresh = sources::fresh(services, conversation);
    let mut paths: BTreeMap<PathBuf, String> = BTreeMap::new();
    for block in &fresh.blocks {
        if let Source::File { path } = &block.source {
            paths.entry(path.into()).or_insert_with(|| sources::verdict(&block.verdict));
        }
    }
    // In no block while they are empty or switched off.
    let home = &services.home;
    for path in [home.soul_path(), home.memory_path(), home.user_path()] {
        paths.entry(path).or_insert_with(|| "not in the prompt".to_owned());
    }
    paths.insert(home.config_path(), "settings, no text of the prompt".to_owned());
    for path in hints::nested_files(workspace, MAX_ENTRIES) {
        paths.entry(path).or_insert_with(|| "when a tool touches its folder".to_owned());
    }
    let roots = skills::roots(home, &services.config, workspace);
    for skill in skills::discover(&roots, Some(&skills::cache_path(home))).skills {
        paths.entry(skill.path).or_insert_with(|| "index now, text when loaded".to_owned());
    }
    paths
        .into_iter()
        .filter_map(|(path, verdict)| {
            let (line, times) = lines_with(&path, text)?;
            let kind = source_of_path(home, workspace, &path)
                .or_else(|| hermes_context::source_kind("skill"));
            Some(FilePlace {
                path: path.display().to_string(),
                line,
                times,
                kind: kind.map_or("file", |kind| kind.id),
                verdict,
                reaches_model: kind.map_or("", |kind| kind.when_seen),
            })
        })
        .collect()
}

/// The first line with the text and how often it stands in the file.
fn lines_with(path: &Path, text: &str) -> Option<(usize, usize)> {
    let source = source_text::read(path).ok()?;
    let at = source.text.find(text)?;
    let line = source.text[..at].matches('\n').count() + 1;
    Some((line, source.text.matches(text).count()))
}
