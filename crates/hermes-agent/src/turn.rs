//! One turn: the person's message in, requests and tool calls until there is an answer.

use std::sync::Arc;

use hermes_compaction::Reason;
use hermes_context::{AssembleError, AssembleInput, RENDERER, assemble, awaits_answer};
use hermes_core::{
    Assembled, Attempt, AttemptEnd, AttemptOutcome, Cause, Digest, ErrorClass, Event, EventSink,
    NoticeLevel, Op, Origin, Part, PartBody, REASONING_CONTENT, RequestId, Role, Row, RowStatus,
    Seq, SessionId, Standing, Task, Timestamp, TurnOutcome, Usage, View, WireProfile, slot,
};
use hermes_provider::{
    Answered, ConverseError, ConverseInput, Delta, Endpoint, Finish, LedgerFacts, Limits, Reply,
    ReplyCall,
};
use hermes_store::{DraftKind, Record, StoreError};

use crate::compact::Overflow;
use crate::conversation::Conversation;
use crate::ledger::Ledger;
use crate::plugins::Streamed;
use crate::services::endpoint_key;
use crate::{AgentError, Cancel, Services, UserInput, calls, notice};

/// Model calls in one turn when the configuration sets no limit. A loop that gets this far is
/// stuck.
const DEFAULT_MAX_CALLS: u32 = 250;

/// What came of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnReport {
    /// How it ended.
    pub outcome: TurnOutcome,
    /// The text of the last answer.
    pub answer: String,
    /// Sum of what the provider reported.
    pub usage: Usage,
    /// The requests that were sent, in order.
    pub requests: Vec<RequestId>,
    /// The session.
    pub session: SessionId,
}

/// How one request of the turn ended.
enum Step {
    /// An answer without tool calls.
    Answer(String),
    /// Tool calls, to be run.
    Calls(Vec<ReplyCall>),
    /// Reasoning and nothing else.
    ReasoningOnly,
    /// The stream broke after text was shown, and another try may help. The text is stored.
    Broken(Box<ConverseError>),
    /// The person stopped it.
    Cancelled,
    /// The provider refused the request as too large.
    TooLarge { why: String, limits: Limits },
    /// No endpoint gave a reply.
    Failed(String),
}

/// What the draft of a running request holds, kept for the row of an interrupted answer.
#[derive(Default)]
struct Shown {
    text: String,
    reasoning: String,
}

impl Conversation {
    /// Says `input` and carries the conversation on until the model has answered.
    ///
    /// # Errors
    /// If the store refuses or the history cannot be sent. A model call that fails is no error:
    /// the outcome says so, and what was said is kept.
    pub async fn turn(
        &mut self,
        services: &Services,
        input: UserInput,
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<TurnReport, AgentError> {
        if input.text.trim().is_empty() && input.images.is_empty() && input.skills.is_empty() {
            return Err(AgentError::EmptyInput);
        }
        self.prepare(services).await?;
        self.acquire(services)?;
        self.after_quiet(services, sink, cancel).await?;
        let row = self.store_user_row(services, input, sink)?;
        sink.event(Event::TurnStarted { row });

        let mut report = TurnReport {
            outcome: TurnOutcome::Interrupted,
            answer: String::new(),
            usage: Usage::default(),
            requests: Vec::new(),
            session: self.id.clone(),
        };
        let ran = self.run(services, row, sink, cancel, &mut report).await;
        let ended = match ran {
            Ok(outcome) => {
                report.outcome = outcome;
                self.after_hooks(services, row, Ok(&report), sink).await;
                Ok(())
            }
            Err(error) => {
                self.after_hooks(services, row, Err(&error), sink).await;
                Err(error)
            }
        };
        ended?;
        sink.event(Event::TurnEnded(report.outcome.clone()));
        if report.outcome == TurnOutcome::Answered {
            self.after_turn(services, sink, cancel).await?;
            self.tell_events(services, Some(&self.id), sink).await;
        }
        Ok(report)
    }

    /// Requests and tool calls until the turn has an outcome.
    async fn run(
        &mut self,
        services: &Services,
        row: Seq,
        sink: &dyn EventSink,
        cancel: &Cancel,
        report: &mut TurnReport,
    ) -> Result<TurnOutcome, AgentError> {
        let child = self.options.child_of.as_ref().map(|child| child.call_limit);
        let limit = child.or(services.config.agent.max_turns).unwrap_or(DEFAULT_MAX_CALLS);
        let mut broken = 0;
        let mut again = None;
        let mut reasoning_only = false;
        let mut overflows = 0;
        let mut reason = Reason::PreApi;
        for number in 0..limit {
            self.before_request(services, reason, sink, cancel).await?;
            if number == 0 {
                self.before_turn(services, row, sink, cancel).await?;
            }
            if cancel.is_cancelled() {
                return Ok(TurnOutcome::Interrupted);
            }
            match self.step(services, again.take(), sink, cancel, report).await? {
                Step::Answer(text) => {
                    report.answer = text;
                    if self.goes_on(services, &report.answer, sink).await? {
                        continue;
                    }
                    return Ok(TurnOutcome::Answered);
                }
                Step::Calls(calls) => {
                    self.tell_interim(services, report.requests.len());
                    if !self.run_calls(services, &calls, sink, cancel).await? {
                        return Ok(TurnOutcome::Interrupted);
                    }
                    reason = Reason::PostTool;
                }
                Step::ReasoningOnly if reasoning_only => {
                    return Ok(TurnOutcome::Failed(
                        "the model sent reasoning but no answer, twice; hint: ask again, or try \
                         another model"
                            .to_owned(),
                    ));
                }
                Step::ReasoningOnly => reasoning_only = true,
                Step::Broken(error) => {
                    broken += 1;
                    let why = error.to_string();
                    let pause = services.backoff.wait(broken, error.retry_after, &*services.env);
                    let Some(pause) =
                        pause.filter(|_| broken <= services.config.agent.api_max_retries)
                    else {
                        return Ok(TurnOutcome::Failed(why));
                    };
                    let delay_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                    sink.event(Event::Retrying { why, attempt: broken + 1, delay_ms });
                    tokio::select! {
                        biased;
                        () = cancel.cancelled() => return Ok(TurnOutcome::Interrupted),
                        () = tokio::time::sleep(pause) => {}
                    }
                    self.hide_last_row(services, sink)?;
                    again = report.requests.last().cloned();
                }
                Step::TooLarge { why, limits } => {
                    overflows += 1;
                    let overflow = Overflow { limits, number: overflows };
                    let made_smaller =
                        self.after_overflow(services, overflow, sink, cancel).await?;
                    if let Err(not) = made_smaller {
                        let why = format!("{why}. It could not be made smaller: {not}");
                        return Ok(TurnOutcome::Failed(why));
                    }
                }
                Step::Cancelled => return Ok(TurnOutcome::Interrupted),
                Step::Failed(why) => return Ok(TurnOutcome::Failed(why)),
            }
            if cancel.is_cancelled() {
                return Ok(TurnOutcome::Interrupted);
            }
        }
        Ok(TurnOutcome::LimitReached(limit))
    }

    /// One request: assembled, recorded, sent, and its reply stored. `retries` is the request whose
    /// answer broke off.
    async fn step(
        &mut self,
        services: &Services,
        retries: Option<RequestId>,
        sink: &dyn EventSink,
        cancel: &Cancel,
        report: &mut TurnReport,
    ) -> Result<Step, AgentError> {
        let view = self.view()?;
        self.note_request(&view);
        let cut = self.last_seq();
        let generation = self.head();
        let (snapshot, tools) = (self.snapshot.clone(), self.tools.clone());
        let blobs = &services.store;
        let make = |profile: &WireProfile| -> Result<Assembled, String> {
            let assembled = assemble(&AssembleInput {
                snapshot: &snapshot,
                tools: &tools,
                view: &view,
                profile,
                blobs: &|digest: &Digest| blobs.blob(digest).ok().flatten(),
                renderer: RENDERER,
            })
            .map_err(|error| error.to_string())?;
            if !awaits_answer(&assembled.messages) {
                return Err("the history ends with an answer, so there is nothing to ask".into());
            }
            Ok(assembled)
        };
        let turn = self.turn;
        let session = self.id.clone();
        let about = self.stream_payload(report.requests.len());
        let endpoints = self.endpoints(services);
        let Some(writer) = &mut self.writer else {
            return Err(AgentError::Missing {
                session: self.id.clone(),
                what: "the session's lease".to_owned(),
            });
        };
        let mut draft = writer.draft(turn)?;
        let row = draft.row();
        let mut shown = Shown::default();
        let mut undrafted = None;
        let mut ledger = Ledger::new(writer, sink, &mut self.spool_told);
        let input = ConverseInput {
            endpoints: &endpoints,
            assemble: &make,
            ledger: LedgerFacts {
                session: &session,
                turn,
                retries,
                task: Task::Main,
                generation,
                cut,
                compactions: self.compactions,
                renderer: RENDERER,
            },
            retries: services.config.agent.api_max_retries,
            backoff: services.backoff,
            env: &*services.env,
            keep_body: false,
        };
        let streamed = services.plugins().map(|plugins| Streamed::new(plugins, &about));
        let requests = &mut report.requests;
        let mut on = |delta: Delta<'_>| match delta {
            Delta::Started(id) => {
                if let Some(streamed) = &streamed {
                    streamed.started();
                }
                requests.push(id);
            }
            Delta::Text(text) => {
                if let Some(streamed) = &streamed {
                    streamed.delta(text, "text");
                }
                // In the draft before it is shown.
                keep(&mut undrafted, draft.append(DraftKind::Text, text));
                shown.text.push_str(text);
                sink.event(Event::Text(text.into()));
            }
            Delta::Reasoning(text) => {
                keep(&mut undrafted, draft.append(DraftKind::Reasoning, text));
                shown.reasoning.push_str(text);
                sink.event(Event::Reasoning(text.into()));
            }
            Delta::Retrying { why, attempt, delay_ms } => {
                sink.event(Event::Retrying { why: why.to_owned(), attempt, delay_ms });
            }
            Delta::FellBack { to, why } => {
                let text = format!("{to} takes over for this request: {why}");
                sink.event(Event::Notice { level: NoticeLevel::Warning, text });
            }
            // What was learned comes with the answer, together with its endpoint.
            Delta::LearnedProfile(_) => {}
        };
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            result = services.client.converse(input, &mut ledger, &mut on) => Some(result),
        };
        let open = ledger.take_open();
        if let Some(id) = report.requests.last() {
            id.as_str().clone_into(&mut self.plugged.request);
        }
        if let Some(error) = undrafted {
            let text = format!("the draft of this answer could not be written: {error}");
            sink.event(Event::Notice { level: NoticeLevel::Warning, text });
        }
        if let Some(streamed) = &streamed {
            let failed = result.as_ref().and_then(|it| it.as_ref().err()).map(ToString::to_string);
            streamed.ended(&shown.text, matches!(result, Some(Ok(_))), failed.as_deref());
        }
        let step = match result {
            Some(Ok(mut answered)) => {
                self.change_answer(services, &mut answered.reply, sink).await;
                self.store_answer(services, row, answered, sink, report)?
            }
            Some(Err(error)) => self.store_failure(services, row, error, shown, sink)?,
            None => self.store_cancelled(services, row, open, shown, sink)?,
        };
        // Its text is in a committed row now, or there was none.
        draft.discard()?;
        Ok(step)
    }

    /// Stores a whole reply together with the end of its ledger row.
    fn store_answer(
        &mut self,
        services: &Services,
        seq: Seq,
        answered: Answered,
        sink: &dyn EventSink,
        report: &mut TurnReport,
    ) -> Result<Step, AgentError> {
        let Answered { reply, by, end, endpoint_index, profile, .. } = answered;
        let now = services.env.now();
        let mut row = self.assistant_row(seq, &reply, now);
        if matches!(reply.finish, Finish::Length) {
            row.status = RowStatus::Interrupted;
        }
        if let Some(plugin) = &by {
            attribute(&mut row, plugin);
            let told = match end {
                Some(_) => {
                    format!("the plugin {plugin} changed the answer; this is kept:\n{}", reply.text)
                }
                None => format!("the plugin {plugin} answered, not the model"),
            };
            notice(sink, NoticeLevel::Info, told);
        }
        let mut records = Vec::new();
        let usage = end.map(|mut end| {
            row.finish_reason.clone_from(&end.finish_reason);
            end.response = Some(seq);
            let usage = end.usage;
            records.push(Record::AttemptEnded(end));
            records.extend(self.note_usage(services, &usage));
            usage
        });
        records.insert(0, Record::Row(row.clone()));
        self.commit(services, records, sink)?;
        self.rows.push(row);
        if let Some(usage) = usage {
            self.learn(services, endpoint_index, profile, sink);
            add_usage(&mut report.usage, &usage);
            sink.event(Event::Usage(usage));
        }
        sink.event(Event::AnswerStored { row: seq });
        if !reply.calls.is_empty() {
            return Ok(Step::Calls(reply.calls));
        }
        if reply.text.trim().is_empty() {
            return Ok(Step::ReasoningOnly);
        }
        let warning = match &reply.finish {
            Finish::Length => Some("the answer was cut off at the model's output limit"),
            Finish::ContentFilter => Some("the provider's content filter stopped the answer"),
            Finish::Stop | Finish::ToolCalls | Finish::Other(_) => None,
        };
        if let Some(text) = warning {
            sink.event(Event::Notice { level: NoticeLevel::Warning, text: text.to_owned() });
        }
        Ok(Step::Answer(reply.text))
    }

    /// A call that no endpoint answered. What was shown is kept as an interrupted row.
    fn store_failure(
        &mut self,
        services: &Services,
        row: Seq,
        error: ConverseError,
        shown: Shown,
        sink: &dyn EventSink,
    ) -> Result<Step, AgentError> {
        let stored = self.store_shown(services, row, shown, None, sink)?;
        // Without anything shown all tries were made already.
        if stored.is_some() && error.class.is_transient() {
            return Ok(Step::Broken(Box::new(error)));
        }
        if stored.is_none() && error.class == ErrorClass::ContextOverflow {
            return Ok(Step::TooLarge { why: error.to_string(), limits: error.limits });
        }
        Ok(Step::Failed(error.to_string()))
    }

    /// A call that the person stopped.
    fn store_cancelled(
        &mut self,
        services: &Services,
        row: Seq,
        open: Option<Attempt>,
        shown: Shown,
        sink: &dyn EventSink,
    ) -> Result<Step, AgentError> {
        let end = open.map(|attempt| AttemptEnd {
            id: attempt.id,
            outcome: AttemptOutcome::Cancelled,
            first_byte_at: None,
            ended_at: services.env.now(),
            http_status: None,
            error_class: None::<ErrorClass>,
            error: Some("stopped by the person".into()),
            usage: Usage::default(),
            served_model: None,
            finish_reason: None,
            response: None,
        });
        self.store_shown(services, row, shown, end, sink)?;
        Ok(Step::Cancelled)
    }

    /// Stores the text that was shown of an answer that is not whole; None if nothing was.
    fn store_shown(
        &mut self,
        services: &Services,
        seq: Seq,
        shown: Shown,
        end: Option<AttemptEnd>,
        sink: &dyn EventSink,
    ) -> Result<Option<Seq>, AgentError> {
        let mut records = Vec::new();
        let mut stored = None;
        if !shown.text.trim().is_empty() || !shown.reasoning.trim().is_empty() {
            let now = services.env.now();
            let reply = partial_reply(shown);
            let mut row = self.assistant_row(seq, &reply, now);
            row.status = RowStatus::Interrupted;
            records.push(Record::Row(row.clone()));
            self.rows.push(row);
            stored = Some(seq);
        }
        if let Some(mut end) = end {
            end.response = stored;
            records.push(Record::AttemptEnded(end));
        }
        if !records.is_empty() {
            self.commit(services, records, sink)?;
        }
        if let Some(row) = stored {
            sink.event(Event::AnswerStored { row });
        }
        Ok(stored)
    }

    /// Takes the broken answer out of what the next request holds. The row stays in the store.
    fn hide_last_row(
        &mut self,
        services: &Services,
        sink: &dyn EventSink,
    ) -> Result<(), AgentError> {
        let Some(seq) = self.rows.last().map(|row| row.seq) else { return Ok(()) };
        let ops = vec![Op::Hide { from: seq, to: seq }];
        let generation = self.next_generation(Cause::Retry, services.env.now(), ops);
        let manifest =
            Record::Manifest { generation: generation.n, blocks: self.snapshot.blocks.clone() };
        self.commit(services, vec![Record::Generation(generation.clone()), manifest], sink)?;
        self.generations.push(generation);
        Ok(())
    }

    /// The row of a reply: reasoning, text, raw fields, calls. Arguments that cannot be used are
    /// stored as `{}`, so that the history stays valid JSON for every provider.
    fn assistant_row(&mut self, seq: Seq, reply: &Reply, now: Timestamp) -> Row {
        let mut bodies: Vec<(u16, PartBody)> = Vec::new();
        if let Some((field, text)) = &reply.reasoning {
            let body = PartBody::Reasoning { field: field.clone(), text: text.as_str().into() };
            bodies.push((slot::REASONING, body));
        }
        for (field, json) in &reply.raw_fields {
            let body = PartBody::Raw { field: field.clone(), json: json.clone() };
            bodies.push((slot::REASONING, body));
        }
        if !reply.text.is_empty() {
            bodies.push((slot::BODY, PartBody::text(reply.text.as_str())));
        }
        for call in &reply.calls {
            let arguments = calls::stored_arguments(&call.arguments);
            let (id, name) = (call.id.clone(), call.name.clone());
            bodies.push((slot::CALLS, PartBody::ToolCall { id, name, arguments }));
        }
        let parts = bodies
            .into_iter()
            .enumerate()
            .map(|(index, (slot, body))| Part {
                seq: if index == 0 { seq } else { self.next_seq() },
                row: seq,
                slot,
                origin: Origin::Model,
                standing: Standing::InOrder,
                created_at: now,
                label: None,
                body,
            })
            .collect();
        self.row(seq, Role::Assistant, parts, now)
    }

    /// The present prompt, tools and `view` as messages.
    pub(crate) fn assembled(
        &self,
        services: &Services,
        view: &View,
        profile: &WireProfile,
    ) -> Result<Assembled, AssembleError> {
        let blobs = &services.store;
        assemble(&AssembleInput {
            snapshot: &self.snapshot,
            tools: &self.tools,
            view,
            profile,
            blobs: &|digest: &Digest| blobs.blob(digest).ok().flatten(),
            renderer: RENDERER,
        })
    }

    /// Keeps what an answer taught about its endpoint, for this session's next request and for
    /// later sessions. A store that cannot keep it costs later sessions one request, nothing more.
    fn learn(
        &mut self,
        services: &Services,
        index: usize,
        profile: WireProfile,
        sink: &dyn EventSink,
    ) {
        let Some(endpoint) = services.endpoints.get(index) else { return };
        if self.learned.get(&index).unwrap_or(&endpoint.profile) == &profile {
            return;
        }
        if let Err(error) = services.store.remember_profile(&endpoint_key(endpoint), &profile) {
            let text = format!("what was learned about the endpoint could not be kept: {error}");
            sink.event(Event::Notice { level: NoticeLevel::Warning, text });
        }
        self.learned.insert(index, profile);
    }

    /// The endpoints with what this session has learned about them.
    pub(crate) fn endpoints(&self, services: &Services) -> Vec<Endpoint> {
        let mut endpoints = services.endpoints.clone();
        for (index, profile) in &self.learned {
            if let Some(endpoint) = endpoints.get_mut(*index) {
                endpoint.profile = profile.clone();
            }
        }
        endpoints
    }

    pub(crate) const fn row(&self, seq: Seq, role: Role, parts: Vec<Part>, now: Timestamp) -> Row {
        Row {
            seq,
            turn: self.turn,
            role,
            standing: Standing::InOrder,
            status: RowStatus::Complete,
            created_at: now,
            tool: None,
            finish_reason: None,
            parts,
        }
    }
}

/// Marks what a row says as a plugin's words, not the model's.
fn attribute(row: &mut Row, plugin: &Arc<str>) {
    let texts = row.parts.iter_mut().filter(|part| matches!(part.body, PartBody::Text { .. }));
    for part in texts {
        part.origin = Origin::Hook;
        part.label = Some(plugin.clone());
    }
}

/// Remembers the first error.
fn keep(first: &mut Option<StoreError>, result: Result<(), StoreError>) {
    if let Err(error) = result {
        first.get_or_insert(error);
    }
}

/// What was shown of an answer, as a reply.
fn partial_reply(shown: Shown) -> Reply {
    Reply {
        text: shown.text,
        reasoning: (!shown.reasoning.is_empty())
            .then(|| (REASONING_CONTENT.into(), shown.reasoning)),
        raw_fields: Vec::new(),
        calls: Vec::new(),
        finish: Finish::Stop,
        usage: Usage::default(),
        served_model: None,
        problems: Vec::new(),
    }
}

pub(crate) fn add_usage(sum: &mut Usage, one: &Usage) {
    let add = |sum: &mut Option<u64>, one: Option<u64>| {
        if let Some(one) = one {
            *sum = Some(sum.unwrap_or(0) + one);
        }
    };
    add(&mut sum.input, one.input);
    add(&mut sum.output, one.output);
    add(&mut sum.cache_read, one.cache_read);
    add(&mut sum.cache_write, one.cache_write);
    add(&mut sum.reasoning, one.reasoning);
}
