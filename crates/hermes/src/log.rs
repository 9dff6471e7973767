//! The log: what happened beside the conversation, for the person who looks at three in the
//! morning. One private file, made at the first line, bounded by a few older ones.
//!
//! Invariant: every line has passed the redactor.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hermes_core::Env;
use hermes_home::redact::Redactor;
use hermes_home::{Home, SystemEnv, fsio};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// The file's name in the home's folder of logs.
const NAME: &str = "hermes.log";
/// Size at which a new file is begun; as `logging.max_size_mb` of the original.
const MAX_BYTES: u64 = 5 * 1024 * 1024;
/// Older files that are kept; as `logging.backup_count` of the original.
const BACKUPS: u32 = 3;

/// Knows the secrets of the configuration once that is loaded.
#[derive(Clone)]
pub struct Secrets(Arc<Mutex<Redactor>>);

impl Secrets {
    /// Takes over what the configuration knows.
    pub fn learn(&self, redactor: Redactor) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = redactor;
    }
}

/// Begins to log into the home. The second call in a process changes nothing.
pub fn install(home: &Home) -> Secrets {
    let secrets = Secrets(Arc::new(Mutex::new(Redactor::new([]))));
    let log = Log { path: home.logs_dir().join(NAME), secrets: secrets.clone() };
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(Level::INFO)
        .with_timer(Clock)
        // On a home that cannot be written there is no log; the commands say so themselves.
        .log_internal_errors(false)
        .with_writer(log)
        .finish();
    tracing::subscriber::set_global_default(subscriber).ok();
    secrets
}

/// The system's time, as every list shows it.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", SystemEnv::new("").now())
    }
}

struct Log {
    path: PathBuf,
    secrets: Secrets,
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { log: self }
    }
}

/// One event: the subscriber writes each in one piece.
struct Line<'a> {
    log: &'a Log,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let secrets = self.log.secrets.0.lock().unwrap_or_else(PoisonError::into_inner);
        open(&self.log.path)?.write_all(secrets.redact(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The file, opened anew for each line: lines are rare, and another process may have begun a new
/// one.
fn open(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|meta| meta.len() > MAX_BYTES) {
        begin_anew(path)?;
    }
    if let Some(folder) = path.parent() {
        fsio::create_private_dir(folder)?;
    }
    fsio::open_private_append(path)
}

/// Moves the file to `hermes.log.1`, that one to `.2`, and so on.
fn begin_anew(path: &Path) -> io::Result<()> {
    let older = |n: u32| path.with_extension(format!("log.{n}"));
    for n in (1..BACKUPS).rev() {
        match fs::rename(older(n), older(n + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, older(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_redacted_and_a_full_file_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs").join(NAME);
        let secrets = Secrets(Arc::new(Mutex::new(Redactor::new(["hunter2-not-a-key"]))));
        let log = Log { path: path.clone(), secrets };
        log.make_writer().write_all(b"INFO key hunter2-not-a-key sent\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "INFO key [redacted] sent\n");

        for round in 0..BACKUPS + 2 {
            fs::write(&path, vec![b'x'; MAX_BYTES as usize + 1]).unwrap();
            log.make_writer().write_all(format!("round {round}\n").as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("round {}\n", BACKUPS + 1));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count() as u32, BACKUPS + 1);
    }
}
