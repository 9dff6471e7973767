//! Skills that plugins bring: an index of them in the prompt, and their bodies when they are loaded
//! by their whole name, `plugin:name`.

use std::path::PathBuf;

use hermes_context::PluginSection;
use hermes_context::skills::{Skill, SkillHeader, SkillState, SkillTier};
use hermes_core::{Digest, Origin, ToolCall, ToolOutcome};
use hermes_plugins::Plugins;
use hermes_tools::{LoadedSkill, SkillContext, load_found};
use serde_json::Value;

use crate::Services;
use crate::conversation::Conversation;

/// The tool that loads skills.
pub(super) const VIEW: &str = "skill_view";

/// The skills of all plugins.
pub(super) fn of(plugins: &Plugins) -> Vec<(String, Skill)> {
    let found = plugins.skills().into_iter();
    found
        .map(|skill| {
            let (folder, path) = places(skill.path);
            let digest = std::fs::read(&path).map_or_else(|_| Digest::of(""), Digest::of);
            let found = Skill {
                name: skill.name,
                description: skill.description.split_whitespace().collect::<Vec<_>>().join(" "),
                category: String::new(),
                folder,
                path,
                tier: SkillTier::External,
                header: SkillHeader::default(),
                digest,
                state: SkillState::Usable,
            };
            (skill.plugin.to_string(), found)
        })
        .collect()
}

/// The folder and the file of a skill that was registered by either.
fn places(path: PathBuf) -> (PathBuf, PathBuf) {
    if path.is_dir() {
        let file = path.join("SKILL.md");
        return (path, file);
    }
    (path.parent().map(PathBuf::from).unwrap_or_default(), path)
}

/// The index for the prompt, a section for each plugin.
pub(super) fn sections(skills: &[(String, Skill)]) -> Vec<PluginSection> {
    let mut out: Vec<PluginSection> = Vec::new();
    for (plugin, skill) in skills {
        let line = format!("\n- {}: {}", skill.name, skill.description);
        if let Some(known) = out.iter_mut().find(|section| section.plugin == *plugin) {
            known.text.push_str(&line);
        } else {
            let head = "Skills, to be loaded with skill_view by their whole name:";
            let text = format!("{head}{line}");
            out.push(PluginSection {
                id: format!("skills.{plugin}"),
                plugin: plugin.clone(),
                text,
            });
        }
    }
    out
}

impl Conversation {
    /// A page of a plugin's skill; None if no plugin has a skill of that name.
    pub(crate) fn load_plugin_skill(
        &self,
        services: &Services,
        name: &str,
        file: Option<&str>,
        offset: usize,
    ) -> Option<Result<LoadedSkill, String>> {
        let name = name.split_once('@').map_or(name, |(name, _)| name);
        let (_, skill) = self.plugged.skills.iter().find(|(_, skill)| skill.name == name)?;
        let tools: Vec<&str> = self.tools.defs.iter().map(|def| &*def.name).collect();
        let context = SkillContext {
            home: &services.home,
            config: &services.config,
            workspace: self.workspace(),
            platform: &self.options.platform,
            tools: &tools,
            session: Some(self.id()),
        };
        Some(load_found(&context, skill, file, offset))
    }

    /// The result of `skill_view`, if it names a plugin's skill.
    pub(super) fn view_plugin_skill(
        &self,
        services: &Services,
        call: &ToolCall,
    ) -> Option<ToolOutcome> {
        if &*call.name != VIEW {
            return None;
        }
        let args: Value = serde_json::from_str(&call.arguments).ok()?;
        let name = args.get("name")?.as_str()?;
        let file = args.get("file").and_then(Value::as_str);
        let offset = args.get("offset").and_then(Value::as_u64).unwrap_or(0);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        Some(match self.load_plugin_skill(services, name, file, offset)? {
            Ok(skill) => ToolOutcome {
                parts: vec![(Origin::Skill, Some(skill.label), skill.text)],
                ..ToolOutcome::ok(skill.about)
            },
            Err(why) => ToolOutcome::failed(format!("skill_view: {why}")),
        })
    }
}
