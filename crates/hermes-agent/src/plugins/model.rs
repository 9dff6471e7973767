//! Calls to models that plugins make. Each is in the ledger with its body, on a child of the
//! conversation that it was made from: the conversation itself is held by its turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hermes_context::RENDERER;
use hermes_core::{
    Attempt, AttemptEnd, AttemptRecorder, GenerationNo, RecordError, Role, Seq, SessionId, TurnNo,
    WireProfile,
};
use hermes_home::{Config, FallbackConfig, Vars};
use hermes_plugins::{Fault, ModelCall, Plugins};
use hermes_provider::{
    Backoff, Candidate, Client, Endpoint, Finish, Job, JobError, JobPlace, JobPrompt,
};
use hermes_store::{ParentKind, Record, SessionInit, SessionWriter, Store};
use serde_json::{Value, json};

use super::api::Listener;
use crate::Services;
use crate::compact::Places;

/// Whose settings hold for a call that names no task.
const TASK: &str = "plugin";
/// The longest time a call may ask for, in seconds.
const MOST_SECONDS: f64 = 1800.0;

/// What a call to a model needs, apart from conversations.
pub(super) struct Models {
    config: Arc<Config>,
    variables: Vars,
    store: Store,
    endpoints: Vec<Endpoint>,
    context_window: Option<u64>,
    env: Arc<dyn hermes_core::Env>,
    backoff: Backoff,
    /// Connections belong to the runtime that made them, and plugins have their own.
    client: Client,
    /// The child that holds the requests of each conversation's plugins; one call at a time.
    ledgers: tokio::sync::Mutex<BTreeMap<String, SessionWriter>>,
}

impl Models {
    pub(super) fn new(services: &Services, plugins: &Plugins, platform: &str) -> Self {
        let client = Client::new();
        client.attend(Arc::new(Listener::new(services, plugins, platform, 1)));
        Self {
            config: services.config.clone(),
            variables: services.variables.clone(),
            store: services.store.clone(),
            endpoints: services.endpoints.clone(),
            context_window: services.context_window,
            env: services.env.clone(),
            backoff: services.backoff,
            client,
            ledgers: tokio::sync::Mutex::default(),
        }
    }

    /// Asks the task's own places, then the conversation's endpoints.
    pub(super) async fn complete(&self, call: &ModelCall) -> Result<Value, Fault> {
        let option = |name: &str| call.options.get(name).filter(|value| !value.is_null());
        let text = |name: &str| option(name).and_then(Value::as_str).unwrap_or_default();
        let task = if text("task").is_empty() { TASK } else { text("task") };
        let wanted = FallbackConfig {
            provider: text("provider").to_owned(),
            model: text("model").to_owned(),
            ..FallbackConfig::default()
        };
        let named = !wanted.provider.is_empty() || !wanted.model.is_empty();
        let places = Places {
            config: &self.config,
            variables: &self.variables,
            store: &self.store,
            endpoints: &self.endpoints,
            context_window: self.context_window,
        };
        let mut candidates =
            places.candidates(task, named.then_some(&wanted)).map_err(|error| failed(&error))?;
        if named {
            // Somebody else's answer is not what was asked for.
            candidates.truncate(1);
        }
        for candidate in &mut candidates {
            set_params(&mut candidate.endpoint, &call.options);
        }
        let (system, before, user) = messages(&call.messages)?;
        let seconds = option("timeout").and_then(Value::as_f64).filter(|it| *it > 0.0);
        let timeout = seconds.map_or_else(
            || Duration::from_secs(self.config.auxiliary.timeout(task)),
            |seconds| Duration::from_secs_f64(seconds.min(MOST_SECONDS)),
        );
        let mut ledgers = self.ledgers.lock().await;
        let key = call.call.session_id.clone();
        let writer = match ledgers.remove(&key) {
            Some(writer) => writer,
            None => self.child(&key)?,
        };
        let session = writer.id().clone();
        let place = JobPlace {
            session: &session,
            turn: TurnNo(0),
            generation: GenerationNo(0),
            cut: Seq(0),
            compactions: 0,
            renderer: RENDERER,
        };
        let prompt = |_: &Candidate| JobPrompt { system: system.clone(), user: user.clone() };
        let job = Job {
            task,
            candidates: &candidates,
            prompt: &prompt,
            place,
            retries: self.config.auxiliary.transient_retries,
            backoff: self.backoff,
            timeout,
            env: &*self.env,
        };
        let mut recorder = OnChild(writer);
        let answer = self.client.job_after(&job, &before, &mut recorder).await;
        ledgers.insert(key, recorder.0);
        drop(ledgers);
        let answer = answer.map_err(|error| failed(&error))?;
        let finish = match &answer.finish {
            Finish::Stop => "stop",
            Finish::ToolCalls => "tool_calls",
            Finish::Length => "length",
            Finish::ContentFilter => "content_filter",
            Finish::Other(word) => &**word,
        };
        let usage = answer.usage;
        let total = usage.input.zip(usage.output).map(|(input, output)| input + output);
        Ok(json!({
            "id": answer.request.as_str(),
            "text": answer.text,
            "provider": &*answer.provider,
            "model": &*answer.model,
            "finish_reason": finish,
            "usage": {
                "input_tokens": usage.input,
                "output_tokens": usage.output,
                "prompt_tokens": usage.input,
                "completion_tokens": usage.output,
                "total_tokens": total,
                "cache_read_tokens": usage.cache_read,
                "cache_write_tokens": usage.cache_write,
            },
            "audit": {"task": task, "request": answer.request.as_str(), "session": session.as_str()},
        }))
    }

    /// A child of the conversation for what its plugins ask of models.
    fn child(&self, parent: &str) -> Result<SessionWriter, Fault> {
        let unwritten = |error: hermes_store::StoreError| {
            Fault::new("RuntimeError", format!("the request cannot be recorded: {error}"))
        };
        let parent = Some(SessionId::new(parent)).filter(|id| {
            !id.as_str().is_empty() && self.store.session(id).is_ok_and(|found| found.is_some())
        });
        let first = self.endpoints.first();
        let init = SessionInit {
            id: SessionId::generate(&*self.env),
            source: "plugin".to_owned(),
            lane: None,
            cwd: None,
            git_root: None,
            git_branch: None,
            model: first.map(|it| it.model.to_string()).unwrap_or_default(),
            provider: first.map(|it| it.provider.to_string()).unwrap_or_default(),
            base_url: None,
            parent: parent.map(|id| (id, ParentKind::Delegate)),
            title: None,
            started_at: self.env.now(),
        };
        self.store.create_session(init, Vec::new()).map_err(unwritten)
    }

    /// Gives the children back, so that they can be deleted with their conversations.
    pub(super) async fn release(&self) {
        for (_, writer) in std::mem::take(&mut *self.ledgers.lock().await) {
            if let Err(error) = writer.release() {
                tracing::debug!(%error, "the lease of a plugin's requests ends by itself");
            }
        }
    }
}

fn failed(error: &JobError) -> Fault {
    let kind = match error {
        JobError::Failed(_) | JobError::NotRecorded(_) => "RuntimeError",
        JobError::NoCandidate(_) | JobError::Disabled(_) => "ValueError",
    };
    Fault::new(kind, error.to_string())
}

/// What the caller wants of the request; it takes the place of what the settings say.
fn set_params(endpoint: &mut Endpoint, options: &Value) {
    let cap = hermes_provider::output_cap_field(&endpoint.provider, &endpoint.base_url);
    for (field, option) in [(cap, "max_tokens"), ("temperature", "temperature")] {
        let Some(value) = options.get(option).filter(|value| value.is_number()) else { continue };
        endpoint.params.0.retain(|(name, _)| **name != *field);
        endpoint.params.0.push((field.into(), value.to_string().into()));
    }
}

/// The instructions, the messages before the last, and the last.
type Messages = (String, Vec<(Role, String)>, String);

fn messages(given: &Value) -> Result<Messages, Fault> {
    let wrong = || {
        Fault::new(
            "ValueError",
            "messages is a list of {role, content} with a last one of the user",
        )
    };
    let mut system = Vec::new();
    let mut rest = Vec::new();
    for message in given.as_array().ok_or_else(wrong)? {
        let text = match message.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        };
        match message.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => system.push(text),
            Some("assistant") => rest.push((Role::Assistant, text)),
            Some("user") => rest.push((Role::User, text)),
            _ => return Err(wrong()),
        }
    }
    match rest.pop() {
        Some((Role::User, last)) => Ok((system.join("\n\n"), rest, last)),
        _ => Err(wrong()),
    }
}

/// The ledger of a child.
struct OnChild(SessionWriter);

impl OnChild {
    fn record(&mut self, records: Vec<Record>) -> Result<(), RecordError> {
        self.0.commit(records).map(drop).map_err(|error| RecordError(error.to_string()))
    }
}

impl AttemptRecorder for OnChild {
    fn started(&mut self, attempt: Attempt, profile: &WireProfile) -> Result<(), RecordError> {
        self.record(vec![Record::Profile(profile.clone()), Record::AttemptStarted(attempt)])
    }

    fn failed(&mut self, end: AttemptEnd) -> Result<(), RecordError> {
        self.record(vec![Record::AttemptEnded(end)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_instructions_what_was_said_and_the_last_word_of_a_user() {
        let given = json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ]);
        let (system, before, user) = messages(&given).unwrap();
        assert_eq!((system.as_str(), user.as_str()), ("s", "c"));
        assert_eq!(before, [(Role::User, "a".to_owned()), (Role::Assistant, "b".to_owned())]);
        assert!(messages(&json!([{"role": "assistant", "content": "b"}])).is_err());
        assert!(messages(&json!("hello")).is_err());
    }
}
