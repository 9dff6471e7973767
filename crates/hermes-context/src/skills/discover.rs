//! Finding skills: every folder with a `SKILL.md` below a root.
//!
//! Invariants: links are followed, cycles and links to folders above the root are not; the walk
//! is bounded in depth and number of folders; the order does not depend on the file system.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use hermes_core::{Digest, Hasher};

use super::cache::{Cache, Read};
use super::frontmatter::{self, Frontmatter, Words};
use super::{Catalogue, Skill, SkillHeader, SkillRoot, SkillState, SkillTier};
use crate::{source_text, threat};

/// Folders that hold no skills of their own.
const IGNORED: &[&str] = &[
    ".git",
    ".github",
    ".hub",
    ".archive",
    ".curator_backups",
    ".locks",
    ".venv",
    "venv",
    "node_modules",
    "__pycache__",
    "target",
    "site-packages",
    ".cache",
];
/// Categories of categories of categories.
const MAX_DEPTH: usize = 6;
/// A root with more folders is no folder of skills.
const MAX_FOLDERS: usize = 5000;

/// Looks through `roots`. `cache` is where headers are kept between sessions.
pub fn discover(roots: &[SkillRoot], cache: Option<&Path>) -> Catalogue {
    let mut cache = Cache::open(cache);
    let mut found = Vec::new();
    let mut warnings = Vec::new();
    for root in roots {
        let Ok(real) = fs::canonicalize(&root.path) else { continue };
        let mut walk = Walk {
            tier: root.tier,
            root: real.clone(),
            seen: HashSet::new(),
            cache: &mut cache,
            found: &mut found,
            warnings: &mut warnings,
        };
        walk.folder(&root.path, &real, "", 0);
        if walk.seen.len() >= MAX_FOLDERS {
            let path = root.path.display();
            warnings.push(format!(
                "{path}: more than {MAX_FOLDERS} folders, so not all were looked at; hint: point \
                 to a folder that holds skills only"
            ));
        }
    }
    cache.close();
    settle(&mut found, &mut warnings);
    found.sort_by(|a: &Skill, b: &Skill| {
        (&a.category, &a.name, &a.path).cmp(&(&b.category, &b.name, &b.path))
    });
    let mut hasher = Hasher::default();
    for skill in &found {
        hasher.update(skill.path.display().to_string());
        hasher.update(skill.digest.as_bytes());
    }
    let digest = if found.is_empty() { Digest::of("") } else { hasher.finish() };
    Catalogue { skills: found, warnings, digest }
}

struct Walk<'a, 'c> {
    tier: SkillTier,
    root: PathBuf,
    /// Folders by their real path.
    seen: HashSet<PathBuf>,
    cache: &'a mut Cache<'c>,
    found: &'a mut Vec<Skill>,
    warnings: &'a mut Vec<String>,
}

impl Walk<'_, '_> {
    fn folder(&mut self, path: &Path, real: &Path, category: &str, depth: usize) {
        if self.seen.len() >= MAX_FOLDERS || !self.seen.insert(real.to_owned()) {
            return;
        }
        let Ok(entries) = fs::read_dir(path) else { return };
        let mut children: Vec<(String, bool)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let kind = entry.file_type().ok()?;
                let name = entry.file_name().into_string().ok()?;
                (kind.is_dir() || kind.is_symlink()).then_some((name, kind.is_symlink()))
            })
            .filter(|(name, _)| !IGNORED.contains(&name.as_str()))
            .collect();
        children.sort();
        for (name, is_link) in children {
            let child = path.join(&name);
            let real = if is_link {
                let Ok(target) = fs::canonicalize(&child) else {
                    tracing::debug!(path = %child.display(), "broken link among the skills");
                    continue;
                };
                // A link upward would bring everything in again.
                if self.root.starts_with(&target) || !target.is_dir() {
                    continue;
                }
                target
            } else {
                real.join(&name)
            };
            let file = child.join("SKILL.md");
            if let Some(meta) = fs::metadata(&file).ok().filter(Metadata::is_file) {
                if self.seen.insert(real) {
                    self.skill(child, file, &meta, category);
                }
            } else if depth + 1 < MAX_DEPTH {
                let deeper = if category.is_empty() { name } else { format!("{category}/{name}") };
                self.folder(&child, &real, &deeper, depth + 1);
            }
        }
    }

    fn skill(&mut self, folder: PathBuf, path: PathBuf, meta: &Metadata, category: &str) {
        let read = self.cache.get(&path, meta, || read(&path, meta));
        self.warnings.extend(read.warnings);
        let in_folder = || folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let state = match read.broken {
            Some(why) => {
                self.warnings.push(format!("{}: this skill is not offered: {why}", path.display()));
                SkillState::Broken { why }
            }
            None => SkillState::Usable,
        };
        self.found.push(Skill {
            name: read.name.unwrap_or_else(in_folder),
            description: read.description,
            category: category.to_owned(),
            folder,
            path,
            tier: self.tier,
            header: read.header,
            digest: read.digest,
            state,
        });
    }
}

/// Reads a `SKILL.md`.
fn read(path: &Path, meta: &Metadata) -> Read {
    let text = match source_text::read(path) {
        Ok(text) => text,
        Err(problem) => {
            let broken = Some(problem.to_string());
            return Read { broken, ..Read::of(meta, Digest::of("")) };
        }
    };
    let read = Read::of(meta, text.digest);
    let warnings = text.notes.iter().map(|note| format!("{}: {note}", path.display())).collect();
    let parsed = frontmatter::split(&text.text)
        .and_then(|(yaml, body)| Ok((frontmatter::parse(yaml)?, body)));
    match parsed {
        Err(problem) => Read { broken: Some(problem.to_string()), warnings, ..read },
        Ok((front, body)) => {
            let given = front.description.as_deref().map(one_line).unwrap_or_default();
            let description = if given.is_empty() { first_line(body) } else { given };
            let name = front.name.as_deref().map(one_line).filter(|name| !name.is_empty());
            Read {
                name,
                description: screened(&description),
                header: header(front),
                warnings,
                ..read
            }
        }
    }
}

fn header(front: Frontmatter) -> SkillHeader {
    let own = front.metadata.and_then(|metadata| metadata.hermes).unwrap_or_default();
    let either = |own: Words, top: Words| if own.0.is_empty() { top.0 } else { own.0 };
    SkillHeader {
        platforms: front.platforms.0,
        session_platforms: own.session_platforms.0,
        requires_tools: own.requires_tools.0,
        fallback_for_tools: own.fallback_for_tools.0,
        tags: either(own.tags, front.tags),
        related_skills: either(own.related_skills, front.related_skills),
    }
}

/// A description stands in the prompt, so it may not instruct.
fn screened(description: &str) -> String {
    if threat::screen(description).removed.is_empty() {
        description.to_owned()
    } else {
        "(its description was taken out by the threat scan)".to_owned()
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a skill without description says first.
fn first_line(body: &str) -> String {
    let line = body.lines().map(|line| line.trim_start_matches('#').trim()).find(|l| !l.is_empty());
    line.map(|line| line.chars().take(200).collect()).unwrap_or_default()
}

/// Of skills with one name the earliest tier wins; inside a tier equal copies are one, and
/// different ones are none.
fn settle(found: &mut [Skill], warnings: &mut Vec<String>) {
    let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, skill) in found.iter().enumerate() {
        if skill.state == SkillState::Usable {
            by_name.entry(skill.name.clone()).or_default().push(index);
        }
    }
    for mut indices in by_name.into_values().filter(|indices| indices.len() > 1) {
        let key = |index: &usize| {
            let skill = &found[*index];
            (skill.tier, skill.path.components().count(), skill.path.clone())
        };
        indices.sort_by_key(key);
        let (first, rest) = (indices[0], &indices[1..]);
        let winner = (found[first].tier, found[first].digest, found[first].path.clone());
        let rival = rest
            .iter()
            .copied()
            .find(|index| found[*index].tier == winner.0 && found[*index].digest != winner.1);
        for index in rest {
            found[*index].state = SkillState::Shadowed { by: winner.2.clone() };
        }
        if let Some(rival) = rival {
            let other = found[rival].path.clone();
            warnings.push(format!(
                "{} and {}: two different skills are called {}, so neither is offered; hint: \
                 rename one, or load one by its exact name",
                winner.2.display(),
                other.display(),
                found[first].name
            ));
            found[first].state = SkillState::Ambiguous { other };
            found[rival].state = SkillState::Ambiguous { other: winner.2 };
        }
    }
}
