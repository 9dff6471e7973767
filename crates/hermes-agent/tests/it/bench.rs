//! The bench that these tests work at: a home, a store, a server, a tool of awkward shape.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_agent::{Cancel, Conversation, Services, StartOptions, TurnReport, UserInput};
use hermes_context::Workspace;
use hermes_core::{
    Env, EventSink, NullSink, ScriptedEnv, SessionId, Timestamp, ToolCall, ToolDef, ToolOutcome,
    ToolRegistry, ToolSink,
};
use hermes_home::{Home, Overrides, ProcessVars, load, routes};
use hermes_provider::Backoff;
use hermes_provider::rehearsal::{Rehearsal, RehearsalOptions, RehearsalServer, Script};
use hermes_store::{OpenMode, Store, StoreOptions, StorePaths};
use hermes_tools::DenyAll;

pub struct Bench {
    pub folder: tempfile::TempDir,
    pub server: RehearsalServer,
    pub env: Arc<dyn Env>,
}

impl Bench {
    pub fn new(script: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = script.map(|text| Script::parse(Path::new("script.json"), text).unwrap());
        let server =
            Rehearsal::start(RehearsalOptions { script, ..RehearsalOptions::default() }).unwrap();
        // A clock that moves by a millisecond at every look: order is visible, nothing waits.
        let now = Timestamp(1_796_032_560_000_000);
        let env: Arc<dyn Env> = Arc::new(ScriptedEnv::new(now, 1000, 7));
        std::fs::write(
            folder.path().join("config.yaml"),
            format!(
                "model:\n  default: scripted\n  provider: custom\n  base_url: {}\n  api_key: \
                 test-not-a-key\nagent:\n  api_max_retries: 2\n",
                server.base_url()
            ),
        )
        .unwrap();
        Self { folder, server, env }
    }

    pub fn services(&self) -> Services {
        let home = Home::at(self.folder.path());
        home.ensure().unwrap();
        let vars = ProcessVars::new();
        let loaded = load(&home, &vars, &Overrides::default()).unwrap();
        let chain = routes(&loaded.config, &loaded.vars).unwrap();
        let paths = StorePaths {
            db: home.store_path(),
            spool_dir: home.spool_dir(),
            drafts_dir: home.drafts_dir(),
        };
        // A lock that is held is given up on soon.
        let patience =
            StoreOptions { busy_timeout: Duration::from_millis(50), ..StoreOptions::default() };
        let store =
            Store::open_with(paths, self.env.clone(), OpenMode::ReadWrite, patience).unwrap();
        let config = Arc::new(loaded.config);
        let mut services =
            Services::new(home, config, store, self.env.clone(), Arc::new(vars), &chain).unwrap();
        services.backoff = Backoff::quick();
        services
    }

    pub fn database(&self) -> PathBuf {
        Home::at(self.folder.path()).store_path()
    }

    pub fn options(&self) -> StartOptions {
        let workspace = Workspace::discover(self.folder.path());
        StartOptions {
            tools: Some(Arc::new(Awkward)),
            ..StartOptions::new(workspace, "cli".to_owned(), Arc::new(DenyAll))
        }
    }

    pub fn start(&self, services: &Services) -> Conversation {
        Conversation::start(services, self.options()).unwrap()
    }

    pub fn resume(&self, services: &Services, id: &SessionId) -> Conversation {
        let info = services.store.session(id).unwrap().unwrap();
        Conversation::resume(services, &info, self.options()).unwrap()
    }
}

/// One turn, waited for.
pub fn say(services: &Services, conversation: &mut Conversation, input: UserInput) -> TurnReport {
    say_to(services, conversation, input, &NullSink)
}

/// One turn, waited for and listened to.
pub fn say_to(
    services: &Services,
    conversation: &mut Conversation,
    input: UserInput,
    sink: &dyn EventSink,
) -> TurnReport {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cancel = Cancel::default();
    runtime.block_on(conversation.turn(services, input, sink, &cancel)).unwrap()
}

/// A tool whose definition has what a JSON library would rewrite: key order, `1e5`, a long
/// integer, escapes. It gives its arguments back.
pub struct Awkward;

pub const DEFINITION: &str = r#"{"type":"function","function":{"parameters":{"type":"object","properties":{"zeta":{"type":"number","maximum":1e5},"alpha":{"type":"string","default":"\u00e9\/\u2028"},"n":{"type":"integer","maximum":123456789012345678901234567890}}},"name":"echo","description":"Gives its arguments back."}}"#;

impl ToolRegistry for Awkward {
    fn definitions(&self) -> Vec<ToolDef> {
        vec![ToolDef { name: "echo".into(), json: DEFINITION.into() }]
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        _sink: &'a dyn ToolSink,
    ) -> Pin<Box<dyn Future<Output = ToolOutcome> + Send + 'a>> {
        Box::pin(
            async move { ToolOutcome::ok(format!("got {}\u{0}\u{7f}\u{2028}", call.arguments)) },
        )
    }
}
