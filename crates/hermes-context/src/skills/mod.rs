//! Skills: procedures in folders, of which the prompt holds an index and the history, once one is
//! loaded, the body.
//!
//! Invariants: nothing that was found is dropped silently, broken and shadowed skills stay in the
//! catalogue with the reason; a name means one skill or is refused; equal folders give equal
//! order and text.

mod cache;
mod discover;
pub mod frontmatter;
mod index;
mod slash;
mod view;

use std::path::{Path, PathBuf};

use hermes_core::Digest;
use hermes_home::{Config, Home};
use serde::{Deserialize, Serialize};

use crate::Workspace;

pub use self::discover::discover;
pub use self::index::{index, index_budget, list};
pub use self::slash::{SlashCommand, slash_commands};
pub use self::view::{PAGE_CHARACTERS, SkillError, SkillView, fill_variables, find, view};

/// Where a skill was found; of equal names the earlier tier wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillTier {
    /// In a project that the person trusts.
    Project,
    /// In the home.
    Home,
    /// In the folder for new skills.
    Created,
    /// In a further folder of the configuration.
    External,
}

/// A folder that holds skills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillRoot {
    /// The folder.
    pub path: PathBuf,
    /// Its tier.
    pub tier: SkillTier,
}

/// A skill that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// What it is for, on one line.
    pub description: String,
    /// The folders between its root and its own, joined by `/`; empty at the top.
    pub category: String,
    /// Its own folder.
    pub folder: PathBuf,
    /// Its `SKILL.md`.
    pub path: PathBuf,
    /// Where it was found.
    pub tier: SkillTier,
    /// What its header says beside that.
    pub header: SkillHeader,
    /// Digest of the bytes of `SKILL.md`.
    pub digest: Digest,
    /// Whether it can be used.
    pub state: SkillState,
}

/// What a skill's header says beside name and description.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SkillHeader {
    /// Operating systems; all if empty.
    pub platforms: Vec<String>,
    /// Surfaces; all if empty.
    pub session_platforms: Vec<String>,
    /// Tools without which it is not offered.
    pub requires_tools: Vec<String>,
    /// Tools with which it is not offered.
    pub fallback_for_tools: Vec<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// Skills that go with it.
    pub related_skills: Vec<String>,
}

/// Whether a skill can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillState {
    /// It can.
    Usable,
    /// Its file cannot be understood.
    Broken {
        /// Why.
        why: String,
    },
    /// Another skill of its name wins.
    Shadowed {
        /// The winner's file.
        by: PathBuf,
    },
    /// Another skill of its tier has its name and a different content.
    Ambiguous {
        /// The other's file.
        other: PathBuf,
    },
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// By category and name.
    pub skills: Vec<Skill>,
    /// What the person should know, whole sentences.
    pub warnings: Vec<String>,
    /// Digest of all names and contents.
    pub digest: Digest,
}

/// What decides whether a skill is offered.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    /// The operating system, such as `linux`.
    pub os: &'a str,
    /// The surface, such as `cli`.
    pub platform: &'a str,
    /// The tools of the session.
    pub tools: &'a [&'a str],
    /// Skills that are switched off.
    pub disabled: &'a [String],
}

impl Skill {
    /// Whether it is offered to the model.
    ///
    /// # Errors
    /// Why it is not.
    pub fn offered(&self, gate: &Gate<'_>) -> Result<(), String> {
        match &self.state {
            SkillState::Usable => {}
            SkillState::Broken { why } => return Err(why.clone()),
            SkillState::Shadowed { by } => return Err(format!("shadowed by {}", by.display())),
            SkillState::Ambiguous { other } => {
                return Err(format!("its name is also that of {}", other.display()));
            }
        }
        if gate.disabled.contains(&self.name) {
            return Err("switched off by skills.disabled".to_owned());
        }
        let header = &self.header;
        if !header.platforms.is_empty() && !header.platforms.iter().any(|name| is_os(name, gate.os))
        {
            return Err(format!("it is for {}, not {}", header.platforms.join(", "), gate.os));
        }
        if !header.session_platforms.is_empty()
            && !header.session_platforms.iter().any(|name| name == gate.platform)
        {
            let platforms = header.session_platforms.join(", ");
            return Err(format!("it is for {platforms}, not {}", gate.platform));
        }
        let has = |name: &String| gate.tools.contains(&name.as_str());
        if let Some(missing) = header.requires_tools.iter().find(|name| !has(name)) {
            return Err(format!("it needs the tool {missing}"));
        }
        if let Some(present) = header.fallback_for_tools.iter().find(|name| has(name)) {
            return Err(format!("the tool {present} does its work"));
        }
        Ok(())
    }

    /// Its exact name: category and folder, which is unique in its root.
    pub fn exact_name(&self) -> String {
        let folder = self.folder.file_name().unwrap_or_default().to_string_lossy();
        if self.category.is_empty() {
            folder.into_owned()
        } else {
            format!("{}/{folder}", self.category)
        }
    }
}

/// Whether a skill's word for an operating system means `os`.
fn is_os(name: &str, os: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let plain = match name.as_str() {
        "darwin" | "osx" | "mac" | "mac os" => "macos",
        "win32" | "win" | "win64" => "windows",
        other => other,
    };
    plain == os || matches!(plain, "all" | "any" | "*")
}

/// The folders in which skills are looked for.
pub fn roots(home: &Home, config: &Config, workspace: &Workspace) -> Vec<SkillRoot> {
    let mut roots = Vec::new();
    let mut add = |path: PathBuf, tier: SkillTier| roots.push(SkillRoot { path, tier });
    let settings = &config.skills;
    if settings.project_discovery
        && let Some(root) = &workspace.git_root
        && is_trusted(root, &settings.trusted_project_dirs)
    {
        add(root.join(".hermes/skills"), SkillTier::Project);
        add(root.join(".agents/skills"), SkillTier::Project);
    }
    add(home.skills_dir(), SkillTier::Home);
    if !settings.create_dir.trim().is_empty() {
        add(expanded(settings.create_dir.trim()), SkillTier::Created);
    }
    for folder in &settings.external_dirs {
        add(expanded(folder.trim()), SkillTier::External);
    }
    roots
}

fn is_trusted(root: &Path, trusted: &[String]) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let root = real(root);
    // Everything of a person lies under their home folder: it is no project.
    let is_home = std::env::home_dir().is_some_and(|home| real(&home) == root);
    !is_home && trusted.iter().any(|folder| real(&expanded(folder.trim())) == root)
}

/// `~` at the start is the person's home folder.
fn expanded(path: &str) -> PathBuf {
    match (path.strip_prefix('~'), std::env::home_dir()) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(path),
    }
}

/// Where headers that were read are kept.
pub fn cache_path(home: &Home) -> PathBuf {
    home.root().join("cache").join("skills.json")
}

#[cfg(test)]
mod tests;
