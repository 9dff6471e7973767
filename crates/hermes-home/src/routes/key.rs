//! The key of an endpoint: from a variable, the settings or a command.

use std::fmt;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use secrecy::{ExposeSecret as _, SecretString};

use super::{Known, OPENAI_API_KEY, OPENAI_BASE_URL, Wish};
use crate::ConfigError;
use crate::config::ProviderConfig;
use crate::vars::{VarSource, Vars};

/// Where a key came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// There is none, and none is needed.
    None,
    /// The setting of this name.
    Config(String),
    /// A variable.
    Variable {
        /// Its name.
        name: String,
        /// Where it was set.
        source: VarSource,
    },
    /// A command, named by this setting.
    Command(String),
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Config(key) => f.write_str(key),
            Self::Variable { name, source } => write!(f, "{name} ({source})"),
            Self::Command(key) => write!(f, "the command in {key}"),
        }
    }
}

/// A key, or the command that will print it.
pub(super) struct Found {
    pub value: Option<SecretString>,
    pub source: KeySource,
    pub command: Option<String>,
}

/// Looks for the key of an endpoint.
pub(super) fn find(
    wish: &Wish,
    known: &Known<'_>,
    own: &ProviderConfig,
    base_url: &str,
    local: bool,
    vars: &Vars,
) -> Result<Found, ConfigError> {
    let written = |value: &SecretString, key: String| -> Result<Found, ConfigError> {
        if value.expose_secret().contains("${") {
            return Err(ConfigError::Route {
                what: format!("{key} refers to a variable that is not set"),
                hint: "set the variable in .env or in the environment".to_owned(),
            });
        }
        Ok(Found { value: Some(value.clone()), source: KeySource::Config(key), command: None })
    };
    let variable = |name: &str| {
        vars.lookup(name).map(|(value, source)| Found {
            value: Some(SecretString::from(value.trim().to_owned())),
            source: KeySource::Variable { name: name.to_owned(), source },
            command: None,
        })
    };
    let wish_key = format!("{}.api_key", wish.key);
    // A key written for this very entry of the chain is meant for it and nothing else.
    if let Some(value) = wish.api_key.as_ref().filter(|_| wish.own_key) {
        return written(value, wish_key);
    }
    let named = [&wish.key_env, &own.key_env].into_iter().find(|name| !name.is_empty());
    if let Some(found) = named.and_then(|name| variable(name)) {
        return Ok(found);
    }
    if let Some(found) = variables_of(known).iter().find_map(|name| variable(name)) {
        return Ok(found);
    }
    if let Some(value) = &wish.api_key {
        return written(value, wish_key);
    }
    if let Some(value) = &own.api_key {
        return written(value, format!("{}.api_key", known.own_key));
    }
    let commands = [
        (&wish.api_key_command, wish.key.as_str()),
        (&own.api_key_command, known.own_key.as_str()),
    ];
    if let Some((command, owner)) = commands.into_iter().find(|(text, _)| !text.trim().is_empty()) {
        let source = KeySource::Command(format!("{owner}.api_key_command"));
        return Ok(Found { value: None, source, command: Some(command.clone()) });
    }
    if let Some(name) = named {
        return Err(ConfigError::Route {
            what: format!("the variable {name}, which holds the key of {}, is not set", known.name),
            hint: format!("add {name}=... to .env in the home folder"),
        });
    }
    if known.builtin.is_none()
        && may_use_openai_key(base_url, vars)
        && let Some(found) = variable(OPENAI_API_KEY)
    {
        return Ok(found);
    }
    if let Some(builtin) = known.builtin.filter(|builtin| !builtin.keyless && !local) {
        let name = builtin.key_names.first().copied().unwrap_or(OPENAI_API_KEY);
        return Err(ConfigError::Route {
            what: format!("no key for provider {} ({})", known.name, wish.key),
            hint: format!("add {name}=... to .env in the home folder; `hermes setup` asks for it"),
        });
    }
    Ok(Found { value: None, source: KeySource::None, command: None })
}

/// The variables that hold a provider's key by its name.
fn variables_of(known: &Known<'_>) -> Vec<String> {
    let mut names: Vec<String> = known
        .builtin
        .map(|builtin| builtin.key_names.iter().map(|name| (*name).to_owned()).collect())
        .unwrap_or_default();
    if known.own.is_some() {
        let stem: String = known
            .name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .collect();
        let name = format!("{stem}_API_KEY");
        if crate::vars::is_name(&name) && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Whether `OPENAI_API_KEY` may go to an address that is not OpenAI's: if the person put it into
/// this home's `.env`, or set the address beside it in the environment. A key that is in the
/// environment for other programs must not reach a stranger.
fn may_use_openai_key(base_url: &str, vars: &Vars) -> bool {
    let address_beside =
        vars.get(OPENAI_BASE_URL).is_some_and(|url| url.trim().trim_end_matches('/') == base_url);
    match vars.lookup(OPENAI_API_KEY) {
        Some((_, VarSource::HomeEnv { .. })) => true,
        Some((_, VarSource::Process)) => address_beside,
        None => false,
    }
}

/// Longest time a key command may take.
const COMMAND_BOUND: Duration = Duration::from_secs(15);
/// Most bytes a key command may print.
const COMMAND_OUTPUT: u64 = 16 * 1024;

/// Runs a key command and returns the key that it printed.
pub(super) fn run_command(
    command: &str,
    owner: &str,
    vars: &Vars,
) -> Result<SecretString, ConfigError> {
    run_bounded(command, owner, vars, COMMAND_BOUND)
}

fn run_bounded(
    command: &str,
    owner: &str,
    vars: &Vars,
    bound: Duration,
) -> Result<SecretString, ConfigError> {
    let fail = |what: String| ConfigError::KeyCommand { owner: owner.to_owned(), what };
    let mut child = shell(command)
        .envs(vars.iter())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| fail(format!("it did not start: {error}")))?;
    let output = child.stdout.take().ok_or_else(|| fail("its output is lost".to_owned()))?;
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.take(COMMAND_OUTPUT).read_to_end(&mut bytes);
        // The receiver is gone if the command took too long.
        drop(send.send(read.map(|_| bytes)));
    });
    let deadline = Instant::now() + bound;
    let bytes = match receive.recv_timeout(bound) {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return Err(stop(&mut child, fail(format!("its output: {error}")))),
        Err(_) => {
            let what = format!("it was not done after {} seconds", bound.as_secs());
            return Err(stop(&mut child, fail(what)));
        }
    };
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
            Ok(None) => return Err(stop(&mut child, fail("it does not end".to_owned()))),
            Err(error) => return Err(fail(error.to_string())),
        }
    };
    if !status.success() {
        return Err(fail(format!("it ended with {status}")));
    }
    let text = String::from_utf8(bytes).map_err(|_| fail("its output is not text".to_owned()))?;
    let key = text.trim();
    if key.is_empty() {
        return Err(fail("it printed nothing".to_owned()));
    }
    if key.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(fail("it printed more than one word".to_owned()));
    }
    Ok(SecretString::from(key.to_owned()))
}

fn stop(child: &mut Child, error: ConfigError) -> ConfigError {
    // It may have ended by itself; what matters is the error.
    drop(child.kill());
    drop(child.wait());
    error
}

fn shell(command: &str) -> Command {
    if cfg!(windows) {
        let mut shell = Command::new("cmd");
        shell.args(["/C", command]);
        shell
    } else {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]);
        shell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str) -> Result<String, String> {
        run_bounded(command, "model", &Vars::default(), Duration::from_millis(500))
            .map(|key| key.expose_secret().to_owned())
            .map_err(|error| error.to_string())
    }

    #[cfg(unix)]
    #[test]
    fn a_key_command_gives_one_trimmed_word_or_a_clear_error() {
        assert_eq!(run("echo '  not-a-key '").unwrap(), "not-a-key");
        assert!(run("true").unwrap_err().contains("printed nothing"));
        assert!(run("echo a b").unwrap_err().contains("more than one word"));
        let failed = run("echo leaked-value; exit 3").unwrap_err();
        assert!(failed.contains("exit status: 3") && !failed.contains("leaked-value"), "{failed}");
        assert!(run("exec sleep 30").unwrap_err().contains("not done"));
    }
}
