//! Messages and the hints in them: what happened first, what to do about it on lines of its own.

/// An error in words: what happened, outer causes first, then the hints.
pub fn told(error: &anyhow::Error) -> String {
    let (mut text, mut hints) = (String::new(), String::new());
    for cause in error.chain() {
        let cause = cause.to_string();
        let (what, hint) = split(&cause);
        // Transparent wrappers repeat their cause.
        if !text.ends_with(what) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(what);
        }
        let hint = hint.map(|hint| format!("\nhint: {}", hint.replace("; hint: ", "\nhint: ")));
        hints.extend(hint.filter(|hint| !hints.contains(hint)));
    }
    text + &hints
}

/// A message's text and the hint behind it.
pub fn split(message: &str) -> (&str, Option<&str>) {
    let split = ["\nhint: ", "; hint: "]
        .iter()
        .filter_map(|sign| message.split_once(sign))
        .min_by_key(|(text, _)| text.len());
    split.map_or((message, None), |(text, hint)| (text, Some(hint)))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn hints_stand_behind_all_causes_and_each_once() {
        let cause = io::Error::other("no such file");
        let error = anyhow::Error::new(cause).context("the folder x cannot be used; hint: --cwd");
        assert_eq!(told(&error), "the folder x cannot be used: no such file\nhint: --cwd");
        let many = anyhow::anyhow!("a\nhint: one\nb; hint: two");
        assert_eq!(told(&many), "a\nhint: one\nb\nhint: two");
        assert_eq!(told(&anyhow::anyhow!("plain")), "plain");
    }
}
