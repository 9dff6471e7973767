//! Where requests go: the primary endpoint and the chain behind it.
//!
//! Invariants: a key is sent only to the endpoint that it was given for (a key of the process's
//! environment never reaches a custom address that did not come from the environment too); a
//! primary endpoint that cannot be resolved is an error with the next step, and a fallback that
//! cannot is left out and told, never silently; no value of a key appears in a description.

mod auxiliary;
mod key;
mod table;

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

use crate::config::{Config, FallbackConfig, ModelConfig, ProviderConfig};
use crate::vars::{VarSource, Vars};
use crate::yaml::Datum;
use crate::{ConfigError, config};

pub use auxiliary::{AuxiliaryCandidate, AuxiliaryRoutes, auxiliary_routes};
pub use key::KeySource;
pub use table::{BUILTIN_PROVIDERS, BuiltinProvider};

/// Where a request may go.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a program holds a handful of them")]
pub enum Route {
    /// The rehearsal provider, which is no language model.
    Rehearsal,
    /// A real endpoint.
    Endpoint(EndpointConfig),
}

/// An endpoint with everything that is needed to ask it.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The provider's name.
    pub provider: String,
    /// The address, without a slash at the end.
    pub base_url: String,
    /// The model.
    pub model: String,
    /// The key, if one is needed.
    pub api_key: Option<SecretString>,
    /// Where the key came from.
    pub key_source: KeySource,
    /// The protocol; only `chat_completions` exists.
    pub api_mode: String,
    /// The context window in tokens, where the settings say so.
    pub context_length: Option<u64>,
    /// Further headers.
    pub headers: Vec<(String, SecretString)>,
    /// Seconds to connect.
    pub connect_timeout_s: u64,
    /// Seconds until the first byte.
    pub first_byte_timeout_s: u64,
    /// Seconds without data in a stream.
    pub idle_timeout_s: u64,
    /// Most tokens of an answer.
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature, where the settings say one.
    pub temperature: Option<f64>,
    /// Further fields of the body, as raw JSON.
    pub extra_body: Vec<(String, String)>,
    /// Whether the endpoint runs on this machine or in a private network.
    pub local: bool,
}

/// One endpoint of the chain, described without secrets and without running a key command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteLine {
    /// The setting that names it.
    pub key: String,
    /// The provider's name.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The address.
    pub base_url: String,
    /// Where the key comes from.
    pub key_source: String,
    /// The context window in tokens, where the settings say so.
    pub context_length: Option<u64>,
    /// Why it cannot be used.
    pub problem: Option<String>,
}

impl fmt::Display for RouteLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(problem) = &self.problem {
            let own = format!("{}: ", self.key);
            return write!(f, "{own}unusable: {}", problem.strip_prefix(&own).unwrap_or(problem));
        }
        if self.base_url.is_empty() {
            return write!(f, "{}: {} (no language model)", self.key, self.provider);
        }
        write!(
            f,
            "{}: {} at {} ({}), key: {}",
            self.key, self.model, self.base_url, self.provider, self.key_source
        )?;
        match self.context_length {
            Some(tokens) => write!(f, ", context window {tokens} tokens"),
            None => Ok(()),
        }
    }
}

/// Where requests go, and what was left out of it.
#[derive(Debug)]
pub struct Routes {
    /// The primary endpoint, then the fallbacks that can be used. Never empty.
    pub chain: Vec<Route>,
    /// The fallbacks that cannot: the setting, and why.
    pub left_out: Vec<(String, ConfigError)>,
}

/// The primary endpoint, then the fallback chain. Settings that choose nothing give the rehearsal
/// provider. Key commands are run.
///
/// # Errors
/// If the primary endpoint cannot be resolved.
pub fn routes_told(config: &Config, vars: &Vars) -> Result<Routes, ConfigError> {
    let mut routes = Routes { chain: Vec::new(), left_out: Vec::new() };
    for wish in wishes(config) {
        match route(&wish, config, vars) {
            Ok(route) => routes.chain.push(route),
            Err(error) if routes.chain.is_empty() => return Err(error),
            // The primary works without it.
            Err(error) => routes.left_out.push((wish.key, error)),
        }
    }
    Ok(routes)
}

/// The chain of [`routes_told`] alone.
///
/// # Errors
/// If the primary endpoint cannot be resolved.
pub fn routes(config: &Config, vars: &Vars) -> Result<Vec<Route>, ConfigError> {
    Ok(routes_told(config, vars)?.chain)
}

fn route(wish: &Wish, config: &Config, vars: &Vars) -> Result<Route, ConfigError> {
    Ok(match resolve(wish, config, vars)? {
        Resolved::Rehearsal => Route::Rehearsal,
        Resolved::Endpoint { mut endpoint, command } => {
            if let Some(command) = command {
                endpoint.api_key = Some(key::run_command(&command, &wish.key, vars)?);
            }
            Route::Endpoint(*endpoint)
        }
    })
}

/// The endpoint of a side task or a delegated task: what is left empty is the primary's.
///
/// # Errors
/// If it cannot be resolved.
pub fn route_for(
    config: &Config,
    vars: &Vars,
    key: &str,
    wanted: &FallbackConfig,
) -> Result<Route, ConfigError> {
    let mut wish = Wish::of_fallback(key.to_owned(), wanted);
    if wish.provider.is_empty() && wish.base_url.is_empty() {
        let model = std::mem::take(&mut wish.model);
        wish = Wish::of_model(&config.model);
        if !model.is_empty() && model != wish.model {
            wish.model = model;
            wish.context_length = wanted.context_length;
        }
    } else if wish.model.is_empty() {
        wish.model.clone_from(&config.model.default);
    }
    route(&wish, config, vars)
}

/// The chain as `config check` shows it. Endpoints that cannot be resolved say why.
pub fn chain(config: &Config, vars: &Vars) -> Vec<RouteLine> {
    wishes(config)
        .into_iter()
        .map(|wish| {
            let line = RouteLine {
                key: wish.key.clone(),
                provider: wish.provider.clone(),
                model: wish.model.clone(),
                base_url: String::new(),
                key_source: String::new(),
                context_length: None,
                problem: None,
            };
            match resolve(&wish, config, vars) {
                Ok(Resolved::Rehearsal) => RouteLine { provider: REHEARSAL.to_owned(), ..line },
                Ok(Resolved::Endpoint { endpoint, .. }) => RouteLine {
                    provider: endpoint.provider,
                    model: endpoint.model,
                    base_url: crate::redact::redact(&endpoint.base_url).into_owned(),
                    key_source: endpoint.key_source.to_string(),
                    context_length: endpoint.context_length,
                    ..line
                },
                Err(error) => RouteLine { problem: Some(error.to_string()), ..line },
            }
        })
        .collect()
}

/// Keys in the settings that a variable hides: the setting, and where the variable was set.
pub(crate) fn hidden_keys(config: &Config, vars: &Vars) -> Vec<(String, VarSource)> {
    let mut hidden = Vec::new();
    for wish in wishes(config) {
        let Ok(Some(known)) = find_provider(&wish, config, vars) else { continue };
        let keys = [
            wish.api_key.as_ref().map(|_| format!("{}.api_key", wish.key)),
            known
                .own
                .and_then(|own| own.api_key.as_ref())
                .map(|_| format!("{}.api_key", known.own_key)),
        ];
        if keys.iter().all(Option::is_none) {
            continue;
        }
        if let Ok(Resolved::Endpoint { endpoint, .. }) = resolve(&wish, config, vars)
            && let KeySource::Variable { source, .. } = endpoint.key_source
        {
            hidden.extend(keys.into_iter().flatten().map(|key| (key, source)));
        }
    }
    hidden
}

/// Whether `OPENAI_API_KEY` is in the environment and is not sent to the primary endpoint, which
/// has no key.
pub(crate) fn withholds_openai_key(config: &Config, vars: &Vars) -> bool {
    let wish = Wish::of_model(&config.model);
    matches!(
        resolve(&wish, config, vars),
        Ok(Resolved::Endpoint { endpoint, command: None })
            if endpoint.api_key.is_none() && !endpoint.local && vars.get(OPENAI_API_KEY).is_some()
    )
}

/// The name of the provider that is no language model.
const REHEARSAL: &str = "rehearsal";
/// The name for an address without a provider.
const CUSTOM: &str = "custom";
/// The variable that moves the OpenAI endpoint.
pub(crate) const OPENAI_BASE_URL: &str = "OPENAI_BASE_URL";
/// The key that goes with it.
const OPENAI_API_KEY: &str = "OPENAI_API_KEY";

/// Fields of a request's body that are not for the settings: a second value for a field is read
/// differently by different servers.
const OWN_FIELDS: [&str; 5] = ["model", "messages", "tools", "stream", "stream_options"];

/// What the settings ask for at one place.
#[derive(Clone, Debug, Default)]
struct Wish {
    /// The setting.
    key: String,
    provider: String,
    base_url: String,
    model: String,
    api_key: Option<SecretString>,
    /// Whether the key was written for this very entry, so that no variable replaces it.
    own_key: bool,
    key_env: String,
    api_key_command: String,
    api_mode: String,
    context_length: Option<u64>,
    max_tokens: Option<u64>,
    temperature: Option<f64>,
    timeouts: [Option<u64>; 3],
    headers: Vec<(String, String)>,
    extra_body: Vec<(String, Datum)>,
}

impl Wish {
    fn of_model(model: &ModelConfig) -> Self {
        Self {
            key: "model".to_owned(),
            provider: model.provider.trim().to_owned(),
            base_url: model.base_url.trim().to_owned(),
            model: model.default.trim().to_owned(),
            api_key: model.api_key.clone(),
            own_key: false,
            key_env: model.key_env.trim().to_owned(),
            api_key_command: model.api_key_command.clone(),
            api_mode: model.api_mode.clone(),
            context_length: model.context_length,
            max_tokens: model.max_tokens,
            temperature: model.temperature,
            timeouts: [model.connect_timeout, model.first_byte_timeout, model.idle_timeout],
            headers: model.headers.clone().into_iter().collect(),
            extra_body: fields(&model.extra_body),
        }
    }

    fn of_fallback(key: String, fallback: &FallbackConfig) -> Self {
        Self {
            key,
            provider: fallback.provider.trim().to_owned(),
            base_url: fallback.base_url.trim().to_owned(),
            model: fallback.model.trim().to_owned(),
            api_key: fallback.api_key.clone(),
            own_key: true,
            key_env: fallback.key_env.trim().to_owned(),
            api_key_command: fallback.api_key_command.clone(),
            api_mode: fallback.api_mode.clone(),
            context_length: fallback.context_length,
            ..Self::default()
        }
    }
}

fn fields(datum: &Datum) -> Vec<(String, Datum)> {
    match datum {
        Datum::Map(entries) => entries.clone(),
        _ => Vec::new(),
    }
}

fn wishes(config: &Config) -> Vec<Wish> {
    let fallbacks = config.fallback_providers.iter().enumerate().map(|(index, fallback)| {
        Wish::of_fallback(format!("fallback_providers.{index}"), fallback)
    });
    std::iter::once(Wish::of_model(&config.model)).chain(fallbacks).collect()
}

enum Resolved {
    Rehearsal,
    Endpoint { endpoint: Box<EndpointConfig>, command: Option<String> },
}

/// A provider by name: what the settings say of it and what is built in.
struct Known<'a> {
    name: String,
    own: Option<&'a ProviderConfig>,
    own_key: String,
    builtin: Option<&'static BuiltinProvider>,
}

fn resolve(wish: &Wish, config: &Config, vars: &Vars) -> Result<Resolved, ConfigError> {
    let Some(known) = find_provider(wish, config, vars)? else { return Ok(Resolved::Rehearsal) };
    let own = known.own.cloned().unwrap_or_default();
    let model = first(&[&wish.model, &own.model]);
    if model.is_empty() {
        return Err(ConfigError::Route {
            what: format!("no model is configured for provider {} ({})", known.name, wish.key),
            hint: if wish.key == "model" {
                "hermes config set model.default NAME, or --model NAME".to_owned()
            } else {
                format!("add `model: NAME` to {}", wish.key)
            },
        });
    }
    let moved = known.builtin.filter(|b| b.name == "openai").and(vars.get(OPENAI_BASE_URL));
    let built_in = known.builtin.map_or("", |builtin| builtin.base_url);
    let base_url = first(&[&wish.base_url, &own.base_url, moved.unwrap_or(""), built_in]);
    if base_url.is_empty() {
        return Err(ConfigError::Route {
            what: format!("no address is configured for provider {} ({})", known.name, wish.key),
            hint: format!("set {}.base_url, such as http://127.0.0.1:8080/v1", wish.key),
        });
    }
    let base_url = check_url(base_url, wish)?;
    let api_mode = first(&[&wish.api_mode, &own.api_mode, "chat_completions"]);
    if !matches!(api_mode, "chat_completions" | "auto") {
        return Err(ConfigError::Route {
            what: format!("{}: the protocol \"{api_mode}\" is not supported", wish.key),
            hint: "use api_mode: chat_completions; most providers offer it".to_owned(),
        });
    }
    let local = is_local(&base_url);
    let found = key::find(wish, &known, &own, &base_url, local, vars)?;
    if let Some(key) = &found.value
        && key.expose_secret().contains(char::is_control)
    {
        return Err(ConfigError::Route {
            what: format!(
                "{}: the key ({}) holds a line end or another control character",
                wish.key, found.source
            ),
            hint: "write it on one line, as it was given to you".to_owned(),
        });
    }
    let patience = config.agent.local_stream_stale_timeout;
    let [connect, first_byte, idle] = wish.timeouts;
    let mut headers: Vec<(String, SecretString)> = Vec::new();
    for (name, value) in own.headers.iter().chain(wish.headers.iter().map(|(n, v)| (n, v))) {
        headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        headers.push((name.clone(), SecretString::from(value.clone())));
    }
    let mut extra_body = Vec::new();
    for (name, value) in fields(&own.extra_body).iter().chain(&wish.extra_body) {
        if OWN_FIELDS.contains(&name.as_str()) {
            return Err(ConfigError::Route {
                what: format!(
                    "{}: extra_body has the field \"{name}\", which every request has already",
                    wish.key
                ),
                hint: format!("take {name} out of extra_body"),
            });
        }
        extra_body.retain(|(known, _)| known != name);
        extra_body.push((name.clone(), value.to_json()));
    }
    let endpoint = EndpointConfig {
        provider: known.name,
        model: model.to_owned(),
        api_key: found.value,
        key_source: found.source,
        api_mode: "chat_completions".to_owned(),
        context_length: wish
            .context_length
            .or_else(|| model_fact(&own, model, "context_length"))
            .or(own.context_length)
            .filter(|tokens| *tokens > 0),
        headers,
        connect_timeout_s: connect.or(own.connect_timeout).unwrap_or(10),
        first_byte_timeout_s: first_byte.or(own.first_byte_timeout).unwrap_or(if local {
            patience
        } else {
            300
        }),
        idle_timeout_s: idle.or(own.idle_timeout).unwrap_or(if local { patience } else { 180 }),
        max_output_tokens: wish.max_tokens.or(own.max_tokens),
        temperature: wish.temperature,
        extra_body,
        local,
        base_url,
    };
    Ok(Resolved::Endpoint { endpoint: Box::new(endpoint), command: found.command })
}

/// The provider that a wish names or implies; None for the rehearsal provider.
fn find_provider<'a>(
    wish: &Wish,
    config: &'a Config,
    vars: &Vars,
) -> Result<Option<Known<'a>>, ConfigError> {
    let name = wish.provider.to_lowercase();
    let name = name.strip_prefix("custom:").unwrap_or(&name).trim();
    let custom =
        || Known { name: CUSTOM.to_owned(), own: None, own_key: String::new(), builtin: None };
    if name == REHEARSAL {
        return Ok(None);
    }
    if name.is_empty() || name == "auto" {
        if !wish.base_url.is_empty() {
            return Ok(Some(custom()));
        }
        return implied(wish, config, vars);
    }
    let own = configured(config).find(|(_, provider, alias)| {
        alias.to_lowercase() == name || provider.name.to_lowercase() == name
    });
    let builtin = table::find(name);
    if let Some((own_key, provider, _)) = own {
        return Ok(Some(Known {
            name: provider.name.clone(),
            own: Some(provider),
            own_key,
            builtin,
        }));
    }
    if let Some(builtin) = builtin {
        let name = builtin.name.to_owned();
        return Ok(Some(Known { name, own: None, own_key: String::new(), builtin: Some(builtin) }));
    }
    if name == CUSTOM {
        return Ok(Some(custom()));
    }
    let names: Vec<String> = configured(config)
        .map(|(_, provider, _)| provider.name.clone())
        .chain(BUILTIN_PROVIDERS.iter().map(|builtin| builtin.name.to_owned()))
        .collect();
    let near = config::read::nearest(name, names.iter().map(String::as_str));
    Err(ConfigError::Route {
        what: format!("{}: there is no provider \"{}\"", wish.key, wish.provider),
        hint: near.map_or_else(
            || {
                format!(
                    "describe it under providers.{name} with its base_url, or use provider: custom"
                )
            },
            |near| {
                format!("did you mean {near}? Another endpoint needs provider: custom and base_url")
            },
        ),
    })
}

/// Every endpoint in the settings: its key, itself, and the name it is known by.
fn configured(config: &Config) -> impl Iterator<Item = (String, &ProviderConfig, &str)> {
    let named = config
        .providers
        .iter()
        .map(|(name, provider)| (format!("providers.{name}"), provider, name.as_str()));
    let listed = config.custom_providers.iter().enumerate().map(|(index, provider)| {
        (format!("custom_providers.{index}"), provider, provider.name.as_str())
    });
    named.chain(listed)
}

/// What is meant where no provider is named.
fn implied<'a>(
    wish: &Wish,
    config: &'a Config,
    vars: &Vars,
) -> Result<Option<Known<'a>>, ConfigError> {
    let mut all = configured(config);
    match (all.next(), all.next()) {
        (Some((own_key, provider, _)), None) => {
            let builtin = table::find(&provider.name.to_lowercase());
            let name = provider.name.clone();
            return Ok(Some(Known { name, own: Some(provider), own_key, builtin }));
        }
        (None, _) if wish.model.is_empty() => return Ok(None),
        _ => {}
    }
    // A model without a provider: the first built-in one whose key is there.
    let with_key = BUILTIN_PROVIDERS
        .iter()
        .find(|builtin| builtin.key_names.iter().any(|name| vars.get(name).is_some()));
    if let Some(builtin) = with_key {
        let name = builtin.name.to_owned();
        return Ok(Some(Known { name, own: None, own_key: String::new(), builtin: Some(builtin) }));
    }
    if wish.model.is_empty() {
        return Err(ConfigError::Route {
            what: "several providers are configured and none is chosen".to_owned(),
            hint: "hermes config set model.provider NAME, or --provider NAME".to_owned(),
        });
    }
    Err(ConfigError::Route {
        what: format!("the model {} is chosen, but no provider", wish.model),
        hint: "hermes config set model.provider NAME (ollama, openrouter, ...), or set model.base_url; `hermes setup` asks for both".to_owned(),
    })
}

fn first<'a>(candidates: &[&'a str]) -> &'a str {
    candidates.iter().find(|text| !text.trim().is_empty()).map_or("", |text| text.trim())
}

fn model_fact(provider: &ProviderConfig, model: &str, fact: &str) -> Option<u64> {
    let find = |datum: &Datum, key: &str| match datum {
        Datum::Map(entries) => {
            entries.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
        }
        _ => None,
    };
    match find(&find(&provider.models, model)?, fact)? {
        Datum::Number(text) | Datum::Text(text) => text.parse().ok(),
        _ => None,
    }
}

/// The address without what people paste along with it.
fn check_url(url: &str, wish: &Wish) -> Result<String, ConfigError> {
    let url = url.trim().trim_end_matches('/');
    let url = url.strip_suffix("/chat/completions").unwrap_or(url).trim_end_matches('/');
    let lower = url.to_ascii_lowercase();
    let rest = lower.strip_prefix("https://").or_else(|| lower.strip_prefix("http://"));
    let complete = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', ':']));
    if complete && !url.contains("${") && !url.contains(char::is_whitespace) {
        return Ok(url.to_owned());
    }
    Err(ConfigError::Route {
        what: format!(
            "{}.base_url: \"{}\" is not an address",
            wish.key,
            crate::redact::redact(url)
        ),
        hint: "write it in full, such as https://api.example.org/v1".to_owned(),
    })
}

/// The host of an address, without port and user.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(v6),
        None => host.split(':').next().unwrap_or(host),
    }
}

/// Whether an address is on this machine or in a private network.
fn is_local(url: &str) -> bool {
    let host = host(url);
    if let Ok(address) = host.parse::<std::net::IpAddr>() {
        return match address {
            std::net::IpAddr::V4(v4) => {
                v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified()
            }
            std::net::IpAddr::V6(v6) => {
                v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local()
            }
        };
    }
    let host = host.to_ascii_lowercase();
    host == "localhost"
        || host == "host.docker.internal"
        || host.rsplit_once('.').is_some_and(|(_, top)| matches!(top, "localhost" | "local"))
}

/// Lets the variables of endpoints take effect. `OPENAI_BASE_URL` is the address of the provider
/// `openai`, and of the endpoint where the settings choose none; it does not move an endpoint that
/// the settings describe.
pub(crate) fn apply_variables(
    config: &mut Config,
    vars: &Vars,
    mut note: impl FnMut(&str, &'static str, VarSource),
) {
    let Some((url, source)) = vars.lookup(OPENAI_BASE_URL) else { return };
    let provider = config.model.provider.trim().to_lowercase();
    let chosen_elsewhere = match provider.as_str() {
        "openai" => false,
        "" | "auto" | CUSTOM => {
            !config.model.base_url.is_empty() || configured(config).next().is_some()
        }
        _ => true,
    };
    if !chosen_elsewhere {
        url.trim().clone_into(&mut config.model.base_url);
        note("model.base_url", OPENAI_BASE_URL, source);
    }
}

/// Takes a provider from outside the settings. If it is another one, what belongs to the endpoint
/// of the settings is cleared: its address and key must not go along.
pub(crate) fn choose_provider(model: &mut ModelConfig, provider: &str) {
    let plain = |name: &str| match name.trim().to_lowercase() {
        name if name.is_empty() || name == "auto" => CUSTOM.to_owned(),
        name => name,
    };
    if plain(&model.provider) != plain(provider) {
        *model = ModelConfig {
            default: std::mem::take(&mut model.default),
            max_tokens: model.max_tokens,
            temperature: model.temperature,
            ..ModelConfig::default()
        };
    }
    provider.trim().clone_into(&mut model.provider);
}

/// Takes a model from outside the settings. The context window of the settings is that of their
/// own model.
pub(crate) fn choose_model(model: &mut ModelConfig, name: &str) {
    if !model.default.is_empty() && model.default != name {
        model.context_length = None;
    }
    name.trim().clone_into(&mut model.default);
}

#[cfg(test)]
mod tests;
