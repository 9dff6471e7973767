//! Who may run what. This section is read more strictly than the others: a rule that cannot be
//! understood, or a key that could be a mistyped rule, stops the start.

use crate::yaml::{Datum, Node, Value};

use super::read::{self, Kind, Read, Reader, Setting};

/// When commands are asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalMode {
    /// A model decides, and asks where it is not sure.
    #[default]
    Smart,
    /// The person is always asked.
    Manual,
    /// Nothing is asked; the hard floor and `deny` still hold.
    Off,
}

impl ApprovalMode {
    /// The word in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Smart => "smart",
            Self::Manual => "manual",
            Self::Off => "off",
        }
    }
}

impl Read for ApprovalMode {
    fn read(&mut self, node: &Node, key: &str, reader: &mut Reader<'_>) -> bool {
        *self = match &node.value {
            _ if node.is_null() => return false,
            Value::Scalar { text, .. } if text.eq_ignore_ascii_case("smart") => Self::Smart,
            Value::Scalar { text, .. } if text.eq_ignore_ascii_case("manual") => Self::Manual,
            // Programs that follow YAML 1.1 write and read `off` as false.
            Value::Scalar { text, .. }
                if matches!(&*text.to_ascii_lowercase(), "off" | "false") =>
            {
                Self::Off
            }
            Value::Scalar { text, .. } => {
                let what = format!("\"{}\" is no approval mode", read::shorten(text));
                reader.reject(node, key, what, "write smart, manual or off");
                return false;
            }
            Value::List { .. } | Value::Map { .. } => {
                let what = format!("{} stands where an approval mode is wanted", node.kind());
                reader.reject(node, key, what, "write smart, manual or off");
                return false;
            }
        };
        true
    }

    fn list(&self, key: &str, out: &mut Vec<Setting>) {
        let value = Datum::Text(self.as_str().to_owned());
        out.push(Setting { key: key.to_owned(), value, kind: Kind::Text });
    }
}

read::section! {
    /// Who may run what.
    ApprovalsConfig {
        /// When commands are asked about.
        mode: ApprovalMode = ApprovalMode::Smart,
        /// Seconds to wait for the person; then the answer is no.
        timeout: u64 = 300,
        /// `deny` or `approve` in scheduled runs.
        cron_mode: String = "deny".to_owned(),
        /// `deny` or `approve` in one-shot runs without a terminal.
        single_query_mode: String = "deny".to_owned(),
        /// `deny` or `approve` where nobody is there.
        unattended_mode: String = "deny".to_owned(),
        /// What the deciding model is told besides.
        smart_policy: String = String::new(),
        /// Denials in a row after which the turn stops; 0 for never.
        denial_breaker_threshold: u32 = 3,
        /// Patterns of commands that never run.
        deny: Vec<String> = Vec::new(),
        /// Exact commands that run unasked. (No such key in the original.)
        allow: Vec<String> = Vec::new(),
        /// Whether reloading MCP servers is asked about.
        mcp_reload_confirm: bool = true,
        /// Whether slash commands that lose something are asked about.
        destructive_slash_confirm: bool = true,
    }
    foreign: []
}

/// Whether an unused key could be a rule that somebody meant: then it must not be passed over.
pub(crate) fn could_be_rule(prefix: &str, key: &str) -> bool {
    let word = key.to_lowercase();
    let near = |wanted: &str| read::distance(&word, wanted) <= 2;
    let here = match prefix {
        "" => near("approvals") || word.starts_with("approvals.") || near("command_allowlist"),
        "approvals" => {
            near("deny") || near("allow") || word.contains("deny") || word.contains("allow")
        }
        _ => false,
    };
    here || forbids(key)
}

/// Names under which people look for the deny list; alone they say so.
const FORBIDDING: &[&str] = &[
    "ban",
    "banned",
    "blacklist",
    "block",
    "blocked",
    "blocklist",
    "denied",
    "deny",
    "denylist",
    "disallow",
    "disallowed",
    "forbid",
    "forbidden",
    "never",
];

/// Of these, what says so inside a longer name too.
const FORBIDDING_PARTS: &[&str] =
    &["deny", "denylist", "denied", "blacklist", "blocklist", "forbid", "forbidden", "disallow"];

/// What such names are about.
const FORBIDDEN: &[&str] =
    &["bash", "cmd", "cmds", "command", "commands", "exec", "run", "shell", "terminal"];

/// Whether a key forbids something, wherever it stands: `deny`, `denny`, `command_blocklist`.
pub(crate) fn forbids(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key).to_lowercase();
    let whole: String = last.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    // One slip of the pen in a word that is long enough for it; `den`, `many` are other words.
    let slip = |wanted: &str| {
        whole.len() > 4 && wanted.len() > 3 && read::distance(&plain(&whole), wanted) <= 1
    };
    let words: Vec<String> = last.split(|c: char| !c.is_ascii_alphanumeric()).map(plain).collect();
    let is = |word: &String, known: &[&str]| known.contains(&word.as_str());
    FORBIDDING.contains(&plain(&whole).as_str())
        // `commandDenylist`
        || ["denylist", "blocklist", "blacklist"].iter().any(|wanted| whole.contains(wanted))
        || ["deny", "denylist", "blocklist", "forbid"].iter().any(|wanted| slip(wanted))
        || words.iter().any(|word| is(word, FORBIDDING_PARTS))
        || (words.iter().any(|word| is(word, FORBIDDING))
            && words.iter().any(|word| is(word, FORBIDDEN)))
}
