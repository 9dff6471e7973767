//! A plugin's manifest, `plugin.yaml`, and the version gate `requires_hermes`.

use std::path::Path;

use hermes_home::yaml::{self, Datum};
use serde_json::Value;

/// The version of Hermes Agent whose plugin interface is offered; `requires_hermes` is held against
/// it, and it is what the package `hermes-agent` says its version is.
pub const COMPATIBLE_VERSION: &str = "0.22.2";

/// The most bytes of a manifest.
const MOST: u64 = 256 * 1024;

/// What a plugin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PluginKind {
    /// Registers whatever it likes.
    Standalone,
    /// Likewise, in a place of its own in the original.
    Backend,
    /// Holds a single place (memory, context, schedule); chosen by a setting, not by being enabled.
    Exclusive,
    /// Brings a chat platform.
    Platform,
    /// Brings a model provider.
    ModelProvider,
}

impl PluginKind {
    /// The word in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Backend => "backend",
            Self::Exclusive => "exclusive",
            Self::Platform => "platform",
            Self::ModelProvider => "model-provider",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Standalone, Self::Backend, Self::Exclusive, Self::Platform, Self::ModelProvider]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }

    /// The kind of a plugin whose manifest names none: by words in the first 8 KB of its code, as
    /// the original does it. A plugin that only mentions such a word is taken for one too.
    pub(crate) fn sniff(code: &str) -> Self {
        let mut end = code.len().min(8192);
        while !code.is_char_boundary(end) {
            end -= 1;
        }
        let head = &code[..end];
        if head.contains("MemoryProvider")
            || head.contains("register_memory_provider")
            || head.contains("CronScheduler")
        {
            Self::Exclusive
        } else if head.contains("register_provider") && head.contains("ProviderProfile") {
            Self::ModelProvider
        } else {
            Self::Standalone
        }
    }
}

/// How a native plugin is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Native {
    /// The program, below the plugin's folder if it is a relative path, and its arguments.
    pub command: Vec<String>,
    /// Whether messages are lines instead of framed.
    pub lines: bool,
}

/// What is read of a manifest; the rest is handed to the plugin as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// All of its fields.
    pub fields: Value,
    /// Things that were odd, for the doctor.
    pub notes: Vec<String>,
}

impl Manifest {
    /// Reads a plugin folder's manifest; None if it has none.
    pub fn read(folder: &Path) -> Option<Result<Self, String>> {
        let path = ["plugin.yaml", "plugin.yml"]
            .iter()
            .map(|name| folder.join(name))
            .find(|path| path.is_file())?;
        Some(
            hermes_home::fsio::read_text(&path, MOST)
                .map_err(|error| format!("{}: {error}", path.display()))
                .and_then(|read| {
                    Self::parse(&read.text).map_err(|why| format!("{}: {why}", path.display()))
                }),
        )
    }

    /// Reads the text of one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document = yaml::parse(text).map_err(|error| error.to_string())?;
        let root = document.root.as_ref().map_or(Datum::Null, Datum::of);
        let fields: Value =
            serde_json::from_str(&root.to_json()).map_err(|error| error.to_string())?;
        if !fields.is_object() {
            return Err("the manifest is not a mapping".to_owned());
        }
        let mut manifest = Self { fields, notes: Vec::new() };
        let version = manifest.fields.get("manifest_version").and_then(Value::as_u64).unwrap_or(1);
        if version > 2 {
            manifest.notes.push(format!("manifest_version {version} is newer than 2"));
        }
        Ok(manifest)
    }

    /// A field that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// A field that is a list of texts; a single text counts as one.
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.fields.get(name) {
            Some(Value::String(text)) => vec![text.clone()],
            Some(Value::Array(items)) => items
                .iter()
                .filter_map(|item| {
                    item.as_str().or_else(|| item.get("name")?.as_str()).map(ToOwned::to_owned)
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The kind it names.
    pub fn kind(&self) -> Option<PluginKind> {
        self.text("kind").and_then(PluginKind::parse)
    }

    /// How it is started, if it is a program of its own.
    pub fn native(&self) -> Option<Native> {
        (self.text("runtime") == Some("native")).then(|| Native {
            command: self.list("command"),
            lines: self.text("framing") == Some("lines"),
        })
    }
}

/// Whether `requires_hermes` is met, by the rules of the original: clauses joined by commas, three
/// numbers compared, what cannot be read counts as met.
pub fn satisfies(requirement: &str, version: &str) -> bool {
    let Some(version) = numbers(version) else { return true };
    requirement.split(',').all(|clause| {
        let clause = clause.trim();
        let operator = [">=", "<=", "==", "!=", ">", "<"]
            .into_iter()
            .find(|operator| clause.starts_with(operator));
        let Some(wanted) = numbers(clause.trim_start_matches(operator.unwrap_or(""))) else {
            return true;
        };
        match operator.unwrap_or(">=") {
            ">=" => version >= wanted,
            "<=" => version <= wanted,
            "==" => version == wanted,
            "!=" => version != wanted,
            ">" => version > wanted,
            _ => version < wanted,
        }
    })
}

fn numbers(text: &str) -> Option<[u64; 3]> {
    let mut out = [0; 3];
    let text = text.trim().trim_start_matches('v');
    for (slot, part) in out.iter_mut().zip(text.split('.')) {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        if digits.is_empty() {
            return None;
        }
        *slot = digits.parse().ok()?;
    }
    (!text.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_held_against_every_clause() {
        let check = |requirement: &str, wanted: bool| {
            assert_eq!(satisfies(requirement, "0.22.2"), wanted, "{requirement}");
        };
        check(">=0.15.1", true);
        check("0.23", false);
        check(">=0.20,<0.22", false);
        check(">0.22.1, !=0.22.3", true);
        check("==0.22.2", true);
        check("~=nonsense", true);
        check("", true);
    }

    #[test]
    fn a_manifest_with_fields_nobody_knows_is_read() {
        let manifest = Manifest::parse(
            "name: x\nhooks: [pre_llm_call]\nodd: {a: 1}\nrequires_env:\n  - name: KEY\n  - OTHER\n",
        )
        .unwrap();
        assert_eq!(manifest.text("name"), Some("x"));
        assert_eq!(manifest.list("requires_env"), ["KEY", "OTHER"]);
        assert!(Manifest::parse("- a\n").is_err());
    }

    #[test]
    fn a_kind_is_sniffed_from_the_first_bytes_of_the_code() {
        assert_eq!(PluginKind::sniff("class A(MemoryProvider): ..."), PluginKind::Exclusive);
        assert_eq!(
            PluginKind::sniff("register_provider(ProviderProfile())"),
            PluginKind::ModelProvider
        );
        let late = format!("{}MemoryProvider", "ä".repeat(5000));
        assert_eq!(PluginKind::sniff(&late), PluginKind::Standalone);
    }
}
