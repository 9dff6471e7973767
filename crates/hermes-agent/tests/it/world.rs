//! A home with a marker word in every source, a repository with a file in every role, and the
//! built-in tools.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hermes_agent::inspect::{TraceReport, WhyReport, trace, why};
use hermes_agent::{Conversation, Services, StartOptions, TurnReport, UserInput};
use hermes_context::Workspace;
use hermes_core::{Event, EventSink, SessionId};
use hermes_tools::DenyAll;

use crate::bench::{Bench, say, say_to};

pub struct World {
    pub bench: Bench,
    pub services: Services,
}

/// Path below the home or, behind `work/`, in the repository; and what it holds.
const FILES: &[(&str, &str)] = &[
    ("SOUL.md", "You are the SOUL-1 person.\n"),
    ("memories/MEMORY.md", "MEMORY-1 is noted\n"),
    ("memories/USER.md", "likes USER-1\n"),
    (
        "skills/ops/deploy/SKILL.md",
        "---\nname: deploy\ndescription: SKILLDESC-1 here.\n---\nSKILLBODY-1\n",
    ),
    ("work/.git/HEAD", "ref: refs/heads/main\n"),
    ("work/AGENTS.md", "ROOT-1 rule\n"),
    ("work/CLAUDE.md", "SHADOW-1 rule\n"),
    ("work/backend/AGENTS.md", "NESTED-1 rule\n"),
    ("work/backend/probe.txt", "PROBE-1\n"),
    ("work/notes.txt", "NOTES-1\n"),
];

impl World {
    pub fn new(script: Option<&str>) -> Self {
        let bench = Bench::new(script);
        for (path, text) in FILES {
            put(&bench, path, text);
        }
        let services = bench.services();
        Self { bench, services }
    }

    pub fn put(&self, path: &str, text: &str) {
        put(&self.bench, path, text);
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.bench.folder.path().join(path)
    }

    /// The services as a process that starts now would have them.
    pub fn reload(&mut self) {
        self.services = self.bench.services();
    }

    pub fn options(&self) -> StartOptions {
        Self::options_in(&self.path("work"))
    }

    pub fn options_in(folder: &Path) -> StartOptions {
        let workspace = Workspace::discover(folder);
        StartOptions {
            delegates: true,
            ..StartOptions::new(workspace, "cli".to_owned(), Arc::new(DenyAll))
        }
    }

    pub fn start(&self) -> Conversation {
        Conversation::start(&self.services, self.options()).unwrap()
    }

    pub fn resume(&self, id: &SessionId) -> Conversation {
        let info = self.services.store.session(id).unwrap().unwrap();
        Conversation::resume(&self.services, &info, self.options()).unwrap()
    }

    pub fn say(&self, conversation: &mut Conversation, text: &str) -> TurnReport {
        say(&self.services, conversation, UserInput::text(text))
    }

    pub fn say_to(
        &self,
        conversation: &mut Conversation,
        text: &str,
        heard: &Notices,
    ) -> TurnReport {
        say_to(&self.services, conversation, UserInput::text(text), heard)
    }

    pub fn trace(&self, conversation: &Conversation, text: &str) -> TraceReport {
        trace(&self.services, conversation, text).unwrap()
    }

    pub fn why(&self, conversation: &Conversation, name: &str) -> WhyReport {
        why(&self.services, conversation, name).unwrap()
    }

    /// The last body that arrived.
    pub fn last_body(&self) -> String {
        String::from_utf8(self.bench.server.received().pop().unwrap()).unwrap()
    }
}

fn put(bench: &Bench, path: &str, text: &str) {
    let path = bench.folder.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Keeps what the person is told.
#[derive(Default)]
pub struct Notices(Mutex<Vec<String>>);

impl Notices {
    pub fn all(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

impl EventSink for Notices {
    fn event(&self, event: Event) {
        if let Event::Notice { text, .. } = event {
            self.0.lock().unwrap().push(text);
        }
    }
}
