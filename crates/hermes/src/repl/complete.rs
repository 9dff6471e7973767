//! What Tab offers and what is hinted behind the cursor: slash commands, their words, sessions,
//! and earlier lines.

use std::sync::{Arc, Mutex};

use nu_ansi_term::Style;
use reedline::{
    Completer, CompletionResult, DefaultHinter, Highlighter, Hinter, History, Span, StyledText,
    Suggestion, ValidationResult, Validator,
};

use hermes_plugins::normal_command;

use super::commands::{self, Words};
use crate::out;

/// Finds what may follow a command that takes a session: reference and description.
pub type SessionLookup = Box<dyn Fn() -> Vec<(String, String)> + Send>;

/// A command that is not in this program's table: a plugin's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Its name, without the slash.
    pub name: String,
    /// Its arguments, as help shows them.
    pub arguments: String,
    /// What it does.
    pub help: String,
}

/// Gives the commands of plugins that there are now.
pub type Offers = Arc<dyn Fn() -> Vec<Offered> + Send + Sync>;

/// Completes slash commands and their arguments.
pub struct SlashCompleter {
    sessions: SessionLookup,
    offers: Offers,
}

impl SlashCompleter {
    /// A completer that finds sessions with `sessions` and plugins' commands with `offers`.
    pub const fn new(sessions: SessionLookup, offers: Offers) -> Self {
        Self { sessions, offers }
    }
}

impl Completer for SlashCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let before = line.get(..pos).unwrap_or(line);
        if !before.starts_with('/') || before.contains('\n') {
            // Nothing is on its way: this keeps the menu from saying that nothing was found.
            return CompletionResult::Pending;
        }
        let suggestions: Vec<Suggestion> = match before.split_once(' ') {
            None => names(before, &(self.offers)()),
            Some((name, argument)) => match commands::find(&name[1..]) {
                Ok(command) => {
                    let (typed, offered) = words(command.words, argument, &self.sessions);
                    offered
                        .into_iter()
                        .map(|(value, description)| Suggestion {
                            value,
                            description: Some(description),
                            span: Span::new(pos - typed.len(), pos),
                            ..Suggestion::default()
                        })
                        .collect()
                }
                Err(_) => Vec::new(),
            },
        };
        CompletionResult::fresh(suggestions)
    }
}

/// The commands that begin with what was typed; with none, those that it names by an alias.
fn names(typed: &str, offers: &[Offered]) -> Vec<Suggestion> {
    let stem = &typed[1..];
    let own = commands::TABLE.iter().filter_map(|command| {
        let name = std::iter::once(command.name)
            .chain(command.aliases.iter().copied())
            .find(|name| name.starts_with(stem))?;
        Some(Suggestion {
            value: format!("/{name}"),
            description: Some(command.help.to_owned()),
            span: Span::new(0, typed.len()),
            append_whitespace: !command.arguments.is_empty(),
            ..Suggestion::default()
        })
    });
    let wanted = normal_command(stem);
    let theirs = offers
        .iter()
        .filter(|offered| normal_command(&offered.name).starts_with(&wanted))
        .map(|offered| Suggestion {
            value: format!("/{}", offered.name),
            description: Some(out::visible(&offered.help).into_owned()),
            span: Span::new(0, typed.len()),
            append_whitespace: !offered.arguments.is_empty(),
            ..Suggestion::default()
        });
    own.chain(theirs).collect()
}

/// What is being typed behind a command, and what it can become.
fn words<'a>(
    words: Words,
    argument: &'a str,
    sessions: &SessionLookup,
) -> (&'a str, Vec<(String, String)>) {
    let fixed = |words: &[(&str, &str)]| {
        words.iter().map(|(word, help)| ((*word).to_owned(), (*help).to_owned())).collect()
    };
    let (typed, mut offered): (&str, Vec<(String, String)>) = match words {
        Words::None => (argument, Vec::new()),
        Words::Fixed(words) => (argument, fixed(words)),
        Words::Sessions => (argument, sessions()),
        Words::OrSessions(words) => match argument.rsplit_once(' ') {
            None => (argument, fixed(words)),
            Some((before, typed)) => {
                let word = before.split(' ').next();
                let goes_on = words.last().map(|(last, _)| *last) == word;
                (typed, if goes_on { sessions() } else { Vec::new() })
            }
        },
    };
    offered.retain(|(word, _)| word.starts_with(typed));
    (typed, offered)
}

/// Hints the rest of a command and its arguments, else the rest of an earlier line.
pub struct SlashHinter {
    earlier: DefaultHinter,
    hint: Option<String>,
    offers: Offers,
}

impl SlashHinter {
    /// A hinter without a hint.
    pub fn new(offers: Offers) -> Self {
        Self {
            offers,
            earlier: DefaultHinter::default().with_style(Style::new().dimmed()).with_min_chars(2),
            hint: None,
        }
    }
}

impl Hinter for SlashHinter {
    fn handle(
        &mut self,
        line: &str,
        pos: usize,
        history: &dyn History,
        use_ansi_coloring: bool,
        cwd: &str,
    ) -> String {
        self.hint = slash_hint(line, &self.offers);
        match &self.hint {
            Some(hint) if use_ansi_coloring => Style::new().dimmed().paint(hint).to_string(),
            Some(hint) => hint.clone(),
            None => self.earlier.handle(line, pos, history, use_ansi_coloring, cwd),
        }
    }

    fn complete_hint(&self) -> String {
        match &self.hint {
            // The arguments in a hint are a description, not text to take over.
            Some(hint) => hint.split(' ').next().unwrap_or_default().to_owned(),
            None => self.earlier.complete_hint(),
        }
    }

    fn next_hint_token(&self) -> String {
        match &self.hint {
            Some(_) => self.complete_hint(),
            None => self.earlier.next_hint_token(),
        }
    }
}

/// What could follow a line that begins with a slash; None where the line is no command.
fn slash_hint(line: &str, offers: &Offers) -> Option<String> {
    let stem = line.strip_prefix('/')?;
    if stem.is_empty() || stem.contains(char::is_whitespace) {
        return stem.is_empty().then(String::new);
    }
    let Ok(command) = commands::find(stem) else {
        let offered = offers().into_iter().find(|offered| offered.name.starts_with(stem))?;
        let space = if offered.arguments.is_empty() { "" } else { " " };
        let rest = &offered.name[stem.len()..];
        return Some(out::visible(&format!("{rest}{space}{}", offered.arguments)).into_owned());
    };
    let rest = std::iter::once(command.name)
        .chain(command.aliases.iter().copied())
        .find_map(|name| name.strip_prefix(stem))?;
    let space = if command.arguments.is_empty() { "" } else { " " };
    Some(format!("{rest}{space}{}", command.arguments))
}

/// Shows a known command in bold and leaves everything else as it was typed.
pub struct SlashHighlighter(pub Offers);

impl Highlighter for SlashHighlighter {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        let mut styled = StyledText::new();
        let end = line.find(char::is_whitespace).unwrap_or(line.len());
        let (head, tail) = line.split_at(end);
        let known = head.strip_prefix('/').is_some_and(|name| {
            let wanted = normal_command(name);
            commands::find(name).is_ok()
                || (self.0)().iter().any(|offered| normal_command(&offered.name) == wanted)
        });
        let style = if known { Style::new().bold() } else { Style::new() };
        styled.push((style, head.to_owned()));
        styled.push((Style::new(), tail.to_owned()));
        styled
    }
}

/// Where Enter behind a backslash went on to a new line: the text up to and with the backslash.
/// Pasted backslashes at line ends are not among them and stay in the text.
#[derive(Clone, Default)]
pub struct Continuations(Arc<Mutex<Vec<String>>>);

impl Continuations {
    /// Takes the backslashes that only meant "go on" out of a finished message.
    pub fn resolve(&self, text: String) -> String {
        let Ok(prefixes) = self.0.lock() else { return text };
        let mut text = text;
        // The longest first, so that the shorter ones still fit.
        for prefix in prefixes.iter().rev() {
            let goes_on =
                text.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.starts_with('\n'));
            if goes_on {
                text.remove(prefix.len() - 1);
            }
        }
        text
    }

    /// Forgets the backslashes of a message that was sent or given up.
    pub fn forget(&self) {
        if let Ok(mut prefixes) = self.0.lock() {
            prefixes.clear();
        }
    }
}

impl Validator for Continuations {
    fn validate(&self, line: &str) -> ValidationResult {
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        // Two backslashes are one that is meant.
        if backslashes.is_multiple_of(2) {
            return ValidationResult::Complete;
        }
        if let Ok(mut prefixes) = self.0.lock() {
            prefixes.push(line.to_owned());
        }
        ValidationResult::Incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theirs() -> Offers {
        Arc::new(|| {
            vec![Offered {
                name: "agent-status".to_owned(),
                arguments: "[DAY]".to_owned(),
                help: "what was done".to_owned(),
            }]
        })
    }

    fn offered(line: &str) -> Vec<String> {
        let sessions: SessionLookup = Box::new(|| {
            vec![
                ("20260101_000000_aaaaaa".to_owned(), "first".to_owned()),
                ("20260102_000000_bbbbbb".to_owned(), "second".to_owned()),
            ]
        });
        let result = SlashCompleter::new(sessions, theirs()).complete(line, line.len());
        result.suggestions().iter().map(|one| one.value.clone()).collect()
    }

    #[test]
    fn tab_offers_commands_then_their_words_and_nothing_in_a_message() {
        assert_eq!(offered("/he"), ["/help"]);
        assert_eq!(offered("/qu"), ["/quit"]);
        assert_eq!(offered("/context a"), ["all"]);
        assert_eq!(offered("/resume 20260102"), ["20260102_000000_bbbbbb"]);
        assert_eq!(offered("/sessions "), ["more", "delete"]);
        assert_eq!(offered("/sessions de"), ["delete"]);
        assert_eq!(offered("/sessions delete 1 20260101"), ["20260101_000000_aaaaaa"]);
        assert_eq!(offered("/sessions more 2"), Vec::<String>::new());
        assert_eq!(offered("/").len(), commands::TABLE.len() + 1);
        assert_eq!(offered("/agent_s"), ["/agent-status"]);
        assert_eq!(offered("what is /he"), Vec::<String>::new());
        assert_eq!(offered("/nonsense a"), Vec::<String>::new());
    }

    #[test]
    fn the_hint_shows_the_rest_of_a_command_but_only_its_name_is_taken_over() {
        let hint = |line: &str| slash_hint(line, &theirs());
        assert_eq!(hint("/tit").as_deref(), Some("le [TEXT]"));
        assert_eq!(hint("/agent-st").as_deref(), Some("atus [DAY]"));
        assert_eq!(hint("/").as_deref(), Some(""));
        assert_eq!(hint("/title x"), None);
        assert_eq!(hint("hello"), None);
        let mut hinter = SlashHinter::new(theirs());
        hinter.hint = hint("/tit");
        assert_eq!(hinter.complete_hint(), "le");
    }

    #[test]
    fn a_typed_backslash_goes_on_and_vanishes_while_a_pasted_one_stays() {
        let lines = Continuations::default();
        assert!(matches!(lines.validate("one\\"), ValidationResult::Incomplete));
        assert!(matches!(lines.validate("one\\\ntwo\\"), ValidationResult::Incomplete));
        assert!(matches!(lines.validate("a \\\\"), ValidationResult::Complete));
        let text = "one\\\ntwo\\\nrun \\\n  this".to_owned();
        assert_eq!(lines.resolve(text), "one\ntwo\nrun \\\n  this");
        lines.forget();
        assert_eq!(lines.resolve("one\\\ntwo".to_owned()), "one\\\ntwo");
        assert_eq!(lines.resolve("x\\\ny".to_owned()), "x\\\ny");
    }
}
