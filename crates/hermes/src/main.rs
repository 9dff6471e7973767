//! The `hermes` command: reads flags, wires the crates together, prints. Everything that decides
//! lives below; everything that people read is here.

mod app;
mod approve;
mod cli;
mod commands;
mod exit;
mod hint;
mod out;
mod progress;
mod render;
mod repl;
mod said;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::run(cli) {
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
