//! Which plugins there are, and which of them may run.
//!
//! Nothing is imported here: folders and entry points are read as files, so that listing plugins
//! starts no process. Plugins are opt-in: what is not in `plugins.enabled` is listed and not loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::manifest::{COMPATIBLE_VERSION, Manifest, Native, PluginKind, satisfies};

/// Where a plugin was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PluginSource {
    /// `<home>/plugins`.
    User,
    /// `./.hermes/plugins`, if that is switched on.
    Project,
    /// An installed Python package.
    EntryPoint,
}

impl PluginSource {
    /// The word in listings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::EntryPoint => "entrypoint",
        }
    }
}

/// A plugin that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What it is called in settings: its name, or `category/name`.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Its version, if it says.
    pub version: Option<String>,
    /// What it says it does.
    pub description: String,
    /// Where it was found.
    pub source: PluginSource,
    /// What it is.
    pub kind: PluginKind,
    /// Its folder.
    pub folder: Option<PathBuf>,
    /// Its entry point, `module` or `module:attribute`.
    pub entry_point: Option<String>,
    /// Its manifest.
    pub manifest: Manifest,
    /// How it is started, if it is a program of its own.
    pub native: Option<Native>,
    /// The installed package it belongs to, with the version.
    pub package: Option<(String, String)>,
    /// Whether the gates let it run.
    pub enabled: bool,
    /// Why it does not run.
    pub error: Option<String>,
}

/// What decides about plugins.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    /// `plugins.enabled`.
    pub enabled: Vec<String>,
    /// `plugins.disabled`; beats the former.
    pub disabled: Vec<String>,
}

const SKIPPED: [&str; 4] = [".claude-plugin", "__pycache__", ".venv", ".git"];
/// What a placeholder says in the original.
const EXCLUSIVE: &str = "exclusive plugin — activate via <category>.provider config";

/// Finds plugins in folders, later sources first giving way to earlier ones.
pub fn folders(roots: &[(PathBuf, PluginSource)]) -> Vec<Found> {
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for (root, source) in roots {
        for (folder, category) in plugin_folders(root) {
            if let Some(plugin) = from_folder(&folder, category.as_deref(), *source) {
                found.insert(plugin.key.clone(), plugin);
            }
        }
    }
    found.into_values().collect()
}

fn plugin_folders(root: &Path) -> Vec<(PathBuf, Option<String>)> {
    let mut out = Vec::new();
    for (name, folder) in children(root) {
        if has_manifest(&folder) {
            out.push((folder, None));
        } else {
            for (_, inner) in children(&folder) {
                if has_manifest(&inner) {
                    out.push((inner, Some(name.clone())));
                }
            }
        }
    }
    out
}

fn children(root: &Path) -> Vec<(String, PathBuf)> {
    let mut out: Vec<(String, PathBuf)> = fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .filter(|(name, path)| {
            path.is_dir() && !name.starts_with("__") && !SKIPPED.contains(&name.as_str())
        })
        .collect();
    out.sort();
    out
}

fn has_manifest(folder: &Path) -> bool {
    folder.join("plugin.yaml").is_file() || folder.join("plugin.yml").is_file()
}

/// A plugin folder as a plugin.
pub fn from_folder(folder: &Path, category: Option<&str>, source: PluginSource) -> Option<Found> {
    let base = folder.file_name()?.to_string_lossy().into_owned();
    let (manifest, error) = match Manifest::read(folder)? {
        Ok(manifest) => (manifest, None),
        Err(why) => (Manifest::default(), Some(why)),
    };
    let name = manifest.text("name").unwrap_or(&base).to_owned();
    let key = match category {
        Some(category) => format!("{category}/{base}"),
        None => name.clone(),
    };
    let code = fs::read_to_string(folder.join("__init__.py")).unwrap_or_default();
    let native = manifest.native();
    let kind = manifest.kind().unwrap_or_else(|| PluginKind::sniff(&code));
    Some(Found {
        key,
        name,
        version: manifest.fields.get("version").map(plain),
        description: manifest.text("description").unwrap_or_default().to_owned(),
        source,
        kind,
        folder: Some(folder.to_owned()),
        entry_point: None,
        native,
        package: None,
        manifest,
        enabled: false,
        error,
    })
}

/// The hook folders of a gateway: `<name>/HOOK.yaml` with `events`, and `handler.py`.
pub fn gateway_hooks(root: &Path) -> Vec<Found> {
    let mut out = Vec::new();
    for (name, folder) in children(root) {
        let Ok(text) = fs::read_to_string(folder.join("HOOK.yaml")) else { continue };
        let manifest = match Manifest::parse(&text) {
            Ok(manifest) if manifest.list("events").is_empty() => {
                tracing::warn!(folder = %folder.display(), "a hook folder names no events");
                continue;
            }
            Ok(manifest) => manifest,
            Err(why) => {
                tracing::warn!(folder = %folder.display(), why, "a hook folder is left out");
                continue;
            }
        };
        let mut found = from_entry_point(&EntryPoint::bare(&format!("gateway-hook/{name}")), &[]);
        found.entry_point = None;
        manifest.text("description").unwrap_or_default().clone_into(&mut found.description);
        found.folder = Some(folder);
        found.source = PluginSource::User;
        found.enabled = true;
        found.manifest = manifest;
        out.push(found);
    }
    out
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// An entry point of an installed package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPoint {
    /// The group, `hermes_agent.plugins` and the like.
    pub group: String,
    /// Its name.
    pub name: String,
    /// `module` or `module:attribute`.
    pub value: String,
    /// The package and its version.
    pub package: (String, String),
    /// What the package says it does.
    pub summary: String,
}

impl EntryPoint {
    /// A name without a package.
    pub(crate) fn bare(name: &str) -> Self {
        Self {
            group: String::new(),
            name: name.to_owned(),
            value: String::new(),
            package: (String::new(), String::new()),
            summary: String::new(),
        }
    }
}

/// The groups that are looked at; names near to them are not, as in the original.
pub const GROUPS: [&str; 3] =
    ["hermes_agent.plugins", "hermes_agent.memory_providers", "hermes_agent.plugin_capabilities"];

/// Reads the entry points of the packages in these folders.
pub fn entry_points(site: &[PathBuf]) -> Vec<EntryPoint> {
    let mut out = Vec::new();
    for folder in site {
        let mut packages: Vec<PathBuf> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                path.extension().is_some_and(|end| end == "dist-info" || end == "egg-info")
            })
            .collect();
        packages.sort();
        for package in packages {
            let Ok(text) = fs::read_to_string(package.join("entry_points.txt")) else { continue };
            if !text.contains("hermes_agent.") {
                continue;
            }
            let meta = fs::read_to_string(package.join("METADATA"))
                .or_else(|_| fs::read_to_string(package.join("PKG-INFO")))
                .unwrap_or_default();
            let field = |name: &str| {
                meta.lines()
                    .take_while(|line| !line.is_empty())
                    .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                    .unwrap_or_default()
                    .to_owned()
            };
            let mut group = String::new();
            for line in text.lines().map(str::trim) {
                if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                    name.trim().clone_into(&mut group);
                } else if GROUPS.contains(&group.as_str())
                    && let Some((name, value)) = line.split_once('=')
                {
                    out.push(EntryPoint {
                        group: group.clone(),
                        name: name.trim().to_owned(),
                        value: value.trim().to_owned(),
                        package: (field("Name"), field("Version")),
                        summary: field("Summary"),
                    });
                }
            }
        }
    }
    out
}

/// Where the code of a module is, looked for in folders of packages.
pub fn module_file(site: &[PathBuf], module: &str) -> Option<PathBuf> {
    let relative: PathBuf = module.split('.').collect();
    site.iter().find_map(|folder| {
        let base = folder.join(&relative);
        [base.join("__init__.py"), base.with_extension("py")]
            .into_iter()
            .find(|path| path.is_file())
    })
}

/// An entry point as a plugin.
pub fn from_entry_point(point: &EntryPoint, site: &[PathBuf]) -> Found {
    let module = point.value.split(':').next().unwrap_or_default().trim();
    let file = module_file(site, module);
    let code = file.as_deref().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let manifest = Manifest {
        fields: json!({
            "name": point.name,
            "version": point.package.1,
            "description": point.summary,
        }),
        notes: Vec::new(),
    };
    Found {
        key: point.name.clone(),
        name: point.name.clone(),
        version: Some(point.package.1.clone()),
        description: point.summary.clone(),
        source: PluginSource::EntryPoint,
        kind: PluginKind::sniff(&code),
        folder: None,
        entry_point: Some(point.value.clone()),
        native: None,
        package: Some(point.package.clone()),
        manifest,
        enabled: false,
        error: None,
    }
}

/// Passes plugins through the gates: sets `enabled` and `error`.
pub fn judge(plugins: &mut [Found], gates: &Gates) {
    for plugin in plugins {
        let named = |list: &[String]| list.iter().any(|id| *id == plugin.key || *id == plugin.name);
        if plugin.error.is_some() {
            continue;
        }
        if named(&gates.disabled) {
            plugin.error = Some("disabled in plugins.disabled".to_owned());
            continue;
        }
        if plugin.kind == PluginKind::Exclusive {
            plugin.error = Some(EXCLUSIVE.to_owned());
            continue;
        }
        if !named(&gates.enabled) {
            plugin.error = Some("not enabled (plugins.enabled)".to_owned());
            continue;
        }
        if let Some(wanted) = plugin.manifest.text("requires_hermes")
            && !satisfies(wanted, COMPATIBLE_VERSION)
        {
            plugin.error = Some(format!(
                "requires Hermes {wanted}; the plugin interface here is that of {COMPATIBLE_VERSION}"
            ));
            continue;
        }
        if plugin.native.as_ref().is_some_and(|native| native.command.is_empty()) {
            plugin.error = Some("its manifest names no command".to_owned());
            continue;
        }
        plugin.enabled = true;
    }
}

/// Sorts plugins for loading: those that others name in `requires_plugins` first, the rest by key.
/// A circle is broken where it is met.
pub fn in_load_order(mut plugins: Vec<Found>) -> Vec<Found> {
    plugins.sort_by(|a, b| a.key.cmp(&b.key));
    let mut out: Vec<Found> = Vec::with_capacity(plugins.len());
    while !plugins.is_empty() {
        let free = plugins.iter().position(|plugin| {
            plugin.manifest.list("requires_plugins").iter().all(|wanted| {
                plugins.iter().all(|other| {
                    other.key == plugin.key || (other.key != *wanted && other.name != *wanted)
                })
            })
        });
        out.push(plugins.remove(free.unwrap_or(0)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(key: &str, manifest: &str) -> Found {
        let point = EntryPoint {
            group: GROUPS[0].into(),
            name: key.into(),
            value: key.into(),
            package: ("p".into(), "1".into()),
            summary: String::new(),
        };
        let mut found = from_entry_point(&point, &[]);
        found.manifest = Manifest::parse(manifest).unwrap();
        found
    }

    #[test]
    fn what_is_disabled_is_not_loaded_even_if_it_is_enabled() {
        let mut plugins = vec![
            plugin("a", "name: a"),
            plugin("b", "name: b"),
            plugin("c", "requires_hermes: '>=9'"),
        ];
        let gates =
            Gates { enabled: vec!["a".into(), "b".into(), "c".into()], disabled: vec!["b".into()] };
        judge(&mut plugins, &gates);
        let enabled: Vec<bool> = plugins.iter().map(|plugin| plugin.enabled).collect();
        assert_eq!(enabled, [true, false, false]);
        assert!(plugins[2].error.as_deref().unwrap().contains("requires Hermes >=9"));
    }

    #[test]
    fn plugins_that_others_need_are_loaded_first_and_circles_end() {
        let plugins = vec![
            plugin("a", "requires_plugins: [c]"),
            plugin("b", "name: b"),
            plugin("c", "requires_plugins: [missing]"),
            plugin("x", "requires_plugins: [y]"),
            plugin("y", "requires_plugins: [x]"),
        ];
        let order: Vec<String> = in_load_order(plugins).into_iter().map(|p| p.key).collect();
        assert_eq!(order, ["b", "c", "a", "x", "y"]);
    }

    #[test]
    fn entry_points_of_other_groups_are_left_alone() {
        let site = tempfile::tempdir().unwrap();
        let package = site.path().join("x-1.0.dist-info");
        fs::create_dir(&package).unwrap();
        fs::write(package.join("METADATA"), "Name: x\nVersion: 1.0\nSummary: does x\n\nbody\n")
            .unwrap();
        fs::write(
            package.join("entry_points.txt"),
            "[hermes.plugins]\nno = x\n[hermes_agent.plugins]\nx = x_plugin:register\n",
        )
        .unwrap();
        let points = entry_points(&[site.path().to_owned()]);
        assert_eq!(points.len(), 1);
        assert_eq!((points[0].name.as_str(), points[0].value.as_str()), ("x", "x_plugin:register"));
        assert_eq!(points[0].package, ("x".to_owned(), "1.0".to_owned()));
    }
}
