//! `hermes tour`: a real session in a temporary home against the rehearsal provider, and the
//! proof of every claim it makes.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use hermes_agent::inspect::{Inspector, Verdict};
use hermes_agent::{Cancel, Conversation, Services, StartOptions, UserInput};
use hermes_context::Workspace;
use hermes_core::{Digest, NullSink, TurnOutcome};
use hermes_home::{Home, Overrides, ProcessVars, SystemEnv, load, routes};
use hermes_store::{OpenMode, RequestFilter, Store, StorePaths};
use hermes_tools::DenyAll;

use crate::commands::chat;
use crate::exit::Exit;
use crate::out::{self, Paint};

/// What the file of the tour's project holds.
const NOTE: &str = "The tour's lighthouse keeper is called Amaranth.\n";
/// The one command the tour may run, allowed by its exact text.
const COMMAND: &str = "echo proof is better than trust";
/// What the tour asks to be remembered.
const MEMORY: &str = "the lighthouse is painted COBALT";
/// The rule in the tour's project file.
const RULE: &str = "# Rules\n\nKeep answers short.\n";
/// The tour's configuration. The command is allowed by its exact text, nothing else is.
const CONFIG: &str =
    "model:\n  provider: rehearsal\napprovals:\n  allow:\n    - echo proof is better than trust\n";

/// Runs the tour. Exit code 0 only if every claim held.
///
/// # Errors
/// If the temporary home cannot be made or a turn cannot be carried out.
pub fn run(keep: bool) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let folder = tempfile::Builder::new()
        .prefix("hermes-tour-")
        .tempdir()
        .context("no temporary folder can be made")?;
    let mut tour = Tour::open(folder.path())?;
    tour.intro()?;
    tour.read_a_file()?;
    tour.run_a_command()?;
    tour.write_memory()?;
    tour.next_session_sees_it()?;
    tour.prove_requests()?;
    tour.deleted_is_said()?;
    let held = tour.end(began)?;
    if keep {
        let path = folder.keep();
        out::line(format!(
            "kept: HERMES_HOME={} hermes requests list",
            path.join("home").display()
        ))?;
    }
    Ok(if held { Exit::Ok } else { Exit::Unproven })
}

struct Tour {
    services: Services,
    conversation: Conversation,
    workspace: Workspace,
    runtime: tokio::runtime::Runtime,
    paint: Paint,
    claims: u32,
    failed: u32,
}

impl Tour {
    fn open(folder: &Path) -> anyhow::Result<Self> {
        let (root, project) = (folder.join("home"), folder.join("project"));
        for made in [&root, &project] {
            fs::create_dir_all(made).with_context(|| format!("making {}", made.display()))?;
        }
        fs::write(project.join("note.txt"), NOTE)?;
        fs::write(project.join("AGENTS.md"), RULE)?;
        fs::write(root.join("config.yaml"), CONFIG)?;
        let home = Home::at(&root);
        home.ensure()?;
        // The tour's home is its own: nothing of the person's environment reaches it.
        let vars = ProcessVars::new();
        let loaded = load(&home, &vars, &Overrides::default())?;
        let env = Arc::new(SystemEnv::new(&loaded.config.timezone));
        let paths = StorePaths {
            db: home.store_path(),
            spool_dir: home.spool_dir(),
            drafts_dir: home.drafts_dir(),
        };
        let store = Store::open(paths, env.clone(), OpenMode::ReadWrite)?;
        let chain = routes(&loaded.config, &loaded.vars)?;
        let config = Arc::new(loaded.config);
        let services = Services::new(home, config, store, env, Arc::new(vars), &chain)?;
        let workspace = Workspace::discover(&fs::canonicalize(&project)?);
        let conversation = Conversation::start(&services, options(&workspace))?;
        Ok(Self {
            services,
            conversation,
            workspace,
            runtime: chat::runtime()?,
            paint: Paint::stdout(),
            claims: 0,
            failed: 0,
        })
    }

    fn intro(&self) -> anyhow::Result<()> {
        out::line(self.paint.bold("A real session, stored and proved"))?;
        out::line(
            "It talks to the built-in rehearsal provider over loopback HTTP. That is no language \
             model:\nit follows a few plain requests, so that everything else here can be real.",
        )?;
        out::line(format!(
            "working directory {}, session {}",
            self.workspace.cwd.display(),
            self.conversation.id()
        ))
    }

    /// One turn, shown; the answer.
    fn say(&mut self, text: &str) -> anyhow::Result<String> {
        out::line("")?;
        out::line(format!("{} {text}", self.paint.bold("you:")))?;
        let (input, cancel) = (UserInput::text(text), Cancel::default());
        let turn = self.conversation.turn(&self.services, input, &NullSink, &cancel);
        let report = self.runtime.block_on(turn)?;
        out::line(format!("{} {}", self.paint.bold("rehearsal:"), report.answer.trim()))?;
        if report.outcome != TurnOutcome::Answered {
            self.claim("the turn was answered", Err(format!("{:?}", report.outcome)))?;
        }
        Ok(report.answer)
    }

    /// States a claim and whether it holds.
    fn claim(&mut self, text: &str, holds: Result<(), String>) -> anyhow::Result<()> {
        self.claims += 1;
        match holds {
            Ok(()) => out::line(format!("  {} {text}", self.paint.green("holds:"))),
            Err(why) => {
                self.failed += 1;
                out::line(format!("  {} {text}: {why}", self.paint.red("FAILS:")))
            }
        }
    }

    fn tool_results(&self) -> String {
        let rows = self.conversation.rows().iter();
        rows.map(|row| row.text_of(hermes_core::Origin::Tool)).collect()
    }

    fn read_a_file(&mut self) -> anyhow::Result<()> {
        self.say("read note.txt")?;
        let found = self.tool_results().contains(NOTE.trim_end());
        self.claim("the file's text came back in a tool result", ensure(found, "it did not"))
    }

    fn run_a_command(&mut self) -> anyhow::Result<()> {
        self.say(&format!("run {COMMAND}"))?;
        let found = self.tool_results().contains("proof is better than trust");
        self.claim(
            "a command ran, because its exact text is allowed",
            ensure(found, "it did not"),
        )?;
        let before = self.tool_results().len();
        self.say("run echo something else")?;
        let after = self.tool_results().split_off(before);
        let denied = !after.contains("something else\n") && after.contains("approvals.allow");
        self.claim("another command did not run: nobody was there to ask", ensure(denied, &after))
    }

    fn write_memory(&mut self) -> anyhow::Result<()> {
        let before = self.conversation.snapshot().digest;
        self.say(&format!("remember {MEMORY}"))?;
        let file = fs::read_to_string(self.services.home.memory_path()).unwrap_or_default();
        let written = ensure(file.contains(MEMORY), "the file does not hold it");
        self.claim("memories/MEMORY.md holds the new entry on disk", written)?;
        self.say("what can you see of COBALT")?;
        let last = self.requests()?.pop().context("a request was sent")?;
        let same = ensure(
            last.attempt.prompt == before,
            &format!("{} became {}", before.short(), last.attempt.prompt.short()),
        );
        self.claim("the prompt of the next request is the same, byte for byte", same)?;
        let inside = self.conversation.snapshot().text.contains(MEMORY);
        let stale = ensure(!inside, "the prompt holds it already");
        self.claim("so this session's prompt does not hold it yet", stale)
    }

    fn next_session_sees_it(&mut self) -> anyhow::Result<()> {
        let next = Conversation::start(&self.services, options(&self.workspace))?;
        let inside = next.snapshot().text.contains(MEMORY);
        self.claim("a new session's prompt does", ensure(inside, "it does not"))?;
        let rule = next.snapshot().text.contains("Keep answers short.");
        self.claim("and it holds the project's AGENTS.md", ensure(rule, "it does not"))
    }

    fn requests(&self) -> anyhow::Result<Vec<hermes_store::RequestRecord>> {
        Ok(self.services.store.requests(&RequestFilter::default())?)
    }

    fn prove_requests(&mut self) -> anyhow::Result<()> {
        let requests = self.requests()?;
        out::line("")?;
        let rows = requests
            .iter()
            .map(|record| {
                let attempt = &record.attempt;
                vec![
                    attempt.id.to_string(),
                    attempt.turn.to_string(),
                    attempt.body_bytes.to_string(),
                    attempt.prompt.short(),
                    attempt.history.short(),
                    attempt.body.short(),
                ]
            })
            .collect();
        let head = ["request", "turn", "bytes", "prompt", "history", "body"];
        out::table(&head, rows, "no request was sent")?;

        let received = self.services.rehearsal_received();
        let mut inspector = Inspector::new(&self.services.store);
        let mut wrong = Vec::new();
        let mut unequal = 0;
        for (at, record) in requests.iter().enumerate() {
            let verdict = inspector.verify(record);
            if verdict != Verdict::Verified {
                wrong.push(format!("{} {verdict:?}", record.attempt.id));
            }
            let body = inspector.body(record)?;
            let arrived = received.get(at).map(Vec::as_slice);
            if arrived != Some(&body[..]) || Digest::of(&body) != record.attempt.body {
                unequal += 1;
            }
        }
        let total = requests.len();
        let all = ensure(total > 0 && wrong.is_empty(), &wrong.join("; "));
        self.claim(&format!("{total} of {total} requests verified from stored rows"), all)?;
        let count = received.len();
        let equal = ensure(unequal == 0 && count == total, &format!("{unequal} differ"));
        self.claim(
            &format!("the {count} bodies that the server received are equal, byte for byte"),
            equal,
        )
    }

    fn deleted_is_said(&mut self) -> anyhow::Result<()> {
        // A session of its own, so that the tour's first one stays to be looked at.
        let mut short = Conversation::start(&self.services, options(&self.workspace))?;
        let (input, cancel) = (UserInput::text("hello"), Cancel::default());
        let turn = short.turn(&self.services, input, &NullSink, &cancel);
        let report = self.runtime.block_on(turn)?;
        short.release()?;
        self.conversation.release()?;
        let ids = vec![report.session.clone()];
        let reason = hermes_core::DeleteReason::Delete;
        self.services.store.delete_session(hermes_store::DeleteRequest::new(ids, reason))?;
        let id = report.requests.first().context("a request was sent")?;
        let record = self.services.store.request(id.as_str())?;
        let verdict = Inspector::new(&self.services.store).verify(&record);
        let said = ensure(verdict == Verdict::Deleted, &format!("{verdict:?}"));
        self.claim("a request of a deleted session says deleted, and keeps its digests", said)
    }

    fn end(self, began: Instant) -> anyhow::Result<bool> {
        let Self { services, conversation, paint, claims, failed, .. } = self;
        drop(conversation);
        services.store.close();
        let seconds = began.elapsed().as_secs_f64();
        let held = claims - failed;
        let text = format!("{held} of {claims} claims hold ({seconds:.1} s)");
        out::line("")?;
        out::line(if failed == 0 { paint.green(&text) } else { paint.red(&text) })?;
        Ok(failed == 0)
    }
}

fn options(workspace: &Workspace) -> StartOptions {
    StartOptions::new(workspace.clone(), "cli".to_owned(), Arc::new(DenyAll))
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}
