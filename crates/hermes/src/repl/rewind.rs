//! `/undo` and `/retry`: the last turns leave what the next request holds.

use super::Repl;
use super::commands::Next;
use crate::exit::{Exit, Failure};
use crate::out::{self, ellipsis};
use crate::render::{Screen, Show};

/// Most characters of what was said that are shown.
const SHOWN: usize = 200;

impl Repl<'_> {
    /// `/undo [N]`. What was said first comes back into the line, to be changed and sent again.
    ///
    /// # Errors
    /// If there is nothing to take back, or the store refuses.
    pub(super) fn undo(&mut self, argument: &str) -> anyhow::Result<Next> {
        let turns = match argument {
            "" => 1,
            number => number.parse().ok().filter(|turns| *turns > 0).ok_or_else(|| {
                let text = format!("/undo takes a number of turns from 1 on, not \"{number}\"");
                Failure::new(Exit::Usage, text)
            })?,
        };
        self.look_for_others()?;
        let screen = self.screen();
        let rewound = self.conversation.rewind(&self.services, turns, &screen);
        self.conversation.release()?;
        let rewound = rewound?;
        self.note_messages()?;
        let turns = match rewound.turns {
            1 => "the last turn".to_owned(),
            count => format!("the last {count} turns"),
        };
        let tools = match rewound.results {
            0 => "",
            _ => "; what its tools did stays done",
        };
        out::note(format!(
            "{turns} ({} rows) left the conversation, from \"{}\" on{tools}\nhint: nothing is \
             deleted; /recall shows it",
            rewound.rows,
            ellipsis(&rewound.text, SHOWN)
        ));
        self.draft = Some(rewound.text);
        Ok(Next::Stay)
    }

    /// `/retry`.
    ///
    /// # Errors
    /// If there is nothing to ask again, or the turn fails.
    pub(super) fn retry(&mut self) -> anyhow::Result<Next> {
        self.look_for_others()?;
        let screen = self.screen();
        let input = self.conversation.take_back_last(&self.services, &screen);
        // The turn has a screen of its own, and there is one at a time.
        drop(screen);
        self.conversation.release()?;
        let input = input?;
        self.note_messages()?;
        out::note(format!("asking again: {}", ellipsis(&input.text, SHOWN)));
        self.say(input)
    }

    fn screen(&self) -> Screen {
        Screen::new(Show::Everything, false, &self.conversation.model().model)
    }
}
