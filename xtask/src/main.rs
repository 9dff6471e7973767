//! `cargo xtask`: what a reviewer should not have to check by eye.
//!
//! Two commands. `tidy` reads the repository and reports every broken rule with its place and the
//! next step; `tables` shows or rewrites the parts of the guide that are generated from code. It
//! uses the standard library alone, so that it builds in seconds and can be run first.

mod finding;
mod repo;
mod tidy;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use tidy::tables::Generator;

const USAGE: &str = "\
Checks of the repository.

usage: cargo xtask tidy [--hermes FILE]
       cargo xtask tables [--write] [--hermes FILE]

  tidy     Reports every broken rule of the house; exit code 1 if there is one.
  tables   Prints the generated tables of the guide; --write puts them into the documents.

  --hermes FILE   Ask this binary for the generated tables instead of building one.
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Help,
    Tidy { hermes: Option<PathBuf> },
    Tables { write: bool, hermes: Option<PathBuf> },
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let name = args.next().unwrap_or_default();
    let mut hermes = None;
    let mut write = false;
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--write") if name == "tables" => write = true,
            Some("--hermes") => {
                let file = args.next().ok_or("--hermes needs the path of a hermes binary")?;
                hermes = Some(PathBuf::from(file));
            }
            _ => return Err(format!("unknown argument {}", arg.display())),
        }
    }
    match name.to_str() {
        Some("tidy") => Ok(Command::Tidy { hermes }),
        Some("tables") => Ok(Command::Tables { write, hermes }),
        Some("" | "help" | "--help" | "-h") => Ok(Command::Help),
        _ => Err(format!("unknown command {}", name.display())),
    }
}

fn run(command: Command, out: &mut dyn Write) -> Result<ExitCode, String> {
    let failed = |error: io::Error| format!("the output could not be written: {error}");
    match command {
        Command::Help => {
            out.write_all(USAGE.as_bytes()).map_err(failed)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Tidy { hermes } => {
            let repo = repo::Repo::find()?;
            let report = tidy::run(&repo, &Generator::new(&repo.root, hermes))?;
            report.print(out).map_err(failed)?;
            Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Tables { write, hermes } => {
            let repo = repo::Repo::find()?;
            let generator = Generator::new(&repo.root, hermes);
            for line in tidy::tables::refresh(&repo, &generator, write)? {
                writeln!(out, "{line}").map_err(failed)?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn main() -> ExitCode {
    let done = parse(std::env::args_os().skip(1))
        .map_err(|error| format!("{error}\n  hint: cargo xtask help lists the commands"))
        .and_then(|command| run(command, &mut io::stdout().lock()));
    match done {
        Ok(code) => code,
        Err(error) => {
            // Standard error may be closed; there is nobody left to tell then.
            writeln!(io::stderr(), "xtask: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_command_line_is_read() {
        let file = || Some(PathBuf::from("out/hermes"));
        assert_eq!(parsed(""), Ok(Command::Help));
        assert_eq!(parsed("tidy"), Ok(Command::Tidy { hermes: None }));
        assert_eq!(parsed("tidy --hermes out/hermes"), Ok(Command::Tidy { hermes: file() }));
        let tables = Command::Tables { write: true, hermes: file() };
        assert_eq!(parsed("tables --write --hermes out/hermes"), Ok(tables));
    }

    #[test]
    fn a_word_that_is_not_known_is_named() {
        assert_eq!(parsed("tidi"), Err("unknown command tidi".into()));
        assert_eq!(parsed("tidy --write"), Err("unknown argument --write".into()));
        assert!(parsed("tidy --hermes").is_err());
    }
}
