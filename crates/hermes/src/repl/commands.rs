//! Slash commands as data: name, aliases, arguments, help, what Tab offers, what is run. Help,
//! completion and the guide read this table; there is no other list.

use hermes_agent::inspect;
use hermes_context::skills::{SlashCommand, slash_commands};
use hermes_core::{AttemptOutcome, Usage};
use hermes_handoff::Policy;
use hermes_home::Config;
use hermes_store::{RequestFilter, SessionFilter, SessionInfo, Store, TitleSource};

use super::{Repl, browse};
use crate::commands::{compactions, context, skills as skill_files, trace};
use crate::exit::{Exit, Failure};
use crate::out::{self, Paint, ellipsis};

/// One command.
pub struct Command {
    /// Its name, without the slash.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// Its arguments, as help shows them.
    pub arguments: &'static str,
    /// What it does, in a few words.
    pub help: &'static str,
    /// What Tab offers behind its name.
    pub words: Words,
    /// Does it. The text is what follows the name.
    pub run: fn(&mut Repl<'_>, &str) -> anyhow::Result<Next>,
}

/// What Tab offers behind a command's name.
#[derive(Clone, Copy)]
pub enum Words {
    /// Nothing.
    None,
    /// These words, each with its meaning.
    Fixed(&'static [(&'static str, &'static str)]),
    /// Stored sessions of this workspace.
    Sessions,
    /// These words, and stored sessions behind the last of them.
    OrSessions(&'static [(&'static str, &'static str)]),
}

/// What happens after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next line is read.
    Stay,
    /// The conversation is left.
    Leave,
}

/// Every command, in the order of `/help`.
pub const TABLE: &[Command] = &[
    Command {
        name: "help",
        aliases: &[],
        arguments: "",
        help: "list these commands and the keys",
        words: Words::None,
        run: help,
    },
    Command {
        name: "new",
        aliases: &["reset"],
        arguments: "[TITLE]",
        help: "start a new session; this one stays stored",
        words: Words::None,
        run: new,
    },
    Command {
        name: "wrapup",
        aliases: &[],
        arguments: "[FOCUS]",
        help: "end this session with a capsule that the next one here starts with (also: handoff)",
        words: Words::None,
        run: wrapup,
    },
    Command {
        name: "resume",
        aliases: &[],
        arguments: "SESSION",
        help: "take up a stored session: number, id, unique prefix, title or \"latest\"",
        words: Words::Sessions,
        run: resume,
    },
    Command {
        name: "sessions",
        aliases: &[],
        arguments: "[more | delete SESSION ..]",
        help: "list the sessions of this workspace, with numbers for /resume; delete some of them",
        words: Words::OrSessions(&[
            ("more", "the next ones of the list"),
            ("delete", "delete sessions for good, after a look at what goes with them"),
        ]),
        run: browse::sessions,
    },
    Command {
        name: "title",
        aliases: &[],
        arguments: "[TEXT]",
        help: "show or set the title of this session",
        words: Words::None,
        run: title,
    },
    Command {
        name: "usage",
        aliases: &[],
        arguments: "",
        help: "show the tokens of this session, as the provider reported them",
        words: Words::None,
        run: usage,
    },
    Command {
        name: "context",
        aliases: &["ctx"],
        arguments: "[QUESTION]",
        help: "show what the last request was made of; all, next, sources, why NAME ask further",
        words: Words::Fixed(&[
            ("all", "every part instead of groups"),
            ("next", "what the next request would hold"),
            ("sources", "every source and its present state"),
            ("why", "why a file, source or skill is in or out"),
        ]),
        run: context,
    },
    Command {
        name: "compress",
        aliases: &["compact"],
        arguments: "[here N] [FOCUS]",
        help: "shorten what the next request holds; --preview shows it first, --undo takes it back",
        words: Words::Fixed(&[
            ("here", "keep the newest exchanges exactly as they are"),
            ("--preview", "what it would do and cost"),
            ("--undo", "take the newest compaction back"),
        ]),
        run: compress,
    },
    Command {
        name: "undo",
        aliases: &[],
        arguments: "[N]",
        help: "take the last turn, or the last N, out of the conversation; nothing is deleted",
        words: Words::None,
        run: undo,
    },
    Command {
        name: "retry",
        aliases: &[],
        arguments: "",
        help: "take the last turn back and ask the same again",
        words: Words::None,
        run: retry,
    },
    Command {
        name: "recall",
        aliases: &[],
        arguments: "ROW|TEXT",
        help: "show original messages by number (r12, r12-r15) or by words",
        words: Words::None,
        run: recall,
    },
    Command {
        name: "refresh",
        aliases: &[],
        arguments: "[SOURCE ..]",
        help: "read sources of the prompt anew; shows what changed and what it costs",
        words: Words::Fixed(&[
            ("memory", "MEMORY.md"),
            ("user", "USER.md"),
            ("identity", "SOUL.md"),
            ("project", "project files"),
            ("skills", "the skills index"),
            ("tools", "the tool definitions"),
        ]),
        run: refresh,
    },
    Command {
        name: "trace",
        aliases: &[],
        arguments: "TEXT",
        help: "find every place where a text is or was",
        words: Words::None,
        run: trace,
    },
    Command {
        name: "report",
        aliases: &[],
        arguments: "",
        help: "write an account of this session that is safe to paste",
        words: Words::None,
        run: report,
    },
    Command {
        name: "plugins",
        aliases: &[],
        arguments: "",
        help: "list the plugins that run here, with their commands and tools",
        words: Words::None,
        run: plugins,
    },
    Command {
        name: "hooks",
        aliases: &[],
        arguments: "",
        help: "list the hooks that somebody listens to",
        words: Words::None,
        run: hooks,
    },
    Command {
        name: "skills",
        aliases: &[],
        arguments: "",
        help: "list the skills and the commands that load them",
        words: Words::None,
        run: skills,
    },
    Command {
        name: "model",
        aliases: &[],
        arguments: "[MODEL]",
        help: "show the model, or go on with another one in this session",
        words: Words::None,
        run: model,
    },
    Command {
        name: "exit",
        aliases: &["quit"],
        arguments: "[--delete]",
        help: "leave; what was said stays stored, unless --delete removes the session",
        words: Words::None,
        run: exit,
    },
];

/// Whether a built-in command has exactly this name or alias.
pub fn is_built_in(name: &str) -> bool {
    TABLE.iter().any(|command| command.name == name || command.aliases.contains(&name))
}

/// Whether a built-in command is left to a plugin: the handoff's, while one hands over itself.
pub fn is_yielded(name: &str, config: &Config) -> bool {
    name == "wrapup" && !Policy::of(config).active
}

/// Finds a command by name, alias or unique prefix of a name.
///
/// # Errors
/// The nearest name, if any is near.
pub fn find(name: &str) -> Result<&'static Command, Option<&'static str>> {
    let exact =
        TABLE.iter().find(|command| command.name == name || command.aliases.contains(&name));
    if let Some(command) = exact {
        return Ok(command);
    }
    let mut begin = TABLE.iter().filter(|command| {
        command.name.starts_with(name) || command.aliases.iter().any(|it| it.starts_with(name))
    });
    match (begin.next(), begin.next()) {
        (Some(command), None) if !name.is_empty() => Ok(command),
        (Some(command), Some(_)) => Err(Some(command.name)),
        _ => Err(nearest(name)),
    }
}

fn nearest(name: &str) -> Option<&'static str> {
    TABLE
        .iter()
        .flat_map(|command| std::iter::once(command.name).chain(command.aliases.iter().copied()))
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .filter(|(distance, known)| *distance <= known.len().div_ceil(2).min(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// The command and its argument, if the line is one. A path such as `/etc/hosts` is none.
pub fn parse(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix('/')?;
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let is_name = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    is_name.then_some((name, argument.trim()))
}

/// The table in Markdown, as the guide shows it.
pub fn markdown() -> String {
    let head = "| command | also | what it does |\n|---|---|---|\n".to_owned();
    TABLE.iter().fold(head, |text, command| {
        let also: Vec<String> = command.aliases.iter().map(|name| format!("`/{name}`")).collect();
        let (usage, also) = (usage_of(command), also.join(", "));
        text + &format!("| `{usage}` | {also} | {} |\n", command.help)
    })
}

fn usage_of(command: &Command) -> String {
    format!("/{} {}", command.name, command.arguments).trim_end().to_owned()
}

fn help(repl: &mut Repl<'_>, _: &str) -> anyhow::Result<Next> {
    let paint = Paint::stdout();
    for command in TABLE {
        let also = match command.aliases {
            [] => String::new(),
            aliases => format!(" (also /{})", aliases.join(", /")),
        };
        let usage = paint.bold(&format!("{:<18}", usage_of(command)));
        out::line(format!("  {usage} {}{}", command.help, paint.dim(&also)))?;
    }
    for offered in super::plugged::offers(repl.services.plugins())() {
        let usage = format!("/{} {}", offered.name, offered.arguments);
        let usage = paint.bold(&format!("{:<18}", usage.trim_end()));
        out::line(format!("  {usage} {}", offered.help))?;
    }
    out::line(paint.dim(
        "  Tab completes. Alt-Enter, Ctrl-J or a backslash at the end makes a new line.\n  \
         Up and Ctrl-R find earlier lines; one that begins with a space stays out of their file.\n  \
         Ctrl-C clears the line or stops the turn; a second one leaves at once. Ctrl-D leaves.\n  \
         // sends a message that begins with /.",
    ))?;
    Ok(Next::Stay)
}

fn plugins(repl: &mut Repl<'_>, _: &str) -> anyhow::Result<Next> {
    super::plugged::list(repl)
}

fn hooks(repl: &mut Repl<'_>, _: &str) -> anyhow::Result<Next> {
    super::plugged::list_hooks(repl)
}

fn wrapup(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    repl.wrap_up(argument)
}

fn new(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    repl.farewell();
    repl.offer_handoff()?;
    repl.tell_left("new");
    let old = repl.conversation.id().clone();
    repl.start_new()?;
    repl.tell_reset(&old, "new");
    if !argument.is_empty() {
        title(repl, argument)?;
    }
    Ok(Next::Stay)
}

fn resume(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    if argument.is_empty() {
        browse::sessions(repl, "")?;
        out::note("hint: /resume NUMBER takes one up");
        return Ok(Next::Stay);
    }
    let id = repl.named(argument)?;
    let info = repl.app.session_to_go_on(&repl.services.store, id.as_str())?;
    if info.id == *repl.conversation.id() {
        out::note("this session is open already");
        return Ok(Next::Stay);
    }
    repl.take_up(&info)?;
    Ok(Next::Stay)
}

/// Most characters of a session's name in a list.
const NAME_CHARS: usize = 40;

/// What a session is known by in a list: its title, else how it begins.
pub(super) fn name_of(store: &Store, info: &SessionInfo) -> String {
    let name = match &info.title {
        Some(title) => title.clone(),
        None => store.beginning(&info.id).unwrap_or_default(),
    };
    if name.trim().is_empty() { "untitled".to_owned() } else { ellipsis(&name, NAME_CHARS) }
}

/// Most characters of a title.
const TITLE_CHARS: usize = 100;

fn title(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    let text: String = argument.chars().filter(|c| !c.is_control()).take(TITLE_CHARS).collect();
    if text.is_empty() {
        let stored = repl.info()?.and_then(|info| info.title);
        let title = repl.pending_title.clone().or(stored);
        out::line(title.as_deref().unwrap_or("this session has no title"))?;
        return Ok(Next::Stay);
    }
    if repl.conversation.is_stored() {
        let id = repl.conversation.id();
        let given = repl.services.store.set_title(id, Some(&text), TitleSource::User)?;
        out::note(format!("title: {}", given.as_deref().unwrap_or(&text)));
    } else {
        out::note(format!("title: {text} (stored with the first message)"));
        repl.pending_title = Some(text);
    }
    Ok(Next::Stay)
}

fn usage(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    let Some(info) = repl.info()? else {
        out::note("nothing was sent in this session yet");
        return Ok(Next::Stay);
    };
    if !argument.is_empty() {
        out::note("note: /usage takes no argument; hint: hermes requests list has each request");
    }
    let requests = repl
        .services
        .store
        .requests(&RequestFilter { session: Some(info.id), ..RequestFilter::default() })?;
    let ends = requests.iter().filter_map(|request| request.end.as_ref());
    let answered = ends.filter(|end| end.outcome == AttemptOutcome::Ok).map(|end| end.usage);
    for line in usage_lines(&answered.collect::<Vec<_>>()) {
        out::line(line)?;
    }
    Ok(Next::Stay)
}

/// One of the figures that a provider reports.
type Figure = fn(&Usage) -> Option<u64>;

/// The tokens of the answered requests. What no provider reported stays unknown; what some of
/// them reported says of how many requests it is the sum.
fn usage_lines(answered: &[Usage]) -> Vec<String> {
    let figures: [(&str, Figure); 5] = [
        ("input", |usage| usage.input),
        ("  read from cache", |usage| usage.cache_read),
        ("  written to cache", |usage| usage.cache_write),
        ("output", |usage| usage.output),
        ("  reasoning", |usage| usage.reasoning),
    ];
    let count = answered.len();
    let mut lines =
        vec![format!("{count} requests answered; tokens as the provider reported them:")];
    for (name, figure) in figures {
        let reported: Vec<u64> = answered.iter().filter_map(figure).collect();
        let sum = match reported.len() {
            0 => "unknown".to_owned(),
            _ => reported.iter().sum::<u64>().to_string(),
        };
        let of = match reported.len() {
            some if some > 0 && some < count => format!("  (reported by {some} of {count})"),
            _ => String::new(),
        };
        lines.push(format!("  {name:<20} {sum:>12}{of}"));
    }
    lines
}

fn context(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    let (word, rest) = argument.split_once(' ').unwrap_or((argument, ""));
    match word {
        "next" => {
            let report = inspect::next(&repl.services, &repl.conversation, "(your message)")?;
            context::print(&report, rest == "all")?;
        }
        "sources" => {
            context::print_sources(&inspect::sources(&repl.services, &repl.conversation)?)?;
        }
        "why" if !rest.trim().is_empty() => {
            let report = inspect::why(&repl.services, &repl.conversation, rest.trim())?;
            context::print_why(&report)?;
        }
        "" | "all" => match repl.info()? {
            Some(info) => {
                let report = context::report(repl.app, &repl.services.store, &info)?;
                context::print(&report, word == "all")?;
                compactions::print_trouble(&repl.services.store, info.id.as_str())?;
            }
            None => out::note(
                "nothing was sent in this session yet\nhint: /context next shows what would be",
            ),
        },
        _ => out::note("hint: /context, /context all, next, sources, or why NAME"),
    }
    Ok(Next::Stay)
}

fn compress(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    let wish = compactions::Wish::parse(argument).map_err(|why| Failure::new(Exit::Usage, why))?;
    repl.compress(&wish)?;
    Ok(Next::Stay)
}

fn undo(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    repl.undo(argument)
}

fn retry(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    if !argument.is_empty() {
        let text = "/retry takes nothing; hint: /undo brings the text back to be changed";
        return Err(Failure::new(Exit::Usage, text).into());
    }
    repl.retry()
}

fn recall(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    compactions::recall(&repl.conversation, argument)?;
    Ok(Next::Stay)
}

fn refresh(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    let sources: Vec<String> = argument.split_whitespace().map(str::to_owned).collect();
    // The configuration may be what changed.
    repl.services.config = std::sync::Arc::new(repl.app.config()?.config);
    let report = repl.conversation.refresh(&repl.services, &sources);
    repl.conversation.release()?;
    context::print_refresh(&report?)?;
    Ok(Next::Stay)
}

fn trace(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    if argument.is_empty() {
        out::note("hint: /trace TEXT");
        return Ok(Next::Stay);
    }
    trace::print(&inspect::trace(&repl.services, &repl.conversation, argument)?)?;
    Ok(Next::Stay)
}

fn report(repl: &mut Repl<'_>, _: &str) -> anyhow::Result<Next> {
    match repl.info()? {
        Some(info) => {
            let now = repl.app.env.now();
            out::raw(inspect::report(&repl.services, &repl.conversation, &info, now)?)?;
        }
        None => out::note("nothing was said in this session yet"),
    }
    Ok(Next::Stay)
}

fn skills(repl: &mut Repl<'_>, _: &str) -> anyhow::Result<Next> {
    let commands = repl.skill_commands();
    let rows = commands
        .into_iter()
        .map(|it| vec![format!("/{}", it.command), it.skill, it.notice.unwrap_or_default()])
        .collect();
    out::table(&["command", "skill", ""], rows, "there are no skills that can be loaded here")?;
    Ok(Next::Stay)
}

fn model(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    if argument.is_empty() {
        out::line(super::banner::model_line(&repl.services, &repl.conversation))?;
        return Ok(Next::Stay);
    }
    repl.change_model(argument)?;
    Ok(Next::Stay)
}

fn exit(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    match argument {
        "" => Ok(Next::Leave),
        "--delete" => {
            repl.delete_session()?;
            Ok(Next::Leave)
        }
        other => {
            let text = format!("/exit takes --delete or nothing, not \"{other}\"");
            Err(Failure::new(Exit::Usage, text).into())
        }
    }
}

impl Repl<'_> {
    /// The latest sessions of this workspace.
    pub(super) fn stored_here(&self, limit: usize) -> anyhow::Result<Vec<SessionInfo>> {
        let workspace = self.conversation.workspace();
        let root = workspace.git_root.as_ref().unwrap_or(&workspace.cwd).display().to_string();
        Ok(self.services.store.sessions(&SessionFilter {
            workspace: Some(root),
            limit: Some(limit),
            ..SessionFilter::default()
        })?)
    }

    /// The commands that load skills here.
    pub(super) fn skill_commands(&self) -> Vec<SlashCommand> {
        let names = TABLE.iter().flat_map(|it| std::iter::once(&it.name).chain(it.aliases));
        let reserved: Vec<&str> = names.copied().collect();
        let (config, workspace) = (&self.services.config, self.conversation.workspace());
        skill_files::found(self.app, config, workspace, |catalogue, gate| {
            slash_commands(&catalogue.skills, gate, &reserved)
        })
    }

    /// The facts of the session; None before anything was said.
    pub(super) fn info(&self) -> anyhow::Result<Option<SessionInfo>> {
        if !self.conversation.is_stored() {
            return Ok(None);
        }
        Ok(self.services.store.session(self.conversation.id())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str) -> Result<&'static str, Option<&'static str>> {
        find(name).map(|command| command.name)
    }

    #[test]
    fn a_command_is_found_by_name_alias_and_unique_prefix_else_the_nearest_is_named() {
        assert_eq!(found("exit"), Ok("exit"));
        assert_eq!(found("quit"), Ok("exit"));
        assert_eq!(found("ti"), Ok("title"));
        assert_eq!(found("q"), Ok("exit"));
        assert_eq!(found("tilte"), Err(Some("title")));
        assert_eq!(found("hepl"), Err(Some("help")));
        assert_eq!(found("xyzzyx"), Err(None));
        assert_eq!(found("res"), Err(Some("new")), "/reset and /resume both begin so");
    }

    #[test]
    fn tokens_that_nobody_reported_are_unknown_and_part_sums_say_so() {
        let some = Usage { input: Some(10), output: Some(2), ..Usage::default() };
        let other = Usage { input: Some(5), ..Usage::default() };
        let lines = usage_lines(&[some, other, Usage { input: Some(0), ..Usage::default() }]);
        let told: Vec<String> =
            lines.iter().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            told,
            [
                "3 requests answered; tokens as the provider reported them:",
                "input 15",
                "read from cache unknown",
                "written to cache unknown",
                "output 2 (reported by 1 of 3)",
                "reasoning unknown",
            ]
        );
    }

    #[test]
    fn names_and_aliases_are_unique_and_helped() {
        let mut names: Vec<&str> = TABLE
            .iter()
            .flat_map(|it| std::iter::once(it.name).chain(it.aliases.iter().copied()))
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(TABLE.iter().all(|command| !command.help.is_empty()));
        assert_eq!(markdown().lines().count(), TABLE.len() + 2);
    }

    #[test]
    fn a_path_or_a_lone_slash_is_a_message() {
        assert_eq!(parse("/title  my work "), Some(("title", "my work")));
        assert_eq!(parse("/help"), Some(("help", "")));
        assert_eq!(parse("/etc/hosts has what?"), None);
        assert_eq!(parse("/"), None);
        assert_eq!(parse("//title"), None);
        assert_eq!(parse("hello /help"), None);
    }
}
