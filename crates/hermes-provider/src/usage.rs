//! Token counts out of the many shapes in which servers report them.

use hermes_core::Usage;

use crate::json::Value;

/// Reads a `usage` object. Counts that are not there stay unknown; `input` includes what was read
/// from or written to the cache.
pub(crate) fn usage(value: &Value<'_>) -> Usage {
    let first = |paths: &[&[&str]]| {
        let found: Vec<u64> = paths.iter().filter_map(|path| value.path(path)?.as_u64()).collect();
        // Servers that copy each other's fields leave those that they do not fill at 0.
        found.iter().copied().find(|count| *count > 0).or_else(|| found.first().copied())
    };
    let cache_read = first(&[
        &["prompt_tokens_details", "cached_tokens"],
        &["input_tokens_details", "cached_tokens"],
        &["cache_read_input_tokens"],
        &["prompt_cache_hit_tokens"],
        &["cached_tokens"],
    ]);
    let cache_write = first(&[
        &["prompt_tokens_details", "cache_write_tokens"],
        &["prompt_tokens_details", "cache_creation_input_tokens"],
        &["prompt_tokens_details", "cache_creation_tokens"],
        &["input_tokens_details", "cache_write_tokens"],
        &["cache_creation_input_tokens"],
        &["cache_write_tokens"],
    ]);
    let input = first(&[&["prompt_tokens"]]).or_else(|| {
        // Anthropic's own count leaves the cached tokens out.
        let bare = first(&[&["input_tokens"]])?;
        let apart = value.get("cache_read_input_tokens").is_some()
            || value.get("cache_creation_input_tokens").is_some();
        let cached = cache_read.unwrap_or(0).saturating_add(cache_write.unwrap_or(0));
        Some(if apart { bare.saturating_add(cached) } else { bare })
    });
    Usage {
        input,
        output: first(&[&["completion_tokens"], &["output_tokens"]]),
        cache_read,
        cache_write,
        reasoning: first(&[
            &["completion_tokens_details", "reasoning_tokens"],
            &["output_tokens_details", "reasoning_tokens"],
            &["reasoning_tokens"],
        ]),
    }
}

/// The later report wins, field by field; what it leaves out stays.
pub(crate) fn merge(old: Usage, new: Usage) -> Usage {
    Usage {
        input: new.input.or(old.input),
        output: new.output.or(old.output),
        cache_read: new.cache_read.or(old.cache_read),
        cache_write: new.cache_write.or(old.cache_write),
        reasoning: new.reasoning.or(old.reasoning),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn check(text: &str, expected: [Option<u64>; 5]) {
        let got = usage(&json::parse(text).unwrap().value);
        assert_eq!(
            [got.input, got.output, got.cache_read, got.cache_write, got.reasoning],
            expected,
            "{text}"
        );
    }

    #[test]
    fn every_dialect_gives_the_same_five_counts_and_the_unknown_stays_unknown() {
        check(r#"{"prompt_tokens":9,"completion_tokens":4}"#, [Some(9), Some(4), None, None, None]);
        check(
            r#"{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":64,"cache_write_tokens":32},
               "completion_tokens_details":{"reasoning_tokens":3}}"#,
            [Some(100), Some(5), Some(64), Some(32), Some(3)],
        );
        check(
            r#"{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":0},"prompt_cache_hit_tokens":64}"#,
            [Some(100), None, Some(64), None, None],
        );
        check(
            r#"{"prompt_tokens":1,"prompt_tokens_details":null,"cached_tokens":0}"#,
            [Some(1), None, Some(0), None, None],
        );
        check(
            r#"{"input_tokens":10,"output_tokens":2,"cache_read_input_tokens":90,"cache_creation_input_tokens":5}"#,
            [Some(105), Some(2), Some(90), Some(5), None],
        );
        check(
            r#"{"input_tokens":100,"output_tokens":2,"input_tokens_details":{"cached_tokens":90}}"#,
            [Some(100), Some(2), Some(90), None, None],
        );
        check("null", [None; 5]);
        check(r#"{"prompt_tokens":"7","completion_tokens":-1}"#, [Some(7), None, None, None, None]);
    }
}
