//! Putting plugins in place, checking them, making new ones, taking them away.

use std::path::Path;
use std::time::Duration;

use hermes_home::Loaded;
use hermes_plugins::install::{self, InstallError, InstallSource, Installed, Language};
use hermes_plugins::{Found, Plugins};
use serde_json::json;

use super::consent::{self, Agreements};
use super::{PluginJson, find, switch_off, switch_on};
use crate::app::App;
use crate::cli::plugged::{Enable, Install, New};
use crate::commands::upkeep;
use crate::exit::{Exit, Failure};
use crate::out::{self, Paint};
use crate::plugged;

/// The longest time that fetching a repository may take, whatever the setting says.
const LONGEST_FETCH: f64 = 3600.0;

/// Puts a plugin in place; switches it on if that was asked for.
///
/// # Errors
/// If it cannot be fetched or is no plugin.
pub fn install(app: &App, loaded: &Loaded, flags: &Install) -> anyhow::Result<Exit> {
    app.home.ensure()?;
    let here = std::env::current_dir()?;
    let plugins = plugged::plugins(app, loaded);
    let installed = match InstallSource::parse(&flags.source, &here) {
        InstallSource::Path(path) => install::install_path(&app.home, &path, flags.force),
        InstallSource::Git(url) => {
            out::note(format!("fetching {url}"));
            let seconds = loaded.config.plugins.clone_timeout_seconds;
            let limit = if seconds.is_finite() && seconds > 0.0 { seconds } else { 300.0 };
            let limit = Duration::from_secs_f64(limit.min(LONGEST_FETCH));
            let reference = flags.reference.as_deref();
            install::install_git(&app.home, &url, reference, limit, flags.force)
        }
        InstallSource::Package(package) => {
            out::note(format!(
                "installing {package} into {}",
                hermes_plugins::environment(app.home.root()).display()
            ));
            install::install_package(&app.home, &plugins.interpreter()?, &package)
        }
    }
    .map_err(refused)?;
    // Other files than those that somebody agreed to are shown again.
    let mut agreements = Agreements::of(&app.home);
    for found in &installed.plugins {
        agreements.remove(&found.key);
    }
    agreements.keep()?;
    tell(&installed, flags)?;
    for found in installed.plugins.iter().filter(|found| found.package.is_none()) {
        requirements(app, &plugins, found, flags)?;
    }
    if !flags.enable {
        return Ok(Exit::Ok);
    }
    let plugins = plugged::plugins(app, loaded);
    for found in &installed.plugins {
        let found = find(&plugins, &found.key)?;
        let wish = Enable {
            plugin: found.key.clone(),
            yes: flags.yes,
            allow_tool_override: false,
            json: flags.json,
        };
        switch_on(app, &app.config()?, &plugins, &found, &wish)?;
    }
    Ok(Exit::Ok)
}

/// The packages that a plugin's folder needs: installed if that was asked for, else told.
fn requirements(
    app: &App,
    plugins: &Plugins,
    found: &Found,
    flags: &Install,
) -> anyhow::Result<()> {
    let needed = super::packages(found);
    if needed.is_empty() {
        return Ok(());
    }
    let list = needed.join(", ");
    if !flags.deps {
        out::note(format!(
            "note: it needs Python packages: {list}\nhint: --deps with --force installs them too"
        ));
        return Ok(());
    }
    out::note(format!("installing {list}"));
    install::install_requirements(&app.home, &plugins.interpreter()?, &needed).map_err(refused)
}

fn tell(installed: &Installed, flags: &Install) -> anyhow::Result<()> {
    if flags.json {
        if !flags.enable {
            out::json(&json!({
                "plugins": installed.plugins.iter().map(PluginJson::new).collect::<Vec<_>>(),
                "scan": installed.scan,
            }))?;
        }
        return Ok(());
    }
    for found in &installed.plugins {
        let place = match (&found.folder, &found.package) {
            (Some(folder), _) => folder.display().to_string(),
            (None, Some((package, version))) => format!("the package {package} {version}"),
            (None, None) => String::new(),
        };
        out::line(format!("plugin {} is in place: {place}", found.key))?;
    }
    if !flags.enable {
        for line in consent::lines(&installed.scan, Paint::stdout()) {
            out::line(line)?;
        }
        for found in &installed.plugins {
            out::note(format!("hint: `hermes plugins enable {}` switches it on", found.key));
        }
    }
    Ok(())
}

/// What went wrong, with the exit code of a name where it was the name.
fn refused(error: InstallError) -> anyhow::Error {
    let exit = match &error {
        InstallError::Unknown(_) => Exit::NotFound,
        InstallError::Name(_) => Exit::Usage,
        _ => return error.into(),
    };
    Failure::new(exit, error.to_string()).into()
}

/// Takes a plugin away and switches it off.
///
/// # Errors
/// If it is no folder of this home, or the person says no.
pub fn remove(app: &App, loaded: &Loaded, id: &str, yes: bool) -> anyhow::Result<Exit> {
    let found = find(&plugged::plugins(app, loaded), id)?;
    if let Some((package, _)) = &found.package {
        let python = hermes_plugins::environment(app.home.root()).join("bin").join("python");
        let text = format!(
            "{} comes with the Python package {package}; hint: {} -m pip uninstall {package}, and \
             `hermes plugins disable {}`",
            found.key,
            python.display(),
            found.key
        );
        return Err(Failure::new(Exit::Usage, text).into());
    }
    let folder = found.folder.as_ref().map(|it| it.display().to_string()).unwrap_or_default();
    if !yes && !upkeep::ask(&format!("Delete {folder}?"), "deleting it")? {
        out::note("nothing was deleted");
        return Ok(Exit::Ok);
    }
    let gone = install::remove(&app.home, &found.key).map_err(refused)?;
    let mut agreements = Agreements::of(&app.home);
    agreements.remove(&found.key);
    agreements.keep()?;
    switch_off(app, loaded, &found)?;
    out::line(format!("deleted {}; plugin {}: off", gone.display(), found.key))?;
    Ok(Exit::Ok)
}

/// Checks a folder.
///
/// # Errors
/// If stdout is closed.
pub fn validate(app: &App, folder: &Path, as_json: bool) -> anyhow::Result<Exit> {
    let folder = app.cwd(".", None)?.join(folder);
    if !folder.is_dir() {
        let text = format!("there is no folder {}", folder.display());
        return Err(Failure::new(Exit::NotFound, text).into());
    }
    let problems = install::validate(&folder);
    let scan = hermes_plugins::scan::scan(&folder);
    let exit = if problems.is_empty() { Exit::Ok } else { Exit::Failure };
    if as_json {
        out::json(&json!({
            "folder": folder.display().to_string(),
            "valid": problems.is_empty(),
            "problems": problems,
            "scan": scan,
        }))?;
        return Ok(exit);
    }
    let paint = Paint::stdout();
    for problem in &problems {
        out::line(format!("{}  {problem}", paint.red("fail")))?;
    }
    if problems.is_empty() {
        out::line(format!("{}  {} is a plugin", paint.green("ok"), folder.display()))?;
    }
    for line in consent::lines(&scan, paint) {
        out::line(line)?;
    }
    if problems.is_empty() {
        out::note("hint: `hermes plugins install .` puts it in place");
    }
    Ok(exit)
}

/// Makes the folder of a new plugin.
///
/// # Errors
/// If the name is no name, or the folder is there already.
pub fn new(app: &App, flags: &New) -> anyhow::Result<Exit> {
    let parent = if let Some(folder) = &flags.to {
        app.cwd(".", None)?.join(folder)
    } else {
        app.home.ensure()?;
        app.home.root().join("plugins")
    };
    let language = if flags.rust { Language::Rust } else { Language::Python };
    for file in install::new_plugin(&parent, &flags.name, language).map_err(refused)? {
        out::line(format!("wrote {}", file.display()))?;
    }
    let folder = parent.join(&flags.name);
    if flags.rust {
        out::note(format!("hint: cargo build --release in {}", folder.display()));
    }
    if flags.to.is_some() {
        out::note(format!("hint: `hermes plugins install {}` puts it in place", folder.display()));
    } else {
        out::note(format!("hint: `hermes plugins enable {}` switches it on", flags.name));
    }
    Ok(Exit::Ok)
}
