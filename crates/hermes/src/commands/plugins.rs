//! `hermes plugins`: what there is, what may run, and putting it in place. Only `doctor` runs
//! anything of a plugin.

pub mod consent;
pub mod doctor;
mod place;

use hermes_home::{ConfigReceipt, Loaded, set};
use hermes_plugins::{Found, PluginKind, Plugins};
use serde::Serialize;
use serde_json::json;

use self::consent::Agreements;
use crate::app::App;
use crate::cli::plugged::{Enable, Plugins as Command};
use crate::commands::upkeep;
use crate::exit::{Exit, Failure};
use crate::out::{self, Paint, ellipsis};
use crate::plugged;

/// The setting with the plugins that are switched on.
const ENABLED: &str = "plugins.enabled";
/// The setting with those that are switched off whatever else is said.
const DISABLED: &str = "plugins.disabled";
/// What a plugin may that replaces tools of this program.
const OVERRIDE: &str = "tools.override";
/// When a change is noticed.
const WHEN: &str = "Hooks and commands follow with the next start of hermes; tools, skills and \
                    prompt sections reach the model with the next session.";

/// Carries out one of the commands.
///
/// # Errors
/// If there is no such plugin, the person says no, or a file cannot be read or written.
pub fn run(app: &App, command: Command) -> anyhow::Result<Exit> {
    let loaded = app.config()?;
    match command {
        Command::List { enabled, json } => list(app, &loaded, enabled, json),
        Command::Show { plugin, json } => show(app, &loaded, &plugin, json),
        Command::Enable(flags) => enable(app, &loaded, &flags),
        Command::Disable { plugin, json } => disable(app, &loaded, &plugin, json),
        Command::Install(flags) => place::install(app, &loaded, &flags),
        Command::Remove { plugin, yes } => place::remove(app, &loaded, &plugin, yes),
        Command::Doctor { plugin, json } => doctor::run(app, &loaded, plugin.as_deref(), json),
        Command::Validate { folder, json } => place::validate(app, &folder, json),
        Command::New(flags) => place::new(app, &flags),
    }
}

/// A plugin as `--json` shows it.
#[derive(Serialize)]
struct PluginJson<'a> {
    key: &'a str,
    name: &'a str,
    version: Option<&'a str>,
    description: &'a str,
    source: &'static str,
    kind: &'static str,
    package: Option<&'a str>,
    path: Option<String>,
    entry_point: Option<&'a str>,
    runtime: &'static str,
    enabled: bool,
    error: Option<&'a str>,
}

impl<'a> PluginJson<'a> {
    fn new(found: &'a Found) -> Self {
        Self {
            key: &found.key,
            name: &found.name,
            version: found.version.as_deref(),
            description: &found.description,
            source: found.source.as_str(),
            kind: found.kind.as_str(),
            package: found.package.as_ref().map(|(name, _)| name.as_str()),
            path: found.folder.as_ref().map(|folder| folder.display().to_string()),
            entry_point: found.entry_point.as_deref(),
            runtime: if found.native.is_some() { "native" } else { "python" },
            enabled: found.enabled,
            error: found.error.as_deref(),
        }
    }
}

fn is(found: &Found, id: &str) -> bool {
    found.key == id || found.name == id
}

/// Names of the settings that no plugin answers to.
fn missing<'a>(loaded: &'a Loaded, found: &[Found]) -> Vec<&'a String> {
    let enabled = loaded.config.plugins.enabled.iter();
    enabled.filter(|id| !found.iter().any(|plugin| is(plugin, id))).collect()
}

fn list(app: &App, loaded: &Loaded, only_enabled: bool, as_json: bool) -> anyhow::Result<Exit> {
    let all = plugged::plugins(app, loaded).found();
    let missing = missing(loaded, &all);
    let shown: Vec<&Found> = all.iter().filter(|found| !only_enabled || found.enabled).collect();
    if as_json {
        let lost = missing.iter().map(|id| {
            json!({"key": id, "name": id, "enabled": true, "error": "no plugin of that name is installed"})
        });
        let rows: Result<Vec<_>, _> =
            shown.iter().map(|found| serde_json::to_value(PluginJson::new(found))).collect();
        out::json(&rows?.into_iter().chain(lost).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let mut rows: Vec<Vec<String>> = shown
        .iter()
        .map(|found| {
            vec![
                found.key.clone(),
                found.version.clone().unwrap_or_default(),
                state(loaded, found),
                found.source.as_str().to_owned(),
                found.kind.as_str().to_owned(),
                ellipsis(&found.description, 60),
            ]
        })
        .collect();
    rows.extend(missing.iter().map(|id| {
        let state = "on, and not installed".to_owned();
        vec![(*id).clone(), String::new(), state, String::new(), String::new(), String::new()]
    }));
    let head = ["plugin", "version", "state", "source", "kind", "description"];
    let empty = "there are no plugins; hint: `hermes plugins new NAME` makes one, `hermes plugins \
                 install` fetches one";
    out::table(&head, rows, empty)?;
    Ok(Exit::Ok)
}

/// Whether a plugin runs, in a few words.
fn state(loaded: &Loaded, found: &Found) -> String {
    let plugins = &loaded.config.plugins;
    let named = |list: &[String]| list.iter().any(|id| is(found, id));
    match &found.error {
        None => "on".to_owned(),
        Some(_) if named(&plugins.disabled) => "off (plugins.disabled)".to_owned(),
        Some(_) if found.kind == PluginKind::Exclusive => "chosen by a setting".to_owned(),
        Some(why) if named(&plugins.enabled) => format!("on, does not run: {}", ellipsis(why, 60)),
        Some(why) if why.starts_with("not enabled") => "off".to_owned(),
        Some(why) => ellipsis(why, 60),
    }
}

/// The plugin of that name.
fn find(plugins: &Plugins, id: &str) -> anyhow::Result<Found> {
    let all = plugins.found();
    if let Some(found) = all.iter().find(|found| found.key == id) {
        return Ok(found.clone());
    }
    if let Some(found) = all.iter().find(|found| found.name == id) {
        return Ok(found.clone());
    }
    let nearest = all
        .iter()
        .map(|found| (strsim::damerau_levenshtein(id, &found.key), &found.key))
        .filter(|(distance, key)| *distance <= key.len().div_ceil(3))
        .min();
    let hint = match nearest {
        Some((_, key)) => format!("did you mean {key}?"),
        None => "`hermes plugins list` shows what there is; `hermes plugins install` fetches more"
            .to_owned(),
    };
    let text = format!("there is no plugin \"{id}\"; hint: {hint}");
    Err(Failure::new(Exit::NotFound, text).into())
}

fn show(app: &App, loaded: &Loaded, id: &str, as_json: bool) -> anyhow::Result<Exit> {
    let plugins = plugged::plugins(app, loaded);
    let found = find(&plugins, id)?;
    let scan = plugins.scan(&found);
    let agreements = Agreements::of(&app.home);
    let agreed = agreements.get(&found.key);
    let changed = agreed.is_some_and(|agreed| agreed.digest != scan.digest);
    if as_json {
        let mut value = serde_json::to_value(PluginJson::new(&found))?;
        value["manifest"] = found.manifest.fields.clone();
        value["notes"] = json!(found.manifest.notes);
        value["scan"] = serde_json::to_value(&scan)?;
        value["consent"] = serde_json::to_value(agreed)?;
        value["changed_since_consent"] = changed.into();
        value["missing_variables"] = json!(missing_variables(loaded, &found));
        out::json(&value)?;
        return Ok(Exit::Ok);
    }
    let paint = Paint::stdout();
    let (key, state) = (paint.bold(&found.key), state(loaded, &found));
    out::line(format!("{key} {}  {state}", found.version.as_deref().unwrap_or_default()))?;
    if !found.description.is_empty() {
        out::line(&found.description)?;
    }
    let origin = match (&found.folder, &found.package, &found.entry_point) {
        (Some(folder), ..) => folder.display().to_string(),
        (None, Some((package, version)), Some(entry)) => format!("{package} {version}, {entry}"),
        (None, _, entry) => entry.clone().unwrap_or_default(),
    };
    let row = |name: &str, value: String| {
        if value.is_empty() { Ok(()) } else { out::line(format!("  {name:<10} {value}")) }
    };
    row("from", format!("{} ({})", origin, found.source.as_str()))?;
    row("kind", found.kind.as_str().to_owned())?;
    if let Some(native) = &found.native {
        row("starts", native.command.join(" "))?;
    }
    let list = |name: &str| found.manifest.list(name).join(", ");
    let mut hooks = found.manifest.list("provides_hooks");
    hooks.extend(found.manifest.list("hooks"));
    row("hooks", hooks.join(", "))?;
    row("tools", list("provides_tools"))?;
    row("needs", list("requires_hermes"))?;
    row("variables", list("requires_env"))?;
    row("packages", packages(&found).join(", "))?;
    row("may", list("capabilities"))?;
    if let Some(error) = &found.error {
        row("not run", error.clone())?;
    }
    for line in consent::lines(&scan, paint) {
        out::line(line)?;
    }
    match agreed {
        Some(agreed) if changed => out::line(paint.yellow(&format!(
            "its files have changed since {} ({} then)",
            agreed.at, agreed.verdict
        )))?,
        Some(agreed) => out::line(format!("shown and agreed to on {}", agreed.at))?,
        None => {}
    }
    tell_missing(loaded, &found);
    Ok(Exit::Ok)
}

/// Python packages that a plugin's folder says it needs.
fn packages(found: &Found) -> Vec<String> {
    let fields = ["pip_dependencies", "python_dependencies"];
    fields.iter().flat_map(|name| found.manifest.list(name)).collect()
}

/// Variables that a plugin wants and nobody has set.
fn missing_variables(loaded: &Loaded, found: &Found) -> Vec<String> {
    let mut wanted = found.manifest.list("requires_env");
    wanted.retain(|name| loaded.vars.get(name).is_none());
    wanted
}

fn tell_missing(loaded: &Loaded, found: &Found) {
    for name in missing_variables(loaded, found) {
        out::note(format!(
            "note: it wants the variable {name}, which is not set\nhint: hermes config set {name} VALUE"
        ));
    }
}

fn enable(app: &App, loaded: &Loaded, flags: &Enable) -> anyhow::Result<Exit> {
    let plugins = plugged::plugins(app, loaded);
    let found = find(&plugins, &flags.plugin)?;
    switch_on(app, loaded, &plugins, &found, flags)
}

/// Switches a plugin on, after its files were shown and the person did not object.
fn switch_on(
    app: &App,
    loaded: &Loaded,
    plugins: &Plugins,
    found: &Found,
    flags: &Enable,
) -> anyhow::Result<Exit> {
    if found.kind == PluginKind::Exclusive {
        let text = format!(
            "{} is exclusive: it is chosen by a setting, not switched on; hint: hermes config set \
             memory.provider {} (for a memory provider)",
            found.key, found.name
        );
        return Err(Failure::new(Exit::Usage, text).into());
    }
    let scan = plugins.scan(found);
    consent::show(&found.key, &scan);
    let safe = scan.verdict == hermes_plugins::scan::Concern::Safe;
    let mut agreements = Agreements::of(&app.home);
    let known = agreements.get(&found.key).is_some_and(|agreed| agreed.digest == scan.digest);
    if !safe && !known && !flags.yes && !upkeep::ask("Switch it on?", "switching it on")? {
        out::note("nothing was changed");
        return Ok(Exit::Ok);
    }
    agreements.add(found, &scan, "command", &app.env.now().to_string());
    agreements.keep()?;
    let config = &loaded.config.plugins;
    let mut enabled = config.enabled.clone();
    if !enabled.iter().any(|id| is(found, id)) {
        enabled.push(found.key.clone());
    }
    let mut receipts = vec![change(app, loaded, ENABLED, &config.enabled, &enabled)?];
    let mut disabled = config.disabled.clone();
    disabled.retain(|id| !is(found, id));
    if disabled != config.disabled {
        receipts.push(change(app, loaded, DISABLED, &config.disabled, &disabled)?);
    }
    if flags.allow_tool_override {
        let key = format!("plugins.entries.\"{}\".granted_capabilities", found.key);
        let granted = json!([OVERRIDE]).to_string();
        receipts.push(Some(set(&app.home, &loaded.vars, &key, &granted)?));
    }
    tell_missing(loaded, found);
    if let (None, Err(error)) = (&found.native, plugins.interpreter()) {
        out::note(format!("warning: {error}"));
    }
    for package in packages(found) {
        out::note(format!("note: it needs the Python package {package}"));
    }
    let receipts: Vec<_> = receipts.into_iter().flatten().collect();
    receipt(app, loaded, found, true, &receipts, flags.json)
}

fn disable(app: &App, loaded: &Loaded, id: &str, as_json: bool) -> anyhow::Result<Exit> {
    let plugins = plugged::plugins(app, loaded);
    // A name of the settings without a plugin can be taken out as well.
    let named = loaded.config.plugins.enabled.iter().any(|other| other == id);
    let found = match find(&plugins, id) {
        Ok(found) => found,
        Err(_) if named => nobody(id),
        Err(error) => return Err(error),
    };
    let receipts = switch_off(app, loaded, &found)?;
    receipt(app, loaded, &found, false, &receipts, as_json)
}

fn nobody(id: &str) -> Found {
    Found {
        key: id.to_owned(),
        name: id.to_owned(),
        version: None,
        description: String::new(),
        source: hermes_plugins::PluginSource::User,
        kind: PluginKind::Standalone,
        folder: None,
        entry_point: None,
        manifest: hermes_plugins::Manifest::default(),
        native: None,
        package: None,
        enabled: false,
        error: None,
    }
}

fn switch_off(app: &App, loaded: &Loaded, found: &Found) -> anyhow::Result<Vec<ConfigReceipt>> {
    let config = &loaded.config.plugins;
    let mut enabled = config.enabled.clone();
    enabled.retain(|id| !is(found, id));
    Ok(change(app, loaded, ENABLED, &config.enabled, &enabled)?.into_iter().collect())
}

/// Writes a list of names if it differs.
fn change(
    app: &App,
    loaded: &Loaded,
    key: &str,
    before: &[String],
    after: &[String],
) -> anyhow::Result<Option<ConfigReceipt>> {
    if before == after {
        return Ok(None);
    }
    Ok(Some(set(&app.home, &loaded.vars, key, &serde_json::to_string(after)?)?))
}

/// What was written and when it is noticed.
fn receipt(
    app: &App,
    loaded: &Loaded,
    found: &Found,
    on: bool,
    receipts: &[ConfigReceipt],
    as_json: bool,
) -> anyhow::Result<Exit> {
    let changed = receipts.iter().any(|receipt| receipt.changed);
    // What is in force now: another gate may still be closed.
    let now = plugged::plugins(app, &app.config()?).found();
    let error = now.iter().find(|it| it.key == found.key).and_then(|it| it.error.clone());
    let hindered = error.filter(|_| on);
    if as_json {
        out::json(&json!({
            "plugin": found.key,
            "enabled": on,
            "changed": changed,
            "path": app.home.config_path().display().to_string(),
            "takes_effect": WHEN,
            "error": hindered,
        }))?;
        return Ok(Exit::Ok);
    }
    let word = if on { "on" } else { "off" };
    if changed {
        out::line(format!("plugin {}: {word}", found.key))?;
        for receipt in receipts {
            let (key, path) = (&receipt.key, receipt.path.display());
            out::line(match &receipt.before {
                None => format!("{key}: {} (new in {path})", receipt.after.to_yaml()),
                Some(before) => {
                    format!(
                        "{key}: {} (was {}, in {path})",
                        receipt.after.to_yaml(),
                        before.to_yaml()
                    )
                }
            })?;
        }
        out::line(WHEN)?;
    } else {
        out::line(format!("plugin {}: {word} already; nothing was changed", found.key))?;
    }
    if let Some(why) = hindered {
        out::note(format!("warning: it does not run: {why}"));
    } else if on {
        out::note(format!(
            "hint: `hermes plugins doctor {}` loads it and says what it registers",
            found.key
        ));
    }
    if loaded.vars.get("HERMES_SAFE_MODE").is_some_and(|value| value == "1") {
        out::note("note: HERMES_SAFE_MODE=1 starts without any plugin");
    }
    Ok(Exit::Ok)
}
