//! Whether a command may run. Nothing runs unasked.
//!
//! Order, the first that decides wins: the floor (a small table of things that are refused even
//! when allowed), `approvals.deny` (globs), `approvals.allow` (exact texts), what the person
//! allowed for this session (exact text in an exact folder), the person. No answer in time, no
//! terminal, or a deny rule that cannot be read: refused.
//!
//! Invariant: an approval covers one exact text and never a class of commands, so a later command
//! that merely looks alike asks again.

mod deny;
mod floor;
mod normal;
mod shell;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::deny::DenyRules;
pub(crate) use self::floor::Places;

/// The longest command, in bytes: Linux takes at most 128 KiB in one argument.
const MAX_COMMAND_BYTES: usize = 100_000;

/// A command that waits for a person's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// The exact text that will be given to the shell. Show [`ApprovalRequest::shown`] instead.
    pub command: String,
    /// Where it will run.
    pub cwd: PathBuf,
    /// Why it asks.
    pub reason: String,
}

impl ApprovalRequest {
    /// The command with every character spelt out that a terminal would hide, obey or reorder.
    pub fn shown(&self) -> String {
        normal::visible(&self.command)
    }
}

/// A person's word on a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run it now.
    Once,
    /// Run it, and the same text in the same folder again until the session ends.
    Session,
    /// Do not run it.
    Deny {
        /// Why, for the model.
        why: String,
    },
}

/// Asks the person. Implementations may take their time: the guard bounds the wait by
/// `approvals.timeout` and takes silence for no.
pub trait Approver: Send + Sync {
    /// The person's word on this command.
    fn ask<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send + 'a>>;
}

/// For runs without a terminal: nobody is there to ask, so the answer is no.
#[derive(Clone, Copy, Debug, Default)]
pub struct DenyAll;

impl Approver for DenyAll {
    fn ask<'a>(
        &'a self,
        _request: &'a ApprovalRequest,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send + 'a>> {
        Box::pin(std::future::ready(Decision::Deny {
            why: "there is no terminal to ask on".to_owned(),
        }))
    }
}

/// A command that may run until the session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionApproval {
    /// The exact text.
    pub command: String,
    /// The folder in which it may run.
    pub cwd: PathBuf,
}

/// Why a command did not run, for the model and the person who reads along.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// It is on the floor.
    #[error(
        "refused: {0}; this is never run, not even when it is allowed; hint: ask the person to do it by hand"
    )]
    Floor(String),
    /// A deny rule matches.
    #[error(
        "refused: approvals.deny has the rule \"{0}\"; hint: a person can change it in config.yaml"
    )]
    Denied(String),
    /// A deny rule cannot be read, so none can be trusted to hold.
    #[error(
        "refused: the rule \"{rule}\" in approvals.deny is no valid glob ({why}), and no command runs until it is; hint: correct it in config.yaml"
    )]
    BrokenRule {
        /// The rule.
        rule: String,
        /// What is wrong with it.
        why: String,
    },
    /// It cannot be said what would run, so no deny rule holds against it.
    #[error(
        "refused: {0}, so that approvals.deny cannot be compared with it; hint: write the name of the program out"
    )]
    Unjudged(String),
    /// The text cannot be given to a shell.
    #[error("refused: {0}")]
    Unfit(String),
    /// The person, or nobody, said no.
    #[error(
        "not run: {0}; hint: a person can add the exact command to approvals.allow in config.yaml"
    )]
    NotApproved(String),
}

/// Decides on commands.
pub(crate) struct Guard {
    allow: Vec<String>,
    deny: DenyRules,
    places: Places,
    approver: Arc<dyn Approver>,
    timeout: Duration,
    session: Mutex<Vec<SessionApproval>>,
}

impl Guard {
    /// A guard with these rules.
    pub(crate) fn new(
        allow: &[String],
        deny: &[String],
        places: Places,
        approver: Arc<dyn Approver>,
        timeout: Duration,
    ) -> Self {
        Self {
            allow: allow.iter().map(|text| exact(text).to_owned()).collect(),
            deny: DenyRules::new(deny),
            places,
            approver,
            timeout,
            session: Mutex::new(Vec::new()),
        }
    }

    /// Lets `command` through or says why not. Asks the person if no rule decides.
    pub(crate) async fn check(&self, command: &str, cwd: &Path) -> Result<(), Refused> {
        if let Some(found) = self.rules(command, cwd) {
            return found;
        }
        let mut reason = "it is not in approvals.allow".to_owned();
        if normal::hides(command) {
            reason.push_str(", and it holds characters that a terminal would hide");
        }
        let request = ApprovalRequest { command: command.to_owned(), cwd: cwd.to_owned(), reason };
        match self.decide(&request).await {
            Decision::Once => Ok(()),
            Decision::Session => {
                self.remember(SessionApproval { command: request.command, cwd: request.cwd });
                Ok(())
            }
            Decision::Deny { why } => Err(Refused::NotApproved(why)),
        }
    }

    /// Asks about something that is no command; `what` is shown in its place. The error is why not.
    pub(crate) async fn ask(&self, what: String, cwd: &Path, reason: &str) -> Result<(), String> {
        let reason = reason.to_owned();
        let request = ApprovalRequest { command: what, cwd: cwd.to_owned(), reason };
        match self.decide(&request).await {
            Decision::Once | Decision::Session => Ok(()),
            Decision::Deny { why } => Err(why),
        }
    }

    /// The person's word, or no after the time limit.
    async fn decide(&self, request: &ApprovalRequest) -> Decision {
        let answer = tokio::time::timeout(self.timeout, self.approver.ask(request)).await;
        answer.unwrap_or_else(|_| Decision::Deny {
            why: format!("nobody answered within {} s (approvals.timeout)", self.timeout.as_secs()),
        })
    }

    /// What the rules alone say; None if a person must be asked.
    fn rules(&self, command: &str, cwd: &Path) -> Option<Result<(), Refused>> {
        if command.contains('\0') {
            return Some(Err(Refused::Unfit("the command holds a NUL character".to_owned())));
        }
        if command.len() > MAX_COMMAND_BYTES {
            return Some(Err(Refused::Unfit(format!(
                "the command has {} bytes, at most {MAX_COMMAND_BYTES} can run; hint: write a \
                 script with write_file and run that",
                command.len()
            ))));
        }
        if command.trim().is_empty() {
            return Some(Err(Refused::Unfit("the command is empty".to_owned())));
        }
        let normal = normal::normalise(command);
        let parsed = shell::parse(&normal);
        if let Some(why) = floor::forbidden(&normal, &parsed, cwd, &self.places) {
            return Some(Err(Refused::Floor(why)));
        }
        if let Err(refused) = self.deny.check(command, &normal, &parsed) {
            return Some(Err(refused));
        }
        let text = exact(command);
        if self.allow.iter().any(|allowed| allowed == text) {
            return Some(Ok(()));
        }
        let held = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().any(|rule| rule.command == command && rule.cwd == cwd).then_some(Ok(()))
    }

    fn remember(&self, approval: SessionApproval) {
        let mut held = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if !held.contains(&approval) {
            held.push(approval);
        }
    }

    /// What the person allowed for this session.
    pub(crate) fn session_approvals(&self) -> Vec<SessionApproval> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes such a word back; false if it was not given.
    pub(crate) fn revoke(&self, approval: &SessionApproval) -> bool {
        let mut held = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let before = held.len();
        held.retain(|rule| rule != approval);
        held.len() < before
    }
}

/// A YAML block text ends in a line break that a model does not send; nothing else is forgiven.
fn exact(command: &str) -> &str {
    command.trim_matches(['\n', '\r'])
}

#[cfg(test)]
mod tests;
