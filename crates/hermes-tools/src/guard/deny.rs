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
        self.compare(&forms)?;
        // No rule holds against a program whose name shows only when it runs.
        unjudgeable(parsed).map_or(Ok(()), |why| Err(Refused::Unjudged(why)))
    }

    fn compare(&self, forms: &[String]) -> Result<(), Refused> {
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

/// Why it cannot be said which programs a command runs; None if it can.
fn unjudgeable(parsed: &Parsed) -> Option<String> {
    parsed.commands().iter().find_map(|simple| {
        let (program, rest) = simple.program()?;
        if !matches!(program, "[" | "[[") && program.contains(['$', '`', '*', '?', '[']) {
            return Some(format!("the name of a program is an expansion (\"{program}\")"));
        }
        let name = super::shell::base(program);
        let reads = super::shell::is_shell(name) || matches!(name, "source" | ".");
        let operand = rest.iter().any(|word| !word.starts_with(['-', '+']) && word != "/dev/stdin");
        let given = rest.iter().any(|word| word.starts_with('-') && word.ends_with('c'));
        (reads && !given && !operand && simple.here.is_none())
            .then(|| format!("{name} runs what it is given as input, which is not to be seen here"))
    })
}
