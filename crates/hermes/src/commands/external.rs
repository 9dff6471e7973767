//! `hermes NAME ...` where NAME is a command that a plugin adds.
//!
//! Invariant: nothing is asked of plugins before it is certain that the word is none of this
//! program's own commands, and without an enabled plugin no process is started.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use hermes_agent::Services;
use hermes_store::OpenMode;

use crate::app::App;
use crate::cli::{Cli, Talk};
use crate::commands::chat;
use crate::{out, plugged};

/// What a command line asks of a plugin.
#[derive(Debug, PartialEq, Eq)]
struct Wish {
    name: String,
    argv: Vec<String>,
}

/// Runs the plugin's command that a command line names; None if it names none, and the error stands.
pub fn run(error: &clap::Error) -> Option<anyhow::Result<ExitCode>> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (talk, wish) = wish(error, &words)?;
    let app = App::new(talk).ok()?;
    let loaded = app.config().ok()?;
    // Whether there is anything to ask, before the store is opened for it.
    plugged::enabled(&app, &loaded)?;
    let services = match app
        .store(OpenMode::ReadWrite)
        .and_then(|store| app.plugged_services(loaded, store, None))
    {
        Ok(services) => services,
        Err(error) => return Some(Err(error)),
    };
    let done = chat::runtime().map(|runtime| runtime.block_on(ask(&services, &wish)));
    let told = plugged::over(&services);
    match (done, told) {
        (Err(error), _) | (Ok(_), Err(error)) => Some(Err(error)),
        (Ok(done), Ok(())) => done,
    }
}

async fn ask(services: &Services, wish: &Wish) -> Option<anyhow::Result<ExitCode>> {
    let plugins = services.plugins()?;
    plugins.ready().await;
    if !plugins.cli_commands().iter().any(|command| command.name == wish.name) {
        for problem in plugins.problems() {
            out::note(format!("warning: {problem}"));
        }
        return None;
    }
    Some(match plugins.run_cli(&wish.name, &wish.argv).await {
        Ok(result) => out::raw(result.out).map(|()| {
            if !result.err.trim().is_empty() {
                out::note(result.err.trim_end());
            }
            // Codes beyond a byte cannot be told; they are failures all the same.
            ExitCode::from(u8::try_from(result.code).unwrap_or(1))
        }),
        Err(error) => Err(error.into()),
    })
}

/// The word that is no command, the flags before it and the words behind it.
fn wish(error: &clap::Error, words: &[OsString]) -> Option<(Talk, Wish)> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let at = words.iter().position(|word| word.to_str() == Some(name))?;
    let before = std::iter::once("hermes".into()).chain(words[..at].iter().cloned());
    let cli = Cli::try_parse_from(before).ok()?;
    // A word behind a command of this program is that command's matter.
    if cli.command.is_some() {
        return None;
    }
    let argv = words[at + 1..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Some((cli.talk, Wish { name: name.clone(), argv }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Option<(Option<String>, Wish)> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let all = std::iter::once(OsString::from("hermes")).chain(words.iter().cloned());
        let error = Cli::try_parse_from(all).unwrap_err();
        wish(&error, &words).map(|(talk, wish)| (talk.profile, wish))
    }

    #[test]
    fn a_word_that_is_no_command_may_be_a_plugins_with_all_that_stands_behind_it() {
        let (profile, wish) = asked("-p work okf status --json -q x").unwrap();
        assert_eq!(profile.as_deref(), Some("work"));
        assert_eq!(wish.name, "okf");
        assert_eq!(wish.argv, ["status", "--json", "-q", "x"]);
        assert_eq!(asked("sessions okf"), None, "a word behind a command is that command's");
        assert_eq!(asked("--nonsense okf"), None);
    }
}
