//! `search_files`: a pattern in contents, or names of files.
//!
//! Results come in the order of their paths, so that a page continues the one before. What git
//! ignores, hidden files and binary files are passed over, as are files that hold secrets. Links
//! are not followed.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use hermes_core::ToolSink;
use hermes_home::fsio;
use ignore::WalkBuilder;

use super::{Running, Tool};
use crate::args::{Args, Kind, Param};
use crate::bench::{Workbench, outcome, touching};
use crate::capture::clip;
use crate::paths::Located;

pub(super) const TOOL: Tool = Tool {
    name: "search_files",
    json: concat!(
        r#"{"type":"function","function":{"name":"search_files","description":"#,
        r#""Search file contents by regular expression, or find files by name (target files; pattern is a glob). Git-ignored and hidden files are left out.","#,
        r#""parameters":{"type":"object","properties":{"#,
        r#""pattern":{"type":"string"},"#,
        r#""target":{"type":"string","enum":["content","files"]},"#,
        r#""path":{"type":"string","description":"folder or file, default the working directory"},"#,
        r#""file_glob":{"type":"string","description":"only files like this, e.g. *.rs"},"#,
        r#""limit":{"type":"integer","description":"default 50"},"#,
        r#""offset":{"type":"integer","description":"results to skip"},"#,
        r#""context":{"type":"integer","description":"lines around each match"}},"#,
        r#""required":["pattern"]}}}"#,
    ),
    params: &[
        Param::required("pattern", Kind::Text),
        Param::optional("target", Kind::OneOf(&["content", "files"])),
        Param::optional("path", Kind::Text),
        Param::optional("file_glob", Kind::Text),
        Param::optional("limit", Kind::Whole(1)),
        Param::optional("offset", Kind::Whole(0)),
        Param::optional("context", Kind::Whole(0)),
    ],
    offered: |_| true,
    run,
};

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 1000;
const MAX_CONTEXT: usize = 20;
/// Characters of a line that are shown.
const MAX_LINE: usize = 300;
/// How long one search may take.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Bytes of one line that a search holds at most.
const MAX_HEAP: usize = 16 << 20;

/// Tells the searching thread that nobody is waiting any more.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn run<'a>(bench: &'a Arc<Workbench>, args: Args, _sink: &'a dyn ToolSink) -> Running<'a> {
    Box::pin(async move {
        let at = match bench.paths.locate(args.text("path").unwrap_or(".")) {
            Ok(at) => at,
            Err(why) => return outcome(Err(format!("search_files: {why}"))),
        };
        let written = at.written.clone();
        let job = Arc::clone(bench);
        let stop = Stop(Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop.0);
        let found =
            tokio::task::spawn_blocking(move || Search::new(&job, at, &args, stopped)?.run()).await;
        let found = found.unwrap_or_else(|e| Err(format!("the search did not finish: {e}")));
        touching(outcome(found.map_err(|why| format!("search_files: {why}"))), &written)
    })
}

/// What is looked for in each file.
enum Target {
    Content(RegexMatcher),
    Names(GlobMatcher),
}

struct Search<'a> {
    bench: &'a Workbench,
    at: Located,
    target: Target,
    file_glob: Option<GlobMatcher>,
    limit: usize,
    offset: usize,
    context: usize,
    max_bytes: usize,
    stopped: Arc<AtomicBool>,
    deadline: Instant,
}

/// What has been found so far.
#[derive(Default)]
struct Found {
    out: String,
    /// Results met, skipped ones included.
    met: usize,
    shown: usize,
    files: usize,
    more: bool,
    out_of_time: bool,
    secret: usize,
    troubles: Vec<String>,
}

impl<'a> Search<'a> {
    fn new(
        bench: &'a Workbench,
        at: Located,
        args: &Args,
        stopped: Arc<AtomicBool>,
    ) -> Result<Self, String> {
        let pattern = args.need("pattern");
        if pattern.is_empty() {
            return Err("the pattern is empty".to_owned());
        }
        let target = if args.text("target") == Some("files") {
            Target::Names(glob(&name_pattern(pattern))?)
        } else {
            let matcher = RegexMatcherBuilder::new()
                .line_terminator(Some(b'\n'))
                .size_limit(10 << 20)
                .dfa_size_limit(10 << 20)
                .build(pattern)
                .map_err(|e| {
                    // The engine wraps the pattern; a parse of the plain one has the right place.
                    let e = regex_syntax::parse(pattern).err().map_or_else(|| e.to_string(), |e| e.to_string());
                    format!("the pattern is no valid regular expression:\n{e}\nhint: put \\ before characters that are meant literally")
                })?;
            Target::Content(matcher)
        };
        let file_glob = args
            .text("file_glob")
            .filter(|text| !text.trim().is_empty())
            .map(|text| glob(&name_pattern_exact(text.trim())))
            .transpose()?;
        Ok(Self {
            bench,
            at,
            target,
            file_glob,
            limit: args.whole("limit").unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT),
            offset: args.whole("offset").unwrap_or(0),
            context: args.whole("context").unwrap_or(0).min(MAX_CONTEXT),
            max_bytes: bench.limits().bytes,
            stopped,
            deadline: Instant::now() + MAX_TIME,
        })
    }

    fn run(self) -> Result<String, String> {
        let shown = &self.at.shown;
        let meta = std::fs::metadata(&self.at.real).map_err(|e| format!("{shown}: {e}"))?;
        if let Some(why) = self.bench.paths.read_refusal(&self.at.real) {
            return Err(format!("{shown} may not be read: {why}"));
        }
        let mut found = Found::default();
        if meta.is_file() {
            self.file(&self.at.real, Path::new(""), &mut found);
        } else if meta.is_dir() {
            self.folder(&mut found);
        } else {
            return Err(format!("{shown} is neither a file nor a folder"));
        }
        Ok(self.report(found))
    }

    fn folder(&self, found: &mut Found) {
        let root = &self.at.real;
        let walk = WalkBuilder::new(root)
            .follow_links(false)
            .require_git(false)
            .sort_by_file_path(Path::cmp)
            .build();
        for entry in walk {
            if self.is_over(found) {
                return;
            }
            match entry {
                Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                    let path = entry.path();
                    let inside = path.strip_prefix(root).unwrap_or(path).to_owned();
                    self.file(path, &inside, found);
                }
                Ok(_) => {}
                Err(error) => found.trouble(error.to_string()),
            }
        }
    }

    fn is_over(&self, found: &mut Found) -> bool {
        found.out_of_time |= Instant::now() >= self.deadline;
        found.more || found.out_of_time || self.stopped.load(Ordering::Relaxed)
    }

    fn file(&self, path: &Path, inside: &Path, found: &mut Found) {
        let names = |glob: &GlobMatcher| {
            glob.is_match(inside) || path.file_name().is_some_and(|name| glob.is_match(name))
        };
        if self.file_glob.as_ref().is_some_and(|glob| !names(glob)) {
            return;
        }
        match &self.target {
            Target::Names(glob) if names(glob) => {
                if self.take(found) {
                    let _ = writeln!(found.out, "{}", self.bench.paths.shown(path));
                }
            }
            Target::Names(_) => {}
            Target::Content(_) if self.bench.paths.read_refusal(path).is_some() => {
                found.secret += 1;
            }
            Target::Content(matcher) => self.content(matcher, path, found),
        }
    }

    /// Counts a result; true if it is to be shown.
    fn take(&self, found: &mut Found) -> bool {
        if found.shown >= self.limit || found.out.len() >= self.max_bytes {
            found.more = true;
            return false;
        }
        found.met += 1;
        if found.met <= self.offset {
            return false;
        }
        found.shown += 1;
        true
    }

    fn content(&self, matcher: &RegexMatcher, path: &Path, found: &mut Found) {
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .binary_detection(BinaryDetection::quit(0))
            .before_context(self.context)
            .after_context(self.context)
            .heap_limit(Some(MAX_HEAP))
            .build();
        let name = self.bench.paths.shown(path);
        let mut lines = Lines { search: self, found, name: &name, started: false, showing: false };
        let outcome = if self.bench.paths.is_masked(path) {
            // The pattern must not find what is masked either.
            fsio::read_text(path, MAX_HEAP as u64).and_then(|text| {
                let text = self.bench.secrets().redactor().redact(&text.text);
                searcher.search_slice(matcher, text.as_bytes(), &mut lines)
            })
        } else {
            searcher.search_path(matcher, path, &mut lines)
        };
        if let Err(error) = outcome {
            found.trouble(format!("{name}: {error}"));
        }
    }

    fn report(&self, found: Found) -> String {
        let mut out = found.out;
        let what = match self.target {
            Target::Content(_) => "matches",
            Target::Names(_) => "files",
        };
        if found.shown == 0 {
            let _ = write!(out, "[no {what}");
            if self.offset > 0 {
                let _ = write!(out, " after the first {}", found.met.min(self.offset));
            }
            out.push_str("]\n");
        } else {
            let first = self.offset + 1;
            let last = self.offset + found.shown;
            let _ = match (&self.target, found.more) {
                (_, true) => {
                    writeln!(out, "[{what} {first}-{last}, more follow; go on with offset={last}]")
                }
                (Target::Content(_), false) => {
                    writeln!(out, "[{what} {first}-{last}, the last; in {} files]", found.files)
                }
                (Target::Names(_), false) => writeln!(out, "[{what} {first}-{last}, the last]"),
            };
        }
        if found.out_of_time {
            let _ = writeln!(
                out,
                "[stopped after {} s; hint: search a smaller folder]",
                MAX_TIME.as_secs()
            );
        }
        if found.secret > 0 {
            let _ = writeln!(out, "[{} files with secrets were left out]", found.secret);
        }
        for trouble in &found.troubles {
            let _ = writeln!(out, "[{trouble}]");
        }
        out
    }
}

impl Found {
    fn trouble(&mut self, text: String) {
        if self.troubles.len() < 5 {
            self.troubles.push(text);
        }
    }
}

/// Takes the lines of one file.
struct Lines<'a, 'b> {
    search: &'a Search<'b>,
    found: &'a mut Found,
    name: &'a str,
    started: bool,
    /// Whether the match last seen was shown, and so is the context after it.
    showing: bool,
}

impl Lines<'_, '_> {
    fn line(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        if !std::mem::replace(&mut self.started, true) {
            self.found.files += 1;
            if !self.found.out.is_empty() {
                self.found.out.push('\n');
            }
            let _ = writeln!(self.found.out, "{}", self.name);
        }
        let text = String::from_utf8_lossy(bytes);
        let text = clip(text.trim_end_matches(['\n', '\r']), MAX_LINE);
        let _ = writeln!(self.found.out, "{}{mark}{text}", number.unwrap_or_default());
    }
}

impl Sink for Lines<'_, '_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, hit: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.showing = self.search.take(self.found);
        if self.showing {
            self.line(hit.line_number(), ':', hit.bytes());
        }
        Ok(!self.search.is_over(self.found))
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, Self::Error> {
        // Lines before a match that is skipped or does not fit are not shown either.
        let before = matches!(line.kind(), grep_searcher::SinkContextKind::Before);
        let full = self.found.shown >= self.search.limit;
        let skipping = self.found.met < self.search.offset;
        if (before && !full && !skipping) || (!before && self.showing) {
            self.line(line.line_number(), '-', line.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        if self.showing && self.search.context > 0 {
            self.found.out.push_str("--\n");
        }
        Ok(true)
    }
}

fn glob(text: &str) -> Result<GlobMatcher, String> {
    GlobBuilder::new(text)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|e| format!("\"{text}\" is no valid glob: {}", e.kind()))
}

/// A name without wildcards is looked for anywhere in a name.
fn name_pattern(text: &str) -> String {
    let text = text.trim();
    if text.contains(['*', '?', '[', '{', '/']) {
        name_pattern_exact(text)
    } else {
        format!("*{text}*")
    }
}

/// `./src/*.rs` and `src/*.rs` are the same.
fn name_pattern_exact(text: &str) -> String {
    text.strip_prefix("./").unwrap_or(text).to_owned()
}
