//! The blocks of the prompt, in order, and how they become one text.

use std::path::Path;
use std::sync::Arc;

use hermes_core::{
    Block, ByteRange, Digest, Snapshot, Source, Tier, Timestamp, Tokens, ToolSet, Verdict,
};

use super::words::{self, Words};
use super::{Built, SnapshotInput};
use crate::assemble::{escape, fence};
use crate::memory::{Entry, MemoryFile, MemoryKind};
use crate::skills::{self, Catalogue, Gate};
use crate::{cut, estimate_tokens, project, source_kind, source_text, threat};

/// Collects blocks and joins their texts.
pub(super) struct Composer {
    now: Timestamp,
    blocks: Vec<Block>,
    text: String,
    warnings: Vec<String>,
}

impl Composer {
    pub(super) const fn new(now: Timestamp) -> Self {
        Self { now, blocks: Vec::new(), text: String::new(), warnings: Vec::new() }
    }

    /// Adds a block as it is, with its text.
    pub(super) fn carry(&mut self, block: Block, text: &str) {
        let range = if text.is_empty() {
            ByteRange::default()
        } else {
            if !self.text.is_empty() {
                self.text.push_str("\n\n");
            }
            let start = self.text.len();
            self.text.push_str(text);
            ByteRange { start, end: self.text.len() }
        };
        self.blocks.push(Block { range, ..block });
    }

    fn add(&mut self, id: &str, tier: Tier, source: Source, digest: Digest, state: State) {
        let State { text, verdict } = state;
        let text = text.trim();
        let refresh =
            source_kind(id).map_or(hermes_core::Refresh::NextSession, |kind| kind.refresh.clone());
        let block = Block {
            id: id.to_owned(),
            tier,
            source,
            source_digest: digest,
            rendered_digest: Digest::of(text),
            range: ByteRange::default(),
            tokens: Tokens::estimated(estimate_tokens(text)),
            loaded_at: self.now,
            verdict,
            refresh,
        };
        self.carry(block, text);
    }

    /// Adds a text of this program; an empty one is left out.
    fn add_words(&mut self, id: &str, tier: Tier, words: &Words, text: &str) {
        if !text.is_empty() {
            let source = Source::Builtin { name: words.name.to_owned(), version: words.version };
            self.add(id, tier, source, Digest::of(text), State::loaded(text.to_owned()));
        }
    }

    pub(super) fn finish(self) -> Built {
        let text: Arc<str> = self.text.into();
        let snapshot = Snapshot { digest: Digest::of(&*text), text, blocks: self.blocks };
        Built { snapshot, warnings: self.warnings }
    }
}

/// The block with its text taken out.
pub(super) fn left_out(block: &Block, why: &str) -> Block {
    Block {
        rendered_digest: Digest::of(""),
        tokens: Tokens::estimated(0),
        verdict: Verdict::Blocked { why: why.to_owned() },
        ..block.clone()
    }
}

/// What became of a source.
struct State {
    text: String,
    verdict: Verdict,
}

impl State {
    const fn loaded(text: String) -> Self {
        Self { text, verdict: Verdict::Loaded }
    }

    const fn out(verdict: Verdict) -> Self {
        Self { text: String::new(), verdict }
    }
}

/// Every block, in the order of the prompt.
pub(super) fn add_all(out: &mut Composer, input: &SnapshotInput<'_>) {
    add_identity(out, input);
    add_guidance(out, input);
    add_environment(out, input);
    add_caller(out, input);
    add_project(out, input);
    add_workspace(out, input);
    add_skills(out, input);
    add_memory(out, input, MemoryKind::Memory);
    add_memory(out, input, MemoryKind::User);
    add_sections(out, input);
    add_session(out, input);
    add_date(out, input);
}

/// SOUL.md is the person's own: it is warned about, never displaced.
fn add_identity(out: &mut Composer, input: &SnapshotInput<'_>) {
    let path = input.home.soul_path();
    let mut replaced = false;
    let mut left_out = None;
    match source_text::read(&path) {
        Ok(read) if read.text.trim().is_empty() => {
            left_out = Some((read.digest, Verdict::Empty));
        }
        Ok(read) => {
            let notes = read.notes.iter().map(|note| format!("{}: {note}", path.display()));
            out.warnings.extend(notes);
            for finding in threat::screen(&read.text).removed {
                out.warnings.push(format!(
                    "{}:{}: looks suspicious to the threat scan ({}) and is in the prompt, \
                     because the file is yours; hint: check that you wrote it",
                    path.display(),
                    finding.line,
                    finding.rule
                ));
            }
            let limit = project::limit(input.config.context_file_max_chars, input.context_window);
            let state = limited(out, &path, read.text.trim(), limit, Verdict::Loaded);
            out.add("identity", Tier::Stable, file(&path), read.digest, state);
            replaced = true;
        }
        Err(source_text::SourceProblem::Missing) => {}
        Err(problem) => {
            out.warnings.push(format!(
                "{}: not loaded, the built-in identity stands in: {problem}",
                path.display()
            ));
            let why = problem.to_string();
            left_out = Some((Digest::of(""), Verdict::Blocked { why }));
        }
    }
    if !replaced {
        out.add_words("identity", Tier::Stable, &words::IDENTITY, words::IDENTITY_TEXT);
    }
    if let Some((digest, verdict)) = left_out {
        out.add("identity:SOUL.md", Tier::Stable, file(&path), digest, State::out(verdict));
    }
}

fn add_guidance(out: &mut Composer, input: &SnapshotInput<'_>) {
    let agent = &input.config.agent;
    out.add_words("guidance:frames", Tier::Stable, &words::FRAMES, words::FRAMES_TEXT);
    if input.tools.defs.is_empty() {
        return;
    }
    let chosen = [
        (agent.task_completion_guidance, words::WORK_FINISH),
        (agent.parallel_tool_call_guidance, words::WORK_PARALLEL),
        (agent.verify_guidance, words::WORK_VERIFY),
    ];
    let work: Vec<&str> = chosen.iter().filter(|(on, _)| *on).map(|(_, text)| *text).collect();
    out.add_words("guidance:work", Tier::Stable, &words::WORK, &work.join(" "));

    let present = |names: &&[&str]| names.iter().any(|name| has_tool(input.tools, name));
    let sentences: Vec<&str> = words::TOOL_SENTENCES
        .iter()
        .filter(|(names, _)| present(names))
        .map(|(_, text)| *text)
        .collect();
    out.add_words("guidance:tools", Tier::Stable, &words::TOOLS, &sentences.join(" "));

    if is_urged(&agent.tool_use_enforcement, input.model) {
        out.add_words("guidance:model", Tier::Stable, &words::MODEL, words::MODEL_TEXT);
    }
}

fn is_urged(setting: &str, model: &str) -> bool {
    let model = model.to_lowercase();
    match setting.trim() {
        "true" | "on" | "yes" => true,
        "false" | "off" | "no" => false,
        _ => words::ANNOUNCING.iter().any(|family| model.contains(family)),
    }
}

fn add_environment(out: &mut Composer, input: &SnapshotInput<'_>) {
    let agent = &input.config.agent;
    if agent.environment_probe {
        let text = format!("Host: {} ({}).", std::env::consts::OS, std::env::consts::ARCH);
        let source = Source::Builtin { name: "host".to_owned(), version: 1 };
        out.add("environment:host", Tier::Stable, source, Digest::of(&text), State::loaded(text));
    }
    let hint = agent.environment_hint.trim();
    if !hint.is_empty() {
        let source = Source::Config { key: "agent.environment_hint".to_owned() };
        let state = State::loaded(hint.to_owned());
        out.add("environment:hint", Tier::Stable, source, Digest::of(hint), state);
    }
    let platform = words::platform(input.platform).unwrap_or_default();
    out.add_words("environment:platform", Tier::Stable, &words::PLATFORM, platform);
}

fn add_caller(out: &mut Composer, input: &SnapshotInput<'_>) {
    if let Some(text) = input.caller.map(str::trim).filter(|text| !text.is_empty()) {
        let source = Source::Builtin { name: "caller".to_owned(), version: 1 };
        let state = State::loaded(text.to_owned());
        out.add("caller", Tier::Context, source, Digest::of(text), state);
    }
    let instructions = input.config.agent.coding_instructions.trim();
    if !instructions.is_empty() {
        let source = Source::Config { key: "agent.coding_instructions".to_owned() };
        let state = State::loaded(instructions.to_owned());
        out.add("caller:coding", Tier::Context, source, Digest::of(instructions), state);
    }
}

fn add_project(out: &mut Composer, input: &SnapshotInput<'_>) {
    let limit = project::limit(input.config.context_file_max_chars, input.context_window);
    for found in project::load(input.workspace, limit) {
        out.warnings.extend(found.warnings);
        let text = if found.verdict.is_in() {
            fence("project", &[("file", &found.label)], &found.text)
        } else {
            String::new()
        };
        let id = format!("project:{}", found.label);
        let state = State { text, verdict: found.verdict };
        out.add(&id, Tier::Context, file(&found.path), found.digest, state);
    }
}

fn add_workspace(out: &mut Composer, input: &SnapshotInput<'_>) {
    let workspace = input.workspace;
    let repository = match (&workspace.git_root, &workspace.git_branch) {
        (Some(root), Some(branch)) => format!("Git root: {} (branch {branch})", root.display()),
        (Some(root), None) => format!("Git root: {}", root.display()),
        (None, _) => "Not in a git repository.".to_owned(),
    };
    let cwd = workspace.cwd.display();
    let text = format!("# Workspace\nWorking directory: {cwd}\n{repository}");
    let source = Source::Builtin { name: "workspace".to_owned(), version: 1 };
    out.add("workspace", Tier::Context, source, Digest::of(&text), State::loaded(text));
}

fn add_skills(out: &mut Composer, input: &SnapshotInput<'_>) {
    let roots = skills::roots(input.home, input.config, input.workspace);
    let folder = input.home.skills_dir();
    let Catalogue { skills, warnings, digest } =
        skills::discover(&roots, Some(&skills::cache_path(input.home)));
    if skills.is_empty() && warnings.is_empty() && input.config.skills.auto_load.is_empty() {
        out.add("skills", Tier::Volatile, file(&folder), digest, State::out(Verdict::Empty));
        return;
    }
    out.warnings.extend(warnings);
    let names: Vec<&str> = input.tools.defs.iter().map(|def| &*def.name).collect();
    let gate = Gate {
        os: std::env::consts::OS,
        platform: input.platform,
        tools: &names,
        disabled: &input.config.skills.disabled,
    };
    let state = if has_tool(input.tools, "skill_view") {
        let index = skills::index(&skills, &gate, skills::index_budget(input.context_window));
        if index.is_empty() {
            State::out(Verdict::Empty)
        } else {
            State::loaded(escape(&index).into_owned())
        }
    } else {
        State::out(Verdict::Blocked {
            why: "there is no skill_view tool to load skills".to_owned(),
        })
    };
    out.add("skills", Tier::Volatile, file(&folder), digest, state);
    add_loaded_skills(out, input, &skills, &gate);
    for skill in &skills {
        let verdict = match &skill.state {
            skills::SkillState::Shadowed { by } => {
                Verdict::Shadowed { by: by.display().to_string() }
            }
            _ => match skill.offered(&gate) {
                Ok(()) => continue,
                Err(why) => Verdict::Blocked { why },
            },
        };
        let id = format!("skills:{}", skill.name);
        out.add(&id, Tier::Volatile, file(&skill.path), skill.digest, State::out(verdict));
    }
}

/// The bodies of the skills that the person wants in every session.
fn add_loaded_skills(
    out: &mut Composer,
    input: &SnapshotInput<'_>,
    skills: &[skills::Skill],
    gate: &Gate<'_>,
) {
    for name in &input.config.skills.auto_load {
        let found = skills::find(skills, gate, name)
            .and_then(|skill| Ok((skill, skills::view(skill, None, 0)?)));
        let (skill, view) = match found {
            Ok(found) => found,
            Err(error) => {
                out.warnings.push(format!("skills.auto_load: {error}"));
                continue;
            }
        };
        out.warnings.extend(view.warnings);
        let mut text = view.text;
        if input.config.skills.template_vars {
            text = skills::fill_variables(&text, skill, input.session);
        }
        let kept = text.chars().count() as u64;
        let verdict = match view.next_offset {
            Some(_) => Verdict::Truncated { kept, total: view.total as u64 },
            None => Verdict::Loaded,
        };
        let text = fence("skill", &[("name", &skill.name)], &text);
        let id = format!("skills:{}", skill.name);
        let state = State { text, verdict };
        out.add(&id, Tier::Volatile, file(&skill.path), view.digest, state);
    }
}

fn add_memory(out: &mut Composer, input: &SnapshotInput<'_>, kind: MemoryKind) {
    let memory = MemoryFile::of(input.home, input.config, kind);
    let settings = &input.config.memory;
    let (enabled, key) = match kind {
        MemoryKind::Memory => (settings.memory_enabled, "memory.memory_enabled"),
        MemoryKind::User => (settings.user_profile_enabled, "memory.user_profile_enabled"),
    };
    let add = |out: &mut Composer, digest, state| {
        out.add(kind.id(), Tier::Volatile, file(&memory.path), digest, state);
    };
    if !enabled {
        let why = format!("{key} is off");
        return add(out, Digest::of(""), State::out(Verdict::Blocked { why }));
    }
    let read = match memory.read() {
        Ok(read) => read,
        Err(error) => {
            out.warnings.push(format!("not loaded: {error}"));
            let why = error.to_string();
            return add(out, Digest::of(""), State::out(Verdict::Blocked { why }));
        }
    };
    out.warnings.extend(read.warnings);
    if read.entries.is_empty() {
        return add(out, read.digest, State::out(Verdict::Empty));
    }
    let joined = read.entries.iter().map(shown).collect::<Vec<_>>().join("\n§\n");
    let screened = threat::screen(&joined);
    out.warnings.extend(project::threat_warnings(&memory.path, &screened));
    let verdict =
        if screened.removed.is_empty() { Verdict::Loaded } else { project::flagged(&screened) };
    // The labels of sources do not count against the limit.
    let labels = joined.chars().count().saturating_sub(read.used);
    let path = memory.path.display().to_string();
    let (text, verdict) = match cut::cut(&screened.text, memory.limit + labels, &path) {
        Some(cut) => (cut.text, Verdict::Truncated { kept: cut.kept, total: cut.total }),
        None => (screened.text, verdict),
    };
    let used = format!("{} of {} characters", read.used, memory.limit);
    let text = fence(kind.id(), &[("used", &used)], &text);
    add(out, read.digest, State { text, verdict });
}

/// An entry with the source it carries, so that what came from a file or a page is never taken
/// for the person's word.
fn shown(entry: &Entry) -> String {
    match entry.note.as_ref().and_then(|note| note.source.as_deref()) {
        Some(source) => {
            let source: String = source.chars().filter(|c| !c.is_control()).take(200).collect();
            format!("[{source}; not said by the person] {}", entry.text)
        }
        None => entry.text.clone(),
    }
}

/// What plugins add. Their text is screened like a project's file: they bring texts of others.
fn add_sections(out: &mut Composer, input: &SnapshotInput<'_>) {
    for section in input.sections {
        let screened = threat::screen(&section.text);
        let verdict = if screened.removed.is_empty() {
            Verdict::Loaded
        } else {
            for found in &screened.removed {
                out.warnings.push(format!(
                    "plugin {}: section {}:{}: taken out of the prompt by the threat scan ({})",
                    section.plugin, section.id, found.line, found.rule
                ));
            }
            project::flagged(&screened)
        };
        let text =
            fence("plugin", &[("from", &section.plugin), ("id", &section.id)], &screened.text);
        let id = format!("plugin:{}", section.id);
        let source = Source::Plugin { id: section.plugin.clone() };
        let digest = Digest::of(&section.text);
        out.add(&id, Tier::Volatile, source, digest, State { text, verdict });
    }
}

fn add_session(out: &mut Composer, input: &SnapshotInput<'_>) {
    let mut lines = vec!["# Session".to_owned()];
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("{name}: {value}"));
        }
    };
    line("Model", input.model);
    line("Provider", input.provider);
    line("Platform", input.platform);
    line("Id", input.session.as_str());
    let text = lines.join("\n");
    let source = Source::Builtin { name: "session".to_owned(), version: 1 };
    out.add("session", Tier::Volatile, source, Digest::of(&text), State::loaded(text));
}

/// By the day, so that sessions of one day share it, and with the zone.
fn add_date(out: &mut Composer, input: &SnapshotInput<'_>) {
    let date = input.now.civil(input.utc_offset_seconds).strftime("%A, %-d %B %Y");
    let minutes = input.utc_offset_seconds.unsigned_abs() / 60;
    let sign = if input.utc_offset_seconds < 0 { '-' } else { '+' };
    let mut zone = format!("UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60);
    let name = input.config.timezone.trim();
    if !name.is_empty() {
        zone = format!("{name}, {zone}");
    }
    let text = format!("Session started on {date} ({zone}).");
    let source = Source::Builtin { name: "date".to_owned(), version: 1 };
    out.add("date", Tier::Volatile, source, Digest::of(&text), State::loaded(text));
}

/// `text` cut to `limit`, told to the person.
fn limited(out: &mut Composer, path: &Path, text: &str, limit: usize, verdict: Verdict) -> State {
    match cut::cut(text, limit, &path.display().to_string()) {
        None => State { text: text.to_owned(), verdict },
        Some(cut) => {
            out.warnings.push(format!(
                "{}: {} of {} characters are in the prompt (limit {limit}), lines {} to {} are \
                 not; hint: shorten it",
                path.display(),
                cut.kept,
                cut.total,
                cut.lines.0,
                cut.lines.1,
            ));
            let verdict = Verdict::Truncated { kept: cut.kept, total: cut.total };
            State { text: cut.text, verdict }
        }
    }
}

fn has_tool(tools: &ToolSet, name: &str) -> bool {
    tools.defs.iter().any(|def| &*def.name == name)
}

fn file(path: &Path) -> Source {
    Source::File { path: path.display().to_string() }
}
