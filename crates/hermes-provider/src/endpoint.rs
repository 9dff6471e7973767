//! Where a call can be sent.

use std::sync::Arc;
use std::time::Duration;

use hermes_core::{Params, WireProfile};
use secrecy::SecretString;

/// One model at one place.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The provider's name in the configuration.
    pub provider: Arc<str>,
    /// The base, such as `https://api.example.com/v1`; `/chat/completions` is added to its path.
    pub base_url: Arc<str>,
    /// The model's name on the wire.
    pub model: Arc<str>,
    /// Sent as `Authorization: Bearer`.
    pub api_key: Option<SecretString>,
    /// Further headers; one of the same name replaces ours.
    pub headers: Vec<(String, SecretString)>,
    /// Bounds on waiting.
    pub timeouts: Timeouts,
    /// Quirks that decide the bytes.
    pub profile: WireProfile,
    /// Further body fields.
    pub params: Params,
}

/// Bounds on waiting for one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Duration,
    /// From then until the first byte of the reply's body. Generous: a large prompt on a local
    /// model takes minutes before the first token.
    pub first_byte: Duration,
    /// Between two reads of the reply.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_mins(10),
            idle: Duration::from_mins(2),
        }
    }
}

/// The address with everything removed that may be a credential: user info, fragment, and the
/// values of query fields other than `api-version`. This is what the ledger holds.
pub fn public_url(url: &str) -> String {
    let url = url.split('#').next().unwrap_or(url);
    let (path, query) = split_query(url);
    let mut out = without_userinfo(path);
    for (index, field) in query.unwrap_or_default().split('&').enumerate() {
        if field.is_empty() {
            continue;
        }
        out.push(if index == 0 { '?' } else { '&' });
        match field.split_once('=') {
            Some((name, _)) if !name.eq_ignore_ascii_case("api-version") => {
                out.push_str(name);
                out.push_str("=[redacted]");
            }
            _ => out.push_str(field),
        }
    }
    out
}

/// The address of one of an endpoint's paths, query kept, user info taken out (it goes into a
/// header).
pub(crate) fn join_path(base: &str, path: &str) -> String {
    let (front, query) = split_query(base.split('#').next().unwrap_or(base));
    let front = without_userinfo(front);
    let front = front.trim_end_matches('/');
    // People paste the whole address of the endpoint as often as its base.
    let joined = if front.ends_with(path) { front.to_owned() } else { format!("{front}{path}") };
    match query {
        Some(query) => format!("{joined}?{query}"),
        None => joined,
    }
}

/// The credentials in an address: the password, and the values that [`public_url`] takes out.
pub(crate) fn in_address(url: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(info) = userinfo(url) {
        found.push(info.to_owned());
        found.extend(info.split_once(':').map(|(_, password)| password.to_owned()));
    }
    let (_, query) = split_query(url.split('#').next().unwrap_or(url));
    for field in query.unwrap_or_default().split('&') {
        if let Some((name, value)) = field.split_once('=')
            && !name.eq_ignore_ascii_case("api-version")
        {
            found.push(value.to_owned());
        }
    }
    found
}

/// `user:password` of an address that carries them.
pub(crate) fn userinfo(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    authority.rsplit_once('@').map(|(info, _)| info)
}

fn split_query(url: &str) -> (&str, Option<&str>) {
    match url.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (url, None),
    }
}

fn without_userinfo(url: &str) -> String {
    match userinfo(url) {
        Some(info) => url.replacen(&format!("{info}@"), "", 1),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_never_reach_the_recorded_address() {
        for (url, expected) in [
            ("https://user:pw@host/v1", "https://host/v1"),
            (
                "https://host/v1?key=abc&api-version=2",
                "https://host/v1?key=[redacted]&api-version=2",
            ),
            ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1/"),
            ("https://a@b@host/v1#frag", "https://host/v1"),
            ("not a url", "not a url"),
        ] {
            assert_eq!(public_url(url), expected);
        }
        assert_eq!(
            in_address("https://user:pw12@host/v1?api-version=1&k=abc#f"),
            ["user:pw12", "pw12", "abc"]
        );
        assert_eq!(userinfo("https://user:pw@host/v1"), Some("user:pw"));
        assert_eq!(userinfo("https://host/v1/@x"), None);
    }

    #[test]
    fn the_path_goes_before_the_query_and_is_not_added_twice() {
        for (base, expected) in [
            ("http://h/v1", "http://h/v1/chat/completions"),
            ("http://h/v1/", "http://h/v1/chat/completions"),
            ("http://u:p@h/v1?api-version=1", "http://h/v1/chat/completions?api-version=1"),
            ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ] {
            assert_eq!(join_path(base, "/chat/completions"), expected);
        }
    }
}
