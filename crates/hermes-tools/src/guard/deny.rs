//! `approvals.deny`: globs over commands, compared with every form of a command that the shell
//! would treat alike. Letter case does not matter, a `*` matches any text, line breaks included.

use globset::{GlobBuilder, GlobMatcher};

use super::Refused;
use super::shell::Parsed;

struct Rule {
    text: String,
    glob: Result<GlobMatcher, String>,
}

/// The rules as they stand in the configuration.
pub(super) struct DenyRules(Vec<Rule>);

impl DenyRules {
    /// Reads the rules; a broken one is kept, because it must not disarm the rest.
    pub(super) fn new(rules: &[String]) -> Self {
        let read = |text: &String| Rule {
            text: text.clone(),
            glob: GlobBuilder::new(text.trim())
                .literal_separator(false)
                .backslash_escape(true)
                .case_insensitive(true)
                .build()
                .map(|glob| glob.compile_matcher())
                .map_err(|e| e.kind().to_string()),
        };
        Self(rules.iter().map(read).collect())
    }

    /// Compares the raw text, the normal form, each simple command of it, and each of those
    /// without its wrappers (`sudo`, `env`) and the folder of its program.
    pub(super) fn check(&self, raw: &str, normal: &str, parsed: &Parsed) -> Result<(), Refused> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut forms = vec![raw.trim().to_owned(), normal.trim().to_owned()];
        forms.push(normal.split_whitespace().collect::<Vec<_>>().join(" "));
        for simple in parsed.commands() {
            forms.push(simple.words.join(" "));
            for words in simple.unwrapped() {
                if let Some((program, rest)) = words.split_first() {
                    let name = super::shell::base(program);
                    let mut form = vec![name];
                    form.extend(rest.iter().map(String::as_str));
                    forms.push(form.join(" "));
                }
            }
        }
        for rule in &self.0 {
            match &rule.glob {
                Err(why) => {
                    return Err(Refused::BrokenRule { rule: rule.text.clone(), why: why.clone() });
                }
                Ok(glob) if forms.iter().any(|form| glob.is_match(form)) => {
                    return Err(Refused::Denied(rule.text.clone()));
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }
}
