//! Words of reports.

use hermes_core::{Origin, Part};

/// The word for an origin.
pub(super) const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::User => "user",
        Origin::Model => "model",
        Origin::Tool => "tool",
        Origin::Hint => "hint",
        Origin::Skill => "skill",
        Origin::Hook => "hook",
        Origin::Memory => "memory",
        Origin::Capsule => "capsule",
        Origin::Summary => "summary",
        Origin::Notice => "notice",
        Origin::Steer => "steer",
        Origin::Reference => "reference",
    }
}

/// The skill that a part of origin `skill` holds: its label is `NAME[/FILE]@DIGEST`.
pub(crate) fn skill_name(part: &Part) -> Option<&str> {
    (part.origin == Origin::Skill).then_some(())?;
    let label = part.label.as_deref()?;
    let name = label.rsplit_once('@').map_or(label, |(name, _)| name);
    Some(name.split('/').next().unwrap_or(name))
}
