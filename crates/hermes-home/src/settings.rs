//! `hermes config`: showing, reading, setting and checking.
//!
//! Invariant: a file that cannot be understood, or would not be afterwards, is not written.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_core::Refresh;

use crate::config::read::{self, Kind, Setting};
use crate::config::{Config, UnknownKey, used};
use crate::fsio::{self, Encoding, Privacy};
use crate::load::{self, Loaded, SettingSource};
use crate::lock::FileLock;
use crate::redact::redact;
use crate::routes::{self, RouteLine};
use crate::vars::Vars;
use crate::yaml::{self, Datum, EditError};
use crate::{ConfigError, Home, Problem};

/// A setting as `config show` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSetting {
    /// The dotted key.
    pub key: String,
    /// The value in force; of a secret only whether it is set.
    pub value: Datum,
    /// Where it came from.
    pub source: SettingSource,
    /// Whether this version reads it.
    pub used: bool,
}

/// Every setting in force, or only those that somebody set.
pub fn show(loaded: &Loaded, only_set: bool) -> Vec<ShownSetting> {
    loaded
        .config
        .settings()
        .into_iter()
        .map(|setting| shown(loaded, setting))
        .filter(|setting| !only_set || setting.source != SettingSource::Default)
        .collect()
}

fn shown(loaded: &Loaded, setting: Setting) -> ShownSetting {
    let source = loaded.report.source(&setting.key);
    let used = used::takes_effect(&setting.key);
    ShownSetting { key: setting.key, value: mask(setting.value), source, used }
}

/// One setting in force; a section gives all of its settings.
///
/// # Errors
/// If there is no such setting, in the program or in the file.
pub fn get(home: &Home, loaded: &Loaded, key: &str) -> Result<Vec<ShownSetting>, ConfigError> {
    let path = parse_key(key)?;
    let key = path.iter().fold(String::new(), |prefix, segment| read::join(&prefix, segment));
    let settings = loaded.config.settings();
    let below = format!("{key}.");
    let matching: Vec<ShownSetting> = settings
        .iter()
        .filter(|setting| setting.key == key || setting.key.starts_with(&below))
        .cloned()
        .map(|setting| shown(loaded, setting))
        .collect();
    if !matching.is_empty() {
        return Ok(matching);
    }
    // Not used here, but it may stand in the file.
    let config_path = home.config_path();
    let text = load::read_config_text(&config_path)?.map(|text| text.text).unwrap_or_default();
    let document = yaml::parse(&text).map_err(|error| load::broken(&config_path, error))?;
    if let Some(node) = document.root.as_ref().and_then(|root| root.find(&path)) {
        let source = SettingSource::File { line: node.at.line };
        let value =
            if is_secret_key(&path) { hidden(&Datum::of(node)) } else { mask(Datum::of(node)) };
        return Ok(vec![ShownSetting { key, value, source, used: false }]);
    }
    // A variable is no setting, but `config set` takes it; say whether and where it is set.
    if is_variable_name(&key) {
        let (value, source) = match loaded.vars.lookup(&key) {
            Some((_, source)) => ("[set]", source),
            None => return Err(ConfigError::NoSuchVariable { name: key }),
        };
        let source = SettingSource::Variable { name: "", source };
        return Ok(vec![ShownSetting {
            key,
            value: Datum::Text(value.to_owned()),
            source,
            used: true,
        }]);
    }
    Err(no_such_key(key, &settings))
}

fn no_such_key(key: String, settings: &[Setting]) -> ConfigError {
    let nearest = read::nearest(&key, settings.iter().map(|setting| setting.key.as_str()));
    let nearest = nearest.map(str::to_owned);
    ConfigError::NoSuchKey { key, nearest }
}

fn hidden(value: &Datum) -> Datum {
    match value {
        // Neither is a secret, whatever the key is called (`security.redact_secrets`).
        Datum::Null | Datum::Bool(_) => value.clone(),
        _ => Datum::Text("[set]".to_owned()),
    }
}

/// The value with everything that looks like a secret masked.
fn mask(value: Datum) -> Datum {
    match value {
        Datum::Text(text) => Datum::Text(redact(&text).into_owned()),
        Datum::List(items) => Datum::List(items.into_iter().map(mask).collect()),
        Datum::Map(entries) => Datum::Map(
            entries
                .into_iter()
                .map(|(key, value)| {
                    let secret = crate::redact::is_secret_name(&key)
                        && matches!(value, Datum::Text(_) | Datum::Number(_));
                    let value = if secret { hidden(&value) } else { mask(value) };
                    (key, value)
                })
                .collect(),
        ),
        other => other,
    }
}

fn is_secret_key(path: &[String]) -> bool {
    path.last().is_some_and(|name| crate::redact::is_secret_name(name))
}

/// What setting a value did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigReceipt {
    /// The dotted key, or the variable's name.
    pub key: String,
    /// The file.
    pub path: PathBuf,
    /// The value before; None if there was none. Secrets are hidden.
    pub before: Option<Datum>,
    /// The value now. Secrets are hidden.
    pub after: Datum,
    /// Whether the file was changed.
    pub changed: bool,
    /// Whether this version uses the key.
    pub used: bool,
    /// What brings the change to the model; [`Refresh::Never`] if it is not part of what the model
    /// sees.
    pub reaches_model: Refresh,
    /// The same as a sentence.
    pub sentence: String,
    /// The variable that hides the value, if one does.
    pub hidden_by: Option<SettingSource>,
}

/// How long to wait for another process that writes the file.
const LOCK_BOUND: Duration = Duration::from_secs(5);

/// Sets a value in `config.yaml`, in place. `value` is JSON or YAML text; what is none is taken as
/// the text that it is. A key that is the name of a variable (`OPENAI_API_KEY`) goes to `.env`.
///
/// # Errors
/// If the file is broken (it is not touched then), the value does not fit the setting, or the edit
/// cannot be made without risk to the rest of the file.
pub fn set(
    home: &Home,
    loaded_vars: &Vars,
    key: &str,
    value: &str,
) -> Result<ConfigReceipt, ConfigError> {
    if is_variable_name(key) {
        return set_env(home, key, value);
    }
    let mut path = parse_key(key)?;
    let file = home.config_path();
    let io_error = |source| write_error(&file, source);
    home.ensure().map_err(|error| io_error(io::Error::other(error.to_string())))?;
    let _lock = lock(home, &file)?;
    let read = load::read_config_text(&file)?;
    let (text, bom) = match &read {
        None => ("", false),
        Some(read) if matches!(read.encoding, Encoding::Utf8 | Encoding::Utf8Bom) => {
            (read.text.as_str(), read.encoding == Encoding::Utf8Bom)
        }
        Some(read) => {
            return Err(refused(
                &file,
                key,
                format!("the file is {}", read.encoding),
                "save it as UTF-8 first",
            ));
        }
    };
    // A file that cannot be understood is not written to.
    let before_config = load::read_config(&file, text, loaded_vars)?;
    let document = yaml::parse(text).map_err(|error| load::broken(&file, error))?;
    let root = document.root.as_ref();

    // The model may be written as a text, which stands for `model.default`.
    let model = root.and_then(|root| root.get("model")).map(|entry| &entry.value);
    let mut text = text.to_owned();
    if path[0] == "model" {
        let is_map = model.is_some_and(|node| matches!(node.value, yaml::Value::Map { .. }));
        let wanted = parse_value(value, Kind::Text, key, &file)?;
        if path.len() == 1 && is_map && matches!(wanted, Datum::Text(_) | Datum::Number(_)) {
            path.push("default".to_owned());
        } else if path.len() > 1
            && let Some(yaml::Value::Scalar { text: name, .. }) = model.map(|node| &node.value)
            && !model.is_some_and(yaml::Node::is_null)
        {
            let map = Datum::Map(vec![("default".to_owned(), Datum::Text(name.clone()))]);
            text = edit(&text, &path[..1], &map, key, &file)?;
        }
    }
    let full_key = path.iter().fold(String::new(), |prefix, segment| read::join(&prefix, segment));
    let settings = before_config.config.settings();
    let kind = kind_of(&settings, &full_key);
    let datum = parse_value(value, kind.unwrap_or(Kind::Structure), key, &file)?;
    let secret = kind == Some(Kind::Secret) || is_secret_key(&path);
    let visible = |value: &Datum| if secret { hidden(value) } else { mask(value.clone()) };
    let before = root.and_then(|root| root.find(&path)).map(Datum::of);
    let edited = edit(&text, &path, &datum, key, &file)?;

    // The settings must still be understood, with this value.
    let after_config = load::read_config(&file, &edited, loaded_vars)
        .map_err(|error| unfit(error, &file, key, &full_key))?;
    let unknown = after_config.unknown.iter().find(|unknown| {
        full_key == unknown.key || full_key.starts_with(&format!("{}.", unknown.key))
    });
    let effect = match unknown {
        Some(unknown) => Effect::Unknown(unknown),
        None if used::takes_effect(&full_key) => Effect::Used,
        None => Effect::NotYet,
    };
    let used = matches!(effect, Effect::Used);
    let changed =
        read.is_none() || Some(edited.as_str()) != read.as_ref().map(|read| read.text.as_str());
    if changed {
        let mut bytes = if bom { "\u{feff}".to_owned() } else { String::new() };
        bytes.push_str(&edited);
        let privacy = if read.is_some() { Privacy::Public } else { Privacy::Private };
        fsio::write_atomic(&file, bytes.as_bytes(), privacy).map_err(io_error)?;
    }
    let hidden_by = load::variable_for(&full_key, loaded_vars);
    let (reaches_model, sentence) = reach(&full_key, &effect, changed);
    Ok(ConfigReceipt {
        key: full_key,
        path: file,
        before: before.as_ref().map(visible),
        after: visible(&datum),
        changed,
        used,
        reaches_model,
        sentence,
        hidden_by,
    })
}

/// A value that the settings do not take. Its place would be one in a file that was not written.
fn unfit(error: ConfigError, file: &Path, key: &str, full_key: &str) -> ConfigError {
    let ConfigError::Invalid(problems) = &error else { return error };
    let below = format!("{full_key}.");
    let own = |problem: &&Problem| problem.key == full_key || problem.key.starts_with(&below);
    match problems.iter().find(own) {
        Some(problem) => refused(file, key, problem.what.clone(), &problem.hint),
        None => error,
    }
}

fn edit(
    text: &str,
    path: &[String],
    value: &Datum,
    key: &str,
    file: &Path,
) -> Result<String, ConfigError> {
    yaml::set_value(text, path, value).map_err(|error| match error {
        EditError::Broken(error) => load::broken(file, error),
        EditError::Refused { why, hint } => refused(file, key, why, &hint),
    })
}

fn refused(file: &Path, key: &str, why: String, hint: &str) -> ConfigError {
    ConfigError::Refused {
        key: key.to_owned(),
        path: file.to_owned(),
        why,
        hint: format!("{hint}; the file was not changed"),
    }
}

fn write_error(file: &Path, source: io::Error) -> ConfigError {
    ConfigError::Io {
        doing: "write",
        path: file.to_owned(),
        source,
        hint: "check that you may write there and that the disk is not full".to_owned(),
    }
}

fn lock(home: &Home, file: &Path) -> Result<FileLock, ConfigError> {
    let path = home.root().join(".config.lock");
    FileLock::acquire(&path, LOCK_BOUND).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => ConfigError::Locked { path: file.to_owned() },
        _ => write_error(&path, error),
    })
}

/// The segments of a dotted key; a segment with a dot in it stands in double quotes.
fn parse_key(key: &str) -> Result<Vec<String>, ConfigError> {
    let wrong = || ConfigError::NoSuchKey { key: key.to_owned(), nearest: None };
    let mut segments = Vec::new();
    let mut rest = key.trim();
    loop {
        let (segment, behind) = if let Some(inner) = rest.strip_prefix('"') {
            let end = inner.find('"').ok_or_else(wrong)? + 2;
            let text: String = serde_json::from_str(&rest[..end]).map_err(|_| wrong())?;
            (text, &rest[end..])
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        };
        if segment.is_empty() {
            return Err(wrong());
        }
        segments.push(segment);
        match behind.strip_prefix('.') {
            Some(more) => rest = more,
            None if behind.is_empty() => return Ok(segments),
            None => return Err(wrong()),
        }
    }
}

fn kind_of(settings: &[Setting], key: &str) -> Option<Kind> {
    let exact = settings.iter().find(|setting| setting.key == key).map(|setting| setting.kind);
    exact.or_else(|| {
        // Settings of named endpoints are listed once they are there.
        let last = key.rsplit('.').next()?;
        let prefix = key.split('.').next()?;
        if !matches!(prefix, "providers" | "custom_providers" | "fallback_providers" | "auxiliary")
        {
            return None;
        }
        let mut fields = Vec::new();
        read::Read::list(&crate::config::ProviderConfig::default(), "", &mut fields);
        read::Read::list(&crate::config::AuxiliaryTask::default(), "", &mut fields);
        fields.iter().find(|field| field.key == last).map(|field| field.kind)
    })
}

/// The value that a text on the command line means for a setting of a kind.
fn parse_value(text: &str, kind: Kind, key: &str, file: &Path) -> Result<Datum, ConfigError> {
    let trimmed = text.trim();
    let structure = trimmed.starts_with(['[', '{']);
    match kind {
        Kind::Text | Kind::Secret if !structure || kind == Kind::Secret => {
            return Ok(match trimmed {
                "null" | "~" => Datum::Null,
                _ => Datum::Text(unquote(text)),
            });
        }
        Kind::Switch => {
            let value = match trimmed {
                "1" => Some(true),
                "0" => Some(false),
                word => yaml::boolean(word),
            };
            if let Some(value) = value {
                return Ok(Datum::Bool(value));
            }
        }
        _ => {}
    }
    if structure || (kind == Kind::Structure && trimmed.starts_with("- ")) {
        return match yaml::parse(trimmed) {
            Ok(yaml::Document { root: Some(root), comments }) if comments.is_empty() => {
                Ok(Datum::of(&root))
            }
            Ok(_) => Err(refused(file, key, "the value has comments".to_owned(), "leave them out")),
            Err(_) if kind == Kind::Text => Ok(Datum::Text(text.to_owned())),
            Err(error) => Err(refused(
                file,
                key,
                format!("the value is not a list or mapping: {}", error.what),
                "write it as JSON, such as [\"a\", \"b\"]",
            )),
        };
    }
    if trimmed.starts_with('"')
        && let Ok(inner) = serde_json::from_str::<String>(trimmed)
    {
        return Ok(Datum::Text(inner));
    }
    Ok(match yaml::scalar_datum(trimmed) {
        Datum::Text(_) => Datum::Text(text.to_owned()),
        other => other,
    })
}

fn unquote(text: &str) -> String {
    let inner = text.trim();
    if inner.starts_with('"')
        && let Ok(inner) = serde_json::from_str::<String>(inner)
    {
        return inner;
    }
    text.to_owned()
}

/// What this version does with a key.
enum Effect<'a> {
    Used,
    /// It is understood, and nothing reads it.
    NotYet,
    /// It is none of the settings.
    Unknown(&'a UnknownKey),
}

/// When a changed setting reaches the model.
fn reach(key: &str, effect: &Effect<'_>, changed: bool) -> (Refresh, String) {
    let section = key.split('.').next().unwrap_or(key);
    let in_prompt = matches!(
        section,
        "memory"
            | "skills"
            | "context_file_max_chars"
            | "platform_hints"
            | "personalities"
            | "toolsets"
    ) || matches!(
        key,
        "agent.tool_use_enforcement"
            | "agent.execution_guidance"
            | "agent.task_completion_guidance"
            | "agent.parallel_tool_call_guidance"
            | "agent.verify_guidance"
            | "agent.environment_probe"
            | "agent.environment_hint"
            | "agent.coding_context"
            | "agent.coding_instructions"
            | "agent.disabled_toolsets"
            | "display.personality"
            | "timezone"
    );
    let endpoint =
        matches!(section, "model" | "providers" | "custom_providers" | "fallback_providers");
    let without = match effect {
        Effect::Used => None,
        Effect::NotYet => Some(format!("it is kept; this version does not use {key}")),
        Effect::Unknown(unknown) if unknown.foreign => {
            Some(format!("it is kept; this version does not use {}", unknown.key))
        }
        Effect::Unknown(unknown) => {
            let near = unknown.nearest.as_ref();
            let near = near.map(|it| format!("; did you mean {it}?")).unwrap_or_default();
            Some(format!("it is kept; there is no setting {}{near}", unknown.key))
        }
    };
    if let Some(sentence) = without {
        return (Refresh::Never, sentence);
    }
    let (refresh, sentence) = if !changed {
        (Refresh::Never, "nothing changed")
    } else if in_prompt {
        (
            Refresh::NextSession,
            "reaches the model at the next session or /refresh; a running session keeps its prompt",
        )
    } else if endpoint {
        (
            Refresh::NextSession,
            "used from the next start on; a running session keeps its model and endpoint",
        )
    } else {
        (Refresh::Never, "takes effect at the next start; it is not part of what the model sees")
    };
    (refresh, sentence.to_owned())
}

/// Names in capitals are variables, not settings.
fn is_variable_name(key: &str) -> bool {
    crate::vars::is_name(key)
        && key.contains('_')
        && key.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Sets a variable in the home's `.env`, in place; the file is private.
///
/// # Errors
/// If the name is no variable's, the file is not text, or it cannot be written.
pub fn set_env(home: &Home, name: &str, value: &str) -> Result<ConfigReceipt, ConfigError> {
    let file = home.env_path();
    if !crate::vars::is_name(name) {
        let why = format!("\"{name}\" cannot name a variable");
        return Err(refused(&file, name, why, "use letters, digits and underscores"));
    }
    if value.contains('\0') {
        return Err(refused(
            &file,
            name,
            "the value holds a zero byte".to_owned(),
            "copy it again",
        ));
    }
    if name == "HERMES_HOME" {
        let why = "the home cannot be chosen by a file inside it".to_owned();
        return Err(refused(&file, name, why, "set HERMES_HOME in the shell"));
    }
    home.ensure().map_err(|error| write_error(&file, io::Error::other(error.to_string())))?;
    let _lock = lock(home, &file)?;
    let old = match fsio::read_text(&file, 4 * 1024 * 1024) {
        Ok(read) if read.encoding == Encoding::Binary || read.truncated || read.replaced > 0 => {
            return Err(refused(
                &file,
                name,
                "the file is not plain text".to_owned(),
                "look at it",
            ));
        }
        Ok(read) => read.text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(write_error(&file, error)),
    };
    let parsed = crate::dotenv::DotEnv::parse(&old);
    let known = parsed.entries.iter().find(|entry| entry.name == name);
    let unchanged = known.is_some_and(|entry| entry.value == value);
    if !unchanged {
        let new = crate::dotenv::set(&old, name, value);
        let reread = crate::dotenv::DotEnv::parse(&new);
        let others = |parsed: &crate::dotenv::DotEnv| -> Vec<(String, String)> {
            parsed
                .entries
                .iter()
                .filter(|entry| entry.name != name)
                .map(|entry| (entry.name.clone(), entry.value.clone()))
                .collect()
        };
        let stored = reread.entries.iter().any(|entry| entry.name == name && entry.value == value);
        if !stored || others(&parsed) != others(&reread) {
            let why = "the line would not read back as it was given".to_owned();
            return Err(refused(&file, name, why, "change the line in an editor"));
        }
        fsio::write_atomic(&file, new.as_bytes(), Privacy::Private)
            .map_err(|error| write_error(&file, error))?;
    }
    let show = |value: &str| {
        if crate::redact::is_secret_name(name) {
            Datum::Text("[set]".to_owned())
        } else {
            mask(Datum::Text(value.to_owned()))
        }
    };
    Ok(ConfigReceipt {
        key: name.to_owned(),
        path: file,
        before: known.map(|entry| show(&entry.value)),
        after: show(value),
        changed: !unchanged,
        used: true,
        reaches_model: Refresh::Never,
        sentence: "takes effect at the next start; it is not part of what the model sees"
            .to_owned(),
        hidden_by: None,
    })
}

/// What `config check` found.
#[derive(Clone, Debug)]
pub struct Check {
    /// Keys that are not used.
    pub unknown: Vec<UnknownKey>,
    /// Settings that somebody set and nothing in this version reads, each with where it was set.
    pub unused: Vec<(String, SettingSource)>,
    /// Values that are written oddly, deprecated keys, lines of `.env`, settings without effect.
    pub warnings: Vec<Problem>,
    /// Values that hide others.
    pub shadowed: Vec<crate::load::Shadowed>,
    /// The endpoints in the order in which they are asked.
    pub chain: Vec<RouteLine>,
}

impl Check {
    /// Whether every endpoint of the chain can be used and nothing was odd.
    pub fn is_clean(&self) -> bool {
        self.warnings.is_empty()
            && self.unknown.iter().all(|unknown| unknown.foreign)
            && self.chain.iter().all(|line| line.problem.is_none())
    }
}

/// Looks over the settings in force. Runs no command and asks no endpoint.
pub fn check(loaded: &Loaded) -> Check {
    let Loaded { config, vars, report } = loaded;
    let mut warnings = report.warnings.clone();
    for problem in &report.env_problems {
        let place = crate::Place { line: problem.line, column: 1 };
        warnings.push(Problem::at(&report.env_path, place, "", &problem.what, &problem.hint));
    }
    warnings.extend(doubts(config));
    if routes::withholds_openai_key(config, vars) {
        warnings.push(Problem::general(
            "model.key_env",
            "OPENAI_API_KEY is set in the environment and is not sent to this endpoint, which is not OpenAI's",
            "set model.key_env to OPENAI_API_KEY if it is meant for it",
        ));
    }
    Check {
        unknown: report.unknown.clone(),
        unused: show(loaded, true)
            .into_iter()
            .filter(|setting| !setting.used)
            .map(|setting| (setting.key, setting.source))
            .collect(),
        warnings,
        shadowed: report.shadowed.clone(),
        chain: routes::chain(config, vars),
    }
}

/// Values that are understood but cannot mean what they say.
fn doubts(config: &Config) -> Vec<Problem> {
    let mut out = Vec::new();
    let mut doubt =
        |key: &str, what: String, hint: &str| out.push(Problem::general(key, what, hint));
    if !config.timezone.is_empty() && !crate::SystemEnv::knows_timezone(&config.timezone) {
        doubt(
            "timezone",
            format!("\"{}\" is not a known time zone; the system's is used", config.timezone),
            "use a name such as Europe/Berlin",
        );
    }
    if config.terminal.backend != "local" {
        doubt(
            "terminal.backend",
            format!(
                "\"{}\" does not exist here; commands run on this machine",
                config.terminal.backend
            ),
            "set it to local",
        );
    }
    for (key, value) in [
        ("approvals.cron_mode", &config.approvals.cron_mode),
        ("approvals.single_query_mode", &config.approvals.single_query_mode),
        ("approvals.unattended_mode", &config.approvals.unattended_mode),
    ] {
        if !matches!(value.as_str(), "deny" | "approve") {
            doubt(
                key,
                format!("\"{value}\" is neither deny nor approve; deny is meant"),
                "write deny or approve",
            );
        }
    }
    if !matches!(config.compression.on_failure.as_str(), "" | "abort" | "fallback") {
        doubt(
            "compression.on_failure",
            format!(
                "\"{}\" is neither abort nor fallback; abort is meant",
                config.compression.on_failure
            ),
            "write abort or fallback",
        );
    }
    let failure = &config.handoff.on_compaction_failure;
    if !matches!(failure.as_str(), "" | "handoff") {
        doubt(
            "handoff.on_compaction_failure",
            format!("\"{failure}\" is not known; nothing is done"),
            "write handoff, or leave it empty",
        );
    }
    if !matches!(config.handoff.when_due.as_str(), "propose" | "do") {
        doubt(
            "handoff.when_due",
            format!("\"{}\" is neither propose nor do; propose is meant", config.handoff.when_due),
            "write propose or do",
        );
    }
    for (key, value) in [
        ("compression.threshold", config.compression.threshold),
        ("compression.target_ratio", config.compression.target_ratio),
    ] {
        if !(value > 0.0 && value <= 1.0) {
            doubt(
                key,
                format!("{value} is no share of the whole"),
                "write a number between 0 and 1",
            );
        }
    }
    out
}
