//! Which processes there are, what runs in each, and how each is started.

use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};

use crate::discover::{self, Found, PluginSource};
use crate::environ::For;
use crate::host::{Framing, Host, HostSpec, Launch, Runs, native_command, native_params, unpack};
use crate::manifest::PluginKind;
use crate::plugins::{Inner, callback_timeout, locked};

impl Inner {
    pub(crate) fn make_hosts(self: &Arc<Self>) {
        let enabled: Vec<&Found> = self.found().iter().filter(|plugin| plugin.enabled).collect();
        let mut specs: Vec<(Runs, Vec<(Found, Value)>)> = Vec::new();
        let apart = self.options.config.isolation == "per_plugin";
        let mut shared = None;
        let mut python: Vec<(Found, Value)> = Vec::new();
        for plugin in enabled {
            if plugin.native.is_some() {
                specs.push((Runs::Native, vec![(plugin.clone(), native_params(plugin))]));
            } else {
                python.push((plugin.clone(), python_params(plugin)));
            }
        }
        python.extend(self.single_places());
        python.extend(self.gateway_folders().into_iter().map(|found| {
            let mut params = python_params(&found);
            params["lane"] = "gateway-hook".into();
            params["events"] = found.manifest.list("events").into();
            (found, params)
        }));
        for plugin in python {
            match shared {
                Some(at) if !apart => {
                    let (_, plugins): &mut (Runs, Vec<(Found, Value)>) = &mut specs[at];
                    plugins.push(plugin);
                }
                _ => {
                    shared = Some(specs.len());
                    specs.push((Runs::Python, vec![plugin]));
                }
            }
        }
        let hosts = specs
            .into_iter()
            .enumerate()
            .map(|(number, (runs, plugins))| {
                let weak = Arc::downgrade(self);
                let native = plugins.first().map(|(found, _)| found.clone());
                Arc::new(Host::new(HostSpec {
                    number,
                    runs,
                    launch: Box::new(move || {
                        let inner = weak.upgrade().ok_or("the program is ending")?;
                        match (runs, &native) {
                            (Runs::Native, Some(found)) => inner.launch_native(found),
                            _ => inner.launch_python(),
                        }
                    }),
                    settings: self.settings(),
                    load_limit: callback_timeout(self.options.config.load_timeout_seconds),
                    plugins,
                }))
            })
            .collect();
        *self.hosts.write().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    fn gateway_folders(&self) -> Vec<Found> {
        if self.options.gateway && !self.safe_mode() {
            discover::gateway_hooks(&self.options.home.root().join("hooks"))
        } else {
            Vec::new()
        }
    }

    /// Plugins that hold a single place and are chosen by a setting.
    fn single_places(&self) -> Vec<(Found, Value)> {
        let mut out = Vec::new();
        for (lane, name) in [
            ("memory", &self.options.memory_provider),
            ("context-engine", &self.options.context_engine),
        ] {
            if name.is_empty() || self.found().iter().any(|p| p.enabled && p.key == *name) {
                continue;
            }
            match self.single_place(lane, name) {
                Some(found) => {
                    let mut params = python_params(&found);
                    params["lane"] = lane.into();
                    params["provider"] = name.as_str().into();
                    params["key"] = format!("{lane}/{name}").into();
                    let found = Found { key: format!("{lane}/{name}"), ..found };
                    out.push((found, params));
                }
                None if lane == "memory" => locked(&self.problems).push(format!(
                    "memory.provider is {name:?}, and no plugin of that name is installed\nhint: install it with `hermes plugins install`"
                )),
                None => {}
            }
        }
        out
    }

    fn single_place(&self, lane: &str, name: &str) -> Option<Found> {
        let home = self.options.home.root().join("plugins");
        let own = home.join(lane.replace('-', "_")).join(name);
        let folders = if lane == "memory" { vec![home.join(name), own] } else { vec![own] };
        for folder in folders {
            if folder.join("__init__.py").is_file() {
                return discover::from_folder(&folder, None, PluginSource::User).or_else(|| {
                    let point = discover::EntryPoint::bare(name);
                    let mut found = discover::from_entry_point(&point, &[]);
                    found.entry_point = None;
                    found.folder = Some(folder.clone());
                    found.source = PluginSource::User;
                    Some(found)
                });
            }
        }
        let interpreter = self.interpreter().ok()?;
        let site = self.site(&interpreter);
        // A package may bring its provider as a module of the original's own package.
        let module = format!("plugins.{}.{name}", lane.replace('-', "_"));
        if discover::module_file(&site, &module).is_some() {
            let mut found = discover::from_entry_point(&discover::EntryPoint::bare(name), &site);
            found.entry_point = Some(module);
            return Some(found);
        }
        if lane != "memory" {
            return None;
        }
        discover::entry_points(&site)
            .iter()
            .find(|point| point.group == discover::GROUPS[1] && point.name == name)
            .map(|point| discover::from_entry_point(point, &site))
    }

    fn settings(&self) -> Value {
        json!({
            "home": self.options.home.root().display().to_string(),
            "profile": self.options.home.profile(),
            "platform": self.options.platform,
            "cwd": self.options.cwd.display().to_string(),
            "gateway": self.options.gateway,
            "cli_folder": self.cli_folder().map(|folder| folder.display().to_string()),
            "commands": self.options.commands.keys().collect::<Vec<_>>(),
            "store": self.options.home.store_path().display().to_string(),
        })
    }

    fn launch_python(&self) -> Result<Launch, String> {
        let interpreter = self.interpreter().map_err(|error| error.to_string())?;
        let folder = unpack(self.options.home.root())
            .map_err(|error| format!("the host's files cannot be unpacked: {error}"))?;
        let mut args: Vec<String> =
            self.options.config.host.launcher.iter().skip(1).cloned().collect();
        args.extend(["-X".to_owned(), "utf8".to_owned()]);
        args.push(folder.join("start.py").display().to_string());
        let mut env = self.environment(For::Plugin);
        env.push(("PYTHONUNBUFFERED".to_owned(), "1".to_owned()));
        Ok(Launch {
            program: interpreter.path,
            args,
            env,
            cwd: self.options.cwd.clone(),
            framing: Framing::Headers,
        })
    }

    fn launch_native(&self, found: &Found) -> Result<Launch, String> {
        let (program, args, framing) =
            native_command(found).ok_or("its manifest names no command")?;
        let cwd = found.folder.clone().unwrap_or_else(|| self.options.cwd.clone());
        Ok(Launch { program, args, env: self.environment(For::Plugin), cwd, framing })
    }
}

fn python_params(found: &Found) -> Value {
    let lane = match found.kind {
        PluginKind::ModelProvider => "model-provider",
        _ => "plugin",
    };
    json!({
        "key": found.key,
        "name": found.name,
        "lane": lane,
        "folder": found.folder.as_ref().map(|folder| folder.display().to_string()),
        "entry_point": found.entry_point,
        "manifest": found.manifest.fields,
    })
}
