//! Prints what the doctor knows of the plugins of a home folder, as JSON; with hook names, what
//! their callbacks return for made-up payloads. Used by `python/compat/run.py`.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::path::PathBuf;

use hermes_home::{Home, Overrides};
use hermes_plugins::{CallContext, Payload, PluginOptions, Plugins, Said};
use serde_json::{Value, json};

fn payload(hook: &str) -> Payload {
    let call = CallContext {
        session_id: "s-compat".into(),
        platform: "cli".into(),
        ..CallContext::default()
    };
    let payload = Payload::new(call)
        .text("session_id", "s-compat")
        .text("task_id", "s-compat")
        .text("turn_id", "t-1")
        .text("platform", "cli")
        .text("model", "test/model");
    match hook {
        "pre_tool_call" | "post_tool_call" | "transform_tool_result" => payload
            .text("tool_name", "terminal")
            .value("args", json!({"command": "ls"}))
            .text("tool_call_id", "call-1")
            .text("api_request_id", "r-1")
            .text("result", "{\"output\": \"x\"}")
            .value("duration_ms", 5)
            .text("status", "ok")
            .maybe("error_type", None)
            .maybe("error_message", None)
            .value("middleware_trace", json!([])),
        "transform_terminal_output" => payload
            .text("command", "ls")
            .text("output", "x")
            .value("returncode", 0)
            .text("env_type", "local")
            .text("tool_call_id", "call-1"),
        "pre_gateway_dispatch" => payload
            .value(
                "event",
                json!({"text": "hello", "message_type": "text", "source":
                {"platform": "telegram", "chat_id": "7", "user_id": "u1", "chat_type": "dm"}}),
            )
            .value("gateway", Value::Null)
            .value("session_store", Value::Null),
        _ => payload
            .text("user_message", "hello")
            .text("assistant_response", "hi")
            .text("response_text", "hi")
            .value("conversation_history", json!([{"role": "user", "content": "hello"}]))
            .value("request_messages", json!([{"role": "user", "content": "hello"}]))
            .value("is_first_turn", true)
            .text("parent_session_id", "")
            .text("sender_id", "")
            .text("provider", "test")
            .text("base_url", "http://127.0.0.1:9")
            .text("api_mode", "chat_completions")
            .text("api_request_id", "r-1")
            .value("usage", json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}))
            .value("completed", true)
            .value("failed", false)
            .value("interrupted", false)
            .value("assistant_message", json!({"content": "hi", "tool_calls": null})),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let home = Home::at(PathBuf::from(args.next().ok_or("usage: doctor HOME [HOOK ...]")?));
    let vars = std::env::vars().collect();
    let loaded = hermes_home::load(&home, &vars, &Overrides::default())?;
    let mut options = PluginOptions::new(
        home,
        loaded.config.plugins.clone(),
        loaded.vars.clone(),
        std::env::current_dir()?,
    );
    options.hooks = loaded.config.hooks.clone();
    options.memory_provider.clone_from(&loaded.config.memory.provider);
    options.context_engine.clone_from(&loaded.config.context.engine);
    if options.context_engine == "compressor" {
        options.context_engine.clear();
    }
    let plugins = Plugins::new(options);
    plugins.ready().await;
    let mut hooks: Vec<String> = args.collect();
    hooks.sort();
    hooks.dedup();
    let mut calls = Vec::new();
    for hook in hooks {
        for result in plugins.dispatch(&hook, payload(&hook)).await.results {
            let (kind, text) = match &result.said {
                Said::Value(Value::String(text)) => ("str", format!("'{text}'")),
                Said::Value(value @ Value::Object(_)) => {
                    ("dict", value.to_string().replace('"', "'").replace("':'", "': '"))
                }
                Said::Value(value) => ("value", value.to_string()),
                Said::Nothing => ("NoneType", "None".to_owned()),
                Said::Raised(fault) => ("", fault.to_string()),
                other => ("", format!("{other:?}")),
            };
            let mut call = json!({"hook": hook, "callback": &*result.callback, "result": text});
            if !kind.is_empty() {
                call["result_type"] = kind.into();
            }
            calls.push(call);
        }
    }
    let out = json!({
        "plugins": plugins.doctor().await,
        "problems": plugins.problems(),
        "hook_calls": calls,
    });
    println!("{out}");
    plugins.close().await;
    Ok(())
}
