//! The forms in which a secret value turns up in text that others wrote: as it is, in JSON, in an
//! address, in base64. Whoever masks a value masks all of them.

use std::fmt::Write as _;

/// Keys that stand for "no key is needed"; masking them would tear holes into ordinary words.
const PLACEHOLDERS: [&str; 14] = [
    "dummy",
    "empty",
    "fake",
    "hermes",
    "key",
    "llama",
    "lm-studio",
    "lmstudio",
    "local",
    "no-key",
    "none",
    "not-needed",
    "null",
    "ollama",
];

/// Shortest value that is taken for a secret although nothing but its place says so.
const SHORTEST: usize = 4;

/// The forms of a configured key, the longest first; none for a value that is too short to be one
/// (below four bytes) and for words like `none` that stand for no key.
pub fn secret_forms(value: &str) -> Vec<String> {
    let value = value.trim();
    let placeholder = PLACEHOLDERS.iter().any(|word| value.eq_ignore_ascii_case(word));
    if value.len() < SHORTEST || placeholder {
        return Vec::new();
    }
    let mut forms = vec![
        value.to_owned(),
        json_escaped(value),
        percent_encoded(value),
        base64(value.as_bytes(), *b"+/"),
        base64(value.as_bytes(), *b"-_"),
    ];
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.dedup();
    forms
}

fn json_escaped(value: &str) -> String {
    let mut out = String::new();
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

fn percent_encoded(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Without padding, so that it is found with and without.
fn base64(bytes: &[u8], last: [u8; 2]) -> String {
    let digit = |value: u32| -> char {
        let value = u8::try_from(value & 63).unwrap_or_default();
        char::from(match value {
            0..26 => b'A' + value,
            26..52 => b'a' + value - 26,
            52..62 => b'0' + value - 52,
            _ => last[usize::from(value - 62)],
        })
    };
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| chunk.get(at).copied().map_or(0, u32::from);
        let word = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        out.extend([18, 12, 6, 0].iter().take(chunk.len() + 1).map(|shift| digit(word >> shift)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_in_every_form_that_it_takes_in_text() {
        let forms = secret_forms(" a\"b/?>~ ");
        for form in ["a\"b/?>~", "a\\\"b/?>~", "a%22b%2F%3F%3E~", "YSJiLz8+fg", "YSJiLz8-fg"] {
            assert!(forms.iter().any(|known| known == form), "{form}: {forms:?}");
        }
        assert!(forms.is_sorted_by_key(|form| std::cmp::Reverse(form.len())));
        assert_eq!(secret_forms("abcd"), ["YWJjZA", "abcd"]);
    }

    #[test]
    fn what_is_no_key_has_no_forms() {
        for value in ["", "abc", "none", "EMPTY", "ollama", "  not-needed "] {
            assert!(secret_forms(value).is_empty(), "{value}");
        }
    }
}
