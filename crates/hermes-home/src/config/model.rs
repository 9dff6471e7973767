//! Settings about endpoints: the model, named providers, fallbacks and side tasks.

use std::collections::BTreeMap;

use secrecy::SecretString;

use crate::yaml::{Datum, Entry, Node, Value};

use super::read::{self, Kind, Read, Reader, Setting};

read::section! {
    /// What an endpoint may say about itself.
    ProviderConfig {
        /// Its name. In `providers` the key is the name.
        name: String = String::new(),
        /// Its address, up to and with `/v1`.
        base_url: String = String::new(),
        /// The model asked for unless another is named (also `default_model`).
        model: String = String::new(),
        /// Its key.
        api_key: Option<SecretString> = None,
        /// The variable that holds its key (also `api_key_env`).
        key_env: String = String::new(),
        /// A command that prints its key.
        api_key_command: String = String::new(),
        /// The protocol.
        api_mode: String = String::new(),
        /// The context window in tokens.
        context_length: Option<u64> = None,
        /// Most tokens of an answer.
        max_tokens: Option<u64> = None,
        /// Seconds to connect.
        connect_timeout: Option<u64> = None,
        /// Seconds until the first byte.
        first_byte_timeout: Option<u64> = None,
        /// Seconds without data in a stream.
        idle_timeout: Option<u64> = None,
        /// Further headers.
        headers: BTreeMap<String, String> = BTreeMap::new(),
        /// Further fields of the request's body.
        extra_body: Datum = Datum::Map(Vec::new()),
        /// Facts of single models, by model.
        models: Datum = Datum::Map(Vec::new()),
    }
    foreign: [
        "api_key_ref", "auth_type", "discover_models", "enabled", "rate_limit_delay",
        "request_timeout_seconds", "stale_timeout_seconds",
    ]
    prepare: provider_form
}

read::section! {
    /// The model and its endpoint. A text in the file stands for `default`.
    ModelConfig {
        /// The model; empty if none is chosen.
        default: String = String::new(),
        /// The provider's name; empty if none is chosen.
        provider: String = String::new(),
        /// The endpoint's address.
        base_url: String = String::new(),
        /// The endpoint's key.
        api_key: Option<SecretString> = None,
        /// The variable that holds its key (also `api_key_env`).
        key_env: String = String::new(),
        /// A command that prints its key.
        api_key_command: String = String::new(),
        /// The protocol.
        api_mode: String = String::new(),
        /// The context window in tokens.
        context_length: Option<u64> = None,
        /// Most tokens of an answer.
        max_tokens: Option<u64> = None,
        /// Sampling temperature; the provider's default if unset.
        temperature: Option<f64> = None,
        /// Seconds to connect.
        connect_timeout: Option<u64> = None,
        /// Seconds until the first byte.
        first_byte_timeout: Option<u64> = None,
        /// Seconds without data in a stream.
        idle_timeout: Option<u64> = None,
        /// Further headers.
        headers: BTreeMap<String, String> = BTreeMap::new(),
        /// Further fields of the request's body.
        extra_body: Datum = Datum::Map(Vec::new()),
    }
    foreign: ["aliases", "openai_runtime", "supports_vision"]
    prepare: model_form
}

read::section! {
    /// One endpoint of the fallback chain.
    FallbackConfig {
        /// The provider's name.
        provider: String = String::new(),
        /// The model.
        model: String = String::new(),
        /// The endpoint's address, if the provider's is not meant.
        base_url: String = String::new(),
        /// The endpoint's key.
        api_key: Option<SecretString> = None,
        /// The variable that holds its key (also `api_key_env`).
        key_env: String = String::new(),
        /// A command that prints its key.
        api_key_command: String = String::new(),
        /// The protocol.
        api_mode: String = String::new(),
        /// The context window in tokens.
        context_length: Option<u64> = None,
    }
    foreign: []
    prepare: fallback_form
}

read::section! {
    /// A side task's own model.
    AuxiliaryTask {
        /// Whether the task is done at all.
        enabled: bool = true,
        /// The provider's name; `auto` for the session's.
        provider: String = "auto".to_owned(),
        /// The model; empty for the session's.
        model: String = String::new(),
        /// The endpoint's address.
        base_url: String = String::new(),
        /// The endpoint's key.
        api_key: Option<SecretString> = None,
        /// The variable that holds its key (also `api_key_env`).
        key_env: String = String::new(),
        /// The protocol.
        api_mode: String = String::new(),
        /// Seconds one call may take; the task's own default if unset.
        timeout: Option<u64> = None,
        /// How much it thinks.
        reasoning_effort: String = String::new(),
        /// Further fields of the request's body.
        extra_body: Datum = Datum::Map(Vec::new()),
        /// What is asked when that endpoint fails, in order.
        fallback_chain: Vec<FallbackConfig> = Vec::new(),
        /// Most calls of the task at once; unbounded if unset.
        max_concurrency: Option<usize> = None,
    }
    foreign: [
        "download_timeout", "language", "model_upgrade_enabled", "no_progress_timeout",
        "prefer_fast_model",
    ]
    prepare: fallback_form
}

/// Side tasks and their models.
#[derive(Clone, Debug)]
pub struct AuxiliaryConfig {
    /// Further attempts after a passing fault.
    pub transient_retries: u32,
    /// The tasks that the file speaks of.
    pub tasks: BTreeMap<String, AuxiliaryTask>,
}

impl Default for AuxiliaryConfig {
    fn default() -> Self {
        Self { transient_retries: 2, tasks: BTreeMap::new() }
    }
}

impl AuxiliaryConfig {
    /// The side tasks of this program.
    pub const TASKS: &[&str] = &[
        "approval",
        "background_review",
        "compression",
        "curator",
        "goal_judge",
        "handoff",
        "kanban_decomposer",
        "mcp",
        "memory_query_rewrite",
        "moa_aggregator",
        "moa_reference",
        "monitor",
        "profile_describer",
        "review",
        "skills_hub",
        "title",
        "title_generation",
        "triage_specifier",
        "tts_audio_tags",
        "vision",
        "voice_chat",
    ];

    /// The settings of a task.
    pub fn task(&self, name: &str) -> AuxiliaryTask {
        self.tasks.get(name).cloned().unwrap_or_default()
    }

    /// Seconds that one call of a task may take.
    pub fn timeout(&self, name: &str) -> u64 {
        self.task(name).timeout.unwrap_or(match name {
            "vision" | "compression" | "triage_specifier" => 120,
            "memory_query_rewrite" => 8,
            "kanban_decomposer" => 180,
            "profile_describer" | "goal_judge" | "monitor" => 60,
            "curator" => 600,
            "moa_reference" | "moa_aggregator" => 900,
            _ => 30,
        })
    }
}

impl Read for AuxiliaryConfig {
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
        for entry in reader.entries(node, key) {
            let name = read::join(key, &entry.key);
            match entry.key.as_str() {
                "transient_retries" => {
                    reader.places.insert(name.clone(), entry.key_at);
                    self.transient_retries.read(&entry.value, &name, reader);
                }
                // Tasks that plugins bring are known by being mappings.
                task if Self::TASKS.contains(&task)
                    || matches!(entry.value.value, Value::Map { .. }) =>
                {
                    let mut settings = AuxiliaryTask::default();
                    settings.read(&entry.value, &name, reader);
                    self.tasks.insert(entry.key.clone(), settings);
                }
                _ => {
                    let foreign = ["free_only", "openrouter_model", "stream_only_base_urls"];
                    reader.leftover(key, entry, Self::TASKS, &foreign);
                }
            }
        }
        true
    }

    fn list(&self, key: &str, out: &mut Vec<Setting>) {
        self.transient_retries.list(&read::join(key, "transient_retries"), out);
        for (name, task) in &self.tasks {
            task.list(&read::join(key, name), out);
        }
    }
}

/// A text stands for the model's name.
fn model_form(node: &Node) -> Node {
    match &node.value {
        Value::Scalar { .. } if !node.is_null() => {
            let entry = Entry {
                key: "default".to_owned(),
                key_at: node.at,
                key_range: node.range.clone(),
                value: node.clone(),
                merged: false,
            };
            let value = Value::Map { entries: vec![entry], flow: false };
            Node { value, ..node.clone() }
        }
        _ => rename(
            node,
            &[("default", &["model", "name"]), MAX_TOKENS, API_MODE, KEY_ENV, BASE_URL],
        ),
    }
}

fn provider_form(node: &Node) -> Node {
    let model = ("model", &["default_model", "default"][..]);
    rename(node, &[model, MAX_TOKENS, API_MODE, KEY_ENV, BASE_URL])
}

fn fallback_form(node: &Node) -> Node {
    rename(node, &[API_MODE, KEY_ENV, BASE_URL, MAX_CONCURRENCY])
}

/// A setting's name and the other names under which it is found in people's files.
type Aliases = (&'static str, &'static [&'static str]);
const BASE_URL: Aliases = ("base_url", &["api", "url", "api_base"]);
const KEY_ENV: Aliases = ("key_env", &["api_key_env"]);
const API_MODE: Aliases = ("api_mode", &["transport"]);
const MAX_CONCURRENCY: Aliases = ("max_concurrency", &["max_concurrent", "concurrency"]);
const MAX_TOKENS: Aliases = ("max_tokens", &["max_output_tokens"]);

/// The node with each alias under the setting's own name; one that is there keeps its value.
fn rename(node: &Node, aliases: &[Aliases]) -> Node {
    let mut node = node.clone();
    if let Value::Map { entries, .. } = &mut node.value {
        for (own, others) in aliases {
            if entries.iter().any(|entry| entry.key == *own) {
                continue;
            }
            if let Some(entry) = entries.iter_mut().find(|entry| others.contains(&&*entry.key)) {
                (*own).clone_into(&mut entry.key);
            }
        }
    }
    node
}

/// Reads each mapping of a list.
fn read_each<T: Read + Default>(
    node: &Node,
    key: &str,
    wanted: &str,
    reader: &mut Reader<'_>,
) -> Option<Vec<(T, Node)>> {
    let mut out = Vec::new();
    for (index, item) in read::items(node, key, reader)?.into_iter().enumerate() {
        let name = read::join(key, &index.to_string());
        if matches!(item.value, Value::Map { .. }) {
            let mut value = T::default();
            value.read(&item, &name, reader);
            out.push((value, item));
        } else {
            let what = format!("{} stands where a mapping is wanted", item.kind());
            reader.reject(&item, &name, what, wanted);
        }
    }
    Some(out)
}

/// The settings of one item that differ from the defaults.
fn list_changed<T: Read + Default>(value: &T, key: &str, out: &mut Vec<Setting>) {
    let (mut own, mut defaults) = (Vec::new(), Vec::new());
    value.list(key, &mut own);
    T::default().list(key, &mut defaults);
    out.extend(own.into_iter().filter(|setting| !defaults.contains(setting)));
}

impl Read for BTreeMap<String, ProviderConfig> {
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
        for entry in reader.entries(node, key) {
            let name = read::join(key, &entry.key);
            reader.places.insert(name.clone(), entry.key_at);
            let mut provider = ProviderConfig::default();
            provider.read(&entry.value, &name, reader);
            if provider.name.is_empty() {
                provider.name.clone_from(&entry.key);
            }
            self.insert(entry.key.clone(), provider);
        }
        true
    }

    fn list(&self, key: &str, out: &mut Vec<Setting>) {
        for (name, provider) in self {
            list_changed(provider, &read::join(key, name), out);
        }
    }
}

impl Read for Vec<ProviderConfig> {
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
        let hint = "write {name: ..., base_url: ..., model: ...}";
        let Some(items) = read_each::<ProviderConfig>(node, key, hint, reader) else {
            return false;
        };
        for (index, (provider, item)) in items.iter().enumerate() {
            if provider.name.is_empty() {
                let key = format!("{key}.{index}.name");
                reader.reject(item, &key, "an endpoint has no name".to_owned(), hint);
            }
        }
        *self = items.into_iter().map(|(provider, _)| provider).collect();
        true
    }

    fn list(&self, key: &str, out: &mut Vec<Setting>) {
        for (index, provider) in self.iter().enumerate() {
            list_changed(provider, &read::join(key, &index.to_string()), out);
        }
    }
}

impl Read for Vec<FallbackConfig> {
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
        let hint = "write {provider: ..., model: ...}";
        let Some(items) = read_each::<FallbackConfig>(node, key, hint, reader) else {
            return false;
        };
        for (index, (fallback, item)) in items.iter().enumerate() {
            if fallback.provider.is_empty() && fallback.base_url.is_empty() {
                let key = format!("{key}.{index}");
                let what = "neither a provider nor a base_url is named".to_owned();
                reader.reject(item, &key, what, hint);
            }
        }
        *self = items.into_iter().map(|(fallback, _)| fallback).collect();
        true
    }

    fn list(&self, key: &str, out: &mut Vec<Setting>) {
        if self.is_empty() {
            let value = Datum::List(Vec::new());
            out.push(Setting { key: key.to_owned(), value, kind: Kind::Structure });
        }
        for (index, fallback) in self.iter().enumerate() {
            list_changed(fallback, &read::join(key, &index.to_string()), out);
        }
    }
}

/// Reads `fallback_model`, the original's older name for a chain of one.
pub(crate) fn read_legacy(root: &Node, config: &mut super::Config, reader: &mut Reader<'_>) {
    const KEY: &str = "fallback_model";
    let Some(entry) = root.get(KEY).filter(|entry| !entry.value.is_null()) else { return };
    let hint = "use fallback_providers: [{provider: ..., model: ...}]";
    if config.fallback_providers.is_empty() {
        match &entry.value.value {
            Value::Map { .. } => {
                let mut fallback = FallbackConfig::default();
                fallback.read(&entry.value, KEY, reader);
                config.fallback_providers.push(fallback);
            }
            _ => {
                config.fallback_providers.read(&entry.value, KEY, reader);
            }
        }
        reader.warn(&entry.value, KEY, "this key is deprecated".to_owned(), hint);
    } else {
        let what = "fallback_providers is there too; this key has no effect".to_owned();
        reader.warn(&entry.value, KEY, what, hint);
    }
    reader.unknown.retain(|unknown| unknown.key != KEY);
}
