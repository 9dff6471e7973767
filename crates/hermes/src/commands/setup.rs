//! `hermes setup`: finds a model, tries it, writes the configuration.
//!
//! Invariants: a configuration that cannot be understood is never written to; a key is never
//! shown, never a flag, and stands in the home's private `.env` alone; nothing is written before
//! the person has seen whether the model answers.

mod ask;
mod probe;
mod trial;

use std::io::{self, IsTerminal as _};

use hermes_home::{
    BUILTIN_PROVIDERS, BuiltinProvider, Config, ExposeSecret as _, Loaded, Overrides, Route,
    SecretString, SettingSource, chain, routes, set, set_env,
};
use hermes_provider::ModelInfo;

use self::probe::Server;
use crate::app::App;
use crate::cli::Setup;
use crate::exit::{Exit, Failure};
use crate::out::{self, Paint};

/// The variable for the key of an endpoint that has no usual one.
const KEY_NAME: &str = "HERMES_API_KEY";

/// What setup has found out.
#[derive(Debug, Default)]
struct Choice {
    /// Provider name in the configuration.
    provider: String,
    /// Where it is.
    base_url: String,
    /// The model.
    model: String,
    /// The model's window, where the server told it.
    window: Option<u64>,
    /// The variable that holds the key, where the configuration has to name it.
    key_env: String,
    /// A key that was typed, and the variable it goes to.
    typed_key: Option<(String, SecretString)>,
}

/// Carries out the command.
///
/// # Errors
/// If an answer is missing, the model does not answer, or the configuration cannot be written.
pub fn run(app: &App, flags: &Setup) -> anyhow::Result<Exit> {
    // A broken file stops here, before any question.
    let loaded = app.config_with(&Overrides::default())?;
    let asking = !flags.non_interactive;
    if asking && !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::new(
            Exit::Usage,
            "setup asks questions, and there is no terminal to ask on; hint: hermes setup \
             --non-interactive --base-url URL --model NAME [--key-env VARIABLE]",
        )
        .into());
    }
    if asking {
        introduce(&loaded);
    }
    let choice = match &flags.base_url {
        Some(base_url) => at_address(app, flags, &loaded, base_url)?,
        None => find(app, flags, &loaded)?,
    };
    if !try_it(app, &loaded, &choice, asking)? {
        out::note("nothing was written");
        return Ok(Exit::Provider);
    }
    write(app, &loaded, &choice)?;
    Ok(Exit::Ok)
}

fn introduce(loaded: &Loaded) {
    for line in chain(&loaded.config, &loaded.vars) {
        if line.provider != "rehearsal" || line.problem.is_some() {
            out::note(format!("configured now: {line}"));
        }
    }
}

/// Looks for servers on this machine and lets the person choose one, or something else.
fn find(app: &App, flags: &Setup, loaded: &Loaded) -> anyhow::Result<Choice> {
    let servers = probe::servers(&app.env, probe::KNOWN)?;
    if flags.non_interactive {
        return match &servers[..] {
            [server] => at_server(app, flags, loaded, server),
            [] => {
                Err(missing("no model server answers on this machine; hint: give --base-url URL"))
            }
            several => Err(missing(&format!(
                "{} model servers answer on this machine; hint: give one of --base-url {}",
                several.len(),
                several.iter().map(|it| it.base_url.as_str()).collect::<Vec<_>>().join(", ")
            ))),
        };
    }
    if servers.is_empty() {
        let names: Vec<_> = probe::KNOWN.iter().map(|(name, _, _)| *name).collect();
        out::note(format!("no model server on this machine ({} looked for)", names.join(", ")));
        return elsewhere(app, flags, loaded);
    }
    out::note("model servers on this machine:");
    for (index, server) in servers.iter().enumerate() {
        out::note(format!(
            "  {}  {} at {}, {} models",
            index + 1,
            server.name,
            server.base_url,
            server.models.len()
        ));
    }
    out::note(format!("  {}  another server or service", servers.len() + 1));
    match servers.get(ask::number("Which one?", servers.len() + 1)?) {
        Some(server) => at_server(app, flags, loaded, server),
        None => elsewhere(app, flags, loaded),
    }
}

fn missing(message: &str) -> anyhow::Error {
    Failure::new(Exit::Usage, message).into()
}

/// A server that was found, and one of its models.
fn at_server(app: &App, flags: &Setup, loaded: &Loaded, server: &Server) -> anyhow::Result<Choice> {
    // A name that the configuration does not know needs the address alone.
    let provider = builtin(server.provider).map_or("custom", |known| known.name);
    let mut choice = Choice {
        provider: provider.to_owned(),
        base_url: server.base_url.clone(),
        ..Choice::default()
    };
    take_key_variable(flags, loaded, &mut choice)?;
    choose_model(app, flags, loaded, &mut choice, &server.models)?;
    Ok(choice)
}

/// Asks for a service by name or address.
fn elsewhere(app: &App, flags: &Setup, loaded: &Loaded) -> anyhow::Result<Choice> {
    let names: Vec<_> =
        BUILTIN_PROVIDERS.iter().filter(|it| !it.keyless).map(|it| it.name).collect();
    out::note(Paint::stderr().dim(&format!("services known by name: {}", names.join(", "))));
    let model = &loaded.config.model;
    let now = if model.base_url.is_empty() { &model.provider } else { &model.base_url };
    let now = if now == "rehearsal" { "" } else { now.as_str() };
    loop {
        let answer = ask::line("Base URL (such as http://127.0.0.1:8080/v1) or name", now)?;
        if in_full(&answer).is_some() {
            return at_address(app, flags, loaded, &answer);
        }
        if !answer.is_empty() {
            out::note(format!("\"{answer}\" {NO_ADDRESS}"));
        }
    }
}

const NO_ADDRESS: &str = "is neither an address nor the name of a known service; hint: write the \
                          address in full, such as https://api.example.com/v1";

/// The address, or the name of a known service, that an answer means: `host:port` is taken for a
/// server with the usual path.
fn in_full(answer: &str) -> Option<String> {
    if builtin(answer).is_some() {
        return Some(answer.to_owned());
    }
    let rest = answer.split_once("://").map_or(answer, |(_, rest)| rest);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let host_is_one = !host.is_empty() && !authority.contains(char::is_whitespace);
    if answer.contains("://") {
        return host_is_one.then(|| answer.to_owned());
    }
    let path = if path.is_empty() { "v1" } else { path };
    (host_is_one && port.parse::<u16>().is_ok()).then(|| format!("http://{authority}/{path}"))
}

/// A service at an address, or one that is known by name.
fn at_address(app: &App, flags: &Setup, loaded: &Loaded, address: &str) -> anyhow::Result<Choice> {
    let Some(address) = in_full(address) else {
        return Err(missing(&format!("\"{address}\" {NO_ADDRESS}")));
    };
    let address = address.as_str();
    let known = builtin(address).or_else(|| {
        let plain = address.trim_end_matches('/');
        BUILTIN_PROVIDERS.iter().find(|known| known.base_url == plain)
    });
    let mut choice = match known {
        Some(known) => Choice {
            provider: known.name.to_owned(),
            base_url: known.base_url.to_owned(),
            ..Choice::default()
        },
        None => Choice {
            provider: "custom".to_owned(),
            base_url: address.trim_end_matches('/').to_owned(),
            ..Choice::default()
        },
    };
    take_key_variable(flags, loaded, &mut choice)?;
    if !flags.non_interactive && choice.key_env.is_empty() {
        ask_key(known, loaded, &mut choice)?;
    }
    let key = key_of(&choice, loaded);
    let models = match probe::models(&app.env, &choice.base_url, key.as_ref())? {
        Ok(models) => models,
        Err(failure) => {
            out::note(format!("{} lists no models: {}", choice.base_url, failure.message));
            Vec::new()
        }
    };
    choose_model(app, flags, loaded, &mut choice, &models)?;
    Ok(choice)
}

fn builtin(name: &str) -> Option<&'static BuiltinProvider> {
    let name = name.to_ascii_lowercase();
    BUILTIN_PROVIDERS
        .iter()
        .find(|known| known.name == name || known.aliases.contains(&name.as_str()))
}

/// The variable that `--key-env` names; it must be set already.
fn take_key_variable(flags: &Setup, loaded: &Loaded, choice: &mut Choice) -> anyhow::Result<()> {
    let Some(name) = &flags.key_env else { return Ok(()) };
    if loaded.vars.get(name).is_none_or(|value| value.trim().is_empty()) {
        return Err(missing(&format!(
            "the variable {name} is not set; hint: set it in the shell, or write {name}=... into \
             the home's .env"
        )));
    }
    choice.key_env.clone_from(name);
    Ok(())
}

/// Asks for the key, unless a variable holds one already.
fn ask_key(
    known: Option<&BuiltinProvider>,
    loaded: &Loaded,
    choice: &mut Choice,
) -> anyhow::Result<()> {
    if known.is_some_and(|known| known.keyless) {
        return Ok(());
    }
    let usual = known.and_then(|known| known.key_names.first()).copied();
    let names = known.map_or(&[KEY_NAME][..], |known| known.key_names);
    if let Some(name) = names.iter().find(|name| loaded.vars.get(name).is_some())
        && usual.is_some()
    {
        out::note(format!("the key in {name} is used"));
        return Ok(());
    }
    let name = usual.unwrap_or(KEY_NAME);
    let key = ask::secret("API key (not shown; empty for none)")?;
    if key.expose_secret().is_empty() {
        return Ok(());
    }
    if usual.is_none() {
        name.clone_into(&mut choice.key_env);
    }
    choice.typed_key = Some((name.to_owned(), key));
    Ok(())
}

/// The key as far as setup knows it.
fn key_of(choice: &Choice, loaded: &Loaded) -> Option<SecretString> {
    if let Some((_, key)) = &choice.typed_key {
        return Some(key.clone());
    }
    let names: Vec<&str> = if choice.key_env.is_empty() {
        builtin(&choice.provider).map_or_else(Vec::new, |known| known.key_names.to_vec())
    } else {
        vec![choice.key_env.as_str()]
    };
    let value = names.into_iter().find_map(|name| loaded.vars.get(name))?;
    Some(SecretString::from(value.to_owned()))
}

/// Models shown before the person is asked to type a name.
const SHOWN_MODELS: usize = 30;

fn choose_model(
    app: &App,
    flags: &Setup,
    loaded: &Loaded,
    choice: &mut Choice,
    models: &[ModelInfo],
) -> anyhow::Result<()> {
    let wanted = app.talk.model.clone();
    choice.model = match (wanted, models) {
        (Some(wanted), _) => wanted,
        (None, [only]) => {
            out::note(format!("model: {} (the only one there)", only.id));
            only.id.clone()
        }
        (None, []) if flags.non_interactive => {
            return Err(missing("the server lists no model; hint: give --model NAME"));
        }
        (None, several) if flags.non_interactive => {
            let names: Vec<_> = several.iter().map(|model| model.id.as_str()).collect();
            return Err(missing(&format!(
                "the server has {} models; hint: give --model with one of {}",
                several.len(),
                names.join(", ")
            )));
        }
        (None, []) => name_of_model(&loaded.config.model.default)?,
        (None, several) => {
            out::note("models:");
            for (index, model) in several.iter().take(SHOWN_MODELS).enumerate() {
                out::note(format!("  {:>2}  {}", index + 1, model.id));
            }
            if several.len() > SHOWN_MODELS {
                out::note(format!("      and {} more", several.len() - SHOWN_MODELS));
            }
            // An empty answer keeps what is configured.
            let now = several.iter().position(|model| model.id == loaded.config.model.default);
            let default = (now.unwrap_or(0) + 1).to_string();
            let answer = ask::line("Which one? (number or name)", &default)?;
            let listed = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            match listed.and_then(|index| several.get(index)) {
                Some(model) => model.id.clone(),
                None => answer,
            }
        }
    };
    choice.window =
        models.iter().find(|model| model.id == choice.model).and_then(|model| model.context_length);
    Ok(())
}

fn name_of_model(now: &str) -> anyhow::Result<String> {
    loop {
        let name = ask::line("Model", now)?;
        if !name.is_empty() {
            return Ok(name);
        }
    }
}

/// Sends one tiny request. True if the configuration is to be written.
fn try_it(app: &App, loaded: &Loaded, choice: &Choice, asking: bool) -> anyhow::Result<bool> {
    let mut config = Config::default();
    config.model.provider.clone_from(&choice.provider);
    config.model.base_url.clone_from(&choice.base_url);
    config.model.default.clone_from(&choice.model);
    config.model.key_env.clone_from(&choice.key_env);
    let typed = choice.typed_key.as_ref().map(|(_, key)| key.clone());
    if typed.is_some() {
        // The variable that will hold it is not set yet.
        config.model.key_env.clear();
        config.model.api_key = typed;
    }
    let endpoint = match routes(&config, &loaded.vars)?.into_iter().next() {
        Some(Route::Endpoint(endpoint)) => endpoint,
        Some(Route::Rehearsal) | None => {
            return Err(missing("the rehearsal provider needs no setup; hint: just run hermes"));
        }
    };
    let paint = Paint::stderr();
    out::note(format!("asking {} at {} ...", choice.model, choice.base_url));
    match trial::answers(&app.env, &endpoint)? {
        Ok(()) => {
            out::note(paint.green("it answers"));
            Ok(true)
        }
        Err(why) => {
            out::note(paint.red(&format!("error: {}", why.replace("; hint: ", "\nhint: "))));
            Ok(asking && ask::yes("Write the configuration anyway?")?)
        }
    }
}

/// Writes key and settings; settings of the endpoint before are taken out.
fn write(app: &App, loaded: &Loaded, choice: &Choice) -> anyhow::Result<()> {
    if let Some((name, key)) = &choice.typed_key {
        let receipt = set_env(&app.home, name, key.expose_secret())?;
        out::note(format!("{name} is in {} (readable by you only)", receipt.path.display()));
    }
    let window = choice.window.map(|window| window.to_string());
    let mut settings = vec![
        ("model.base_url", Some(choice.base_url.clone())),
        ("model.provider", Some(choice.provider.clone())),
        ("model.key_env", Some(choice.key_env.clone()).filter(|name| !name.is_empty())),
        ("model.context_length", window),
        ("model.default", Some(choice.model.clone())),
    ];
    let before = &loaded.config.model;
    if before.base_url != choice.base_url || before.provider != choice.provider {
        for stale in
            ["model.api_key", "model.api_key_command", "model.api_mode", "model.max_tokens"]
        {
            settings.push((stale, None));
        }
    }
    for (key, value) in settings {
        let in_file = matches!(loaded.report.source(key), SettingSource::File { .. });
        match value {
            Some(value) => {
                set(&app.home, &loaded.vars, key, &quoted(&value))?;
            }
            None if in_file => {
                set(&app.home, &loaded.vars, key, "null")?;
                out::note(format!("{key} belonged to the endpoint before and was emptied"));
            }
            None => {}
        }
    }
    out::note(format!("wrote {}", app.home.config_path().display()));
    let now = app.config_with(&Overrides::default())?;
    for line in chain(&now.config, &now.vars) {
        out::note(format!("  {line}"));
    }
    for hidden in now.report.shadowed.iter().filter(|hidden| hidden.key.starts_with("model.")) {
        out::note(format!("warning: {hidden}"));
    }
    out::note("next: hermes");
    Ok(())
}

/// The value as text, whatever it looks like; figures stay figures.
fn quoted(value: &str) -> String {
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        return value.to_owned();
    }
    serde_json::Value::from(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_an_address_a_known_name_or_a_host_with_its_port() {
        for (answer, meant) in [
            ("https://api.example.com/v1", Some("https://api.example.com/v1")),
            ("ollama", Some("ollama")),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080/v1")),
            ("box:8080/api", Some("http://box:8080/api")),
            ("[::1]:80", Some("http://[::1]:80/v1")),
            ("http://", None),
            ("my server:80", None),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(in_full(answer).as_deref(), meant, "{answer}");
        }
    }
}
