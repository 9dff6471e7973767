//! Loading a skill's body or a file beside it, page by page.
//!
//! Invariant: nothing outside the skill's own folder is read, links included.

use std::fs;
use std::path::{Component, Path};

use hermes_core::{Digest, SessionId};

use super::{Gate, Skill, SkillState, frontmatter};
use crate::source_text::{self, SourceProblem};
use crate::threat;

/// Characters of one page.
pub const PAGE_CHARACTERS: usize = 50_000;
/// Files named beside a skill at most.
const MAX_LINKED: usize = 200;

/// A page of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillView {
    /// The skill's name.
    pub name: String,
    /// The file inside its folder, `SKILL.md` for the body.
    pub file: String,
    /// The page's text; of the body without the header.
    pub text: String,
    /// First character of the page.
    pub offset: usize,
    /// Where the next page starts, if there is one.
    pub next_offset: Option<usize>,
    /// Characters of the whole file.
    pub total: usize,
    /// Digest of the file's bytes, which is what is recorded as loaded.
    pub digest: Digest,
    /// Files in the skill's folder, relative to it.
    pub linked_files: Vec<String>,
    /// What the person should know.
    pub warnings: Vec<String>,
}

/// A skill that cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkillError {
    /// No skill has the name.
    #[error("there is no skill \"{name}\"; hint: {}", suggestion(.similar))]
    Unknown {
        /// The name.
        name: String,
        /// Names like it.
        similar: Vec<String>,
    },
    /// Several have it.
    #[error("\"{name}\" is more than one skill; hint: use one of these exact names: {}", .exact.join(", "))]
    Ambiguous {
        /// The name.
        name: String,
        /// Exact names.
        exact: Vec<String>,
    },
    /// It is there but not usable here.
    #[error("the skill \"{name}\" cannot be loaded: {why}")]
    NotOffered {
        /// The name.
        name: String,
        /// Why.
        why: String,
    },
    /// The file is not one of its folder.
    #[error("\"{file}\" is not a file in the folder of the skill \"{name}\"; hint: its files are: {}", .files.join(", "))]
    OutsideFolder {
        /// The skill.
        name: String,
        /// The file asked for.
        file: String,
        /// The files there are.
        files: Vec<String>,
    },
    /// The file gives no text.
    #[error("\"{file}\" of the skill \"{name}\": {problem}")]
    Unreadable {
        /// The skill.
        name: String,
        /// The file.
        file: String,
        /// Why.
        problem: SourceProblem,
    },
}

fn suggestion(similar: &[String]) -> String {
    if similar.is_empty() {
        "skills_list shows all of them".to_owned()
    } else {
        format!("did you mean {}?", similar.join(", "))
    }
}

/// The skill that `name` means: its name, or its exact name (category and folder).
///
/// # Errors
/// If it means none or several, or the skill is not usable here.
pub fn find<'a>(skills: &'a [Skill], gate: &Gate<'_>, name: &str) -> Result<&'a Skill, SkillError> {
    let name = name.trim().trim_matches('/');
    let mut named: Vec<&Skill> = skills.iter().filter(|skill| skill.name == name).collect();
    if named.iter().any(|skill| skill.state == SkillState::Usable) {
        named.retain(|skill| skill.state == SkillState::Usable);
    }
    let ambiguous = named.iter().any(|skill| matches!(skill.state, SkillState::Ambiguous { .. }));
    let exact = skills.iter().find(|skill| skill.exact_name() == name);
    let skill = match (named.as_slice(), exact) {
        ([only], _) if !ambiguous => *only,
        (_, Some(exact)) if !ambiguous || exact.exact_name() != exact.name => exact,
        ([], None) => {
            return Err(SkillError::Unknown {
                name: name.to_owned(),
                similar: similar(skills, name),
            });
        }
        (many, _) => {
            let exact = many.iter().map(|skill| skill.exact_name()).collect();
            return Err(SkillError::Ambiguous { name: name.to_owned(), exact });
        }
    };
    // By its exact name an ambiguous or shadowed skill may be loaded.
    let by_exact_name =
        matches!(skill.state, SkillState::Ambiguous { .. } | SkillState::Shadowed { .. });
    match skill.offered(gate) {
        Ok(()) => Ok(skill),
        Err(_) if by_exact_name => Ok(skill),
        Err(why) => Err(SkillError::NotOffered { name: skill.name.clone(), why }),
    }
}

fn similar(skills: &[Skill], name: &str) -> Vec<String> {
    let wanted = name.to_lowercase();
    let like = |skill: &&Skill| {
        let other = skill.name.to_lowercase();
        !wanted.is_empty() && (other.contains(&wanted) || wanted.contains(&other))
    };
    let mut names: Vec<String> =
        skills.iter().filter(like).map(|skill| skill.name.clone()).take(5).collect();
    names.dedup();
    names
}

/// Reads a page of the skill's body, or of `file` in its folder, from character `offset`.
///
/// # Errors
/// If the file is not inside the folder or gives no text.
pub fn view(skill: &Skill, file: Option<&str>, offset: usize) -> Result<SkillView, SkillError> {
    let files = linked_files(&skill.folder);
    let file = file.map(str::trim).filter(|file| !file.is_empty()).unwrap_or("SKILL.md");
    let outside = || SkillError::OutsideFolder {
        name: skill.name.clone(),
        file: file.to_owned(),
        files: files.clone(),
    };
    let relative = Path::new(file);
    if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(outside());
    }
    let source = match source_text::read_inside(&skill.folder.join(relative), &skill.folder) {
        Ok(source) => source,
        Err(SourceProblem::Missing | SourceProblem::LeavesRoot(_)) => return Err(outside()),
        Err(problem) => {
            let (name, file) = (skill.name.clone(), file.to_owned());
            return Err(SkillError::Unreadable { name, file, problem });
        }
    };
    let path = skill.folder.join(relative);
    let is_body = relative == Path::new("SKILL.md");
    let body = match frontmatter::split(&source.text) {
        Ok((_, body)) if is_body => body,
        _ => &source.text,
    };
    // Pages end at line ends, so that no line is scanned in halves.
    let total = body.chars().count();
    let (page, next_offset) = page(body, offset);
    let screened = threat::screen(&page);
    let mut warnings: Vec<String> =
        source.notes.iter().map(|note| format!("{}: {note}", path.display())).collect();
    warnings.extend(crate::project::threat_warnings(&path, &screened));
    Ok(SkillView {
        name: skill.name.clone(),
        file: file.to_owned(),
        text: screened.text,
        offset,
        next_offset,
        total,
        digest: source.digest,
        linked_files: files,
        warnings,
    })
}

/// A skill's text with `${HERMES_SKILL_DIR}` and `${HERMES_SESSION_ID}` filled in, for
/// `skills.template_vars`.
pub fn fill_variables(text: &str, skill: &Skill, session: &SessionId) -> String {
    text.replace("${HERMES_SKILL_DIR}", &skill.folder.display().to_string())
        .replace("${HERMES_SESSION_ID}", session.as_str())
}

/// The page from character `offset` on, ended at a line end, and where the next one starts.
fn page(text: &str, offset: usize) -> (String, Option<usize>) {
    let mut page: String = text.chars().skip(offset).take(PAGE_CHARACTERS).collect();
    let length = page.chars().count();
    if length < PAGE_CHARACTERS || offset + length >= text.chars().count() {
        return (page, None);
    }
    if let Some(end) = page.rfind('\n').filter(|end| *end > page.len() / 2) {
        page.truncate(end + 1);
    }
    let next = offset + page.chars().count();
    (page, Some(next))
}

/// The files in a skill's folder beside `SKILL.md`, hidden ones left out, by name.
fn linked_files(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![(folder.to_owned(), String::new(), 0)];
    while let Some((path, prefix, depth)) = folders.pop() {
        let Ok(entries) = fs::read_dir(&path) else { continue };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with('.') || (depth == 0 && name == "SKILL.md") {
                continue;
            }
            let shown = format!("{prefix}{name}");
            if kind.is_dir() && depth < 4 {
                folders.push((entry.path(), format!("{shown}/"), depth + 1));
            } else if kind.is_file() {
                files.push(shown);
            }
        }
        if files.len() > MAX_LINKED * 5 {
            break;
        }
    }
    files.sort();
    files.truncate(MAX_LINKED);
    files
}
