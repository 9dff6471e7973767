//! Who hears of every attempt that a client makes, and may change what is sent or what a failure is
//! taken for.
//!
//! What is changed is recorded: a changed body is kept in its ledger row, a changed class stands in
//! its end.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use hermes_core::{Assembled, Attempt, AttemptEnd};

use crate::{Failure, Reply};

/// What is done later, by whoever waits for it.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Hears of attempts. Every method has a default that does nothing.
pub trait Attendant: fmt::Debug + Send + Sync {
    /// Before the ledger row is written: the body that is to be sent in place of `body`, if
    /// another one is.
    ///
    /// # Errors
    /// With the words for the person, if nothing may be sent.
    fn prepare<'a>(
        &'a self,
        attempt: &'a Attempt,
        body: &'a [u8],
    ) -> Later<'a, Result<Option<Vec<u8>>, String>> {
        let _ = (attempt, body);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The ledger row is committed and the bytes leave. Runs while the answer is on its way; the
    /// attempt ends when both have.
    fn sending<'a>(&'a self, attempt: &'a Attempt, assembled: &'a Assembled) -> Later<'a, ()> {
        let _ = (attempt, assembled);
        Box::pin(std::future::ready(()))
    }

    /// The attempt was answered.
    fn answered<'a>(
        &'a self,
        attempt: &'a Attempt,
        end: &'a AttemptEnd,
        reply: &'a Reply,
    ) -> Later<'a, ()> {
        let _ = (attempt, end, reply);
        Box::pin(std::future::ready(()))
    }

    /// The attempt failed: what it is to be taken for, where that differs.
    fn failed<'a>(
        &'a self,
        attempt: &'a Attempt,
        end: &'a AttemptEnd,
        failure: &'a Failure,
    ) -> Later<'a, Option<Failure>> {
        let _ = (attempt, end, failure);
        Box::pin(std::future::ready(None))
    }
}
