//! `hermes config`: showing and changing the settings.

use hermes_home::{
    ConfigError, ConfigReceipt, Loaded, Problem, SettingSource, ShownSetting, check, get, set, show,
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::app::App;
use crate::cli::Config;
use crate::exit::{Exit, Failure};
use crate::out::{self, Paint};

/// Carries out one of the commands.
///
/// # Errors
/// If the configuration cannot be understood or changed.
pub fn run(app: &App, command: Config) -> anyhow::Result<Exit> {
    match command {
        Config::Show { json } => print(&show(&app.config()?, !json), json),
        Config::Get { key } => print_value(app, &key),
        Config::Set { key, value } => change(app, &key, &value),
        Config::Path => {
            out::line(app.home.config_path().display().to_string())?;
            Ok(Exit::Ok)
        }
        Config::Check => look_over(&app.config()?),
    }
}

/// One setting as `--json` shows it.
#[derive(Serialize)]
struct SettingJson {
    key: String,
    value: Box<RawValue>,
    source: String,
    /// Whether this version reads it.
    used: bool,
}

fn print(settings: &[ShownSetting], json: bool) -> anyhow::Result<Exit> {
    if json {
        let settings = settings
            .iter()
            .map(|setting| {
                Ok(SettingJson {
                    key: setting.key.clone(),
                    value: RawValue::from_string(setting.value.to_json())?,
                    source: setting.source.to_string(),
                    used: setting.used,
                })
            })
            .collect::<Result<Vec<_>, serde_json::Error>>()?;
        out::json(&settings)?;
        return Ok(Exit::Ok);
    }
    if settings.is_empty() {
        out::line("nothing is set; everything has its default value")?;
        out::note(
            "hint: `hermes config show --json` lists every setting; `hermes setup` finds a model",
        );
        return Ok(Exit::Ok);
    }
    let paint = Paint::stdout();
    for setting in settings {
        let unused = if setting.used { "" } else { "; not used by this version" };
        let source = paint.dim(&format!("# {}{unused}", setting.source));
        out::line(format!("{}: {}  {source}", setting.key, setting.value.to_yaml()))?;
    }
    Ok(Exit::Ok)
}

/// The value alone where the key is a setting, its lines where it is a section.
fn print_value(app: &App, key: &str) -> anyhow::Result<Exit> {
    let loaded = app.config()?;
    let settings = get(&app.home, &loaded, key).map_err(no_such_key)?;
    match &settings[..] {
        [one] if one.key == key => {
            out::line(one.value.to_string())?;
            if let SettingSource::Variable { name: "", source } = &one.source {
                out::note(format!("set in {source}"));
            }
        }
        several => {
            for setting in several {
                out::line(format!("{}: {}", setting.key, setting.value.to_yaml()))?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// A key that does not exist has an exit code of its own.
fn no_such_key(error: ConfigError) -> anyhow::Error {
    match error {
        ConfigError::NoSuchKey { .. } | ConfigError::NoSuchVariable { .. } => {
            Failure::new(Exit::NotFound, error.to_string()).into()
        }
        other => other.into(),
    }
}

fn change(app: &App, key: &str, value: &str) -> anyhow::Result<Exit> {
    let before = app.config()?;
    let receipt = set(&app.home, &before.vars, key, value).map_err(no_such_key)?;
    let after = app.config()?;
    // What is in force now, whoever wins.
    for line in told(&receipt, &after.report.source(&receipt.key)) {
        out::line(line)?;
    }
    let known = findings(&before);
    for finding in findings(&after).into_iter().filter(|it| !known.contains(it)) {
        out::line(Paint::stdout().yellow(&format!("warning: {finding}")))?;
    }
    Ok(Exit::Ok)
}

/// What stands in the way of the settings, or is odd about them, without places: these move when
/// a line is added.
fn findings(loaded: &Loaded) -> Vec<String> {
    let found = check(loaded);
    let warnings = found.warnings.into_iter().map(|it| Problem { at: None, ..it }.to_string());
    let chain = found.chain.iter().filter(|line| line.problem.is_some());
    warnings.chain(chain.map(ToString::to_string)).collect()
}

fn told(receipt: &ConfigReceipt, source: &SettingSource) -> Vec<String> {
    let ConfigReceipt { key, before, after, .. } = receipt;
    let path = receipt.path.display();
    let mut lines = Vec::new();
    lines.push(match (receipt.changed, before) {
        (false, _) => format!("{key} is {} already; {path} was not changed", after.to_yaml()),
        (true, None) => format!("{key}: {} (new in {path})", after.to_yaml()),
        (true, Some(before)) => {
            format!("{key}: {} (was {}, in {path})", after.to_yaml(), before.to_yaml())
        }
    });
    if receipt.changed {
        lines.push(receipt.sentence.clone());
    }
    if matches!(source, SettingSource::Variable { .. } | SettingSource::Flag(_)) {
        lines.push(format!("warning: {source} hides this value"));
    }
    lines
}

fn look_over(loaded: &Loaded) -> anyhow::Result<Exit> {
    let found = check(loaded);
    let paint = Paint::stdout();
    let report = &loaded.report;
    let file = report.config_path.display();
    if !report.config_exists {
        out::line(format!("{file} does not exist; every setting has its default"))?;
    }
    for unknown in &found.unknown {
        let key = &unknown.key;
        let why = match (&unknown.nearest, unknown.foreign) {
            (_, true) => "a setting of Hermes Agent that this version does not use".to_owned(),
            (Some(nearest), false) => format!("no setting; did you mean {nearest}?"),
            (None, false) => "no setting; it is kept".to_owned(),
        };
        let text = format!("{file}:{}: {key}: {why}", unknown.at);
        out::line(if unknown.foreign { paint.dim(&text) } else { paint.yellow(&text) })?;
    }
    for (key, source) in &found.unused {
        out::line(paint.dim(&format!("{key} ({source}): this version does not use it")))?;
    }
    for warning in &found.warnings {
        out::line(paint.yellow(&warning.to_string()))?;
    }
    for shadowed in &found.shadowed {
        out::line(shadowed.to_string())?;
    }
    for (index, line) in found.chain.iter().enumerate() {
        let text = line.to_string();
        out::line(match (&line.problem, index) {
            (None, _) => text,
            (Some(_), 0) => paint.red(&text),
            // The conversation goes on without it.
            (Some(_), _) => {
                let place = match report.source(&line.key) {
                    SettingSource::File { line } => format!("{file}:{line}: "),
                    _ => String::new(),
                };
                paint.yellow(&format!("{place}{text}"))
            }
        })?;
    }
    if found.chain.first().is_some_and(|line| line.problem.is_some()) {
        return Ok(Exit::Config);
    }
    if found.is_clean() {
        out::line(paint.green("the configuration is understood"))?;
    }
    Ok(Exit::Ok)
}
