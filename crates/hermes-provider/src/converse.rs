//! One call to a model: attempts, each recorded before it is sent, until one is answered.
//!
//! The order of every attempt: assemble, encode, ledger row, bytes. What follows a failure is
//! decided by its class and by whether anything was shown; see [`Client::converse`].

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hermes_core::{
    Assembled, Attempt, AttemptEnd, AttemptOutcome, AttemptRecorder, Digest, Env, ErrorClass,
    GenerationNo, RequestId, Seq, SessionId, Task, TurnNo, WireProfile, secret_forms,
};
use secrecy::ExposeSecret as _;

use crate::assembly::NOTHING_WRITTEN;
use crate::endpoint::{in_address, public_url};
use crate::receive::{self, Received};
use crate::transport::failure;
use crate::{
    Answered, Attendant, Backoff, Client, ConverseError, Encoded, Endpoint, Failure, Fragment,
    Instead, Limits, Prepared, Reply, Taken, encode, learn,
};

/// Quirks that one call may learn; each costs a request.
const LESSONS: usize = 4;

/// Tries at one endpoint that answers with something that is no reply.
const MALFORMED_TRIES: u32 = 3;

/// A call to make.
pub struct ConverseInput<'a> {
    /// The primary endpoint, then the fallbacks in order.
    pub endpoints: &'a [Endpoint],
    /// Makes the neutral request for a profile.
    pub assemble: &'a (dyn Fn(&WireProfile) -> Result<Assembled, String> + Sync),
    /// What the ledger row says beside what is known here.
    pub ledger: LedgerFacts<'a>,
    /// Further tries at one endpoint after the first.
    pub retries: u32,
    /// Delays between tries.
    pub backoff: Backoff,
    /// Clock, ids and chance.
    pub env: &'a dyn Env,
    /// Whether the body goes into the ledger row, because no stored rows give it.
    pub keep_body: bool,
}

/// The ledger's facts that only the agent knows.
#[derive(Clone, Debug)]
pub struct LedgerFacts<'a> {
    /// Whose conversation.
    pub session: &'a SessionId,
    /// Which turn.
    pub turn: TurnNo,
    /// The request whose answer broke off and is asked for again.
    pub retries: Option<RequestId>,
    /// What the call is for.
    pub task: Task,
    /// The generation it is assembled from.
    pub generation: GenerationNo,
    /// The highest seq it can see.
    pub cut: Seq,
    /// Compactions of the session so far.
    pub compactions: u32,
    /// Version of the renderer.
    pub renderer: u32,
}

/// What happens during a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta<'a> {
    /// The ledger row of an attempt is committed; its bytes leave now.
    Started(RequestId),
    /// More of the answer.
    Text(&'a str),
    /// More of the reasoning.
    Reasoning(&'a str),
    /// An attempt failed; the next one follows.
    Retrying {
        /// Why, in words.
        why: &'a str,
        /// The next attempt's number.
        attempt: u32,
        /// Milliseconds until then.
        delay_ms: u64,
    },
    /// The endpoint is given up for this call; the next one is tried.
    FellBack {
        /// Provider and model of the next one.
        to: &'a str,
        /// Why, in words.
        why: &'a str,
    },
    /// An answer came by a changed profile: to be kept for this endpoint.
    LearnedProfile(WireProfile),
}

impl fmt::Debug for ConverseInput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConverseInput")
            .field("endpoints", &self.endpoints)
            .field("ledger", &self.ledger)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Makes the attempts of a call.
    ///
    /// - A transient failure is tried again at the same endpoint, `retries` times at most (an
    ///   answer that is no reply three times in all), after a delay with jitter or the provider's
    ///   `Retry-After`. Then the next endpoint has its turn.
    /// - A credential, a quota, a model that does not exist: the next endpoint at once.
    /// - A request that the provider finds malformed or too large is reported at once: no other
    ///   endpoint and no other key makes it better. Unless the words teach a quirk: then it is
    ///   encoded anew and sent once more.
    /// - Once anything was shown there is no other try: the error holds what was shown.
    ///
    /// Dropping the future cancels the call; the attempt that was started last is then the
    /// caller's to end.
    ///
    /// # Errors
    /// With the last failure, when no endpoint answered.
    pub async fn converse(
        &self,
        input: ConverseInput<'_>,
        recorder: &mut (dyn AttemptRecorder + Send),
        on: &mut (dyn FnMut(Delta<'_>) + Send),
    ) -> Result<Answered, ConverseError> {
        let mut call = Call { input: &input, ends: Vec::new(), given_up: Vec::new() };
        let highest = input.endpoints.len().saturating_sub(1);
        for (index, endpoint) in input.endpoints.iter().enumerate() {
            let outcome = self.at_endpoint(&mut call, index, endpoint, recorder, on).await;
            let lost = match outcome {
                Ok(answered) => return Ok(answered),
                Err(why) => why,
            };
            if index == highest || lost.is_final() {
                return Err(call.error(*lost, index, endpoint));
            }
            call.given_up.push(format!("{}: {}", endpoint.provider, lost.failure.message));
            if let Some(next) = input.endpoints.get(index + 1) {
                let to = format!("{}/{}", next.provider, next.model);
                on(Delta::FellBack { to: &to, why: &lost.failure.message });
            }
        }
        Err(ConverseError {
            class: ErrorClass::Local,
            message: "no model is configured; hint: run `hermes setup`".to_owned(),
            attempts: 0,
            partial: None,
            http_status: None,
            retry_after: None,
            limits: Limits::default(),
            attempt_ends: Vec::new(),
            endpoint_index: 0,
            profile: WireProfile::default(),
        })
    }

    /// All tries at one endpoint.
    async fn at_endpoint(
        &self,
        call: &mut Call<'_>,
        index: usize,
        endpoint: &Endpoint,
        recorder: &mut (dyn AttemptRecorder + Send),
        on: &mut (dyn FnMut(Delta<'_>) + Send),
    ) -> Result<Answered, Box<Lost>> {
        let input = call.input;
        let mut profile = endpoint.profile.clone();
        let mut lessons: Vec<WireProfile> = Vec::new();
        let mut prepared: Option<(Assembled, Encoded)> = None;
        let mut tries = 0;
        loop {
            let local = |message: String, profile: &WireProfile| {
                Box::new(Lost::new(failure(ErrorClass::Local, message), profile.clone()))
            };
            let (assembled, encoded) = if let Some(ready) = prepared.take() {
                ready
            } else {
                let assembled =
                    (input.assemble)(&profile).map_err(|why| local(why, &profile).stop())?;
                let encoded = encode(&assembled, &profile, &endpoint.model, &endpoint.params);
                (assembled, encoded)
            };
            let mut attempt = call.attempt(endpoint, &profile, &assembled, &encoded);
            let mut sent = encoded.body.clone();
            let mut watched = Watched(self.attendant().map(|it| (&**it, attempt.clone())));
            if let Some(attendant) = self.attendant() {
                let prepared = attendant.prepare(&attempt, &encoded.body, &assembled).await;
                match prepared.map_err(|why| local(why, &profile).stop())? {
                    Prepared::AsIs => {}
                    Prepared::Changed(body) => {
                        attempt.body = Digest::of(&body);
                        attempt.body_bytes = body.len() as u64;
                        attempt.kept_body = Some(body.clone());
                        sent = body.into();
                    }
                    Prepared::Answered(instead) => {
                        return Ok(answered_instead(
                            *instead, attempt, encoded, index, profile, on,
                        ));
                    }
                }
            }
            recorder
                .started(attempt.clone(), &profile)
                .map_err(|error| local(error.to_string(), &profile).stop())?;
            on(Delta::Started(attempt.id.clone()));
            let run = self.run(&attempt, endpoint, &assembled, sent, input.env, on);
            let Ran { mut end, partial, result } = match self.attendant() {
                None => run.await,
                Some(attendant) => tokio::join!(run, attendant.sending(&attempt, &assembled)).0,
            };
            tries += 1;
            let (failure, taken) = match result {
                Ok(mut reply) => {
                    let mut by = None;
                    if let Some(attendant) = self.attendant()
                        && let Some(other) = attendant.answered(&attempt, &end, &reply).await
                    {
                        (reply, by) = (other.reply, Some(other.by));
                    }
                    watched.0 = None;
                    if profile != endpoint.profile {
                        on(Delta::LearnedProfile(profile.clone()));
                    }
                    let (end, endpoint_index) = (Some(end), index);
                    return Ok(Answered {
                        attempt,
                        encoded,
                        reply,
                        by,
                        end,
                        endpoint_index,
                        profile,
                    });
                }
                Err(failure) => self.taken_for(&attempt, &mut end, failure).await,
            };
            watched.0 = None;
            let http_status = end.http_status;
            call.ends.push(end.clone());
            recorder.failed(end).map_err(|error| local(error.to_string(), &profile).stop())?;
            let lost = Box::new(Lost {
                failure,
                partial,
                http_status,
                profile: profile.clone(),
                stop: false,
                again: taken.again,
                elsewhere: taken.elsewhere,
            });
            if lost.partial.is_some() {
                return Err(lost);
            }
            if let Some(instead) = taken.instead {
                return Ok(answered_instead(instead, attempt, encoded, index, profile, on));
            }
            if let Some((next, what)) = lost.lesson()
                && lessons.len() < LESSONS
                && !lessons.contains(&next)
            {
                tracing::info!(provider = %endpoint.provider, "learnt about the endpoint: {what}");
                lessons.push(std::mem::replace(&mut profile, next));
                tries -= 1;
                continue;
            }
            let Some(delay) = lost.delay(tries, input) else { return Err(lost) };
            on(Delta::Retrying {
                why: &lost.failure.message,
                attempt: call.number(),
                delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            });
            tokio::time::sleep(delay).await;
            prepared = Some((assembled, encoded));
        }
    }

    /// A failure as the attendant wants it to be taken.
    async fn taken_for(
        &self,
        attempt: &Attempt,
        end: &mut AttemptEnd,
        failure: Failure,
    ) -> (Failure, Taken) {
        let Some(attendant) = self.attendant() else { return (failure, Taken::default()) };
        let mut taken = attendant.failed(attempt, end, &failure).await;
        let Some(other) = taken.failure.take() else { return (failure, taken) };
        end.error_class = Some(other.class);
        end.error = Some(other.message.as_str().into());
        (other, taken)
    }

    /// One attempt, from its first byte out to its last byte in.
    async fn run(
        &self,
        attempt: &Attempt,
        endpoint: &Endpoint,
        assembled: &Assembled,
        body: Bytes,
        env: &dyn Env,
        on: &mut (dyn FnMut(Delta<'_>) + Send),
    ) -> Ran {
        let mut received = Received::default();
        let mut status = None;
        let mut show = |fragment: Fragment<'_>| {
            on(match fragment {
                Fragment::Text(text) => Delta::Text(text),
                Fragment::Reasoning(text) => Delta::Reasoning(text),
            });
        };
        let sent = self.post(endpoint, "/chat/completions", body).await;
        let result = match sent {
            Err(failure) => Err(failure),
            Ok(response) => {
                status = Some(response.status().as_u16());
                if response.status().is_success() {
                    receive::reply(response, endpoint, env, &mut received, &mut show).await
                } else {
                    Err(receive::refusal(response, endpoint, env, &mut received).await)
                }
            }
        };
        let Received { first_byte_at, assembly } = received;
        let finish_reason = assembly.finish_word().cloned();
        let (usage, served_model) = (assembly.usage(), assembly.served_model().cloned());
        let partial = assembly.partial();
        let names: Vec<_> = assembled.tools.defs.iter().map(|tool| tool.name.clone()).collect();
        let result = result
            .and_then(|()| assembly.finish(attempt.id.as_str(), &names))
            .map_err(|failure| scrub(failure, endpoint));
        let error = result.as_ref().err();
        let end = AttemptEnd {
            id: attempt.id.clone(),
            outcome: if error.is_none() { AttemptOutcome::Ok } else { AttemptOutcome::Error },
            first_byte_at,
            ended_at: env.now(),
            http_status: status,
            error_class: error.map(|failure| failure.class),
            error: error.map(|failure| failure.message.as_str().into()),
            usage,
            served_model,
            finish_reason,
            response: None,
        };
        Ran { end, partial: if error.is_some() { partial } else { None }, result }
    }
}

/// Tells the attendant of an attempt that is dropped before it has ended.
struct Watched<'a>(Option<(&'a dyn Attendant, Attempt)>);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if let Some((attendant, attempt)) = self.0.take() {
            attendant.dropped(&attempt);
        }
    }
}

/// An answer of somebody else, shown like the model's.
fn answered_instead(
    instead: Instead,
    attempt: Attempt,
    encoded: Encoded,
    endpoint_index: usize,
    profile: WireProfile,
    on: &mut (dyn FnMut(Delta<'_>) + Send),
) -> Answered {
    let Instead { reply, by } = instead;
    if !reply.text.is_empty() {
        on(Delta::Text(&reply.text));
    }
    Answered { attempt, encoded, reply, by: Some(by), end: None, endpoint_index, profile }
}

/// What an attempt came to.
struct Ran {
    end: AttemptEnd,
    result: Result<Reply, Failure>,
    partial: Option<Reply>,
}

/// What is shared by the attempts of a call.
struct Call<'a> {
    input: &'a ConverseInput<'a>,
    ends: Vec<AttemptEnd>,
    /// Endpoints that were given up, and why.
    given_up: Vec<String>,
}

impl Call<'_> {
    /// The number of the next attempt.
    fn number(&self) -> u32 {
        u32::try_from(self.ends.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    fn attempt(
        &self,
        endpoint: &Endpoint,
        profile: &WireProfile,
        assembled: &Assembled,
        encoded: &Encoded,
    ) -> Attempt {
        let LedgerFacts { session, turn, retries, task, generation, cut, compactions, renderer } =
            self.input.ledger.clone();
        Attempt {
            id: RequestId::generate(self.input.env),
            session: session.clone(),
            turn,
            attempt: self.number(),
            retries: self.ends.last().map(|end| end.id.clone()).or(retries),
            task,
            wire: profile.api_mode.as_str().into(),
            provider: endpoint.provider.clone(),
            base_url: public_url(&endpoint.base_url).into(),
            model: endpoint.model.clone(),
            params: endpoint.params.clone(),
            prompt: assembled.snapshot.digest,
            tools: assembled.tools.digest,
            history: encoded.history,
            body: encoded.digest,
            body_bytes: encoded.body.len() as u64,
            generation,
            cut,
            compactions,
            wire_profile: profile.digest(),
            renderer,
            started_at: self.input.env.now(),
            kept_body: self.input.keep_body.then(|| encoded.body.to_vec()),
        }
    }

    fn error(self, lost: Lost, index: usize, endpoint: &Endpoint) -> ConverseError {
        let attempts = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        let Lost { failure, partial, http_status, profile, .. } = lost;
        let mut message = if attempts == 0 {
            failure.message.clone()
        } else {
            format!(
                "{} (model {} at {}): {}",
                endpoint.provider,
                endpoint.model,
                public_url(&endpoint.base_url),
                failure.message
            )
        };
        if attempts > 1 {
            message = format!("{message}, after {attempts} attempts");
        }
        for given_up in &self.given_up {
            message.push_str("; before that ");
            message.push_str(given_up);
        }
        if let Some(hint) = hint(&failure) {
            message.push_str("; hint: ");
            message.push_str(hint);
        }
        ConverseError {
            class: failure.class,
            message,
            attempts,
            partial,
            http_status,
            retry_after: failure.retry_after,
            limits: failure.limits,
            attempt_ends: self.ends,
            endpoint_index: index,
            profile,
        }
    }
}

/// An endpoint that did not answer.
struct Lost {
    failure: Failure,
    partial: Option<Reply>,
    http_status: Option<u16>,
    profile: WireProfile,
    /// Nothing may be sent any more, to anyone.
    stop: bool,
    /// What the attendant wants, where the class is not to decide.
    again: Option<bool>,
    elsewhere: Option<bool>,
}

impl Lost {
    const fn new(failure: Failure, profile: WireProfile) -> Self {
        Self {
            failure,
            partial: None,
            http_status: None,
            profile,
            stop: false,
            again: None,
            elsewhere: None,
        }
    }

    fn stop(mut self: Box<Self>) -> Box<Self> {
        self.stop = true;
        self
    }

    /// Whether another endpoint would not help, or must not be asked.
    const fn is_final(&self) -> bool {
        let same_everywhere = matches!(
            self.failure.class,
            ErrorClass::BadRequest | ErrorClass::ContextOverflow | ErrorClass::OutputOverflow
        );
        let elsewhere = match self.elsewhere {
            Some(elsewhere) => elsewhere,
            None => !same_everywhere,
        };
        self.stop || self.partial.is_some() || !elsewhere
    }

    fn lesson(&self) -> Option<(WireProfile, &'static str)> {
        let refused = matches!(
            self.failure.class,
            ErrorClass::BadRequest | ErrorClass::NotFound | ErrorClass::Server
        );
        if refused { learn(&self.profile, &self.failure.message) } else { None }
    }

    /// How long to wait before the next try here; None if there is none.
    fn delay(&self, tries: u32, input: &ConverseInput<'_>) -> Option<Duration> {
        let class = self.failure.class;
        let most = input.retries.saturating_add(1);
        let most = if class == ErrorClass::Malformed { most.min(MALFORMED_TRIES) } else { most };
        let again = self.again.unwrap_or_else(|| class.is_transient());
        if !again || tries >= most {
            return None;
        }
        input.backoff.wait(tries, self.failure.retry_after, input.env)
    }
}

/// Takes credentials that the server sent back out of its words, in every form that they take.
fn scrub(mut failure: Failure, endpoint: &Endpoint) -> Failure {
    let bare = |value: &str| {
        let scheme = ["Bearer ", "Basic ", "bearer ", "basic "];
        let value = value.trim();
        scheme.iter().find_map(|it| value.strip_prefix(it)).unwrap_or(value).to_owned()
    };
    let key = endpoint.api_key.iter().map(|key| bare(key.expose_secret()));
    // The value of an ordinary header may be a word.
    let headers = endpoint.headers.iter().filter_map(|(name, value)| {
        let name = name.to_ascii_lowercase();
        let value = bare(value.expose_secret());
        let secret = ["key", "token", "auth", "secret", "pass", "cookie"];
        (value.len() >= 8 || secret.iter().any(|word| name.contains(word))).then_some(value)
    });
    let address = in_address(&endpoint.base_url).into_iter();
    let forms = key.chain(headers).chain(address).flat_map(|value| secret_forms(&value));
    let mut forms: Vec<String> = forms.collect();
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    for form in forms {
        failure.message = failure.message.replace(&form, "[redacted]");
    }
    failure
}

fn hint(failure: &Failure) -> Option<&'static str> {
    Some(match failure.class {
        ErrorClass::Connect => "is the server running at this address? `hermes doctor` checks it",
        ErrorClass::Timeout => "a local model may need more time: raise the provider's timeouts",
        ErrorClass::Auth => {
            "check this provider's API key; `hermes doctor` says where it comes from"
        }
        ErrorClass::Quota => "the account is used up: top it up or add a fallback provider",
        ErrorClass::RateLimit => "wait a little, or add a fallback provider",
        ErrorClass::NotFound => {
            "check the model's name and that the address ends in its version, such as /v1"
        }
        ErrorClass::ContextOverflow => {
            "the conversation does not fit the model's window: /compress, or start anew with /new"
        }
        ErrorClass::OutputOverflow => {
            "lower max_tokens: the window has no room for that much output"
        }
        ErrorClass::BadRequest if is_about_pairs(&failure.message) => {
            "the provider does not accept the conversation's history of tool calls; the key is fine. /undo takes the last turn back"
        }
        ErrorClass::Malformed if failure.message.starts_with(NOTHING_WRITTEN) => {
            "raise max_tokens, or think less (agent.reasoning_effort): reasoning counts as output"
        }
        ErrorClass::Malformed if failure.message.starts_with("an empty answer") => {
            "ask again, or try another model"
        }
        ErrorClass::Malformed => "is this the address of a chat-completions API?",
        ErrorClass::Disconnected
        | ErrorClass::Server
        | ErrorClass::BadRequest
        | ErrorClass::ContentFilter
        | ErrorClass::Local => return None,
    })
}

fn is_about_pairs(message: &str) -> bool {
    let text = message.to_ascii_lowercase();
    ["tool_use", "tool_result", "tool_call", "tool message", "role 'tool'", "tool id"]
        .iter()
        .any(|word| text.contains(word))
}
