//! The prompt snapshot: three tiers of blocks, each with its source, its verdict and what will
//! refresh it.
//!
//! Invariants: equal inputs and files give equal bytes; building never fails, it reports; every
//! byte of the text but the blank lines between blocks belongs to a block; a refresh carries all
//! other blocks over byte for byte.

mod blocks;
mod words;

use hermes_core::{Block, Digest, SessionId, Snapshot, Source, Timestamp, ToolSet};
use hermes_home::{Config, Home};

use self::blocks::Composer;
use crate::{SOURCES, Workspace, source_kind};

/// Everything a prompt is made of, beside the files.
#[derive(Clone, Copy)]
pub struct SnapshotInput<'a> {
    /// The home.
    pub home: &'a Home,
    /// The configuration.
    pub config: &'a Config,
    /// Where the session works.
    pub workspace: &'a Workspace,
    /// The surface, such as `cli`.
    pub platform: &'a str,
    /// The provider's name.
    pub provider: &'a str,
    /// The model's name.
    pub model: &'a str,
    /// The tools offered.
    pub tools: &'a ToolSet,
    /// The session.
    pub session: &'a SessionId,
    /// The caller's instructions.
    pub caller: Option<&'a str>,
    /// The present.
    pub now: Timestamp,
    /// Seconds east of UTC in the person's zone.
    pub utc_offset_seconds: i32,
    /// Tokens that the model's window holds, if that is known.
    pub context_window: Option<u64>,
    /// What plugins add to the prompt, in its order.
    pub sections: &'a [PluginSection],
}

/// A text that a plugin adds to the prompt of a new session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSection {
    /// Its id, one of its kind in the prompt.
    pub id: String,
    /// The plugin.
    pub plugin: String,
    /// The text.
    pub text: String,
}

/// A prompt and what the person should know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The prompt.
    pub snapshot: Snapshot,
    /// Whole sentences, each with the file it is about.
    pub warnings: Vec<String>,
}

/// A source whose state differs between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The block's id.
    pub id: String,
    /// The source.
    pub source: Source,
    /// Digest of the source in the older snapshot; None if it was not considered.
    pub was: Option<Digest>,
    /// Digest of the source in the newer snapshot; None if it is not considered.
    pub is: Option<Digest>,
    /// Whether the text in the prompt differs, or the source alone.
    pub in_prompt: bool,
}

/// Reads every source and builds the prompt.
pub fn build_snapshot(input: &SnapshotInput<'_>) -> Built {
    let mut composer = Composer::new(input.now);
    blocks::add_all(&mut composer, input);
    composer.finish()
}

/// A new prompt in which the blocks of `kinds` (ids of [`SOURCES`]) are read anew and all others
/// are carried over byte for byte. With no block changed, the text is equal to the previous one.
pub fn refresh_snapshot(previous: &Snapshot, input: &SnapshotInput<'_>, kinds: &[&str]) -> Built {
    let fresh = build_snapshot(input);
    let is_new = |block: &Block| kinds.contains(&kind_of(block));
    let mut blocks: Vec<(&Block, &str)> = Vec::new();
    let old = previous.blocks.iter().filter(|block| !is_new(block));
    blocks.extend(old.map(|block| (block, text_of(previous, block))));
    let new = fresh.snapshot.blocks.iter().filter(|block| is_new(block));
    blocks.extend(new.map(|block| (block, text_of(&fresh.snapshot, block))));
    // Stable: blocks of one kind keep their order.
    blocks.sort_by_key(|(block, _)| place_of(block));
    let mut composer = Composer::new(input.now);
    for (block, text) in blocks {
        composer.carry(block.clone(), text);
    }
    let mut built = composer.finish();
    built.warnings = fresh.warnings;
    built
}

/// The same prompt without the blocks of `kinds` (ids of [`SOURCES`]) that are in it: they stay in
/// the manifest, left out for the reason given; all others are carried over byte for byte.
pub fn leave_out(built: &Built, now: Timestamp, kinds: &[&str], why: &str) -> Built {
    let mut composer = Composer::new(now);
    for block in &built.snapshot.blocks {
        if kinds.contains(&kind_of(block)) && block.verdict.is_in() {
            composer.carry(blocks::left_out(block, why), "");
        } else {
            composer.carry(block.clone(), text_of(&built.snapshot, block));
        }
    }
    let mut rest = composer.finish();
    rest.warnings.clone_from(&built.warnings);
    rest
}

/// What differs between two snapshots, in the order of the newer one.
pub fn snapshot_differences(older: &Snapshot, newer: &Snapshot) -> Vec<Difference> {
    let same = |a: &Block, b: &Block| a.id == b.id && a.source == b.source;
    let mut found = Vec::new();
    for block in &newer.blocks {
        let before = older.blocks.iter().find(|other| same(other, block));
        let was = before.map(|before| before.source_digest);
        let in_prompt = before.map(|before| before.rendered_digest) != Some(block.rendered_digest);
        if was != Some(block.source_digest) || in_prompt {
            let (id, source) = (block.id.clone(), block.source.clone());
            found.push(Difference { id, source, was, is: Some(block.source_digest), in_prompt });
        }
    }
    for block in &older.blocks {
        if !newer.blocks.iter().any(|other| same(other, block)) {
            let (id, source) = (block.id.clone(), block.source.clone());
            let in_prompt = block.verdict.is_in();
            found.push(Difference {
                id,
                source,
                was: Some(block.source_digest),
                is: None,
                in_prompt,
            });
        }
    }
    found
}

/// The text of a block inside its snapshot; empty if it is out.
pub fn text_of<'a>(snapshot: &'a Snapshot, block: &Block) -> &'a str {
    snapshot.text.get(block.range.start..block.range.end).unwrap_or_default()
}

/// The kind of a block: its id up to the colon.
fn kind_of(block: &Block) -> &str {
    block.id.split(':').next().unwrap_or_default()
}

/// Where blocks of this kind stand: the order of the table of sources, unknown ones last.
fn place_of(block: &Block) -> usize {
    let kind = source_kind(&block.id).map(|kind| kind.id);
    SOURCES.iter().position(|other| Some(other.id) == kind).unwrap_or(SOURCES.len())
}
