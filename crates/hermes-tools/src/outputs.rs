//! Whole outputs of commands, kept in the home so that the model can page through what its result
//! left out.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use hermes_core::Env;
use hermes_home::fsio;

use crate::capture::Outputs;

/// Most files that are kept; the oldest go first.
const MAX_FILES: usize = 100;
/// Most bytes that are kept besides the newest file.
const MAX_BYTES: u64 = 1 << 30;

/// The folder of whole outputs.
#[derive(Clone)]
pub(crate) struct OutputFolder {
    folder: PathBuf,
    env: Arc<dyn Env>,
}

impl OutputFolder {
    pub(crate) fn new(folder: PathBuf, env: Arc<dyn Env>) -> Self {
        Self { folder, env }
    }

    /// Makes room for one more file. Faults are left to the next time.
    fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        let mut files: Vec<(SystemTime, PathBuf, u64)> = entries
            .flatten()
            .filter_map(|entry| {
                let meta = entry.metadata().ok()?;
                Some((meta.modified().ok()?, entry.path(), meta.len()))
            })
            .collect();
        files.sort();
        let mut bytes = 0;
        for (age, (_, path, size)) in files.iter().rev().enumerate() {
            bytes += size;
            if age + 1 < MAX_FILES && bytes <= MAX_BYTES {
                continue;
            }
            if let Err(error) = std::fs::remove_file(path) {
                tracing::debug!(path = %path.display(), %error, "an old output could not be removed");
            }
        }
    }
}

impl Outputs for OutputFolder {
    fn create(&mut self) -> std::io::Result<(PathBuf, File)> {
        fsio::create_private_dir(&self.folder)?;
        self.sweep();
        let mut random = [0; 4];
        self.env.random(&mut random);
        let stamp = self.env.now().civil(0).strftime("%Y%m%d-%H%M%S").to_string();
        let name = format!("{stamp}-{:08x}.log", u32::from_be_bytes(random));
        let path = self.folder.join(name);
        let file = fsio::open_private_append(&path)?;
        Ok((path, file))
    }
}
