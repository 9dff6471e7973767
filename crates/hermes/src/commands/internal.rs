//! `hermes internal`: tables for the guide, sessions for benchmarks.

mod seed;

use std::fmt::Write as _;

use clap::CommandFactory as _;

use crate::app::App;
use crate::cli::{Cli, Internal, Talk};
use crate::exit::{Exit, Failure, TABLE};
use crate::out;

/// Carries out one of the commands.
///
/// # Errors
/// If the table is unknown or the store cannot be written.
pub fn run(talk: Talk, command: Internal) -> anyhow::Result<Exit> {
    match command {
        Internal::Tables { name } => out::raw(table(&name)?)?,
        Internal::SeedSession { messages, requests, sessions } => {
            seed::run(&App::new(talk)?, messages, requests, sessions)?;
        }
    }
    Ok(Exit::Ok)
}

fn table(name: &str) -> anyhow::Result<String> {
    match name {
        "exit-codes" => Ok(exit_codes()),
        "sources" => Ok(hermes_context::sources_table()),
        "commands" => Ok(commands()),
        "slash-commands" => Ok(crate::repl::commands::markdown()),
        "hooks" => Ok(hermes_plugins::table::markdown()),
        _ => Err(Failure::new(
            Exit::NotFound,
            format!(
                "there is no table \"{name}\"; hint: exit-codes, sources, commands, slash-commands, hooks"
            ),
        )
        .into()),
    }
}

fn exit_codes() -> String {
    let mut text = String::from("| code | meaning |\n|---|---|\n");
    for (_, code, meaning) in TABLE {
        writeln!(text, "| {code} | {meaning} |").ok();
    }
    text
}

fn commands() -> String {
    fn add(text: &mut String, command: &clap::Command, prefix: &str) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let name = format!("{prefix} {}", sub.get_name());
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(text, "| `{name}` | {about} |").ok();
            add(text, sub, &name);
        }
    }
    let mut text = String::from("| command | what it does |\n|---|---|\n");
    add(&mut text, &Cli::command(), "hermes");
    text
}
