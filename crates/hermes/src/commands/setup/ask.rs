//! Questions at the terminal. Questions go to stderr; a key is never shown while it is typed.

use std::io::{self, BufRead as _, Write as _};

use anyhow::Context as _;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal;
use hermes_home::SecretString;

use crate::exit::{Exit, Failure};
use crate::out::{self, Paint};

/// The person went away in the middle of the questions.
fn left() -> anyhow::Error {
    Failure::new(Exit::Interrupted, "setup was left; nothing was written").into()
}

/// Asks for a line; an empty one is the default.
///
/// # Errors
/// If the person leaves.
pub fn line(question: &str, default: &str) -> anyhow::Result<String> {
    let paint = Paint::stderr();
    let offer = if default.is_empty() { String::new() } else { format!(" [{default}]") };
    prompt(&format!("{}{}: ", paint.bold(question), paint.dim(&offer)))?;
    let mut answer = String::new();
    if io::stdin().lock().read_line(&mut answer)? == 0 {
        out::note("");
        return Err(left());
    }
    let answer = answer.trim();
    Ok(if answer.is_empty() { default.to_owned() } else { answer.to_owned() })
}

/// Asks for one of `count` numbers; the answer counts from 0.
///
/// # Errors
/// If the person leaves.
pub fn number(question: &str, count: usize) -> anyhow::Result<usize> {
    loop {
        match line(question, "1")?.parse::<usize>() {
            Ok(number) if (1..=count).contains(&number) => return Ok(number - 1),
            _ => out::note(format!("a number from 1 to {count}, please")),
        }
    }
}

/// Asks a question that only a clear yes answers with yes.
///
/// # Errors
/// If the person leaves.
pub fn yes(question: &str) -> anyhow::Result<bool> {
    let answer = line(&format!("{question} (y/N)"), "")?;
    Ok(matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks for a key without showing it.
///
/// # Errors
/// If the person leaves or the terminal fails.
pub fn secret(question: &str) -> anyhow::Result<SecretString> {
    // First hidden, then asked for: what is pasted at the sight of the question is not shown.
    terminal::enable_raw_mode().context("the terminal cannot hide what is typed")?;
    let asked = prompt(&format!("{}: ", Paint::stderr().bold(question)));
    let typed = asked.and_then(|()| hidden_line());
    terminal::disable_raw_mode().context("the terminal cannot be reset; hint: run `reset`")?;
    out::note("");
    typed
}

fn hidden_line() -> anyhow::Result<SecretString> {
    let mut typed = String::new();
    loop {
        let Event::Key(KeyEvent { code, modifiers, kind, .. }) = crossterm::event::read()? else {
            continue;
        };
        if kind == KeyEventKind::Release {
            continue;
        }
        let control = modifiers.contains(KeyModifiers::CONTROL);
        match code {
            KeyCode::Enter => return Ok(SecretString::from(typed.trim().to_owned())),
            KeyCode::Char('c' | 'd') if control => return Err(left()),
            KeyCode::Char('u') if control => typed.clear(),
            KeyCode::Char('j') if control => {
                return Ok(SecretString::from(typed.trim().to_owned()));
            }
            KeyCode::Char(c) if !control => typed.push(c),
            KeyCode::Backspace => drop(typed.pop()),
            _ => {}
        }
    }
}

fn prompt(text: &str) -> anyhow::Result<()> {
    let mut stderr = io::stderr();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()?;
    Ok(())
}
