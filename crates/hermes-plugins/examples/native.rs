//! A native plugin in Rust: a program that speaks the plugin protocol over its standard streams.
//!
//! It offers a tool and hears the end of each turn. Its manifest:
//!
//! ```yaml
//! name: words
//! version: "1.0"
//! runtime: native
//! command: [./words]
//! ```

use std::io::{self, BufRead, Write as _};

use serde_json::{Value, json};

/// The next request; None when the runtime has gone.
fn receive(from: &mut impl BufRead) -> io::Result<Option<Value>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body)?))
}

fn send(message: &Value) -> io::Result<()> {
    let body = message.to_string();
    let mut out = io::stdout().lock();
    write!(out, "Content-Length: {}\r\n\r\n{body}", body.len())?;
    out.flush()
}

const COUNT: u64 = 1;
const TURN_ENDED: u64 = 2;

/// What the plugin registers, in the same form as Python plugins do it.
fn registrations() -> Value {
    json!([
        {
            "kind": "tool",
            "key": "count_words",
            "spec": {
                "toolset": "words",
                "description": "Counts the words of a text.",
                "schema": {
                    "name": "count_words",
                    "parameters": {
                        "type": "object",
                        "properties": {"text": {"type": "string"}},
                        "required": ["text"],
                    },
                },
            },
            "calls": {"call": COUNT},
        },
        {"kind": "hook", "key": "on_session_end", "calls": {"call": TURN_ENDED}},
    ])
}

fn invoke(params: &Value) -> Value {
    match params["ref"].as_u64() {
        Some(COUNT) => {
            let text = params["args"][0]["text"].as_str().unwrap_or_default();
            let result = json!({"words": text.split_whitespace().count()});
            // A tool's result is text.
            json!({"value": result.to_string()})
        }
        Some(TURN_ENDED) => {
            eprintln!("a turn of {} has ended", params["kwargs"]["session_id"]);
            json!({"value": null})
        }
        _ => json!({"value": null}),
    }
}

fn main() -> io::Result<()> {
    let mut from = io::stdin().lock();
    while let Some(request) = receive(&mut from)? {
        let result = match request["method"].as_str() {
            Some("initialize") => json!({"protocol": 1}),
            Some("load") => json!({"registrations": registrations()}),
            Some("invoke") => invoke(&request["params"]),
            Some("shutdown") => break,
            _ => Value::Null,
        };
        if let Some(id) = request.get("id") {
            send(&json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        }
    }
    Ok(())
}
