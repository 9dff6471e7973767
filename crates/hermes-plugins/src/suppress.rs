//! Callbacks that hung: skipped for a while, and never more than a few of them left running.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a callback is skipped after it hung.
pub const SUPPRESSED: Duration = Duration::from_mins(1);
/// Calls of one callback that were given up on and may still run.
pub const MOST_ABANDONED: usize = 3;

/// The state of one process's or one program's callbacks, by their entry's number.
#[derive(Debug, Default)]
pub(crate) struct Suppress {
    hung: HashMap<u64, Instant>,
    running: HashMap<(u64, String), usize>,
    abandoned: HashMap<u64, usize>,
}

impl Suppress {
    /// Why a callback is not asked now. With `must` it is asked although it hung lately.
    pub(crate) fn check(
        &mut self,
        entry: u64,
        identity: &str,
        now: Instant,
        must: bool,
    ) -> Option<String> {
        if self.abandoned.get(&entry).copied().unwrap_or(0) >= MOST_ABANDONED {
            return Some(format!("{MOST_ABANDONED} calls of it still hang"));
        }
        if let Some(at) = self.hung.get(&entry) {
            if !must && now.duration_since(*at) < SUPPRESSED {
                return Some("it hung less than a minute ago".to_owned());
            }
            self.hung.remove(&entry);
        }
        if !identity.is_empty() && self.running.contains_key(&(entry, identity.to_owned())) {
            return Some("the same call is still running".to_owned());
        }
        None
    }

    /// A call begins.
    pub(crate) fn begin(&mut self, entry: u64, identity: &str) {
        *self.running.entry((entry, identity.to_owned())).or_default() += 1;
    }

    /// A call ended in time.
    pub(crate) fn end(&mut self, entry: u64, identity: &str) {
        let key = (entry, identity.to_owned());
        if let Some(count) = self.running.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(&key);
            }
        }
    }

    /// A call was given up on.
    pub(crate) fn gave_up(&mut self, entry: u64, identity: &str, now: Instant) {
        self.end(entry, identity);
        self.hung.insert(entry, now);
        *self.abandoned.entry(entry).or_default() += 1;
    }

    /// A call that was given up on has ended after all.
    pub(crate) fn came_back(&mut self, entry: u64) {
        if let Some(count) = self.abandoned.get_mut(&entry) {
            *count = count.saturating_sub(1);
        }
    }

    /// The process of these callbacks has ended, and with it whatever hung there.
    pub(crate) fn process_ended(&mut self, entries: &[u64]) {
        for entry in entries {
            self.abandoned.remove(entry);
            self.running.retain(|(running, _), _| running != entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_that_hung_is_skipped_for_a_minute() {
        let (mut suppress, now) = (Suppress::default(), Instant::now());
        suppress.begin(1, "t");
        suppress.gave_up(1, "t", now);
        assert!(suppress.check(1, "u", now + Duration::from_secs(59), false).is_some());
        assert!(suppress.check(1, "u", now, true).is_none(), "this one must be heard");
        assert!(suppress.check(2, "u", now, false).is_none());
        assert!(suppress.check(1, "u", now + SUPPRESSED, false).is_none());
    }

    #[test]
    fn three_hanging_calls_are_the_limit_until_one_ends_or_the_process_does() {
        let (mut suppress, now) = (Suppress::default(), Instant::now());
        for _ in 0..MOST_ABANDONED {
            suppress.begin(1, "");
            suppress.gave_up(1, "", now);
        }
        let later = now + SUPPRESSED;
        assert!(suppress.check(1, "", later, false).is_some());
        suppress.came_back(1);
        assert!(suppress.check(1, "", later, false).is_none());
        suppress.gave_up(1, "", now);
        suppress.process_ended(&[1]);
        assert!(suppress.check(1, "", later, false).is_none());
    }

    #[test]
    fn only_the_same_call_counts_as_still_running() {
        let (mut suppress, now) = (Suppress::default(), Instant::now());
        suppress.begin(1, "call-1");
        assert!(suppress.check(1, "call-1", now, false).is_some());
        assert!(suppress.check(1, "call-2", now, false).is_none());
        suppress.end(1, "call-1");
        assert!(suppress.check(1, "call-1", now, false).is_none());
    }
}
