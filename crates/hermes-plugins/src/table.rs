//! The hook table: every hook there is, as data. The dispatcher reads it, `hermes hooks list`
//! prints it, the guide is generated from it.
//!
//! Names, payload fields and result rules are those of Hermes Agent 0.22.2, and of the main branch
//! after it for the last three.

use std::fmt::Write as _;

/// What a hook may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// Hears; what it returns is ignored. What it receives is redacted.
    Observer,
    /// Decides.
    Directive,
    /// Replaces a value.
    Transform,
}

impl Category {
    /// The word in listings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observer => "observer",
            Self::Directive => "directive",
            Self::Transform => "transform",
        }
    }
}

/// What becomes of the matter if a callback raises, hangs, or its process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fails {
    /// It goes on as if the callback had said nothing.
    Open,
    /// It does not happen.
    Closed,
}

impl Fails {
    /// The word in listings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// Where callbacks run and whether the caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadRule {
    /// On a worker; the caller waits for the result.
    Worker,
    /// On a worker, one event after the other and none lost; the caller does not wait, and the next
    /// hook that is waited for comes after them for the plugins that hear both.
    Behind,
    /// On a worker, one event after the other; the caller does not wait, old events are dropped
    /// when a callback cannot keep up.
    Queue,
}

impl ThreadRule {
    /// The word in listings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Behind => "behind",
            Self::Queue => "queue",
        }
    }
}

/// What a callback may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Returns {
    /// Nothing that counts.
    Nothing,
    /// `block`, `approve` or `modify`; block beats approve.
    ToolDirective,
    /// Text, or a mapping with `context`: every one is added, in order.
    Context,
    /// Text; the first one wins, also an empty one.
    FirstText,
    /// Text; the first one that is not empty wins.
    FirstNonEmptyText,
    /// A message with which the turn goes on; the first one wins.
    Continue,
    /// A class of error; the first valid one wins.
    ErrorClass,
    /// Text or a mapping with `message`, shown to the person.
    Message,
    /// `skip`, `rewrite` or `allow`; the first one wins.
    GatewayDirective,
    /// `handled`, with or without a reply; the first one wins.
    Handled,
    /// A mapping of fields; the last writer of each wins.
    Fields,
    /// `block`, or a mapping with `text`.
    Speech,
}

impl Returns {
    /// The words in listings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::ToolDirective => "block, approve or modify; block beats approve",
            Self::Context => "text or {context}; all are added, in order",
            Self::FirstText => "text; the first wins",
            Self::FirstNonEmptyText => "text; the first that is not empty wins",
            Self::Continue => "{action: continue, message}; the first wins",
            Self::ErrorClass => "{reason, ...}; the first valid one wins",
            Self::Message => "text or {message}, shown to the person",
            Self::GatewayDirective => "{action: skip, rewrite or allow}; the first wins",
            Self::Handled => "{action: handled, reply}; the first wins",
            Self::Fields => "{prompt, language, model}; the last of each wins",
            Self::Speech => "{action: block} or {text}",
        }
    }
}

/// One hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookSpec {
    /// Its name.
    pub name: &'static str,
    /// What it may do.
    pub category: Category,
    /// Whether the original bounds its callbacks in time; here all are bounded.
    pub bounded: bool,
    /// What a failing callback means.
    pub fails: Fails,
    /// Where it runs.
    pub thread: ThreadRule,
    /// What it may return.
    pub returns: Returns,
    /// Whether this program fires it now; the others wait for parts that are not built yet.
    pub fired_now: bool,
    /// When it fires.
    pub when: &'static str,
}

const fn hook(
    name: &'static str,
    category: Category,
    returns: Returns,
    when: &'static str,
) -> HookSpec {
    HookSpec {
        name,
        category,
        bounded: false,
        fails: Fails::Open,
        thread: ThreadRule::Worker,
        returns,
        fired_now: true,
        when,
    }
}

impl HookSpec {
    const fn bounded(self) -> Self {
        Self { bounded: true, ..self }
    }
    const fn closed(self) -> Self {
        Self { fails: Fails::Closed, ..self }
    }
    const fn behind(self) -> Self {
        Self { thread: ThreadRule::Behind, ..self }
    }
    const fn queue(self) -> Self {
        Self { thread: ThreadRule::Queue, ..self }
    }
    const fn later(self) -> Self {
        Self { fired_now: false, ..self }
    }
}

const O: Category = Category::Observer;
const D: Category = Category::Directive;
const T: Category = Category::Transform;
const N: Returns = Returns::Nothing;

/// Every hook, in the order of the guide.
pub const HOOKS: &[HookSpec] = &[
    hook("pre_tool_call", D, Returns::ToolDirective, "before a tool runs, once a call")
        .bounded()
        .closed(),
    hook("post_tool_call", O, N, "after a tool call: success, error, block or cancel").bounded(),
    hook("transform_tool_result", T, Returns::FirstText, "before a result enters the history")
        .bounded(),
    hook("transform_terminal_output", T, Returns::FirstText, "on the output of a command")
        .bounded(),
    hook("pre_llm_call", D, Returns::Context, "once a turn, before the first request").bounded(),
    hook("post_llm_call", O, N, "once a turn that gave an answer").bounded(),
    hook("transform_llm_output", T, Returns::FirstNonEmptyText, "before an answer is stored")
        .bounded(),
    hook("pre_verify", D, Returns::Continue, "when a turn that edited files is about to end")
        .bounded(),
    hook("pre_api_request", O, N, "before each attempt at a request").bounded().behind(),
    hook("post_api_request", O, N, "after each answered request").bounded().behind(),
    hook("api_request_error", O, N, "after each failed attempt").bounded().behind(),
    hook("pre_auxiliary_call", O, N, "before each attempt at a side request").bounded().behind(),
    hook("post_auxiliary_call", O, N, "after each attempt at a side request").bounded().behind(),
    hook(
        "transform_api_error_classification",
        T,
        Returns::ErrorClass,
        "when a failed request is classified",
    ),
    hook("on_stream_start", O, N, "when an answer begins to arrive").queue(),
    hook("on_stream_delta", O, N, "on each piece of an answer").queue(),
    hook("on_stream_end", O, N, "when an answer has arrived").queue(),
    hook("on_interim_message", O, N, "on text between tool calls").queue(),
    hook("on_session_start", O, N, "when a session's prompt is built").bounded(),
    hook("on_session_end", O, N, "at the end of every turn").bounded(),
    hook("on_session_finalize", O, Returns::Message, "when a session is left for good"),
    hook("on_session_reset", O, N, "when another session takes its place"),
    hook("agent_loop_stopped", O, N, "when a running turn is stopped from outside").later(),
    hook("subagent_start", O, N, "before a delegated agent runs"),
    hook("subagent_stop", O, N, "when a delegated agent has ended"),
    hook("on_skill_lifecycle", O, N, "after a skill was used or changed").later(),
    hook("pre_approval_request", O, N, "before a person is asked for approval"),
    hook("post_approval_response", O, N, "after the answer to that"),
    hook("on_human_input_request", O, N, "when something waits for a person"),
    hook("on_human_input_resolved", O, N, "when it waits no more"),
    hook("pre_command", O, N, "before a slash command runs"),
    hook("pre_transcription", T, Returns::Fields, "before speech is transcribed").later(),
    hook(
        "pre_gateway_dispatch",
        D,
        Returns::GatewayDirective,
        "on each incoming chat message, before it is authorised",
    )
    .later(),
    hook("post_gateway_admission", D, Returns::Handled, "on each admitted chat message")
        .bounded()
        .later(),
    hook("gateway_platform_event", O, N, "on reactions, edits and threads of a platform").later(),
    hook("on_room_member_activity", O, N, "on what members of a group chat do").queue().later(),
    hook("kanban_task_claimed", O, N, "after a task was claimed").later(),
    hook("kanban_task_completed", O, N, "after a task was completed").later(),
    hook("kanban_task_blocked", O, N, "after a task was blocked").later(),
    hook("on_kanban_worker_spawned", O, N, "when a task's worker was started").later(),
    hook("on_kanban_worker_exited", O, N, "when a task's worker has ended").later(),
    hook("on_kanban_worker_stale_claim", O, N, "when a claim was found dead").later(),
    hook("on_kanban_task_updated", O, N, "after another change of a task").later(),
    hook("on_kanban_dispatch_tick", O, N, "after each look at the board").later(),
    hook(
        "post_compaction",
        O,
        N,
        "after a compaction took effect, before the session's next pre_llm_call",
    )
    .bounded(),
    hook("on_session_delete", O, N, "after sessions were deleted or archived").bounded(),
    hook("pre_tts_synthesis", D, Returns::Speech, "before text is spoken")
        .bounded()
        .closed()
        .later(),
];

/// Hooks that are this program's answer to the main branch, after 0.22.2.
pub const NEWER_THAN_ORIGINAL: [&str; 3] =
    ["post_compaction", "on_session_delete", "pre_tts_synthesis"];

/// A hook by its name.
pub fn find(name: &str) -> Option<&'static HookSpec> {
    HOOKS.iter().find(|hook| hook.name == name)
}

/// What an unknown hook is treated as: kept, never fired by this program.
pub(crate) const UNKNOWN: HookSpec = hook("", O, N, "").later();

/// The table for the guide.
pub fn markdown() -> String {
    let mut out = String::from(
        "| hook | kind | when | returns | a failing callback | fired |\n|---|---|---|---|---|---|\n",
    );
    for hook in HOOKS {
        let fails = match (hook.category, hook.fails) {
            (Category::Observer, _) => "is logged",
            (_, Fails::Closed) => "stops it",
            (_, Fails::Open) => "is skipped",
        };
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {} |",
            hook.name,
            hook.category.as_str(),
            hook.when,
            hook.returns.as_str(),
            fails,
            if hook.fired_now { "yes" } else { "not yet" }
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_holds_the_44_names_of_the_original_and_three_more_each_once() {
        let names: BTreeSet<&str> = HOOKS.iter().map(|hook| hook.name).collect();
        assert_eq!((names.len(), HOOKS.len()), (47, 47));
        assert!(NEWER_THAN_ORIGINAL.iter().all(|name| names.contains(name)));
    }

    #[test]
    fn only_guards_fail_closed() {
        let closed: Vec<&str> =
            HOOKS.iter().filter(|hook| hook.fails == Fails::Closed).map(|hook| hook.name).collect();
        assert_eq!(closed, ["pre_tool_call", "pre_tts_synthesis"]);
    }

    #[test]
    fn the_guides_table_has_a_row_for_every_hook() {
        assert_eq!(markdown().lines().count(), HOOKS.len() + 2);
    }
}
