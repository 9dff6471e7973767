//! Putting plugins in place: from a folder, from a git repository, from the Python registry; making
//! new ones; and taking them away. Nothing is enabled here: that is the settings' business, after
//! the person has seen what was found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hermes_home::Home;

use crate::discover::{self, EntryPoint, Found, PluginSource};
use crate::host::python::{self, Interpreter};
use crate::scan::{ScanReport, scan};

/// How long making an environment or installing a package may take.
const PIP: Duration = Duration::from_mins(10);

/// A plugin could not be put in place, made or taken away.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The folder is no plugin.
    #[error("{}: {why}\nhint: a plugin has plugin.yaml and __init__.py, or `runtime: native` and a command", path.display())]
    NotAPlugin {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// Something is there already.
    #[error("{} exists already\nhint: remove it first, or install with --force", .0.display())]
    Exists(PathBuf),
    /// The name cannot name a folder.
    #[error("{0:?} cannot name a plugin\nhint: letters, digits, - and _, at most 64 of them")]
    Name(String),
    /// There is no plugin of that name.
    #[error(
        "no plugin {0:?} is installed in this home folder\nhint: `hermes plugins list` shows what there is"
    )]
    Unknown(String),
    /// A program that was needed failed.
    #[error("{program} failed: {why}\nhint: {hint}")]
    Program {
        /// Which.
        program: String,
        /// Its last words.
        why: String,
        /// What to do.
        hint: &'static str,
    },
    /// The package brings no plugin.
    #[error(
        "the package {0} is installed and brings no plugin (entry point hermes_agent.plugins)\nhint: its documentation may name a folder to copy; `hermes plugins install PATH` takes one"
    )]
    NoEntryPoint(String),
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> InstallError + '_ {
    move |source| InstallError::Io { path: path.to_owned(), source }
}

/// What was put in place.
#[derive(Clone, Debug, PartialEq)]
pub struct Installed {
    /// The plugins that came.
    pub plugins: Vec<Found>,
    /// What a look at their files found.
    pub scan: ScanReport,
}

/// Where plugins come from, told by how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallSource {
    /// A folder.
    Path(PathBuf),
    /// A git repository.
    Git(String),
    /// A package of the Python registry, as pip takes it.
    Package(String),
}

impl InstallSource {
    /// What a person means: a folder that is there, an address or `owner/repo`, else a package.
    pub fn parse(text: &str, cwd: &Path) -> Self {
        let path = cwd.join(text);
        if path.is_dir() {
            return Self::Path(path);
        }
        let git = path.extension().is_some_and(|end| end == "git")
            || text.starts_with("git@")
            || text.starts_with("https://")
            || text.starts_with("ssh://");
        if git {
            return Self::Git(text.to_owned());
        }
        let plain = |part: &str| {
            !part.is_empty()
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        };
        match text.split_once('/') {
            Some((owner, repo)) if plain(owner) && plain(repo) => {
                Self::Git(format!("https://github.com/{owner}/{repo}.git"))
            }
            _ => Self::Package(text.to_owned()),
        }
    }
}

fn good_name(name: &str) -> Result<(), InstallError> {
    let fits = !name.is_empty()
        && name.len() <= 64
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        && !name.starts_with('-');
    if fits { Ok(()) } else { Err(InstallError::Name(name.to_owned())) }
}

/// Checks a plugin's folder: what is wrong with it. An empty list is a plugin.
pub fn validate(folder: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let Some(found) = discover::from_folder(folder, None, PluginSource::User) else {
        return vec!["there is no plugin.yaml".to_owned()];
    };
    out.extend(found.error.clone());
    if found.manifest.text("name").is_none() {
        out.push("plugin.yaml: `name` is missing".to_owned());
    }
    if found.manifest.fields.get("version").is_none() {
        out.push("plugin.yaml: `version` is missing".to_owned());
    }
    match &found.native {
        Some(native) => match native.command.first() {
            None => out.push("plugin.yaml: `command` is missing".to_owned()),
            Some(program) if program.starts_with('.') && !folder.join(program).is_file() => {
                out.push(format!("plugin.yaml: the program {program} is not there"));
            }
            Some(_) => {}
        },
        None => match fs::read_to_string(folder.join("__init__.py")) {
            Err(_) => out.push("there is no __init__.py".to_owned()),
            Ok(code) if !code.contains("register") => {
                out.push("__init__.py: there is no register(ctx)".to_owned());
            }
            Ok(_) => {}
        },
    }
    for hook in found.manifest.list("provides_hooks").iter().chain(&found.manifest.list("hooks")) {
        if crate::table::find(hook).is_none() {
            out.push(format!("plugin.yaml: there is no hook {hook:?}"));
        }
    }
    out
}

/// Copies a plugin's folder into the home folder.
///
/// # Errors
/// If it is no plugin, is there already, or cannot be copied.
pub fn install_path(home: &Home, from: &Path, force: bool) -> Result<Installed, InstallError> {
    let found = discover::from_folder(from, None, PluginSource::User).ok_or_else(|| {
        InstallError::NotAPlugin {
            path: from.to_owned(),
            why: "there is no plugin.yaml".to_owned(),
        }
    })?;
    let native = found.native.is_some();
    if !native && !from.join("__init__.py").is_file() {
        let why = "there is no __init__.py".to_owned();
        return Err(InstallError::NotAPlugin { path: from.to_owned(), why });
    }
    let base = found.name.clone();
    good_name(&base)?;
    let plugins = home.root().join("plugins");
    let target = plugins.join(&base);
    if target.exists() && !force {
        return Err(InstallError::Exists(target));
    }
    let fresh = plugins.join(format!(".{base}.new"));
    drop(fs::remove_dir_all(&fresh));
    copy(from, &fresh)?;
    if target.exists() {
        fs::remove_dir_all(&target).map_err(io(&target))?;
    }
    fs::rename(&fresh, &target).map_err(io(&target))?;
    let plugins = discover::from_folder(&target, None, PluginSource::User).into_iter().collect();
    Ok(Installed { plugins, scan: scan(&target) })
}

fn copy(from: &Path, to: &Path) -> Result<(), InstallError> {
    fs::create_dir_all(to).map_err(io(to))?;
    for entry in fs::read_dir(from).map_err(io(from))? {
        let entry = entry.map_err(io(from))?;
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().map_err(io(&path))?;
        if name == ".git" || name == "__pycache__" || kind.is_symlink() {
            // A link could lead out of the plugin.
            continue;
        }
        let target = to.join(&name);
        if kind.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(io(&target))?;
        }
    }
    Ok(())
}

/// Fetches a git repository and copies the plugin in it.
///
/// # Errors
/// If git is not there or fails, or the repository is no plugin.
pub fn install_git(
    home: &Home,
    url: &str,
    reference: Option<&str>,
    limit: Duration,
    force: bool,
) -> Result<Installed, InstallError> {
    let parent = home.root().join("cache");
    fs::create_dir_all(&parent).map_err(io(&parent))?;
    let folder = parent.join(format!("clone-{}", std::process::id()));
    drop(fs::remove_dir_all(&folder));
    let mut command = Command::new("git");
    command.args(["clone", "--quiet", "--depth", "1"]);
    if let Some(reference) = reference {
        command.args(["--branch", reference]);
    }
    // What follows `--` is never taken for an option.
    command.arg("--").arg(url).arg(&folder).env("GIT_TERMINAL_PROMPT", "0");
    let result = run(&mut command, limit, "check the address, and that git may reach it")
        .and_then(|()| install_path(home, &folder, force));
    drop(fs::remove_dir_all(&folder));
    result
}

/// Makes the environment of the profile if there is none; gives its interpreter.
///
/// # Errors
/// If Python cannot make one.
pub fn make_environment(home: &Home, base: &Interpreter) -> Result<PathBuf, InstallError> {
    let python = python::environment_python(home.root());
    if python.is_file() {
        return Ok(python);
    }
    let folder = python::environment(home.root());
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(io(parent))?;
    }
    let mut command = Command::new(&base.path);
    command.args(["-m", "venv"]).arg(&folder);
    run(&mut command, PIP, "install Python's venv module (Debian: python3-venv)")?;
    Ok(python)
}

/// Installs what a plugin's folder says it needs into the environment of the profile.
///
/// # Errors
/// If a name is none, the environment cannot be made, or pip fails.
pub fn install_requirements(
    home: &Home,
    base: &Interpreter,
    packages: &[String],
) -> Result<(), InstallError> {
    if let Some(odd) = packages.iter().find(|package| package.trim_start().starts_with('-')) {
        return Err(InstallError::Name(odd.clone()));
    }
    let python = make_environment(home, base)?;
    let mut command = Command::new(&python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command.args(packages);
    run(&mut command, PIP, "read pip's message; a package may need another Python")
}

/// Installs a package of the Python registry into the environment of the profile.
///
/// # Errors
/// If the environment cannot be made, pip fails, or the package brings no plugin.
pub fn install_package(
    home: &Home,
    base: &Interpreter,
    package: &str,
) -> Result<Installed, InstallError> {
    if package.starts_with('-') {
        return Err(InstallError::Name(package.to_owned()));
    }
    let python = make_environment(home, base)?;
    let interpreter =
        python::find(home.root(), Some(&python), None).map_err(|error| InstallError::Program {
            program: python.display().to_string(),
            why: error.to_string(),
            hint: "remove plugins/.venv in the home folder and try again",
        })?;
    let before = discover::entry_points(&interpreter.site);
    let mut command = Command::new(&python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]);
    run(&mut command, PIP, "read pip's message; the package may need another Python")?;
    // The interface of the original is answered by this program: its package must not hide it.
    let name = package.split(['=', '<', '>', '~', '!', '[', ' ', ';']).next().unwrap_or(package);
    let same =
        |a: &str| a.replace(['_', '.'], "-").eq_ignore_ascii_case(&name.replace(['_', '.'], "-"));
    let points: Vec<EntryPoint> = discover::entry_points(&interpreter.site)
        .into_iter()
        .filter(|point| point.group != discover::GROUPS[2])
        .filter(|point| same(&point.package.0) || !before.contains(point))
        .collect();
    if points.is_empty() {
        return Err(InstallError::NoEntryPoint(name.to_owned()));
    }
    let mut report = ScanReport::default();
    for point in &points {
        let module = point.value.split([':', '.']).next().unwrap_or_default();
        if let Some(file) = discover::module_file(&interpreter.site, module) {
            let root =
                if file.ends_with("__init__.py") { file.parent().unwrap_or(&file) } else { &file };
            let one = scan(root);
            report.verdict = report.verdict.max(one.verdict);
            report.files += one.files;
            report.cut |= one.cut;
            report.findings.extend(one.findings);
        }
    }
    let plugins =
        points.iter().map(|point| discover::from_entry_point(point, &interpreter.site)).collect();
    Ok(Installed { plugins, scan: report })
}

/// Takes a plugin away that is a folder of the home folder.
///
/// # Errors
/// If there is none, or it cannot be removed.
pub fn remove(home: &Home, key: &str) -> Result<PathBuf, InstallError> {
    let root = home.root().join("plugins");
    let found = discover::folders(&[(root, PluginSource::User)])
        .into_iter()
        .find(|plugin| plugin.key == key || plugin.name == key)
        .and_then(|plugin| plugin.folder)
        .ok_or_else(|| InstallError::Unknown(key.to_owned()))?;
    fs::remove_dir_all(&found).map_err(io(&found))?;
    Ok(found)
}

/// What a new plugin is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Python.
    Python,
    /// Rust: a program that speaks the protocol.
    Rust,
}

const NEW_PYTHON: &str = include_str!("../templates/python.py");
const NEW_RUST: &str = include_str!("../examples/native.rs");

/// Makes the folder of a new plugin; gives the files it wrote.
///
/// # Errors
/// If the name is no name, or the folder is there already.
pub fn new_plugin(
    parent: &Path,
    name: &str,
    language: Language,
) -> Result<Vec<PathBuf>, InstallError> {
    good_name(name)?;
    let folder = parent.join(name);
    if folder.exists() {
        return Err(InstallError::Exists(folder));
    }
    let head =
        format!("name: {name}\nversion: \"0.1.0\"\ndescription: What it does, in one line.\n");
    let files: Vec<(&str, String)> = match language {
        Language::Python => vec![
            ("plugin.yaml", format!("{head}provides_hooks: [pre_llm_call]\n")),
            ("__init__.py", NEW_PYTHON.to_owned()),
        ],
        Language::Rust => vec![
            ("plugin.yaml", format!("{head}runtime: native\ncommand: [./target/release/{name}]\n")),
            (
                "Cargo.toml",
                format!(
                    "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nserde_json = \"1\"\n\n[workspace]\n"
                ),
            ),
            ("src/main.rs", NEW_RUST.to_owned()),
        ],
    };
    let mut written = Vec::new();
    for (file, text) in files {
        let path = folder.join(file);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io(parent))?;
        }
        fs::write(&path, text).map_err(io(&path))?;
        written.push(path);
    }
    Ok(written)
}

/// Runs a program to its end, at most so long; says its last words if it fails.
fn run(command: &mut Command, limit: Duration, hint: &'static str) -> Result<(), InstallError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |why: String| InstallError::Program { program: program.clone(), why, hint };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let mut stderr = child.stderr.take();
    let words = std::thread::spawn(move || {
        let mut text = String::new();
        if let Some(stderr) = &mut stderr {
            // What is no text is lost, which only shortens the message.
            drop(std::io::Read::read_to_string(stderr, &mut text));
        }
        text
    });
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                drop(child.kill());
                drop(child.wait());
                return Err(failed(format!("it took longer than {} s", limit.as_secs())));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
    };
    if status.success() {
        return Ok(());
    }
    let text = words.join().unwrap_or_default();
    let last: Vec<&str> =
        text.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    Err(failed(if last.is_empty() { status.to_string() } else { last.join(" / ") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_writes_is_understood() {
        let here = tempfile::tempdir().unwrap();
        fs::create_dir(here.path().join("mine")).unwrap();
        let check = |text: &str, wanted: InstallSource| {
            assert_eq!(InstallSource::parse(text, here.path()), wanted, "{text}");
        };
        check("mine", InstallSource::Path(here.path().join("mine")));
        check("owner/repo", InstallSource::Git("https://github.com/owner/repo.git".into()));
        check("https://x.org/a", InstallSource::Git("https://x.org/a".into()));
        check("some-package==1.0", InstallSource::Package("some-package==1.0".into()));
    }

    #[test]
    fn a_folder_is_copied_validated_and_removed_again() {
        let (home, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let home = Home::at(home.path());
        new_plugin(from.path(), "mine", Language::Python).unwrap();
        let folder = from.path().join("mine");
        assert_eq!(validate(&folder), Vec::<String>::new());
        let installed = install_path(&home, &folder, false).unwrap();
        assert_eq!(installed.plugins[0].key, "mine");
        assert!(matches!(install_path(&home, &folder, false), Err(InstallError::Exists(_))));
        install_path(&home, &folder, true).unwrap();
        assert!(remove(&home, "mine").unwrap().ends_with("mine"));
        assert!(matches!(remove(&home, "mine"), Err(InstallError::Unknown(_))));
    }

    #[test]
    fn what_is_no_plugin_is_refused_with_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(validate(folder.path()), ["there is no plugin.yaml"]);
        fs::write(folder.path().join("plugin.yaml"), "name: x\nhooks: [nope]\n").unwrap();
        assert_eq!(validate(folder.path()).len(), 3);
        let home = Home::at(folder.path());
        assert!(install_path(&home, folder.path(), false).is_err());
        assert!(new_plugin(folder.path(), "../x", Language::Rust).is_err());
    }

    #[test]
    fn a_name_with_a_dash_in_front_is_no_option_of_pip() {
        let home = Home::at("nowhere");
        let base = Interpreter { path: PathBuf::from("none"), version: (3, 11), site: Vec::new() };
        assert!(matches!(
            install_package(&home, &base, "--index-url=x"),
            Err(InstallError::Name(_))
        ));
        assert!(matches!(
            install_requirements(&home, &base, &["a".into(), " --pre".into()]),
            Err(InstallError::Name(_))
        ));
    }
}
