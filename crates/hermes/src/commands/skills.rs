//! `hermes skills`: what there is, and what is switched off.

use hermes_context::{Workspace, WriteReceipt, skills, source_kind};
use hermes_core::{Digest, Source};
use hermes_home::{Config, Loaded, set};
use hermes_plugins::PluginSkill;
use hermes_tools::SkillContext;
use serde::Serialize;

use crate::app::App;
use crate::cli::Skills;
use crate::commands::chat;
use crate::exit::{Exit, Failure};
use crate::{out, plugged};

/// The setting that holds the names of skills that are switched off.
const DISABLED: &str = "skills.disabled";

/// Carries out one of the commands.
///
/// # Errors
/// If there is no such skill or the configuration cannot be written.
pub fn run(app: &App, command: Skills) -> anyhow::Result<Exit> {
    let loaded = app.config()?;
    let workspace = app.workspace(&loaded.config.terminal.cwd.clone(), None)?;
    match command {
        Skills::List { json } => list(app, &loaded, &workspace, json)?,
        Skills::Enable { name } => switch(app, &loaded, &workspace, &name, true)?,
        Skills::Disable { name } => switch(app, &loaded, &workspace, &name, false)?,
    }
    Ok(Exit::Ok)
}

/// A skill as `--json` shows it.
#[derive(Serialize)]
struct SkillJson {
    name: String,
    category: String,
    description: String,
    path: String,
    digest: String,
    usable: bool,
    why_not: Option<String>,
}

/// The skills as a session on the command line finds them.
pub fn found<T>(
    app: &App,
    config: &Config,
    workspace: &Workspace,
    then: impl FnOnce(&skills::Catalogue, &skills::Gate<'_>) -> T,
) -> T {
    /// Every tool that a session here may have.
    const TOOLS: &[&str] = &[
        "read_file",
        "write_file",
        "patch",
        "search_files",
        "terminal",
        "memory",
        "skills_list",
        "skill_view",
        "delegate_task",
    ];
    let context = SkillContext {
        home: &app.home,
        config,
        workspace,
        platform: "cli",
        tools: TOOLS,
        session: None,
    };
    then(&context.catalogue(), &context.gate())
}

fn list(app: &App, loaded: &Loaded, workspace: &Workspace, json: bool) -> anyhow::Result<()> {
    let mut skills = found(app, &loaded.config, workspace, |catalogue, gate| {
        for warning in &catalogue.warnings {
            out::note(format!("warning: {warning}"));
        }
        let all = skills::list(&catalogue.skills, gate, None);
        all.into_iter()
            .map(|(skill, offered)| SkillJson {
                name: skill.name.clone(),
                category: skill.category.clone(),
                description: skill.description.clone(),
                path: skill.path.display().to_string(),
                digest: skill.digest.to_string(),
                usable: offered.is_ok(),
                why_not: offered.err(),
            })
            .collect::<Vec<_>>()
    });
    skills.extend(of_plugins(app, loaded)?);
    if json {
        return out::json(&skills);
    }
    let rows = skills
        .into_iter()
        .map(|skill| {
            let state = skill.why_not.unwrap_or_else(|| "usable".to_owned());
            vec![skill.name, skill.category, out::ellipsis(&skill.description, 60), state]
        })
        .collect();
    out::table(&["skill", "category", "description", "state"], rows, "there are no skills")
}

/// The skills that plugins bring; none, and nothing is started, where no plugin is switched on.
fn of_plugins(app: &App, loaded: &Loaded) -> anyhow::Result<Vec<SkillJson>> {
    let Some(plugins) = plugged::enabled(app, loaded) else { return Ok(Vec::new()) };
    let skills = chat::runtime()?.block_on(async {
        plugins.ready().await;
        let skills = plugins.skills();
        plugins.close().await;
        skills
    });
    let line = |skill: PluginSkill| SkillJson {
        category: format!("plugin {}", skill.plugin),
        digest: std::fs::read(&skill.path)
            .map(|bytes| Digest::of(bytes).to_string())
            .unwrap_or_default(),
        usable: skill.path.exists(),
        why_not: (!skill.path.exists()).then(|| format!("{} is gone", skill.path.display())),
        path: skill.path.display().to_string(),
        name: skill.name,
        description: skill.description,
    };
    Ok(skills.into_iter().map(line).collect())
}

/// Switches a skill on or off and says when the model will see it.
fn switch(
    app: &App,
    loaded: &Loaded,
    workspace: &Workspace,
    name: &str,
    on: bool,
) -> anyhow::Result<()> {
    let mut disabled = loaded.config.skills.disabled.clone();
    let exists = found(app, &loaded.config, workspace, |catalogue, _| {
        catalogue.skills.iter().any(|skill| skill.name == name)
    });
    if !exists && !disabled.iter().any(|other| other == name) {
        let text = format!("there is no skill \"{name}\"; hint: `hermes skills list`");
        return Err(Failure::new(Exit::NotFound, text).into());
    }
    let before = serde_json::to_string(&disabled)?;
    disabled.retain(|other| other != name);
    if !on {
        disabled.push(name.to_owned());
    }
    let after = serde_json::to_string(&disabled)?;
    if before != after {
        set(&app.home, &loaded.vars, DISABLED, &after)?;
    }
    let word = if on { "on" } else { "off" };
    out::line(format!("skill {name}: {word}"))?;
    if let Some(kind) = source_kind("skills") {
        let source = Source::Config { key: DISABLED.to_owned() };
        let receipt = WriteReceipt::new(kind, source, Digest::of(before), Digest::of(after));
        out::line(receipt.to_string())?;
    }
    Ok(())
}
