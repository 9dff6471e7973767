//! The server's thread: connections, routes, faults.

use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::cache::{PrefixCache, tokens};
use super::http::{self, Framing, NoRequest, Reader, Request};
use super::model::{self, Answer, Asked, Counts};
use super::script::{Entry, Script, ScriptedReply, Then};
use super::{RehearsalError, RehearsalOptions, RehearsalServer};
use crate::json::{self, write_string};

/// What the connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub requests: AtomicU64,
    pub connections: AtomicU64,
    bodies: Mutex<Vec<Vec<u8>>>,
    script: Mutex<Script>,
    cache: Mutex<PrefixCache>,
    record: Option<Mutex<File>>,
    keep_bodies: bool,
    chunk_delay: Duration,
}

/// A panic while one was held leaves nothing half-done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn bodies(&self) -> Vec<Vec<u8>> {
        lock(&self.bodies).clone()
    }

    pub(super) fn script_left(&self) -> usize {
        lock(&self.script).len()
    }

    /// Keeps a received body; its number, from 1.
    fn keep(&self, body: &[u8]) -> u64 {
        let number = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        if self.keep_bodies {
            lock(&self.bodies).push(body.to_vec());
        }
        if let Some(record) = &self.record {
            let mut text = String::new();
            let key = if let Ok(body) = std::str::from_utf8(body) {
                write_string(&mut text, body);
                "body"
            } else {
                use base64::Engine as _;
                write_string(&mut text, &base64::engine::general_purpose::STANDARD.encode(body));
                "body_base64"
            };
            let line = format!("{{\"n\":{number},\"{key}\":{text}}}\n");
            if let Err(error) = lock(record).write_all(line.as_bytes()) {
                tracing::warn!("the rehearsal record cannot be written: {error}");
            }
        }
        number
    }
}

pub(super) fn start(options: RehearsalOptions) -> Result<RehearsalServer, RehearsalError> {
    let RehearsalOptions { addr, script, record, keep_bodies, chunk_delay } = options;
    let listen = |why| RehearsalError::Listen { addr, why };
    let listener = std::net::TcpListener::bind(addr).map_err(listen)?;
    listener.set_nonblocking(true).map_err(listen)?;
    let addr = listener.local_addr().map_err(listen)?;
    let record = match record {
        None => None,
        Some(path) => match File::options().create(true).append(true).open(&path) {
            Ok(file) => Some(Mutex::new(file)),
            Err(why) => return Err(RehearsalError::Record { path, why }),
        },
    };
    let shared = Arc::new(Shared {
        requests: AtomicU64::new(0),
        connections: AtomicU64::new(0),
        bodies: Mutex::default(),
        script: Mutex::new(script.unwrap_or_default()),
        cache: Mutex::default(),
        record,
        keep_bodies,
        chunk_delay,
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(RehearsalError::Thread)?;
    let (stop, stopped) = oneshot::channel();
    let for_thread = Arc::clone(&shared);
    let thread = std::thread::Builder::new()
        .name("rehearsal".to_owned())
        .spawn(move || runtime.block_on(accept(listener, for_thread, stopped)))
        .map_err(RehearsalError::Thread)?;
    Ok(RehearsalServer { addr, shared, stop: Some(stop), thread: Some(thread) })
}

/// Takes connections until it is told to stop; the runtime's end ends those that are open.
async fn accept(
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
    mut stopped: oneshot::Receiver<()>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!("the rehearsal provider cannot listen: {error}");
            return;
        }
    };
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                drop(tokio::spawn(connection(stream, Arc::clone(&shared))));
            }
            Err(error) => {
                // Out of file descriptors, as a rule: others have to end first.
                tracing::warn!("the rehearsal provider cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// What follows an answer on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Request,
    Close,
    Reset,
}

async fn connection(mut stream: TcpStream, shared: Arc<Shared>) {
    drop(stream.set_nodelay(true));
    let mut reader = Reader::new();
    loop {
        let next = match reader.next(&mut stream).await {
            Ok(request) => {
                let keep_alive = request.keep_alive;
                match answer(&mut stream, &request, &shared).await {
                    Ok(Next::Request) if keep_alive => Next::Request,
                    Ok(Next::Request) | Err(_) => Next::Close,
                    Ok(next) => next,
                }
            }
            Err(NoRequest::Gone) => Next::Close,
            Err(NoRequest::Bad(why)) => {
                // The connection ends anyway, heard or not.
                drop(document(&mut stream, 400, &[], &error_body(why), &[], Duration::ZERO).await);
                Next::Close
            }
        };
        match next {
            Next::Request => {}
            Next::Close => {
                drop(tokio::io::AsyncWriteExt::shutdown(&mut stream).await);
                return;
            }
            Next::Reset => {
                if let Err(error) = stream.set_zero_linger() {
                    tracing::warn!("the connection ends cleanly instead of by a reset: {error}");
                }
                return;
            }
        }
    }
}

async fn answer(
    stream: &mut TcpStream,
    request: &Request,
    shared: &Shared,
) -> std::io::Result<Next> {
    let path = request.path.split('?').next().unwrap_or_default();
    if request.method == "POST" && path.ends_with("/chat/completions") {
        return chat(stream, &request.body, shared).await;
    }
    if request.method == "GET" && path.ends_with("/models") {
        let body = br#"{"object":"list","data":[{"id":"rehearsal","object":"model","created":0,"owned_by":"hermes","context_length":131072}]}"#;
        return document(stream, 200, &[], body, &[], Duration::ZERO).await;
    }
    let body = error_body(&format!("there is no {} {path} here", request.method));
    document(stream, 404, &[], &body, &[], Duration::ZERO).await
}

async fn chat(stream: &mut TcpStream, body: &[u8], shared: &Shared) -> std::io::Result<Next> {
    let number = shared.keep(body);
    let text = String::from_utf8_lossy(body);
    let parsed = match json::parse(&text) {
        Ok(parsed) if parsed.value.is_object() => parsed,
        Ok(_) | Err(_) => {
            let body = error_body("the body of the request is no JSON object");
            return document(stream, 400, &[], &body, &[], Duration::ZERO).await;
        }
    };
    let asked = Asked::read(&parsed.value);
    let entry = lock(&shared.script).next(|| asked.has_reasoning());
    let miss = asked.forgets() || entry.as_ref().is_some_and(|entry| entry.cache_miss);
    let cached = lock(&shared.cache).look_up(asked.prompt_parts(), miss);
    let counts = Counts { prompt: tokens(asked.prompt_bytes()), cached };
    if let Some(entry) = entry {
        return play(stream, entry, &asked, number, counts, shared).await;
    }
    if let Some(refusal) = asked.refusal() {
        return document(stream, 400, &[], &error_body(&refusal), &[], Duration::ZERO).await;
    }
    say(stream, &asked.answer(), &asked, number, counts, shared.chunk_delay).await
}

/// Answers as asked: as a stream, or in one document.
async fn say(
    stream: &mut TcpStream,
    answer: &Answer,
    asked: &Asked<'_>,
    number: u64,
    counts: Counts,
    delay: Duration,
) -> std::io::Result<Next> {
    if !asked.stream {
        let body = model::document(answer, number, counts);
        return document(stream, 200, &[], &body, &[], delay).await;
    }
    let mut pieces = vec![http::head(200, "text/event-stream", &[], Framing::Chunked)];
    pieces.extend(model::events(answer, asked, number, counts).iter().map(|e| http::chunk(e)));
    // The end comes with the last event, so that nobody waits for it.
    if let Some(last) = pieces.last_mut() {
        last.extend_from_slice(http::LAST_CHUNK);
    }
    http::write(stream, &pieces, delay).await?;
    Ok(Next::Request)
}

async fn play(
    stream: &mut TcpStream,
    entry: Entry,
    asked: &Asked<'_>,
    number: u64,
    counts: Counts,
    shared: &Shared,
) -> std::io::Result<Next> {
    let Entry { reply, then, chunks, delay, .. } = entry;
    let next = match reply {
        ScriptedReply::Nothing => Next::Close,
        ScriptedReply::Stream(bytes) => {
            let mut pieces = vec![http::head(200, "text/event-stream", &[], Framing::Close)];
            pieces.extend(cut(&bytes, &chunks));
            write_each(stream, &pieces, &chunks, delay).await?;
            Next::Close
        }
        ScriptedReply::Document { status, headers, body } => {
            if chunks.is_empty() && !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            document(stream, status, &headers, &body, &chunks, delay).await?
        }
        ScriptedReply::Say { thought, text, calls } => {
            let delay = if delay.is_zero() { shared.chunk_delay } else { delay };
            say(stream, &Answer { thought, text, calls }, asked, number, counts, delay).await?
        }
    };
    Ok(match then {
        Then::KeepAlive => next,
        Then::Close => Next::Close,
        Then::Reset => Next::Reset,
        Then::Hang(time) => {
            tokio::time::sleep(time).await;
            Next::Close
        }
    })
}

async fn document(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(String, String)],
    body: &[u8],
    chunks: &[usize],
    delay: Duration,
) -> std::io::Result<Next> {
    let head = http::head(status, "application/json", headers, Framing::Length(body.len()));
    if chunks.is_empty() {
        http::write(stream, &[head, body.to_vec()], Duration::ZERO).await?;
    } else {
        let mut pieces = vec![head];
        pieces.extend(cut(body, chunks));
        write_each(stream, &pieces, chunks, delay).await?;
    }
    Ok(Next::Request)
}

/// Pieces of the given sizes; the last size goes on.
fn cut(bytes: &[u8], sizes: &[usize]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    let mut sizes = sizes.iter().copied();
    let mut size = usize::MAX;
    while !rest.is_empty() {
        size = sizes.next().unwrap_or(size);
        let (piece, tail) = rest.split_at(size.min(rest.len()));
        pieces.push(piece.to_vec());
        rest = tail;
    }
    pieces
}

/// Each piece in a write of its own, if the script cuts at all.
async fn write_each(
    stream: &mut TcpStream,
    pieces: &[Vec<u8>],
    sizes: &[usize],
    delay: Duration,
) -> std::io::Result<()> {
    if sizes.is_empty() && delay.is_zero() {
        return http::write(stream, pieces, delay).await;
    }
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            if delay.is_zero() {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(delay).await;
            }
        }
        http::write(stream, std::slice::from_ref(piece), Duration::ZERO).await?;
    }
    Ok(())
}

fn error_body(message: &str) -> Vec<u8> {
    let mut out = String::from("{\"error\":{\"message\":");
    write_string(&mut out, message);
    out.push_str(",\"type\":\"invalid_request_error\"}}");
    out.into_bytes()
}
