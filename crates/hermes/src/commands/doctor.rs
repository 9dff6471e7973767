//! `hermes doctor`: what is wrong or surprising with this home, each with what to do.
//!
//! Invariants: it changes nothing, and sends no key unless it is asked to try the writer; no secret's
//! value is printed; every look outwards has a bound; one failed check does not keep the others from
//! being made.

use std::fs;
use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use hermes_context::{SnapshotInput, Workspace, build_snapshot};
use hermes_core::{SessionId, Source, ToolRegistry as _, ToolSet, Verdict};
use hermes_home::{Home, HomeReason, Loaded, Overrides, RouteLine, SettingSource, check};
use hermes_store::{OpenMode, SessionFilter, Store, StoreError};
use hermes_tools::{BuiltinTools, DenyAll, ToolContext};
use serde::Serialize;

use crate::app::App;
use crate::commands::{chat, compactions, handoff, plugins};
use crate::exit::Exit;
use crate::hint;
use crate::out::{self, Paint};

/// How long all endpoints together may take to take a connection.
const REACH_BOUND: Duration = Duration::from_secs(1);

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// One check.
#[derive(Debug, Serialize)]
struct Finding {
    id: &'static str,
    status: Status,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// What was found so far.
#[derive(Debug, Default, Serialize)]
struct Report {
    checks: Vec<Finding>,
}

impl Report {
    /// Adds a check; a hint at the end of the text becomes the check's own.
    fn add(&mut self, id: &'static str, status: Status, text: impl Into<String>) {
        let text = text.into();
        let (text, hint) = hint::split(&text);
        let (text, hint) = (text.to_owned(), hint.map(str::to_owned));
        self.checks.push(Finding { id, status, text, hint });
    }
}

/// Carries out the command.
///
/// # Errors
/// If stdout is closed.
pub fn run(app: &App, try_writer: bool, json: bool) -> anyhow::Result<Exit> {
    let mut report = Report::default();
    home(app, &mut report);
    let loaded = app.config_with(&Overrides {
        model: app.talk.model.clone(),
        provider: app.talk.provider.clone(),
        cwd: app.talk.cwd.clone(),
        ..Overrides::default()
    });
    match &loaded {
        Ok(loaded) => {
            config(loaded, &mut report);
            reach(&check(loaded).chain, &mut report);
        }
        Err(error) => report.add("config", Status::Fail, format!("{error:#}")),
    }
    store(app, &mut report);
    space(app.home.root(), &mut report);
    if let Ok(loaded) = &loaded {
        sources(app, loaded, &mut report);
        plugged(app, loaded, &mut report);
    }
    if try_writer {
        writer(app, &mut report);
    }
    let failed = report.checks.iter().any(|check| check.status == Status::Fail);
    if json {
        out::json(&report)?;
    } else {
        print(&report)?;
    }
    Ok(if failed { Exit::Failure } else { Exit::Ok })
}

fn print(report: &Report) -> anyhow::Result<()> {
    let paint = Paint::stdout();
    for Finding { id, status, text, hint } in &report.checks {
        let mark = match status {
            Status::Ok => paint.green("ok  "),
            Status::Warn => paint.yellow("warn"),
            Status::Fail => paint.red("fail"),
        };
        let text = text.replace('\n', "\n                ");
        out::line(format!("{mark}  {id:<9} {text}"))?;
        if let Some(hint) = hint {
            out::line(format!("                {}", paint.dim(&format!("hint: {hint}"))))?;
        }
    }
    let count = |wanted| report.checks.iter().filter(|check| check.status == wanted).count();
    out::line(format!(
        "{} ok, {} to look at, {} failed",
        count(Status::Ok),
        count(Status::Warn),
        count(Status::Fail)
    ))
}

fn home(app: &App, report: &mut Report) {
    let root = app.home.root();
    let reason = Home::resolve(&app.vars).map(|choice| choice.reason);
    let why = match &reason {
        Ok(HomeReason::Variable) => "HERMES_HOME names it".to_owned(),
        Ok(HomeReason::Default) => "the default".to_owned(),
        Ok(HomeReason::BesidePython { python_home }) => {
            format!("{} belongs to the Python Hermes Agent", python_home.display())
        }
        Err(error) => error.to_string(),
    };
    let place = format!("{} ({why})", root.display());
    match fs::metadata(root) {
        Ok(meta) if meta.is_dir() => match open_to_others(&meta) {
            Some(mode) => report.add(
                "home",
                Status::Warn,
                format!("{place}: others may look into it (mode {mode:03o}); hint: chmod 700 it"),
            ),
            None => report.add("home", Status::Ok, place),
        },
        Ok(_) => report.add("home", Status::Fail, format!("{place} is not a folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            report.add("home", Status::Ok, format!("{place}: made with the first message"));
        }
        Err(error) => report.add("home", Status::Fail, format!("{place}: {error}")),
    }
    if matches!(reason, Ok(HomeReason::BesidePython { .. })) {
        report.add(
            "python",
            Status::Ok,
            "the home of the Python program is left alone; hint: `hermes import`, which comes \
             with a later version, will bring its sessions across",
        );
    }
}

#[cfg(unix)]
fn open_to_others(meta: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = meta.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
const fn open_to_others(_: &fs::Metadata) -> Option<u32> {
    None
}

fn config(loaded: &Loaded, report: &mut Report) {
    let found = check(loaded);
    let file = &loaded.report.config_path;
    let state = if loaded.report.config_exists { "understood" } else { "not there, defaults" };
    report.add("config", Status::Ok, format!("{}: {state}", file.display()));
    let env = &loaded.report.env_path;
    if env.exists() && loaded.report.env_problems.is_empty() {
        report.add("env", Status::Ok, format!("{}: understood", env.display()));
    }
    for unknown in &found.unknown {
        let key = &unknown.key;
        let place = format!("{}:{}: {key}", file.display(), unknown.at);
        let text = match (&unknown.nearest, unknown.foreign) {
            (_, true) => format!(
                "{place} is a setting of Hermes Agent that this version does not use; it is kept"
            ),
            (Some(nearest), false) => {
                format!("{place} is no setting; it is kept; hint: did you mean {nearest}?")
            }
            (None, false) => format!(
                "{place} is no setting; it is kept; hint: `hermes config show --json` lists all"
            ),
        };
        report.add("config", if unknown.foreign { Status::Ok } else { Status::Warn }, text);
    }
    for (key, source) in &found.unused {
        let text = format!("{key} ({source}) is kept; this version does not use it");
        report.add("config", Status::Ok, text);
    }
    for warning in &found.warnings {
        report.add("config", Status::Warn, warning.to_string());
    }
    for shadowed in &found.shadowed {
        report.add("shadowed", Status::Warn, shadowed.to_string());
    }
    for (index, line) in found.chain.iter().enumerate() {
        let place = match loaded.report.source(&line.key) {
            SettingSource::File { line } => format!("{}:{line}: ", file.display()),
            _ => String::new(),
        };
        match (&line.problem, index) {
            (None, _) => report.add("provider", Status::Ok, line.to_string()),
            (Some(_), 0) => report.add("provider", Status::Fail, line.to_string()),
            // The conversation goes on without it.
            (Some(_), _) => report.add("provider", Status::Warn, format!("{place}{line}")),
        }
    }
}

/// Whether something listens at each endpoint. Nothing is said to it.
fn reach(chain: &[RouteLine], report: &mut Report) {
    let mut places: Vec<(String, u16)> =
        chain.iter().filter_map(|line| host_and_port(&line.base_url)).collect();
    places.dedup();
    let (send, receive) = mpsc::channel();
    for place in places.clone() {
        let send = send.clone();
        // Name resolution has no bound of its own, so the thread is left behind if need be.
        std::thread::spawn(move || {
            let result = connect(&place);
            drop(send.send((place, result)));
        });
    }
    drop(send);
    let until = Instant::now() + REACH_BOUND + Duration::from_millis(100);
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let Ok((place, result)) = receive.recv_timeout(left) else { break };
        places.retain(|other| *other != place);
        let (host, port) = &place;
        match result {
            Ok(()) => report.add("reach", Status::Ok, format!("{host}:{port} takes connections")),
            Err(error) => report.add(
                "reach",
                Status::Warn,
                format!("{host}:{port}: {error}; hint: start the server, or check model.base_url"),
            ),
        }
    }
    for (host, port) in places {
        report.add(
            "reach",
            Status::Warn,
            format!("{host}:{port} did not answer within a second; hint: check the network"),
        );
    }
}

fn connect((host, port): &(String, u16)) -> io::Result<()> {
    let mut last = io::Error::other("the name has no address");
    for address in (host.as_str(), *port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, REACH_BOUND) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Host and port of an address.
fn host_and_port(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let usual = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
    // An IPv6 address has colons of its own, inside brackets.
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, usual),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// Sessions whose newest compaction came to nothing.
fn failing_compactions(app: &App, store: &Store, report: &mut Report) {
    for (session, what) in compactions::failing(app, store).unwrap_or_default() {
        let hint = "/compress in that session tries again; `hermes sessions compactions` lists all";
        report.add("compact", Status::Warn, format!("session {session}: {what}; hint: {hint}"));
    }
}

fn store(app: &App, report: &mut Report) {
    let path = app.home.store_path();
    if !path.exists() {
        report.add("store", Status::Ok, format!("{}: nothing stored yet", path.display()));
        left_over(app, report);
        return;
    }
    let store = match app.store(OpenMode::ReadOnly) {
        Ok(store) => store,
        Err(error) => {
            // An older schema is brought up to date by the next command that writes.
            let old = matches!(error.downcast_ref(), Some(StoreError::NeedsMigration { .. }));
            let status = if old { Status::Warn } else { Status::Fail };
            report.add("store", status, format!("{error:#}"));
            left_over(app, report);
            return;
        }
    };
    failing_compactions(app, &store, report);
    match store.check() {
        Ok(findings) if findings.is_empty() => {
            let sessions = store.sessions(&SessionFilter {
                archived: true,
                delegates: true,
                ..SessionFilter::default()
            });
            let text = match sessions {
                Ok(sessions) => {
                    let spooled = sessions.iter().filter(|info| info.spooled).count();
                    let wait = match spooled {
                        0 => String::new(),
                        count => format!(", {count} of them partly in the side file"),
                    };
                    format!("{}: sound, {} sessions{wait}", path.display(), sessions.len())
                }
                Err(error) => format!("{}: sound; {error}", path.display()),
            };
            report.add("store", Status::Ok, text);
        }
        Ok(findings) => {
            for finding in findings {
                let session =
                    finding.session.map(|id| format!("session {id}: ")).unwrap_or_default();
                report.add("store", Status::Fail, format!("{session}{}", finding.what));
            }
        }
        Err(error) => report.add("store", Status::Fail, error.to_string()),
    }
    left_over(app, report);
    handoffs(app, &store, report);
    store.close();
}

/// Capsules that wait, that nobody fetched, that no model wrote.
fn handoffs(app: &App, store: &Store, report: &mut Report) {
    let health = match handoff::handoffs(app, store).health() {
        Ok(health) => health,
        Err(error) => {
            report.add("handoff", Status::Warn, error.to_string());
            return;
        }
    };
    for record in &health.waiting {
        let lane = record.lane.as_ref().map_or("its id alone", |lane| lane.key());
        let text = format!(
            "capsule {} of session {} waits for {lane} until {}",
            record.id, record.session, record.expires_at
        );
        report.add("handoff", Status::Ok, text);
    }
    for record in &health.unfetched {
        let text = format!(
            "capsule {} of session {} was fetched by nobody in time and is deleted; hint: `hermes \
             handoff build --session-id {}` builds a new one",
            record.id, record.session, record.session
        );
        report.add("handoff", Status::Warn, text);
    }
    for record in &health.fallbacks {
        let text = format!(
            "capsule {} (status fallback) was made without a model: {}; hint: `hermes handoff \
             check` tries the writer",
            record.id,
            record.reason.as_deref().unwrap_or("the cause is not known")
        );
        report.add("handoff", Status::Warn, text);
    }
    for miss in &health.near_misses {
        let text = format!(
            "session {} has the lane {}, and capsule {} waits for {}; hint: `hermes handoff \
             deliver {} --say TEXT` hands it on by its id",
            miss.session,
            miss.other.key(),
            miss.capsule,
            miss.lane.key(),
            miss.capsule
        );
        report.add("handoff", Status::Warn, text);
    }
}

/// Whoever writes capsules, asked for a tiny one.
fn writer(app: &App, report: &mut Report) {
    let tried = handoff::services(app, None).and_then(|services| {
        let tried = chat::runtime()?.block_on(services.try_capsule_writer());
        services.store.close();
        Ok(tried.map_err(|error| {
            let why = services.redactor.redact(&error.to_string()).into_owned();
            format!("no capsule could be written now: {why}; hint: {}", error.fault.hint())
        }))
    });
    match tried {
        Ok(Ok(model)) => {
            report.add("writer", Status::Ok, format!("{model} wrote a capsule of the right shape"));
        }
        Ok(Err(why)) => report.add("writer", Status::Fail, why),
        Err(error) => report.add("writer", Status::Fail, format!("{error:#}")),
    }
}

/// Files beside the store that wait to be taken in.
fn left_over(app: &App, report: &mut Report) {
    for (id, folder, what) in [
        ("spool", app.home.spool_dir(), "batches that the store could not take yet"),
        (
            "drafts",
            app.home.drafts_dir(),
            "drafts and marks of sessions that are open or broke off",
        ),
    ] {
        match files_in(&folder) {
            0 => {}
            count => report.add(
                id,
                if id == "spool" { Status::Warn } else { Status::Ok },
                format!(
                    "{}: {count} {what}; hint: resuming the session takes them in",
                    folder.display()
                ),
            ),
        }
    }
}

fn files_in(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, |entries| {
        entries.filter(|entry| entry.as_ref().is_ok_and(|it| it.path().is_file())).count()
    })
}

/// Below this much free space the store may soon be unable to write.
#[cfg(unix)]
const LITTLE_SPACE: u64 = 200 << 20;

#[cfg(unix)]
fn space(root: &Path, report: &mut Report) {
    let Ok(disk) = rustix::fs::statvfs(root) else { return };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < LITTLE_SPACE {
        report.add(
            "space",
            Status::Warn,
            format!("{} MB are free at {}; hint: make room", free >> 20, root.display()),
        );
    }
}

#[cfg(not(unix))]
const fn space(_: &Path, _: &mut Report) {}

/// The plugins that are switched on, each loaded once, and shell hooks that nobody agreed to.
/// Without any nothing is started and nothing is said.
fn plugged(app: &App, loaded: &Loaded, report: &mut Report) {
    let Some(enabled) = crate::plugged::enabled(app, loaded) else { return };
    let (reports, problems) = match plugins::doctor::examine(&enabled) {
        Ok(found) => found,
        Err(error) => {
            report.add("plugins", Status::Warn, format!("{error:#}"));
            return;
        }
    };
    for (key, why) in enabled.not_loaded() {
        let hint = format!("hint: `hermes plugins doctor {key}` says more");
        report.add("plugins", Status::Fail, format!("{key}: not loaded: {why}; {hint}"));
    }
    for it in reports.iter().filter(|it| it.loaded) {
        let (status, text) = if it.degraded {
            let missing: Vec<&str> = it.import_failures.keys().map(String::as_str).collect();
            let hint = format!("hint: `hermes plugins doctor {}` says what", it.key);
            (Status::Warn, format!("loaded, and missed {}; {hint}", missing.join(", ")))
        } else if it.cost.errors > 0 {
            (Status::Warn, format!("loaded; {} of its calls failed", it.cost.errors))
        } else {
            (Status::Ok, "loaded".to_owned())
        };
        report.add("plugins", status, format!("{}: {text}", it.key));
    }
    for problem in problems {
        report.add("plugins", Status::Warn, problem);
    }
}

/// What a new session started here would load, and what not.
fn sources(app: &App, loaded: &Loaded, report: &mut Report) {
    let cwd = match app.cwd(&loaded.config.terminal.cwd, None) {
        Ok(cwd) => cwd,
        Err(error) => {
            report.add("sources", Status::Fail, format!("{error:#}"));
            return;
        }
    };
    let workspace = Workspace::discover(&cwd);
    let tools = BuiltinTools::new(ToolContext {
        home: app.home.clone(),
        config: Arc::new(loaded.config.clone()),
        cwd,
        approver: Arc::new(DenyAll),
        env: app.env.clone(),
        vars: Arc::new(app.vars.clone()),
        session: None,
        platform: "cli".to_owned(),
        sources: hermes_tools::TurnSources::default(),
    });
    let now = app.env.now();
    let built = build_snapshot(&SnapshotInput {
        home: &app.home,
        config: &loaded.config,
        workspace: &workspace,
        platform: "cli",
        provider: &loaded.config.model.provider,
        model: &loaded.config.model.default,
        tools: &ToolSet::new(tools.definitions()),
        session: &SessionId::new("doctor"),
        caller: None,
        now,
        utc_offset_seconds: app.env.utc_offset_seconds(now),
        context_window: loaded.config.model.context_length,
        sections: &[],
    });
    for block in &built.snapshot.blocks {
        let Source::File { path } = &block.source else { continue };
        let (status, text) = match &block.verdict {
            Verdict::Loaded => (Status::Ok, format!("{path}: loaded, {} tokens", block.tokens)),
            Verdict::Truncated { kept, total } => (
                Status::Warn,
                format!("{path}: cut, {kept} of {total} characters; hint: shorten it"),
            ),
            Verdict::Flagged { spans } => (
                Status::Warn,
                format!(
                    "{path}: {} suspicious passages are taken out: {}; hint: look at the file",
                    spans.len(),
                    spans.iter().map(|(_, _, why)| why.as_str()).collect::<Vec<_>>().join(", ")
                ),
            ),
            Verdict::Shadowed { by } => {
                (Status::Ok, format!("{path}: not loaded, {by} comes first"))
            }
            Verdict::Blocked { why } => (Status::Warn, format!("{path}: not loaded, {why}")),
            Verdict::Empty => (Status::Ok, format!("{path}: empty")),
        };
        report.add("sources", status, text);
    }
    for warning in built.warnings {
        report.add("sources", Status::Warn, warning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_of_an_address() {
        for (url, expected) in [
            ("http://127.0.0.1:8080/v1", Some(("127.0.0.1", 8080))),
            ("https://api.example.com/v1", Some(("api.example.com", 443))),
            ("http://[::1]:9/v1", Some(("::1", 9))),
            ("http://[::1]/v1", Some(("::1", 80))),
            ("http://user:pw@host/x", Some(("host", 80))),
            ("", None),
            ("http:///v1", None),
        ] {
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(host_and_port(url), expected, "{url}");
        }
    }

    #[test]
    fn a_hint_in_a_message_becomes_the_hint_of_its_check() {
        let mut report = Report::default();
        report.add("a", Status::Ok, "one; hint: do this");
        report.add("b", Status::Ok, "two\nhint: do that");
        report.add("c", Status::Ok, "three");
        let told: Vec<_> =
            report.checks.iter().map(|it| (it.text.as_str(), it.hint.as_deref())).collect();
        assert_eq!(told, [("one", Some("do this")), ("two", Some("do that")), ("three", None)]);
    }
}
