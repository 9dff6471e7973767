//! `/sessions`: looking through what is stored, and deleting from it.
//!
//! Invariants: a number names what was listed last and nothing else; nothing goes before the person
//! has seen all that would go and said yes; the session that one is in stays.

use hermes_agent::Cancel;
use hermes_core::SessionId;

use super::Repl;
use super::commands::{Next, name_of};
use crate::app::list_number;
use crate::approve;
use crate::cli::stored::How;
use crate::commands::upkeep;
use crate::exit::{Exit, Failure};
use crate::out;

/// Sessions listed at once.
const PAGE: usize = 10;

/// `/sessions`, with what follows it.
pub(super) fn sessions(repl: &mut Repl<'_>, argument: &str) -> anyhow::Result<Next> {
    let (word, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    match (word, rest.trim()) {
        ("", _) => {
            repl.listed.clear();
            repl.list()?;
        }
        ("more", "") => repl.list()?,
        ("delete", "") => {
            repl.listed.clear();
            repl.list()?;
            out::note("hint: /sessions delete NUMBER deletes one; several may be named");
        }
        ("delete", named) => repl.delete_named(named)?,
        _ => {
            let text = format!(
                "/sessions takes nothing, more, or delete with sessions, not \"{argument}\""
            );
            return Err(Failure::new(Exit::Usage, text).into());
        }
    }
    Ok(Next::Stay)
}

/// The words of a line; double quotes hold one with spaces together.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

impl Repl<'_> {
    /// The session with this number in the list.
    fn listed_as(&self, reference: &str) -> Option<SessionId> {
        let number: usize = reference.parse().ok()?;
        self.listed.get(number.checked_sub(1)?).cloned()
    }

    /// Lists those that come after what was listed.
    fn list(&mut self) -> anyhow::Result<()> {
        let before = self.listed.len();
        let mut infos = self.stored_here(before + PAGE + 1)?;
        infos.retain(|info| !self.listed.contains(&info.id));
        let more = infos.len() > PAGE;
        infos.truncate(PAGE);
        self.listed.extend(infos.iter().map(|info| info.id.clone()));
        let store = &self.services.store;
        let rows = infos
            .iter()
            .enumerate()
            .map(|(index, info)| {
                let here = if info.id == *self.conversation.id() { "*" } else { "" };
                vec![
                    format!("{}{here}", before + index + 1),
                    info.id.to_string(),
                    info.last_activity_at.to_string(),
                    info.message_count.to_string(),
                    name_of(store, info),
                ]
            })
            .collect();
        let none = if before == 0 {
            "no session of this workspace is stored yet"
        } else {
            "these were all sessions of this workspace"
        };
        out::table(
            &["", "session", "last activity (UTC)", "messages", "title or first words"],
            rows,
            none,
        )?;
        if more {
            out::note("hint: /sessions more lists the next");
        }
        Ok(())
    }

    /// The session that a person means: a number of the list, an id, a beginning of one, a title.
    pub(super) fn named(&self, reference: &str) -> anyhow::Result<SessionId> {
        if let Some(id) = self.listed_as(reference) {
            return Ok(id);
        }
        if list_number(reference).is_some() {
            // Elsewhere a number counts all sessions; here it is one that nobody has seen.
            let text = format!("no session has the number {reference}; hint: /sessions lists them");
            return Err(Failure::new(Exit::NotFound, text).into());
        }
        Ok(self.app.own_session(&self.services.store, reference)?.id)
    }

    /// Deletes sessions after a yes. The whole text may be one title, or it names several.
    fn delete_named(&mut self, text: &str) -> anyhow::Result<()> {
        let mut how = How::default();
        let mut names = words(text);
        names.retain(|word| {
            let flag = match word.as_str() {
                "--dry-run" => &mut how.dry_run,
                "--with-derived" => &mut how.with_derived,
                _ => return true,
            };
            *flag = true;
            false
        });
        if let Some(flag) = names.iter().find(|name| name.starts_with("--")) {
            let text = format!("/sessions delete takes --dry-run and --with-derived, not {flag}");
            return Err(Failure::new(Exit::Usage, text).into());
        }
        let mut ids: Vec<SessionId> = match self.named(&names.join(" ")) {
            Ok(id) => vec![id],
            Err(error) if names.len() < 2 => return Err(error),
            Err(_) => names.iter().map(|name| self.named(name)).collect::<anyhow::Result<_>>()?,
        };
        let mut seen = std::collections::BTreeSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        let store = self.services.store.clone();
        let plan = upkeep::plan(self.app, &store, &ids, &how)?;
        let own = self.conversation.id();
        if plan.removed.iter().any(|removed| removed.id == *own) {
            let with = if ids.contains(own) { "" } else { " would go with it, and" };
            let text = format!(
                "session {own}{with} is the one that you are in; hint: /exit --delete leaves it \
                 and deletes it, /new leaves it"
            );
            return Err(Failure::new(Exit::Held, text).into());
        }
        upkeep::show_plan(&store, &plan)?;
        if how.dry_run {
            return Ok(());
        }
        let cancel = Cancel::default();
        let asking = self.interrupts.during(cancel.clone());
        let answer = approve::answer("Delete for good? [y/N] ", &|| cancel.is_cancelled());
        drop(asking);
        let yes = match answer {
            Ok(line) => upkeep::is_yes(&line),
            // Ctrl-C.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => false,
            Err(error) => return Err(error.into()),
        };
        if !yes {
            out::note("nothing was deleted");
            return Ok(());
        }
        upkeep::delete_here(self.app, &store, &ids, &how)?;
        self.tell_events();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_a_title_together() {
        assert_eq!(words("1 2  20260101"), ["1", "2", "20260101"]);
        assert_eq!(words("3 \"my first plan\" x"), ["3", "my first plan", "x"]);
        assert_eq!(words("it's \"open"), ["it's", "open"]);
        assert_eq!(words("  "), Vec::<String>::new());
    }
}
