//! Enough of the shell's grammar to see which programs a command line names.
//!
//! It errs on the side of seeing too much: a text it cannot follow (an open quote) is read to its
//! end, and every substitution, group and nested `sh -c` is looked into. It never runs anything.

/// How deep nested commands are looked into.
const MAX_DEPTH: usize = 8;

/// Programs that run the program named in their arguments.
const WRAPPERS: &[&str] = &[
    "sudo", "doas", "env", "command", "builtin", "exec", "nohup", "nice", "ionice", "time",
    "timeout", "stdbuf", "setsid", "xargs", "busybox", "toybox", "chroot", "unshare", "then", "do",
    "else", "if", "while", "until", "!", "{", "parallel", "watch", "strace",
];

/// Programs that read commands from their arguments or input.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash", "fish"];

/// One program with its words, quotes taken off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Simple {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Files that its output goes to.
    pub writes_to: Vec<String>,
    /// Text given to it as a here-document.
    pub here: Option<String>,
}

impl Simple {
    /// The words from every place at which a program may be named: after assignments, and after
    /// wrappers anywhere behind them (their options are not known one by one).
    pub(super) fn unwrapped(&self) -> Vec<&[String]> {
        let start = self.words.iter().take_while(|word| is_assignment(word)).count();
        let rest = self.words.get(start..).unwrap_or_default();
        let Some(first) = rest.first() else { return Vec::new() };
        if WRAPPERS.contains(&base(first)) {
            (0..rest.len()).map(|at| rest.get(at..).unwrap_or_default()).collect()
        } else {
            vec![rest]
        }
    }
}

impl Simple {
    /// The program and its arguments, behind assignments and wrappers with their options.
    pub(super) fn program(&self) -> Option<(&str, &[String])> {
        let passed = |word: &&String| {
            is_assignment(word) || WRAPPERS.contains(&base(word)) || word.starts_with('-')
        };
        let skipped = self.words.iter().take_while(passed).count();
        let (program, rest) = self.words.get(skipped..)?.split_first()?;
        Some((program, rest))
    }
}

/// Whether a program of this name reads commands.
pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// The programs of a command line, nested ones after the one that holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed(Vec<Simple>);

impl Parsed {
    /// All simple commands.
    pub(super) fn commands(&self) -> &[Simple] {
        &self.0
    }
}

/// The name of a program without its folder.
pub(super) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Reads a command line.
pub(super) fn parse(text: &str) -> Parsed {
    let mut found = Vec::new();
    parse_into(text, 0, &mut found);
    Parsed(found)
}

fn parse_into(text: &str, depth: usize, found: &mut Vec<Simple>) {
    if depth > MAX_DEPTH {
        return;
    }
    let mut lexer = Lexer::new(text);
    lexer.run();
    for simple in lexer.commands {
        let nested = nested_texts(&simple);
        found.push(simple);
        for text in nested {
            parse_into(&text, depth + 1, found);
        }
    }
    for text in lexer.substitutions {
        parse_into(&text, depth + 1, found);
    }
}

/// Texts inside one simple command that a shell will read as commands.
fn nested_texts(simple: &Simple) -> Vec<String> {
    let mut texts = Vec::new();
    for words in simple.unwrapped() {
        let Some((program, rest)) = words.split_first() else { continue };
        let name = base(program);
        if name == "eval" || name == "watch" {
            texts.push(rest.join(" "));
        } else if SHELLS.contains(&name) || name == "su" {
            let command_option =
                rest.iter().position(|word| word.starts_with('-') && word.ends_with('c'));
            if let Some(text) = command_option.and_then(|at| rest.get(at + 1)) {
                texts.push(text.clone());
            }
            texts.extend(simple.here.clone());
        }
    }
    texts
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
    })
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    word: Option<String>,
    current: Simple,
    redirect: bool,
    heredocs: Vec<String>,
    heredoc_next: bool,
    commands: Vec<Simple>,
    substitutions: Vec<String>,
}

impl Lexer {
    fn new(text: &str) -> Self {
        Self {
            chars: text.chars().collect(),
            at: 0,
            word: None,
            current: Simple::default(),
            redirect: false,
            heredocs: Vec::new(),
            heredoc_next: false,
            commands: Vec::new(),
            substitutions: Vec::new(),
        }
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn rest_starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c))
    }

    fn run(&mut self) {
        while let Some(c) = self.next() {
            match c {
                '\\' => {
                    if let Some(c) = self.next() {
                        self.push(c);
                    }
                }
                '\'' => self.single_quoted(),
                '"' => self.double_quoted(),
                '$' => self.dollar(true),
                '`' => self.backticks(),
                '#' if self.word.is_none() => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '\n' => {
                    self.end_command_soon();
                    self.take_heredocs();
                    self.end_command();
                }
                c if c.is_whitespace() => self.end_word(),
                ';' | '|' | '(' | ')' => self.end_command(),
                '&' => {
                    if self.peek() == Some('>') {
                        self.end_word();
                    } else {
                        self.end_command();
                    }
                }
                '>' | '<' => self.redirection(c),
                c => self.push(c),
            }
        }
        self.end_command();
    }

    fn single_quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.next() {
            if c == '\'' {
                return;
            }
            self.push(c);
        }
    }

    fn double_quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.next() {
            match c {
                '"' => return,
                '\\' => {
                    if let Some(c) = self.next() {
                        if !matches!(c, '$' | '`' | '"' | '\\' | '\n') {
                            self.push('\\');
                        }
                        self.push(c);
                    }
                }
                '$' => self.dollar(false),
                '`' => self.backticks(),
                c => self.push(c),
            }
        }
    }

    /// After a `$`: a substitution, an ANSI-C text, `$IFS`, or a variable that stays as it is.
    fn dollar(&mut self, bare: bool) {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let text = self.until_close();
                self.substitutions.push(text);
                self.push('$');
            }
            Some('\'') if bare => {
                self.at += 1;
                self.ansi_c_quoted();
            }
            _ if bare && (self.rest_starts_with("IFS") || self.rest_starts_with("{IFS")) => {
                let braced = self.peek() == Some('{');
                self.at += if braced { 4 } else { 3 };
                while braced && self.next().is_some_and(|c| c != '}') {}
                self.end_word();
            }
            _ => self.push('$'),
        }
    }

    fn ansi_c_quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.next() {
            match c {
                '\'' => return,
                '\\' => {
                    let c = match self.next() {
                        Some('x') => self.number(16, 2),
                        Some('u') => self.number(16, 4),
                        Some(c @ '0'..='7') => {
                            self.at -= usize::from(c.is_ascii_digit());
                            self.number(8, 3)
                        }
                        Some('n') => '\n',
                        Some('t') => '\t',
                        Some(c) => c,
                        None => return,
                    };
                    self.push(c);
                }
                c => self.push(c),
            }
        }
    }

    fn number(&mut self, radix: u32, digits: usize) -> char {
        let mut value = 0;
        for _ in 0..digits {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else { break };
            value = value * radix + digit;
            self.at += 1;
        }
        char::from_u32(value).unwrap_or('\u{fffd}')
    }

    /// The text up to the bracket that closes the one just read.
    fn until_close(&mut self) -> String {
        let mut depth = 1usize;
        let mut text = String::new();
        while let Some(c) = self.next() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            text.push(c);
        }
        text
    }

    fn backticks(&mut self) {
        let mut text = String::new();
        while let Some(c) = self.next() {
            match c {
                '`' => break,
                '\\' => text.extend(self.next()),
                c => text.push(c),
            }
        }
        self.substitutions.push(text);
        self.push('$');
    }

    fn redirection(&mut self, c: char) {
        // The number before `>` names a descriptor, not an argument.
        if self.word.as_ref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        if c == '<' && self.rest_starts_with("<<") {
            self.at += 2;
        } else if c == '<' && self.peek() == Some('<') {
            self.at += 1;
            if self.peek() == Some('-') {
                self.at += 1;
            }
            self.heredoc_next = true;
        } else {
            while self.peek().is_some_and(|c| matches!(c, '>' | '&' | '|')) {
                self.at += 1;
            }
            self.redirect = c == '>';
        }
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.heredoc_next) {
            self.heredocs.push(word);
        } else if std::mem::take(&mut self.redirect) {
            self.current.writes_to.push(word);
        } else {
            expand_braces(&word, &mut self.current.words);
        }
    }

    fn end_command_soon(&mut self) {
        self.end_word();
        self.redirect = false;
        self.heredoc_next = false;
    }

    fn end_command(&mut self) {
        self.end_command_soon();
        let done = std::mem::take(&mut self.current);
        if done != Simple::default() {
            self.commands.push(done);
        }
    }

    /// Reads the bodies of the here-documents that the line just ended announced. A pipe may
    /// stand between the document and the program that reads it, so each program of the line
    /// gets it.
    fn take_heredocs(&mut self) {
        if self.heredocs.is_empty() {
            return;
        }
        let mut bodies = String::new();
        for end in std::mem::take(&mut self.heredocs) {
            loop {
                if self.at >= self.chars.len() {
                    break;
                }
                let mut line = String::new();
                while let Some(c) = self.next() {
                    if c == '\n' {
                        break;
                    }
                    line.push(c);
                }
                if line.trim() == end {
                    break;
                }
                bodies.push_str(&line);
                bodies.push('\n');
            }
        }
        self.current.here = Some(bodies.clone());
        for simple in &mut self.commands {
            simple.here.get_or_insert_with(|| bodies.clone());
        }
    }
}

/// `{a,b}` without nesting, as the shell would: at most 64 words.
fn expand_braces(word: &str, words: &mut Vec<String>) {
    let parts = word.find('{').and_then(|open| {
        let close = open + word.get(open..)?.find('}')?;
        let inside = word.get(open + 1..close)?;
        (inside.contains(',') && !inside.contains('{')).then(|| {
            (
                word.get(..open).unwrap_or_default(),
                inside,
                word.get(close + 1..).unwrap_or_default(),
            )
        })
    });
    match parts {
        Some((before, inside, after)) if words.len() < 4096 => {
            for choice in inside.split(',').take(64) {
                let joined = format!("{before}{choice}{after}");
                if after.contains('{') && joined.len() < 4096 {
                    expand_braces(&joined, words);
                } else {
                    words.push(joined);
                }
            }
        }
        _ => words.push(word.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let parsed = parse(text);
        let found: Vec<String> = parsed.commands().iter().map(|s| s.words.join(" ")).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn programs_are_found_behind_quotes_groups_and_nesting() {
        check("a b; c && d | e & f", &["a b", "c", "d", "e", "f"]);
        check("'a' \"b c\" d\\ e", &["a b c d e"]);
        check("r\"\"m -'r'f x", &["rm -rf x"]);
        check("echo $(a b) `c d`", &["echo $ $", "a b", "c d"]);
        check("echo \"$(a b)\"", &["echo $", "a b"]);
        check("(a; b) && { c; }", &["a", "b", "{ c", "}"]);
        check("sh -c 'a b; c'", &["sh -c a b; c", "a b", "c"]);
        check("sudo -u x bash -lc \"a b\"", &["sudo -u x bash -lc a b", "a b"]);
        check("a$IFS-b${IFS}c", &["a -b c"]);
        check("$'\\x72\\155' x", &["rm x"]);
        check("{a,-b,/}", &["a -b /"]);
        check("a # b; c\nd", &["a", "d"]);
        check("cat <<'EOF'\nx y\nEOF\nb", &["cat", "b"]);
        check("sh <<EOF\nx y\nEOF\nb", &["sh", "x y", "b"]);
        check("cat <<EOF | sh\nx y\nEOF", &["cat", "sh", "x y"]);
        check("a 2>&1 >f", &["a"]);
        check("a 'open; b", &["a open; b"]);
    }

    #[test]
    fn targets_of_redirections_are_kept_apart() {
        let parsed = parse("a > /dev/x 2>>log b &> all");
        let simple = &parsed.commands()[0];
        assert_eq!(simple.words, ["a", "b"]);
        assert_eq!(simple.writes_to, ["/dev/x", "log", "all"]);
    }
}
