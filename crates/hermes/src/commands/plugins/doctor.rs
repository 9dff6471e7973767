//! `hermes plugins doctor`: everything that is switched on is loaded once, and what came of it is
//! said: what each registered, what was refused, what it looked for and did not find, what it cost.

use std::collections::BTreeMap;

use hermes_home::Loaded;
use hermes_plugins::{PluginReport, Plugins};
use serde_json::{Value, json};

use crate::app::App;
use crate::commands::chat;
use crate::exit::{Exit, Failure};
use crate::out::{self, Paint};
use crate::plugged;

/// Loads and reports.
///
/// # Errors
/// If the plugin that was asked for does not exist.
pub fn run(app: &App, loaded: &Loaded, only: Option<&str>, as_json: bool) -> anyhow::Result<Exit> {
    let plugins = plugged::plugins(app, loaded);
    let (mut reports, mut problems) = examine(&plugins)?;
    let found: Vec<_> = plugins.found();
    for id in super::missing(loaded, &found) {
        problems.push(format!(
            "plugins.enabled names {id:?}, and no plugin of that name is installed; hint: `hermes \
             plugins list` shows those there are"
        ));
    }
    if let Some(id) = only {
        let key = super::find(&plugins, id)?.key;
        reports.retain(|report| report.key == key);
        if reports.is_empty() {
            let text = format!("nothing is known of the plugin {key}");
            return Err(Failure::new(Exit::NotFound, text).into());
        }
    }
    let failed = !problems.is_empty() || reports.iter().any(|it| it.enabled && !it.loaded);
    if as_json {
        let python = plugins.interpreter().ok().map(|it| {
            json!({"path": it.path.display().to_string(), "version": format!("{}.{}", it.version.0, it.version.1)})
        });
        out::json(&json!({
            "compatible_version": Plugins::compatible_version(),
            "python": python,
            "plugins": reports,
            "problems": problems,
        }))?;
    } else {
        print(&plugins, &reports, &problems)?;
    }
    Ok(if failed { Exit::Failure } else { Exit::Ok })
}

/// Loads what is switched on; what is known of each plugin, and what is wrong beside them.
///
/// # Errors
/// If the system gives no runtime.
pub fn examine(plugins: &Plugins) -> anyhow::Result<(Vec<PluginReport>, Vec<String>)> {
    Ok(chat::runtime()?.block_on(async {
        let reports = plugins.doctor().await;
        let problems = plugins.problems();
        plugins.close().await;
        (reports, problems)
    }))
}

fn print(plugins: &Plugins, reports: &[PluginReport], problems: &[String]) -> anyhow::Result<()> {
    let paint = Paint::stdout();
    if let Ok(python) = plugins.interpreter() {
        let (major, minor) = python.version;
        out::line(paint.dim(&format!(
            "interface of Hermes Agent {}; Python {major}.{minor} ({})",
            Plugins::compatible_version(),
            python.path.display()
        )))?;
    }
    for report in reports {
        for line in lines(report, paint) {
            out::line(line)?;
        }
    }
    for problem in problems {
        let (text, hint) = crate::hint::split(problem);
        out::line(format!("{}  {text}", paint.red("fail")))?;
        if let Some(hint) = hint {
            out::line(format!("      {}", paint.dim(&format!("hint: {hint}"))))?;
        }
    }
    if reports.is_empty() && problems.is_empty() {
        out::line("there are no plugins; hint: `hermes plugins new NAME` makes one")?;
    }
    Ok(())
}

/// One plugin, line by line.
fn lines(report: &PluginReport, paint: Paint) -> Vec<String> {
    let mark = match (report.enabled || report.loaded, report.loaded, report.degraded) {
        (false, ..) => paint.dim("off "),
        (true, false, _) => paint.red("fail"),
        (true, true, true) => paint.yellow("warn"),
        (true, true, false) => paint.green("ok  "),
    };
    let version = report.version.clone().unwrap_or_default();
    let mut out =
        vec![format!("{mark}  {} {version} ({}, {})", report.key, report.source, report.kind)];
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            out.push(format!("        {name:<12} {value}"));
        }
    };
    if let Some(error) = &report.error {
        let off = !report.enabled && error.starts_with("not enabled");
        row("error", if off { String::new() } else { error.replace('\n', " / ") });
    }
    row("hooks", counted(&report.hooks));
    row("no hook", report.hooks_unknown_to_host.join(", "));
    row("not yet fired", report.hooks_not_fired_yet.join(", "));
    row("middleware", counted(&report.middleware));
    let tools = report.tools.iter().filter_map(|tool| tool.get("name")?.as_str());
    row("tools", tools.collect::<Vec<_>>().join(", "));
    let slash = |names: &[String]| names.iter().map(|it| format!("/{it}")).collect::<Vec<_>>();
    row("commands", slash(&report.commands).join(", "));
    let cli: Vec<String> = report.cli_commands.iter().map(|it| format!("hermes {it}")).collect();
    row("on the shell", cli.join(", "));
    row("skills", report.skills.join(", "));
    row("prompt", report.prompt_sections.join(", "));
    row("side tasks", report.aux_tasks.join(", "));
    for (kind, names) in [
        ("models", &report.model_providers),
        ("memory", &report.memory_providers),
        ("platforms", &report.platforms),
    ] {
        let names: Vec<&str> = names.keys().map(String::as_str).collect();
        let wait = if kind == "platforms" && !names.is_empty() {
            " (waiting: there is no gateway yet)"
        } else {
            ""
        };
        row(kind, format!("{}{wait}", names.join(", ")));
    }
    if report.context_engine.is_some() || report.context_engine_lane.is_some() {
        row("context", "a context engine".to_owned());
    }
    for (kind, names) in &report.other_providers {
        row("provides", format!("{}: {}", kind.replace('_', " "), names.join(", ")));
    }
    for refused in &report.refused {
        row("refused", refusal(refused));
    }
    for (module, names) in &report.import_failures {
        let what = if names.is_empty() {
            module.clone()
        } else {
            format!("{module} ({})", names.join(", "))
        };
        row("not there", what);
    }
    row("not there", members(&report.ctx_missing));
    row("threads", report.threads_started.join(", "));
    for note in &report.notes {
        row("note", note.clone());
    }
    if report.cost.calls > 0 {
        let cost = report.cost;
        row(
            "spent",
            format!("{} calls, {} errors, {:.0} ms", cost.calls, cost.errors, cost.millis),
        );
    }
    out
}

fn counted(of: &BTreeMap<String, u64>) -> String {
    let names: Vec<String> = of
        .iter()
        .map(|(name, count)| if *count == 1 { name.clone() } else { format!("{name} ×{count}") })
        .collect();
    names.join(", ")
}

fn members(names: &[String]) -> String {
    names.iter().map(|name| format!("ctx.{name}")).collect::<Vec<_>>().join(", ")
}

/// What was refused and why.
fn refusal(refused: &Value) -> String {
    let field = |name: &str| refused.get(name).and_then(Value::as_str).unwrap_or_default();
    let (kind, key, reason) = (field("kind"), field("key"), field("reason"));
    let slash = if kind == "command" { "/" } else { "" };
    format!("{} {slash}{key}: {reason}", kind.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_plugin_registered_and_what_was_refused_stands_on_lines_of_its_own() {
        let report = PluginReport {
            key: "a".to_owned(),
            enabled: true,
            loaded: true,
            degraded: true,
            hooks: BTreeMap::from([("pre_llm_call".to_owned(), 2)]),
            commands: vec!["hello".to_owned()],
            refused: vec![json!({"kind": "command", "key": "help", "reason": "taken"})],
            import_failures: BTreeMap::from([("cron".to_owned(), Vec::new())]),
            ..PluginReport::default()
        };
        let told = lines(&report, Paint::off()).join("\n");
        for wanted in
            ["warn  a", "pre_llm_call ×2", "/hello", "command /help: taken", "not there    cron"]
        {
            assert!(told.contains(wanted), "{wanted}: {told}");
        }
    }
}
