//! What the person decided about compaction, and the sizes that follow from a window.

use hermes_home::CompressionConfig;
use serde::{Deserialize, Serialize};

/// What happens when no model gives a usable summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Everything stays as it is.
    Abort,
    /// A summary derived from the rows alone takes its place, marked as such.
    #[default]
    Fallback,
}

/// How the kept tail is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TailMode {
    /// A small share of the window.
    #[default]
    Lean,
    /// `target_ratio` of the threshold.
    Legacy,
}

/// The settings of compaction, `compression.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Whether histories are compacted without being asked.
    pub enabled: bool,
    /// Share of the window at which it happens.
    pub threshold: f64,
    /// Tokens at which it happens, if fewer.
    pub threshold_tokens: Option<u64>,
    /// Share of the threshold kept in [`TailMode::Legacy`].
    pub target_ratio: f64,
    /// How the tail is chosen.
    pub tail_mode: TailMode,
    /// Rows at the start that a first compaction leaves.
    pub protect_first_n: usize,
    /// Newest rows whose tool results pruning leaves alone.
    pub protect_last_n: usize,
    /// Messages of the person in the kept tail, at least.
    pub min_tail_user_messages: usize,
    /// Characters from which proactive pruning counts a result as long.
    pub proactive_prune_min_result_chars: usize,
    /// Tokens that proactive pruning must win.
    pub proactive_prune_min_reclaim_tokens: u64,
    /// Tokens from which proactive pruning happens; 0 for never.
    pub proactive_prune_tokens: u64,
    /// What happens when the summary fails.
    pub on_failure: OnFailure,
    /// Tokens that the parts derived from rows may take in a summary.
    pub state_tokens: u64,
}

/// Tokens of the derived parts where nothing else is said.
const STATE_TOKENS: u64 = 26_000;
/// What is kept in all should stay below 50,000 tokens: this is left for tail and derived parts.
const TAIL_AND_STATE: u64 = 40_000;

impl Default for Policy {
    fn default() -> Self {
        Self::from_config(&CompressionConfig::default(), None)
    }
}

/// A window's sizes in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// What a request may hold.
    pub window: u64,
    /// Where compaction begins.
    pub threshold: u64,
    /// What of the newest history stays word for word.
    pub tail: u64,
    /// Where the tail ends even if the row that crosses the budget is large.
    pub tail_ceiling: u64,
}

impl Policy {
    /// The policy of a configuration; `on_failure` is this program's own key and wins over the
    /// original's `abort_on_summary_failure`.
    pub fn from_config(config: &CompressionConfig, on_failure: Option<OnFailure>) -> Self {
        let older =
            if config.abort_on_summary_failure { OnFailure::Abort } else { OnFailure::Fallback };
        Self {
            enabled: config.enabled,
            threshold: config.threshold,
            threshold_tokens: config.threshold_tokens,
            target_ratio: config.target_ratio,
            tail_mode: if config.tail_mode == "legacy" { TailMode::Legacy } else { TailMode::Lean },
            protect_first_n: config.protect_first_n,
            protect_last_n: config.protect_last_n,
            min_tail_user_messages: config.min_tail_user_messages,
            proactive_prune_min_result_chars: config.proactive_prune_min_result_chars,
            proactive_prune_min_reclaim_tokens: config.proactive_prune_min_reclaim_tokens,
            proactive_prune_tokens: config.proactive_prune_tokens,
            on_failure: on_failure.unwrap_or(older),
            state_tokens: STATE_TOKENS,
        }
    }

    /// The sizes of a window of `context` tokens of which `reserved` are kept for the answer.
    ///
    /// Below 512,000 tokens the share is raised to at least 0.75: half of a small window is soon
    /// full again. A threshold is at least 64,000 tokens, but never above 85 % of the window.
    pub fn sizes(&self, context: u64, reserved: u64) -> Sizes {
        let window = context.saturating_sub(reserved).max(1);
        let share = if context < 512_000 { self.threshold.max(0.75) } else { self.threshold };
        let most = window / 100 * 85 + window % 100 * 85 / 100;
        let mut threshold = ((window as f64 * share.clamp(0.05, 1.0)) as u64).max(64_000).min(most);
        if let Some(cap) = self.threshold_tokens.filter(|cap| *cap > 0) {
            threshold = threshold.min(cap);
        }
        let tail = match self.tail_mode {
            TailMode::Lean => (context / 40).clamp(10_000, 25_000).min(context / 5),
            TailMode::Legacy => (threshold as f64 * self.target_ratio.clamp(0.0, 0.8)) as u64,
        }
        .min(threshold / 2);
        let tail_ceiling = tail.max((tail + tail / 2).min(context / 5));
        Sizes { window, threshold: threshold.max(1), tail: tail.max(1), tail_ceiling }
    }

    /// Tokens of the derived parts of a summary in a window of these sizes.
    pub fn state_budget(&self, sizes: Sizes) -> u64 {
        let beside_tail = TAIL_AND_STATE.saturating_sub(sizes.tail).max(sizes.tail / 2);
        self.state_tokens.min(sizes.threshold / 5).min(beside_tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_leave_room_for_summary_and_tail_in_every_window() {
        let check = |context: u64, expected: (u64, u64, u64)| {
            let sizes = Policy::default().sizes(context, 0);
            assert_eq!((sizes.threshold, sizes.tail, sizes.tail_ceiling), expected, "{context}");
        };
        check(8_000, (6_800, 1_600, 1_600));
        check(32_000, (27_200, 6_400, 6_400));
        check(128_000, (96_000, 10_000, 15_000));
        check(200_000, (150_000, 10_000, 15_000));
        check(1_000_000, (500_000, 25_000, 37_500));
    }

    #[test]
    fn the_own_key_wins_over_the_original_one() {
        let mut config = CompressionConfig::default();
        assert_eq!(Policy::from_config(&config, None).on_failure, OnFailure::Fallback);
        config.abort_on_summary_failure = true;
        assert_eq!(Policy::from_config(&config, None).on_failure, OnFailure::Abort);
        let own = Some(OnFailure::Fallback);
        assert_eq!(Policy::from_config(&config, own).on_failure, OnFailure::Fallback);
    }
}
