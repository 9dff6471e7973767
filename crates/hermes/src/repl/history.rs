//! The lines typed earlier, in a private file of the home.
//!
//! Invariant: a line is remembered as it was sent, without the backslashes that only meant "go
//! on".

use std::io;
use std::path::Path;

use reedline::{
    FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, Result, SearchQuery,
};

use super::complete::Continuations;

/// Lines kept in the file.
const LINES: usize = 1000;

/// The history of this home.
pub struct LineHistory {
    file: FileBackedHistory,
    continuations: Continuations,
}

impl LineHistory {
    /// Opens the file, readable by its owner only.
    ///
    /// # Errors
    /// In words, if it cannot be read or made.
    pub fn open(path: &Path, continuations: Continuations) -> std::result::Result<Self, String> {
        // Made here, because the editor would make it with the permissions of the day.
        drop(hermes_home::fsio::open_private_append(path).map_err(|error| error.to_string())?);
        let file = FileBackedHistory::with_file(LINES, path.to_owned())
            .map_err(|error| error.to_string())?;
        Ok(Self { file, continuations })
    }
}

impl History for LineHistory {
    fn save(&mut self, mut item: HistoryItem) -> Result<HistoryItem> {
        item.command_line = self.continuations.resolve(item.command_line);
        self.file.save(item)
    }

    fn load(&self, id: HistoryItemId) -> Result<HistoryItem> {
        self.file.load(id)
    }

    fn count(&self, query: SearchQuery) -> Result<i64> {
        self.file.count(query)
    }

    fn search(&self, query: SearchQuery) -> Result<Vec<HistoryItem>> {
        self.file.search(query)
    }

    fn update(
        &mut self,
        id: HistoryItemId,
        updater: &dyn Fn(HistoryItem) -> HistoryItem,
    ) -> Result<()> {
        self.file.update(id, updater)
    }

    fn clear(&mut self) -> Result<()> {
        self.file.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> Result<()> {
        self.file.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.file.session()
    }
}
