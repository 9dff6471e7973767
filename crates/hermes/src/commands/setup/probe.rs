//! Which model servers answer on this machine: one short question to each usual port, all at
//! once, with a fixed bound.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use hermes_core::{Env, Params, WireProfile};
use hermes_home::SecretString;
use hermes_provider::{Client, Endpoint, Failure, ModelInfo, Timeouts};

use crate::commands::chat;

/// How long a server on this machine may take to answer.
pub const BOUND: Duration = Duration::from_millis(300);

/// A kind of server: what it is called, its provider name in the configuration, its usual port.
pub const KNOWN: &[(&str, &str, u16)] = &[
    ("Ollama", "ollama", 11434),
    ("LM Studio", "lmstudio", 1234),
    ("llama.cpp", "llamacpp", 8080),
    ("vLLM", "vllm", 8000),
];

/// A server that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// What it is called.
    pub name: &'static str,
    /// Its provider name in the configuration.
    pub provider: &'static str,
    /// Its address.
    pub base_url: String,
    /// Its models.
    pub models: Vec<ModelInfo>,
}

/// Asks all known ports at once; what has not answered within [`BOUND`] is not there.
///
/// # Errors
/// If the asynchronous runtime does not start.
pub fn servers(
    env: &Arc<dyn Env>,
    known: &[(&'static str, &'static str, u16)],
) -> anyhow::Result<Vec<Server>> {
    chat::runtime()?.block_on(async {
        let client = Arc::new(Client::new());
        let asked: Vec<_> = known
            .iter()
            .map(|&(name, provider, port)| {
                let (client, env) = (client.clone(), env.clone());
                let base_url = format!("http://{}:{port}/v1", Ipv4Addr::LOCALHOST);
                let endpoint = place(&base_url, None, BOUND);
                tokio::spawn(async move {
                    let asked = client.models(&endpoint, &*env);
                    let models = tokio::time::timeout(BOUND, asked).await.ok()?.ok()?;
                    Some(Server { name, provider, base_url, models })
                })
            })
            .collect();
        let mut found = Vec::new();
        for server in asked {
            found.extend(server.await.ok().flatten());
        }
        Ok(found)
    })
}

/// The models that a server offers.
///
/// # Errors
/// What the server answered instead.
pub fn models(
    env: &Arc<dyn Env>,
    base_url: &str,
    key: Option<&SecretString>,
) -> anyhow::Result<Result<Vec<ModelInfo>, Failure>> {
    let endpoint = place(base_url, key, Duration::from_secs(10));
    Ok(chat::runtime()?.block_on(Client::new().models(&endpoint, &**env)))
}

/// An endpoint that is only asked for its models.
fn place(base_url: &str, key: Option<&SecretString>, bound: Duration) -> Endpoint {
    Endpoint {
        provider: "setup".into(),
        base_url: base_url.into(),
        model: "".into(),
        api_key: key.cloned(),
        headers: Vec::new(),
        timeouts: Timeouts { connect: bound, first_byte: bound, idle: bound },
        profile: WireProfile::default(),
        params: Params::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::time::Instant;

    use hermes_core::{ScriptedEnv, Timestamp};

    use super::*;

    fn env() -> Arc<dyn Env> {
        Arc::new(ScriptedEnv::new(Timestamp(0), 1, 1))
    }

    /// Answers one connection with `body` and leaves it open until the other side hangs up.
    fn serve(status: &'static str, body: &'static str) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let count = stream.read(&mut request).unwrap();
            assert!(request[..count].starts_with(b"GET /v1/models HTTP/1.1\r\n"));
            let length = body.len();
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
            while stream.read(&mut request).unwrap_or(0) > 0 {}
        });
        port
    }

    #[test]
    fn servers_that_list_models_are_found_and_others_are_not() {
        let one = serve("200 OK", r#"{"data":[{"id":"a"},{"id":"b","max_model_len":4096}]}"#);
        let page = serve("200 OK", "<html>");
        let refusing = serve("404 Not Found", "{}");
        let known = [("One", "one", one), ("Page", "page", page), ("No", "no", refusing)];
        let found = servers(&env(), &known).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].base_url, format!("http://127.0.0.1:{one}/v1"));
        let models: Vec<_> =
            found[0].models.iter().map(|m| (m.id.as_str(), m.context_length)).collect();
        assert_eq!(models, [("a", None), ("b", Some(4096))]);
    }

    #[test]
    fn a_silent_server_costs_no_more_than_the_bound() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let begun = Instant::now();
        assert_eq!(servers(&env(), &[("Silent", "silent", port)]).unwrap(), []);
        assert!(begun.elapsed() < BOUND * 10, "{:?}", begun.elapsed());
    }
}
