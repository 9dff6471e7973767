//! Time, ids and randomness come from here, so that tests and the lab are deterministic.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::Timestamp;

/// The outside world as far as time and chance go.
pub trait Env: Send + Sync {
    /// The present.
    fn now(&self) -> Timestamp;

    /// Fills `bytes` with randomness.
    fn random(&self, bytes: &mut [u8]);

    /// Seconds east of UTC at `at`, of the person's time zone.
    fn utc_offset_seconds(&self, at: Timestamp) -> i32 {
        let _ = at;
        0
    }
}

/// A clock that stands still until it is moved (or moves by a fixed step at every look), and a
/// seeded source of randomness.
#[derive(Debug)]
pub struct ScriptedEnv {
    now: AtomicI64,
    step: i64,
    state: AtomicU64,
}

impl ScriptedEnv {
    /// Starts at `now`; every look at the clock moves it by `step_micros` afterwards.
    pub const fn new(now: Timestamp, step_micros: i64, seed: u64) -> Self {
        Self { now: AtomicI64::new(now.0), step: step_micros, state: AtomicU64::new(seed) }
    }

    /// Moves the clock by `millis` milliseconds.
    pub fn advance_millis(&self, millis: i64) {
        self.now.fetch_add(millis * 1000, Ordering::Relaxed);
    }
}

impl Env for ScriptedEnv {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.fetch_add(self.step, Ordering::Relaxed))
    }

    /// SplitMix64 (Steele, Lea, Flood 2014): one addition and three mixes a word.
    fn random(&self, bytes: &mut [u8]) {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        for chunk in bytes.chunks_mut(8) {
            let mut z = self.state.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let word = (z ^ (z >> 31)).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RequestId, SessionId};

    #[test]
    fn same_seed_gives_same_ids_and_they_sort_by_age() {
        let make = || ScriptedEnv::new(Timestamp(1_796_032_560_000_000), 1_000_000, 7);
        let (a, b) = (make(), make());
        assert_eq!(SessionId::generate(&a), SessionId::generate(&b));
        let (first, second) = (RequestId::generate(&a), RequestId::generate(&a));
        assert!(first < second, "{first} {second}");
        assert!(SessionId::generate(&a).as_str().starts_with("20261130_0956"));
    }
}
