//! Loading: the file, the variables and the flags become the settings in force, and a report says
//! what was odd.
//!
//! Precedence, highest first: flag, home `.env`, environment, `config.yaml`, default.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::read::{Read as _, Reader};
use crate::config::{Config, UnknownKey};
use secrecy::ExposeSecret as _;

use crate::dotenv::{DotEnv, EnvProblem};
use crate::fsio::{self, Encoding};
use crate::redact::Redactor;
use crate::vars::{VarSource, Vars};
use crate::yaml;
use crate::{ConfigError, Home, Place, Problem, ProcessVars};

/// Most bytes of a settings file.
const MAX_CONFIG: u64 = 4 * 1024 * 1024;

/// Values from the command line.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--model`.
    pub model: Option<String>,
    /// `--provider`.
    pub provider: Option<String>,
    /// `--base-url`.
    pub base_url: Option<String>,
    /// `--cwd`.
    pub cwd: Option<PathBuf>,
}

/// Where a setting's value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingSource {
    /// A flag.
    Flag(&'static str),
    /// A variable.
    Variable {
        /// Its name; empty where it is known from what the source is told of.
        name: &'static str,
        /// Where it was set.
        source: VarSource,
    },
    /// `config.yaml`, at a line.
    File {
        /// The line.
        line: u32,
    },
    /// Nobody set it.
    Default,
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => f.write_str(name),
            Self::Variable { name: "", source } => write!(f, "{source}"),
            Self::Variable { name, source } => write!(f, "{name} ({source})"),
            Self::File { line } => write!(f, "config.yaml line {line}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value that is set in two places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// The setting, or the variable's name.
    pub key: String,
    /// Whose value is used.
    pub used: SettingSource,
    /// Whose value is not.
    pub hidden: SettingSource,
}

impl fmt::Display for Shadowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is used and hides {}", self.key, self.used, self.hidden)
    }
}

/// What a person should know of how the settings came about. No values of secrets.
#[derive(Clone, Debug, Default)]
pub struct ConfigReport {
    /// The settings file.
    pub config_path: PathBuf,
    /// Whether it exists.
    pub config_exists: bool,
    /// Keys that are not used.
    pub unknown: Vec<UnknownKey>,
    /// Values that are set in two places.
    pub shadowed: Vec<Shadowed>,
    /// Values that were understood although they are written oddly, deprecated keys and the like.
    pub warnings: Vec<Problem>,
    /// The `.env` file.
    pub env_path: PathBuf,
    /// What was odd in it.
    pub env_problems: Vec<EnvProblem>,
    /// Where values came from that are not defaults.
    pub sources: BTreeMap<String, SettingSource>,
}

impl ConfigReport {
    /// Where the value of a setting came from.
    pub fn source(&self, key: &str) -> SettingSource {
        self.sources.get(key).cloned().unwrap_or(SettingSource::Default)
    }
}

/// The settings in force and how they came about.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The variables, for [`crate::routes`] and for commands.
    pub vars: Vars,
    /// What a person should know.
    pub report: ConfigReport,
}

impl Loaded {
    /// A redactor that knows every secret in the settings and the variables; one that masks nothing
    /// if `security.redact_secrets` is off. Keys that commands print are to be added to it.
    pub fn redactor(&self) -> Redactor {
        if !self.config.security.redact_secrets {
            return Redactor::off();
        }
        let mut redactor = Redactor::new(self.vars.secrets());
        for secret in self.config.secrets() {
            redactor.add_key(secret.expose_secret());
        }
        for value in self.config.key_variables().filter_map(|name| self.vars.get(name)) {
            redactor.add_key(value);
        }
        redactor
    }
}

/// Loads the settings of a home. A missing file is the defaults.
///
/// # Errors
/// If the file cannot be read, is not YAML that can be trusted, or holds a value that cannot be
/// understood. The file is never changed.
pub fn load(
    home: &Home,
    process: &ProcessVars,
    overrides: &Overrides,
) -> Result<Loaded, ConfigError> {
    let (dotenv, mut env_warnings) = read_dotenv(&home.env_path())?;
    let vars = Vars::new(process, &dotenv);
    let path = home.config_path();
    let text = read_config_text(&path)?;
    let mut report = ConfigReport {
        config_exists: text.is_some(),
        config_path: path.clone(),
        env_path: home.env_path(),
        env_problems: dotenv.problems.clone(),
        ..ConfigReport::default()
    };
    let mut read = read_config(&path, text.as_ref().map_or("", |text| &text.text), &vars)?;
    report.warnings.append(&mut env_warnings);
    if let Some(text) = &text
        && !matches!(text.encoding, Encoding::Utf8 | Encoding::Utf8Bom)
    {
        let what = format!("the file is {}", text.encoding);
        let hint = "save it as UTF-8; `hermes config set` changes no other";
        report.warnings.push(Problem::at(&path, Place::default(), "", what, hint));
    }
    report.warnings.append(&mut read.warnings);
    report.unknown = read.unknown;
    report.sources = read
        .places
        .into_iter()
        .map(|(key, place)| (key, SettingSource::File { line: place.line }))
        .collect();
    let mut config = read.config;
    apply_variables(&mut config, &vars, &mut report)?;
    apply_flags(&mut config, overrides, &mut report);
    report_hidden(&config, &vars, &mut report);
    check_cwd(&config, &vars, &report)?;
    Ok(Loaded { config, vars, report })
}

/// What a bound of no model call at all comes to.
const NO_TURNS: &str = "0 model calls in a turn leave no room for an answer";
const TURNS_HINT: &str = "write 1 or more, or remove the setting";

/// A working directory that is something else.
fn check_cwd(config: &Config, vars: &Vars, report: &ConfigReport) -> Result<(), ConfigError> {
    let text = config.terminal.cwd.trim();
    let path = match (text.strip_prefix('~'), vars.get("HOME")) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            Path::new(home).join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(text),
    };
    // One that does not exist may be made before it is used.
    if !std::fs::metadata(&path).is_ok_and(|meta| !meta.is_dir()) {
        return Ok(());
    }
    let what = format!("{} is not a folder", path.display());
    let hint = "name a folder, or \".\" for the one that hermes is started in";
    let problem = match report.source("terminal.cwd") {
        SettingSource::File { line } => {
            let place = Place { line, column: 1 };
            Problem::at(&report.config_path, place, "terminal.cwd", what, hint)
        }
        source => Problem::general("terminal.cwd", format!("{what} (set by {source})"), hint),
    };
    Err(ConfigError::Invalid(vec![problem]))
}

/// The settings of a text.
pub(crate) struct ReadConfig {
    pub config: Config,
    pub unknown: Vec<UnknownKey>,
    pub warnings: Vec<Problem>,
    pub places: BTreeMap<String, Place>,
}

/// Reads the text of a settings file.
pub(crate) fn read_config(path: &Path, text: &str, vars: &Vars) -> Result<ReadConfig, ConfigError> {
    let document = yaml::parse(text).map_err(|error| broken(path, error))?;
    let mut reader = Reader::new(path, vars);
    let mut config = Config::default();
    if let Some(root) = &document.root {
        config.read(root, "", &mut reader);
        crate::config::model::read_legacy(root, &mut config, &mut reader);
    }
    if config.agent.max_turns == Some(0) {
        let place = reader.places.get("agent.max_turns").copied().unwrap_or_default();
        reader.problems.push(Problem::at(path, place, "agent.max_turns", NO_TURNS, TURNS_HINT));
    }
    if !reader.problems.is_empty() {
        return Err(ConfigError::Invalid(reader.problems));
    }
    Ok(ReadConfig {
        config,
        unknown: reader.unknown,
        warnings: reader.warnings,
        places: reader.places,
    })
}

pub(crate) fn broken(path: &Path, error: yaml::YamlError) -> ConfigError {
    ConfigError::Broken {
        path: path.to_owned(),
        place: error.place,
        what: error.what,
        hint: format!("{}; the file was not changed", error.hint),
    }
}

/// The text of the settings file; None if there is none.
pub(crate) fn read_config_text(path: &Path) -> Result<Option<fsio::ReadText>, ConfigError> {
    let fail = |source| ConfigError::Io {
        doing: "read",
        path: path.to_owned(),
        source,
        hint: "check that the file is yours to read".to_owned(),
    };
    let text = match fsio::read_text(path, MAX_CONFIG) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let reason = if text.truncated {
        format!("the file is larger than {MAX_CONFIG} bytes")
    } else if text.encoding == Encoding::Binary {
        "the file is not text".to_owned()
    } else if text.replaced > 0 {
        format!("{} bytes or characters are not valid {}", text.replaced, text.encoding)
    } else {
        return Ok(Some(text));
    };
    Err(fail(io::Error::new(io::ErrorKind::InvalidData, reason)))
}

pub(crate) fn read_dotenv(path: &Path) -> Result<(DotEnv, Vec<Problem>), ConfigError> {
    let text = match fsio::read_text(path, MAX_CONFIG) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((DotEnv::default(), Vec::new()));
        }
        Err(source) => {
            return Err(ConfigError::Io {
                doing: "read",
                path: path.to_owned(),
                source,
                hint: "check that the file is yours to read".to_owned(),
            });
        }
    };
    let mut warnings = Vec::new();
    let mut warn = |what: String, hint: &str| {
        warnings.push(Problem::at(path, Place { line: 1, column: 1 }, "", what, hint));
    };
    // A line that the bound has cut would be half a key.
    let whole = if text.truncated {
        let kept = text.text.rfind('\n').map_or(0, |at| at + 1);
        warn(
            format!(
                "the file is larger than {MAX_CONFIG} bytes; nothing is read from line {} on",
                text.text[..kept].matches('\n').count() + 1
            ),
            "keep only NAME=value lines in it",
        );
        &text.text[..kept]
    } else {
        &text.text
    };
    if text.replaced > 0 || text.encoding == Encoding::Binary {
        warn(
            format!("not all of the file could be read as text ({})", text.encoding),
            "save it as UTF-8",
        );
    }
    if let Some(mode) = fsio::open_to_others(path) {
        warn(
            format!("the file holds secrets and others may read it (mode {mode:03o})"),
            "chmod 600 it",
        );
    }
    let dotenv = DotEnv::parse(whole);
    if let Some(entry) = dotenv.entries.iter().find(|entry| entry.name == "HERMES_HOME") {
        warnings.push(Problem::at(
            path,
            Place { line: entry.line, column: 1 },
            "HERMES_HOME",
            "the home cannot be chosen by a file inside it; the line has no effect",
            "set HERMES_HOME in the shell",
        ));
    }
    Ok((dotenv, warnings))
}

/// Notes that `key` has its value from `used`, and what that hides.
fn take(report: &mut ConfigReport, key: &str, used: SettingSource) {
    if let Some(hidden) = report.sources.insert(key.to_owned(), used.clone()) {
        report.shadowed.push(Shadowed { key: key.to_owned(), used, hidden });
    }
}

/// The settings that variables may set, and the variables in order of preference.
const VARIABLES: &[(&str, &[&str])] = &[
    ("model.default", &["HERMES_MODEL", "HERMES_INFERENCE_MODEL"]),
    ("model.provider", &["HERMES_PROVIDER", "HERMES_INFERENCE_PROVIDER"]),
    ("terminal.cwd", &["HERMES_CWD", "TERMINAL_CWD"]),
    ("agent.max_turns", &["HERMES_MAX_ITERATIONS"]),
    ("timezone", &["HERMES_TIMEZONE"]),
    ("security.redact_secrets", &["HERMES_REDACT_SECRETS"]),
    ("handoff.prepass", &["HANDOFF_JEV"]),
];

fn apply_variables(
    config: &mut Config,
    vars: &Vars,
    report: &mut ConfigReport,
) -> Result<(), ConfigError> {
    for (key, names) in VARIABLES {
        // The best source of any of the names; among equals the first name.
        let mut set: Vec<(&'static str, &str, VarSource)> = names
            .iter()
            .filter_map(|name| vars.lookup(name).map(|(value, source)| (*name, value, source)))
            .collect();
        set.sort_by_key(|(_, _, source)| matches!(source, VarSource::Process));
        let Some(&(name, value, source)) = set.first() else { continue };
        let value = value.trim();
        let wrong = |wanted: &str| {
            ConfigError::Invalid(vec![Problem::general(
                name,
                format!("\"{}\" is not {wanted} (set in {source})", crate::redact::redact(value)),
                format!("set it to {wanted} or unset it"),
            )])
        };
        let switch = || yaml_switch(value).ok_or_else(|| wanted_switch(&wrong));
        match *key {
            "model.default" => crate::routes::choose_model(&mut config.model, value),
            "model.provider" => crate::routes::choose_provider(&mut config.model, value),
            "terminal.cwd" => value.clone_into(&mut config.terminal.cwd),
            "timezone" => value.clone_into(&mut config.timezone),
            "agent.max_turns" => {
                let most = value.parse().map_err(|_| wrong("a whole number"))?;
                if most == 0 {
                    return Err(wrong("1 or more"));
                }
                config.agent.max_turns = Some(most);
            }
            "security.redact_secrets" => config.security.redact_secrets = switch()?,
            "handoff.prepass" => config.handoff.prepass = switch()?,
            _ => {}
        }
        for (other, _, other_source) in set.iter().skip(1) {
            report.shadowed.push(Shadowed {
                key: (*key).to_owned(),
                used: SettingSource::Variable { name, source },
                hidden: SettingSource::Variable { name: other, source: *other_source },
            });
        }
        take(report, key, SettingSource::Variable { name, source });
    }
    crate::routes::apply_variables(config, vars, |key, name, source| {
        take(report, key, SettingSource::Variable { name, source });
    });
    Ok(())
}

/// Values that are hidden without being settings: keys behind variables, variables behind `.env`.
fn report_hidden(config: &Config, vars: &Vars, report: &mut ConfigReport) {
    for (key, source) in crate::routes::hidden_keys(config, vars) {
        let hidden = report.source(&key);
        report.shadowed.push(Shadowed {
            key,
            used: SettingSource::Variable { name: "a variable of the provider", source },
            hidden,
        });
    }
    let used = report.source("model.base_url");
    if let Some((url, source)) = vars.lookup(crate::routes::OPENAI_BASE_URL)
        && matches!(used, SettingSource::File { .. })
        && url.trim() != config.model.base_url
    {
        report.shadowed.push(Shadowed {
            key: "model.base_url".to_owned(),
            used,
            hidden: SettingSource::Variable { name: crate::routes::OPENAI_BASE_URL, source },
        });
    }
    for (name, line) in vars.hidden() {
        report.shadowed.push(Shadowed {
            key: name.to_owned(),
            used: SettingSource::Variable { name: "", source: VarSource::HomeEnv { line } },
            hidden: SettingSource::Variable { name: "", source: VarSource::Process },
        });
    }
}

/// The variable that sets a setting at present.
pub(crate) fn variable_for(key: &str, vars: &Vars) -> Option<SettingSource> {
    let (_, names) = VARIABLES.iter().find(|(setting, _)| *setting == key)?;
    let mut set: Vec<_> = names
        .iter()
        .filter_map(|name| vars.lookup(name).map(|(_, source)| (*name, source)))
        .collect();
    set.sort_by_key(|(_, source)| matches!(source, VarSource::Process));
    set.first().map(|&(name, source)| SettingSource::Variable { name, source })
}

fn yaml_switch(value: &str) -> Option<bool> {
    match value {
        "1" => Some(true),
        "0" => Some(false),
        word => yaml::boolean(word),
    }
}

fn wanted_switch(wrong: &dyn Fn(&str) -> ConfigError) -> ConfigError {
    wrong("true or false")
}

fn apply_flags(config: &mut Config, overrides: &Overrides, report: &mut ConfigReport) {
    if let Some(provider) = &overrides.provider {
        crate::routes::choose_provider(&mut config.model, provider);
        take(report, "model.provider", SettingSource::Flag("--provider"));
    }
    if let Some(model) = &overrides.model {
        crate::routes::choose_model(&mut config.model, model);
        take(report, "model.default", SettingSource::Flag("--model"));
    }
    if let Some(base_url) = &overrides.base_url {
        config.model.base_url.clone_from(base_url);
        take(report, "model.base_url", SettingSource::Flag("--base-url"));
    }
    if let Some(cwd) = &overrides.cwd {
        config.terminal.cwd = cwd.to_string_lossy().into_owned();
        take(report, "terminal.cwd", SettingSource::Flag("--cwd"));
    }
}
