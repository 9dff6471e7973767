//! `skills_list` and `skill_view`: finding a skill and loading it. The body becomes a part of its
//! own on the call's row, labelled with the skill's name and the digest of the file as it was read.

use std::fmt::Write as _;
use std::sync::Arc;

use hermes_context::{Workspace, skills};
use hermes_core::{Digest, Origin, SessionId, ToolOutcome, ToolSink};
use hermes_home::{Config, Home};

use super::{Running, TOOLS, Tool};
use crate::args::{Args, Kind, Param};
use crate::bench::{Workbench, outcome};

pub(super) const LIST: Tool = Tool {
    name: "skills_list",
    json: concat!(
        r#"{"type":"function","function":{"name":"skills_list","description":"#,
        r#""List the skills (procedures for kinds of tasks) with their descriptions.","#,
        r#""parameters":{"type":"object","properties":{"#,
        r#""category":{"type":"string"}},"required":[]}}}"#,
    ),
    params: &[Param::optional("category", Kind::Text)],
    offered: has_skills,
    run: run_list,
};

pub(super) const VIEW: Tool = Tool {
    name: "skill_view",
    json: concat!(
        r#"{"type":"function","function":{"name":"skill_view","description":"#,
        r#""Load a skill before you do what it is for, or a file in its folder.","#,
        r#""parameters":{"type":"object","properties":{"#,
        r#""name":{"type":"string"},"#,
        r#""file":{"type":"string","description":"a file in the skill's folder"},"#,
        r#""offset":{"type":"integer","description":"first character, for the next page"}},"#,
        r#""required":["name"]}}}"#,
    ),
    params: &[
        Param::required("name", Kind::Text),
        Param::optional("file", Kind::Text),
        Param::optional("offset", Kind::Whole(0)),
    ],
    offered: has_skills,
    run: run_view,
};

/// Where skills are looked for and who asks.
#[derive(Clone, Copy)]
pub struct SkillContext<'a> {
    /// The home.
    pub home: &'a Home,
    /// The settings.
    pub config: &'a Config,
    /// Where the session works.
    pub workspace: &'a Workspace,
    /// The surface.
    pub platform: &'a str,
    /// Names of the session's tools.
    pub tools: &'a [&'a str],
    /// The session, for `${HERMES_SESSION_ID}`.
    pub session: Option<&'a SessionId>,
}

impl<'a> SkillContext<'a> {
    /// What decides whether a skill is offered here.
    pub fn gate(&self) -> skills::Gate<'a> {
        skills::Gate {
            os: std::env::consts::OS,
            platform: self.platform,
            tools: self.tools,
            disabled: &self.config.skills.disabled,
        }
    }

    /// Every skill that is found.
    pub fn catalogue(&self) -> skills::Catalogue {
        let roots = skills::roots(self.home, self.config, self.workspace);
        skills::discover(&roots, Some(&skills::cache_path(self.home)))
    }
}

/// A skill's text as it goes to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedSkill {
    /// The part's label: the skill's name, the file if it is not the body, and the first digits of
    /// the digest.
    pub label: String,
    /// The skill's name.
    pub name: String,
    /// Digest of the file's bytes.
    pub digest: Digest,
    /// What was loaded, in a few lines: digest, folder, files, how to go on.
    pub about: String,
    /// The text.
    pub text: String,
    /// What the person should know.
    pub warnings: Vec<String>,
}

/// Loads a page of a skill.
///
/// # Errors
/// If the name means none or several skills, or the file cannot be read; in words for the model.
pub fn load_skill(
    context: &SkillContext<'_>,
    name: &str,
    file: Option<&str>,
    offset: usize,
) -> Result<LoadedSkill, String> {
    // Labels of earlier loads carry the digest behind the name.
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    let catalogue = context.catalogue();
    let skill =
        skills::find(&catalogue.skills, &context.gate(), name).map_err(|e| e.to_string())?;
    load_found(context, skill, file, offset)
}

/// Loads a page of a skill that was found.
///
/// # Errors
/// If the file cannot be read; in words for the model.
pub fn load_found(
    context: &SkillContext<'_>,
    skill: &skills::Skill,
    file: Option<&str>,
    offset: usize,
) -> Result<LoadedSkill, String> {
    let view = skills::view(skill, file, offset).map_err(|e| e.to_string())?;
    let text = match context.session {
        Some(session) if context.config.skills.template_vars => {
            skills::fill_variables(&view.text, skill, session)
        }
        _ => view.text,
    };
    let mut about = format!(
        "skill {}, {}, sha256:{}, {} characters, folder {}",
        view.name,
        view.file,
        view.digest,
        view.total,
        skill.folder.display()
    );
    if !view.linked_files.is_empty() && offset == 0 {
        let _ = write!(about, "\nfiles: {}", view.linked_files.join(", "));
    }
    if let Some(next) = view.next_offset {
        let _ = write!(about, "\nthis is not all of it: go on with offset {next}");
    }
    for warning in &view.warnings {
        let _ = write!(about, "\n[{warning}]");
    }
    let file = if view.file == "SKILL.md" { String::new() } else { format!("/{}", view.file) };
    Ok(LoadedSkill {
        label: format!("{}{file}@{}", view.name, view.digest.short()),
        name: view.name,
        digest: view.digest,
        about,
        text,
        warnings: view.warnings,
    })
}

/// Whether any folder of skills has anything in it. Cheap: it is asked at every start.
fn has_skills(bench: &Workbench) -> bool {
    let roots = skills::roots(&bench.home, &bench.config, bench.workspace());
    let has_entry = |root: &skills::SkillRoot| {
        std::fs::read_dir(&root.path).is_ok_and(|mut entries| entries.next().is_some())
    };
    roots.iter().any(has_entry)
}

fn with_context<T>(bench: &Workbench, then: impl FnOnce(&SkillContext<'_>) -> T) -> T {
    let mut tools: Vec<&str> =
        TOOLS.iter().filter(|tool| (tool.offered)(bench)).map(|tool| tool.name).collect();
    // The agent's own.
    tools.push("delegate_task");
    then(&SkillContext {
        home: &bench.home,
        config: &bench.config,
        workspace: bench.workspace(),
        platform: &bench.platform,
        tools: &tools,
        session: bench.session.as_ref(),
    })
}

fn run_list<'a>(bench: &'a Arc<Workbench>, args: Args, _sink: &'a dyn ToolSink) -> Running<'a> {
    Box::pin(async move {
        let category = args.text("category");
        outcome(Ok(with_context(bench, |context| listed(context, category))))
    })
}

fn listed(context: &SkillContext<'_>, category: Option<&str>) -> String {
    let catalogue = context.catalogue();
    let mut out = String::new();
    let mut unusable = Vec::new();
    for (skill, offered) in skills::list(&catalogue.skills, &context.gate(), category) {
        match offered {
            Ok(()) => {
                let at = if skill.category.is_empty() { "" } else { " in " };
                let (name, category) = (&skill.name, &skill.category);
                // Writing to a String does not fail.
                let _ = writeln!(out, "- {name}{at}{category}: {}", skill.description);
            }
            Err(why) => unusable.push(format!("- {} ({why})", skill.name)),
        }
    }
    if out.is_empty() {
        out.push_str("no skill can be loaded here\n");
    }
    if !unusable.is_empty() {
        let _ = write!(out, "not usable here:\n{}\n", unusable.join("\n"));
    }
    out
}

fn run_view<'a>(bench: &'a Arc<Workbench>, args: Args, _sink: &'a dyn ToolSink) -> Running<'a> {
    Box::pin(async move {
        let offset = args.whole("offset").unwrap_or(0);
        let loaded = with_context(bench, |context| {
            load_skill(context, args.need("name"), args.text("file"), offset)
        });
        match loaded {
            Ok(skill) => ToolOutcome {
                parts: vec![(Origin::Skill, Some(skill.label), skill.text)],
                ..ToolOutcome::ok(skill.about)
            },
            Err(why) => ToolOutcome::failed(format!("skill_view: {why}")),
        }
    })
}
