//! Where a job beside the conversation may be sent by its own settings: what the caller names,
//! what `auxiliary.<task>` names, the task's own chain. The conversation's endpoints come after
//! them and are resolved already.
//!
//! Invariants: the order is fixed; a candidate that cannot be resolved is a problem in words, not
//! the end of the list; no address stands in it twice for the same model.

use super::{Route, route_for};
use crate::config::{AuxiliaryTask, Config, FallbackConfig};
use crate::vars::Vars;
use crate::yaml::Datum;

/// One place where a job may be sent.
#[derive(Clone, Debug)]
pub struct AuxiliaryCandidate {
    /// The setting that names it, such as `auxiliary.compression`.
    pub key: String,
    /// Where it is.
    pub route: Route,
}

/// The places for one job, in the order in which they are asked.
#[derive(Clone, Debug, Default)]
pub struct AuxiliaryRoutes {
    /// The places.
    pub candidates: Vec<AuxiliaryCandidate>,
    /// What could not be resolved, in words.
    pub problems: Vec<String>,
    /// Whether the task is switched off.
    pub disabled: bool,
}

/// Resolves the places for `task`. `wanted` is what the caller asks for by name, before the
/// settings. Key commands are run.
pub fn auxiliary_routes(
    config: &Config,
    vars: &Vars,
    task: &str,
    wanted: Option<&FallbackConfig>,
) -> AuxiliaryRoutes {
    let settings = config.auxiliary.task(task);
    let mut out = AuxiliaryRoutes { disabled: !settings.enabled, ..AuxiliaryRoutes::default() };
    if out.disabled {
        return out;
    }
    let base = format!("auxiliary.{task}");
    if let Some(wanted) = wanted {
        out.resolve(config, vars, "the caller", wanted, None);
    }
    if let Some(own) = own(&settings) {
        out.resolve(config, vars, &base, &own, Some(&settings));
    }
    for (index, fallback) in settings.fallback_chain.iter().enumerate() {
        let key = format!("{base}.fallback_chain.{index}");
        out.resolve(config, vars, &key, fallback, Some(&settings));
    }
    out
}

/// What the task's settings name, if they name anything.
fn own(settings: &AuxiliaryTask) -> Option<FallbackConfig> {
    let provider = settings.provider.trim();
    let provider = if provider.eq_ignore_ascii_case("auto") { "" } else { provider };
    let named = [provider, settings.model.trim(), settings.base_url.trim()];
    named.iter().any(|text| !text.is_empty()).then(|| FallbackConfig {
        provider: provider.to_owned(),
        model: settings.model.trim().to_owned(),
        base_url: settings.base_url.trim().to_owned(),
        api_key: settings.api_key.clone(),
        key_env: settings.key_env.clone(),
        api_mode: settings.api_mode.clone(),
        ..FallbackConfig::default()
    })
}

impl AuxiliaryRoutes {
    fn resolve(
        &mut self,
        config: &Config,
        vars: &Vars,
        key: &str,
        wanted: &FallbackConfig,
        settings: Option<&AuxiliaryTask>,
    ) {
        match route_for(config, vars, key, wanted) {
            Ok(mut route) => {
                if let (Route::Endpoint(endpoint), Some(settings)) = (&mut route, settings) {
                    with_body(&mut endpoint.extra_body, settings);
                }
                self.add(AuxiliaryCandidate { key: key.to_owned(), route });
            }
            Err(error) => self.problems.push(error.to_string()),
        }
    }

    fn add(&mut self, candidate: AuxiliaryCandidate) {
        let known = self.candidates.iter().any(|known| match (&known.route, &candidate.route) {
            (Route::Rehearsal, Route::Rehearsal) => true,
            (Route::Endpoint(a), Route::Endpoint(b)) => {
                a.base_url == b.base_url && a.model == b.model
            }
            _ => false,
        });
        if !known {
            self.candidates.push(candidate);
        }
    }
}

fn with_body(body: &mut Vec<(String, String)>, settings: &AuxiliaryTask) {
    let mut set = |name: &str, json: String| {
        body.retain(|(known, _)| known != name);
        body.push((name.to_owned(), json));
    };
    if let Datum::Map(entries) = &settings.extra_body {
        for (name, value) in entries {
            set(name, value.to_json());
        }
    }
    if !settings.reasoning_effort.trim().is_empty() {
        let effort = Datum::Text(settings.reasoning_effort.trim().to_owned());
        set("reasoning_effort", effort.to_json());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Home, Overrides, load};

    fn check(yaml: &str, task: &str, expected: &[&str]) -> AuxiliaryRoutes {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.yaml"), yaml).unwrap();
        let vars = BTreeMap::new();
        let loaded = load(&Home::at(folder.path()), &vars, &Overrides::default()).unwrap();
        let found = auxiliary_routes(&loaded.config, &loaded.vars, task, None);
        let shown: Vec<String> = found
            .candidates
            .iter()
            .map(|candidate| match &candidate.route {
                Route::Rehearsal => format!("{} rehearsal", candidate.key),
                Route::Endpoint(it) => format!("{} {} {}", candidate.key, it.model, it.base_url),
            })
            .collect();
        assert_eq!(shown, expected);
        found
    }

    const MAIN: &str =
        "model: {default: big, provider: custom, base_url: 'http://127.0.0.1:1/v1'}\n";

    #[test]
    fn a_task_without_settings_has_no_places_of_its_own() {
        check(MAIN, "compression", &[]);
        let auto = format!("{MAIN}auxiliary: {{compression: {{provider: auto, timeout: 9}}}}");
        check(&auto, "compression", &[]);
    }

    #[test]
    fn the_tasks_own_place_comes_first_then_its_chain_and_nothing_stands_twice() {
        let yaml = format!(
            "{MAIN}auxiliary:\n  compression:\n    model: small\n    reasoning_effort: low\n    \
             fallback_chain:\n      - {{provider: custom, model: other, base_url: \
             'http://127.0.0.1:2/v1'}}\n      - {{provider: custom, model: small, base_url: \
             'http://127.0.0.1:1/v1'}}\n"
        );
        let found = check(
            &yaml,
            "compression",
            &[
                "auxiliary.compression small http://127.0.0.1:1/v1",
                "auxiliary.compression.fallback_chain.0 other http://127.0.0.1:2/v1",
            ],
        );
        let Route::Endpoint(first) = &found.candidates[0].route else { panic!("an endpoint") };
        assert_eq!(first.extra_body, [("reasoning_effort".to_owned(), "\"low\"".to_owned())]);
    }

    #[test]
    fn a_place_that_cannot_be_resolved_is_told_and_a_task_can_be_switched_off() {
        let yaml = format!("{MAIN}auxiliary: {{compression: {{provider: nosuch, model: m}}}}");
        let found = check(&yaml, "compression", &[]);
        assert_eq!(found.problems.len(), 1, "{:?}", found.problems);
        let yaml = format!("{MAIN}auxiliary: {{compression: {{enabled: false, model: m}}}}");
        assert!(check(&yaml, "compression", &[]).disabled);
    }
}
