//! What conversations share: home, configuration, store, client, endpoints.

use std::sync::Arc;
use std::time::Duration;

use hermes_core::{Env, Params};
use hermes_home::{Config, EndpointConfig, Home, ProcessVars, Route};
use hermes_provider::rehearsal::{Rehearsal, RehearsalOptions, RehearsalServer};
use hermes_provider::{Backoff, Client, Endpoint, Timeouts, output_cap_field, profile_for};
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
            vars,
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
    format!("{} {}", endpoint.base_url, endpoint.model)
}

fn configured(config: &EndpointConfig, store: &Store) -> Result<Endpoint, AgentError> {
    let mut params = Params::default();
    if let Some(limit) = config.max_output_tokens {
        let field = output_cap_field(&config.base_url, &config.model);
        params.0.push((field.into(), limit.to_string().into()));
    }
    for (field, json) in &config.extra_body {
        params.0.push((field.as_str().into(), json.as_str().into()));
    }
    let mut endpoint = Endpoint {
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
    };
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
