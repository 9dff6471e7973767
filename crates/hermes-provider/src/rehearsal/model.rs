//! The rehearsal model: a handful of plain requests, understood by their wording, and a fixed
//! kind of reply to everything else. Deterministic.

use super::{capsule, record};
use crate::json::{Kind, Value, write_string};

/// The tool that a recovery uses.
const SEARCH: &str = "session_search";

/// A request as the rehearsal model sees it.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub stream: bool,
    include_usage: bool,
    messages: Vec<Said<'a>>,
    tools: Vec<(String, &'a str)>,
    raw_messages: Vec<&'a str>,
    raw_tools: &'a str,
}

/// One message.
#[derive(Debug)]
struct Said<'a> {
    role: String,
    text: String,
    calls: Vec<Call>,
    answers: Option<String>,
    has_reasoning: bool,
    value: &'a Value<'a>,
}

#[derive(Debug)]
struct Call {
    id: String,
    arguments: String,
}

/// What is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Reasoning; only scripts have any.
    pub thought: String,
    pub text: String,
    /// Name and arguments.
    pub calls: Vec<(String, String)>,
}

/// Token counts to report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub prompt: u64,
    pub cached: u64,
}

impl<'a> Asked<'a> {
    pub(super) fn read(body: &'a Value<'a>) -> Self {
        let flag = |value: Option<&Value<'_>>| {
            value.is_some_and(|value| matches!(value.kind, Kind::Bool(true)))
        };
        let list = body.get("messages").map(Value::items).unwrap_or_default();
        let tools = body.get("tools").map(Value::items).unwrap_or_default();
        Self {
            stream: flag(body.get("stream")),
            include_usage: flag(body.path(&["stream_options", "include_usage"])),
            messages: list.iter().map(Said::read).collect(),
            tools: tools
                .iter()
                .filter_map(|tool| {
                    let name = tool.path(&["function", "name"])?.as_str()?;
                    Some((name.to_owned(), tool.raw))
                })
                .collect(),
            raw_messages: list.iter().map(|message| message.raw).collect(),
            raw_tools: body.get("tools").map(|tools| tools.raw).unwrap_or_default(),
        }
    }

    /// What a provider would put into its cache, in its order.
    pub(super) fn prompt_parts(&self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::once(self.raw_tools.as_bytes())
            .chain(self.raw_messages.iter().map(|message| message.as_bytes()))
    }

    pub(super) fn prompt_bytes(&self) -> usize {
        self.prompt_parts().map(<[u8]>::len).sum()
    }

    /// Whether every assistant message with tool calls has a `reasoning_content` key.
    pub(super) fn has_reasoning(&self) -> bool {
        self.messages.iter().all(|said| said.calls.is_empty() || said.has_reasoning)
    }

    /// Whether the person asks for a miss of the simulated cache: a prefix may be lost under an
    /// unchanged prompt.
    pub(super) fn forgets(&self) -> bool {
        let last = self.messages.iter().rev().find(|said| said.role == "user");
        last.is_some_and(|said| after(&said.text, "forget your cache").is_some())
            && self.messages.last().is_some_and(|said| said.role == "user")
    }

    /// What a strict provider would refuse, in its words.
    pub(super) fn refusal(&self) -> Option<String> {
        if self.messages.is_empty() {
            return Some("messages: at least one message is required".to_owned());
        }
        let mut open: Vec<&str> = Vec::new();
        let mut before = "";
        for (index, said) in self.messages.iter().enumerate() {
            let role = said.role.as_str();
            if role == "tool" {
                let id = said.answers.as_deref().unwrap_or_default();
                let Some(at) = open.iter().position(|open| *open == id) else {
                    return Some(format!(
                        "messages.{index}: unexpected tool_call_id \"{id}\": no tool call of the message before has it"
                    ));
                };
                open.remove(at);
            } else if !open.is_empty() {
                return Some(format!(
                    "messages.{index}: tool calls without results right after them: {}",
                    open.join(", ")
                ));
            }
            match role {
                "system" | "developer" if index == 0 => {}
                "system" | "developer" => {
                    return Some(format!("messages.{index}: {role} is not at the beginning"));
                }
                "user" | "assistant" if before == role => {
                    return Some(format!(
                        "messages.{index}: roles must alternate between user and assistant"
                    ));
                }
                "user" | "assistant" | "tool" => {}
                _ => return Some(format!("messages.{index}: unknown role \"{role}\"")),
            }
            let content = said.value.get("content");
            let is_content =
                content.is_some_and(|value| matches!(value.kind, Kind::String(_) | Kind::Array(_)));
            if !is_content && said.calls.is_empty() {
                return Some(format!("messages.{index}: content is missing"));
            }
            for call in &said.calls {
                let fine = crate::json::parse(&call.arguments)
                    .is_ok_and(|parsed| parsed.problems.is_empty() && parsed.value.is_object());
                if !fine {
                    return Some(format!(
                        "messages.{index}: the arguments of tool call {} are no JSON object",
                        call.id
                    ));
                }
                open.push(&call.id);
            }
            before = role;
        }
        if !open.is_empty() {
            return Some(format!("tool calls without results: {}", open.join(", ")));
        }
        None
    }

    /// The rehearsal model's answer.
    pub(super) fn answer(&self) -> Answer {
        let last = self.messages.last().filter(|said| said.role == "user");
        if let Some(record) = last.and_then(|said| record::write(&said.text)) {
            return Answer::saying(record);
        }
        if let Some(capsule) = last.and_then(|said| capsule::write(&said.text)) {
            return Answer::saying(capsule);
        }
        if let Some(summary) = self.summary() {
            return Answer::saying(summary);
        }
        let results = self.messages.iter().rev().take_while(|said| said.role == "tool").count();
        if results > 0 {
            if let Some(arguments) = self.read_around() {
                return Answer { calls: vec![(SEARCH.to_owned(), arguments)], ..Answer::default() };
            }
            return Answer::saying(self.about_results(results));
        }
        let Some(last) = self.messages.iter().rev().find(|said| said.role == "user") else {
            return Answer::saying(fixed(""));
        };
        // Text that was put behind the person's (recalled memory, hints) comes in paragraphs of
        // its own: the first paragraph with a request in it counts.
        let commands: Vec<Command> = last
            .text
            .split("\n\n")
            .map(|paragraph| paragraph.lines().filter_map(Command::read).collect::<Vec<_>>())
            .find(|commands| !commands.is_empty())
            .unwrap_or_default();
        let mut answer = Answer::default();
        let mut words: Vec<String> = Vec::new();
        for command in commands {
            match command {
                Command::See(text) => words.push(self.see(&text)),
                Command::Recover(text) => {
                    match self.handed_over().filter(|_| self.offers(SEARCH)) {
                        Some(id) => {
                            answer.calls.push((SEARCH.to_owned(), capsule::search(id, &text)));
                        }
                        None => words.push("I can see no capsule to recover from.".to_owned()),
                    }
                }
                Command::Tool { names, arguments } => {
                    match names.iter().find(|name| self.offers(name)) {
                        Some(name) => answer.calls.push(((*name).to_owned(), arguments(name))),
                        None => words.push(format!(
                            "I would need the tool {}, but this request does not offer it.",
                            names.join(" or ")
                        )),
                    }
                }
            }
        }
        answer.text = words.join("\n");
        if answer == Answer::default() {
            answer.text = fixed(&last.text);
        }
        answer
    }

    /// The session that a capsule in this request is about.
    fn handed_over(&self) -> Option<&str> {
        self.messages.iter().find_map(|said| capsule::session(&said.text))
    }

    /// The second step of a recovery: to read around what the first one found.
    fn read_around(&self) -> Option<String> {
        let asked = self.messages.iter().rposition(|said| said.role == "user")?;
        self.messages[asked].text.lines().find(|line| after(line, "recover ").is_some())?;
        // The call and its result, and nothing after it.
        let [_, result] = &self.messages[asked + 1..] else { return None };
        capsule::around(self.handed_over()?, &result.text)
    }

    fn offers(&self, name: &str) -> bool {
        self.tools.iter().any(|(known, _)| known == name)
    }

    fn about_results(&self, count: usize) -> String {
        let results: Vec<String> = self
            .messages
            .iter()
            .rev()
            .take(count)
            .map(|said| {
                format!(
                    "{} characters, beginning \"{}\"",
                    said.text.chars().count(),
                    head(&said.text, 120)
                )
            })
            .collect();
        let results: Vec<String> = results.into_iter().rev().collect();
        format!("The tool answered with {}.", results.join(" and "))
    }

    /// Where a text occurs in the request, apart from the question about it.
    fn see(&self, text: &str) -> String {
        let question = self.messages.iter().rposition(|said| said.role == "user");
        let mut places: Vec<(String, usize)> = Vec::new();
        let mut add = |place: &str, times: usize| {
            if times > 0 {
                match places.iter_mut().find(|(known, _)| known == place) {
                    Some((_, count)) => *count += times,
                    None => places.push((place.to_owned(), times)),
                }
            }
        };
        for (index, said) in self.messages.iter().enumerate() {
            let own = usize::from(Some(index) == question);
            add(&said.role, said.text.matches(text).count().saturating_sub(own));
            for call in &said.calls {
                add("tool call", call.arguments.matches(text).count());
            }
        }
        for (_, raw) in &self.tools {
            add("tool definition", raw.matches(text).count());
        }
        if places.is_empty() {
            return format!("I can see nothing of \"{text}\" in this request but your question.");
        }
        let places: Vec<String> = places
            .into_iter()
            .map(
                |(place, times)| {
                    if times == 1 { place } else { format!("{place} ({times} times)") }
                },
            )
            .collect();
        format!("I can see \"{text}\" in: {}.", places.join(", "))
    }

    /// A summary under five headings, if the request asks for one.
    fn summary(&self) -> Option<String> {
        let asks = |said: &Said<'_>| said.text.contains("five headings");
        let is_first = self.messages.first().is_some_and(|said| said.role != "user" && asks(said));
        if !is_first && !self.messages.last().is_some_and(asks) {
            return None;
        }
        let users: Vec<String> = self
            .messages
            .iter()
            .filter(|said| said.role == "user" && !asks(said))
            .map(|said| format!("- {}", head(&said.text, 100)))
            .collect();
        let users = if users.is_empty() { "- (nothing)".to_owned() } else { users.join("\n") };
        Some(format!(
            "## Goal\nA rehearsed conversation.\n\n## Done\n{users}\n\n## Open\nNone.\n\n## Facts\nWritten by the rehearsal model, which is no language model.\n\n## Next\nNone."
        ))
    }
}

impl Answer {
    fn saying(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl<'a> Said<'a> {
    fn read(value: &'a Value<'a>) -> Self {
        let text = |value: Option<&Value<'_>>| {
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let content = match value.get("content") {
            Some(content) if !content.items().is_empty() => content
                .items()
                .iter()
                .filter_map(|part| part.get("text")?.as_str())
                .collect::<Vec<_>>()
                .join("\n"),
            content => text(content),
        };
        let calls = value.get("tool_calls").map(Value::items).unwrap_or_default();
        Self {
            role: text(value.get("role")),
            text: content,
            calls: calls
                .iter()
                .map(|call| Call {
                    id: text(call.get("id")),
                    arguments: text(call.path(&["function", "arguments"])),
                })
                .collect(),
            answers: value.get("tool_call_id").and_then(Value::as_str).map(str::to_owned),
            has_reasoning: value.get("reasoning_content").is_some(),
            value,
        }
    }
}

/// A request that the rehearsal model understands.
enum Command {
    /// Call the first of these tools that is offered.
    Tool { names: &'static [&'static str], arguments: Box<dyn Fn(&str) -> String> },
    /// Say where a text occurs.
    See(String),
    /// Follow the Recovery block of a capsule.
    Recover(String),
}

impl Command {
    fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        let line = after(line, "please ").unwrap_or(line);
        let tool = |names: &'static [&'static str], fields: Vec<(&'static str, String)>| {
            Some(Self::Tool { names, arguments: Box::new(move |_| object(&fields)) })
        };
        if let Some(text) = after(line, "what can you see of ") {
            return Some(Self::See(unquote(text.trim_end_matches('?')).to_owned()));
        }
        if let Some(rest) = after(line, "recover ") {
            return Some(Self::Recover(unquote(rest).to_owned()));
        }
        if let Some(rest) = after(line, "read the file ").or_else(|| after(line, "read ")) {
            return tool(&["read_file"], vec![("path", first_word(rest)?.to_owned())]);
        }
        if let Some(rest) = after(line, "run the command ").or_else(|| after(line, "run ")) {
            return tool(&["terminal"], vec![("command", unquote(rest).to_owned())]);
        }
        if let Some(rest) = after(line, "remember about me ") {
            return tool(&["memory"], memory("user", rest));
        }
        if let Some(rest) = after(line, "remember that ").or_else(|| after(line, "remember ")) {
            return tool(&["memory"], memory("memory", rest));
        }
        if let Some(rest) = after(line, "load the skill ").or_else(|| after(line, "load skill ")) {
            return tool(&["skill_view"], vec![("name", first_word(rest)?.to_owned())]);
        }
        if let Some(rest) = after(line, "delegate ") {
            let (goal, context) = rest.split_once(" knowing ").unwrap_or((rest, ""));
            let task = object(&[
                ("goal", unquote(goal).to_owned()),
                ("context", unquote(context).to_owned()),
            ]);
            return Some(Self::Tool {
                names: &["delegate_task"],
                arguments: Box::new(move |_| format!("{{\"tasks\":[{task}]}}")),
            });
        }
        if let Some(rest) = after(line, "search sessions for ") {
            return tool(&["session_search"], vec![("query", unquote(rest).to_owned())]);
        }
        if let Some(rest) = after(line, "search for ").or_else(|| after(line, "search ")) {
            let words = unquote(rest).to_owned();
            return Some(Self::Tool {
                names: &["search_files", "session_search"],
                arguments: Box::new(move |name| {
                    let key = if name == "search_files" { "pattern" } else { "query" };
                    object(&[(key, words.clone())])
                }),
            });
        }
        if let Some(rest) = after(line, "write ") {
            let at = rest.rfind(" to ")?;
            let text = unquote(rest.get(..at)?).to_owned();
            let path = first_word(rest.get(at + 4..)?)?.to_owned();
            return tool(&["write_file"], vec![("path", path), ("content", text)]);
        }
        None
    }
}

fn memory(target: &str, content: &str) -> Vec<(&'static str, String)> {
    vec![
        ("action", "add".to_owned()),
        ("target", target.to_owned()),
        ("content", unquote(content).to_owned()),
    ]
}

/// What follows `start`, whose letters may be of either case.
fn after<'t>(line: &'t str, start: &str) -> Option<&'t str> {
    let head = line.get(..start.len())?;
    let rest = line.get(start.len()..)?.trim();
    (head.eq_ignore_ascii_case(start) && !rest.is_empty()).then_some(rest)
}

fn unquote(text: &str) -> &str {
    let text = text.trim();
    ['"', '\'', '`']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(text)
}

/// A file or skill name: quoted, or up to the first blank, without the sentence's punctuation.
fn first_word(text: &str) -> Option<&str> {
    let text = text.trim();
    for quote in ['"', '\'', '`'] {
        if let Some(rest) = text.strip_prefix(quote) {
            return rest.split(quote).next();
        }
    }
    let word = text.split_whitespace().next()?.trim_end_matches([',', ';', '!', '?', ':']);
    let word = word
        .strip_suffix('.')
        .filter(|word| !word.is_empty() && !word.ends_with('.'))
        .unwrap_or(word);
    (!word.is_empty()).then_some(word)
}

fn object(fields: &[(&'static str, String)]) -> String {
    let mut out = String::from("{");
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(&mut out, name);
        out.push(':');
        write_string(&mut out, value);
    }
    out.push('}');
    out
}

fn head(text: &str, characters: usize) -> String {
    let short: String = text.chars().take(characters).collect();
    let short = short.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().nth(characters).is_some() { format!("{short} ...") } else { short }
}

fn fixed(text: &str) -> String {
    format!(
        "I am the rehearsal model: a small program, no language model. I read \"{}\" and understand only \
         these requests: read FILE, run COMMAND, remember TEXT, load skill NAME, search WORDS, \
         write TEXT to FILE, delegate TASK, what can you see of TEXT. To talk to a model, run `hermes setup`.",
        head(text, 80)
    )
}

/// The answer as one JSON document.
pub(super) fn document(answer: &Answer, number: u64, counts: Counts) -> Vec<u8> {
    let mut out = opening(number, "chat.completion");
    out.push_str("\"message\":{\"role\":\"assistant\",\"content\":");
    write_string(&mut out, &answer.text);
    if !answer.thought.is_empty() {
        out.push_str(",\"reasoning_content\":");
        write_string(&mut out, &answer.thought);
    }
    if !answer.calls.is_empty() {
        out.push_str(",\"tool_calls\":[");
        for (index, (name, arguments)) in answer.calls.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push('{');
            out.push_str(&call_head(number, index));
            out.push_str("\"function\":{\"name\":");
            write_string(&mut out, name);
            out.push_str(",\"arguments\":");
            write_string(&mut out, arguments);
            out.push_str("}}");
        }
        out.push(']');
    }
    out.push_str("},\"finish_reason\":\"");
    out.push_str(finish(answer));
    out.push_str("\"}],");
    out.push_str(&usage(answer, counts));
    out.push('}');
    out.into_bytes()
}

/// The answer as the events of a stream, each with its blank line.
pub(super) fn events(
    answer: &Answer,
    asked: &Asked<'_>,
    number: u64,
    counts: Counts,
) -> Vec<Vec<u8>> {
    let mut events = Vec::new();
    let mut delta = |inside: &str, finish: Option<&str>| {
        let mut out = String::from("data: ");
        out.push_str(&opening(number, "chat.completion.chunk"));
        out.push_str("\"delta\":{");
        out.push_str(inside);
        out.push_str("},\"finish_reason\":");
        match finish {
            Some(word) => write_string(&mut out, word),
            None => out.push_str("null"),
        }
        out.push_str("}]}\n\n");
        events.push(out.into_bytes());
    };
    delta("\"role\":\"assistant\",\"content\":\"\"", None);
    for piece in pieces(&answer.thought) {
        let mut inside = String::from("\"reasoning_content\":");
        write_string(&mut inside, piece);
        delta(&inside, None);
    }
    for piece in pieces(&answer.text) {
        let mut inside = String::from("\"content\":");
        write_string(&mut inside, piece);
        delta(&inside, None);
    }
    for (index, (name, arguments)) in answer.calls.iter().enumerate() {
        let mut inside = format!("\"tool_calls\":[{{\"index\":{index},");
        inside.push_str(&call_head(number, index));
        inside.push_str("\"function\":{\"name\":");
        write_string(&mut inside, name);
        inside.push_str(",\"arguments\":\"\"}}]");
        delta(&inside, None);
        let middle = arguments.floor_char_boundary(arguments.len() / 2);
        let (front, back) = arguments.split_at(middle);
        for piece in [front, back] {
            let mut inside =
                format!("\"tool_calls\":[{{\"index\":{index},\"function\":{{\"arguments\":");
            write_string(&mut inside, piece);
            inside.push_str("}}]");
            delta(&inside, None);
        }
    }
    delta("", Some(finish(answer)));
    if asked.include_usage {
        let mut out = format!(
            "data: {{\"id\":\"rehearsal-{number}\",\"object\":\"chat.completion.chunk\",\"created\":{number},\"model\":\"rehearsal\",\"choices\":[],"
        );
        out.push_str(&usage(answer, counts));
        out.push_str("}\n\n");
        events.push(out.into_bytes());
    }
    events.push(b"data: [DONE]\n\n".to_vec());
    events
}

fn opening(number: u64, object: &str) -> String {
    format!(
        "{{\"id\":\"rehearsal-{number}\",\"object\":\"{object}\",\"created\":{number},\"model\":\"rehearsal\",\"choices\":[{{\"index\":0,"
    )
}

fn call_head(number: u64, index: usize) -> String {
    format!("\"id\":\"call_{number}_{index}\",\"type\":\"function\",")
}

const fn finish(answer: &Answer) -> &'static str {
    if answer.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn usage(answer: &Answer, counts: Counts) -> String {
    let calls: usize =
        answer.calls.iter().map(|(name, arguments)| name.len() + arguments.len()).sum();
    let written = super::cache::tokens(answer.text.len() + calls).max(1);
    let Counts { prompt, cached } = counts;
    format!(
        "\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{written},\"total_tokens\":{},\"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}}}",
        prompt + written
    )
}

/// The text in pieces of a few words.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let least = rest.floor_char_boundary(16);
        let end = rest
            .get(least..)
            .and_then(|tail| tail.find(char::is_whitespace))
            .map_or(rest.len(), |at| rest.ceil_char_boundary(least + at + 1));
        let (piece, tail) = rest.split_at(end);
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

#[cfg(test)]
mod tests;
