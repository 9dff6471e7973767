//! A provider's prefix cache, simulated.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher as _;

/// Tokens of a cache step.
const STEP_TOKENS: u64 = 128;
/// Bytes that count as one token.
const TOKEN_BYTES: u64 = 4;

/// The prefixes seen so far, by their hash.
#[derive(Debug, Default)]
pub(super) struct PrefixCache {
    seen: HashSet<u64>,
}

/// How many tokens `bytes` bytes are to the rehearsal model.
pub(super) const fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(TOKEN_BYTES)
}

impl PrefixCache {
    /// The tokens of the longest known prefix of what `parts` are one after the other, in whole
    /// steps; all prefixes of it are known from now on. With `miss` nothing is found.
    pub(super) fn look_up<'a>(
        &mut self,
        parts: impl IntoIterator<Item = &'a [u8]>,
        miss: bool,
    ) -> u64 {
        let step = (STEP_TOKENS * TOKEN_BYTES) as usize;
        let mut hasher = DefaultHasher::new();
        let mut filled = 0;
        let mut known = 0;
        let mut unbroken = !miss;
        for mut part in parts {
            while !part.is_empty() {
                let (head, tail) = part.split_at(part.len().min(step - filled));
                hasher.write(head);
                filled += head.len();
                part = tail;
                if filled == step {
                    filled = 0;
                    let fresh = self.seen.insert(hasher.finish());
                    unbroken &= !fresh;
                    known += u64::from(unbroken);
                }
            }
        }
        known * STEP_TOKENS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_seen_before_is_cached_in_whole_steps() {
        let mut cache = PrefixCache::default();
        let text = vec![b'a'; 2000];
        assert_eq!(cache.look_up([&*text], false), 0);
        assert_eq!(cache.look_up([&*text], false), 384);
        assert_eq!(cache.look_up([&text[..700], &text[700..]], false), 384);
        assert_eq!(cache.look_up([&text[..600], b"other".as_slice()], false), 128);
        assert_eq!(cache.look_up([&*text], true), 0);
    }
}
