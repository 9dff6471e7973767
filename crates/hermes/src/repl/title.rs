//! The title of a session, written on a thread of its own after the first answer: nothing waits for
//! it, and a failure is no news.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hermes_core::SessionId;

use super::Repl;
use crate::commands::chat;

/// A title that is being written, or was.
pub(super) struct Asked {
    session: SessionId,
    thread: Option<JoinHandle<()>>,
}

/// At the end of a conversation a title that is nearly there is waited for.
const AT_THE_END: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);

impl Repl<'_> {
    /// Has a title written if the session has none; once for each session.
    pub(super) fn begin_title(&mut self) {
        let session = self.conversation.id().clone();
        if !self.conversation.is_stored()
            || self.title.as_ref().is_some_and(|asked| asked.session == session)
        {
            return;
        }
        let job = self.services.title_for(&session).unwrap_or_else(|error| {
            tracing::info!(%session, %error, "no title");
            None
        });
        let id = session.clone();
        let write = |job: hermes_agent::title::TitleJob| {
            std::thread::Builder::new().name("title".to_owned()).spawn(move || {
                let done = chat::runtime().map(|runtime| runtime.block_on(job.run()));
                match done {
                    Ok(Ok(title)) => tracing::info!(session = %id, %title, "titled"),
                    Ok(Err(error)) => tracing::info!(session = %id, %error, "no title"),
                    Err(error) => tracing::info!(session = %id, %error, "no title"),
                }
            })
        };
        let thread = job.and_then(|job| write(job).ok());
        self.title = Some(Asked { session, thread });
    }

    /// Waits a moment for a title that is being written.
    pub(super) fn end_title(&mut self) {
        let Some(thread) = self.title.take().and_then(|asked| asked.thread) else { return };
        let until = Instant::now() + AT_THE_END;
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }
}
