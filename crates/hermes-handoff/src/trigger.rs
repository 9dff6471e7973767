//! What starts a handoff: the bare word, or the command.
//!
//! Invariants: the word inside a sentence is an ordinary message; what nobody typed starts nothing;
//! a person who starts a build always gets an answer.

/// A request for a handoff.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrapUp {
    /// What the capsule should dwell on.
    pub focus: Option<String>,
}

/// Whether the whole message is the bare word: `handoff`, `hand off` or `hand-off`, whatever its
/// case, with white space, full stops and exclamation marks around it.
pub fn is_bare_word(text: &str) -> bool {
    let word = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '!'));
    ["handoff", "hand off", "hand-off"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Reads `/wrapup [focus]`. A name of the bot behind the command (`/wrapup@name`) is left out.
pub fn wrapup_command(text: &str) -> Option<WrapUp> {
    let rest = text.trim().strip_prefix('/')?;
    let (name, focus) = match rest.split_once(char::is_whitespace) {
        Some((name, focus)) => (name, focus.trim()),
        None => (rest, ""),
    };
    let name = name.split('@').next().unwrap_or_default();
    name.eq_ignore_ascii_case("wrapup")
        .then(|| WrapUp { focus: (!focus.is_empty()).then(|| focus.to_owned()) })
}

/// The handoff that a message asks for, in either way.
pub fn requested(text: &str) -> Option<WrapUp> {
    if is_bare_word(text) { Some(WrapUp { focus: None }) } else { wrapup_command(text) }
}

/// How a message came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// A person typed it as a message of its own.
    ByPerson,
    /// The caption of a picture or file.
    Caption,
    /// An event of the runtime (a finished background job, a cron delivery).
    Internal,
    /// A plugin put it in.
    Plugin,
}

/// An inbound message of any surface, before authorisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inbound<'a> {
    /// Its text.
    pub text: &'a str,
    /// How it came to be.
    pub typed: Typed,
    /// Whether a handoff is being built in this conversation already.
    pub building: bool,
    /// Whether the built-in handoff is in charge; false while a plugin is.
    pub active: bool,
}

/// What to do with an inbound message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// An ordinary message: go on as if there were no handoff. This includes strangers, whom
    /// authorisation answers as it answers any stranger.
    Pass,
    /// Send this reply and nothing to the model.
    Reply(&'static str),
    /// Send the reply, then build on a worker while the person keeps typing.
    Build {
        /// What was asked for.
        wrap_up: WrapUp,
        /// The answer at once.
        reply: &'static str,
    },
}

/// The answer to a trigger, before the build.
pub const ACKNOWLEDGED: &str = "Writing the handoff. Go on if you like; what you say until it is \
     done is added to it.";
/// The answer to a second trigger.
pub const ALREADY_BUILDING: &str =
    "The handoff of this conversation is being written already. You will hear when it is done.";

/// Decides about a message. `authorised` is asked only for a trigger, because dispatch runs before
/// authorisation does.
pub fn dispatch(inbound: Inbound<'_>, authorised: impl FnOnce() -> bool) -> Dispatch {
    if inbound.typed != Typed::ByPerson || !inbound.active {
        return Dispatch::Pass;
    }
    let Some(wrap_up) = requested(inbound.text) else { return Dispatch::Pass };
    if !authorised() {
        return Dispatch::Pass;
    }
    if inbound.building {
        return Dispatch::Reply(ALREADY_BUILDING);
    }
    Dispatch::Build { wrap_up, reply: ACKNOWLEDGED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bare_word_is_found_and_a_sentence_with_it_is_not() {
        for text in
            ["handoff", "Handoff.", "hand off", "HAND-OFF!", " \n handoff !.. ", "...handoff"]
        {
            assert!(is_bare_word(text), "{text:?}");
        }
        for text in [
            "handoff now please",
            "can you do a handoff for me?",
            "/handoff telegram",
            "handoff?",
            "hand  off",
            "handoffs",
            "hand_off",
            "\"handoff\"",
            "",
            "!",
        ] {
            assert!(!is_bare_word(text), "{text:?}");
        }
    }

    #[test]
    fn the_command_may_name_a_focus() {
        let focus = |text: &str| wrapup_command(text).map(|wrap_up| wrap_up.focus);
        assert_eq!(focus("/wrapup"), Some(None));
        assert_eq!(
            focus(" /WrapUp@our_bot  the parser test "),
            Some(Some("the parser test".into()))
        );
        assert_eq!(focus("/wrapup\nfocus"), Some(Some("focus".into())));
        for text in ["wrapup", "/wrapups", "/handoff telegram", "say /wrapup", "/"] {
            assert_eq!(focus(text), None, "{text:?}");
        }
        assert_eq!(requested("handoff"), Some(WrapUp { focus: None }));
    }

    #[test]
    fn only_what_an_authorised_person_typed_starts_a_build() {
        let inbound =
            Inbound { text: "handoff", typed: Typed::ByPerson, building: false, active: true };
        assert!(matches!(dispatch(inbound, || true), Dispatch::Build { .. }));
        assert_eq!(dispatch(inbound, || false), Dispatch::Pass);
        for typed in [Typed::Caption, Typed::Internal, Typed::Plugin] {
            assert_eq!(dispatch(Inbound { typed, ..inbound }, || true), Dispatch::Pass);
        }
        assert_eq!(dispatch(Inbound { active: false, ..inbound }, || true), Dispatch::Pass);
        let busy = Inbound { building: true, ..inbound };
        assert_eq!(dispatch(busy, || true), Dispatch::Reply(ALREADY_BUILDING));
        let ordinary = Inbound { text: "a handoff, please", ..inbound };
        assert_eq!(dispatch(ordinary, || unreachable!("asked for a trigger only")), Dispatch::Pass);
    }
}
