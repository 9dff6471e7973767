//! `/compress` in the open conversation. Ctrl-C stops the helper model; everything is then kept.

use hermes_agent::Cancel;

use super::Repl;
use crate::commands::compactions::{self, Wish};
use crate::render::{Screen, Show};

impl Repl<'_> {
    /// Carries a wish out and gives the session back.
    ///
    /// # Errors
    /// If nothing took effect, with the reason.
    pub(super) fn compress(&mut self, wish: &Wish) -> anyhow::Result<()> {
        let screen = Screen::new(Show::Everything, false, &self.conversation.model().model);
        let cancel = Cancel::default();
        let running = self.interrupts.during(cancel.clone());
        let doing =
            compactions::carry_out(&self.services, &mut self.conversation, wish, &screen, &cancel);
        let done = self.runtime.block_on(doing);
        drop(running);
        let released = self.conversation.release();
        done?;
        Ok(released?)
    }
}
