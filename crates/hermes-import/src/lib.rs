//! Sessions from elsewhere: from a home of the Python Hermes Agent, from Codex and Claude Code,
//! from JSON lines that any Hermes exported; and sessions written out for people to read.
//!
//! Invariants: a source is only read, never opened for writing; each session comes in whole or not
//! at all, so an import can be started again and goes on; what is left out is counted and said.

mod error;
mod files;
mod jsonl;
mod message;
mod python;
mod report;
mod show;
mod transcript;

use std::collections::BTreeMap;
use std::path::Path;

use hermes_core::{SessionId, Timestamp};
use hermes_home::Home;
use hermes_store::{ImportOutcome, ImportedSession, Store};

pub use error::ImportError;
pub use report::{CopiedFile, ImportReport, LeftOutFile, SkippedSession, SourceKind};
pub use show::{Form, redacted_jsonl, write_session};

/// How to import.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions {
    /// What the source is; None to look.
    pub kind: Option<SourceKind>,
    /// Report what would happen and change nothing.
    pub dry_run: bool,
    /// Take in sessions that were deleted here, too.
    pub again: bool,
}

/// Imports everything that a source holds.
///
/// # Errors
/// If the source cannot be read or is nothing that is known, or the store cannot be written. A
/// single session that cannot be understood is no error: the report names it.
pub fn import(
    source: &Path,
    home: &Home,
    store: &Store,
    options: ImportOptions,
) -> Result<ImportReport, ImportError> {
    let kind = match options.kind {
        Some(kind) => kind,
        None => report::recognise(source)?,
    };
    let mut report = ImportReport::new(source, kind, options.dry_run);
    if kind == SourceKind::Hermes {
        files::keep_mark(source, home, options.dry_run, &mut report)?;
    }
    let mut sink = Sink { store, options, report: &mut report, from: BTreeMap::new() };
    match kind {
        SourceKind::Hermes => {
            python::import(source, &mut sink)?;
            files::copy(source, home, options.dry_run, &mut report)?;
        }
        SourceKind::Codex => transcript::codex(source, &mut sink)?,
        SourceKind::Claude => transcript::claude(source, &mut sink)?,
        SourceKind::Jsonl => jsonl::import(source, &mut sink)?,
    }
    Ok(report)
}

/// Where sessions go, and what is noted about them.
struct Sink<'a> {
    store: &'a Store,
    options: ImportOptions,
    report: &'a mut ImportReport,
    /// Where each session of this import came from.
    from: BTreeMap<SessionId, String>,
}

impl Sink<'_> {
    /// Whether a session is to be read at all; notes it if not. `started_at` and the time of its
    /// last message tell whether the session that is here already is this one, and all of it.
    fn wants(
        &mut self,
        id: &SessionId,
        started_at: Option<Timestamp>,
        last_at: impl FnOnce() -> Option<Timestamp>,
    ) -> Result<bool, ImportError> {
        /// Times travel as seconds with a fraction.
        const SAME: i64 = 1000;
        let outcome = self.store.would_import(id, self.options.again)?;
        let here = match outcome {
            ImportOutcome::AlreadyThere => self.store.session(id)?,
            _ => None,
        };
        if let Some(here) = here {
            if started_at.is_some_and(|at| at.millis_since(here.started_at).abs() > SAME) {
                let why = format!(
                    "another session with this id is here, which began at {}; it was left as it is",
                    here.started_at
                );
                self.report.skip(id, why);
                return Ok(false);
            }
            if last_at().is_some_and(|at| at.millis_since(here.last_activity_at) > SAME) {
                let what = "later messages of a session that is here already: delete it, and import \
                            it with --again, to have them";
                self.report.leave_out(what);
            }
        }
        Ok(self.noted(id, outcome))
    }

    /// Whether this import had a session of this id from elsewhere.
    fn is_from_elsewhere(&mut self, id: &SessionId, place: &str) -> bool {
        self.from.entry(id.clone()).or_insert_with(|| place.to_owned()) != place
    }

    fn take(&mut self, mut session: ImportedSession) -> Result<(), ImportError> {
        session.again = self.options.again;
        let id = session.init.id.clone();
        let rows = session
            .records
            .iter()
            .filter(|record| matches!(record, hermes_store::Record::Row(_)))
            .count();
        if self.options.dry_run {
            self.report.imported(&id, rows);
            return Ok(());
        }
        match self.store.import_session(&session) {
            Ok(outcome) => {
                if self.noted(&id, outcome) {
                    self.report.imported(&id, rows);
                }
                Ok(())
            }
            Err(error @ hermes_store::StoreError::Invalid { .. }) => {
                self.report.skip(&id, error.to_string());
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn noted(&mut self, id: &SessionId, outcome: ImportOutcome) -> bool {
        match outcome {
            ImportOutcome::Imported => true,
            ImportOutcome::AlreadyThere => {
                self.report.already_there += 1;
                false
            }
            ImportOutcome::WasDeleted(at) => {
                self.report.skip(id, format!("deleted here at {at}; --again brings it back"));
                false
            }
        }
    }
}
