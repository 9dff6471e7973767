//! Just enough HTTP/1.1 for a model server: requests in, answers out, keep-alive.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The largest head and body that are read.
const LARGEST_HEAD: usize = 64 << 10;
const LARGEST_BODY: usize = 256 << 20;

/// A request that was read whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub method: String,
    pub path: String,
    pub body: Vec<u8>,
    pub keep_alive: bool,
}

/// Why no request was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoRequest {
    /// The client went away.
    Gone,
    /// It sent something else than HTTP, or too much of it.
    Bad(&'static str),
}

/// Reads requests from one connection.
#[derive(Debug)]
pub(super) struct Reader {
    buffer: Vec<u8>,
}

/// What a head says that matters here.
struct Head {
    method: String,
    path: String,
    length: usize,
    body: BodyForm,
    keep_alive: bool,
    wants_continue: bool,
}

#[derive(Clone, Copy)]
enum BodyForm {
    Length(usize),
    Chunked,
}

impl Reader {
    pub(super) const fn new() -> Self {
        Self { buffer: Vec::new() }
    }

    /// Reads the next request.
    pub(super) async fn next<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
    ) -> Result<Request, NoRequest> {
        let head = loop {
            if let Some(head) = parse_head(&self.buffer)? {
                break head;
            }
            if self.buffer.len() > LARGEST_HEAD {
                return Err(NoRequest::Bad("the head is too large"));
            }
            self.fill(stream).await?;
        };
        self.buffer.drain(..head.length);
        if head.wants_continue {
            stream
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                .await
                .map_err(|_| NoRequest::Gone)?;
        }
        let body = match head.body {
            BodyForm::Length(length) => {
                while self.buffer.len() < length {
                    self.fill(stream).await?;
                }
                let rest = self.buffer.split_off(length);
                std::mem::replace(&mut self.buffer, rest)
            }
            BodyForm::Chunked => self.chunked(stream).await?,
        };
        Ok(Request { method: head.method, path: head.path, body, keep_alive: head.keep_alive })
    }

    async fn fill<S: AsyncRead + Unpin>(&mut self, stream: &mut S) -> Result<(), NoRequest> {
        if self.buffer.len() > LARGEST_BODY {
            return Err(NoRequest::Bad("the body is too large"));
        }
        self.buffer.reserve(16 << 10);
        match stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => Err(NoRequest::Gone),
            Ok(_) => Ok(()),
        }
    }

    async fn chunked<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
    ) -> Result<Vec<u8>, NoRequest> {
        let mut body = Vec::new();
        loop {
            let line = self.line(stream).await?;
            let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
            let size = std::str::from_utf8(size)
                .ok()
                .and_then(|size| usize::from_str_radix(size.trim(), 16).ok())
                .filter(|size| *size <= LARGEST_BODY && body.len() <= LARGEST_BODY)
                .ok_or(NoRequest::Bad("the size of a chunk cannot be read"))?;
            if size == 0 {
                // Trailers, up to a blank line.
                while !self.line(stream).await?.is_empty() {}
                return Ok(body);
            }
            while self.buffer.len() < size {
                self.fill(stream).await?;
            }
            body.extend(self.buffer.drain(..size));
            if !self.line(stream).await?.is_empty() {
                return Err(NoRequest::Bad("a chunk is longer than it says"));
            }
        }
    }

    async fn line<S: AsyncRead + Unpin>(&mut self, stream: &mut S) -> Result<Vec<u8>, NoRequest> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let mut line: Vec<u8> = self.buffer.drain(..at + 2).collect();
                line.truncate(at);
                return Ok(line);
            }
            self.fill(stream).await?;
        }
    }
}

fn parse_head(bytes: &[u8]) -> Result<Option<Head>, NoRequest> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(NoRequest::Bad("this is no HTTP request")),
    };
    let mut head = Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: request.path.unwrap_or_default().to_owned(),
        length,
        body: BodyForm::Length(0),
        keep_alive: request.version == Some(1),
        wants_continue: false,
    };
    for header in request.headers.iter() {
        let value = String::from_utf8_lossy(header.value).trim().to_ascii_lowercase();
        match header.name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let length = value
                    .parse()
                    .ok()
                    .filter(|length| *length <= LARGEST_BODY)
                    .ok_or(NoRequest::Bad("the length of the body cannot be"))?;
                head.body = BodyForm::Length(length);
            }
            "transfer-encoding" if value.contains("chunked") => head.body = BodyForm::Chunked,
            "connection" if value.contains("close") => head.keep_alive = false,
            "connection" if value.contains("keep-alive") => head.keep_alive = true,
            "expect" if value.contains("100-continue") => head.wants_continue = true,
            _ => {}
        }
    }
    Ok(Some(head))
}

/// The words of a status that a person may see in a log.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        529 => "Site Is Overloaded",
        _ => "Unknown",
    }
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// By its length; the connection can be used again.
    Length(usize),
    /// In chunks; the connection can be used again.
    Chunked,
    /// By the end of the connection.
    Close,
}

/// The head of an answer.
pub(super) fn head(
    status: u16,
    content_type: &str,
    headers: &[(String, String)],
    framing: Framing,
) -> Vec<u8> {
    let mut lines = vec![format!("HTTP/1.1 {status} {}", reason(status))];
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        lines.push(format!("content-type: {content_type}"));
    }
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    lines.push(match framing {
        Framing::Length(length) => format!("content-length: {length}"),
        Framing::Chunked => "transfer-encoding: chunked".to_owned(),
        Framing::Close => "connection: close".to_owned(),
    });
    (lines.join("\r\n") + "\r\n\r\n").into_bytes()
}

/// One chunk of a chunked body.
pub(super) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    out
}

/// The end of a chunked body.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Writes pieces with a wait between them; without a wait, all at once.
pub(super) async fn write<S: AsyncWrite + Unpin>(
    stream: &mut S,
    pieces: &[Vec<u8>],
    delay: Duration,
) -> std::io::Result<()> {
    if delay.is_zero() && pieces.len() > 1 {
        stream.write_all(&pieces.concat()).await?;
    } else {
        for (index, piece) in pieces.iter().enumerate() {
            if index > 0 {
                tokio::time::sleep(delay).await;
            }
            stream.write_all(piece).await?;
            stream.flush().await?;
        }
    }
    stream.flush().await
}
