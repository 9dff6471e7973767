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

use std::path::Path;

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
    let mut sink = Sink { store, options, report: &mut report };
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
}

impl Sink<'_> {
    /// Whether a session is to be read at all; notes it if not.
    fn wants(&mut self, id: &hermes_core::SessionId) -> Result<bool, ImportError> {
        let outcome = self.store.would_import(id, self.options.again)?;
        Ok(self.noted(id, outcome))
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

    fn noted(&mut self, id: &hermes_core::SessionId, outcome: ImportOutcome) -> bool {
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
