//! `hermes hooks`: which hooks there are, who listens in which order, and which programs of the
//! settings may run.

use std::path::Path;

use anyhow::Context as _;
use hermes_home::Loaded;
use hermes_plugins::{HookListing, Plugins, ShellHookInfo, ShellTrial, table};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::cli::plugged::Hooks;
use crate::commands::chat;
use crate::exit::{Exit, Failure};
use crate::out::{self, Paint};
use crate::plugged;

/// The largest payload from a file, in bytes.
const MOST: u64 = 16 << 20;

/// Carries out one of the commands.
///
/// # Errors
/// If there is no such hook or command, or a file cannot be read or written.
pub fn run(app: &App, command: Hooks) -> anyhow::Result<Exit> {
    let loaded = app.config()?;
    match command {
        Hooks::List { used, json } => list(app, &loaded, used, json),
        Hooks::Consent { command, all } => consent(app, &loaded, command.as_deref(), all),
        Hooks::Revoke { command } => revoke(app, &loaded, &command),
        Hooks::Test { event, for_tool, payload, json } => {
            test(app, &loaded, &event, &for_tool, payload.as_deref(), json)
        }
    }
}

fn list(app: &App, loaded: &Loaded, used: bool, as_json: bool) -> anyhow::Result<Exit> {
    let plugins = plugged::plugins(app, loaded);
    let shells = plugins.shell_hooks();
    let (mut hooks, problems) = chat::runtime()?.block_on(async {
        let hooks = plugins.hooks().await;
        let problems = plugins.problems();
        plugins.close().await;
        (hooks, problems)
    });
    hooks.retain(|hook| !used || !hook.callbacks.is_empty());
    if as_json {
        out::json(&json!({"hooks": hooks, "shell_hooks": shells, "problems": problems}))?;
        return Ok(Exit::Ok);
    }
    print(&hooks)?;
    print_shells(&shells)?;
    for problem in problems {
        out::note(format!("warning: {problem}"));
    }
    Ok(Exit::Ok)
}

/// Prints hooks with those who listen.
///
/// # Errors
/// If stdout is closed.
pub fn print(hooks: &[HookListing]) -> anyhow::Result<()> {
    let rows = hooks.iter().map(row).collect();
    out::table(&["hook", "kind", "fired", "who listens, in order"], rows, "nobody listens")
}

fn row(hook: &HookListing) -> Vec<String> {
    let callbacks: Vec<String> = hook
        .callbacks
        .iter()
        .map(|it| match (&it.callback, it.kind) {
            (Some(callback), _) => format!("{} ({callback})", it.owner),
            (None, kind) => format!("{kind} {}", it.owner),
        })
        .collect();
    let fired = hook.waits_for.map_or_else(|| "yes".to_owned(), |why| format!("not yet: {why}"));
    vec![hook.hook.clone(), hook.category.to_owned(), fired, callbacks.join(", ")]
}

fn print_shells(shells: &[ShellHookInfo]) -> anyhow::Result<()> {
    if shells.is_empty() {
        return Ok(());
    }
    out::line("")?;
    let rows = shells
        .iter()
        .map(|it| {
            let state = match (it.consented, it.changed_since) {
                (false, _) => "not run: nobody agreed",
                (true, true) => "runs; its file changed since somebody agreed",
                (true, false) => "runs",
            };
            vec![
                it.event.clone(),
                it.command.clone(),
                it.matcher.clone().unwrap_or_default(),
                format!("{} s", it.timeout),
                if it.fail_closed { "blocks" } else { "" }.to_owned(),
                state.to_owned(),
            ]
        })
        .collect();
    out::table(&["shell hook for", "command", "tools", "limit", "failing", "state"], rows, "")?;
    if shells.iter().any(|it| !it.consented) {
        out::note("hint: `hermes hooks consent COMMAND` lets one run; --all lets all of them");
    }
    Ok(())
}

fn consent(app: &App, loaded: &Loaded, command: Option<&str>, all: bool) -> anyhow::Result<Exit> {
    let plugins = plugged::plugins(app, loaded);
    let mut commands: Vec<String> = match (command, all) {
        (Some(command), _) => vec![command.to_owned()],
        (None, _) => plugins.shell_hooks().into_iter().map(|it| it.command).collect(),
    };
    commands.sort();
    commands.dedup();
    if commands.is_empty() {
        out::note("there are no shell hooks in the settings");
    }
    app.home.ensure()?;
    for command in commands {
        if agree(app, &plugins, &command)? == 0 {
            return Err(unknown(&plugins, &command));
        }
        out::line(format!("{command}: runs from the next start on"))?;
    }
    for problem in plugins.hook_problems() {
        out::note(format!("warning: {problem}"));
    }
    Ok(Exit::Ok)
}

/// Keeps the agreement to a command of the settings; gives for how many events.
///
/// # Errors
/// If it cannot be written.
pub fn agree(app: &App, plugins: &Plugins, command: &str) -> anyhow::Result<usize> {
    plugins
        .consent(command, &app.env.now().to_string())
        .context("the agreement cannot be kept in shell-hooks-allowlist.json")
}

fn unknown(plugins: &Plugins, command: &str) -> anyhow::Error {
    let known: Vec<String> = plugins.shell_hooks().into_iter().map(|it| it.command).collect();
    let hint = if known.is_empty() {
        "there are none; they stand under `hooks` in config.yaml".to_owned()
    } else {
        format!("there are: {}", known.join(", "))
    };
    let text = format!("no shell hook has the command \"{command}\"; hint: {hint}");
    Failure::new(Exit::NotFound, text).into()
}

fn revoke(app: &App, loaded: &Loaded, command: &str) -> anyhow::Result<Exit> {
    let plugins = plugged::plugins(app, loaded);
    let gone = plugins
        .revoke(command)
        .context("the agreement cannot be taken out of shell-hooks-allowlist.json")?;
    if gone == 0 && !plugins.shell_hooks().iter().any(|it| it.command == command) {
        return Err(unknown(&plugins, command));
    }
    if gone == 0 {
        out::line(format!("{command}: nobody had agreed to it"))?;
    } else {
        out::line(format!("{command}: does not run from the next start on"))?;
    }
    if plugins.shell_hooks().iter().any(|it| it.command == command && it.consented) {
        out::note("warning: hooks_auto_accept or HERMES_ACCEPT_HOOKS lets every shell hook run");
    }
    Ok(Exit::Ok)
}

fn test(
    app: &App,
    loaded: &Loaded,
    event: &str,
    tool: &str,
    file: Option<&Path>,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let Some(hook) = table::find(event) else {
        let nearest = table::HOOKS
            .iter()
            .map(|hook| (strsim::damerau_levenshtein(event, hook.name), hook.name))
            .min()
            .map_or("", |(_, name)| name);
        let text = format!("there is no hook \"{event}\"; hint: did you mean {nearest}?");
        return Err(Failure::new(Exit::NotFound, text).into());
    };
    let plugins = plugged::plugins(app, loaded);
    let fields = made_up(tool, file)?;
    let trials = chat::runtime()?.block_on(plugins.try_shell_hooks(hook.name, &fields));
    if as_json {
        out::json(&trials)?;
        return Ok(Exit::Ok);
    }
    if trials.is_empty() {
        out::line(format!("no shell hook of the settings is for {event}"))?;
    }
    let paint = Paint::stdout();
    for trial in &trials {
        for line in told(trial, paint) {
            out::line(line)?;
        }
    }
    for problem in plugins.hook_problems() {
        out::note(format!("warning: {problem}"));
    }
    Ok(Exit::Ok)
}

fn told(trial: &ShellTrial, paint: Paint) -> Vec<String> {
    let mut out = vec![paint.bold(&trial.command)];
    if !trial.wanted {
        out.push("  not run: its matcher is for other tools".to_owned());
        return out;
    }
    if let Some(code) = trial.code {
        out.push(format!("  exit code  {code}"));
    }
    for (name, text) in [("printed", &trial.out), ("errors", &trial.err)] {
        let text = text.trim();
        if !text.is_empty() {
            out.push(format!("  {name:<10} {}", text.replace('\n', "\n             ")));
        }
    }
    out.push(match &trial.meaning {
        Value::Null => "  means      nothing that counts".to_owned(),
        value => format!("  means      {value}"),
    });
    out
}

/// A payload with the fields that events have; those of a file replace them.
fn made_up(tool: &str, file: Option<&Path>) -> anyhow::Result<Map<String, Value>> {
    let mut fields = Map::new();
    for (name, value) in [
        ("session_id", json!("test-session")),
        ("platform", json!("cli")),
        ("tool_name", json!(tool)),
        ("args", json!({"command": "echo hello"})),
        ("tool_call_id", json!("test-call")),
        ("user_message", json!("hello")),
        ("assistant_response", json!("hello")),
        ("response_text", json!("hello")),
        ("result", json!("hello")),
        ("status", json!("ok")),
    ] {
        fields.insert(name.to_owned(), value);
    }
    if let Some(file) = file {
        let wrong =
            |why: String| Failure::new(Exit::Usage, format!("--payload {} {why}", file.display()));
        let read = hermes_home::fsio::read_text(file, MOST)
            .map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let given: Map<String, Value> = serde_json::from_str(&read.text)
            .map_err(|error| wrong(format!("is not one JSON object: {error}")))?;
        fields.extend(given);
    }
    Ok(fields)
}
