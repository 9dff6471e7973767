//! Who hears of every attempt that a client makes, and may change what is sent, what a failure is
//! taken for, or who answers.
//!
//! What is changed is recorded: a changed body is kept in its ledger row, a changed class stands in
//! its end. An answer that is not the model's says whose it is, and what was not sent has no row.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hermes_core::{Assembled, Attempt, AttemptEnd};

use crate::{Assembly, Failure, Reply};

/// What is done later, by whoever waits for it.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An answer that is not the model's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instead {
    /// What it says.
    pub reply: Reply,
    /// Who gave it.
    pub by: Arc<str>,
}

impl Instead {
    /// The answer that stands in `json`, in the form in which a server gives one whole. `id` is what
    /// the ids of its tool calls begin with, `tools` the names that may be called.
    ///
    /// # Errors
    /// If there is no answer in it.
    pub fn of(json: &str, by: Arc<str>, id: &str, tools: &[Arc<str>]) -> Result<Self, Failure> {
        let mut assembly = Assembly::default();
        assembly.feed_document(json, &mut |_| {})?;
        Ok(Self { reply: assembly.finish(id, tools)?, by })
    }
}

/// What is to become of an attempt that was not sent yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Prepared {
    /// It is sent as it is.
    #[default]
    AsIs,
    /// Another body is sent.
    Changed(Vec<u8>),
    /// Nothing is sent, and nothing recorded: the answer is there.
    Answered(Box<Instead>),
}

/// What a failed attempt is taken for.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Another failure.
    pub failure: Option<Failure>,
    /// Whether it is tried again at the same endpoint, where its class is not to decide that.
    pub again: Option<bool>,
    /// Whether the next endpoint has its turn, where its class is not to decide that.
    pub elsewhere: Option<bool>,
    /// An answer after all. The attempt stays recorded as failed.
    pub instead: Option<Instead>,
}

/// Hears of attempts. Every method has a default that does nothing.
pub trait Attendant: fmt::Debug + Send + Sync {
    /// Before the ledger row is written: what is to be sent in place of `body`, if anything else
    /// is.
    ///
    /// # Errors
    /// With the words for the person, if nothing may be sent.
    fn prepare<'a>(
        &'a self,
        attempt: &'a Attempt,
        body: &'a [u8],
        assembled: &'a Assembled,
    ) -> Later<'a, Result<Prepared, String>> {
        let _ = (attempt, body, assembled);
        Box::pin(std::future::ready(Ok(Prepared::AsIs)))
    }

    /// The ledger row is committed and the bytes leave. Runs while the answer is on its way; the
    /// attempt ends when both have.
    fn sending<'a>(&'a self, attempt: &'a Attempt, assembled: &'a Assembled) -> Later<'a, ()> {
        let _ = (attempt, assembled);
        Box::pin(std::future::ready(()))
    }

    /// The attempt was answered: what is to stand in the answer's place, if anything is.
    fn answered<'a>(
        &'a self,
        attempt: &'a Attempt,
        end: &'a AttemptEnd,
        reply: &'a Reply,
    ) -> Later<'a, Option<Instead>> {
        let _ = (attempt, end, reply);
        Box::pin(std::future::ready(None))
    }

    /// The attempt failed: what it is to be taken for, where that differs.
    fn failed<'a>(
        &'a self,
        attempt: &'a Attempt,
        end: &'a AttemptEnd,
        failure: &'a Failure,
    ) -> Later<'a, Taken> {
        let _ = (attempt, end, failure);
        Box::pin(std::future::ready(Taken::default()))
    }

    /// Nobody waits for the attempt any more: its call was dropped.
    fn dropped(&self, attempt: &Attempt) {
        let _ = attempt;
    }
}
