//! Error classes from what servers answer, in every dialect met so far.
//!
//! The status alone does not say enough: 400 is a malformed request, an input that is too long,
//! an output cap that is too high or a bad key; 429 is a rate or an empty purse; 200 may carry an
//! error. The text decides, and where it does not, the status.

use std::time::Duration;

use hermes_core::ErrorClass;

use crate::json::{self, Kind, Value};

mod overflow;

pub(crate) use overflow::overflow;

/// A refusal, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its class.
    pub class: ErrorClass,
    /// The server's words, shortened; what came instead if it had none.
    pub message: String,
    /// Sizes that it names.
    pub limits: Limits,
    /// How long it asks to wait.
    pub retry_after: Option<Duration>,
}

/// Sizes in tokens that a refusal names. What it does not name stays unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The model's window.
    pub window: Option<u64>,
    /// The input of the request.
    pub input: Option<u64>,
    /// Whether the input may be larger than said ("at least").
    pub input_is_lower_bound: bool,
    /// The output that was asked for.
    pub output: Option<u64>,
    /// The most output that the model can give, where that and not the window was exceeded.
    pub output_cap: Option<u64>,
}

/// The longest message that is kept, in bytes.
const LONGEST: usize = 1500;

/// Understands an answer that is a refusal. `status` is None for an error inside a stream or
/// where a broken connection left none.
pub fn classify(status: Option<u16>, body: &[u8], retry_after: Option<Duration>) -> Failure {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{feff}').trim();
    let parsed = json::parse_prefix(text).ok();
    let said = parsed.as_ref().map(|parsed| Said::find(&parsed.value)).unwrap_or_default();
    let mut status = status;
    // An error in a 200 answer or in a stream carries its status as a code, if at all.
    if status.is_none_or(|status| status < 400)
        && let Some(code @ 400..=599) = said.code.as_deref().and_then(|code| code.parse().ok())
    {
        status = Some(code);
    }

    let message = if !said.message.is_empty() {
        shorten(&said.message)
    } else if let Some(code) = said.code.as_deref().or(said.kind.as_deref()) {
        format!("no message, code {code}")
    } else if text.is_empty() {
        "an empty body".to_owned()
    } else if is_html(text) {
        format!("an HTML page instead of JSON{}", title(text))
    } else if parsed.is_some() {
        shorten(text)
    } else {
        format!("text instead of JSON: {}", shorten(text))
    };
    let words = format!(
        "{} {} {}",
        said.message,
        said.code.as_deref().unwrap_or_default(),
        said.kind.as_deref().unwrap_or_default()
    );
    // Where there is no error object the text itself is all there is, but a page is not.
    let words = if words.trim().is_empty() && !is_html(text) { text.to_owned() } else { words };
    let lower = shorten(&words).to_ascii_lowercase();
    let (class, mut limits) = class_of(status, &lower, is_html(text));
    limits.window = limits.window.or(said.window);
    limits.input = limits.input.or(said.input);
    let retry_after = retry_after.or_else(|| hinted_wait(&lower)).or(said.retry_after);
    Failure { class, message, limits, retry_after }
}

/// The parts of an error object.
#[derive(Default)]
struct Said {
    message: String,
    code: Option<String>,
    kind: Option<String>,
    window: Option<u64>,
    input: Option<u64>,
    retry_after: Option<Duration>,
}

impl Said {
    fn find(value: &Value<'_>) -> Self {
        let mut said = Self::default();
        // Some wrap the object in an array.
        let value = value.items().first().unwrap_or(value);
        if let Kind::String(text) = &value.kind {
            said.message = text.to_string();
            return said;
        }
        let error = match value.get("error") {
            Some(error) if error.is_object() => error,
            Some(Value { kind: Kind::String(text), .. }) => {
                // {"error":"...","message":"..."}: the longer one says more.
                let other = value.get("message").and_then(Value::as_str).unwrap_or_default();
                let text: &str = text;
                let longer = if other.len() > text.len() { other } else { text };
                longer.clone_into(&mut said.message);
                value
            }
            _ => value.get("errors").and_then(|errors| errors.items().first()).unwrap_or(value),
        };
        if said.message.is_empty() {
            said.message = message(error);
        }
        let word = |value: &Value<'_>| match &value.kind {
            Kind::String(text) if !text.is_empty() => Some(text.to_string()),
            Kind::Number => Some(value.raw.to_owned()),
            _ => None,
        };
        said.code = ["code", "status", "status_code"]
            .iter()
            .find_map(|key| error.get(key).and_then(word))
            .or_else(|| value.get("code").and_then(word));
        said.kind = error.get("type").and_then(word).filter(|kind| kind != "error");
        // llama.cpp says it in fields.
        said.window = error.get("n_ctx").and_then(Value::as_u64);
        said.input = error.get("n_prompt_tokens").and_then(Value::as_u64);
        // Google's RetryInfo.
        said.retry_after = error
            .get("details")
            .map(Value::items)
            .unwrap_or_default()
            .iter()
            .find_map(|detail| detail.get("retryDelay").and_then(Value::as_str))
            .and_then(|delay| delay.strip_suffix('s')?.parse().ok())
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        // Routers keep what the upstream said beside their own words.
        if let Some(raw) = error.path(&["metadata", "raw"]).and_then(Value::as_str) {
            let upstream = json::parse_prefix(raw).map_or_else(
                |_| raw.to_owned(),
                |inner| {
                    let inner = Self::find(&inner.value);
                    if inner.message.is_empty() { raw.to_owned() } else { inner.message }
                },
            );
            if said.message.is_empty() {
                said.message = upstream;
            } else if !upstream.is_empty() {
                said.message = format!("{}: {upstream}", said.message);
            }
        }
        said
    }
}

fn message(error: &Value<'_>) -> String {
    for key in ["message", "detail", "msg", "error_message", "error_msg", "description", "title"] {
        match error.get(key).map(|value| (&value.kind, value)) {
            Some((Kind::String(text), _)) if !text.is_empty() => return text.to_string(),
            // FastAPI's list of faults.
            Some((Kind::Array(items), _)) => {
                let faults: Vec<String> = items
                    .iter()
                    .filter_map(|item| {
                        let text = item.get("msg").or_else(|| item.get("message"))?.as_str()?;
                        let place = item.get("loc").map(|loc| loc.raw).unwrap_or_default();
                        Some(format!("{text} {place}"))
                    })
                    .collect();
                if !faults.is_empty() {
                    return faults.join("; ");
                }
            }
            Some((Kind::Object(_), inner)) => return message(inner),
            _ => {}
        }
    }
    String::new()
}

/// `text` is in lower case.
fn class_of(status: Option<u16>, text: &str, html: bool) -> (ErrorClass, Limits) {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let plain = |class| (class, Limits::default());

    if matches!(status, None | Some(..=399 | 400 | 413 | 422 | 500))
        && let Some(found) = overflow(text)
    {
        return found;
    }
    let broke = has(&[
        "insufficient_quota",
        "insufficient quota",
        "insufficient balance",
        "insufficient credit",
        "insufficient funds",
        "insufficient_balance",
        "credit balance is too low",
        "exceeded your current quota",
        "billing",
        "payment required",
        "out of credits",
        "requires more credits",
        "usage limit reached",
        "account balance",
    ]);
    let filtered = has(&[
        "content_filter",
        "content filter",
        "content_policy",
        "content policy",
        "content management policy",
        "flagged",
        "moderation",
        "responsibleaipolicy",
        "prohibited_content",
        "safety",
        "data_inspection_failed",
    ]);
    let no_key = has(&[
        "invalid api key",
        "invalid_api_key",
        "incorrect api key",
        "api key not valid",
        "api key is invalid",
        "invalid x-api-key",
        "no auth credentials",
        "authentication_error",
        "api key not found",
        "missing api key",
        "unauthorized",
    ]);
    let no_model = has(&[
        "model_not_found",
        "model not found",
        "not a valid model",
        "unknown model",
        "no such model",
        "invalid model",
        "unknown_model",
        "model_not_available",
        "does not have access to model",
        "no endpoints found",
        "no models loaded",
    ]) || (text.contains("model")
        && has(&["does not exist", "not found", "is not available", "not exist"]));
    let too_fast = has(&[
        "rate limit",
        "rate_limit",
        "ratelimit",
        "too many requests",
        "tokens per min",
        "resource_exhausted",
    ]);

    match status {
        Some(402) => plain(ErrorClass::Quota),
        // A wait that is named means that the quota fills up again.
        Some(429) if broke && hinted_wait(text).is_none() => plain(ErrorClass::Quota),
        Some(429) => plain(ErrorClass::RateLimit),
        Some(403) if broke => plain(ErrorClass::Quota),
        Some(403) if filtered => plain(ErrorClass::ContentFilter),
        Some(403) if no_model => plain(ErrorClass::NotFound),
        // A page from a shield in front of the server says nothing about the key.
        Some(403) if html => plain(ErrorClass::Server),
        Some(401 | 403) => plain(ErrorClass::Auth),
        Some(300..=399 | 404 | 405 | 410) => plain(ErrorClass::NotFound),
        Some(408) => plain(ErrorClass::Timeout),
        Some(413) => plain(ErrorClass::ContextOverflow),
        // Templates of local servers fail with 500 over a history that they do not like.
        Some(500) if has(&["must alternate", "jinja", "chat template"]) => {
            plain(ErrorClass::BadRequest)
        }
        Some(500..) if too_fast => plain(ErrorClass::RateLimit),
        Some(500..) if no_key => plain(ErrorClass::Auth),
        Some(409 | 425 | 500..) => plain(ErrorClass::Server),
        _ if no_key => plain(ErrorClass::Auth),
        _ if broke => plain(ErrorClass::Quota),
        _ if too_fast => plain(ErrorClass::RateLimit),
        _ if no_model => plain(ErrorClass::NotFound),
        _ if filtered => plain(ErrorClass::ContentFilter),
        Some(400..) => plain(ErrorClass::BadRequest),
        _ if has(&["invalid_request", "invalid request", "bad request"]) => {
            plain(ErrorClass::BadRequest)
        }
        _ if has(&[
            "overloaded",
            "server_error",
            "internal",
            "upstream",
            "unavailable",
            "timeout",
            "timed out",
            "capacity",
        ]) =>
        {
            plain(ErrorClass::Server)
        }
        _ => plain(if html || text.trim().is_empty() {
            ErrorClass::Malformed
        } else {
            ErrorClass::Server
        }),
    }
}

/// A wait that the text names: "try again in 20s", "retry after 1.5 seconds".
fn hinted_wait(text: &str) -> Option<Duration> {
    let rest = ["try again in ", "retry in ", "retry after ", "retry_after "]
        .iter()
        .find_map(|start| text.split_once(start).map(|(_, rest)| rest))?;
    let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, unit) = rest.split_at(digits);
    let number: f64 = number.trim_end_matches('.').parse().ok()?;
    let unit = unit.trim_start();
    let seconds = if unit.starts_with("ms") || unit.starts_with("milli") {
        number / 1000.0
    } else if unit.starts_with('m') {
        number * 60.0
    } else if unit.starts_with('h') {
        number * 3600.0
    } else {
        number
    };
    Duration::try_from_secs_f64(seconds).ok()
}

pub(crate) fn is_html(text: &str) -> bool {
    let head = text.get(..text.floor_char_boundary(64)).unwrap_or_default().to_ascii_lowercase();
    head.starts_with("<!doctype")
        || head.starts_with("<html")
        || head.starts_with("<head")
        || head.starts_with("<body")
        || head.starts_with("<?xml")
}

fn title(html: &str) -> String {
    let lower = html.to_ascii_lowercase();
    let title = lower
        .find("<title>")
        .and_then(|start| html.get(start + 7..))
        .and_then(|rest| rest.split('<').next())
        .map(str::trim)
        .unwrap_or_default();
    if title.is_empty() { String::new() } else { format!(" (\"{}\")", shorten(title)) }
}

/// One line, bounded.
pub(crate) fn shorten(text: &str) -> String {
    let cut = text.floor_char_boundary(LONGEST);
    let mut short: String =
        text.get(..cut).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    if cut < text.len() {
        short.push_str(" ...");
    }
    short
}

#[cfg(test)]
mod tests;
