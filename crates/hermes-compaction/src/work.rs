//! What was done, read from calls and results without a model: files touched, commands with their
//! exit codes, refusals, loaded skills, delegations.

use std::collections::BTreeMap;

use hermes_core::{Origin, Role, Row, RowStatus, Seq};

use crate::cutting::{line, one_line};
use crate::facts::{argument, arguments_by_result, exit_code, result_text, subject};

/// A file that a tool read or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path as the call gave it.
    pub path: String,
    /// Whether it was changed.
    pub changed: bool,
    /// How often it was touched.
    pub times: u32,
    /// The newest result about it.
    pub row: Seq,
    /// Whether that one failed.
    pub failed: bool,
}

/// A command that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The command, cut if it is long.
    pub command: String,
    /// Its exit code, where the result tells it.
    pub exit: Option<i32>,
    /// Whether the call failed.
    pub failed: bool,
    /// The first line of a failed command's output.
    pub why: String,
    /// How often it ran.
    pub times: u32,
    /// The newest result.
    pub row: Seq,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Files, those changed first, each by its newest touch.
    pub files: Vec<File>,
    /// Commands, the newest run of each, in order.
    pub commands: Vec<Command>,
    /// Calls that were refused: what and where.
    pub refusals: Vec<(String, Seq)>,
    /// Skills that were loaded, and where.
    pub skills: Vec<(String, Seq)>,
    /// Project files that were discovered on the way, and where.
    pub hints: Vec<(String, Seq)>,
    /// Work that was handed to a child: what, how it went, where.
    pub delegations: Vec<(String, RowStatus, Seq)>,
}

/// Reads what was done in `rows`.
pub fn work(rows: &[&Row]) -> Work {
    let arguments = arguments_by_result(rows);
    let mut files: BTreeMap<String, File> = BTreeMap::new();
    let mut commands: BTreeMap<String, Command> = BTreeMap::new();
    let mut out = Work::default();
    for (index, row) in rows.iter().enumerate() {
        for part in &row.parts {
            let label = part.label.as_deref().unwrap_or("(unnamed)");
            match part.origin {
                Origin::Skill => latest(&mut out.skills, label, row.seq),
                Origin::Hint => latest(&mut out.hints, label, row.seq),
                _ => {}
            }
        }
        let Some(link) = row.tool.as_ref().filter(|_| row.role == Role::Tool) else { continue };
        let arguments = arguments[index].unwrap_or_default();
        let failed = row.status == RowStatus::Failed;
        if failed && result_text(row).contains("refused:") {
            let what = format!("{} {}", link.name, subject(arguments, 100));
            out.refusals.push((what, row.seq));
        }
        match class(&link.name) {
            Class::Read | Class::Write => {
                let keys = ["path", "file_path", "file", "filename"];
                let Some(path) = argument(arguments, &keys) else { continue };
                let changed = class(&link.name) == Class::Write && !failed;
                let file = files.entry(path.clone()).or_insert(File {
                    path,
                    changed: false,
                    times: 0,
                    row: row.seq,
                    failed,
                });
                file.changed |= changed;
                file.times += 1;
                file.row = row.seq;
                file.failed = failed;
            }
            Class::Run => {
                let command = subject(arguments, 120);
                if command.is_empty() {
                    continue;
                }
                let text = result_text(row);
                let exit = exit_code(&text);
                let bad = failed || exit.is_some_and(|code| code != 0);
                let times = commands.get(&command).map_or(0, |known| known.times) + 1;
                let why = if bad { second_line(&text) } else { String::new() };
                commands.insert(
                    command.clone(),
                    Command { command, exit, failed: bad, why, times, row: row.seq },
                );
            }
            Class::Delegate => {
                out.delegations.push((subject(arguments, 160), row.status, row.seq));
            }
            Class::Other => {}
        }
    }
    out.files = files.into_values().collect();
    out.files.sort_by_key(|file| (!file.changed, std::cmp::Reverse(file.row)));
    out.commands = commands.into_values().collect();
    out.commands.sort_by_key(|command| command.row);
    out
}

fn latest(list: &mut Vec<(String, Seq)>, name: &str, row: Seq) {
    match list.iter_mut().find(|(known, _)| known == name) {
        Some(entry) => entry.1 = row,
        None => list.push((name.to_owned(), row)),
    }
}

/// The first telling line after the one with the exit code.
fn second_line(text: &str) -> String {
    let rest = text.split_once('\n').map_or(text, |(_, rest)| rest);
    line(rest, 100)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Read,
    Write,
    Run,
    Delegate,
    Other,
}

/// What a tool of this name does to the outside; names of other programs' tools included.
fn class(name: &str) -> Class {
    match name {
        "read_file" | "view" | "open_file" => Class::Read,
        "write_file" | "patch" | "edit_file" | "create_file" | "str_replace" => Class::Write,
        "terminal" | "bash" | "shell" | "execute_code" | "process" => Class::Run,
        "delegate_task" | "delegate" => Class::Delegate,
        _ => Class::Other,
    }
}

impl Work {
    /// Its lines in a summary, the most telling first, within `budget` tokens.
    pub fn lines(&self, budget: u64) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for (what, row) in &self.refusals {
            all.push(format!("- refused: {what} [r{row}]"));
        }
        for (goal, status, row) in &self.delegations {
            let how = match status {
                RowStatus::Complete => "finished",
                RowStatus::Failed => "failed",
                RowStatus::Interrupted => "broken off",
            };
            all.push(format!("- delegated, {how}: {goal} [r{row}]"));
        }
        for (name, row) in &self.skills {
            all.push(format!(
                "- skill {name} was loaded [r{row}]; load it again before following it"
            ));
        }
        let failed = self.commands.iter().rev().filter(|command| command.failed);
        let fine = self.commands.iter().rev().filter(|command| !command.failed);
        all.extend(self.files.iter().filter(|file| file.changed).map(File::line));
        all.extend(failed.map(Command::line));
        all.extend(fine.map(Command::line));
        all.extend(self.files.iter().filter(|file| !file.changed).map(File::line));
        all.extend(self.hints.iter().map(|(path, row)| format!("- project file {path} [r{row}]")));
        let total = all.len();
        let mut left = budget;
        let mut lines = Vec::new();
        for text in all {
            let cost = 1 + hermes_context::estimate_tokens(&text);
            if cost > left {
                break;
            }
            left -= cost;
            lines.push(text);
        }
        if lines.len() < total && !lines.is_empty() {
            lines.push(format!("- ({} more, in the stored rows)", total - lines.len()));
        }
        lines
    }
}

impl File {
    fn line(&self) -> String {
        let what = if self.changed { "changed" } else { "read" };
        let failed = if self.failed { ", the last call failed" } else { "" };
        format!("- {what} {}{failed} [r{}]", one_line(&self.path, 200), self.row)
    }
}

impl Command {
    fn line(&self) -> String {
        let exit = match (self.exit, self.failed) {
            (Some(code), _) => format!("exit code {code}"),
            (None, true) => "failed".to_owned(),
            (None, false) => "done".to_owned(),
        };
        let times = if self.times > 1 { format!(", {} times", self.times) } else { String::new() };
        let why = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
        format!("- ran `{}`{times}: {exit}{why} [r{}]", self.command, self.row)
    }
}
