//! The built binary on a pseudo-terminal, with the screen that a person would see.

use std::io::{Read as _, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::rig::Rig;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the terminal asks for to know where the cursor is.
const WHERE: &[u8] = b"\x1b[6n";

/// A running program and its screen.
pub struct Terminal {
    screen: Arc<(Mutex<Screen>, Condvar)>,
    writer: Arc<Mutex<Box<dyn Write + Send>>>,
    child: Box<dyn Child + Send + Sync>,
    /// Dropped last: closing it ends the program.
    _pty: Box<dyn MasterPty + Send>,
}

struct Screen {
    parser: vt100::Parser,
    open: bool,
}

impl Terminal {
    /// Starts the binary with these arguments in the rig's home and folder.
    pub fn start(rig: &Rig, args: &[&str]) -> Self {
        let size = PtySize { rows: 50, cols: 100, pixel_width: 0, pixel_height: 0 };
        let pty = native_pty_system().openpty(size).unwrap();
        let plain = rig.command(args);
        let mut command = CommandBuilder::new(plain.get_program());
        command.args(plain.get_args());
        command.env_clear();
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.env("TERM", "xterm-256color");
        command.cwd(rig.work());
        let child = pty.slave.spawn_command(command).unwrap();
        drop(pty.slave);
        let cells = |count: u16| NonZeroU16::new(count).unwrap();
        let parser = vt100::Parser::new(cells(size.rows), cells(size.cols), 0);
        let screen = Arc::new((Mutex::new(Screen { parser, open: true }), Condvar::new()));
        let writer = Arc::new(Mutex::new(pty.master.take_writer().unwrap()));
        let reader = pty.master.try_clone_reader().unwrap();
        watch(reader, screen.clone(), writer.clone());
        Self { screen, writer, child, _pty: pty.master }
    }

    /// Types these bytes.
    pub fn send(&self, keys: &str) {
        let mut writer = self.writer.lock().unwrap();
        writer.write_all(keys.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    /// Types a line and Enter.
    pub fn line(&self, text: &str) {
        self.send(&format!("{text}\r"));
    }

    /// Waits until the screen satisfies `wanted`; the screen then.
    pub fn wait(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let (screen, changed) = &*self.screen;
        let until = Instant::now() + PATIENCE;
        let mut screen = screen.lock().unwrap();
        loop {
            let text = screen.parser.screen().contents();
            if wanted(&text) {
                return text;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && screen.open, "waited for {what}, the screen is:\n{text}");
            screen = changed.wait_timeout(screen, left).unwrap().0;
        }
    }

    /// Waits for a text on the screen.
    pub fn wait_for(&self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }

    /// Waits until the last line is an empty prompt.
    pub fn wait_for_prompt(&self) -> String {
        self.wait("the prompt", |screen| screen.lines().last().is_some_and(|it| it.trim() == ">"))
    }

    /// The program's process.
    pub fn process(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Waits for the end of the program; its exit code and the last screen.
    pub fn end(mut self) -> (u32, String) {
        let (screen, changed) = &*self.screen;
        let until = Instant::now() + PATIENCE;
        let mut guard = screen.lock().unwrap();
        while guard.open {
            let left = until.saturating_duration_since(Instant::now());
            let text = guard.parser.screen().contents();
            assert!(!left.is_zero(), "the program does not end, the screen is:\n{text}");
            guard = changed.wait_timeout(guard, left).unwrap().0;
        }
        let text = guard.parser.screen().contents();
        drop(guard);
        (self.child.wait().unwrap().exit_code(), text)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // An error means that it has ended.
        drop(self.child.kill());
    }
}

/// Keeps the screen up to date and answers where the cursor is, as a terminal does.
fn watch(
    mut reader: Box<dyn std::io::Read + Send>,
    screen: Arc<(Mutex<Screen>, Condvar)>,
    writer: Arc<Mutex<Box<dyn Write + Send>>>,
) {
    std::thread::spawn(move || {
        let (screen, changed) = &*screen;
        let mut bytes = [0; 4096];
        let mut matched = 0;
        while let Ok(count @ 1..) = reader.read(&mut bytes) {
            let mut guard = screen.lock().unwrap();
            for byte in &bytes[..count] {
                guard.parser.process(std::slice::from_ref(byte));
                matched = if *byte == WHERE[matched] {
                    matched + 1
                } else {
                    usize::from(*byte == WHERE[0])
                };
                if matched == WHERE.len() {
                    matched = 0;
                    let (row, column) = guard.parser.screen().cursor_position();
                    let answer = format!("\x1b[{};{}R", row + 1, column + 1);
                    writer.lock().unwrap().write_all(answer.as_bytes()).unwrap();
                }
            }
            changed.notify_all();
        }
        screen.lock().unwrap().open = false;
        changed.notify_all();
    });
}
