//! Finding the interpreter: the environment of the profile if there is one, else the newest usable
//! Python on the path, resolved once to the real executable (a version manager's stand-in costs
//! more than the interpreter itself).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;
use std::{env, fs};

/// The oldest version that plugins may count on.
pub const OLDEST: (u32, u32) = (3, 10);

/// A usable interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The executable.
    pub path: PathBuf,
    /// Its version.
    pub version: (u32, u32),
    /// Folders that hold installed packages, in order; empty until asked for.
    pub site: Vec<PathBuf>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// Nothing usable was found.
    #[error(
        "no Python 3.{} or later for plugins; looked at: {}\nhint: install Python, or set `plugins.host.launcher` or HERMES_PYTHON to an interpreter",
        OLDEST.1,
        looked_at(tried)
    )]
    NotFound {
        /// What was tried, and what it said.
        tried: Vec<String>,
    },
}

fn looked_at(tried: &[String]) -> String {
    if tried.is_empty() { "nothing on the path".to_owned() } else { tried.join("; ") }
}

const PROBE: &str = "import sys,sysconfig\nprint(sys.executable)\nprint(sys.version_info[0],sys.version_info[1])\nfor k in ('purelib','platlib'): print(sysconfig.get_paths()[k])";

/// The folder of the environment that `plugins install` makes.
pub fn environment(home: &Path) -> PathBuf {
    home.join("plugins").join(".venv")
}

/// The executable of that environment.
pub fn environment_python(home: &Path) -> PathBuf {
    let folder = environment(home);
    if cfg!(windows) {
        folder.join("Scripts").join("python.exe")
    } else {
        folder.join("bin").join("python")
    }
}

/// Finds the interpreter for a home folder. What was found is kept in a file beside its cache, as
/// long as the executable it was found through stays the same.
pub fn find(
    home: &Path,
    wanted: Option<&Path>,
    path: Option<&str>,
) -> Result<Interpreter, PythonError> {
    let mut tried = Vec::new();
    for candidate in candidates(home, wanted, path) {
        match probe_cached(home, &candidate) {
            Ok(found) if found.version >= OLDEST => return Ok(found),
            Ok(found) => tried.push(format!(
                "{} is {}.{}",
                candidate.display(),
                found.version.0,
                found.version.1
            )),
            Err(why) => tried.push(format!("{}: {why}", candidate.display())),
        }
    }
    Err(PythonError::NotFound { tried })
}

fn candidates(home: &Path, wanted: Option<&Path>, path: Option<&str>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    found.extend(wanted.map(Path::to_owned));
    let own = environment_python(home);
    if own.exists() {
        found.push(own);
    }
    let names: &[&str] = if cfg!(windows) {
        &["python.exe", "python3.exe"]
    } else {
        &["python3", "python3.13", "python3.12", "python3.11", "python3.10", "python"]
    };
    let folders: Vec<PathBuf> =
        path.map(|path| env::split_paths(path).collect()).unwrap_or_default();
    for name in names {
        for folder in &folders {
            let file = folder.join(name);
            if file.is_file() && !found.contains(&file) {
                found.push(file);
            }
        }
    }
    found
}

fn mark(file: &Path) -> Option<String> {
    let real = fs::metadata(file).ok()?;
    let age = real.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(format!("{}\t{}\t{}", file.display(), age.as_nanos(), real.len()))
}

fn probe_cached(home: &Path, file: &Path) -> Result<Interpreter, String> {
    let kept = home.join("cache").join("plugin-host").join("interpreter");
    let key = mark(file).ok_or("cannot be read")?;
    if let Ok(text) = fs::read_to_string(&kept)
        && let Some(rest) = text.strip_prefix(&format!("{key}\n"))
        && let Some(found) = parse(rest)
        && found.path.exists()
    {
        return Ok(found);
    }
    let output = Command::new(file)
        .args(["-X", "utf8", "-c", PROBE])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = parse(&text).ok_or_else(|| format!("is no Python ({})", output.status))?;
    if let Some(parent) = kept.parent() {
        // Only a saving: without the file the next start looks again.
        drop(fs::create_dir_all(parent));
        drop(fs::write(&kept, format!("{key}\n{text}")));
    }
    Ok(found)
}

fn parse(text: &str) -> Option<Interpreter> {
    let mut lines = text.lines();
    let path = PathBuf::from(lines.next()?);
    let (major, minor) = lines.next()?.split_once(' ')?;
    let mut site: Vec<PathBuf> = lines.map(PathBuf::from).collect();
    site.dedup();
    Some(Interpreter { path, version: (major.parse().ok()?, minor.parse().ok()?), site })
}
