//! Measures what plugins cost: the start of their process, a first call with a megabyte of history,
//! later calls, and twenty observers of every API call. Prints JSON in milliseconds;
//! `bench/plugins.sh` runs it and makes a table.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hermes_home::{Home, PluginsConfig, Vars};
use hermes_plugins::{CallContext, Payload, PluginOptions, Plugins};
use serde_json::json;

const CODE: &str = "def noop(**e):\n    return None\n\
    def register(ctx):\n\
    \x20   for name in ('pre_llm_call', 'pre_api_request', 'post_api_request', 'post_llm_call', 'on_session_reset'):\n\
    \x20       ctx.register_hook(name, noop)\n";

fn plugins(folder: &Path, count: usize) -> Result<Plugins, Box<dyn std::error::Error>> {
    let mut config = PluginsConfig::default();
    for number in 0..count {
        let name = format!("p{number}");
        let plugin = folder.join("plugins").join(&name);
        fs::create_dir_all(&plugin)?;
        fs::write(plugin.join("plugin.yaml"), format!("name: {name}\n"))?;
        fs::write(plugin.join("__init__.py"), CODE)?;
        config.enabled.push(name);
    }
    let vars = Vars::of_process(&std::env::vars().collect());
    let home = Home::at(folder);
    let options = PluginOptions::new(home, config, vars, folder.to_owned());
    Ok(Plugins::new(options))
}

fn history(messages: usize) -> Vec<Arc<str>> {
    (0..messages)
        .map(|number| {
            let text = format!("message {number} ").repeat(70);
            Arc::from(json!({"role": "user", "content": text}).to_string())
        })
        .collect()
}

fn call() -> CallContext {
    CallContext { session_id: "s".into(), platform: "cli".into(), ..CallContext::default() }
}

fn millis(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e5).round() / 100.0
}

/// The median and the worst.
fn middle(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() - 1])
}

/// What a turn costs that one no-op hook with the whole history hears.
async fn turn(plugins: &Plugins, items: &[Arc<str>]) -> f64 {
    let payload = Payload::new(call()).text("session_id", "s").text("user_message", "hi").list(
        "conversation_history",
        "s",
        items.into(),
    );
    let began = Instant::now();
    plugins.dispatch("pre_llm_call", payload).await;
    millis(began)
}

/// How long an event of twenty observers is waited for, and until all have heard it.
async fn event(plugins: &Plugins, hook: &str, number: usize, items: &[Arc<str>]) -> (f64, f64) {
    let payload = Payload::new(call())
        .text("session_id", "s")
        .text("api_request_id", &format!("r{number}"))
        .list("conversation_history", "s", items.into())
        .list("request_messages", "s:request", items.into());
    let began = Instant::now();
    plugins.dispatch(hook, payload).await;
    let waited = millis(began);
    // A hook that is waited for comes after what its plugins are still to hear.
    plugins.dispatch("on_session_reset", Payload::new(call())).await;
    (waited, millis(began))
}

/// The interpreter's own start and end, the best of some.
fn interpreter(plugins: &Plugins) -> Result<f64, Box<dyn std::error::Error>> {
    let python = plugins.interpreter()?.path;
    let mut times = Vec::new();
    for _ in 0..7 {
        let began = Instant::now();
        std::process::Command::new(&python).args(["-X", "utf8", "-c", "pass"]).status()?;
        times.push(millis(began));
    }
    Ok(middle(times).0)
}

/// Processes that this one started and that live.
fn children() -> usize {
    let own = std::process::id();
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .map(|children| children.split_whitespace().filter(|pid| **pid != *own.to_string()).count())
        .sum()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let none = plugins(folder.path(), 0)?;
    let began = Instant::now();
    none.dispatch("pre_llm_call", Payload::new(call())).await;
    let (nothing, processes) = (millis(began), children());

    // The first start unpacks files and finds the interpreter; later ones do not.
    let one = plugins(folder.path(), 1)?;
    let began = Instant::now();
    one.ready().await;
    let first_start = millis(began);
    one.close().await;
    let mut starts = Vec::new();
    for _ in 0..5 {
        let one = plugins(folder.path(), 1)?;
        let began = Instant::now();
        one.ready().await;
        starts.push(millis(began));
        one.close().await;
    }
    let (start, _) = middle(starts);
    let one = plugins(folder.path(), 1)?;
    let own = interpreter(&one)?;
    one.ready().await;

    let mut items = history(1000);
    let size: usize = items.iter().map(|item| item.len()).sum();
    let first = turn(&one, &items).await;
    let mut later = Vec::new();
    for _ in 0..50 {
        items.extend(history(2));
        later.push(turn(&one, &items).await);
    }
    one.close().await;

    let twenty = plugins(folder.path(), 20)?;
    twenty.ready().await;
    let (wait_first, through_first) = event(&twenty, "pre_api_request", 0, &items).await;
    let (mut waits, mut through) = (Vec::new(), Vec::new());
    for number in 1..50 {
        items.extend(history(2));
        let (waited, all) = event(&twenty, "post_api_request", number, &items).await;
        waits.push(waited);
        through.push(all);
    }
    twenty.close().await;

    let twenty = plugins(folder.path(), 20)?;
    twenty.ready().await;
    let (waited_first, _) = event(&twenty, "post_llm_call", 0, &items).await;
    let mut waited = Vec::new();
    for number in 1..50 {
        items.extend(history(2));
        waited.push(event(&twenty, "post_llm_call", number, &items).await.0);
    }
    twenty.close().await;
    let (waits, through) = (middle(waits), middle(through));
    println!(
        "{}",
        json!({
            "history_bytes": size,
            "nothing_enabled_ms": nothing,
            "nothing_enabled_processes": processes,
            "interpreter_ms": own,
            "first_start_ms": first_start,
            "start_ms": start,
            "start_above_interpreter_ms": start - own,
            "pre_llm_call_first_ms": first,
            "pre_llm_call_later_ms": middle(later).0,
            "observers_wait_first_ms": wait_first,
            "observers_wait_later_ms": waits.0,
            "observers_wait_worst_ms": waits.1,
            "observers_through_first_ms": through_first,
            "observers_through_later_ms": through.0,
            "waited_first_ms": waited_first,
            "waited_later_ms": middle(waited).0,
        })
    );
    Ok(())
}
