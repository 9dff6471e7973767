//! One living plugin process and the conversation with it.
//!
//! Three threads of the system serve it (reading, writing, its log), so that neither a full pipe
//! nor a quiet runtime can hold anything up; a fourth waits for its end. Invariants: every request
//! is answered or failed; when the process ends, whatever way, everything that waits is told; a
//! process never outlives its link.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc as channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};

use super::frame::{self, Framing};

/// Lines of a process's log that are kept.
const LOG_LINES: usize = 200;
/// The longest line of a log that is kept whole.
const LOG_LINE: u64 = 4096;

/// What a plugin raised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The class of the exception.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// Its classes, itself first.
    #[serde(default, rename = "types")]
    pub kinds: Vec<String>,
    /// What it said.
    #[serde(default)]
    pub message: String,
}

impl Fault {
    /// A fault that plugins see as this class.
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), kinds: vec![kind.to_owned()], message: message.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.kind.as_str(), self.message.as_str()) {
            ("", message) => f.write_str(message),
            (kind, "") => f.write_str(kind),
            (kind, message) => write!(f, "{kind}: {message}"),
        }
    }
}

/// Why a call gave no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The other side raised.
    #[error("{0}")]
    Raised(Fault),
    /// Its process is gone.
    #[error("the plugin's process has ended ({0})")]
    Gone(String),
    /// It took too long.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// It answered something else than was agreed.
    #[error("the plugin's process answered something that is not understood: {0}")]
    Odd(String),
}

/// One callback's part of an event.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct FanItem {
    pub(crate) call: u64,
    pub(crate) index: usize,
    #[serde(default)]
    pub(crate) value: Option<Box<RawValue>>,
    #[serde(default)]
    pub(crate) error: Option<Fault>,
    #[serde(default)]
    pub(crate) mutations: Option<Box<RawValue>>,
    #[serde(default)]
    pub(crate) ms: f64,
}

/// What a plugin process asks for or says.
pub(crate) trait Inbound: Send + Sync {
    /// A request; the answer must be given through `answer`, at once or later.
    fn request(
        &self,
        method: &str,
        params: Box<RawValue>,
        origin: Option<Box<RawValue>>,
        answer: Answer,
    );
    /// Something said without waiting.
    fn notice(&self, method: &str, params: &RawValue);
    /// The process has ended.
    fn ended(&self, why: &str);
}

/// How a process is started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: PathBuf,
    pub(crate) framing: Framing,
}

enum Waiting {
    One(oneshot::Sender<Result<Box<RawValue>, CallError>>),
    Many(mpsc::UnboundedSender<FanItem>),
}

/// A living process.
pub(crate) struct Link {
    out: channel::Sender<Vec<u8>>,
    waiting: Mutex<HashMap<u64, Waiting>>,
    next: AtomicU64,
    ended: watch::Sender<Option<String>>,
    pid: u32,
    log: Mutex<VecDeque<String>>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("pid", &self.pid).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer to a request of the process; dropped without a word it says that nobody answered.
pub(crate) struct Answer {
    link: Arc<Link>,
    id: Option<serde_json::Value>,
}

impl Answer {
    fn send(&mut self, key: &str, body: &str) {
        if let Some(id) = self.id.take() {
            self.link
                .write(format!(r#"{{"jsonrpc":"2.0","id":{id},"{key}":{body}}}"#).into_bytes());
        }
    }

    /// A result, as JSON text.
    pub(crate) fn json(mut self, body: &str) {
        self.send("result", body);
    }

    /// A result.
    pub(crate) fn value(self, value: &serde_json::Value) {
        self.json(&value.to_string());
    }

    /// An error.
    pub(crate) fn fault(mut self, fault: &Fault) {
        let body = serde_json::json!({
            "code": -32000, "type": fault.kind, "types": fault.kinds, "message": fault.message,
        });
        self.send("error", &body.to_string());
    }

    /// Either.
    pub(crate) fn result(self, result: Result<serde_json::Value, Fault>) {
        match result {
            Ok(value) => self.value(&value),
            Err(fault) => self.fault(&fault),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.id.is_some() {
            let body =
                r#"{"code":-32603,"type":"RuntimeError","message":"the request was dropped"}"#;
            self.send("error", body);
        }
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    id: Option<serde_json::Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Fault>,
    #[serde(default, borrow)]
    origin: Option<&'a RawValue>,
}

impl Link {
    /// Starts a process and the threads that serve it.
    pub(crate) fn start(launch: &Launch, inbound: Arc<dyn Inbound>) -> std::io::Result<Arc<Self>> {
        let mut command = Command::new(&launch.program);
        command
            .args(&launch.args)
            .env_clear()
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&launch.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt as _;
            command.process_group(0);
        }
        let mut child = command.spawn()?;
        let (Some(mut input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(std::io::Error::other("the process has no pipes"));
        };
        let (out, frames) = channel::channel::<Vec<u8>>();
        let link = Arc::new(Self {
            out,
            waiting: Mutex::new(HashMap::new()),
            next: AtomicU64::new(1),
            ended: watch::Sender::new(None),
            pid: child.id(),
            log: Mutex::new(VecDeque::new()),
        });
        let framing = launch.framing;
        // Dropping the sender ends the writer, which closes the pipe, which asks the process to end.
        spawn("plugin-write", move || {
            while let Ok(body) = frames.recv() {
                if frame::write(&mut input, framing, &body).is_err() {
                    break;
                }
            }
        })?;
        let reading = Arc::clone(&link);
        let hears = Arc::clone(&inbound);
        spawn("plugin-read", move || {
            reading.read(BufReader::with_capacity(1 << 16, output), &*hears);
        })?;
        let weak = Arc::downgrade(&link);
        spawn("plugin-log", move || {
            let mut from = BufReader::new(errors);
            let mut bytes = Vec::new();
            loop {
                bytes.clear();
                match from.by_ref().take(LOG_LINE).read_until(b'\n', &mut bytes) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
                let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                tracing::debug!(target: "hermes::plugins::log", "{text}");
                let Some(link) = weak.upgrade() else { continue };
                let mut log = locked(&link.log);
                if log.len() == LOG_LINES {
                    log.pop_front();
                }
                log.push_back(text);
            }
        })?;
        let whole = Arc::clone(&link);
        spawn("plugin-wait", move || whole.wait(child, &*inbound))?;
        Ok(link)
    }

    fn wait(&self, mut child: Child, inbound: &dyn Inbound) {
        let why = match child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        // What it forked and left behind goes with it.
        self.kill();
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            if first {
                *ended = Some(why.clone());
            }
            first
        });
        let left: Vec<Waiting> =
            locked(&self.waiting).drain().map(|(_, waiting)| waiting).collect();
        for waiting in left {
            if let Waiting::One(sender) = waiting {
                // Nobody may be waiting any more.
                drop(sender.send(Err(CallError::Gone(why.clone()))));
            }
        }
        inbound.ended(&why);
    }

    fn read(
        self: Arc<Self>,
        mut from: BufReader<std::process::ChildStdout>,
        inbound: &dyn Inbound,
    ) {
        loop {
            match frame::read(&mut from) {
                Ok(Some(body)) => self.take(&body, inbound),
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(pid = self.pid, %error, "a plugin's process cannot be read");
                    break;
                }
            }
        }
        // It closed its end without ending: nothing more can be said to it.
        self.kill();
    }

    fn take(self: &Arc<Self>, body: &[u8], inbound: &dyn Inbound) {
        let envelope: Envelope<'_> = match serde_json::from_slice(body) {
            Ok(envelope) => envelope,
            Err(error) => {
                tracing::warn!(pid = self.pid, %error, "a plugin's process sent what is no message");
                return;
            }
        };
        match (envelope.method.as_deref(), envelope.id) {
            (Some("result"), None) => {
                let Some(params) = envelope.params else { return };
                match serde_json::from_str::<FanItem>(params.get()) {
                    Ok(item) => {
                        if let Some(Waiting::Many(sender)) = locked(&self.waiting).get(&item.call) {
                            // The receiver is gone once the event is done with.
                            drop(sender.send(item));
                        }
                    }
                    Err(error) => tracing::warn!(pid = self.pid, %error, "an odd result"),
                }
            }
            (Some(method), Some(id)) => {
                let params = envelope.params.map_or_else(empty, ToOwned::to_owned);
                let answer = Answer { link: Arc::clone(self), id: Some(id) };
                inbound.request(method, params, envelope.origin.map(ToOwned::to_owned), answer);
            }
            (Some(method), None) => {
                if let Some(params) = envelope.params {
                    inbound.notice(method, params);
                }
            }
            (None, Some(id)) => {
                let Some(number) = id.as_u64() else { return };
                let waiting = locked(&self.waiting).remove(&number);
                if let Some(Waiting::One(sender)) = waiting {
                    let result = match envelope.error {
                        Some(fault) => Err(CallError::Raised(fault)),
                        None => Ok(envelope.result.map_or_else(null, ToOwned::to_owned)),
                    };
                    // Nobody may be waiting any more.
                    drop(sender.send(result));
                }
            }
            (None, None) => {}
        }
    }

    fn write(&self, body: Vec<u8>) {
        // A writer that has ended means a process that has ended, which is told elsewhere.
        drop(self.out.send(body));
    }

    /// Whether the process lives.
    pub(crate) fn lives(&self) -> bool {
        self.ended.borrow().is_none()
    }

    /// Why it ended, once it has.
    pub(crate) fn ended(&self) -> watch::Receiver<Option<String>> {
        self.ended.subscribe()
    }

    /// Why it ended, in words for a message.
    pub(crate) fn why_ended(&self) -> String {
        self.ended.borrow().clone().unwrap_or_else(|| "its link was closed".to_owned())
    }

    /// The last lines it printed.
    pub(crate) fn log(&self) -> Vec<String> {
        locked(&self.log).iter().cloned().collect()
    }

    /// Asks and waits at most `limit`.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &str,
        limit: Option<Duration>,
    ) -> Result<Box<RawValue>, CallError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        locked(&self.waiting).insert(number, Waiting::One(sender));
        if let Some(why) = self.ended.borrow().clone() {
            locked(&self.waiting).remove(&number);
            return Err(CallError::Gone(why));
        }
        self.write(request(number, method, params));
        // Whoever stops waiting, by time or by being dropped, says so.
        let mut asked = Asked { link: self, number, answered: false };
        let answer = match limit {
            Some(limit) => tokio::time::timeout(limit, receiver)
                .await
                .map_err(|_| CallError::TimedOut(limit))?,
            None => receiver.await,
        };
        asked.answered = true;
        answer.unwrap_or_else(|_| Err(CallError::Gone("its link was closed".to_owned())))
    }

    /// Sends one event, in pieces of one JSON object, to several callbacks; the results come one by
    /// one.
    pub(crate) fn fan(
        &self,
        params: &[&str],
    ) -> Result<(u64, mpsc::UnboundedReceiver<FanItem>), CallError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::unbounded_channel();
        locked(&self.waiting).insert(number, Waiting::Many(sender));
        if let Some(why) = self.ended.borrow().clone() {
            locked(&self.waiting).remove(&number);
            return Err(CallError::Gone(why));
        }
        self.write(request_of(number, "fanout", params));
        Ok((number, receiver))
    }

    /// Ends what `fan` began.
    pub(crate) fn close_fan(&self, number: u64) {
        locked(&self.waiting).remove(&number);
    }

    /// Says something without waiting.
    pub(crate) fn notify(&self, method: &str, params: &str) {
        self.write(
            format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#).into_bytes(),
        );
    }

    /// Ends the process and everything in its group, by force.
    pub(crate) fn kill(&self) {
        #[cfg(unix)]
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw) {
            // It may be gone already.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

/// A request that waits for its answer; one that nobody waits for any more is cancelled.
struct Asked<'a> {
    link: &'a Link,
    number: u64,
    answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.answered {
            locked(&self.link.waiting).remove(&self.number);
            self.link.notify("cancel", &format!(r#"{{"call":{}}}"#, self.number));
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill();
    }
}

fn request(number: u64, method: &str, params: &str) -> Vec<u8> {
    request_of(number, method, &[params])
}

/// A request whose parameters stand in pieces, which may be long.
fn request_of(number: u64, method: &str, params: &[&str]) -> Vec<u8> {
    let head = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"{method}","params":"#);
    let length = params.iter().map(|piece| piece.len()).sum::<usize>();
    let mut out = Vec::with_capacity(head.len() + length + 1);
    out.extend_from_slice(head.as_bytes());
    for piece in params {
        out.extend_from_slice(piece.as_bytes());
    }
    out.push(b'}');
    out
}

fn empty() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

fn null() -> Box<RawValue> {
    Box::<RawValue>::default()
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}
