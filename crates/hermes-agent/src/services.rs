//! What conversations share: home, configuration, store, client, endpoints.

use std::sync::Arc;
use std::time::Duration;

use hermes_core::{Env, Params};
use hermes_home::redact::Redactor;
use hermes_home::{Config, EndpointConfig, Home, ProcessVars, Route, Vars};
use hermes_provider::rehearsal::{Rehearsal, RehearsalOptions, RehearsalServer};
use hermes_provider::{
    Backoff, Client, Endpoint, JobSlots, Timeouts, output_cap_field, profile_for,
};
use hermes_store::Store;

use crate::AgentError;

/// The name under which the built-in model server appears in sessions and the ledger.
const REHEARSAL: &str = "rehearsal";

/// First delay before an endpoint on this machine is asked again.
const LOCAL_BACKOFF: Duration = Duration::from_millis(200);

/// What conversations share.
pub struct Services {
    /// The home.
    pub home: Home,
    /// The configuration as loaded.
    pub config: Arc<Config>,
    /// The session store.
    pub store: Store,
    /// The HTTP client.
    pub client: Arc<Client>,
    /// Time, ids and chance.
    pub env: Arc<dyn Env>,
    /// Where requests go: the primary endpoint, then the fallbacks. Never empty.
    pub endpoints: Vec<Endpoint>,
    /// The primary model's window in tokens, where known.
    pub context_window: Option<u64>,
    /// Delays between attempts.
    pub backoff: Backoff,
    /// The process's environment.
    pub vars: Arc<ProcessVars>,
    /// The variables that endpoints of jobs beside the conversation are resolved with; those of
    /// the process unless more is known.
    pub variables: Vars,
    /// Takes secrets out of what a helper model is shown.
    pub redactor: Redactor,
    /// Bounds how many jobs of one task run at once.
    pub slots: JobSlots,
    /// The plugins that conversations run with; None if none is enabled.
    pub(crate) plugged: Option<crate::plugins::Plugged>,
    /// The in-process model server, where no provider is configured.
    rehearsal: Option<RehearsalServer>,
}

/// Which model a session speaks with, as stored on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelChoice {
    /// The provider's name.
    pub provider: String,
    /// The model.
    pub model: String,
}

impl Services {
    /// Puts the shared parts together; starts the rehearsal provider if a route asks for it.
    ///
    /// # Errors
    /// If the rehearsal provider cannot listen on the loopback.
    pub fn new(
        home: Home,
        config: Arc<Config>,
        store: Store,
        env: Arc<dyn Env>,
        vars: Arc<ProcessVars>,
        routes: &[Route],
    ) -> Result<Self, AgentError> {
        let mut rehearsal = None;
        let mut endpoints = Vec::with_capacity(routes.len());
        let mut context_window = None;
        let mut backoff = Backoff::default();
        for (index, route) in routes.iter().enumerate() {
            match route {
                Route::Endpoint(endpoint) => {
                    if index == 0 {
                        context_window = endpoint.context_length;
                        // A server on this machine is back at once or not at all.
                        if endpoint.local {
                            backoff.base = LOCAL_BACKOFF;
                        }
                    }
                    endpoints.push(configured(endpoint, &store)?);
                }
                Route::Rehearsal => {
                    if rehearsal.is_none() {
                        rehearsal = Some(Rehearsal::start(RehearsalOptions::default())?);
                    }
                    if let Some(server) = &rehearsal {
                        endpoints.push(rehearsed(&server.base_url()));
                    }
                }
            }
        }
        let client = Arc::new(Client::new());
        Ok(Self {
            home,
            config,
            store,
            client,
            env,
            endpoints,
            context_window,
            backoff,
            variables: Vars::of_process(&vars),
            redactor: Redactor::default(),
            slots: JobSlots::default(),
            vars,
            plugged: None,
            rehearsal,
        })
    }

    /// Whether conversations run on the rehearsal provider, which is no language model.
    pub const fn is_rehearsal(&self) -> bool {
        self.rehearsal.is_some()
    }

    /// The provider and model of the primary endpoint.
    pub fn primary(&self) -> Option<ModelChoice> {
        self.endpoints.first().map(|endpoint| ModelChoice {
            provider: endpoint.provider.to_string(),
            model: endpoint.model.to_string(),
        })
    }

    /// The bodies the in-process rehearsal provider received so far, in order.
    pub fn rehearsal_received(&self) -> Vec<Vec<u8>> {
        self.rehearsal.as_ref().map(RehearsalServer::received).unwrap_or_default()
    }
}

/// Names an endpoint in the table of learned wire profiles.
pub(crate) fn endpoint_key(endpoint: &Endpoint) -> String {
    format!("{} {}", hermes_provider::public_url(&endpoint.base_url), endpoint.model)
}

/// The endpoint that the settings describe, with what is known of its kind before the first call.
/// A field of `extra_body` takes the place of the one that a setting would give.
pub fn endpoint(config: &EndpointConfig) -> Endpoint {
    let mut params = Params::default();
    let cap = output_cap_field(&config.provider, &config.base_url);
    let given = [
        (cap, config.max_output_tokens.map(|limit| limit.to_string())),
        ("temperature", config.temperature.map(|degree| degree.to_string())),
    ];
    for (field, json) in given {
        let Some(json) = json else { continue };
        if !config.extra_body.iter().any(|(name, _)| name == field) {
            params.0.push((field.into(), json.into()));
        }
    }
    for (field, json) in &config.extra_body {
        params.0.push((field.as_str().into(), json.as_str().into()));
    }
    Endpoint {
        provider: config.provider.as_str().into(),
        base_url: config.base_url.as_str().into(),
        model: config.model.as_str().into(),
        api_key: config.api_key.clone(),
        headers: config.headers.clone(),
        timeouts: Timeouts {
            connect: Duration::from_secs(config.connect_timeout_s),
            first_byte: Duration::from_secs(config.first_byte_timeout_s),
            idle: Duration::from_secs(config.idle_timeout_s),
        },
        profile: profile_for(&config.provider, &config.base_url, &config.model),
        params,
    }
}

/// The endpoint with what earlier sessions have learned about it.
pub(crate) fn configured(config: &EndpointConfig, store: &Store) -> Result<Endpoint, AgentError> {
    let mut endpoint = endpoint(config);
    if let Some(learned) = store.learned_profile(&endpoint_key(&endpoint))? {
        endpoint.profile = learned;
    }
    Ok(endpoint)
}

fn rehearsed(base_url: &str) -> Endpoint {
    Endpoint {
        provider: REHEARSAL.into(),
        base_url: base_url.into(),
        model: REHEARSAL.into(),
        api_key: None,
        headers: Vec::new(),
        timeouts: Timeouts::default(),
        profile: profile_for(REHEARSAL, base_url, REHEARSAL),
        params: Params::default(),
    }
}

#[cfg(test)]
mod tests {
    use hermes_home::KeySource;

    use super::*;

    fn check(provider: &str, base_url: &str, extra: &[(&str, &str)], expected: &str) {
        let owned = |(name, json): &(&str, &str)| ((*name).to_owned(), (*json).to_owned());
        let config = EndpointConfig {
            provider: provider.to_owned(),
            base_url: base_url.to_owned(),
            model: "gpt-5".to_owned(),
            api_key: None,
            key_source: KeySource::None,
            api_mode: "chat_completions".to_owned(),
            context_length: None,
            headers: Vec::new(),
            connect_timeout_s: 1,
            first_byte_timeout_s: 2,
            idle_timeout_s: 3,
            max_output_tokens: Some(900),
            temperature: Some(0.5),
            extra_body: extra.iter().map(owned).collect(),
            local: false,
        };
        let fields: Vec<String> = endpoint(&config)
            .params
            .0
            .iter()
            .map(|(name, json)| format!("{name}={json}"))
            .collect();
        assert_eq!(fields.join(" "), expected, "{provider} {base_url}");
    }

    #[test]
    fn the_output_limit_goes_by_the_name_that_the_endpoint_knows_and_no_field_is_sent_twice() {
        let (openai, other) = ("https://api.openai.com/v1", "http://127.0.0.1:1/v1");
        check("mine", openai, &[], "max_completion_tokens=900 temperature=0.5");
        check("openai", other, &[], "max_completion_tokens=900 temperature=0.5");
        check("mine", other, &[], "max_tokens=900 temperature=0.5");
        let extra = [("max_tokens", "7"), ("temperature", "1"), ("top_k", "5")];
        check("mine", other, &extra, "max_tokens=7 temperature=1 top_k=5");
    }
}
