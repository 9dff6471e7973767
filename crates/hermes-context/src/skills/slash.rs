//! Skills as slash commands.
//!
//! Invariant: a built-in command keeps its name; every usable skill has a command of its own or a
//! notice that says how else it is called.

use std::collections::BTreeSet;

use super::{Gate, Skill};

/// Longest command, which chat platforms carry (Telegram's limit).
const MAX_COMMAND: usize = 32;

/// A command that loads a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlashCommand {
    /// The command, without the slash.
    pub command: String,
    /// The skill's name.
    pub skill: String,
    /// What the person should know, if the command is not simply the skill's name.
    pub notice: Option<String>,
}

/// The commands of the skills that `gate` offers. `reserved` are the built-in ones.
pub fn slash_commands(skills: &[Skill], gate: &Gate<'_>, reserved: &[&str]) -> Vec<SlashCommand> {
    let mut taken: BTreeSet<String> =
        reserved.iter().map(|name| name.trim_start_matches('/').to_lowercase()).collect();
    let mut commands = Vec::new();
    // Plain names first, so that none loses its command to a name that was made for another.
    let (plain, odd): (Vec<&Skill>, Vec<&Skill>) = skills
        .iter()
        .filter(|skill| skill.offered(gate).is_ok())
        .partition(|skill| slug(&skill.name) == skill.name);
    for skill in plain.into_iter().chain(odd) {
        let slug = slug(&skill.name);
        let base = if slug.is_empty() { "skill".to_owned() } else { slug };
        let command = free(&base, &taken);
        let notice = (command != skill.name).then(|| {
            if taken.contains(&base) {
                format!("/{base} is taken, so the skill \"{}\" is called by /{command}", skill.name)
            } else {
                format!("the skill \"{}\" is called by /{command}", skill.name)
            }
        });
        taken.insert(command.clone());
        commands.push(SlashCommand { command, skill: skill.name.clone(), notice });
    }
    commands.sort_by(|a, b| a.command.cmp(&b.command));
    commands
}

/// Lower-case letters and digits joined by single hyphens, not longer than a command may be.
fn slug(name: &str) -> String {
    let mut out = String::new();
    for character in name.to_lowercase().chars() {
        if character.is_ascii_alphanumeric() {
            out.push(character);
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
        if out.len() == MAX_COMMAND {
            break;
        }
    }
    out.trim_end_matches('-').to_owned()
}

/// `base`, else `skill-base`, else with a number.
fn free(base: &str, taken: &BTreeSet<String>) -> String {
    let short = |text: &str, room: usize| -> String { text.chars().take(room).collect() };
    let mut candidates = vec![base.to_owned(), format!("skill-{}", short(base, MAX_COMMAND - 6))];
    candidates.extend((2..1000).map(|number| format!("{}-{number}", short(base, MAX_COMMAND - 4))));
    let free = candidates.into_iter().find(|candidate| !taken.contains(candidate));
    free.unwrap_or_else(|| base.to_owned())
}
