//! From an answer's head to a reply: tells a stream from a document whatever was asked for, keeps
//! the time limits, hands out deltas.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hermes_core::{Env, ErrorClass, Timestamp};
use tokio::time::{Instant, timeout_at};

use crate::transport::{body_failure, failure, no_answer};
use crate::{Assembly, Endpoint, Failure, Fragment, SseEvent, SseParser, classify, json};

/// The largest document, in bytes.
const LARGEST: usize = 64 << 20;

/// The largest stream, in bytes: a token takes a few hundred, with all that is around it.
const LARGEST_STREAM: usize = 256 << 20;

/// How much of a refusal is read.
const LARGEST_REFUSAL: usize = 256 << 10;

/// How long usage may follow the finish reason, where the server does not say that it is done.
const AFTER_FINISH: Duration = Duration::from_secs(5);

/// How long the end of the body may follow `[DONE]`, so that the connection can be used again.
const AFTER_DONE: Duration = Duration::from_millis(20);

/// A stream that sends nothing but keep-alive comments is given up after so many idle times.
const PATIENCE: u32 = 10;

/// What is known of an answer besides its reply.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub first_byte_at: Option<Timestamp>,
    pub assembly: Assembly,
}

/// Reads the refusal in an answer with an error status.
pub(crate) async fn refusal(
    mut response: reqwest::Response,
    endpoint: &Endpoint,
    env: &dyn Env,
    received: &mut Received,
) -> Failure {
    let status = response.status().as_u16();
    let header = |name: &str| {
        response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let retry_after = header("retry-after-ms")
        .and_then(|text| text.trim().parse().ok().map(Duration::from_millis))
        .or_else(|| header("retry-after").and_then(|text| parse_retry_after(&text, env.now())));
    let location = header("location");
    let mut body = Vec::new();
    // One bound for all of it: a server that sends a byte now and then is no longer waited for.
    let deadline = Instant::now() + endpoint.timeouts.idle;
    while body.len() < LARGEST_REFUSAL {
        match timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(bytes))) => {
                received.first_byte_at.get_or_insert_with(|| env.now());
                body.extend_from_slice(&bytes);
            }
            // What came is what there is to go by.
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    let mut failure = classify(Some(status), &body, retry_after);
    if let Some(location) = location.filter(|_| (300..400).contains(&status)) {
        let place = crate::endpoint::public_url(&location);
        failure.message = format!("a redirect to {place}, which is not followed");
    }
    failure.message = format!("HTTP {status}: {}", failure.message);
    failure
}

/// Reads a document whole.
pub(crate) async fn document(
    mut response: reqwest::Response,
    endpoint: &Endpoint,
) -> Result<Vec<u8>, Failure> {
    let deadline = Instant::now() + endpoint.timeouts.first_byte;
    let mut body = Vec::new();
    loop {
        let piece =
            timeout_at(deadline, response.chunk()).await.map_err(|_| no_answer(endpoint))?;
        match piece.map_err(|error| body_failure(&error))? {
            Some(bytes) if body.len() + bytes.len() > LARGEST => return Err(too_large(LARGEST)),
            Some(bytes) => body.extend_from_slice(&bytes),
            None => return Ok(body),
        }
    }
}

fn too_large(limit: usize) -> Failure {
    failure(ErrorClass::Malformed, format!("an answer of more than {limit} bytes"))
}

/// Reads a reply to its end. What was received stays in `received`, also when it breaks off.
pub(crate) async fn reply(
    mut response: reqwest::Response,
    endpoint: &Endpoint,
    env: &dyn Env,
    received: &mut Received,
    on: &mut (dyn FnMut(Fragment<'_>) + Send),
) -> Result<(), Failure> {
    let content_type = response
        .headers()
        .get(reqwest::header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_ascii_lowercase();
    let mut body = Body::new(&content_type);
    let first_deadline = Instant::now() + endpoint.timeouts.first_byte;
    let mut last_event = Instant::now();
    let ended = loop {
        let assembly = &received.assembly;
        let now = Instant::now();
        let deadline = if received.first_byte_at.is_none() {
            first_deadline
        } else if assembly.is_done() {
            now + AFTER_DONE
        } else if assembly.has_finish() {
            now + AFTER_FINISH.min(endpoint.timeouts.idle)
        } else {
            let patience = last_event + endpoint.timeouts.idle.saturating_mul(PATIENCE);
            (now + endpoint.timeouts.idle).min(patience)
        };
        match timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(bytes))) => {
                received.first_byte_at.get_or_insert_with(|| env.now());
                if body.push(&bytes, &mut received.assembly, on)? {
                    last_event = Instant::now();
                }
            }
            Ok(Ok(None)) => break Ok(()),
            Ok(Err(error)) => break Err(body_failure(&error)),
            Err(_) if received.first_byte_at.is_none() => break Err(no_answer(endpoint)),
            Err(_) => {
                let idle = endpoint.timeouts.idle;
                let alive = last_event.elapsed() >= idle.saturating_mul(PATIENCE);
                let (what, time) = if alive {
                    ("nothing but signs of life", idle.saturating_mul(PATIENCE))
                } else {
                    ("nothing more", idle)
                };
                break Err(failure(
                    ErrorClass::Timeout,
                    format!("the answer stopped: {what} came within {} s", time.as_secs_f64()),
                ));
            }
        }
    };
    // After the finish reason the reply is whole, however the connection ended.
    let assembly = &mut received.assembly;
    let whole = |assembly: &Assembly| assembly.is_done() || assembly.has_finish();
    if whole(assembly) || ended.is_ok() {
        body.finish(assembly, on)?;
    }
    assembly.flush(on);
    if whole(assembly) { Ok(()) } else { ended }
}

/// A body whose kind shows with its first byte.
struct Body {
    declared_stream: bool,
    kind: BodyKind,
    /// Bytes so far, and how many a document and a stream may have.
    length: usize,
    limits: (usize, usize),
    /// What came first, for the error message if it turns out to be no reply.
    head: Vec<u8>,
}

enum BodyKind {
    Unknown(Vec<u8>),
    Stream(SseParser),
    Document(Vec<u8>),
}

impl Body {
    fn new(content_type: &str) -> Self {
        Self {
            declared_stream: content_type.contains("event-stream"),
            kind: BodyKind::Unknown(Vec::new()),
            length: 0,
            limits: (LARGEST, LARGEST_STREAM),
            head: Vec::new(),
        }
    }

    /// Takes the next bytes; whether they completed anything.
    fn push(
        &mut self,
        bytes: &Bytes,
        assembly: &mut Assembly,
        on: &mut (dyn FnMut(Fragment<'_>) + Send),
    ) -> Result<bool, Failure> {
        let room = 512usize.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(bytes.get(..room).unwrap_or_default());
        self.length = self.length.saturating_add(bytes.len());
        let limit = match self.kind {
            BodyKind::Stream(_) => self.limits.1,
            BodyKind::Unknown(_) | BodyKind::Document(_) => self.limits.0,
        };
        if self.length > limit {
            return Err(too_large(limit));
        }
        match &mut self.kind {
            BodyKind::Unknown(held) => {
                held.extend_from_slice(bytes);
                let held = std::mem::take(held);
                let text = held.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&held);
                let first = text.iter().find(|byte| !byte.is_ascii_whitespace()).copied();
                // A byte order mark may be cut, too.
                let is_stream = match first {
                    None => None,
                    Some(0xef) if held.len() < 3 => None,
                    Some(b'{' | b'[' | b'<') => Some(false),
                    Some(_) if self.declared_stream => Some(true),
                    // Whatever it was declared as.
                    Some(_) => looks_like_events(text.trim_ascii_start()),
                };
                match is_stream {
                    None => {
                        self.kind = BodyKind::Unknown(held);
                        Ok(false)
                    }
                    Some(true) => {
                        let mut parser = SseParser::default();
                        let result = events(&mut parser, &held, assembly, on);
                        self.kind = BodyKind::Stream(parser);
                        result
                    }
                    Some(false) => {
                        self.kind = BodyKind::Document(held);
                        Ok(true)
                    }
                }
            }
            BodyKind::Stream(parser) => events(parser, bytes, assembly, on),
            BodyKind::Document(document) => {
                document.extend_from_slice(bytes);
                Ok(true)
            }
        }
    }

    /// The body is over.
    fn finish(
        &mut self,
        assembly: &mut Assembly,
        on: &mut (dyn FnMut(Fragment<'_>) + Send),
    ) -> Result<(), Failure> {
        match std::mem::replace(&mut self.kind, BodyKind::Unknown(Vec::new())) {
            BodyKind::Stream(mut parser) => {
                let mut found = Vec::new();
                parser.finish(&mut |event| found.push(event));
                for event in found {
                    take(&event, assembly, on)?;
                }
                if assembly.has_begun() { Ok(()) } else { Err(no_reply(&self.head)) }
            }
            BodyKind::Document(bytes) | BodyKind::Unknown(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let mut rest = text.trim_start_matches('\u{feff}').trim();
                if !rest.starts_with(['{', '[']) {
                    return Err(no_reply(&bytes));
                }
                // One document, or one to a line.
                let mut only = true;
                while !rest.is_empty() {
                    let end = json::parse_prefix(rest).map_or(rest.len(), |parsed| parsed.end);
                    let (document, after) = rest.split_at(end);
                    rest = after.trim_start();
                    if only && rest.is_empty() {
                        assembly.feed_document(document, on)?;
                    } else {
                        assembly.feed(document, on)?;
                    }
                    only = false;
                }
                Ok(())
            }
        }
    }
}

fn events(
    parser: &mut SseParser,
    bytes: &[u8],
    assembly: &mut Assembly,
    on: &mut (dyn FnMut(Fragment<'_>) + Send),
) -> Result<bool, Failure> {
    let mut any = false;
    let mut result = Ok(());
    parser.push(bytes, &mut |event| {
        any = true;
        if result.is_ok() {
            result = take(&event, assembly, on);
        }
    });
    assembly.note_all(parser.take_problems());
    result.map(|()| any)
}

fn take(
    event: &SseEvent,
    assembly: &mut Assembly,
    on: &mut (dyn FnMut(Fragment<'_>) + Send),
) -> Result<(), Failure> {
    // An error object without the `error` key around it.
    if event.name == "error" && !assembly.has_finish() && !assembly.is_done() {
        return Err(classify(None, event.data.as_bytes(), None));
    }
    assembly.feed(&event.data, on)
}

/// Whether a body that is no JSON begins like a stream; None if that is not to be seen yet.
fn looks_like_events(text: &[u8]) -> Option<bool> {
    let fields: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
    if fields.iter().any(|field| text.starts_with(field)) {
        return Some(true);
    }
    if fields.iter().any(|field| field.starts_with(text)) { None } else { Some(false) }
}

/// A 200 answer that is no reply: an HTML page, nothing at all, a line of text.
fn no_reply(bytes: &[u8]) -> Failure {
    let found = classify(Some(200), bytes, None);
    failure(ErrorClass::Malformed, format!("an answer that is no reply: {}", found.message))
}

/// `Retry-After`: seconds, or a date.
fn parse_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(parse_http_date(text)?);
    let now = SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(now.0).ok()?);
    Some(at.duration_since(now).unwrap_or_default())
}

/// Seconds since the epoch of an IMF-fixdate such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110).
fn parse_http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split(' ');
    let day: u64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = 1 + MONTHS.iter().position(|name| *name == month)? as u64;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut clock = words.next()?.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if day > 31 || hour > 24 || minute > 60 || second > 60 {
        return None;
    }
    // Days from the civil date, years beginning in March (Hinnant's algorithm).
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (y / 400, y % 400);
    let day_of_year = (153 * m + 2) / 5 + day.checked_sub(1)?;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year;
    Some(days.checked_sub(719_468)? * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_both_forms() {
        assert_eq!(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(parse_http_date("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
        assert_eq!(parse_http_date("nonsense"), None);
        let far = u64::MAX;
        assert_eq!(parse_http_date(&format!("Sun, {far} Nov 1994 08:49:37 GMT")), None);
        assert_eq!(parse_http_date(&format!("Sun, 06 Nov 1994 {far}:49:37 GMT")), None);
        let now = Timestamp::from_seconds(784_111_770);
        let read = |text| parse_retry_after(text, now);
        assert_eq!(read("7"), Some(Duration::from_secs(7)));
        assert_eq!(read("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(7)));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:00 GMT"), Some(Duration::ZERO));
        assert_eq!(read("-1"), None);
        assert_eq!(read("soon"), None);
    }

    #[test]
    fn a_stream_is_read_whatever_it_is_declared_as() {
        let stream = concat!(
            "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n",
            "data: [DONE]\n\n"
        );
        for declared in ["application/json", "text/html", "text/plain", ""] {
            for step in [1, 3, 1000] {
                let mut body = Body::new(declared);
                let mut assembly = Assembly::default();
                for piece in stream.as_bytes().chunks(step) {
                    let piece = Bytes::copy_from_slice(piece);
                    assert!(body.push(&piece, &mut assembly, &mut |_| {}).is_ok());
                }
                assert!(body.finish(&mut assembly, &mut |_| {}).is_ok(), "{declared}");
                assembly.flush(&mut |_| {});
                assert_eq!(assembly.finish("r", &[]).unwrap().text, "hi", "{declared} {step}");
            }
        }
        let mut body = Body::new("application/json");
        let text = Bytes::from_static(b"error: no");
        assert!(body.push(&text, &mut Assembly::default(), &mut |_| {}).is_ok());
        assert!(body.finish(&mut Assembly::default(), &mut |_| {}).is_err());
    }

    #[test]
    fn a_body_without_end_is_given_up_whatever_it_is() {
        let check = |piece: &'static str, limits, pieces: usize| {
            let mut body = Body { limits, ..Body::new("") };
            let mut assembly = Assembly::default();
            let bytes = Bytes::from_static(piece.as_bytes());
            let failed = (1..20).find(|_| body.push(&bytes, &mut assembly, &mut |_| {}).is_err());
            assert_eq!(failed, Some(pieces), "{piece:?}");
        };
        check("          ", (50, 1000), 6);
        check("{         ", (50, 1000), 6);
        check(": comment\n", (50, 80), 9);
    }
}
