//! What plugin processes ask for, and what becomes of it: registrations, settings, tools, models.
//!
//! What can be answered from memory is answered on the reading thread; everything else runs by
//! itself, so that a callback can ask for something whose answer needs the same process again.

use std::path::Path;
use std::sync::{Arc, Weak};

use hermes_home::yaml::Datum;
use serde_json::{Value, json};

use crate::host::{Answer, Fault, Inbound, Watch};
use crate::payload::CallContext;
use crate::plugins::{Inner, locked};
use crate::registry::{Owner, PLUGINS, Request, Verdict};
use crate::services::{Injected, ModelCall};

/// Takes what one process asks for.
pub(crate) struct HostInbound {
    pub(crate) inner: Weak<Inner>,
    pub(crate) host: usize,
}

impl HostInbound {
    fn register(&self, inner: &Inner, params: &str) -> Result<Value, Fault> {
        let request: Request = serde_json::from_str(params)
            .map_err(|error| Fault::new("ValueError", format!("not a registration: {error}")))?;
        if let Some(host) = inner.host(self.host) {
            let plugins = locked(&host.plugins);
            let known = plugins.iter().find(|plugin| plugin.found.key == request.plugin);
            if known.is_none_or(|plugin| plugin.given_up) {
                return Ok(json!({"accepted": false, "reason": "the plugin is not loaded"}));
            }
        }
        let may = inner.granted(&request.plugin, "tools.override");
        match locked(&inner.registry).register(request, Owner::Host(self.host), PLUGINS, may) {
            Verdict::Accepted(handle) => Ok(json!({"accepted": true, "handle": handle})),
            Verdict::Refused(reason) => Ok(json!({"accepted": false, "reason": reason})),
            Verdict::Raise(fault) => Err(fault),
        }
    }

    /// What can be answered at once.
    fn at_once(&self, inner: &Inner, method: &str, params: &str) -> Option<Result<Value, Fault>> {
        let read = || serde_json::from_str::<Value>(params).unwrap_or_default();
        Some(match method {
            "register" => self.register(inner, params),
            "dispose" => {
                if let Some(handle) = read().get("handle").and_then(Value::as_u64) {
                    locked(&inner.registry).dispose(handle);
                }
                Ok(Value::Null)
            }
            "plugin.has" => Ok(inner.has(&text(&read(), "id")).into()),
            "capability.check" => {
                let params = read();
                Ok(inner.granted(&text(&params, "plugin"), &text(&params, "capability")).into())
            }
            "config.read" => read_config(inner.options.home.config_path().as_path()),
            "yaml.parse" => parse_yaml(&text(&read(), "text")),
            "tool.list" => Ok(inner.services().tool_definitions().into()),
            _ => return None,
        })
    }
}

fn text(params: &Value, name: &str) -> String {
    params.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn parse_yaml(text: &str) -> Result<Value, Fault> {
    let document = hermes_home::yaml::parse(text)
        .map_err(|error| Fault::new("ValueError", error.to_string()))?;
    let root = document.root.as_ref().map_or(Datum::Null, Datum::of);
    serde_json::from_str(&root.to_json())
        .map_err(|error| Fault::new("ValueError", error.to_string()))
}

fn read_config(path: &Path) -> Result<Value, Fault> {
    match hermes_home::fsio::read_text(path, 4 * 1024 * 1024) {
        Ok(read) => parse_yaml(&read.text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(json!({})),
        Err(error) => Err(Fault::new("OSError", format!("{}: {error}", path.display()))),
    }
}

impl Inbound for HostInbound {
    fn request(
        &self,
        method: &str,
        params: Box<serde_json::value::RawValue>,
        origin: Option<Box<serde_json::value::RawValue>>,
        answer: Answer,
    ) {
        let Some(inner) = self.inner.upgrade() else { return };
        if let Some(result) = self.at_once(&inner, method, params.get()) {
            answer.result(result);
            return;
        }
        let Some(background) = inner.background() else { return };
        let call: CallContext =
            origin.and_then(|origin| serde_json::from_str(origin.get()).ok()).unwrap_or_default();
        let method = method.to_owned();
        background.spawn(async move {
            let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
            let result = serve(&inner, &method, params, call).await;
            answer.result(result);
        });
    }

    fn notice(&self, method: &str, params: &serde_json::value::RawValue) {
        let Some(inner) = self.inner.upgrade() else { return };
        let Ok(params) = serde_json::from_str::<Value>(params.get()) else { return };
        if method == "late" {
            if let Some(entry) = params.get("entry").and_then(Value::as_u64) {
                locked(&inner.suppress).came_back(entry);
            }
        } else if method == "log" {
            let (plugin, message) = (text(&params, "plugin"), text(&params, "message"));
            match text(&params, "level").as_str() {
                "error" => tracing::error!(plugin, "{message}"),
                "warning" => tracing::warn!(plugin, "{message}"),
                "info" => tracing::info!(plugin, "{message}"),
                _ => tracing::debug!(plugin, "{message}"),
            }
        }
    }

    fn ended(&self, why: &str) {
        if let Some(inner) = self.inner.upgrade() {
            inner.process_ended(self.host, why);
        }
    }
}

impl Watch for HostInbound {
    fn registers(&self, plugin: &str, registrations: &[Value]) {
        let Some(inner) = self.inner.upgrade() else { return };
        for registration in registrations {
            let mut request = registration.clone();
            if let Some(fields) = request.as_object_mut() {
                fields.insert("plugin".to_owned(), plugin.into());
            }
            let refused = match self.register(&inner, &request.to_string()) {
                Ok(answer) => text(&answer, "reason"),
                Err(fault) => fault.to_string(),
            };
            if !refused.is_empty() {
                tracing::warn!(plugin, refused, "a registration is refused");
                locked(&inner.registry).notes.push((Arc::from(plugin), refused));
            }
        }
    }

    fn loaded(&self, plugin: &str, ok: bool) {
        if let Some(inner) = self.inner.upgrade() {
            let mut registry = locked(&inner.registry);
            if ok {
                registry.drop_stale(plugin);
            } else {
                registry.forget(plugin);
            }
        }
    }
}

/// What takes time.
async fn serve(
    inner: &Arc<Inner>,
    method: &str,
    params: Value,
    mut call: CallContext,
) -> Result<Value, Fault> {
    const DEEPEST: u32 = 8;
    call.depth += 1;
    if call.depth > DEEPEST {
        return Err(Fault::new(
            "RecursionError",
            format!("{method} is {DEEPEST} plugin calls deep already"),
        ));
    }
    let services = inner.services();
    match method {
        "tool.dispatch" => {
            let name = text(&params, "name");
            let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
            if let Some(result) = inner.call_tool(&name, &arguments, &call).await {
                return result.map(Value::from);
            }
            services.dispatch_tool(&name, &arguments, &call).await.map(Value::from)
        }
        "llm.complete" => {
            let model_call = ModelCall {
                plugin: text(&params, "plugin"),
                auxiliary: params.get("auxiliary").and_then(Value::as_bool).unwrap_or(false),
                messages: params.get("messages").cloned().unwrap_or_default(),
                options: params.get("options").cloned().unwrap_or_default(),
                call,
            };
            inner.trusted(&model_call)?;
            services.complete(&model_call).await
        }
        "inject_message" => {
            let message = Injected {
                plugin: text(&params, "plugin"),
                content: text(&params, "content"),
                role: text(&params, "role"),
                session_key: params
                    .get("session_key")
                    .and_then(Value::as_str)
                    .map(ToOwned::to_owned),
                origin: params.get("origin").cloned().unwrap_or_default(),
                call,
            };
            services.inject_message(&message).await.map(Value::from)
        }
        "mcp.call" => {
            let (plugin, server) = (text(&params, "plugin"), text(&params, "server"));
            let allowed = inner
                .entry(&plugin)
                .get("mcp_allowlist")
                .and_then(Value::as_array)
                .is_some_and(|list| list.iter().any(|name| name.as_str() == Some(&server)));
            if !allowed {
                return Err(Fault::new(
                    "PermissionError",
                    format!(
                        "the plugin {plugin} may not use the MCP server {server}: add it to plugins.entries.{plugin}.mcp_allowlist"
                    ),
                ));
            }
            services.call_mcp(&params).await
        }
        "event.emit" => {
            Ok(inner.emit(&text(&params, "event"), params.get("payload"), &call).into())
        }
        "middleware.next" => inner.next_call(&params).await,
        "config.set" => inner.set_config(&params),
        _ => services.other(method, &params, &call).await,
    }
}
