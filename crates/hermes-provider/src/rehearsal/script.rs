//! Scripts: ordered replies and faults, in the form of `provider.json` of the public cases.
//!
//! A script is a JSON array. An entry may have:
//!
//! | key | meaning |
//! |---|---|
//! | `kind` | `main`, `summary` or `any`; tells the reader, decides nothing |
//! | `file` | `*.sse`: sent as it is, then the connection ends; `*.http.json`: `{status, headers, body}`; any other: the body of a JSON answer. Beside the script |
//! | `body` | the body: JSON, or text |
//! | `status`, `headers` | of the answer; 200 and none unless given |
//! | `say` | text that is answered as asked, streaming or not |
//! | `think` | reasoning before what is said, in `reasoning_content` |
//! | `call` | `{name, arguments}` or a list of such: tool calls, answered as asked |
//! | `then` | `close`, `reset`, or `{"hang_ms": n}` after what was sent; also as `hang_ms` beside it |
//! | `chunks` | sizes in bytes of the writes; the last one goes on |
//! | `delay_ms` | wait between writes (and before the answer, if there is only one) |
//! | `cache` | `miss`: the simulated prefix cache finds nothing |
//! | `repeat` | how often the entry is played; 1 unless given |
//! | `rule` | with `reasoning_content` in it: 400 unless every assistant message with tool calls has that key; the entry is then not used up |

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::json::{self, Kind, Value};

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// A file of it cannot be read.
    #[error("{}: {why}; hint: files are looked for beside the script", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        why: std::io::Error,
    },
    /// It is not what a script must be.
    #[error("{}:{line}: {why}; hint: a script is a JSON array of objects with keys such as file, body, status, say, call, then", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        why: String,
    },
}

/// Replies and faults to play in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    entries: VecDeque<(Entry, u64)>,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub reply: ScriptedReply,
    pub then: Then,
    pub chunks: Vec<usize>,
    pub delay: Duration,
    pub cache_miss: bool,
    pub demands_reasoning: bool,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptedReply {
    /// Nothing.
    Nothing,
    /// The bytes of an event stream, ended by the end of the connection.
    Stream(Vec<u8>),
    /// A document.
    Document { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// Text and tool calls, in the form that was asked for.
    Say { thought: String, text: String, calls: Vec<(String, String)> },
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The next request.
    KeepAlive,
    /// The clean end of the connection.
    Close,
    /// A reset of the connection.
    Reset,
    /// Silence for so long, then the clean end.
    Hang(Duration),
}

impl Script {
    /// Reads a script and the files that it names.
    ///
    /// # Errors
    /// With file and line.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let text = read(path)?;
        Self::parse(path, &String::from_utf8_lossy(&text))
    }

    /// Reads a script from text; `path` is for messages, and its folder for files.
    ///
    /// # Errors
    /// With file and line.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScriptError> {
        let form = |position: usize, why: String| ScriptError::Form {
            path: path.to_owned(),
            line: line_of(text, position),
            why,
        };
        let parsed =
            json::parse(text).map_err(|error| form(error.position, error.why.to_owned()))?;
        if let Some(problem) = parsed.problems.first() {
            return Err(form(problem.position, problem.what.to_string()));
        }
        let Kind::Array(items) = &parsed.value.kind else {
            return Err(form(0, format!("{}, wanted an array", parsed.value.kind_name())));
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut entries = VecDeque::new();
        for item in items {
            let position = item.raw.as_ptr() as usize - text.as_ptr() as usize;
            let (entry, times) = entry(item, folder).map_err(|fault| match fault {
                Fault::Form(why) => form(position, why),
                Fault::Script(error) => error,
            })?;
            entries.push_back((entry, times));
        }
        Ok(Self { entries })
    }

    /// A script that answers with these texts.
    pub fn saying<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        let entries = texts.into_iter().map(|text| {
            (
                Entry::of(ScriptedReply::Say {
                    thought: String::new(),
                    text: text.into(),
                    calls: Vec::new(),
                }),
                1,
            )
        });
        Self { entries: entries.collect() }
    }

    /// Appends another script.
    pub fn extend(&mut self, other: Self) {
        self.entries.extend(other.entries);
    }

    /// How many entries are left.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it is over.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The next entry for a request; `has_reasoning` is asked only where the entry demands it.
    /// None when the script is over; the refusal, if the entry's rule is broken.
    pub(super) fn next(&mut self, has_reasoning: impl FnOnce() -> bool) -> Option<Entry> {
        let (entry, times) = self.entries.front_mut()?;
        if entry.demands_reasoning && !has_reasoning() {
            return Some(Entry::of(refusal()));
        }
        if *times > 1 {
            *times -= 1;
            return Some(entry.clone());
        }
        self.entries.pop_front().map(|(entry, _)| entry)
    }
}

impl Entry {
    fn of(reply: ScriptedReply) -> Self {
        Self {
            reply,
            then: Then::KeepAlive,
            chunks: Vec::new(),
            delay: Duration::ZERO,
            cache_miss: false,
            demands_reasoning: false,
        }
    }
}

fn refusal() -> ScriptedReply {
    ScriptedReply::Document {
        status: 400,
        headers: Vec::new(),
        body: br#"{"error":{"message":"assistant message with tool_calls lacks reasoning_content (thinking mode)","type":"invalid_request_error"}}"#.to_vec(),
    }
}

enum Fault {
    Form(String),
    Script(ScriptError),
}

fn read(path: &Path) -> Result<Vec<u8>, ScriptError> {
    std::fs::read(path).map_err(|why| ScriptError::Read { path: path.to_owned(), why })
}

fn line_of(text: &str, position: usize) -> usize {
    1 + text.bytes().take(position).filter(|byte| *byte == b'\n').count()
}

const KEYS: [&str; 16] = [
    "kind", "file", "body", "status", "headers", "say", "think", "call", "then", "hang_ms",
    "chunks", "delay_ms", "cache", "repeat", "rule", "note",
];

fn entry(item: &Value<'_>, folder: &Path) -> Result<(Entry, u64), Fault> {
    let fail = |why: String| Err(Fault::Form(why));
    if !item.is_object() {
        return fail(format!("an entry is {}, wanted an object", item.kind_name()));
    }
    if let Some((key, _)) = item.fields().iter().find(|(key, _)| !KEYS.contains(&&**key)) {
        return fail(format!("unknown key \"{key}\""));
    }
    let number = |key: &str| match item.get(key) {
        None => Ok(None),
        Some(value) => value
            .as_u64()
            .map(Some)
            .ok_or_else(|| Fault::Form(format!("{key} is {}, wanted a whole number", value.raw))),
    };
    let status = number("status")?;
    let status = status.map_or(Ok(200), |status| {
        u16::try_from(status)
            .ok()
            .filter(|status| (200..=599).contains(status))
            .ok_or_else(|| Fault::Form(format!("status {status}, wanted 200 to 599")))
    })?;
    let headers = headers(item.get("headers"));
    let (mut then, has_then) = match item.get("then") {
        None => (Then::KeepAlive, false),
        Some(value) => (then(value)?, true),
    };
    if let Some(hang) = number("hang_ms")? {
        then = Then::Hang(Duration::from_millis(hang));
    }
    let reply = if let Some(file) = item.get("file") {
        let Some(name) = file.as_str() else {
            return fail(format!("file is {}, wanted a name", file.raw));
        };
        let path = folder.join(name);
        let bytes = read(&path).map_err(Fault::Script)?;
        if Path::new(name).extension().is_some_and(|extension| extension == "sse") {
            if !has_then && then == Then::KeepAlive {
                then = Then::Close;
            }
            ScriptedReply::Stream(bytes)
        } else if name.ends_with(".http.json") {
            http_file(&path, &bytes).map_err(Fault::Script)?
        } else {
            ScriptedReply::Document { status, headers, body: bytes }
        }
    } else if let Some(body) = item.get("body") {
        ScriptedReply::Document { status, headers, body: body_bytes(body) }
    } else if item.get("say").is_some() || item.get("think").is_some() || item.get("call").is_some()
    {
        let calls = item.get("call");
        let list = match calls {
            Some(one) if one.is_object() => std::slice::from_ref(one),
            Some(many) => many.items(),
            None => &[],
        };
        let calls = list
            .iter()
            .map(|call| {
                let name = call.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                let arguments =
                    call.get("arguments").map_or("{}", |value| value.as_str().unwrap_or(value.raw));
                (name, arguments.to_owned())
            })
            .collect();
        let words = |key| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (thought, text) = (words("think"), words("say"));
        ScriptedReply::Say { thought, text, calls }
    } else if status != 200 {
        ScriptedReply::Document { status, headers, body: Vec::new() }
    } else {
        ScriptedReply::Nothing
    };
    let chunks = match item.get("chunks") {
        None => Vec::new(),
        Some(value) => {
            let one = std::slice::from_ref(value);
            let list = if value.items().is_empty() { one } else { value.items() };
            let sizes: Option<Vec<usize>> = list
                .iter()
                .map(|size| {
                    size.as_u64()
                        .filter(|size| *size > 0)
                        .and_then(|size| usize::try_from(size).ok())
                })
                .collect();
            match sizes {
                Some(sizes) => sizes,
                None => return fail(format!("chunks is {}, wanted sizes above 0", value.raw)),
            }
        }
    };
    let entry = Entry {
        reply,
        then,
        chunks,
        delay: Duration::from_millis(number("delay_ms")?.unwrap_or(0)),
        cache_miss: item.get("cache").and_then(Value::as_str) == Some("miss"),
        demands_reasoning: item
            .get("rule")
            .and_then(Value::as_str)
            .is_some_and(|rule| rule.contains("reasoning_content")),
    };
    Ok((entry, number("repeat")?.unwrap_or(1).max(1)))
}

fn then(value: &Value<'_>) -> Result<Then, Fault> {
    if let Some(hang) = value.get("hang_ms").and_then(Value::as_u64) {
        return Ok(Then::Hang(Duration::from_millis(hang)));
    }
    let word = value.as_str().unwrap_or_default();
    let hang = word.strip_prefix("hang_ms").map(|rest| rest.trim_start_matches([':', '=', ' ']));
    match (word, hang) {
        ("close", _) => Ok(Then::Close),
        ("reset", _) => Ok(Then::Reset),
        // Without a number: longer than anything waits.
        (_, Some("")) => Ok(Then::Hang(Duration::from_hours(1))),
        (_, Some(number)) if number.parse::<u64>().is_ok() => {
            Ok(Then::Hang(Duration::from_millis(number.parse().unwrap_or_default())))
        }
        _ => Err(Fault::Form(format!(
            "then is {}, wanted \"close\", \"reset\" or {{\"hang_ms\": n}}",
            value.raw
        ))),
    }
}

fn headers(value: Option<&Value<'_>>) -> Vec<(String, String)> {
    value
        .map(Value::fields)
        .unwrap_or_default()
        .iter()
        .map(|(name, value)| (name.to_string(), value.as_str().unwrap_or(value.raw).to_owned()))
        // A line end would forge further headers.
        .filter(|(name, value)| !format!("{name}{value}").contains(['\r', '\n']))
        .collect()
}

fn body_bytes(body: &Value<'_>) -> Vec<u8> {
    body.as_str().unwrap_or(body.raw).as_bytes().to_vec()
}

fn http_file(path: &Path, bytes: &[u8]) -> Result<ScriptedReply, ScriptError> {
    let text = String::from_utf8_lossy(bytes);
    let parsed = json::parse(&text).map_err(|error| ScriptError::Form {
        path: path.to_owned(),
        line: line_of(&text, error.position),
        why: error.why.to_owned(),
    })?;
    let status = parsed.value.get("status").and_then(Value::as_u64);
    Ok(ScriptedReply::Document {
        status: status.and_then(|status| u16::try_from(status).ok()).unwrap_or(200),
        headers: headers(parsed.value.get("headers")),
        body: parsed.value.get("body").map(body_bytes).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        Script::parse(Path::new("/scripts/provider.json"), text).unwrap_err().to_string()
    }

    #[test]
    fn faults_in_a_script_are_told_with_file_and_line() {
        for (text, expected) in [
            (
                "[\n {\"say\": \"a\"},\n {\"sya\": 1}\n]",
                "/scripts/provider.json:3: unknown key \"sya\"",
            ),
            (
                "[\n {\"say\": \"a\"}\n {}]",
                "/scripts/provider.json:3: wanted a comma or the end of the array",
            ),
            ("{}", "/scripts/provider.json:1: an object, wanted an array"),
            ("[\n\n{\"status\": 99}]", "/scripts/provider.json:3: status 99, wanted 200 to 599"),
            ("[{\"then\": \"explode\"}]", "/scripts/provider.json:1: then is \"explode\", wanted"),
            (
                "[{\"chunks\": [0]}]",
                "/scripts/provider.json:1: chunks is [0], wanted sizes above 0",
            ),
            ("[{\"file\": \"none.sse\"}]", "/scripts/none.sse: "),
        ] {
            let fault = fault(text);
            assert!(fault.starts_with(expected) && fault.contains("hint: "), "{fault}");
        }
    }

    #[test]
    fn entries_are_played_in_order_and_as_often_as_they_say() {
        let mut script = Script::parse(
            Path::new("p.json"),
            r#"[{"say":"a","repeat":2},{"then":"reset"},{"status":503,"then":{"hang_ms":5}},{"call":{"name":"t","arguments":{"a":1e5}}}]"#,
        )
        .unwrap();
        let mut next = || script.next(|| true);
        let say = |text: &str| ScriptedReply::Say {
            thought: String::new(),
            text: text.into(),
            calls: vec![],
        };
        assert_eq!(next().unwrap().reply, say("a"));
        assert_eq!(next().unwrap().reply, say("a"));
        assert_eq!(next().unwrap().then, Then::Reset);
        assert_eq!(next().unwrap().then, Then::Hang(Duration::from_millis(5)));
        let calls = vec![("t".to_owned(), r#"{"a":1e5}"#.to_owned())];
        assert_eq!(
            next().unwrap().reply,
            ScriptedReply::Say { thought: String::new(), text: String::new(), calls }
        );
        assert_eq!(next(), None);
    }

    #[test]
    fn a_broken_rule_is_refused_and_uses_nothing_up() {
        let text = r#"[{"rule":"400 unless ... reasoning_content key","say":"a"}]"#;
        let mut script = Script::parse(Path::new("p.json"), text).unwrap();
        let refused = script.next(|| false).unwrap();
        assert!(matches!(refused.reply, ScriptedReply::Document { status: 400, .. }));
        assert!(matches!(script.next(|| true).unwrap().reply, ScriptedReply::Say { .. }));
        assert!(script.is_empty());
    }
}
