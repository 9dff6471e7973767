//! The `hermes` command: reads flags, wires the crates together, prints. Everything that decides
//! lives below; everything that people read is here.

mod app;
mod approve;
mod cli;
mod commands;
mod exit;
mod hint;
mod log;
mod out;
mod plugged;
mod progress;
mod render;
mod repl;
mod said;
mod signals;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            return match commands::external::run(&error) {
                Some(done) => ended(done),
                None => unparsed(&error),
            };
        }
    };
    ended(commands::run(cli))
}

/// The exit code; an error is told.
fn ended(done: anyhow::Result<impl Into<ExitCode>>) -> ExitCode {
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            if out::is_broken_pipe(&error) {
                return exit::Exit::Ok.into();
            }
            out::error(&error);
            exit::Exit::of(&error).into()
        }
    }
}

/// Help, the version, or what is wrong with the command line and what was probably meant.
fn unparsed(error: &clap::Error) -> ExitCode {
    // Nobody is left to tell when the stream is closed.
    drop(error.print());
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(hint) = hint(error.kind(), &words) {
        out::note(format!("hint: {hint}"));
    }
    if error.exit_code() == 0 { exit::Exit::Ok.into() } else { exit::Exit::Usage.into() }
}

/// What people mean who leave out `chat`, or `-q`, or what `hermes requests verify` is to look at.
fn hint(kind: ErrorKind, words: &[String]) -> Option<&'static str> {
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    match kind {
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand
            if has("chat") || has("-q") || words.len() == 1 =>
        {
            Some("hermes chat -q TEXT says one thing; hermes -z TEXT prints only the answer")
        }
        ErrorKind::MissingRequiredArgument if has("verify") => {
            Some("hermes requests verify --all verifies every request")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_probably_meant_is_said() {
        for (args, said) in [
            (&["-q", "hi"][..], Some("hermes chat -q TEXT")),
            (&["chat", "hello"], Some("hermes chat -q TEXT")),
            (&["hello"], Some("hermes chat -q TEXT")),
            (&["requests", "verify"], Some("--all")),
            (&["requests", "list", "--nonsense"], None),
        ] {
            let words: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
            let parsed =
                cli::Cli::try_parse_from(std::iter::once("hermes").chain(args.iter().copied()));
            let hint = hint(parsed.unwrap_err().kind(), &words);
            assert_eq!(hint.is_some(), said.is_some(), "{args:?}");
            assert!(hint.unwrap_or_default().contains(said.unwrap_or_default()), "{args:?}");
        }
    }
}
