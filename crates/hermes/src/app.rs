//! What commands share: home, configuration and store, opened when they are first needed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use hermes_agent::Services;
use hermes_context::Workspace;
use hermes_core::{Env, SessionId};
use hermes_home::{
    Home, Loaded, Overrides, ProcessVars, Routes, SettingSource, SystemEnv, load, routes,
    routes_told,
};
use hermes_store::{
    OpenMode, RecoveredOutcome, SessionFilter, SessionInfo, Store, StoreError, StorePaths,
};

use crate::cli::Talk;
use crate::exit::{Exit, Failure};
use crate::{log, out, plugged};

/// The latest session of this workspace.
pub const LATEST: &str = "latest";

/// The place in a list that a text means: one to three digits.
pub fn list_number(text: &str) -> Option<usize> {
    let is_number = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// What commands share.
pub struct App {
    /// The home.
    pub home: Home,
    /// The process's environment, read once.
    pub vars: ProcessVars,
    /// Time and chance.
    pub env: Arc<dyn Env>,
    /// Flags of the conversation.
    pub talk: Talk,
    /// Secrets that the log must not show.
    secrets: log::Secrets,
}

impl App {
    /// Finds the home; says once if it is not where the person may expect it.
    ///
    /// # Errors
    /// If no home can be found.
    pub fn new(talk: Talk) -> anyhow::Result<Self> {
        let vars = hermes_home::process_vars();
        let choice = Home::resolve(&vars)?;
        if let Some(notice) = choice.reason.notice(&choice.home) {
            out::note(format!("note: {notice}"));
        }
        let home = Self::in_profile(choice.home, talk.profile.as_deref())?;
        let secrets = log::install(&home);
        let env = Arc::new(SystemEnv::new(""));
        Ok(Self { home, vars, env, talk, secrets })
    }

    /// The home of the profile that a flag names, else of the one in use.
    fn in_profile(home: Home, named: Option<&str>) -> anyhow::Result<Home> {
        if let Some(name) = named {
            return Ok(home.existing_profile(name)?);
        }
        match home.active_profile() {
            Some(name) if home.profile() == hermes_home::DEFAULT_PROFILE => {
                Ok(home.existing_profile(&name).unwrap_or_else(|error| {
                    out::note(format!("warning: {error}; the default profile is used"));
                    home
                }))
            }
            _ => Ok(home),
        }
    }

    /// The same in the home of another profile.
    ///
    /// # Errors
    /// If there is no such profile.
    pub fn of_profile(&self, name: &str) -> anyhow::Result<Self> {
        Ok(Self {
            home: self.home.existing_profile(name)?,
            vars: self.vars.clone(),
            env: self.env.clone(),
            talk: self.talk.clone(),
            secrets: self.secrets.clone(),
        })
    }

    /// Loads the configuration; a broken file is an error with its place.
    ///
    /// # Errors
    /// If the configuration cannot be understood.
    pub fn config(&self) -> anyhow::Result<Loaded> {
        self.config_with(&Overrides {
            model: self.talk.model.clone(),
            provider: self.talk.provider.clone(),
            cwd: self.talk.cwd.clone(),
            ..Overrides::default()
        })
    }

    /// Loads the configuration with these flags.
    ///
    /// # Errors
    /// If the configuration cannot be understood.
    pub fn config_with(&self, overrides: &Overrides) -> anyhow::Result<Loaded> {
        let loaded = load(&self.home, &self.vars, overrides)?;
        self.secrets.learn(loaded.redactor());
        Ok(loaded)
    }

    /// Opens the store.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn store(&self, mode: OpenMode) -> anyhow::Result<Store> {
        self.home.ensure()?;
        Ok(Store::open(self.store_paths(), self.env.clone(), mode)?)
    }

    /// Where the store is.
    pub fn store_paths(&self) -> StorePaths {
        StorePaths {
            db: self.home.store_path(),
            spool_dir: self.home.spool_dir(),
            drafts_dir: self.home.drafts_dir(),
        }
    }

    /// Opens the store to hold a conversation. A new one is held beside a store that cannot be opened
    /// because it is damaged or locked: what is said is kept in a side file, which is told, and taken
    /// in later.
    ///
    /// # Errors
    /// If it cannot be opened, and the conversation is an older one or the reason another.
    pub fn store_for_turns(&self) -> anyhow::Result<Store> {
        self.home.ensure()?;
        let (paths, env) = (self.store_paths(), self.env.clone());
        match Store::open(paths.clone(), env.clone(), OpenMode::ReadWrite) {
            Err(StoreError::Unavailable { why, .. })
                if why.can_be_waited_for()
                    && self.talk.resume.is_none()
                    && !self.talk.continue_latest =>
            {
                Ok(Store::open_beside(paths, env, why)?)
            }
            opened => Ok(opened?),
        }
    }

    /// Opens the store to look into it. What killed processes left beside it (the draft of an
    /// answer, records that the database could not take) is taken in first, so that what was shown
    /// is there; a home that cannot be written is read as it is.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn reader(&self) -> anyhow::Result<Store> {
        let Ok(store) = self.store(OpenMode::ReadWrite) else {
            return self.store(OpenMode::ReadOnly);
        };
        for recovered in store.recover_all().unwrap_or_default() {
            if let RecoveredOutcome::Failed(why) = recovered.outcome {
                out::note(format!(
                    "warning: what a killed process left of session {} cannot be taken in: {why}",
                    recovered.session
                ));
            }
        }
        Ok(store)
    }

    /// The folder that the conversation works in: the flag, else `stored`, else the configured
    /// one, else the current folder.
    ///
    /// # Errors
    /// If the folder does not exist.
    pub fn cwd(&self, configured: &str, stored: Option<&str>) -> anyhow::Result<PathBuf> {
        let current = std::env::current_dir().context("the current folder cannot be read")?;
        let chosen = match (&self.talk.cwd, stored) {
            (Some(flag), _) => current.join(flag),
            (None, Some(stored)) if Path::new(stored).is_dir() => PathBuf::from(stored),
            (None, Some(stored)) => {
                out::note(format!(
                    "warning: the session's folder {stored} is gone; working in {}",
                    current.display()
                ));
                current
            }
            (None, None) => current.join(self.expanded(configured)),
        };
        std::fs::canonicalize(&chosen).map_err(|error| {
            let text = format!(
                "the folder {} cannot be used: {error}; hint: give an existing folder with --cwd, \
                 or set terminal.cwd",
                chosen.display()
            );
            Failure::new(Exit::Failure, text).into()
        })
    }

    /// `~` at the start of a configured folder is the person's home folder.
    fn expanded(&self, folder: &str) -> PathBuf {
        match (folder.strip_prefix('~'), self.vars.get("HOME")) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                Path::new(home).join(rest.trim_start_matches('/'))
            }
            _ => PathBuf::from(folder),
        }
    }

    /// The workspace of a new session.
    ///
    /// # Errors
    /// If its folder does not exist.
    pub fn workspace(&self, configured: &str, stored: Option<&str>) -> anyhow::Result<Workspace> {
        Ok(Workspace::discover(&self.cwd(configured, stored)?))
    }

    /// The session that the flags ask to take up, if they do.
    ///
    /// # Errors
    /// If there is no such session.
    pub fn wanted_session(&self, store: &Store) -> anyhow::Result<Option<SessionInfo>> {
        let reference = match (&self.talk.resume, self.talk.continue_latest) {
            (Some(reference), _) => reference.as_str(),
            (None, true) => LATEST,
            (None, false) => return Ok(None),
        };
        self.session_to_go_on(store, reference).map(Some)
    }

    /// A session to go on with. One that was compacted into another is an old part of it: the other
    /// one is taken, and it is said.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn session_to_go_on(&self, store: &Store, reference: &str) -> anyhow::Result<SessionInfo> {
        let info = self.own_session(store, reference)?;
        let tip = store.tip(&info.id)?;
        if tip == info.id {
            return Ok(info);
        }
        out::note(format!("note: session {} was compacted into {tip}, which is taken up", info.id));
        store.session(&tip)?.with_context(|| format!("session {tip} is gone"))
    }

    /// A session to look at: by id, unique prefix, title, number in the list, or "latest". Where this
    /// workspace has none, the latest of all is shown, and it is said.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn session(&self, store: &Store, reference: &str) -> anyhow::Result<SessionInfo> {
        match self.own_session(store, reference) {
            Err(error) if reference == LATEST && Exit::of(&error) == Exit::NotFound => {
                let id = store.resolve(LATEST, None)?;
                let info = store.session(&id)?.with_context(|| format!("session {id} is gone"))?;
                let folder = info.cwd.as_deref().unwrap_or("no folder");
                out::note(format!(
                    "note: this workspace has no session yet; the latest of all is {id} of {folder}"
                ));
                Ok(info)
            }
            found => found,
        }
    }

    /// A session to go on with or to change: as [`Self::session`], but "latest" is of this workspace
    /// alone.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn own_session(&self, store: &Store, reference: &str) -> anyhow::Result<SessionInfo> {
        // The same folder that a conversation would work in; a broken configuration does not stop
        // people from looking at what is stored.
        let configured = self.config().map_or_else(|_| ".".to_owned(), |it| it.config.terminal.cwd);
        let here = self.cwd(&configured, None).or_else(|_| self.cwd(".", None))?;
        let here = Workspace::discover(&here);
        let root = here.git_root.unwrap_or(here.cwd).display().to_string();
        let id = match Self::numbered(store, reference)? {
            Some(id) => id,
            None => store.resolve(reference, Some(&root))?,
        };
        store.session(&id)?.with_context(|| format!("session {id} is gone"))
    }

    /// The session with this number in `sessions list`, 1 for the newest. An id or title that is
    /// itself such a number comes first; the beginning of an id never stands for a number that is not
    /// in the list.
    fn numbered(store: &Store, reference: &str) -> anyhow::Result<Option<SessionId>> {
        let Some(number) = list_number(reference) else { return Ok(None) };
        match store.resolve(reference, None) {
            Ok(id) if id.as_str() == reference => return Ok(Some(id)),
            Ok(id) => {
                let info = store.session(&id)?;
                if info.and_then(|info| info.title).as_deref() == Some(reference) {
                    return Ok(Some(id));
                }
            }
            Err(StoreError::NotFound { .. } | StoreError::Ambiguous { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let filter = SessionFilter { limit: Some(number.max(1)), ..SessionFilter::default() };
        let found = store.sessions(&filter)?;
        match number.checked_sub(1).and_then(|at| found.get(at)) {
            Some(info) => Ok(Some(info.id.clone())),
            None => Err(StoreError::NotFound {
                what: "session number",
                reference: reference.to_owned(),
                hint: "`hermes sessions list` shows the numbers, 1 the newest".to_owned(),
            }
            .into()),
        }
    }

    /// The shared parts of conversations, for a new session or for `stored`, whose model and
    /// provider are used again unless the flags say otherwise.
    ///
    /// # Errors
    /// If the configuration or the rehearsal provider cannot be used.
    pub fn services(
        &self,
        loaded: Loaded,
        store: Store,
        stored: Option<&SessionInfo>,
    ) -> anyhow::Result<Services> {
        let config = match stored {
            Some(info) => self.config_for(loaded, info)?,
            None => loaded,
        };
        let Routes { chain, left_out } = routes_told(&config.config, &config.vars)?;
        for (key, why) in left_out {
            let file = config.report.config_path.display();
            let place = match config.report.source(&key) {
                SettingSource::File { line } => format!("{file}:{line}"),
                _ => file.to_string(),
            };
            out::note(format!("warning: {place}: this fallback is left out: {why}"));
        }
        let env = Arc::new(SystemEnv::new(&config.config.timezone));
        let (home, vars) = (self.home.clone(), Arc::new(self.vars.clone()));
        let redactor = config.redactor();
        let mut services = Services::new(home, Arc::new(config.config), store, env, vars, &chain)?;
        services.variables = config.vars;
        services.redactor = redactor;
        Ok(services)
    }

    /// The same with the plugins that are enabled, for whatever runs turns or ends sessions.
    ///
    /// # Errors
    /// As [`Self::services`].
    pub fn plugged_services(
        &self,
        loaded: Loaded,
        store: Store,
        stored: Option<&SessionInfo>,
    ) -> anyhow::Result<Services> {
        let mut services = self.services(loaded, store, stored)?;
        plugged::plug_in(self, &mut services, stored.and_then(|info| info.cwd.as_deref()), false);
        Ok(services)
    }

    /// The configuration with the session's own model and provider, where they can still be
    /// reached.
    fn config_for(&self, loaded: Loaded, info: &SessionInfo) -> anyhow::Result<Loaded> {
        if self.talk.model.is_some() || self.talk.provider.is_some() {
            return Ok(loaded);
        }
        // A session that began on the rehearsal provider goes on with a real one once there is one.
        if info.provider == "rehearsal" {
            return Ok(loaded);
        }
        let own = self.config_with(&Overrides {
            model: Some(info.model.clone()),
            provider: Some(info.provider.clone()),
            cwd: self.talk.cwd.clone(),
            ..Overrides::default()
        })?;
        match routes(&own.config, &own.vars) {
            Ok(_) => Ok(own),
            Err(error) => {
                out::note(format!(
                    "warning: the session's provider {} cannot be used any more ({error}); the \
                     configured one takes its place",
                    info.provider
                ));
                Ok(loaded)
            }
        }
    }
}
