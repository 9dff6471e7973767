//! `hermes rehearse`: the built-in model server on its own.

use std::net::SocketAddr;

use anyhow::Context as _;
use hermes_provider::rehearsal::{Rehearsal, RehearsalOptions, Script};

use crate::cli::Rehearse;
use crate::commands::chat;
use crate::exit::{Exit, Failure};
use crate::out;

/// Serves until the process is stopped.
///
/// # Errors
/// If the port is taken or the script cannot be read.
pub fn run(command: Rehearse) -> anyhow::Result<Exit> {
    let Rehearse::Serve { port, script, record } = command;
    if let Some(path) = script.as_ref().filter(|path| !path.exists()) {
        return Err(Failure::new(
            Exit::NotFound,
            format!(
                "the script {} does not exist; hint: --script wants a JSON file, as the guide's \
                 page on rehearsal describes it",
                path.display()
            ),
        )
        .into());
    }
    let script = script.map(|path| Script::load(&path)).transpose()?;
    if let Some(path) = &record {
        // Bodies hold conversations: made here, readable by their owner only.
        drop(hermes_home::fsio::open_private_append(path).with_context(|| {
            format!("{} cannot be written; hint: choose another file", path.display())
        })?);
    }
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
