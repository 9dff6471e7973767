//! Where a text is stored: prompts and tool arrays, parts of rows; and which requests of a session
//! could carry it. Texts are searched once each, never the bodies that were made of them.

use std::collections::{BTreeMap, BTreeSet};

use hermes_core::{
    Digest, Generation, GenerationNo, PartBody, RequestId, Row, Seq, SessionId, Standing,
};
use rusqlite::Connection;

use crate::db::Doing as _;
use crate::rows::{self, key};
use crate::{Record, Store, StoreError, engage, spool};

/// A stored prompt or tool array that holds the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextHit {
    /// Its digest.
    pub digest: Digest,
    /// The generations that carry it.
    pub generations: Vec<GenerationHit>,
}

/// A generation that carries a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationHit {
    /// The session.
    pub session: SessionId,
    /// Its generation.
    pub generation: GenerationNo,
    /// Whether the text is its tool array; else it is its prompt.
    pub is_tools: bool,
}

/// A row one or more of whose parts hold the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowHit {
    /// The session.
    pub session: SessionId,
    /// The row with all its parts.
    pub row: Row,
    /// The parts that hold the text.
    pub parts: Vec<Seq>,
}

/// The rows that hold a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowHits {
    /// The oldest first.
    pub hits: Vec<RowHit>,
    /// How many more there are.
    pub more: u64,
}

/// As much of a ledger row as says what a request could see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// The request.
    pub id: RequestId,
    /// Its generation.
    pub generation: GenerationNo,
    /// Its cut.
    pub cut: Seq,
}

/// What decides whether a session's rows are in a view, without the rows themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The generations by number.
    pub generations: Vec<Generation>,
    /// The rows that only an operation brings in.
    pub summaries: Vec<Row>,
}

/// Whether a body holds the text; binary content never does.
fn holds(body: &PartBody, needle: &str) -> bool {
    match body {
        PartBody::Text { text } | PartBody::Reasoning { text, .. } => text.contains(needle),
        PartBody::Raw { json, .. } => json.contains(needle),
        PartBody::ToolCall { arguments, .. } => arguments.contains(needle),
        PartBody::Blob { .. } => false,
    }
}

fn hit(session: &SessionId, row: &Row, needle: &str) -> Option<RowHit> {
    let with = row.parts.iter().filter(|part| holds(&part.body, needle));
    let parts: Vec<Seq> = with.map(|part| part.seq).collect();
    (!parts.is_empty()).then(|| RowHit { session: session.clone(), row: row.clone(), parts })
}

impl Store {
    /// Prompts and tool arrays that hold `needle`, letter for letter.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn texts_with(&self, needle: &str) -> Result<Vec<TextHit>, StoreError> {
        let found = self.inner().read(|connection| texts_with(connection, needle))?;
        let mut found = found.unwrap_or_default();
        for spool in spool::scan(&self.inner().paths().spool_dir) {
            let texts: BTreeSet<Digest> = spool
                .records()
                .filter_map(|record| match record {
                    Record::Text { text } if text.contains(needle) => Some(Digest::of(&**text)),
                    _ => None,
                })
                .collect();
            for record in spool.records() {
                let Record::Generation(generation) = record else { continue };
                for (digest, is_tools) in [(generation.prompt, false), (generation.tools, true)] {
                    let known = found.contains_key(&digest);
                    if texts.contains(&digest) || known {
                        let session = spool.header.session.clone();
                        let generation = generation.n;
                        let hit = GenerationHit { session, generation, is_tools };
                        found.entry(digest).or_default().push(hit);
                    }
                }
            }
        }
        let hits = found.into_iter();
        Ok(hits.map(|(digest, generations)| TextHit { digest, generations }).collect())
    }

    /// Rows that hold `needle`, letter for letter, at most `limit` of them.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn rows_with(&self, needle: &str, limit: usize) -> Result<RowHits, StoreError> {
        let found = self.inner().read(|connection| rows_with(connection, needle, limit))?;
        let mut found = found.unwrap_or_default();
        for spool in spool::scan(&self.inner().paths().spool_dir) {
            let session = &spool.header.session;
            for record in spool.records() {
                let Record::Row(row) = record else { continue };
                let known = found
                    .hits
                    .iter()
                    .any(|other| other.session == *session && other.row.seq == row.seq);
                if !known {
                    found.hits.extend(hit(session, row, needle));
                }
            }
        }
        Ok(found)
    }

    /// What decides whether a session's rows are in a view.
    ///
    /// # Errors
    /// If the session is unknown or the database cannot be read.
    pub fn frame(&self, session: &SessionId) -> Result<Frame, StoreError> {
        if !self.inner().spool_path(session).exists()
            && let Some(frame) =
                self.inner().read(|connection| frame(connection, session))?.flatten()
        {
            return Ok(frame);
        }
        let mut history = self.history(session)?;
        history.rows.retain(|row| row.standing == Standing::ByOp);
        Ok(Frame { generations: history.generations, summaries: history.rows })
    }

    /// The requests of a session in their order, auxiliary ones left out.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn carriers(&self, session: &SessionId) -> Result<Vec<Carrier>, StoreError> {
        let mut found =
            self.inner().read(|connection| carriers(connection, session))?.unwrap_or_default();
        let path = self.inner().spool_path(session);
        let spool = spool::read(&path).map_err(|source| StoreError::Io { path, source })?;
        if let Some(spool) = spool.filter(|spool| spool.header.session == *session) {
            found.extend(spool.records().filter_map(|record| match record {
                Record::AttemptStarted(attempt) => Some(Carrier {
                    id: attempt.id.clone(),
                    generation: attempt.generation,
                    cut: attempt.cut,
                }),
                _ => None,
            }));
        }
        Ok(found)
    }
}

type ByDigest = BTreeMap<Digest, Vec<GenerationHit>>;

fn texts_with(connection: &Connection, needle: &str) -> Result<ByDigest, StoreError> {
    const DOING: &str = "looking for a text in prompts";
    let mut statement = connection
        .prepare_cached("SELECT digest FROM text WHERE instr(body, ?1) > 0")
        .doing(DOING)?;
    let digests: Vec<[u8; 32]> = statement
        .query_map([needle], |row| row.get(0))
        .doing(DOING)?
        .collect::<Result<_, _>>()
        .doing(DOING)?;
    let mut found = ByDigest::new();
    let mut carried = connection
        .prepare_cached(
            "SELECT s.id, g.n, g.tools = ?1 AND g.prompt <> ?1 FROM gen g
             JOIN sessions s ON s.session_no = g.session_no
             WHERE g.prompt = ?1 OR g.tools = ?1 ORDER BY g.session_no, g.n",
        )
        .doing(DOING)?;
    for digest in digests {
        let hits = carried
            .query_map([digest], |row| {
                Ok(GenerationHit {
                    session: SessionId::new(row.get::<_, String>(0)?),
                    generation: GenerationNo(row.get(1)?),
                    is_tools: row.get(2)?,
                })
            })
            .doing(DOING)?
            .collect::<Result<Vec<_>, _>>()
            .doing(DOING)?;
        found.insert(Digest::from_bytes(digest), hits);
    }
    Ok(found)
}

fn rows_with(connection: &Connection, needle: &str, limit: usize) -> Result<RowHits, StoreError> {
    const DOING: &str = "looking for a text in rows";
    let mut statement = connection
        .prepare_cached(
            "SELECT DISTINCT row_key FROM part WHERE kind <> 4 AND instr(value, ?1) > 0
             ORDER BY row_key",
        )
        .doing(DOING)?;
    let keys: Vec<i64> = statement
        .query_map([needle], |row| row.get(0))
        .doing(DOING)?
        .collect::<Result<_, _>>()
        .doing(DOING)?;
    let mut found = RowHits { hits: Vec::new(), more: keys.len().saturating_sub(limit) as u64 };
    let mut names: BTreeMap<i64, SessionId> = BTreeMap::new();
    for row_key in keys.into_iter().take(limit) {
        let (session_no, seq) = (row_key >> 32, Seq((row_key & 0xffff_ffff) as u64));
        debug_assert_eq!(key(session_no, seq), row_key);
        if let std::collections::btree_map::Entry::Vacant(free) = names.entry(session_no) {
            let id: String = connection
                .query_row("SELECT id FROM sessions WHERE session_no = ?1", [session_no], |row| {
                    row.get(0)
                })
                .doing(DOING)?;
            free.insert(SessionId::new(id));
        }
        let session = &names[&session_no];
        for row in rows::load_rows(connection, session_no, Some(seq))? {
            found.hits.extend(hit(session, &row, needle));
        }
    }
    Ok(found)
}

fn frame(connection: &Connection, session: &SessionId) -> Result<Option<Frame>, StoreError> {
    const DOING: &str = "reading the summaries of a session";
    let Some(session_no) = engage::number_of(connection, session)? else { return Ok(None) };
    let mut statement = connection
        .prepare_cached("SELECT seq FROM row WHERE session_no = ?1 AND standing = 1 ORDER BY seq")
        .doing(DOING)?;
    let seqs: Vec<i64> = statement
        .query_map([session_no], |row| row.get(0))
        .doing(DOING)?
        .collect::<Result<_, _>>()
        .doing(DOING)?;
    let mut summaries = Vec::with_capacity(seqs.len());
    for seq in seqs {
        summaries.extend(rows::load_rows(connection, session_no, Some(Seq(seq as u64)))?);
    }
    let generations = rows::load_generations(connection, session_no)?;
    Ok(Some(Frame { generations, summaries }))
}

fn carriers(connection: &Connection, session: &SessionId) -> Result<Vec<Carrier>, StoreError> {
    const DOING: &str = "reading what requests could see";
    let mut statement = connection
        .prepare_cached(
            "SELECT r.id, r.generation, r.cut FROM request r
             JOIN sessions s ON s.session_no = r.session_no
             WHERE s.id = ?1 AND r.task = 'main' ORDER BY r.id",
        )
        .doing(DOING)?;
    let found = statement
        .query_map([session.as_str()], |row| {
            Ok(Carrier {
                id: RequestId::new(row.get::<_, String>(0)?),
                generation: GenerationNo(row.get(1)?),
                cut: Seq(row.get::<_, i64>(2)? as u64),
            })
        })
        .doing(DOING)?;
    found.collect::<Result<_, _>>().doing(DOING)
}
