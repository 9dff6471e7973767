//! Stand-ins until the home crate is there.
#![expect(missing_docs, reason = "gone before the first release")]
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Home(PathBuf);
impl Home {
    pub fn at(root: impl Into<PathBuf>) -> Self { Self(root.into()) }
    pub fn root(&self) -> &Path { &self.0 }
    pub fn config_path(&self) -> PathBuf { self.0.join("config.yaml") }
    pub fn env_path(&self) -> PathBuf { self.0.join(".env") }
    pub fn soul_path(&self) -> PathBuf { self.0.join("SOUL.md") }
    pub fn memory_path(&self) -> PathBuf { self.0.join("memories/MEMORY.md") }
    pub fn user_path(&self) -> PathBuf { self.0.join("memories/USER.md") }
    pub fn skills_dir(&self) -> PathBuf { self.0.join("skills") }
}
#[derive(Clone, Debug)]
pub struct Config { pub memory: MemoryConfig, pub skills: SkillsConfig, pub context_file_max_chars: Option<usize>, pub timezone: String }
#[derive(Clone, Debug)]
pub struct MemoryConfig { pub memory_enabled: bool, pub user_profile_enabled: bool, pub memory_char_limit: usize, pub user_char_limit: usize }
#[derive(Clone, Debug, Default)]
pub struct SkillsConfig { pub external_dirs: Vec<String>, pub create_dir: String, pub project_discovery: bool, pub trusted_project_dirs: Vec<String>, pub disabled: Vec<String> }
impl Default for Config {
    fn default() -> Self {
        Self { memory: MemoryConfig { memory_enabled: true, user_profile_enabled: true, memory_char_limit: 2200, user_char_limit: 1375 }, skills: SkillsConfig { project_discovery: true, ..Default::default() }, context_file_max_chars: None, timezone: String::new() }
    }
}
pub fn write_atomic(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension("tmp");
    std::fs::write(&temporary, bytes)?;
    std::fs::rename(&temporary, path)
}
pub struct FileLock(std::fs::File);
impl FileLock {
    pub fn acquire(path: &Path) -> std::io::Result<Self> {
        let file = std::fs::File::options().create(true).truncate(false).write(true).open(path)?;
        for _ in 0..250 {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(std::time::Duration::from_millis(20)),
                Err(std::fs::TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(std::io::Error::other("another process holds its lock"))
    }
}
