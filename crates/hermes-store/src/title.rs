//! Titles: at most 100 characters, one line, unique in the store.

use rusqlite::{OptionalExtension as _, Transaction, params};

use hermes_core::SessionId;

use crate::db::Doing as _;
use crate::{StoreError, TitleSource};

const LONGEST: usize = 100;

/// The title as it is stored; None if nothing is left of it.
pub(crate) fn clean(title: &str) -> Option<String> {
    let visible: String = title
        .chars()
        .map(|c| if c.is_whitespace() || c.is_control() { ' ' } else { c })
        .filter(|c| !is_invisible(*c))
        .collect();
    let mut out = String::new();
    for word in visible.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    let out: String = out.chars().take(LONGEST).collect();
    let out = out.trim_end();
    (!out.is_empty()).then(|| out.to_owned())
}

/// Zero-width and text-direction characters, which make two titles look alike.
const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    )
}

fn holder(tx: &Transaction<'_>, title: &str) -> Result<Option<(i64, String)>, StoreError> {
    tx.query_row("SELECT session_no, id FROM sessions WHERE title = ?1", [title], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
    .optional()
    .doing("looking for a title")
}

/// Sets the title, with a number behind it where another session has it. A title of a lower rank
/// than the present one is left out.
pub(crate) fn set_free(
    tx: &Transaction<'_>,
    session_no: i64,
    title: &str,
    source: TitleSource,
) -> Result<(), StoreError> {
    let Some(base) = clean(title) else { return Ok(()) };
    let mut candidate = base.clone();
    for number in 2_u32.. {
        match holder(tx, &candidate)? {
            Some((no, _)) if no != session_no => {
                let suffix = format!(" #{number}");
                let kept: String = base.chars().take(LONGEST - suffix.len()).collect();
                candidate = format!("{kept}{suffix}");
            }
            _ => break,
        }
    }
    write(tx, session_no, Some(&candidate), source)
}

/// Sets exactly this title; fails if another session has it.
pub(crate) fn set_exact(
    tx: &Transaction<'_>,
    session_no: i64,
    title: Option<&str>,
    source: TitleSource,
) -> Result<Option<String>, StoreError> {
    let title = title.and_then(clean);
    if let Some(title) = &title
        && let Some((no, id)) = holder(tx, title)?
        && no != session_no
    {
        return Err(StoreError::TitleTaken { title: title.clone(), holder: SessionId::new(id) });
    }
    write(tx, session_no, title.as_deref(), source)?;
    tx.query_row("SELECT title FROM sessions WHERE session_no = ?1", [session_no], |row| row.get(0))
        .doing("reading a title")
}

fn write(
    tx: &Transaction<'_>,
    session_no: i64,
    title: Option<&str>,
    source: TitleSource,
) -> Result<(), StoreError> {
    // Ranks in SQL as in `TitleSource`; a title without a source counts as the person's.
    tx.execute(
        "UPDATE sessions SET title = ?2, title_source = CASE WHEN ?2 IS NULL THEN NULL ELSE ?3 END
         WHERE session_no = ?1 AND (title IS NULL OR ?4 >=
             CASE title_source WHEN 'derived' THEN 0 WHEN 'llm' THEN 1 ELSE 2 END)",
        params![session_no, title, source.as_str(), source as i64],
    )
    .doing("setting a title")?;
    crate::search::index::title_changed(tx, session_no)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_become_one_visible_line() {
        let check = |title: &str, expected: Option<&str>| {
            assert_eq!(clean(title).as_deref(), expected, "{title:?}");
        };
        check("  fix\tthe\n build ", Some("fix the build"));
        check("a\u{200b}b\u{202e}c", Some("abc"));
        check(" \u{feff}\n", None);
        check(&"x".repeat(300), Some(&"x".repeat(100)));
    }
}
