//! Exit codes: one table, printed by the guide and by `hermes --help`.

use std::process::ExitCode;

use hermes_agent::AgentError;
use hermes_agent::inspect::InspectError;
use hermes_home::{ConfigError, HomeError};
use hermes_store::StoreError;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything that was asked for was done.
    Ok,
    /// Something failed that has no code of its own.
    Failure,
    /// The command line cannot be understood.
    Usage,
    /// The configuration or home cannot be used.
    Config,
    /// The model gave no answer.
    Provider,
    /// A proof failed: a request or a claim does not verify.
    Unproven,
    /// What was named does not exist.
    NotFound,
    /// Another process holds the session.
    Held,
    /// A capsule was made without the model that should have written it.
    Fallback,
    /// The person stopped the turn.
    Interrupted,
    /// The terminal was closed while a turn or the conversation went on.
    HungUp,
    /// The process was asked to end while a turn or the conversation went on.
    Terminated,
}

/// Code, meaning: the table that the guide shows.
pub const TABLE: &[(Exit, u8, &str)] = &[
    (Exit::Ok, 0, "everything that was asked for was done"),
    (Exit::Failure, 1, "something failed that has no code of its own"),
    (Exit::Usage, 2, "the command line cannot be understood"),
    (Exit::Config, 3, "the configuration or the home cannot be used; the message names the place"),
    (Exit::Provider, 4, "the model gave no answer; what was said is kept"),
    (
        Exit::Unproven,
        5,
        "a proof failed: a request does not verify, or a claim of `tour` does not hold",
    ),
    (
        Exit::NotFound,
        6,
        "the session, request or key that was named does not exist, or a search found nothing",
    ),
    (Exit::Held, 7, "another process holds the session, or runs in the profile"),
    (Exit::Fallback, 8, "a capsule was made without the model that should have written it"),
    (Exit::Interrupted, 130, "the turn was stopped by Ctrl-C; what was said is kept"),
    (
        Exit::HungUp,
        129,
        "the terminal was closed (SIGHUP) and stopped the turn; what was said is kept",
    ),
    (
        Exit::Terminated,
        143,
        "the process was asked to end (SIGTERM) and stopped the turn; what was said is kept",
    ),
];

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        TABLE.iter().find(|(exit, _, _)| *exit == self).map_or(1, |(_, code, _)| *code)
    }

    /// The exit that belongs to an error.
    pub fn of(error: &anyhow::Error) -> Self {
        for cause in error.chain() {
            if let Some(Failure { exit, .. }) = cause.downcast_ref() {
                return *exit;
            }
            if let Some(error) = cause.downcast_ref::<AgentError>() {
                return match error {
                    AgentError::Store(error) => of_store(error),
                    AgentError::Config(_) => Self::Config,
                    AgentError::EmptyInput => Self::Usage,
                    AgentError::NoSuchSource { .. } | AgentError::Skill(_) => Self::NotFound,
                    _ => Self::Failure,
                };
            }
            if let Some(error) = cause.downcast_ref::<InspectError>() {
                return match error {
                    InspectError::Store(error) => of_store(error),
                    InspectError::Deleted(_) | InspectError::NoRequest(_) => Self::NotFound,
                    InspectError::View { .. }
                    | InspectError::History { .. }
                    | InspectError::Broken { .. } => Self::Failure,
                };
            }
            if let Some(error) = cause.downcast_ref::<StoreError>() {
                return of_store(error);
            }
            if cause.is::<ConfigError>() || cause.is::<HomeError>() {
                return Self::Config;
            }
        }
        Self::Failure
    }
}

fn of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::Held { .. } => Exit::Held,
        StoreError::NotFound { .. }
        | StoreError::Ambiguous { .. }
        | StoreError::Deleted { .. }
        | StoreError::Moved { .. } => Exit::NotFound,
        StoreError::PythonStore { .. } | StoreError::NotOurs { .. } | StoreError::TooNew { .. } => {
            Exit::Config
        }
        _ => Exit::Failure,
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error of the binary itself with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What happened and what to do.
    pub message: String,
}

impl Failure {
    /// An error with this exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }
}
