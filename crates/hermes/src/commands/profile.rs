//! `hermes profile`: homes beside each other.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use hermes_home::{DEFAULT_PROFILE, HomeError};
use hermes_store::{OpenMode, SessionFilter};
use serde::Serialize;

use crate::app::App;
use crate::cli::stored::Profile;
use crate::exit::{Exit, Failure};
use crate::out;

#[derive(Serialize)]
struct Line {
    name: String,
    home: String,
    active: bool,
}

/// Carries out one of the commands.
///
/// # Errors
/// If the profile is unknown, its name is taken, or a file cannot be written.
pub fn run(app: &App, command: Profile) -> anyhow::Result<Exit> {
    match command {
        Profile::List { json } => list(app, json),
        Profile::Create { name, clone } => {
            let home = app.home.create_profile(&name, clone)?;
            out::line(format!("made {}", home.root().display()))?;
            out::note(format!("hint: hermes -p {name}, or hermes profile use {name}"));
            Ok(Exit::Ok)
        }
        Profile::Use { name } => {
            app.home.use_profile(&name)?;
            out::line(format!("{name} is used from now on"))?;
            Ok(Exit::Ok)
        }
        Profile::Rename { name, to } => {
            free(app, &name)?;
            let home = app.home.rename_profile(&name, &to)?;
            out::line(format!("{name} is now {to} ({})", home.root().display()))?;
            Ok(Exit::Ok)
        }
        Profile::Delete { name, dry_run, yes } => delete(app, &name, dry_run, yes),
    }
}

fn list(app: &App, json: bool) -> anyhow::Result<Exit> {
    let active = app.home.profile();
    let lines: Vec<Line> = app
        .home
        .profiles()
        .into_iter()
        .map(|name| Line {
            home: app
                .home
                .of_profile(&name)
                .map_or_else(|_| String::new(), |home| home.root().display().to_string()),
            active: name == active,
            name,
        })
        .collect();
    if json {
        out::json(&lines)?;
        return Ok(Exit::Ok);
    }
    for line in lines {
        let star = if line.active { "*" } else { " " };
        out::line(format!("{star} {:<20} {}", line.name, line.home))?;
    }
    Ok(Exit::Ok)
}

/// Whoever runs in a profile would go on writing where nobody looks.
fn free(app: &App, name: &str) -> anyhow::Result<()> {
    let drafts = app.home.existing_profile(name)?.drafts_dir();
    match hermes_store::other_process(&drafts) {
        Some(who) => Err(Failure::new(
            Exit::Held,
            format!("profile {name} is in use by {who}; hint: end that process first"),
        )
        .into()),
        None => Ok(()),
    }
}

/// How many sessions a profile has; None where that cannot be told.
fn sessions_of(app: &App, name: &str) -> Option<usize> {
    let store = app.of_profile(name).ok()?.store(OpenMode::ReadOnly).ok()?;
    let all = SessionFilter { archived: true, delegates: true, ..SessionFilter::default() };
    store.sessions(&all).ok().map(|sessions| sessions.len())
}

fn delete(app: &App, name: &str, dry_run: bool, yes: bool) -> anyhow::Result<Exit> {
    let home = app.home.existing_profile(name)?;
    if dry_run {
        if name == DEFAULT_PROFILE {
            return Err(HomeError::RootProfile { what: "deleted" }.into());
        }
        let count = sessions_of(app, name).map_or("its".to_owned(), |count| count.to_string());
        out::line(format!(
            "would be deleted: {} with {count} sessions, settings and secrets",
            home.root().display()
        ))?;
        return Ok(Exit::Ok);
    }
    free(app, name)?;
    if !yes {
        if !io::stdin().is_terminal() {
            let text = "deleting a profile needs a yes, and there is no terminal to ask on; hint: \
                        add --yes";
            return Err(Failure::new(Exit::Usage, text).into());
        }
        let mut stderr = io::stderr();
        write!(
            stderr,
            "Delete {} with all its sessions and secrets? [y/N] ",
            home.root().display()
        )?;
        stderr.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        if !matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            out::note("nothing was deleted");
            return Ok(Exit::Ok);
        }
    }
    app.home.delete_profile(name)?;
    out::line(format!("deleted profile {name}"))?;
    Ok(Exit::Ok)
}
