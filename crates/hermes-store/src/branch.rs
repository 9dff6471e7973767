//! Branches: copies of a session up to a point, with the same seqs, so that deletion stays local.

use std::collections::BTreeSet;

use hermes_core::{Digest, Generation, GenerationNo, PartBody, Seq, SessionId};

use crate::store::Store;
use crate::{Batch, ParentKind, Record, SessionInit, SessionWriter, StoreError};

pub(crate) fn branch(
    store: &Store,
    from: &SessionId,
    at: GenerationNo,
    cut: Seq,
    mut init: SessionInit,
) -> Result<SessionWriter, StoreError> {
    let history = store.history(from)?;
    let chain = ancestry(&history.generations, at)?;
    let mut batch = Batch::new();
    let mut texts: BTreeSet<Digest> = BTreeSet::new();
    for generation in &chain {
        for digest in [generation.prompt, generation.tools] {
            if texts.insert(digest)
                && let Some(text) = store.text(&digest)?
            {
                batch.push(Record::Text { text });
            }
        }
    }
    let mut blobs: BTreeSet<Digest> = BTreeSet::new();
    let mut rows = Vec::new();
    for mut row in history.rows {
        if row.seq > cut {
            continue;
        }
        row.parts.retain(|part| part.seq <= cut);
        for part in &row.parts {
            if let PartBody::Blob { digest, media_type, .. } = &part.body
                && blobs.insert(*digest)
                && let Some(bytes) = store.blob(digest)?
            {
                batch.push(Record::Blob { media_type: media_type.clone(), bytes });
            }
        }
        rows.push(Record::Row(row));
    }
    batch.append(&mut rows);
    // What made its history what it is comes along; what came to nothing stays where it was.
    let took_effect = |attempt: &crate::CompactionAttempt| {
        attempt.generation.is_some_and(|n| chain.iter().any(|generation| generation.n == n))
    };
    let attempts = store.compactions(from)?.attempts.into_iter().filter(took_effect);
    let attempts: Vec<Record> = attempts.map(Record::CompactionAttempt).collect();
    for generation in chain {
        let n = generation.n;
        let blocks = store.manifest_of(from, n)?;
        batch.push(Record::Generation(generation));
        batch.extend(blocks.map(|blocks| Record::Manifest { generation: n, blocks }));
    }
    batch.extend(attempts);
    init.parent.get_or_insert((from.clone(), ParentKind::Branch));
    SessionWriter::create_copy(store, init, batch, cut)
}

/// A generation and its ancestors, the oldest first.
fn ancestry(generations: &[Generation], at: GenerationNo) -> Result<Vec<Generation>, StoreError> {
    let mut chain = Vec::new();
    let mut next = Some(at);
    while let Some(n) = next {
        let found = generations.iter().find(|generation| generation.n == n);
        let Some(generation) = found.filter(|_| chain.len() < generations.len()) else {
            return Err(StoreError::NotFound {
                what: "generation",
                reference: n.to_string(),
                hint: "run `hermes sessions check`".to_owned(),
            });
        };
        chain.push(generation.clone());
        next = generation.parent;
    }
    chain.reverse();
    Ok(chain)
}
