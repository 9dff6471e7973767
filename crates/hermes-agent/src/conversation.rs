//! One session in this process: its rows, its snapshot, its place in the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_context::{Built, PluginSection, SnapshotInput, Workspace, build_snapshot, leave_out};
use hermes_core::{
    Block, Cause, Digest, EventSink, Generation, GenerationNo, Row, Seq, SessionId, Snapshot,
    Timestamp, ToolDef, ToolRegistry, ToolSet, TurnNo, View, WireProfile, fold_view,
};
use hermes_store::{
    ParentKind, Record, SessionInfo, SessionInit, SessionPatch, SessionWriter, StoreError,
    Unavailable,
};
use hermes_tools::{Approver, BuiltinTools, ToolContext, TurnSources};

use crate::pinned::{difference_notice, parse_tools};
use crate::{AgentError, ModelChoice, Services, compact, delegate, ledger, plugins};

/// What the person says in one turn.
#[derive(Clone, Debug, Default)]
pub struct UserInput {
    /// The text.
    pub text: String,
    /// Images sent with it.
    pub images: Vec<Image>,
    /// Skills that the person loads with it, by name.
    pub skills: Vec<String>,
}

/// An image sent with a message.
#[derive(Clone, Debug)]
pub struct Image {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl UserInput {
    /// Text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// How a conversation is held.
pub struct StartOptions {
    /// The working directory and what is known of it.
    pub workspace: Workspace,
    /// The surface, such as `cli`.
    pub platform: String,
    /// Who is asked before a command runs.
    pub approver: Arc<dyn Approver>,
    /// The caller's instructions for the prompt.
    pub caller: Option<String>,
    /// Tools in place of the built-in ones.
    pub tools: Option<Arc<dyn ToolRegistry>>,
    /// Whether tasks can be delegated.
    pub delegates: bool,
    /// The session that this one is a child of.
    pub child_of: Option<ChildOf>,
    /// How the session comes to its first turn; a capsule goes to what a person starts.
    pub start: hermes_handoff::Start,
    /// The capsule that it is to go on from, by its id, whatever its lane.
    pub capsule: Option<String>,
}

impl StartOptions {
    /// A conversation with the built-in tools and nothing else to it.
    pub fn new(workspace: Workspace, platform: String, approver: Arc<dyn Approver>) -> Self {
        Self {
            workspace,
            platform,
            approver,
            caller: None,
            tools: None,
            delegates: false,
            child_of: None,
            start: hermes_handoff::Start::Quiet,
            capsule: None,
        }
    }
}

/// Where a delegated task comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildOf {
    /// The session that delegated it.
    pub parent: SessionId,
    /// The call that did.
    pub call_id: Arc<str>,
    /// Most model calls.
    pub call_limit: u32,
}

impl ChildOf {
    /// The label of the goal's part: who said it.
    pub(crate) fn label(&self) -> Arc<str> {
        format!("delegated by {} in call {}", self.parent, self.call_id).into()
    }
}

/// What a resume found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumeReport {
    /// Why the prompt was built anew; None if the stored one was restored byte for byte.
    pub rebuilt_because: Option<String>,
    /// Rows in the store.
    pub rows: usize,
}

/// One session, held by this process from its first turn on.
pub struct Conversation {
    pub(crate) id: SessionId,
    pub(crate) model: ModelChoice,
    pub(crate) options: StartOptions,
    pub(crate) registry: Arc<dyn ToolRegistry>,
    pub(crate) writer: Option<SessionWriter>,
    pub(crate) rows: Vec<Row>,
    pub(crate) generations: Vec<Generation>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) tools: Arc<ToolSet>,
    /// What of the instructions could not be found: a repair could not save it.
    lost: Option<&'static str>,
    pub(crate) turn: TurnNo,
    pub(crate) compactions: u32,
    pub(crate) warnings: Vec<String>,
    pub(crate) resumed: ResumeReport,
    /// Reasons for the side file that the person was told of.
    pub(crate) spool_told: Vec<Unavailable>,
    /// Records of a generation that was made in memory and is stored with the next turn.
    pub(crate) unsaved: Vec<Record>,
    /// Quirks learned in this session, by the endpoint's index.
    pub(crate) learned: BTreeMap<usize, WireProfile>,
    /// Told to the model with the next user row.
    pub(crate) pending_notices: Vec<String>,
    /// What was said and read in the present turn.
    pub(crate) sources: TurnSources,
    /// What is known of its compactions.
    pub(crate) compaction: compact::State,
    /// What is known of the plugins that it runs with.
    pub(crate) plugged: plugins::State,
    started_at: Timestamp,
    /// Whether the session's row is in the store.
    stored: bool,
    /// Whether it has ended; the next thing said opens it again.
    pub(crate) ended: bool,
    /// The highest seq given out, kept while the lease is given back.
    pub(crate) seen: Seq,
}

impl Conversation {
    /// A new session. Nothing is written before its first turn.
    ///
    /// # Errors
    /// None today; the type leaves room for plugins that refuse a start.
    pub fn start(services: &Services, options: StartOptions) -> Result<Self, AgentError> {
        let id = SessionId::generate(&*services.env);
        let model = primary(services);
        let sources = TurnSources::default();
        let plugged = plugins::State::default();
        let registry = registry(services, &options, &id, &sources, &plugged);
        let tools = Arc::new(ToolSet::new(definitions(&*registry, &options)));
        let now = services.env.now();
        let built = build(services, &options, &id, &model, &tools);
        let snapshot = Arc::new(built.snapshot);
        let mut conversation = Self {
            id,
            model,
            options,
            registry,
            writer: None,
            rows: Vec::new(),
            generations: Vec::new(),
            snapshot,
            tools,
            lost: None,
            turn: TurnNo(0),
            compactions: 0,
            warnings: built.warnings,
            resumed: ResumeReport::default(),
            spool_told: Vec::new(),
            unsaved: Vec::new(),
            learned: BTreeMap::new(),
            pending_notices: Vec::new(),
            sources,
            compaction: compact::State::default(),
            plugged,
            started_at: now,
            stored: false,
            ended: false,
            seen: Seq(0),
        };
        conversation.restart_unsaved(now);
        Ok(conversation)
    }

    /// Makes the first generation, of a session that is not stored yet, carry the present prompt
    /// and tools.
    pub(crate) fn restart_unsaved(&mut self, now: Timestamp) {
        let first = Generation {
            n: GenerationNo(0),
            parent: None,
            cause: Cause::Start,
            created_at: now,
            prompt: self.snapshot.digest,
            tools: self.tools.digest,
            ops: Vec::new(),
        };
        self.unsaved = vec![Record::Text { text: self.tools.json().into() }];
        self.unsaved.extend(generation_records(&first, &self.snapshot));
        self.generations = vec![first];
    }

    /// Takes up a stored session. The stored snapshot is restored byte for byte unless model,
    /// provider or working directory differ, or it is lost; the pinned tools go out again as they
    /// were.
    ///
    /// # Errors
    /// If another process holds the session, or what it refers to is gone.
    pub fn resume(
        services: &Services,
        info: &SessionInfo,
        options: StartOptions,
    ) -> Result<Self, AgentError> {
        let writer = services.store.open_session(&info.id)?;
        let mut conversation = Self::load(services, info, options, Some(writer))?;
        // Plugins are not started yet; with them, the tools and the prompt are compared later.
        if services.plugged.is_none() {
            conversation.catch_up(services, info);
        }
        for path in services.store.set_aside(&info.id) {
            conversation.warnings.push(format!(
                "records of this session could not be taken into the store; they are kept in {} \
                 (hint: `hermes doctor`)",
                path.display()
            ));
        }
        Ok(conversation)
    }

    /// The session as it is stored, without holding it: for looking at it.
    ///
    /// # Errors
    /// If what the session refers to is gone.
    pub fn peek(
        services: &Services,
        info: &SessionInfo,
        options: StartOptions,
    ) -> Result<Self, AgentError> {
        Self::load(services, info, options, None)
    }

    /// The session as [`Self::resume`] would take it up, without holding it: for looking at what
    /// it would send next.
    ///
    /// # Errors
    /// If what the session refers to is gone.
    pub fn preview(
        services: &Services,
        info: &SessionInfo,
        options: StartOptions,
    ) -> Result<Self, AgentError> {
        let mut conversation = Self::load(services, info, options, None)?;
        conversation.catch_up(services, info);
        Ok(conversation)
    }

    /// Brings a session that was loaded as stored to the present: what changed of its tools is
    /// told, and a changed identity brings a new prompt.
    pub(crate) fn catch_up(&mut self, services: &Services, info: &SessionInfo) {
        let live = self.live_definitions();
        self.pending_notices.extend(difference_notice(&self.tools, &live));
        if let Some(why) = self.identity_change(info) {
            self.rebuild(services, info, why);
        }
    }

    fn load(
        services: &Services,
        info: &SessionInfo,
        options: StartOptions,
        writer: Option<SessionWriter>,
    ) -> Result<Self, AgentError> {
        let id = info.id.clone();
        let history = services.store.history(&id)?;
        let missing = |what: String| AgentError::Missing { session: id.clone(), what };
        let head = history
            .generations
            .iter()
            .find(|generation| Some(generation.n) == history.head)
            .ok_or_else(|| missing("its newest generation".to_owned()))?
            .clone();
        let sources = TurnSources::default();
        let plugged = plugins::State::default();
        let registry = registry(services, &options, &id, &sources, &plugged);
        let mut lost = None;
        let tools = if let Some(text) = services.store.text(&head.tools)? {
            parse_tools(&text).map_err(|error| missing(format!("a tool list ({error})")))?
        } else {
            lost = Some("their tool list is not in the store any more");
            ToolSet::new(definitions(&*registry, &options))
        };
        let stored = match services.store.snapshot(&id, head.n) {
            Err(StoreError::Damaged { .. }) => {
                lost = Some("their text is not in the store any more");
                Snapshot { text: "".into(), digest: Digest::of(""), blocks: Vec::new() }
            }
            snapshot => snapshot?,
        };
        let turn = history.rows.iter().map(|row| row.turn).max().unwrap_or_default();
        let model = primary(services);
        let conversation = Self {
            id: id.clone(),
            model,
            options,
            registry,
            writer,
            resumed: ResumeReport { rebuilt_because: None, rows: history.rows.len() },
            rows: history.rows,
            generations: history.generations,
            snapshot: Arc::new(stored),
            tools: Arc::new(tools),
            lost,
            turn,
            compactions: info.compactions,
            warnings: Vec::new(),
            spool_told: Vec::new(),
            unsaved: Vec::new(),
            learned: BTreeMap::new(),
            pending_notices: Vec::new(),
            sources,
            compaction: compact::State::default(),
            plugged,
            started_at: info.started_at,
            stored: true,
            ended: info.ended_at.is_some(),
            seen: history.last_seq,
        };
        Ok(conversation)
    }

    /// The tools as they are now, pinned or not.
    pub(crate) fn live_definitions(&self) -> Vec<ToolDef> {
        let mut live = definitions(&*self.registry, &self.options);
        live.extend(self.skill_tool(&live));
        live
    }

    /// Calls `then` with what a prompt of this session is made of.
    pub(crate) fn with_input(
        &self,
        services: &Services,
        tools: &ToolSet,
        then: impl FnOnce(&SnapshotInput<'_>) -> Built,
    ) -> Built {
        let of = (&self.options, &self.id, &self.model);
        with_input(services, of, tools, &self.plugged.sections, then)
    }

    /// Which field of the snapshot's identity differs from the stored session, compared as
    /// columns.
    fn identity_change(&self, info: &SessionInfo) -> Option<String> {
        if let Some(lost) = self.lost {
            return Some(lost.to_owned());
        }
        let cwd = self.options.workspace.cwd.display().to_string();
        if info.model != self.model.model {
            return Some(format!("the model is {} and was {}", self.model.model, info.model));
        }
        if info.provider != self.model.provider {
            let (now, was) = (&self.model.provider, &info.provider);
            return Some(format!("the provider is {now} and was {was}"));
        }
        match &info.cwd {
            Some(stored) if *stored != cwd => {
                Some(format!("the working directory is {cwd} and was {stored}"))
            }
            _ => None,
        }
    }

    /// Makes a new snapshot and the generation that carries it; both are stored with the next turn.
    fn rebuild(&mut self, services: &Services, info: &SessionInfo, why: String) {
        let built = self.with_input(services, &self.tools, build_snapshot);
        self.snapshot = Arc::new(built.snapshot);
        self.warnings = built.warnings;
        let now = services.env.now();
        let generation = self.next_generation(Cause::Identity, now, Vec::new());
        if self.lost.take().is_some() {
            self.unsaved.push(Record::Text { text: self.tools.json().into() });
        }
        self.unsaved.extend(generation_records(&generation, &self.snapshot));
        self.unsaved.push(Record::Patch(SessionPatch {
            model: Some(self.model.model.clone()),
            provider: Some(self.model.provider.clone()),
            cwd: Some(self.options.workspace.cwd.display().to_string()),
            git_root: self.options.workspace.git_root.as_ref().map(|p| p.display().to_string()),
            ..SessionPatch::default()
        }));
        self.generations.push(generation);
        tracing::info!(session = %self.id, stored_model = %info.model, %why, "prompt rebuilt");
        self.pending_notices.push(format!("Your instructions were built anew: {why}."));
        self.resumed.rebuilt_because = Some(why);
    }

    /// A generation on top of the present one.
    pub(crate) fn next_generation(
        &self,
        cause: Cause,
        now: Timestamp,
        ops: Vec<hermes_core::Op>,
    ) -> Generation {
        let highest = self.generations.iter().map(|generation| generation.n).max();
        Generation {
            n: highest.map_or(GenerationNo(0), GenerationNo::next),
            parent: Some(self.head()),
            cause,
            created_at: now,
            prompt: self.snapshot.digest,
            tools: self.tools.digest,
            ops,
        }
    }

    /// The generation in force.
    pub(crate) fn head(&self) -> GenerationNo {
        self.generations.last().map(|generation| generation.n).unwrap_or_default()
    }

    /// The history the next request would hold.
    pub(crate) fn view(&self) -> Result<View, AgentError> {
        fold_view(&self.rows, &self.generations, self.head(), self.last_seq())
            .map_err(|source| AgentError::View { session: self.id.clone(), source })
    }

    pub(crate) fn last_seq(&self) -> Seq {
        self.writer.as_ref().map_or(self.seen, SessionWriter::last_seq)
    }

    /// Takes the lease again if it was given back while idle. What another process added
    /// meanwhile is read in.
    pub(crate) fn acquire(&mut self, services: &Services) -> Result<(), AgentError> {
        if self.writer.is_some() || !self.stored {
            return Ok(());
        }
        let writer = crate::handoff::open_session(&services.store, &self.id, self.seen)?;
        // Where it cannot be read, what is in memory is enough.
        if let Some(info) = ledger::seen(services.store.session(&self.id), "the session")?.flatten()
        {
            self.compactions = info.compactions;
            self.ended = info.ended_at.is_some();
        }
        if writer.last_seq() != self.seen {
            let history = services.store.history(&self.id)?;
            self.turn = history.rows.iter().map(|row| row.turn).max().unwrap_or(self.turn);
            self.rows = history.rows;
            let own: Vec<Generation> = self.unsaved_generations();
            self.generations = history.generations;
            self.generations.extend(own);
            self.catch_up_prompt(services)?;
        }
        self.writer = Some(writer);
        Ok(())
    }

    /// Takes over the prompt and the count of what another process compacted or refreshed.
    fn catch_up_prompt(&mut self, services: &Services) -> Result<(), AgentError> {
        let Some(newest) = self.generations.last() else { return Ok(()) };
        if self.unsaved.is_empty() && newest.prompt != self.snapshot.digest {
            self.snapshot = Arc::new(services.store.snapshot(&self.id, newest.n)?);
        }
        Ok(())
    }

    fn unsaved_generations(&self) -> Vec<Generation> {
        self.unsaved
            .iter()
            .filter_map(|record| match record {
                Record::Generation(generation) => Some(generation.clone()),
                _ => None,
            })
            .collect()
    }

    /// Stores `records`; on the first turn the session row and its lease come with them.
    pub(crate) fn commit(
        &mut self,
        services: &Services,
        mut records: Vec<Record>,
        sink: &dyn EventSink,
    ) -> Result<(), AgentError> {
        let mut batch = std::mem::take(&mut self.unsaved);
        batch.append(&mut records);
        if let Some(writer) = &mut self.writer {
            ledger::commit(writer, batch, sink, &mut self.spool_told)?;
            return Ok(());
        }
        let init = self.session_init(services);
        // If this goes to the side file, so does the request that follows; it is told there.
        self.writer = Some(services.store.create_session(init, batch)?);
        self.stored = true;
        Ok(())
    }

    fn session_init(&self, services: &Services) -> SessionInit {
        let workspace = &self.options.workspace;
        let child = self.options.child_of.as_ref();
        SessionInit {
            id: self.id.clone(),
            source: self.options.platform.clone(),
            // A child stands in no conversation: no capsule is for it.
            lane: if child.is_none() { crate::handoff::lane_of(workspace) } else { None },
            cwd: Some(workspace.cwd.display().to_string()),
            git_root: workspace.git_root.as_ref().map(|path| path.display().to_string()),
            git_branch: workspace.git_branch.clone(),
            model: self.model.model.clone(),
            provider: self.model.provider.clone(),
            base_url: services
                .endpoints
                .first()
                .map(|endpoint| hermes_provider::public_url(&endpoint.base_url)),
            parent: child.map(|child| (child.parent.clone(), ParentKind::Delegate)),
            title: None,
            started_at: self.started_at,
        }
    }

    /// The session's id. Known before anything is stored.
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// The prompt in force.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The tools in force.
    pub fn tools(&self) -> &Arc<ToolSet> {
        &self.tools
    }

    /// The blocks of the prompt's manifest.
    pub fn blocks(&self) -> &[Block] {
        &self.snapshot.blocks
    }

    /// Where the session works.
    pub const fn workspace(&self) -> &Workspace {
        &self.options.workspace
    }

    /// The model it speaks with.
    pub const fn model(&self) -> &ModelChoice {
        &self.model
    }

    /// What the person should know about the sources of the prompt.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What the resume found.
    pub const fn resume_report(&self) -> &ResumeReport {
        &self.resumed
    }

    /// Whether anything has been stored.
    pub const fn is_stored(&self) -> bool {
        self.stored
    }

    /// The stored rows, for a surface that shows the recent exchanges.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Gives the session back so that another process may take it. The next turn takes it again.
    ///
    /// # Errors
    /// If the lease cannot be given back; it then ends by itself.
    pub fn release(&mut self) -> Result<(), AgentError> {
        if let Some(writer) = self.writer.take() {
            self.seen = writer.last_seq();
            self.compaction.forget();
            writer.release()?;
        }
        Ok(())
    }
}

/// The records that store a generation and its snapshot.
pub(crate) fn generation_records(generation: &Generation, snapshot: &Snapshot) -> Vec<Record> {
    vec![
        Record::Text { text: snapshot.text.clone() },
        Record::Generation(generation.clone()),
        Record::Manifest { generation: generation.n, blocks: snapshot.blocks.clone() },
    ]
}

fn primary(services: &Services) -> ModelChoice {
    services
        .primary()
        .unwrap_or_else(|| ModelChoice { provider: String::new(), model: String::new() })
}

fn registry(
    services: &Services,
    options: &StartOptions,
    session: &SessionId,
    sources: &TurnSources,
    plugged: &plugins::State,
) -> Arc<dyn ToolRegistry> {
    let approver = &options.approver;
    let approver = plugins::heard(services, approver, session, &options.platform, &plugged.now);
    let tools = options.tools.clone().unwrap_or_else(|| {
        Arc::new(BuiltinTools::new(ToolContext {
            home: services.home.clone(),
            config: services.config.clone(),
            cwd: options.workspace.cwd.clone(),
            approver,
            env: services.env.clone(),
            vars: services.vars.clone(),
            session: Some(session.clone()),
            platform: options.platform.clone(),
            sources: sources.clone(),
        }))
    });
    if options.child_of.is_some() { Arc::new(delegate::ChildTools(tools)) } else { tools }
}

/// What is offered to the model: the registry's tools, and delegation where it is wanted.
fn definitions(registry: &dyn ToolRegistry, options: &StartOptions) -> Vec<ToolDef> {
    let mut definitions = registry.definitions();
    definitions.push(compact::recall_definition());
    if options.delegates && options.child_of.is_none() {
        definitions.push(delegate::definition());
    }
    definitions
}

fn build(
    services: &Services,
    options: &StartOptions,
    session: &SessionId,
    model: &ModelChoice,
    tools: &ToolSet,
) -> Built {
    with_input(services, (options, session, model), tools, &[], build_snapshot)
}

fn with_input(
    services: &Services,
    (options, session, model): (&StartOptions, &SessionId, &ModelChoice),
    tools: &ToolSet,
    sections: &[PluginSection],
    then: impl FnOnce(&SnapshotInput<'_>) -> Built,
) -> Built {
    let now = services.env.now();
    let built = then(&SnapshotInput {
        home: &services.home,
        config: &services.config,
        workspace: &options.workspace,
        platform: &options.platform,
        provider: &model.provider,
        model: &model.model,
        tools,
        session,
        caller: options.caller.as_deref(),
        now,
        utc_offset_seconds: services.env.utc_offset_seconds(now),
        context_window: services.context_window,
        sections,
    });
    if options.child_of.is_some() {
        return leave_out(&built, now, &delegate::NOT_INHERITED, delegate::NOT_INHERITED_WHY);
    }
    built
}
