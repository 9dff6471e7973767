//! What the settings say about handing over.

use hermes_home::Config;
use hermes_home::yaml::Datum;

use crate::prepass::{NoPrepass, Prepass, Recency};

/// The plugin that takes over when it is enabled.
const PLUGIN: &str = "hermes-handoff";

/// What the settings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whether the built-in handoff is in charge of trigger, command and delivery.
    pub active: bool,
    /// Whether a session is closed once its capsule is written.
    pub close: bool,
    /// Whether capsules are given to the next session.
    pub inject: bool,
    /// Whether turns are marked first.
    pub prepass: bool,
    /// Compactions from which on a handoff is due; 0 for never.
    pub after_compactions: u32,
    /// Whether a compaction that came to nothing makes a handoff due.
    pub on_compaction_failure: bool,
    /// Whether a handoff that is due is done instead of proposed.
    pub does: bool,
}

impl Policy {
    /// From the settings.
    pub fn of(config: &Config) -> Self {
        let plugins = &config.plugins;
        let named = |list: &[String]| list.iter().any(|name| name == PLUGIN);
        let plugin = named(&plugins.enabled) && !named(&plugins.disabled);
        let settings = entry(&plugins.entries, PLUGIN).and_then(|of| entry(of, "settings"));
        let inject = settings.and_then(|of| entry(of, "inject"));
        Self {
            active: !plugin,
            close: config.handoff.close,
            inject: config.handoff.inject && !inject.is_some_and(is_off),
            prepass: config.handoff.prepass,
            after_compactions: config.handoff.after_compactions,
            on_compaction_failure: config.handoff.on_compaction_failure == "handoff",
            does: config.handoff.when_due == "do",
        }
    }

    /// Whether a first turn asks for a capsule.
    pub const fn delivers(self) -> bool {
        self.active && self.inject
    }

    /// The marking pass.
    pub fn pass(self) -> Box<dyn Prepass> {
        if self.prepass { Box::new(Recency::default()) } else { Box::new(NoPrepass) }
    }
}

/// Whether a plugin's setting switches something off, in quotation marks too.
fn is_off(datum: &Datum) -> bool {
    hermes_home::says_off(&datum.to_string())
}

fn entry<'a>(datum: &'a Datum, key: &str) -> Option<&'a Datum> {
    match datum {
        Datum::Map(pairs) => pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugins_own_setting_stops_the_injection_however_it_is_written() {
        let injects = |value: Datum| {
            let map = |key: &str, value| Datum::Map(vec![(key.to_owned(), value)]);
            let mut config = Config::default();
            config.plugins.entries = map(PLUGIN, map("settings", map("inject", value)));
            Policy::of(&config).inject
        };
        for off in [Datum::Bool(false), Datum::Text("False".into()), Datum::Number("0".into())] {
            assert!(!injects(off.clone()), "{off:?}");
        }
        for on in [Datum::Bool(true), Datum::Null, Datum::Text("true".into())] {
            assert!(injects(on.clone()), "{on:?}");
        }
        assert!(Policy::of(&Config::default()).delivers());
    }
}
