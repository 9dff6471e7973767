//! Outbound webhooks: events told to an address, signed, without anybody waiting.
//!
//! Each has a queue of its own; when it is full the newest event is dropped. Two attempts after a
//! network fault or a status of 500 and above, none after anything else; redirects are not followed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::payload::Payload;
use crate::table;

/// Events that wait for one webhook at most.
const QUEUE: usize = 256;
const ATTEMPTS: u32 = 2;
const AGAIN: Duration = Duration::from_secs(1);
/// The block size of SHA-256, for the signature.
const BLOCK: usize = 64;

/// A webhook of the settings.
#[derive(Clone)]
pub(crate) struct Webhook {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) events: Vec<&'static table::HookSpec>,
    secret: Option<String>,
    matcher: Option<regex::Regex>,
    timeout: Duration,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Webhook {
    pub(crate) fn parse(
        entry: &Value,
        secret: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
        let url = text("url").ok_or("it names no url")?;
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(format!("{url} is no address of http or https"));
        }
        let names = entry.get("events").and_then(Value::as_array).ok_or("it names no events")?;
        let events = names
            .iter()
            .map(|name| {
                let name = name.as_str().unwrap_or_default();
                table::find(name).ok_or_else(|| format!("there is no hook {name:?}"))
            })
            .collect::<Result<Vec<_>, String>>()?;
        let secret = match text("secret_env") {
            Some(name) => {
                Some(secret(name).ok_or_else(|| format!("the variable {name} is not set"))?)
            }
            None => text("secret").map(ToOwned::to_owned),
        };
        let matcher = text("matcher")
            .map(|text| regex::Regex::new(&format!("^(?:{text})$")))
            .transpose()
            .map_err(|error| format!("its matcher is no regular expression: {error}"))?;
        let seconds = entry.get("timeout").and_then(Value::as_f64).unwrap_or(10.0).clamp(1.0, 60.0);
        Ok(Self {
            name: text("name").unwrap_or(url).to_owned(),
            url: url.to_owned(),
            events,
            secret,
            matcher,
            timeout: Duration::from_secs_f64(seconds),
        })
    }

    fn wants(&self, payload: &Payload) -> bool {
        self.matcher.as_ref().is_none_or(|matcher| {
            payload.get_text("tool_name").is_some_and(|name| matcher.is_match(&name))
        })
    }
}

/// A webhook that runs.
#[derive(Debug)]
pub(crate) struct Sender {
    webhook: Webhook,
    queue: mpsc::Sender<(String, String, String)>,
    waiting: Arc<AtomicUsize>,
    dropped: AtomicU64,
    next: AtomicU64,
}

impl Sender {
    /// Starts one on a runtime.
    pub(crate) fn start(webhook: Webhook, on: &tokio::runtime::Handle) -> Self {
        let (queue, mut events) = mpsc::channel::<(String, String, String)>(QUEUE);
        let waiting = Arc::new(AtomicUsize::new(0));
        let (sending, left) = (webhook.clone(), Arc::clone(&waiting));
        drop(on.spawn(async move {
            let mut client = None;
            while let Some((event, delivery, body)) = events.recv().await {
                if let Err(why) = deliver(&sending, &mut client, &event, &delivery, &body).await {
                    tracing::warn!(webhook = sending.name, event, why, "an event was not taken");
                }
                left.fetch_sub(1, Ordering::Relaxed);
            }
        }));
        Self { webhook, queue, waiting, dropped: AtomicU64::new(0), next: AtomicU64::new(1) }
    }

    /// Puts an event in the queue.
    pub(crate) fn send(&self, hook: &str, payload: &Payload, body: &str, id: &str) {
        if !self.webhook.wants(payload) {
            return;
        }
        let delivery = format!("{id}-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let mut value: Value = serde_json::from_str(body).unwrap_or_default();
        value["delivery_id"] = delivery.as_str().into();
        value["timestamp"] = seconds().into();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if self.queue.try_send((hook.to_owned(), delivery, value.to_string())).is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let count = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            tracing::warn!(
                webhook = self.webhook.name,
                count,
                "its queue is full; events are dropped"
            );
        }
    }

    /// Waits until the queue is empty, at most so long.
    pub(crate) async fn flush(&self, limit: Duration) {
        let end = tokio::time::Instant::now() + limit;
        while self.waiting.load(Ordering::Relaxed) > 0 && tokio::time::Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn seconds() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

async fn deliver(
    webhook: &Webhook,
    client: &mut Option<reqwest::Client>,
    event: &str,
    delivery: &str,
    body: &str,
) -> Result<(), String> {
    let client = match client {
        Some(client) => client,
        None => client.insert(build(webhook)?),
    };
    let mut last = String::new();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(AGAIN).await;
        }
        let mut request = client
            .post(&webhook.url)
            .header(CONTENT_TYPE, "application/json")
            .header("X-Hermes-Event", event)
            .header("X-Hermes-Delivery", delivery);
        if let Some(secret) = &webhook.secret {
            request = request.header("X-Hermes-Signature-256", signature(secret, body));
        }
        match request.body(body.to_owned()).send().await {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            Ok(answer) if answer.status().is_server_error() => last = answer.status().to_string(),
            Ok(answer) => return Err(answer.status().to_string()),
            Err(error) => last = error.without_url().to_string(),
        }
    }
    Err(last)
}

fn build(webhook: &Webhook) -> Result<reqwest::Client, String> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been faster.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(webhook.timeout)
        .build()
        .map_err(|error| error.to_string())
}

/// `sha256=` and the HMAC (RFC 2104) of a body.
pub(crate) fn signature(secret: &str, body: &str) -> String {
    let mut key = [0u8; BLOCK];
    let bytes = secret.as_bytes();
    if bytes.len() > BLOCK {
        key[..32].copy_from_slice(&Sha256::digest(bytes));
    } else {
        key[..bytes.len()].copy_from_slice(bytes);
    }
    let pad = |with: u8| key.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(body).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    let mut out = String::from("sha256=");
    for byte in outer {
        use std::fmt::Write as _;
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_rfc_4231() {
        assert_eq!(
            signature("Jefe", "what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        let long = "\u{61}".repeat(131);
        assert_eq!(signature(&long, "x").len(), 71);
    }

    #[test]
    fn a_webhook_without_address_events_or_secret_is_refused() {
        let check = |entry: Value| Webhook::parse(&entry, &|_| None).unwrap_err();
        assert!(check(serde_json::json!({"events": []})).contains("url"));
        assert!(check(serde_json::json!({"url": "ftp://x", "events": []})).contains("ftp"));
        assert!(check(serde_json::json!({"url": "http://x", "events": ["nope"]})).contains("nope"));
        assert!(
            check(serde_json::json!({"url": "http://x", "events": [], "secret_env": "S"}))
                .contains("variable S")
        );
    }
}
