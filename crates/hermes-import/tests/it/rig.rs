//! A home in a temporary folder, and sources of every kind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_core::{Env, ScriptedEnv, SessionId, Timestamp};
use hermes_home::Home;
use hermes_import::{ImportOptions, ImportReport, import};
use hermes_store::{OpenMode, Store, StorePaths};
use tempfile::TempDir;

pub struct Rig {
    pub dir: TempDir,
    pub home: Home,
    pub store: Store,
}

impl Rig {
    pub fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let home = Home::at(dir.path().join("home"));
        home.ensure().unwrap();
        let paths = StorePaths {
            db: home.store_path(),
            spool_dir: home.spool_dir(),
            drafts_dir: home.drafts_dir(),
        };
        let env: Arc<dyn Env> =
            Arc::new(ScriptedEnv::new(Timestamp(1_796_032_560_000_000), 1000, 7));
        let store = Store::open(paths, env, OpenMode::ReadWrite).unwrap();
        Self { dir, home, store }
    }

    pub fn import(&self, source: &Path) -> ImportReport {
        self.import_with(source, ImportOptions::default())
    }

    pub fn import_with(&self, source: &Path, options: ImportOptions) -> ImportReport {
        import(source, &self.home, &self.store, options).unwrap()
    }

    /// A Python home with the store of a fixture.
    pub fn python_home(&self, fixture: &str) -> PathBuf {
        let root = self.dir.path().join("python");
        std::fs::create_dir_all(&root).unwrap();
        let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(format!("{fixture}.state.db.zst"));
        let bytes = zstd::decode_all(std::fs::read(packed).unwrap().as_slice()).unwrap();
        std::fs::write(root.join("state.db"), bytes).unwrap();
        root
    }

    pub fn put(&self, path: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn sound(&self) {
        assert_eq!(self.store.check().unwrap(), vec![]);
    }

    pub fn jsonl(&self, id: &str) -> String {
        let mut out = Vec::new();
        self.store.export_jsonl(&SessionId::new(id), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The messages of a session: role, content, calls.
    pub fn said(&self, id: &str) -> Vec<(String, String)> {
        let value: serde_json::Value = serde_json::from_str(&self.jsonl(id)).unwrap();
        let messages = value["messages"].as_array().unwrap();
        messages
            .iter()
            .map(|message| {
                let content = message["content"].as_str().unwrap_or_default().to_owned();
                (message["role"].as_str().unwrap().to_owned(), content)
            })
            .collect()
    }
}

/// Every file below a folder with its bytes.
pub fn bytes_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut next = vec![folder.to_owned()];
    while let Some(path) = next.pop() {
        if path.is_dir() {
            next.extend(std::fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}
