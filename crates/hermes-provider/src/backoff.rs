//! How long to wait before the next try.

use std::time::Duration;

use hermes_core::Env;

/// Exponential delays with jitter, and the bound on what a provider may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay.
    pub base: Duration,
    /// The longest delay of our own.
    pub cap: Duration,
    /// The longest `Retry-After` that is waited for; a longer one ends the tries at that
    /// endpoint.
    pub longest_retry_after: Duration,
    /// How much of a delay is left to chance, in percent.
    pub jitter_percent: u8,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_secs(2),
            cap: Duration::from_mins(1),
            longest_retry_after: Duration::from_mins(2),
            jitter_percent: 50,
        }
    }
}

impl Backoff {
    /// Hardly any wait: for tests and for scripts that must not stand still.
    pub const fn quick() -> Self {
        Self {
            base: Duration::from_millis(1),
            cap: Duration::from_millis(4),
            longest_retry_after: Duration::from_millis(50),
            jitter_percent: 50,
        }
    }

    /// The delay after the failed try `attempt` (1 for the first): doubled each time, bounded,
    /// and shortened by chance so that clients that failed together do not return together.
    pub fn delay(&self, attempt: u32, env: &dyn Env) -> Duration {
        let doubled = self.base.saturating_mul(1u32 << attempt.saturating_sub(1).min(16));
        let full = doubled.min(self.cap);
        let mut random = [0];
        env.random(&mut random);
        let [random] = random;
        let percent = u32::from(self.jitter_percent.min(100)) * u32::from(random) / 255;
        full.saturating_sub(full * percent / 100)
    }

    /// The delay after the failed try `attempt`, as long at least as the provider asked for. None
    /// if that is longer than is waited for.
    pub fn wait(
        &self,
        attempt: u32,
        retry_after: Option<Duration>,
        env: &dyn Env,
    ) -> Option<Duration> {
        let asked = retry_after.unwrap_or_default();
        (asked <= self.longest_retry_after).then(|| self.delay(attempt, env).max(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_core::{ScriptedEnv, Timestamp};

    #[test]
    fn delays_grow_stay_in_bounds_and_differ_by_chance() {
        let env = ScriptedEnv::new(Timestamp(0), 0, 1);
        let backoff = Backoff::default();
        for attempt in 1..40 {
            let full = backoff.base.saturating_mul(1 << (attempt - 1).min(16)).min(backoff.cap);
            let delay = backoff.delay(attempt, &env);
            assert!(delay <= full && delay >= full / 2, "{attempt}: {delay:?}");
        }
        let wait = |seconds| backoff.wait(1, Some(Duration::from_secs(seconds)), &env);
        assert_eq!((wait(30), wait(121)), (Some(Duration::from_secs(30)), None));
        assert!(backoff.wait(1, None, &env).is_some_and(|delay| delay <= backoff.base));
        assert_ne!(backoff.delay(9, &env), backoff.delay(9, &env));
        assert_eq!(Backoff { jitter_percent: 0, ..backoff }.delay(2, &env), Duration::from_secs(4));
    }
}
