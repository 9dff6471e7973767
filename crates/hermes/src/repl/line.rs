//! The line editor: keys, history, completion. Nothing here knows what a line means.

use std::borrow::Cow;

use crossterm::terminal;
use hermes_home::{Config, Home};
use reedline::{
    ColumnarMenu, EditCommand, Emacs, HistoryItem, KeyCode, KeyModifiers, Keybindings,
    MenuBuilder as _, Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus,
    Reedline, ReedlineEvent, ReedlineMenu, Signal, Vi, default_emacs_keybindings,
    default_vi_insert_keybindings, default_vi_normal_keybindings, default_vi_visual_keybindings,
};

use super::complete::{
    Continuations, Offers, SessionLookup, SlashCompleter, SlashHighlighter, SlashHinter,
};
use super::history::LineHistory;
use super::typed::{self, Ahead};
use crate::out::{self, Paint};

const MENU: &str = "commands";

/// What came from the keyboard.
pub enum Input {
    /// A finished message or command.
    Line(String),
    /// Ctrl-C: the line was given up.
    Cleared,
    /// Ctrl-D on an empty line, or the terminal is gone.
    Closed,
}

/// Reads lines from the person.
pub struct LineEditor {
    editor: Reedline,
    continuations: Continuations,
}

impl LineEditor {
    /// An editor with the history of this home.
    pub fn new(home: &Home, config: &Config, sessions: SessionLookup, offers: &Offers) -> Self {
        let continuations = Continuations::default();
        let menu = ColumnarMenu::default().with_name(MENU).with_marker("> ");
        let mut editor = Reedline::create()
            .use_bracketed_paste(true)
            .with_ansi_colors(Paint::stderr().is_on())
            .with_completer(Box::new(SlashCompleter::new(sessions, offers.clone())))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
            .with_hinter(Box::new(SlashHinter::new(offers.clone())))
            .with_highlighter(Box::new(SlashHighlighter(offers.clone())))
            .with_validator(Box::new(continuations.clone()))
            // A line that begins with a space is not remembered.
            .with_history_exclusion_prefix(Some(" ".to_owned()));
        editor = if config.display.vim_mode {
            let mut insert = default_vi_insert_keybindings();
            bind(&mut insert);
            let (normal, visual) =
                (default_vi_normal_keybindings(), default_vi_visual_keybindings());
            editor.with_edit_mode(Box::new(Vi::new(insert, normal, visual)))
        } else {
            let mut keys = default_emacs_keybindings();
            bind(&mut keys);
            editor.with_edit_mode(Box::new(Emacs::new(keys)))
        };
        match LineHistory::open(&home.history_path(), continuations.clone()) {
            Ok(history) => editor = editor.with_history(Box::new(history)),
            Err(why) => out::note(format!(
                "warning: {}: {why}; lines of this session are not remembered",
                home.history_path().display()
            )),
        }
        Self { editor, continuations }
    }

    /// Puts a text into the line that is read next.
    pub fn put(&mut self, text: String) {
        self.editor.run_edit_commands(&[EditCommand::InsertString(text)]);
    }

    /// Reads one message.
    ///
    /// # Errors
    /// If the terminal fails.
    pub fn read(&mut self) -> anyhow::Result<Input> {
        match typed::take()? {
            Ahead::Nothing => {}
            Ahead::Line(line) => return self.sent_before(line),
            Ahead::Draft(text) => self.put(text),
            Ahead::Closed => {
                terminal::disable_raw_mode()?;
                return Ok(Input::Closed);
            }
        }
        let signal = self.editor.read_line(&Sign)?;
        let input = match signal {
            Signal::Success(text) => {
                // At once, so that nothing is lost when the process is ended from outside.
                self.editor.sync_history().ok();
                Input::Line(self.continuations.resolve(text))
            }
            Signal::CtrlD => Input::Closed,
            _ => Input::Cleared,
        };
        self.continuations.forget();
        Ok(input)
    }

    /// A line that was sent while nobody read: shown and remembered as the editor would have.
    fn sent_before(&mut self, line: String) -> anyhow::Result<Input> {
        terminal::disable_raw_mode()?;
        out::note(format!("> {line}"));
        if !line.starts_with(' ') {
            let item = HistoryItem::from_command_line(line.as_str());
            // A history that cannot be written was warned of when it was opened.
            self.editor.history_mut().save(item).and_then(|_| Ok(self.editor.sync_history()?)).ok();
        }
        Ok(Input::Line(line))
    }
}

fn bind(keys: &mut Keybindings) {
    keys.add_binding(
        KeyModifiers::NONE,
        KeyCode::Tab,
        ReedlineEvent::UntilFound(vec![
            ReedlineEvent::Menu(MENU.to_owned()),
            ReedlineEvent::MenuNext,
        ]),
    );
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    let new_line = || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, new_line());
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::Enter, new_line());
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), new_line());
}

/// The sign in front of the line.
struct Sign;

impl Prompt for Sign {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, mode: PromptEditMode) -> Cow<'_, str> {
        match mode {
            PromptEditMode::Vi(reedline::PromptViMode::Normal) => Cow::Borrowed(": "),
            _ => Cow::Borrowed("> "),
        }
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let found = match search.status {
            PromptHistorySearchStatus::Passing => "",
            PromptHistorySearchStatus::Failing => "nothing found for ",
        };
        Cow::Owned(format!("({found}earlier: {}) ", search.term))
    }
}
