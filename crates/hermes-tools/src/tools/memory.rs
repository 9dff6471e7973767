//! `memory`: lasting notes and the profile of the person.

use std::sync::Arc;

use hermes_core::ToolSink;

use super::{Running, Tool};
use crate::args::{Args, Kind, Param};
use crate::bench::{Workbench, outcome};

pub(super) const TOOL: Tool = Tool {
    name: "memory",
    json: concat!(
        r#"{"type":"function","function":{"name":"memory","description":"#,
        r#""Keep lasting notes (target memory) or facts about the person (target user). replace puts content in the place of old_text; only the text that matches changes. remove takes out the whole entry that matches.","#,
        r#""parameters":{"type":"object","properties":{"#,
        r#""action":{"type":"string","enum":["add","replace","remove"]},"#,
        r#""target":{"type":"string","enum":["memory","user"]},"#,
        r#""content":{"type":"string"},"#,
        r#""old_text":{"type":"string","description":"the entry, or a part that only it has"}},"#,
        r#""required":["action","target"]}}}"#,
    ),
    params: &[
        Param::required("action", Kind::OneOf(&["add", "replace", "remove"])),
        Param::required("target", Kind::OneOf(&["memory", "user"])),
        Param::optional("content", Kind::Text),
        Param::optional("old_text", Kind::Text),
    ],
    offered: |config| config.memory.memory_enabled || config.memory.user_profile_enabled,
    run,
};

fn run<'a>(_bench: &'a Arc<Workbench>, _args: Args, _sink: &'a dyn ToolSink) -> Running<'a> {
    Box::pin(std::future::ready(outcome(Err("memory: not there yet".to_owned()))))
}
