//! Reading settings: what each type accepts, and what is said when it does not.
//!
//! The type of a setting decides what its text means: `off` is a truth value for a switch and a
//! word for a mode. A value that cannot be understood is a problem, never a silent default.

use std::collections::BTreeMap;
use std::path::Path;

use secrecy::SecretString;

use super::approvals;
use crate::vars::Vars;
use crate::yaml::{self, Datum, Entry, Node, Value};
use crate::{Place, Problem};

/// A key in the file that this version does not use. It stays in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKey {
    /// The dotted key.
    pub key: String,
    /// Where it stands.
    pub at: Place,
    /// Whether Hermes Agent knows it, so that it is no slip of the pen.
    pub foreign: bool,
    /// The nearest key that is used.
    pub nearest: Option<String>,
}

/// What a setting's value is, for messages and for `config set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On or off.
    Switch,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A secret text.
    Secret,
    /// A list or mapping.
    Structure,
}

/// A setting with its effective value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The dotted key.
    pub key: String,
    /// The value; of a secret only whether it is set, as the text `[set]`.
    pub value: Datum,
    /// What kind of value it takes.
    pub kind: Kind,
}

/// The state of one reading.
pub(crate) struct Reader<'a> {
    pub file: &'a Path,
    pub vars: &'a Vars,
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
    pub unknown: Vec<UnknownKey>,
    pub places: BTreeMap<String, Place>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a Path, vars: &'a Vars) -> Self {
        Self {
            file,
            vars,
            problems: Vec::new(),
            warnings: Vec::new(),
            unknown: Vec::new(),
            places: BTreeMap::new(),
        }
    }

    /// A value that cannot be understood. Settings of looks alone do not stop the start.
    pub(crate) fn reject(&mut self, node: &Node, key: &str, what: String, hint: &str) {
        let problem = Problem::at(self.file, node.at, key, what, hint);
        if key.starts_with("display.") {
            self.warnings.push(Problem {
                what: format!("{}; the default is used", problem.what),
                ..problem
            });
        } else {
            self.problems.push(problem);
        }
    }

    pub(crate) fn warn(&mut self, node: &Node, key: &str, what: String, hint: &str) {
        self.warnings.push(Problem::at(self.file, node.at, key, what, hint));
    }

    /// The entries of a mapping; none for nothing; a problem for anything else.
    pub(crate) fn entries<'n>(&mut self, node: &'n Node, key: &str) -> &'n [Entry] {
        match &node.value {
            Value::Map { entries, .. } => entries,
            _ if node.is_null() => &[],
            _ => {
                let what = format!("{} stands where a mapping is wanted", node.kind());
                self.reject(
                    node,
                    key,
                    what,
                    "write `name: value` lines below it, indented by two spaces",
                );
                &[]
            }
        }
    }

    /// Notes a key that no setting has taken.
    pub(crate) fn leftover(
        &mut self,
        prefix: &str,
        entry: &Entry,
        fields: &[&str],
        foreign: &[&str],
    ) {
        let key = join(prefix, &entry.key);
        let foreign = foreign.contains(&entry.key.as_str());
        if !foreign && approvals::could_be_rule(prefix, &entry.key) {
            self.lost_rule(entry, key);
            return;
        }
        let before = self.problems.len();
        self.lost_rules(&entry.value, &key);
        if self.problems.len() > before {
            return;
        }
        let nearest = (!foreign)
            .then(|| nearest(&entry.key, fields.iter().copied()))
            .flatten()
            .map(|near| join(prefix, near));
        self.unknown.push(UnknownKey { key, at: entry.key_at, foreign, nearest });
    }

    /// A key that could be a rule and is none stops the start.
    fn lost_rule(&mut self, entry: &Entry, key: String) {
        self.problems.push(Problem::at(
            self.file,
            entry.key_at,
            key,
            "this key is not known, and it could be a rule about what may run",
            "the rules are approvals.deny, approvals.allow and command_allowlist, at the start of a line or below `approvals:`; correct the name or remove the key",
        ));
    }

    /// Rules inside a part of the file that nothing reads.
    fn lost_rules(&mut self, node: &Node, key: &str) {
        match &node.value {
            Value::Scalar { .. } => {}
            Value::List { items, .. } => {
                for (index, item) in items.iter().enumerate() {
                    self.lost_rules(item, &join(key, &index.to_string()));
                }
            }
            Value::Map { entries, .. } => {
                for entry in entries {
                    let name = join(key, &entry.key);
                    if approvals::forbids(&entry.key) {
                        self.lost_rule(entry, name);
                    } else {
                        self.lost_rules(&entry.value, &name);
                    }
                }
            }
        }
    }

    /// The text of a scalar with its `${NAME}` references resolved.
    pub(crate) fn expand(&mut self, node: &Node, key: &str, text: &str) -> String {
        let (expanded, missing) = self.vars.expand(text);
        for name in missing {
            self.warn(
                node,
                key,
                format!("${{{name}}} is not set; the reference stays as it is"),
                "set the variable in .env or in the environment",
            );
        }
        expanded
    }
}

/// A value that can be read over its default.
pub(crate) trait Read {
    /// Takes the value of a node and tells whether it did. Nothing (`null`) leaves the default.
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool;

    /// Lists the value under its key.
    fn list(&self, key: &str, out: &mut Vec<Setting>);
}

pub(crate) fn join(prefix: &str, key: &str) -> String {
    let key = if key.is_empty() || key.contains(['.', '"']) {
        Datum::Text(key.to_owned()).to_json()
    } else {
        key.to_owned()
    };
    if prefix.is_empty() { key } else { format!("{prefix}.{key}") }
}

fn scalar<'n>(
    node: &'n Node,
    key: &str,
    wanted: &str,
    reader: &mut Reader<'_>,
) -> Option<(&'n str, bool)> {
    match &node.value {
        _ if node.is_null() => None,
        Value::Scalar { text, plain } => Some((text, *plain)),
        Value::List { .. } | Value::Map { .. } => {
            let what = format!("{} stands where {wanted} is wanted", node.kind());
            reader.reject(node, key, what, "write the value behind the colon");
            None
        }
    }
}

impl Read for bool {
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
        let Some((text, plain)) = scalar(node, key, "true or false", reader) else {
            return false;
        };
        let value = match text {
            "1" => Some(true),
            "0" => Some(false),
            word => yaml::boolean(word),
        };
        let Some(value) = value else {
            let what = format!("\"{}\" is neither true nor false", shorten(text));
            reader.reject(node, key, what, "write true or false");
            return false;
        };
        *self = value;
        if !plain || matches!(text, "0" | "1") {
            let what = format!("\"{text}\" is read as {value}");
            reader.warn(node, key, what, &format!("write {value} without quotes"));
        }
        true
    }

    fn list(&self, key: &str, out: &mut Vec<Setting>) {
        out.push(Setting { key: key.to_owned(), value: Datum::Bool(*self), kind: Kind::Switch });
    }
}

/// Reads a number from its text; `1_000` and quoted numbers are understood.
fn number<T: std::str::FromStr + std::fmt::Display>(
    target: &mut T,
    wanted: &str,
    node: &Node,
    key: &str,
    reader: &mut Reader<'_>,
) -> bool {
    let Some((text, plain)) = scalar(node, key, wanted, reader) else { return false };
    let expanded = reader.expand(node, key, text);
    let mut digits = expanded.trim().replace('_', "");
    // `180.0` for a whole number.
    if let Some((whole, fraction)) = digits.split_once('.')
        && !whole.is_empty()
        && fraction.bytes().all(|b| b == b'0')
        && digits.parse::<T>().is_err()
    {
        digits = whole.to_owned();
    }
    if let Ok(value) = digits.parse::<T>() {
        if !plain {
            let what = format!("the text \"{}\" is read as the number {value}", shorten(text));
            reader.warn(node, key, what, "write the number without quotes");
        }
        *target = value;
        true
    } else {
        let what = format!("\"{}\" is not {wanted}", shorten(text));
        reader.reject(node, key, what, &format!("write {wanted}"));
        false
    }
}

macro_rules! read_number {
    ($($ty:ty => $wanted:literal),* $(,)?) => {$(
        impl Read for $ty {
            fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
                number(self, $wanted, node, key, reader)
            }

            fn list(&self, key: &str, out: &mut Vec<Setting>) {
                let value = Datum::Number(self.to_string());
                out.push(Setting { key: key.to_owned(), value, kind: Kind::Number });
            }
        }
    )*};
}

read_number! {
    u32 => "a whole number",
    u64 => "a whole number",
    usize => "a whole number",
}

impl Read for f64 {
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
        let before = *self;
        let taken = number(self, "a number", node, key, reader);
        if self.is_finite() && *self >= 0.0 {
            return taken;
        }
        *self = before;
        let what = "the number must be finite and not below 0".to_owned();
        reader.reject(node, key, what, "write a number");
        false
    }

    fn list(&self, key: &str, out: &mut Vec<Setting>) {
        let value = Datum::Number(format!("{self:?}"));
        out.push(Setting { key: key.to_owned(), value, kind: Kind::Number });
    }
}

impl Read for String {
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
        let Some((text, _)) = scalar(node, key, "a text", reader) else { return false };
        *self = reader.expand(node, key, text);
        true
    }

    fn list(&self, key: &str, out: &mut Vec<Setting>) {
        let value = Datum::Text(self.clone());
        out.push(Setting { key: key.to_owned(), value, kind: Kind::Text });
    }
}

impl Read for Option<SecretString> {
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
        let Some((text, _)) = scalar(node, key, "a text", reader) else { return false };
        let value = reader.expand(node, key, text);
        if value.trim().contains(char::is_control) {
            let what = "the value holds a line end or another control character".to_owned();
            reader.reject(node, key, what, "write it on one line, as it was given to you");
            return false;
        }
        *self = (!value.trim().is_empty()).then(|| SecretString::from(value.trim().to_owned()));
        self.is_some()
    }

    fn list(&self, key: &str, out: &mut Vec<Setting>) {
        let value = if self.is_some() { Datum::Text("[set]".to_owned()) } else { Datum::Null };
        out.push(Setting { key: key.to_owned(), value, kind: Kind::Secret });
    }
}

macro_rules! read_option {
    ($($ty:ty: $kind:expr),* $(,)?) => {$(
        impl Read for Option<$ty> {
            fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
                let mut value = <$ty>::default();
                let taken = value.read(node, key, reader);
                if taken {
                    *self = Some(value);
                }
                taken
            }

            fn list(&self, key: &str, out: &mut Vec<Setting>) {
                match self {
                    Some(value) => value.list(key, out),
                    None => out.push(Setting { key: key.to_owned(), value: Datum::Null, kind: $kind }),
                }
            }
        }
    )*};
}

read_option! {
    bool: Kind::Switch,
    u32: Kind::Number,
    u64: Kind::Number,
    usize: Kind::Number,
    f64: Kind::Number,
    String: Kind::Text,
}

/// A list that may be stored as the text of a list (`'["a", "b"]'`): the items, or None when it is
/// nothing or was rejected.
pub(crate) fn items(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Vec<Node>> {
    let text = match &node.value {
        _ if node.is_null() => return None,
        Value::List { items, .. } => return Some(items.clone()),
        Value::Map { .. } => {
            reader.reject(
                node,
                key,
                "a mapping stands where a list is wanted".to_owned(),
                "begin each item with \"- \"",
            );
            return None;
        }
        Value::Scalar { text, .. } => text.trim(),
    };
    // The original's `config set` could store a list as its text.
    if text.starts_with('[')
        && let Ok(document) = yaml::parse(text)
        && let Some(Node { value: Value::List { mut items, .. }, .. }) = document.root
    {
        for item in &mut items {
            move_to(item, node.at);
        }
        reader.warn(
            node,
            key,
            format!("a list of {} is stored as a text; it is read as the list", items.len()),
            &format!("store it as a list: hermes config set {key} '{}'", shorten(text)),
        );
        return Some(items);
    }
    let what = format!("\"{}\" is not a list", shorten(text));
    reader.reject(
        node,
        key,
        what,
        "write a list: [\"first\", \"second\"], or one \"- item\" a line",
    );
    None
}

fn move_to(node: &mut Node, at: Place) {
    node.at = at;
    match &mut node.value {
        Value::Scalar { .. } => {}
        Value::List { items, .. } => items.iter_mut().for_each(|item| move_to(item, at)),
        Value::Map { entries, .. } => entries.iter_mut().for_each(|entry| {
            entry.key_at = at;
            move_to(&mut entry.value, at);
        }),
    }
}

impl Read for Vec<String> {
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
        if node.is_null() && key == "approvals.deny" {
            reader.warn(
                node,
                key,
                "there is no rule behind this key (comments do not count), so nothing is denied"
                    .to_owned(),
                "write each rule on a line of its own: - \"rm *\"; or [] for none",
            );
        }
        let Some(items) = items(node, key, reader) else { return false };
        let mut read = Self::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match &item.value {
                Value::Scalar { text, .. } if !item.is_null() && !text.trim().is_empty() => {
                    read.push(text.clone());
                }
                _ => {
                    let key = format!("{key}[{index}]");
                    let what = format!(
                        "{} stands where a text is wanted",
                        if item.is_empty_text() { "an empty text" } else { item.kind() }
                    );
                    reader.reject(item, &key, what, "write a text; put it in quotes if it holds \": \" or starts with a special character");
                }
            }
        }
        *self = read;
        true
    }

    fn list(&self, key: &str, out: &mut Vec<Setting>) {
        let value = Datum::List(self.iter().cloned().map(Datum::Text).collect());
        out.push(Setting { key: key.to_owned(), value, kind: Kind::Structure });
    }
}

/// Whether a text can be the name of a header (RFC 9110, a token).
fn is_header_name(name: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.bytes().all(token)
}

/// A mapping of texts: the headers of a request.
impl Read for BTreeMap<String, String> {
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
        for entry in reader.entries(node, key) {
            let mut value = String::new();
            let name = join(key, &entry.key);
            value.read(&entry.value, &name, reader);
            if !is_header_name(&entry.key) {
                reader.problems.push(Problem::at(
                    reader.file,
                    entry.key_at,
                    name,
                    "this is no name of a header",
                    "use letters, digits and hyphens, such as X-Title",
                ));
                continue;
            }
            if value.contains(|c: char| c.is_control() && c != '\t') {
                let what = "the value holds a line end or another control character".to_owned();
                reader.reject(&entry.value, &name, what, "write the header's value on one line");
                continue;
            }
            self.insert(entry.key.clone(), value);
        }
        true
    }

    fn list(&self, key: &str, out: &mut Vec<Setting>) {
        let value = Datum::Map(
            self.iter().map(|(name, text)| (name.clone(), Datum::Text(text.clone()))).collect(),
        );
        out.push(Setting { key: key.to_owned(), value, kind: Kind::Structure });
    }
}

/// A part of the file that is kept as it is for the crate that understands it.
impl Read for Datum {
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
        if node.is_null() {
            return false;
        }
        let body = key == "extra_body" || key.ends_with(".extra_body");
        if body && !matches!(node.value, Value::Map { .. }) {
            let what = format!("{} stands where a mapping is wanted", node.kind());
            reader.reject(node, key, what, "write the fields of the body as `name: value`");
            return false;
        }
        *self = Self::of(node);
        true
    }

    fn list(&self, key: &str, out: &mut Vec<Setting>) {
        out.push(Setting { key: key.to_owned(), value: self.clone(), kind: Kind::Structure });
    }
}

/// The start of a value, enough to recognise it.
pub(crate) fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    let text = &*crate::redact::redact(text);
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    format!("{}...", text.chars().take(SHOWN).collect::<String>())
}

/// The candidate that differs from `word` in the fewest places, if it is near enough to be meant.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl Iterator<Item = &'c str>,
) -> Option<&'c str> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    candidates
        .map(|candidate| (distance(&word.to_lowercase(), candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours between two words.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

/// Declares a section of settings: the struct, its defaults, how it is read and listed. Keys under
/// `foreign` are Hermes Agent's and not used here; they are no slips of the pen. `prepare` may bring
/// other forms of the section into the usual one.
macro_rules! section {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( $(#[$field_meta:meta])* $field:ident: $ty:ty = $default:expr, )*
        }
        foreign: [ $( $foreign:literal ),* $(,)? ]
        $( prepare: $prepare:path )?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $ty, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $name {
            const FIELDS: &[&str] = &[ $( stringify!($field), )* ];
            const FOREIGN: &[&str] = &[ $( $foreign, )* ];
        }

        impl $crate::config::read::Read for $name {
            fn read(
                &mut self,
                node: &$crate::yaml::Node,
                key: &str,
                reader: &mut $crate::config::read::Reader<'_>,
            ) -> bool {
                $( let node = &$prepare(node); )?
                for entry in reader.entries(node, key) {
                    let name = $crate::config::read::join(key, &entry.key);
                    match entry.key.as_str() {
                        $(
                            stringify!($field) => {
                                reader.places.insert(name.clone(), entry.key_at);
                                let node = &entry.value;
                                $crate::config::read::Read::read(&mut self.$field, node, &name, reader);
                            }
                        )*
                        _ => reader.leftover(key, entry, Self::FIELDS, Self::FOREIGN),
                    }
                }
                true
            }

            fn list(&self, key: &str, out: &mut Vec<$crate::config::read::Setting>) {
                $(
                    $crate::config::read::Read::list(
                        &self.$field,
                        &$crate::config::read::join(key, stringify!($field)),
                        out,
                    );
                )*
            }
        }
    };
}
pub(crate) use section;
