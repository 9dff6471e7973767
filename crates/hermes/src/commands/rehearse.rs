//! `hermes rehearse`: the built-in model server on its own.

use std::net::SocketAddr;

use hermes_provider::rehearsal::{Rehearsal, RehearsalOptions, Script};

use crate::cli::Rehearse;
use crate::commands::chat;
use crate::exit::Exit;
use crate::out;

/// Serves until the process is stopped.
///
/// # Errors
/// If the port is taken or the script cannot be read.
pub fn run(command: Rehearse) -> anyhow::Result<Exit> {
    let Rehearse::Serve { port, script, record } = command;
    let script = script.map(|path| Script::load(&path)).transpose()?;
    let server = Rehearsal::start(RehearsalOptions {
        addr: SocketAddr::from(([127, 0, 0, 1], port)),
        script,
        record,
        keep_bodies: false,
        ..RehearsalOptions::default()
    })?;
    out::line(server.base_url())?;
    out::note("the rehearsal provider is no language model; Ctrl-C stops it");
    chat::runtime()?.block_on(tokio::signal::ctrl_c())?;
    Ok(Exit::Ok)
}
