//! The handoff on a terminal: acknowledged at once, built on a thread of its own, told before the
//! next prompt; then the session ends and the next one begins.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hermes_core::SessionId;
use hermes_handoff::trigger::{self, Dispatch, Inbound, Typed, WrapUp, dispatch};
use hermes_handoff::{BuildResult, LEAST_MESSAGES, Policy, Status};

use super::Repl;
use super::commands::Next;
use crate::commands::{chat, handoff};
use crate::out;

/// For how long a build is waited for before the prompt comes back. Most without a slow model are
/// done by then.
const AT_ONCE: Duration = Duration::from_millis(1_500);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(20);

/// A build that runs.
pub(super) struct Running {
    session: SessionId,
    thread: JoinHandle<anyhow::Result<BuildResult>>,
}

impl Repl<'_> {
    /// Whether the line asks for a handoff by the bare word; then it was seen to.
    pub(super) fn is_handoff(&mut self, line: &str) -> anyhow::Result<Option<Next>> {
        let inbound = Inbound {
            text: line,
            typed: Typed::ByPerson,
            building: self.handoff.is_some(),
            active: Policy::of(&self.services.config).active,
        };
        // Whoever sits at the terminal may.
        match dispatch(inbound, || true) {
            Dispatch::Pass => Ok(None),
            Dispatch::Reply(text) => {
                out::note(text);
                Ok(Some(Next::Stay))
            }
            Dispatch::Build { wrap_up, reply } => {
                out::note(reply);
                self.begin_handoff(&wrap_up).map(Some)
            }
        }
    }

    /// `/wrapup`.
    pub(super) fn wrap_up(&mut self, focus: &str) -> anyhow::Result<Next> {
        if !Policy::of(&self.services.config).active {
            out::note(
                "the plugin hermes-handoff is enabled and hands over itself, without /wrapup",
            );
            return Ok(Next::Stay);
        }
        let line = format!("/wrapup {focus}");
        Ok(self.is_handoff(&line)?.unwrap_or(Next::Stay))
    }

    fn begin_handoff(&mut self, wrap_up: &WrapUp) -> anyhow::Result<Next> {
        let session = self.conversation.id().clone();
        let job = self.services.hand_off(&session, wrap_up.focus.as_deref());
        let thread = std::thread::Builder::new()
            .name("handoff".to_owned())
            .spawn(move || Ok(chat::runtime()?.block_on(job.run())))?;
        self.handoff = Some(Running { session, thread });
        let until = Instant::now() + AT_ONCE;
        while Instant::now() < until
            && self.handoff.as_ref().is_some_and(|running| !running.thread.is_finished())
        {
            std::thread::sleep(LOOK);
        }
        Ok(Next::Stay)
    }

    /// Tells of a build that is done, and ends its session; waits for it if asked to.
    pub(super) fn settle_handoff(&mut self, wait: bool) -> anyhow::Result<()> {
        let done = |running: &mut Running| wait || running.thread.is_finished();
        let Some(Running { session, thread }) = self.handoff.take_if(done) else {
            return Ok(());
        };
        if !thread.is_finished() {
            out::note("the handoff is still being written; you leave when it is done");
        }
        let result = thread.join().map_err(|_| anyhow::anyhow!("the handoff broke off"))??;
        let closes = result.status.is_built() && Policy::of(&self.services.config).close;
        if !closes {
            out::note(result.sentence());
            return Ok(());
        }
        let (result, ended) = handoff::finished(&self.services, result);
        out::note(result.sentence());
        if !ended {
            return Ok(());
        }
        if *self.conversation.id() == session && !wait {
            self.tell_left("handoff");
            self.start_new()?;
            self.tell_reset(&session, "handoff");
        }
        Ok(())
    }

    /// Proposes, or begins, a handoff that the settings make due. Once for each reason.
    pub(super) fn see_to_due_handoff(&mut self) -> anyhow::Result<()> {
        if self.handoff.is_some() || !self.conversation.is_stored() {
            return Ok(());
        }
        let id = self.conversation.id().clone();
        let Some(due) = hermes_agent::due(&self.services, &id)? else { return Ok(()) };
        let told = (id, due.at);
        if self.due_told.as_ref() == Some(&told) {
            return Ok(());
        }
        self.due_told = Some(told);
        if Policy::of(&self.services.config).does {
            out::note(format!("{}; {}", due.why, trigger::ACKNOWLEDGED));
            self.begin_handoff(&WrapUp::default())?;
        } else {
            out::note(format!(
                "{}; the bare word handoff ends it with a capsule and starts a new one",
                due.why
            ));
        }
        Ok(())
    }

    /// What `/new` says to a session that is worth handing over.
    pub(super) fn offer_handoff(&self) -> anyhow::Result<()> {
        let Some(info) = self.info()? else { return Ok(()) };
        let open = info.ended_at.is_none() && self.handoff.is_none();
        if open
            && info.message_count >= LEAST_MESSAGES as u64
            && Policy::of(&self.services.config).active
        {
            out::note(format!(
                "hint: the bare word handoff instead of /new lets the new session go on where this \
                 one ends; `hermes handoff build --session-id {}` still does it",
                info.id
            ));
        }
        Ok(())
    }
}

/// What waits for the session that begins here.
pub(super) fn waiting(repl: &Repl<'_>) -> Option<String> {
    let offer = repl.conversation.waiting_capsule(&repl.services)?;
    let how =
        if offer.record.status == Status::Fallback.word() { ", which no model wrote," } else { "" };
    Some(format!(
        "a capsule of session {}{how} waits; your first message goes out with it (hint: hermes \
         handoff show, or discard)",
        offer.record.session
    ))
}
