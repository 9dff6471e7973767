//! Who is asked for a summary, a capsule or a title.

use hermes_home::{Config, FallbackConfig, Route, Vars, auxiliary_routes};
use hermes_provider::{Candidate, Endpoint, JobError};
use hermes_store::Store;
use serde::Serialize;

use crate::Services;

/// A place that a helper's job may go to, for a person to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HelperPlace {
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Its window in tokens, where known.
    pub window: Option<u64>,
    /// Whether the task's own settings name it.
    pub explicit: bool,
}

/// What the places of a job are found from.
pub(crate) struct Places<'a> {
    pub(crate) config: &'a Config,
    pub(crate) variables: &'a Vars,
    pub(crate) store: &'a Store,
    pub(crate) endpoints: &'a [Endpoint],
    pub(crate) context_window: Option<u64>,
}

impl Services {
    /// The places for a job of this task: what the caller names, what `auxiliary.<task>` names,
    /// its chain, then the conversation's own endpoints.
    ///
    /// # Errors
    /// If the task is switched off, or nothing can be asked.
    pub fn candidates(
        &self,
        task: &str,
        wanted: Option<&FallbackConfig>,
    ) -> Result<Vec<Candidate>, JobError> {
        let places = Places {
            config: &self.config,
            variables: &self.variables,
            store: &self.store,
            endpoints: &self.endpoints,
            context_window: self.context_window,
        };
        places.candidates(task, wanted)
    }

    /// The same, described.
    pub fn helper_places(&self, task: &str) -> Result<Vec<HelperPlace>, JobError> {
        Ok(self
            .candidates(task, None)?
            .into_iter()
            .map(|candidate| HelperPlace {
                provider: candidate.endpoint.provider.to_string(),
                model: candidate.endpoint.model.to_string(),
                window: candidate.window,
                explicit: candidate.explicit,
            })
            .collect())
    }
}

impl Places<'_> {
    pub(crate) fn candidates(
        &self,
        task: &str,
        wanted: Option<&FallbackConfig>,
    ) -> Result<Vec<Candidate>, JobError> {
        let routes = auxiliary_routes(self.config, self.variables, task, wanted);
        if routes.disabled {
            return Err(JobError::Disabled(task.to_owned()));
        }
        let mut problems = routes.problems;
        let mut found: Vec<Candidate> = Vec::new();
        for candidate in routes.candidates {
            match candidate.route {
                Route::Endpoint(config) => match crate::services::configured(&config, self.store) {
                    Ok(endpoint) => found.push(Candidate {
                        endpoint,
                        window: config.context_length,
                        explicit: true,
                    }),
                    Err(error) => problems.push(error.to_string()),
                },
                Route::Rehearsal => {
                    problems.push(format!(
                        "{}: the rehearsal provider writes for itself alone",
                        candidate.key
                    ));
                }
            }
        }
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            let known = found.iter().any(|candidate| {
                candidate.endpoint.base_url == endpoint.base_url
                    && candidate.endpoint.model == endpoint.model
            });
            if !known {
                let window = self.context_window.filter(|_| index == 0);
                found.push(Candidate { endpoint: endpoint.clone(), window, explicit: false });
            }
        }
        for problem in &problems {
            tracing::warn!(task, %problem, "a place for a job cannot be used");
        }
        if found.is_empty() { Err(JobError::NoCandidate(problems)) } else { Ok(found) }
    }
}
