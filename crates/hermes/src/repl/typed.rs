//! What was typed before the editor reads: while a turn runs, the terminal collects lines by itself.
//! There it turns Enter into a line feed, which the editor would take for Ctrl-J and make a new line of.
//! So what waits is taken here, after raw mode began and before the editor's first read. It comes from
//! the same queue of events as the editor's keys, so their order holds.

use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal;

/// What was waiting.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Ahead {
    /// Nothing, or nothing that is text.
    #[default]
    Nothing,
    /// One whole line with its Enter: the person has sent it.
    Line(String),
    /// Text without an Enter at its end, or several lines (a paste): the person looks at it first.
    Draft(String),
    /// Ctrl-D and nothing else.
    Closed,
}

/// Takes what waits at the terminal. Raw mode is on when this returns.
///
/// # Errors
/// If the terminal fails.
pub fn take() -> std::io::Result<Ahead> {
    terminal::enable_raw_mode()?;
    let mut typed = Typed::default();
    while event::poll(Duration::ZERO)? {
        typed.add(&event::read()?);
    }
    Ok(typed.meaning())
}

#[derive(Default)]
struct Typed {
    text: String,
    closes: bool,
}

impl Typed {
    /// Keys that move or look something up have nothing to act on yet.
    fn add(&mut self, event: &Event) {
        let key = match event {
            Event::Paste(text) => return self.text.push_str(text),
            Event::Key(key) if key.kind != KeyEventKind::Release => key,
            _ => return,
        };
        let KeyEvent { code, modifiers, .. } = *key;
        match code {
            KeyCode::Enter => self.text.push('\n'),
            KeyCode::Tab => self.text.push('\t'),
            KeyCode::Backspace => drop(self.text.pop()),
            KeyCode::Char(sign) if modifiers.contains(KeyModifiers::CONTROL) => match sign {
                'j' | 'm' => self.text.push('\n'),
                'c' | 'u' => self.text.clear(),
                // The terminal's own collection keeps Ctrl-D as a zero byte, which reads as Ctrl-Space.
                'd' | ' ' => self.closes = true,
                _ => {}
            },
            KeyCode::Char(sign) if !modifiers.contains(KeyModifiers::ALT) => self.text.push(sign),
            _ => {}
        }
    }

    fn meaning(self) -> Ahead {
        let text = self.text;
        if text.trim().is_empty() {
            return if self.closes { Ahead::Closed } else { Ahead::Nothing };
        }
        match text.strip_suffix('\n') {
            Some(line) if !line.contains('\n') && !line.ends_with('\\') => {
                Ahead::Line(line.to_owned())
            }
            Some(lines) => Ahead::Draft(lines.to_owned()),
            None => Ahead::Draft(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(events: &[Event]) -> Ahead {
        let mut typed = Typed::default();
        for it in events {
            typed.add(it);
        }
        typed.meaning()
    }

    /// As the terminal hands over what it collected: Enter is a line feed, which reads as Ctrl-J.
    fn keys(text: &str) -> Vec<Event> {
        let key = |sign| match sign {
            '\n' => KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL),
            '\0' => KeyEvent::new(KeyCode::Char(' '), KeyModifiers::CONTROL),
            '\u{4}' => KeyEvent::new(KeyCode::Char('d'), KeyModifiers::CONTROL),
            '\u{3}' => KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
            '\u{8}' => KeyEvent::new(KeyCode::Backspace, KeyModifiers::NONE),
            '\u{1}' => KeyEvent::new(KeyCode::Up, KeyModifiers::NONE),
            _ => KeyEvent::new(KeyCode::Char(sign), KeyModifiers::NONE),
        };
        text.chars().map(|sign| Event::Key(key(sign))).collect()
    }

    #[test]
    fn one_line_is_sent_and_anything_else_is_looked_at_first() {
        assert_eq!(read(&[]), Ahead::Nothing);
        assert_eq!(read(&keys("\n\n")), Ahead::Nothing);
        assert_eq!(read(&keys("/exit\n")), Ahead::Line("/exit".to_owned()));
        assert_eq!(read(&keys("gr\u{fc}n\n")), Ahead::Line("gr\u{fc}n".to_owned()));
        assert_eq!(read(&keys("half a li")), Ahead::Draft("half a li".to_owned()));
        assert_eq!(read(&keys("one\ntwo\n")), Ahead::Draft("one\ntwo".to_owned()));
        assert_eq!(read(&keys("more \\\n")), Ahead::Draft("more \\".to_owned()));
        assert_eq!(read(&[Event::Paste("a\nb".to_owned())]), Ahead::Draft("a\nb".to_owned()));
        assert_eq!(read(&keys("\u{4}")), Ahead::Closed);
        assert_eq!(read(&keys("\0")), Ahead::Closed);
    }

    #[test]
    fn keys_without_a_text_leave_nothing_behind() {
        assert_eq!(read(&keys("\u{1}ye\u{8}es\u{1}\n")), Ahead::Line("yes".to_owned()));
        assert_eq!(read(&keys("no, stop\u{3}")), Ahead::Nothing);
        assert_eq!(read(&keys("\u{1}")), Ahead::Nothing);
    }
}
