//! What the callbacks of one event said, and the rules by which a consumer picks: all run, block
//! beats approve, the first text wins.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::host::Fault;
use crate::table::{Fails, HookSpec};

/// How one callback ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// It returned a value that is not nothing.
    Value(Value),
    /// It returned nothing.
    Nothing,
    /// It raised.
    Raised(Fault),
    /// It did not return in time.
    TimedOut,
    /// It was not asked: an earlier call of it hangs, or it hung lately.
    Skipped(String),
    /// Its process is gone.
    Gone(String),
}

/// One callback's part.
#[derive(Clone, Debug, PartialEq)]
pub struct CallbackResult {
    /// Whose it is.
    pub plugin: Arc<str>,
    /// The callback, for messages.
    pub callback: Arc<str>,
    /// How it ended.
    pub said: Said,
    /// What it changed in the event it was given.
    pub mutations: Option<Value>,
    /// Milliseconds it took.
    pub millis: f64,
}

/// What all of them said, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookOutcome {
    /// The results.
    pub results: Vec<CallbackResult>,
    /// Whether callbacks go on in the background because the event's time was spent.
    pub unfinished: bool,
}

/// What becomes of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolGate {
    /// It runs, with its arguments changed by these.
    Proceed {
        /// Fields that replace those of the arguments.
        changes: Map<String, Value>,
    },
    /// A person must agree first.
    Ask {
        /// What they are told.
        message: String,
        /// What an approval for the session covers.
        rule_key: Option<String>,
        /// Who wants it.
        plugin: Arc<str>,
        /// Fields that replace those of the arguments.
        changes: Map<String, Value>,
    },
    /// It does not run.
    Block {
        /// What the model is told.
        message: String,
        /// Who blocks.
        plugin: Arc<str>,
    },
}

/// What becomes of an incoming chat message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayDecision {
    /// It goes on.
    Allow,
    /// It is dropped without a reply.
    Skip {
        /// Why, for the log.
        reason: String,
    },
    /// It goes on with another text.
    Rewrite {
        /// The text.
        text: String,
    },
}

fn text_of<'v>(value: &'v Value, names: &[&str]) -> Option<&'v str> {
    names.iter().find_map(|name| value.get(name)?.as_str()).filter(|text| !text.is_empty())
}

fn verb(value: &Value) -> String {
    text_of(value, &["action", "decision"]).unwrap_or_default().to_ascii_lowercase()
}

impl HookOutcome {
    /// The values returned, with who returned them.
    pub fn values(&self) -> impl Iterator<Item = (&CallbackResult, &Value)> {
        self.results.iter().filter_map(|result| match &result.said {
            Said::Value(value) => Some((result, value)),
            _ => None,
        })
    }

    /// The first callback that failed, and what to say of it, where a failure closes.
    pub fn failure(&self, hook: &HookSpec) -> Option<(String, Arc<str>)> {
        if hook.fails == Fails::Open {
            return None;
        }
        self.results.iter().find_map(|result| {
            let name = hook.name;
            let message = match &result.said {
                Said::Value(_) | Said::Nothing => return None,
                Said::TimedOut | Said::Skipped(_) => {
                    format!(
                        "{name} plugin callback timed out or is still running ({})",
                        result.callback
                    )
                }
                Said::Raised(fault) => {
                    let text: String = fault.message.chars().take(200).collect();
                    format!(
                        "{name} plugin callback {} raised {}: {text}",
                        result.callback, fault.kind
                    )
                }
                Said::Gone(why) => format!(
                    "{name} plugin callback {} cannot be asked: it is gone ({why})",
                    result.callback
                ),
            };
            Some((message, Arc::clone(&result.plugin)))
        })
    }

    /// The verdict of `pre_tool_call`: a block by any callback, or a callback that failed, wins over
    /// an approval wherever it stands; changes of arguments add up, a later one of the same field
    /// wins.
    pub fn tool_gate(&self, hook: &HookSpec) -> ToolGate {
        let mut changes = Map::new();
        let mut ask = None;
        let mut block = None;
        for (result, value) in self.values() {
            match verb(value).as_str() {
                "block" if block.is_none() => {
                    if let Some(message) = text_of(value, &["message", "reason"]) {
                        block = Some((message.to_owned(), Arc::clone(&result.plugin)));
                    }
                }
                "approve" if ask.is_none() => {
                    let message = text_of(value, &["message"]).unwrap_or_default().to_owned();
                    let rule_key = text_of(value, &["rule_key"]).map(ToOwned::to_owned);
                    ask = Some((message, rule_key, Arc::clone(&result.plugin)));
                }
                "modify" => {
                    if let Some(Value::Object(fields)) =
                        value.get("args").or_else(|| value.get("tool_input"))
                    {
                        changes.extend(fields.clone());
                    }
                }
                _ => {}
            }
        }
        match (block.or_else(|| self.failure(hook)), ask) {
            (Some((message, plugin)), _) => ToolGate::Block { message, plugin },
            (None, Some((message, rule_key, plugin))) => {
                ToolGate::Ask { message, rule_key, plugin, changes }
            }
            (None, None) => ToolGate::Proceed { changes },
        }
    }

    /// The texts of `pre_llm_call`, in order, with who gave them.
    pub fn contexts(&self) -> Vec<(Arc<str>, String)> {
        self.values()
            .filter_map(|(result, value)| {
                let text = match value {
                    Value::String(text) => text.clone(),
                    Value::Object(fields) => match fields.get("context")? {
                        Value::String(text) => text.clone(),
                        Value::Null | Value::Bool(false) => return None,
                        other => other.to_string(),
                    },
                    _ => return None,
                };
                (!text.trim().is_empty()).then(|| (Arc::clone(&result.plugin), text))
            })
            .collect()
    }

    /// The first text, or the first that is not empty.
    pub fn first_text(&self, allow_empty: bool) -> Option<(Arc<str>, String)> {
        self.values().find_map(|(result, value)| match value {
            Value::String(text) if allow_empty || !text.is_empty() => {
                Some((Arc::clone(&result.plugin), text.clone()))
            }
            _ => None,
        })
    }

    /// The message with which a turn goes on (`pre_verify`): both verbs in either field count.
    pub fn continue_with(&self) -> Option<(Arc<str>, String)> {
        self.values().find_map(|(result, value)| {
            if !matches!(verb(value).as_str(), "continue" | "block") {
                return None;
            }
            let message = text_of(value, &["message", "reason"])?;
            Some((Arc::clone(&result.plugin), message.to_owned()))
        })
    }

    /// Messages for the person (`on_session_finalize`).
    pub fn messages(&self) -> Vec<(Arc<str>, String)> {
        self.values()
            .filter_map(|(result, value)| {
                let text = value.as_str().or_else(|| value.get("message")?.as_str())?;
                (!text.is_empty()).then(|| (Arc::clone(&result.plugin), text.to_owned()))
            })
            .collect()
    }

    /// The decision of `pre_gateway_dispatch`: the first result that says anything ends the look; a
    /// rewrite whose text is no text ends it without a change.
    pub fn gateway_decision(&self) -> GatewayDecision {
        for (_, value) in self.values() {
            match verb(value).as_str() {
                "skip" => {
                    let reason = text_of(value, &["reason"]).unwrap_or_default().to_owned();
                    return GatewayDecision::Skip { reason };
                }
                "rewrite" => {
                    return match value.get("text").and_then(Value::as_str) {
                        Some(text) => GatewayDecision::Rewrite { text: text.to_owned() },
                        None => GatewayDecision::Allow,
                    };
                }
                "allow" => return GatewayDecision::Allow,
                _ => {}
            }
        }
        GatewayDecision::Allow
    }

    /// Whether a message was dealt with (`post_gateway_admission`), and the reply.
    pub fn handled(&self) -> Option<Option<String>> {
        self.values().find_map(|(_, value)| {
            (verb(value) == "handled").then(|| text_of(value, &["reply"]).map(ToOwned::to_owned))
        })
    }

    /// The class of an error (`transform_api_error_classification`): the first whose reason the
    /// caller knows.
    pub fn error_class(&self, known: &dyn Fn(&str) -> bool) -> Option<&Map<String, Value>> {
        let mut valid = self.values().filter_map(|(result, value)| {
            let fields = value.as_object()?;
            known(fields.get("reason")?.as_str()?).then_some((result, fields))
        });
        let first = valid.next();
        for (loser, _) in valid {
            tracing::warn!(plugin = %loser.plugin, "its class of an error lost to an earlier one");
        }
        first.map(|(_, fields)| fields)
    }

    /// Fields by name, the last writer of each wins (`pre_transcription`).
    pub fn fields(&self, allowed: &[&str]) -> Map<String, Value> {
        let mut out = Map::new();
        for (_, value) in self.values() {
            for (name, field) in value.as_object().into_iter().flatten() {
                if allowed.contains(&name.as_str()) && field.is_string() {
                    out.insert(name.clone(), field.clone());
                }
            }
        }
        out
    }

    /// The event as callbacks left it: their changes in order.
    pub fn event_changes(&self) -> Map<String, Value> {
        let mut out = Map::new();
        for result in &self.results {
            if let Some(Value::Object(fields)) =
                result.mutations.as_ref().and_then(|m| m.get("event"))
            {
                out.extend(fields.clone());
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::find;
    use serde_json::json;

    fn outcome(results: Vec<Said>) -> HookOutcome {
        let results = results
            .into_iter()
            .enumerate()
            .map(|(index, said)| CallbackResult {
                plugin: Arc::from(format!("p{index}")),
                callback: Arc::from(format!("p{index}.hook")),
                said,
                mutations: None,
                millis: 0.0,
            })
            .collect();
        HookOutcome { results, unfinished: false }
    }

    fn gate(values: Vec<Value>) -> ToolGate {
        let hook = find("pre_tool_call").unwrap();
        outcome(values.into_iter().map(Said::Value).collect()).tool_gate(hook)
    }

    #[test]
    fn a_block_beats_an_approval_wherever_it_stands() {
        let approve = json!({"action": "approve", "message": "fine?"});
        let block = json!({"action": "block", "message": "no"});
        for values in [vec![approve.clone(), block.clone()], vec![block, approve]] {
            assert!(matches!(gate(values), ToolGate::Block { message, .. } if message == "no"));
        }
    }

    #[test]
    fn a_block_without_a_message_is_no_block() {
        let gate =
            gate(vec![json!({"action": "block"}), json!({"action": "block", "message": ""})]);
        assert_eq!(gate, ToolGate::Proceed { changes: Map::new() });
    }

    #[test]
    fn changes_of_arguments_add_up_and_a_later_one_wins() {
        let ToolGate::Proceed { changes } = gate(vec![
            json!({"action": "modify", "args": {"a": 1, "b": 1}}),
            json!({"decision": "modify", "tool_input": {"b": 2}}),
        ]) else {
            panic!("nothing blocks");
        };
        assert_eq!(Value::Object(changes), json!({"a": 1, "b": 2}));
    }

    #[test]
    fn a_guard_that_raises_hangs_or_is_gone_blocks() {
        let hook = find("pre_tool_call").unwrap();
        for said in [
            Said::Raised(Fault::new("KeyError", "x")),
            Said::TimedOut,
            Said::Skipped("hung lately".into()),
            Said::Gone("signal 9".into()),
        ] {
            let gate =
                outcome(vec![Said::Value(json!({"action": "approve"})), said]).tool_gate(hook);
            assert!(matches!(gate, ToolGate::Block { .. }), "{gate:?}");
        }
    }

    #[test]
    fn contexts_are_taken_from_texts_and_mappings_in_order() {
        let outcome = outcome(vec![
            Said::Value(json!("one")),
            Said::Value(json!({"context": "two"})),
            Said::Value(json!("  ")),
            Said::Value(json!({"context": null})),
            Said::Value(json!({"context": 3})),
            Said::Value(json!(["four"])),
        ]);
        let texts: Vec<String> = outcome.contexts().into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["one", "two", "3"]);
    }

    #[test]
    fn an_empty_text_replaces_a_result_but_not_an_answer() {
        let outcome = outcome(vec![Said::Value(json!("")), Said::Value(json!("b"))]);
        assert_eq!(outcome.first_text(true).unwrap().1, "");
        assert_eq!(outcome.first_text(false).unwrap().1, "b");
    }

    #[test]
    fn the_first_word_about_a_chat_message_decides() {
        let check = |values: Vec<Value>| {
            outcome(values.into_iter().map(Said::Value).collect()).gateway_decision()
        };
        let skip = json!({"action": "skip", "reason": "spam"});
        assert_eq!(check(vec![skip.clone()]), GatewayDecision::Skip { reason: "spam".into() });
        assert_eq!(check(vec![json!({"action": "allow"}), skip.clone()]), GatewayDecision::Allow);
        assert_eq!(
            check(vec![json!({"action": "rewrite", "text": 3}), skip.clone()]),
            GatewayDecision::Allow
        );
        assert_eq!(
            check(vec![json!({"odd": 1}), json!({"action": "rewrite", "text": "x"}), skip]),
            GatewayDecision::Rewrite { text: "x".into() }
        );
    }

    #[test]
    fn the_turn_goes_on_for_either_verb_in_either_field() {
        for value in [
            json!({"action": "Continue", "message": "m"}),
            json!({"decision": "BLOCK", "reason": "m"}),
            json!({"action": "block", "reason": "m"}),
        ] {
            assert_eq!(outcome(vec![Said::Value(value)]).continue_with().unwrap().1, "m");
        }
        assert!(
            outcome(vec![Said::Value(json!({"action": "continue"}))]).continue_with().is_none()
        );
    }
}
