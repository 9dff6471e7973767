//! The rehearsal provider: a small deterministic model server that speaks the real wire over real
//! HTTP. It is no language model and says so.
//!
//! It runs on its own thread with its own runtime, so that it can serve the process that started
//! it, whatever that process is doing. Everything that it received can be read back, byte for
//! byte.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

mod cache;
mod capsule;
mod http;
mod model;
mod record;
mod script;
mod server;

pub use script::{Script, ScriptError};

use server::Shared;

/// How to run it.
#[derive(Debug)]
pub struct RehearsalOptions {
    /// Where to listen; port 0 takes a free one.
    pub addr: SocketAddr,
    /// Replies and faults to play first; afterwards the rehearsal model answers.
    pub script: Option<Script>,
    /// A file to which every received body is appended, one JSON object a line.
    pub record: Option<PathBuf>,
    /// Whether every received body is kept in memory for [`RehearsalServer::received`].
    pub keep_bodies: bool,
    /// A wait between the chunks of the rehearsal model's streams.
    pub chunk_delay: Duration,
}

impl Default for RehearsalOptions {
    /// On a free loopback port, no script, bodies kept, no delays.
    fn default() -> Self {
        Self {
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            script: None,
            record: None,
            keep_bodies: true,
            chunk_delay: Duration::ZERO,
        }
    }
}

/// Why it could not start.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// The port is taken, or the address is not of this machine.
    #[error(
        "the rehearsal provider cannot listen on {addr}: {why}; hint: choose another port, or 0 for a free one"
    )]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The system's words.
        why: std::io::Error,
    },
    /// The record file cannot be written.
    #[error("the rehearsal provider cannot write to {}: {why}; hint: name a file in a folder that exists", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The system's words.
        why: std::io::Error,
    },
    /// The thread or its runtime could not be made.
    #[error("the rehearsal provider cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// The rehearsal provider.
#[derive(Clone, Copy, Debug)]
pub struct Rehearsal;

impl Rehearsal {
    /// Starts a server; when this returns it is listening.
    ///
    /// # Errors
    /// If it cannot listen, or not write its record.
    pub fn start(options: RehearsalOptions) -> Result<RehearsalServer, RehearsalError> {
        server::start(options)
    }
}

/// A running server. Stops when it is dropped.
#[derive(Debug)]
pub struct RehearsalServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl RehearsalServer {
    /// Where it listens.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The base URL to configure, such as `http://127.0.0.1:40123/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// The bodies of all chat requests so far, in the order in which they were read.
    pub fn received(&self) -> Vec<Vec<u8>> {
        self.shared.bodies()
    }

    /// How many chat requests were read so far, kept or not.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many entries of the script have not been played.
    pub fn script_left(&self) -> usize {
        self.shared.script_left()
    }

    /// Ends every connection and the thread.
    pub fn stop(mut self) {
        self.end();
    }

    /// Waits until the server ends by itself, which is when the process is told to end.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }

    fn end(&mut self) {
        if self.stop.take().is_some_and(|stop| stop.send(()).is_err()) {
            tracing::debug!("the rehearsal provider had ended by itself");
        }
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for RehearsalServer {
    fn drop(&mut self) {
        self.end();
    }
}
