//! The real clock, the system's randomness and the person's time zone.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use hermes_core::{Env, Timestamp};
use jiff::tz::TimeZone;

/// The real outside world. The time zone is looked up on first use.
#[derive(Debug, Default)]
pub struct SystemEnv {
    name: Option<String>,
    zone: OnceLock<TimeZone>,
}

impl SystemEnv {
    /// With the time zone of an IANA name such as `Europe/Berlin`; empty for `TZ` or the system's.
    pub fn new(timezone: &str) -> Self {
        let name = Some(timezone.trim()).filter(|name| !name.is_empty()).map(str::to_owned);
        Self { name, zone: OnceLock::new() }
    }

    /// Whether a time zone's name is known on this system.
    pub fn knows_timezone(name: &str) -> bool {
        TimeZone::get(name.trim()).is_ok()
    }

    fn zone(&self) -> &TimeZone {
        self.zone.get_or_init(|| {
            self.name
                .as_deref()
                .and_then(|name| TimeZone::get(name).ok())
                .or_else(|| TimeZone::try_system().ok())
                .unwrap_or(TimeZone::UTC)
        })
    }
}

impl Env for SystemEnv {
    fn now(&self) -> Timestamp {
        let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            Err(before) => {
                i64::try_from(before.duration().as_micros()).map_or(i64::MIN, i64::wrapping_neg)
            }
        };
        Timestamp(micros)
    }

    fn random(&self, bytes: &mut [u8]) {
        if getrandom::fill(bytes).is_ok() {
            return;
        }
        // A system without its source of randomness: the standard library's hash keys, which are
        // good enough for ids that must only differ.
        for chunk in bytes.chunks_mut(8) {
            let mut hasher = std::hash::RandomState::new().build_hasher();
            hasher.write_i64(self.now().0);
            let word = hasher.finish().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    fn utc_offset_seconds(&self, at: Timestamp) -> i32 {
        let instant =
            jiff::Timestamp::from_microsecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        self.zone().to_offset(instant).seconds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_follow_the_named_zone_through_summer_and_winter() {
        let env = SystemEnv::new("Europe/Berlin");
        assert_eq!(env.utc_offset_seconds(Timestamp::from_seconds(1_782_000_000)), 7200);
        assert_eq!(env.utc_offset_seconds(Timestamp::from_seconds(1_796_032_560)), 3600);
        assert!(SystemEnv::knows_timezone("Europe/Berlin"));
        assert!(!SystemEnv::knows_timezone("Mars/Olympus"));
    }

    #[test]
    fn two_draws_differ_and_the_clock_is_past_the_project_start() {
        let env = SystemEnv::new("");
        let (mut a, mut b) = ([0; 16], [0; 16]);
        env.random(&mut a);
        env.random(&mut b);
        assert_ne!(a, b);
        assert!(env.now() > Timestamp::from_seconds(1_700_000_000));
    }
}
