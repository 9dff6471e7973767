//! Bytes out and bytes in: connections, headers, time limits.
//!
//! A client for plain HTTP costs next to nothing; the platform's certificates are read only when
//! the first HTTPS address is called. Connections are kept and used again. Redirects are not
//! followed: a redirected POST loses its body, and the credential would go to another host.

use std::error::Error as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hermes_core::ErrorClass;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;

use crate::endpoint::{join_path, userinfo};
use crate::{Attendant, Endpoint, Failure, Limits};

/// Speaks to providers. Cheap to make; share one, so that connections are used again.
#[derive(Debug, Default)]
pub struct Client {
    clients: Mutex<Vec<(Kind, reqwest::Client)>>,
    attendant: OnceLock<Arc<dyn Attendant>>,
}

/// What a connection pool is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    tls: bool,
    connect: Duration,
}

impl Client {
    /// A client without any connection.
    pub const fn new() -> Self {
        Self { clients: Mutex::new(Vec::new()), attendant: OnceLock::new() }
    }

    /// Says who hears of every attempt. The first one stays.
    pub fn attend(&self, attendant: Arc<dyn Attendant>) {
        drop(self.attendant.set(attendant));
    }

    /// The one who hears of every attempt.
    pub fn attendant(&self) -> Option<&Arc<dyn Attendant>> {
        self.attendant.get()
    }

    /// Sends the request and waits for the answer's head.
    pub(crate) async fn post(
        &self,
        endpoint: &Endpoint,
        path: &str,
        body: Bytes,
    ) -> Result<reqwest::Response, Failure> {
        let request = self
            .http(endpoint)?
            .post(join_path(&endpoint.base_url, path))
            .headers(headers(endpoint)?)
            .body(body);
        self.send(endpoint, request).await
    }

    /// Asks for a document.
    pub(crate) async fn get(
        &self,
        endpoint: &Endpoint,
        path: &str,
    ) -> Result<reqwest::Response, Failure> {
        let request = self
            .http(endpoint)?
            .get(join_path(&endpoint.base_url, path))
            .headers(headers(endpoint)?);
        self.send(endpoint, request).await
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        request: reqwest::RequestBuilder,
    ) -> Result<reqwest::Response, Failure> {
        let limit = endpoint.timeouts.connect.saturating_add(endpoint.timeouts.first_byte);
        match tokio::time::timeout(limit, request.send()).await {
            Err(_) => Err(no_answer(endpoint)),
            Ok(Err(error)) => Err(send_failure(&error)),
            Ok(Ok(response)) => Ok(response),
        }
    }

    /// The connection pool for an endpoint's scheme and connect timeout.
    fn http(&self, endpoint: &Endpoint) -> Result<reqwest::Client, Failure> {
        let tls = match endpoint.base_url.split_once("://") {
            Some((scheme, rest)) if !rest.trim_start_matches('/').is_empty() => {
                match scheme.to_ascii_lowercase().as_str() {
                    "http" => Some(false),
                    "https" => Some(true),
                    _ => None,
                }
            }
            _ => None,
        };
        let Some(tls) = tls else {
            let url = crate::endpoint::public_url(&endpoint.base_url);
            return Err(failure(
                ErrorClass::Local,
                format!(
                    "base_url \"{url}\" is no address; wanted http://HOST/v1 or https://HOST/v1"
                ),
            ));
        };
        let kind = Kind { tls, connect: endpoint.timeouts.connect };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == kind) {
            return Ok(client.clone());
        }
        let client = build(kind)
            .map_err(|why| failure(ErrorClass::Local, format!("TLS could not be set up: {why}")))?;
        clients.push((kind, client.clone()));
        drop(clients);
        Ok(client)
    }
}

fn build(kind: Kind) -> Result<reqwest::Client, String> {
    let builder = reqwest::Client::builder()
        .connect_timeout(kind.connect)
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(4)
        .tcp_keepalive(Duration::from_secs(30))
        .user_agent(concat!("hermes/", env!("CARGO_PKG_VERSION")));
    let builder = if kind.tls {
        // The default builder asks for the process's provider; whoever was first is fine.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        builder
    } else {
        // What is served without TLS is on this machine or beside it: no proxy knows the way.
        let builder = builder.no_proxy();
        // Never used, but asked for: a configuration without roots, made in microseconds.
        let provider = rustls::crypto::ring::default_provider();
        let config = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        builder.tls_backend_preconfigured(config)
    };
    builder.build().map_err(|error| chain(&error))
}

fn headers(endpoint: &Endpoint) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    if let Some(key) = &endpoint.api_key {
        let key = key.expose_secret().trim();
        if !key.is_empty() {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {key}"), "the API key")?);
        }
    } else if let Some(info) = userinfo(&endpoint.base_url) {
        use base64::Engine as _;
        let basic = base64::engine::general_purpose::STANDARD.encode(info);
        headers.insert(AUTHORIZATION, secret(&format!("Basic {basic}"), "the address")?);
    }
    for (name, value) in &endpoint.headers {
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
            failure(ErrorClass::Local, format!("\"{name}\" is no name of an HTTP header"))
        })?;
        headers.insert(header, secret(value.expose_secret(), &format!("header {name}"))?);
    }
    Ok(headers)
}

fn secret(value: &str, what: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        failure(
            ErrorClass::Local,
            format!("{what} holds a character that no HTTP header may hold (a line end?)"),
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Why no answer came. The address is left out of the words: it may hold a credential.
fn send_failure(error: &reqwest::Error) -> Failure {
    if error.is_builder() {
        return failure(ErrorClass::Local, format!("the address cannot be used: {}", chain(error)));
    }
    if error.is_connect() {
        let what = if error.is_timeout() { "no connection in time" } else { "no connection" };
        return failure(ErrorClass::Connect, format!("{what}: {}", chain(error)));
    }
    if error.is_timeout() {
        return failure(ErrorClass::Timeout, format!("no answer in time: {}", chain(error)));
    }
    failure(
        ErrorClass::Disconnected,
        format!("the connection broke before an answer came: {}", chain(error)),
    )
}

/// Why the answer's body broke off.
pub(crate) fn body_failure(error: &reqwest::Error) -> Failure {
    failure(
        ErrorClass::Disconnected,
        format!("the connection broke in the middle of the answer: {}", chain(error)),
    )
}

pub(crate) fn no_answer(endpoint: &Endpoint) -> Failure {
    failure(
        ErrorClass::Timeout,
        format!("nothing came within {} s", endpoint.timeouts.first_byte.as_secs_f64()),
    )
}

pub(crate) const fn failure(class: ErrorClass, message: String) -> Failure {
    Failure {
        class,
        message,
        limits: Limits {
            window: None,
            input: None,
            input_is_lower_bound: false,
            output: None,
            output_cap: None,
        },
        retry_after: None,
    }
}

/// The innermost causes, which say what happened; the outer ones repeat the address.
fn chain(error: &reqwest::Error) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(inner) = source {
        let text = inner.to_string();
        if words.last() != Some(&text) {
            words.push(text);
        }
        source = inner.source();
    }
    if words.is_empty() {
        return "cause unknown".to_owned();
    }
    words.join(": ")
}
