//! One module per command; this one only chooses.

pub mod chat;
pub mod compactions;
mod config;
pub mod context;
mod doctor;
pub mod external;
pub mod handoff;
pub mod hooks;
mod import;
mod internal;
mod lab;
mod moving;
mod nightly;
pub mod plugins;
mod profile;
mod rehearse;
mod requests;
mod search;
mod sessions;
mod setup;
pub mod skills;
mod tour;
pub mod trace;
pub mod upkeep;

use clap::CommandFactory as _;

use crate::app::App;
use crate::cli::{Cli, Command};
use crate::exit::Exit;

/// Does what the command line asks for.
///
/// # Errors
/// Whatever went wrong, with its place and a hint.
pub fn run(cli: Cli) -> anyhow::Result<Exit> {
    let Cli { talk, command } = cli;
    let app = |talk| App::new(talk);
    match command {
        None => chat::talk(&app(talk)?),
        Some(Command::Chat(flags)) => chat::chat(&app(talk)?, &flags),
        Some(Command::Tour { keep }) => tour::run(keep),
        Some(Command::Setup(flags)) => setup::run(&app(talk)?, &flags),
        Some(Command::Sessions(command)) => sessions::run(&app(talk)?, command),
        Some(Command::Import(flags)) => import::run(&app(talk)?, &flags),
        Some(Command::Profile(command)) => profile::run(&app(talk)?, command),
        Some(Command::Requests(command)) => requests::run(&app(talk)?, command),
        Some(Command::Context(flags)) => context::run(&app(talk)?, &flags),
        Some(Command::Trace { text, json }) => trace::run(&app(talk)?, &text, json),
        Some(Command::Report { session }) => trace::report(&app(talk)?, &session),
        Some(Command::Skills(command)) => skills::run(&app(talk)?, command),
        Some(Command::Plugins(command)) => plugins::run(&app(talk)?, command),
        Some(Command::Hooks(command)) => hooks::run(&app(talk)?, command),
        Some(Command::Handoff(command)) => handoff::run(&app(talk)?, command),
        Some(Command::Config(command)) => config::run(&app(talk)?, command),
        Some(Command::Doctor { writer, json }) => doctor::run(&app(talk)?, writer, json),
        Some(Command::Lab(command)) => lab::run(talk, command),
        Some(Command::Rehearse(command)) => rehearse::run(command),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "hermes", &mut script);
            crate::out::raw(script)?;
            Ok(Exit::Ok)
        }
        Some(Command::Internal(command)) => internal::run(talk, command),
    }
}
