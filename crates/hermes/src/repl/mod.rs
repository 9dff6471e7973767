//! The conversation on a terminal: a line is read, a turn runs, its answer streams.
//!
//! Invariants: the line editor and a turn never read the keyboard at the same time; the session
//! is given back after every turn, so that another process may use it; nothing is stored before
//! something was said.

mod banner;
mod browse;
pub mod commands;
mod complete;
mod compress;
mod handoff;
mod history;
mod interrupt;
mod line;
mod plugged;
mod rewind;
mod title;
mod typed;

use std::io::{self, IsTerminal as _};

use hermes_agent::handoff::END_REASON;
use hermes_agent::{Cancel, Conversation, Services, UserInput};
use hermes_context::Workspace;
use hermes_core::{SessionId, TurnOutcome};
use hermes_home::{Loaded, Overrides};
use hermes_store::{SessionFilter, SessionInfo, Store, StoreError, TitleSource};
use tokio::runtime::Runtime;

use self::commands::Next;
use self::interrupt::Interrupts;
use self::line::{Input, LineEditor};
use crate::app::App;
use crate::commands::{chat, upkeep};
use crate::exit::{Exit, Failure};
use crate::out;
use crate::render::{Screen, Show};

/// The conversation and what it is held with.
pub struct Repl<'a> {
    app: &'a App,
    runtime: Runtime,
    interrupts: Interrupts,
    services: Services,
    conversation: Conversation,
    /// A title given before anything was stored.
    pending_title: Option<String>,
    /// The sessions that `/sessions` listed last, for `/resume NUMBER`.
    listed: Vec<SessionId>,
    /// Messages of the session when this process last looked.
    known_messages: u64,
    /// The capsule that is being built.
    handoff: Option<handoff::Running>,
    /// The title that was asked for last.
    title: Option<title::Asked>,
    /// The session was deleted on the way out.
    deleted: bool,
    /// The session and its compactions for which a due handoff was last told.
    due_told: Option<(SessionId, (u32, bool))>,
    /// What stands in the line when it is read next.
    draft: Option<String>,
    /// What could not be loaded of plugins was told.
    plugins_told: bool,
}

/// Holds a conversation until the person leaves.
///
/// # Errors
/// If it cannot be opened or the terminal fails.
pub fn run(app: &App, first: &chat::Beginning) -> anyhow::Result<Exit> {
    if !io::stdout().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::new(
            Exit::Usage,
            "a conversation needs a terminal; hint: `hermes chat -q TEXT` says one thing and \
             prints the answer",
        )
        .into());
    }
    let (services, mut conversation) = chat::open(app, first, true)?;
    conversation.release()?;
    plugged::load(services.plugins());
    let mut editor = LineEditor::new(
        &app.home,
        &services.config,
        session_lookup(services.store.clone(), conversation.workspace()),
        &plugged::offers(services.plugins()),
    );
    let mut repl = Repl {
        app,
        runtime: chat::runtime()?,
        interrupts: Interrupts::watch()?,
        services,
        conversation,
        pending_title: None,
        listed: Vec::new(),
        known_messages: 0,
        handoff: None,
        title: None,
        deleted: false,
        due_told: None,
        draft: None,
        plugins_told: false,
    };
    repl.note_messages()?;
    repl.introduce()?;
    let mut exit = Exit::Ok;
    loop {
        repl.tell_of_handoff(false);
        if let Some(draft) = repl.draft.take() {
            editor.put(draft);
        }
        match editor.read()? {
            Input::Closed => break,
            Input::Cleared => {}
            Input::Line(line) => {
                let mut next = repl.line(&line);
                if next == Next::Stay && repl.interrupts.leaving().is_none() {
                    next = settled(repl.say_injected());
                }
                if let Some(code) = repl.interrupts.leaving() {
                    exit = code;
                    break;
                }
                if next == Next::Leave {
                    break;
                }
            }
        }
    }
    repl.tell_of_handoff(true);
    repl.end_title();
    repl.farewell();
    repl.tell_left("exit");
    // The editor looks sessions up in the store, so it goes first.
    drop(editor);
    let settings = &repl.services.config.sessions;
    upkeep::retain(app, &repl.services.store, settings, repl.conversation.id());
    crate::plugged::over(&repl.services)?;
    repl.services.store.close();
    Ok(exit)
}

/// What follows a command; an error is told and ends nothing.
fn settled(done: anyhow::Result<Next>) -> Next {
    done.unwrap_or_else(|error| {
        if out::is_broken_pipe(&error) {
            return Next::Leave;
        }
        out::error(&error);
        Next::Stay
    })
}

/// What Tab offers behind `/resume`.
fn session_lookup(store: Store, workspace: &Workspace) -> complete::SessionLookup {
    let root = workspace.git_root.as_ref().unwrap_or(&workspace.cwd).display().to_string();
    let filter =
        SessionFilter { workspace: Some(root), limit: Some(20), ..SessionFilter::default() };
    Box::new(move || {
        let infos = store.sessions(&filter).unwrap_or_default();
        infos
            .into_iter()
            .map(|info| {
                let name = commands::name_of(&store, &info);
                let about = out::visible(&name).into_owned();
                let about = format!("{about}, {} messages", info.message_count);
                (info.id.to_string(), about)
            })
            .collect()
    })
}

impl Repl<'_> {
    /// Banner, and the last exchanges of a resumed session.
    fn introduce(&self) -> anyhow::Result<()> {
        banner::print(&self.services, &self.conversation);
        if let Some(why) = &self.conversation.resume_report().rebuilt_because {
            out::note(format!("note: the prompt was built anew: {why}"));
        }
        banner::recap(&self.services, &self.conversation)?;
        if let Some(text) = banner::broken_off(self.conversation.rows()) {
            out::note(out::Paint::stderr().yellow(&text));
        }
        if let Some(text) = handoff::waiting(self) {
            out::note(text);
        }
        if self.services.config.display.compact {
            return Ok(());
        }
        out::note("");
        Ok(())
    }

    /// One line from the person: a command or a message.
    fn line(&mut self, line: &str) -> Next {
        self.tell_of_handoff(false);
        let done = match commands::parse(line) {
            Some((name, _)) if self.is_skill(name) => {
                let skills = self.skill(name).into_iter().collect();
                self.say(UserInput { skills, ..UserInput::text(line) })
            }
            Some((name, argument)) => self.command(name, argument),
            None if line.trim().is_empty() => Ok(Next::Stay),
            None => {
                // Two slashes stand for one that begins a message.
                let text = if line.starts_with("//") { &line[1..] } else { line };
                match self.is_handoff(line) {
                    Ok(Some(next)) => Ok(next),
                    Ok(None) => self.say(UserInput::text(text)),
                    Err(error) => Err(error),
                }
            }
        };
        settled(done)
    }

    /// A command of this program or of a plugin. A plugin's comes before beginnings of names of this
    /// program's, and never before a whole name that this program does not yield.
    fn command(&mut self, name: &str, argument: &str) -> anyhow::Result<Next> {
        let yields = commands::is_yielded(name, &self.services.config);
        if (yields || !commands::is_built_in(name))
            && let Some(own) = self.plugin_command(name)
        {
            return self.run_plugin_command(&own, name, argument);
        }
        match commands::find(name) {
            Ok(command) => {
                self.before_command(command.name, name, argument);
                (command.run)(self, argument)
            }
            Err(nearest) => {
                let hint = match nearest {
                    Some(nearest) => format!("did you mean /{nearest}?"),
                    None => "/help lists the commands".to_owned(),
                };
                out::note(format!("error: no command /{name}\nhint: {hint}"));
                Ok(Next::Stay)
            }
        }
    }

    /// Deletes the session of this conversation, which nobody else holds.
    ///
    /// # Errors
    /// If another process took it meanwhile, or the store cannot be written.
    pub(super) fn delete_session(&mut self) -> anyhow::Result<()> {
        if self.info()?.is_none() {
            out::note("nothing of this conversation was stored");
            return Ok(());
        }
        self.conversation.release()?;
        let ids = vec![self.conversation.id().clone()];
        upkeep::delete_at_exit(self.app, &self.services.store, &ids)?;
        self.deleted = true;
        out::note("note: lines that you typed here go to history.txt, as in a shell");
        Ok(())
    }

    /// A build that is done is told, and its session ended.
    fn tell_of_handoff(&mut self, wait: bool) {
        if let Err(error) = self.settle_handoff(wait) {
            out::error(&error);
        }
    }

    /// Whether a command of this name loads a skill: neither this program nor a plugin has it.
    fn is_skill(&mut self, name: &str) -> bool {
        !commands::is_built_in(name)
            && self.skill(name).is_some()
            && self.plugin_command(name).is_none()
    }

    /// The skill that a command of this name loads.
    fn skill(&self, command: &str) -> Option<String> {
        let commands = self.skill_commands();
        commands.into_iter().find(|it| it.command == command).map(|it| it.skill)
    }

    /// One turn. Ctrl-C stops it; what was said is kept.
    fn say(&mut self, input: UserInput) -> anyhow::Result<Next> {
        let screen = Screen::new(
            Show::Everything,
            self.services.config.display.show_reasoning,
            &self.conversation.model().model,
        );
        self.look_for_others()?;
        self.start_plugins();
        let cancel = Cancel::default();
        let running = self.interrupts.during(cancel.clone());
        let turn = self.conversation.turn(&self.services, input, &screen, &cancel);
        let report = self.runtime.block_on(turn);
        drop(running);
        let released = self.conversation.release();
        // What was said is stored, answered or not.
        if self.conversation.is_stored()
            && let Some(title) = self.pending_title.take()
        {
            let id = self.conversation.id();
            self.services.store.set_title(id, Some(&title), TitleSource::User)?;
        }
        match report?.outcome {
            TurnOutcome::Answered | TurnOutcome::Interrupted => {}
            TurnOutcome::Failed(why) => {
                self.note_messages()?;
                self.see_to_due_handoff()?;
                return Err(Failure::new(Exit::Provider, why).into());
            }
            TurnOutcome::LimitReached(calls) => out::note(format!(
                "the turn was ended after {calls} model calls\nhint: say \"go on\", or raise \
                 agent.max_turns"
            )),
        }
        released?;
        self.begin_title();
        self.note_messages()?;
        self.see_to_due_handoff()?;
        out::note("");
        Ok(if screen.is_closed() { Next::Leave } else { Next::Stay })
    }

    /// Remembers how many messages the session has, so that those of others are noticed.
    fn note_messages(&mut self) -> anyhow::Result<()> {
        let id = self.conversation.id();
        match self.services.store.session(id) {
            Err(StoreError::Unavailable { .. }) => {}
            found => self.known_messages = found?.map_or(0, |info| info.message_count),
        }
        Ok(())
    }

    /// Says what other processes did to this session since its last turn here.
    ///
    /// # Errors
    /// If one of them deleted it.
    fn look_for_others(&self) -> anyhow::Result<()> {
        if !self.conversation.is_stored() {
            return Ok(());
        }
        let id = self.conversation.id();
        let found = match self.services.store.session(id) {
            // The turn goes on in the side file, and tells what is wrong.
            Err(StoreError::Unavailable { .. }) => return Ok(()),
            found => found?,
        };
        let Some(info) = found else {
            return Err(Failure::new(
                Exit::NotFound,
                format!(
                    "session {id} was deleted by another process; your message was not sent; \
                     hint: /new starts a new session"
                ),
            )
            .into());
        };
        let here = self.known_messages;
        if info.message_count > here {
            out::note(format!(
                "note: {} messages were added to this session by another process; the model sees \
                 them (hint: hermes sessions show {id})",
                info.message_count - here
            ));
        }
        Ok(())
    }

    /// How to come back to this session, if there is anything to come back to.
    fn farewell(&self) {
        if self.conversation.is_stored() && !self.deleted {
            let id = self.conversation.id();
            out::note(format!("session {id} is stored (hermes --resume {id} goes on with it)"));
        }
    }

    /// Opens a new session with the same model in the same place.
    fn start_new(&mut self) -> anyhow::Result<()> {
        let options = chat::options(self.conversation.workspace().clone());
        self.change(Conversation::start(&self.services, options)?)
    }

    /// Opens a stored session with its own model, where it can still be reached.
    fn take_up(&mut self, info: &SessionInfo) -> anyhow::Result<()> {
        let loaded = self.app.config()?;
        let configured = loaded.config.terminal.cwd.clone();
        let options = chat::options(self.app.workspace(&configured, info.cwd.as_deref())?);
        let services = self.services_for(loaded, Some(info))?;
        let mut conversation = Conversation::resume(&services, info, options)?;
        conversation.release()?;
        self.farewell();
        if info.end_reason.as_deref() == Some(END_REASON) {
            out::note(format!("session {} ended with a handoff and is taken up again", info.id));
        }
        self.tell_left("resume");
        let old = self.conversation.id().clone();
        self.services = services;
        self.change(conversation)?;
        self.tell_reset(&old, "resume");
        Ok(())
    }

    /// Services for another session or model, with the plugins that run already.
    fn services_for(
        &self,
        loaded: Loaded,
        stored: Option<&SessionInfo>,
    ) -> anyhow::Result<Services> {
        let mut services = self.app.services(loaded, self.services.store.clone(), stored)?;
        services.keep_plugins(&self.services);
        Ok(services)
    }

    /// Goes on in this session with another model of the same or another provider.
    fn change_model(&mut self, model: &str) -> anyhow::Result<()> {
        let loaded = self.app.config_with(&Overrides {
            model: Some(model.to_owned()),
            provider: self.app.talk.provider.clone(),
            cwd: self.app.talk.cwd.clone(),
            ..Overrides::default()
        })?;
        let options = chat::options(self.conversation.workspace().clone());
        let services = self.services_for(loaded, None)?;
        let info = self.info()?;
        let mut conversation = match &info {
            Some(info) => Conversation::resume(&services, info, options)?,
            None => Conversation::start(&services, options)?,
        };
        conversation.release()?;
        self.services = services;
        self.conversation = conversation;
        out::note(format!("model: {}", banner::model_line(&self.services, &self.conversation)));
        if info.is_some() {
            out::note("the provider's cache of this session does not carry over");
        }
        Ok(())
    }

    fn change(&mut self, conversation: Conversation) -> anyhow::Result<()> {
        self.conversation = conversation;
        self.note_messages()?;
        self.pending_title = None;
        for warning in self.conversation.warnings() {
            out::note(format!("warning: {warning}"));
        }
        self.introduce()
    }
}
