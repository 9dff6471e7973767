//! Which side does not fit the window: the input, or the output that was asked for.
//!
//! Only an input that does not fit is a reason to compact. Where the output cap is what breaks
//! the sum, lowering it is cheaper and loses nothing.

use hermes_core::ErrorClass;

use super::Limits;

/// Any of these means that something does not fit.
const TOO_LONG: &[&str] = &[
    "context length",
    "context_length",
    "context window",
    "context size",
    "context_size",
    "context limit",
    "context the overflows",
    "context overflow",
    "prompt is too long",
    "prompt too long",
    "prompt exceeds",
    "input is too long",
    "input too long",
    "too many tokens",
    "too many input tokens",
    "input token count",
    "range of input length",
    "maximum prompt length",
    "model token limit",
    "reduce the length",
    "request too large",
    "request_too_large",
    "string_above_max_length",
    "tokens to keep from the initial prompt",
    "max_new_tokens` must be",
    "got -",
];

/// The output side, and words that say that it is too much.
const OUTPUT: &[&str] = &[
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "output tokens",
    "completion tokens",
];
const TOO_MUCH: &[&str] = &[
    "too large",
    "too high",
    "exceed",
    " > ",
    "at most",
    "range of max_tokens",
    "maximum allowed",
    "less than or equal",
];

/// `text` is in lower case.
pub(crate) fn overflow(text: &str) -> Option<(ErrorClass, Limits)> {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let too_long = has(TOO_LONG) && (!text.contains("got -") || has(OUTPUT));
    let cap_too_high = has(OUTPUT) && has(TOO_MUCH);
    if !too_long && !cap_too_high {
        return None;
    }
    let limits = sizes(text);
    let class = match limits {
        // The input alone is over.
        Limits { window: Some(window), input: Some(input), .. } if input >= window => {
            ErrorClass::ContextOverflow
        }
        Limits { output: Some(1..), .. } => ErrorClass::OutputOverflow,
        _ if cap_too_high && !too_long => ErrorClass::OutputOverflow,
        _ => ErrorClass::ContextOverflow,
    };
    Some((class, limits))
}

fn sizes(text: &str) -> Limits {
    let after = |marks: &[&str]| marks.iter().find_map(|mark| number_after(text, mark));
    let before = |marks: &[&str]| marks.iter().find_map(|mark| number_before(text, mark));
    let mut limits = Limits {
        window: after(&[
            "maximum context length is",
            "maximum context length of",
            "context length is only",
            "context length of only",
            "context length of",
            "available context size (",
            "maximum number of tokens allowed (",
            "maximum prompt length is",
            "model token limit:",
            "context window of",
            "context limit of",
            "must be <=",
        ])
        .or_else(|| before(&[" maximum context length"])),
        input: before(&[
            " input tokens",
            " in the messages",
            " in your prompt",
            " of text input",
            " `inputs` tokens",
            " prompt tokens",
        ])
        .or_else(|| {
            after(&[
                "messages resulted in",
                "input token count (",
                "request contains",
                "prompt is too long:",
                "prompt contains",
            ])
        }),
        input_is_lower_bound: text.contains("at least"),
        output: before(&[
            " output tokens",
            " in the completion",
            " in the output",
            " `max_new_tokens`",
        ])
        .or_else(|| after(&["is too large:"])),
        output_cap: before(&[" completion tokens"])
            .or_else(|| after(&["range of max_tokens should be [1, "])),
    };
    // "188240 + 21333 > 200000": input, output, window.
    if let Some((left, right)) = text.split_once(" > ") {
        let (input, output) = left.rsplit_once(" + ").unwrap_or((left, ""));
        match (last_number(input), last_number(output), first_number(right)) {
            (Some(input), Some(output), Some(window)) => {
                limits = Limits {
                    window: Some(window),
                    input: Some(input),
                    output: Some(output),
                    input_is_lower_bound: false,
                    output_cap: None,
                };
            }
            // "prompt is too long: 210345 tokens > 200000 maximum".
            (Some(input), None, Some(window)) if text.contains("prompt is too long") => {
                limits.input = Some(input);
                limits.window = Some(window);
            }
            // "max_tokens: 100000 > 8192": the cap of the output, not the window.
            (Some(output), None, Some(cap))
                if left.contains("max_tokens") && limits.output.is_none() =>
            {
                limits.output = Some(output);
                limits.output_cap = Some(cap);
            }
            _ => {}
        }
    }
    // A prompt given in characters is no count of tokens.
    if text.contains(" characters") && number_before(text, " characters") == limits.input {
        limits.input = None;
    }
    if text.contains("upper bound for 0 input tokens") {
        limits.input = None;
    }
    limits
}

fn number_after(text: &str, mark: &str) -> Option<u64> {
    let (_, rest) = text.split_once(mark)?;
    // Only a number that stands right there.
    let near = rest.get(..rest.floor_char_boundary(24)).unwrap_or_default();
    let start = near.find(|c: char| c.is_ascii_digit())?;
    first_number(rest.get(start..)?)
}

fn number_before(text: &str, mark: &str) -> Option<u64> {
    text.match_indices(mark).find_map(|(at, _)| {
        let front = text.get(..at)?;
        front.ends_with(|c: char| c.is_ascii_digit()).then(|| last_number(front))?
    })
}

/// The number at or after the start, `1,234` included.
fn first_number(text: &str) -> Option<u64> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let rest = text.get(start..)?;
    let mut digits = String::new();
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '0'..='9' => digits.push(c),
            ',' if chars.peek().is_some_and(char::is_ascii_digit) => {}
            _ => break,
        }
    }
    digits.parse().ok()
}

fn last_number(text: &str) -> Option<u64> {
    let end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let front = text.get(..end)?;
    let start = front.rfind(|c: char| !c.is_ascii_digit() && c != ',').map_or(0, |at| {
        at + front.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
    });
    first_number(front.get(start..)?)
}
