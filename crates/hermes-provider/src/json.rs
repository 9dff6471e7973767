//! A tolerant JSON reader that keeps the raw text, and the string writer of the wire.
//!
//! `serde_json` loses a whole reply to one raw control character, `NaN`, lone surrogate or byte
//! order mark, and rewrites numbers; this reader notes such things as problems and goes on. It
//! never panics and never recurses deeper than [`MAX_DEPTH`].

use std::borrow::Cow;
use std::fmt;

/// Deeper nesting is refused; a hostile server could otherwise exhaust the stack.
pub(crate) const MAX_DEPTH: u32 = 128;

/// A value and the text it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value<'a> {
    /// The text as it came.
    pub raw: &'a str,
    /// What it says.
    pub kind: Kind<'a>,
}

/// What a value is. Numbers stay text: nothing here may re-format them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    Null,
    Bool(bool),
    Number,
    String(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
}

/// Something that is not JSON, or not wise, but could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub what: Oddity,
    /// Byte offset.
    pub position: usize,
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oddity {
    ByteOrderMark,
    RawControl,
    TrailingComma,
    LoneSurrogate,
    BadEscape,
    NotANumber,
    DuplicateKey,
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByteOrderMark => "a byte order mark",
            Self::RawControl => "a raw control character in a string",
            Self::TrailingComma => "a trailing comma",
            Self::LoneSurrogate => "half a surrogate pair",
            Self::BadEscape => "an escape that JSON does not know",
            Self::NotANumber => "a number that JSON does not know (NaN or Infinity)",
            Self::DuplicateKey => "a key that occurs twice in one object",
        })
    }
}

/// Text that cannot be read as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonError {
    /// Byte offset where it goes wrong.
    pub position: usize,
    /// In words.
    pub why: &'static str,
    /// The text is over before the value is: what there is of it is fine.
    pub at_end: bool,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.why, self.position)
    }
}

/// A value, and what was odd about its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed<'a> {
    pub value: Value<'a>,
    pub problems: Vec<Problem>,
    /// Where the value ends.
    pub end: usize,
}

/// Reads a text that holds one value and nothing else.
pub(crate) fn parse(text: &str) -> Result<Parsed<'_>, JsonError> {
    let parsed = parse_prefix(text)?;
    let rest = text.get(parsed.end..).unwrap_or_default();
    let blank = rest.len() - rest.trim_start().len();
    if blank < rest.len() {
        return Err(JsonError {
            position: parsed.end + blank,
            why: "further text after the value",
            at_end: false,
        });
    }
    Ok(parsed)
}

/// Reads the first value of a text.
pub(crate) fn parse_prefix(text: &str) -> Result<Parsed<'_>, JsonError> {
    let mut reader = Reader { text, at: 0, depth: 0, problems: Vec::new() };
    if text.starts_with('\u{feff}') {
        reader.note(Oddity::ByteOrderMark);
        reader.at = '\u{feff}'.len_utf8();
    }
    let value = reader.value()?;
    Ok(Parsed { value, problems: reader.problems, end: reader.at })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn note(&mut self, what: Oddity) {
        // A text full of the same fault needs no list of every place.
        if self.problems.len() < 64 {
            self.problems.push(Problem { what, position: self.at });
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn fail<T>(&self, why: &'static str) -> Result<T, JsonError> {
        let at_end = self.at >= self.text.len();
        let why = if at_end { "the text ends in the middle of a value" } else { why };
        Err(JsonError { position: self.at, why, at_end })
    }

    fn value(&mut self) -> Result<Value<'a>, JsonError> {
        self.blank();
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"') => Kind::String(self.string()?),
            Some(b't') => self.word("true", Kind::Bool(true))?,
            Some(b'f') => self.word("false", Kind::Bool(false))?,
            Some(b'n') => self.word("null", Kind::Null)?,
            Some(b'N') => self.not_a_number("NaN")?,
            Some(b'I') => self.not_a_number("Infinity")?,
            Some(b'-') if self.rest().starts_with("-I") => self.not_a_number("-Infinity")?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => return self.fail("a character that begins no value"),
        };
        Ok(Value { raw: self.text.get(start..self.at).unwrap_or_default(), kind })
    }

    fn nested(
        &mut self,
        read: fn(&mut Self) -> Result<Kind<'a>, JsonError>,
    ) -> Result<Kind<'a>, JsonError> {
        if self.depth == MAX_DEPTH {
            return self.fail("nested too deeply");
        }
        self.depth += 1;
        self.at += 1;
        let kind = read(self)?;
        self.depth -= 1;
        Ok(kind)
    }

    fn object(&mut self) -> Result<Kind<'a>, JsonError> {
        let mut fields: Vec<(Cow<'a, str>, Value<'a>)> = Vec::new();
        loop {
            self.blank();
            match self.peek() {
                Some(b'}') => {
                    if !fields.is_empty() {
                        self.note(Oddity::TrailingComma);
                    }
                    self.at += 1;
                    return Ok(Kind::Object(fields));
                }
                Some(b'"') => {}
                _ => return self.fail("wanted a key in double quotes"),
            }
            let key_at = self.at;
            let key = self.string()?;
            // The bound keeps a hostile object from costing the square of its size.
            if fields.iter().take(4096).any(|(known, _)| *known == key) {
                let now = std::mem::replace(&mut self.at, key_at);
                self.note(Oddity::DuplicateKey);
                self.at = now;
            }
            self.blank();
            if self.peek() != Some(b':') {
                return self.fail("wanted a colon after the key");
            }
            self.at += 1;
            let value = self.value()?;
            fields.push((key, value));
            self.blank();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Kind::Object(fields));
                }
                _ => return self.fail("wanted a comma or the end of the object"),
            }
        }
    }

    fn array(&mut self) -> Result<Kind<'a>, JsonError> {
        let mut items = Vec::new();
        loop {
            self.blank();
            if self.peek() == Some(b']') {
                if !items.is_empty() {
                    self.note(Oddity::TrailingComma);
                }
                self.at += 1;
                return Ok(Kind::Array(items));
            }
            items.push(self.value()?);
            self.blank();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Kind::Array(items));
                }
                _ => return self.fail("wanted a comma or the end of the array"),
            }
        }
    }

    fn word(&mut self, word: &str, kind: Kind<'a>) -> Result<Kind<'a>, JsonError> {
        let rest = self.rest();
        if rest.starts_with(word) {
            self.at += word.len();
            // `nullx` is no value.
            if self.peek().is_some_and(|next| next.is_ascii_alphanumeric()) {
                return self.fail("a word that JSON does not know");
            }
            return Ok(kind);
        }
        if word.starts_with(rest) {
            self.at = self.text.len();
        }
        self.fail("a word that JSON does not know")
    }

    fn not_a_number(&mut self, word: &str) -> Result<Kind<'a>, JsonError> {
        let start = self.at;
        let kind = self.word(word, Kind::Null)?;
        let end = std::mem::replace(&mut self.at, start);
        self.note(Oddity::NotANumber);
        self.at = end;
        Ok(kind)
    }

    fn number(&mut self) -> Result<Kind<'a>, JsonError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.fail("wanted a digit"),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Ok(Kind::Number)
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Result<(), JsonError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return self.fail("wanted a digit");
        }
        self.digits();
        Ok(())
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let mut owned: Option<String> = None;
        let mut run = self.at;
        loop {
            let Some(byte) = self.peek() else {
                return self.fail("");
            };
            match byte {
                b'"' => {
                    let tail = self.text.get(run..self.at).unwrap_or_default();
                    self.at += 1;
                    return Ok(match owned {
                        Some(mut text) => {
                            text.push_str(tail);
                            Cow::Owned(text)
                        }
                        None => Cow::Borrowed(tail),
                    });
                }
                b'\\' => {
                    let text = owned.get_or_insert_default();
                    text.push_str(self.text.get(run..self.at).unwrap_or_default());
                    let character = self.escape()?;
                    match character {
                        Some(character) => {
                            text.push(character);
                            run = self.at;
                        }
                        // Unknown: the backslash stays a backslash.
                        None => run = self.at - 1,
                    }
                }
                0..0x20 => {
                    self.note(Oddity::RawControl);
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
    }

    /// Reads an escape; None leaves the reader behind its backslash.
    fn escape(&mut self) -> Result<Option<char>, JsonError> {
        let start = self.at;
        self.at += 1;
        let Some(byte) = self.peek() else {
            return self.fail("");
        };
        let character = match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(start),
            _ => {
                self.at = start;
                self.note(Oddity::BadEscape);
                self.at = start + 1;
                return Ok(None);
            }
        };
        self.at += 1;
        Ok(Some(character))
    }

    fn unicode(&mut self, start: usize) -> Result<Option<char>, JsonError> {
        let Some(first) = hex4(self.rest().get(1..).unwrap_or_default()) else {
            let rest = self.rest().get(1..).unwrap_or_default();
            if rest.len() < 4 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                self.at = self.text.len();
                return self.fail("");
            }
            self.at = start;
            self.note(Oddity::BadEscape);
            self.at = start + 1;
            return Ok(None);
        };
        self.at += 5;
        if let Some(character) = char::from_u32(u32::from(first)) {
            return Ok(Some(character));
        }
        if let 0xd800..0xdc00 = first
            && let Some(low) = self.rest().strip_prefix("\\u").and_then(hex4)
            && let 0xdc00..0xe000 = low
        {
            self.at += 6;
            return Ok(Some(pair(first, low)));
        }
        let end = std::mem::replace(&mut self.at, start);
        self.note(Oddity::LoneSurrogate);
        self.at = end;
        Ok(Some(char::REPLACEMENT_CHARACTER))
    }
}

fn hex4(text: &str) -> Option<u16> {
    let digits = text.get(..4)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16).ok()
}

fn pair(high: u16, low: u16) -> char {
    let code = 0x1_0000 + ((u32::from(high) & 0x3ff) << 10) + (u32::from(low) & 0x3ff);
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

impl<'a> Value<'a> {
    /// The field of an object; where a key is repeated, the last one.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        match &self.kind {
            Kind::Object(fields) => {
                fields.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// A field of a field of ...
    pub fn path(&self, keys: &[&str]) -> Option<&Value<'a>> {
        keys.iter().try_fold(self, |value, key| value.get(key))
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            Kind::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn items(&self) -> &[Value<'a>] {
        match &self.kind {
            Kind::Array(items) => items,
            _ => &[],
        }
    }

    pub fn fields(&self) -> &[(Cow<'a, str>, Value<'a>)] {
        match &self.kind {
            Kind::Object(fields) => fields,
            _ => &[],
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    pub fn is_object(&self) -> bool {
        matches!(self.kind, Kind::Object(_))
    }

    /// A count: a whole number, also where it is written with a fraction of zero, an exponent or
    /// in quotes.
    pub fn as_u64(&self) -> Option<u64> {
        let text = match &self.kind {
            Kind::Number => self.raw,
            Kind::String(text) => text.trim(),
            _ => return None,
        };
        text.parse().ok().or_else(|| {
            let number: f64 = text.parse().ok()?;
            ((0.0..9e15).contains(&number) && number.fract() == 0.0).then_some(number as u64)
        })
    }

    /// What kind of value it is, in words.
    pub const fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Number => "a number",
            Kind::String(_) => "a string",
            Kind::Array(_) => "an array",
            Kind::Object(_) => "an object",
        }
    }

    /// The value as strict JSON: key order and numbers as they came, strings escaped anew.
    pub fn to_strict(&self) -> String {
        let mut out = String::with_capacity(self.raw.len());
        self.write_strict(&mut out);
        out
    }

    fn write_strict(&self, out: &mut String) {
        match &self.kind {
            Kind::Null => out.push_str("null"),
            Kind::Bool(true) => out.push_str("true"),
            Kind::Bool(false) => out.push_str("false"),
            Kind::Number => out.push_str(self.raw),
            Kind::String(text) => write_string(out, text),
            Kind::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write_strict(out);
                }
                out.push(']');
            }
            Kind::Object(fields) => {
                out.push('{');
                for (index, (key, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_string(out, key);
                    out.push(':');
                    value.write_strict(out);
                }
                out.push('}');
            }
        }
    }
}

/// Writes `text` as a JSON string.
pub(crate) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    escape_into(out, text);
    out.push('"');
}

/// Writes `text` with JSON's escapes, without quotes. Only what must be escaped is: quote,
/// backslash and the characters below U+0020, the short forms where there are any. Escaping
/// works character by character, so escaping pieces and joining them is escaping the whole.
pub(crate) fn escape_into(out: &mut String, text: &str) {
    /// Bytes that are looked at together: most have nothing to escape, and a compiler makes a few
    /// instructions of the question whether that is so.
    const STRIDE: usize = 32;
    let needs = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let mut run = 0;
    for (index, stride) in text.as_bytes().chunks(STRIDE).enumerate() {
        if !stride.iter().fold(false, |any, byte| any | needs(*byte)) {
            continue;
        }
        for (at, byte) in (index * STRIDE..).zip(stride) {
            if needs(*byte) {
                out.push_str(text.get(run..at).unwrap_or_default());
                escape_byte(out, *byte);
                run = at + 1;
            }
        }
    }
    out.push_str(text.get(run..).unwrap_or_default());
}

/// One of the characters that must be escaped.
fn escape_byte(out: &mut String, byte: u8) {
    const HEX: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    out.push_str(match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        b'\n' => "\\n",
        b'\r' => "\\r",
        b'\t' => "\\t",
        0x08 => "\\b",
        0x0c => "\\f",
        _ => {
            out.push_str("\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 0xf)]);
            return;
        }
    });
}

/// Joins strings that arrive in fragments, where a surrogate pair may be split between two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Joiner {
    high: Option<u16>,
}

impl Joiner {
    /// The text that `value` adds. Half a pair at its end waits for the next fragment.
    pub fn push(&mut self, value: &Value<'_>) -> String {
        let Some(text) = value.as_str() else { return String::new() };
        if text.is_empty() {
            return String::new();
        }
        let mut out = String::with_capacity(text.len());
        let mut text = text;
        if let Some(high) = self.high.take() {
            let low = value.raw.strip_prefix("\"\\u").and_then(hex4);
            if let Some(low @ 0xdc00..0xe000) = low {
                out.push(pair(high, low));
                text = text.strip_prefix(char::REPLACEMENT_CHARACTER).unwrap_or(text);
            } else {
                out.push(char::REPLACEMENT_CHARACTER);
            }
        }
        if let Some(high) = trailing_high(value.raw)
            && let Some(head) = text.strip_suffix(char::REPLACEMENT_CHARACTER)
        {
            self.high = Some(high);
            text = head;
        }
        out.push_str(text);
        out
    }

    /// What is left when no fragment will follow.
    pub fn finish(&mut self) -> &'static str {
        if self.high.take().is_some() { "\u{fffd}" } else { "" }
    }
}

/// The lone high surrogate that a raw string ends with.
fn trailing_high(raw: &str) -> Option<u16> {
    let body = raw.strip_suffix('"')?;
    let cut = body.len().checked_sub(6)?;
    let high = body.get(cut..)?.strip_prefix("\\u").and_then(hex4)?;
    let slashes = body.get(..cut)?.bytes().rev().take_while(|byte| *byte == b'\\').count();
    (matches!(high, 0xd800..0xdc00) && slashes % 2 == 0).then_some(high)
}

#[cfg(test)]
mod tests;
