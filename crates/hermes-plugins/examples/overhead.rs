//! Measures what plugins cost: the start of their process, a first call with a megabyte of history,
//! later calls, and twenty observers of one event. Prints JSON in milliseconds.
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
    \x20   for name in ('pre_llm_call', 'pre_api_request', 'post_api_request'):\n\
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

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    // The first start unpacks files and finds the interpreter; later ones do not.
    let one = plugins(folder.path(), 1)?;
    let began = Instant::now();
    one.ready().await;
    let first_start = millis(began);
    one.close().await;
    let one = plugins(folder.path(), 1)?;
    let began = Instant::now();
    one.ready().await;
    let start = millis(began);

    let mut items = history(1000);
    let size: usize = items.iter().map(|item| item.len()).sum();
    let turn = async |items: &[Arc<str>]| {
        let payload = Payload::new(call()).text("session_id", "s").text("user_message", "hi").list(
            "conversation_history",
            "s",
            items.into(),
        );
        let began = Instant::now();
        one.dispatch("pre_llm_call", payload).await;
        millis(began)
    };
    let first = turn(&items).await;
    let mut later = Vec::new();
    for _ in 0..50 {
        items.extend(history(2));
        later.push(turn(&items).await);
    }
    later.sort_by(f64::total_cmp);
    one.close().await;

    let twenty = plugins(folder.path(), 20)?;
    twenty.ready().await;
    let mut waits = Vec::new();
    for number in 0..50 {
        items.extend(history(2));
        let payload = Payload::new(call())
            .text("session_id", "s")
            .text("api_request_id", &format!("r{number}"))
            .list("conversation_history", "s", items.clone().into())
            .list("request_messages", "s:request", items.clone().into());
        let began = Instant::now();
        twenty.dispatch("pre_api_request", payload).await;
        waits.push(millis(began));
    }
    let first_of_twenty = waits.remove(0);
    waits.sort_by(f64::total_cmp);
    twenty.close().await;
    println!(
        "{}",
        json!({
            "history_bytes": size,
            "first_start_ms": first_start,
            "start_ms": start,
            "pre_llm_call_first_ms": first,
            "pre_llm_call_later_ms": {"median": later[25], "worst": later[49]},
            "twenty_observers_first_ms": first_of_twenty,
            "twenty_observers_later_ms": {"median": waits[24], "worst": waits[48]},
        })
    );
    Ok(())
}
