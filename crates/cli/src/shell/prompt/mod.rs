//! Commands read line by line: with editing and a prompt on a terminal, plainly from a file or a pipe.

mod editor;
mod history;
pub mod input;

use std::io::{self, BufRead};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustyline::config::{BellStyle, CompletionType, Configurer};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Editor};
use sleeve_wire::request::OwnedArgs;

use super::format::Format;
use super::session::{Outcome, Session};
use crate::interrupt::Interrupt;
use crate::output;
use editor::LineHelper;
use history::History;

/// The duration from which on the time of a command is printed.
const NOTABLE: Duration = Duration::from_millis(500);

/// The next step of the loop after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Continue,
    /// The command was refused or lost.
    Failed,
    Leave,
    Hints(bool),
}

/// Reads commands from a file or a pipe until it ends, or, with `exit_error`, until one fails.
pub fn run_plain(session: &mut Session, exit_error: bool) -> io::Result<ExitCode> {
    session.connect();
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        match run_line(session, &line) {
            After::Leave => return Ok(ExitCode::SUCCESS),
            After::Failed if exit_error => return Ok(ExitCode::FAILURE),
            _ => {}
        }
    }
}

/// Reads commands from the terminal until the user leaves. While a command runs, Ctrl-C leads back to the prompt.
pub fn run_interactive(session: &mut Session) -> rustyline::Result<()> {
    session.connect();
    let interrupt = Arc::new(Interrupt::watch()?);
    session.heed(Arc::clone(&interrupt));
    let config = Config::builder().completion_type(CompletionType::Circular).auto_add_history(false).build();
    let remembered = MemHistory::with_config(&config);
    let mut editor: Editor<LineHelper, MemHistory> = Editor::with_history(config, remembered)?;
    editor.set_bell_style(BellStyle::None);
    editor.set_helper(Some(LineHelper { hints: true }));
    let (history, lines, why_none) = History::open();
    if let Some(reason) = why_none {
        eprintln!("{reason}");
    }
    for line in lines {
        editor.add_history_entry(line)?;
    }
    loop {
        let line = match editor.readline(&session.prompt()) {
            Ok(line) => line,
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(()),
            Err(error) => return Err(error),
        };
        if is_worth_remembering(&line) && editor.add_history_entry(line.as_str())? {
            history.keep(&line);
        }
        let after = run_line(session, line.as_bytes());
        if interrupt.clear() {
            // The server may still be sending on the old connection, or be waiting for a key.
            session.connect();
        }
        match after {
            After::Continue | After::Failed => {}
            After::Leave => return Ok(()),
            After::Hints(on) => editor.set_helper(Some(LineHelper { hints: on })),
        }
    }
}

/// Returns whether a line is kept in the history. A line with a password is not, nor a line that cannot be parsed, which may
/// have one.
fn is_worth_remembering(line: &str) -> bool {
    let Some(mut words) = input::split(line.as_bytes()) else { return false };
    input::take_repeat(&mut words);
    let args = OwnedArgs::collect(words.iter().map(Vec::as_slice));
    let has_secret = editor::row_of(&words)
        .and_then(|(row, _)| row.secrets)
        .is_some_and(|secrets| !secrets.positions(args.args()).is_empty());
    !words.is_empty() && !has_secret
}

fn run_line(session: &mut Session, line: &[u8]) -> After {
    let Some(mut words) = input::split(line) else {
        output::line(format_args!("Invalid argument(s)"));
        return After::Continue;
    };
    let repeat = input::take_repeat(&mut words);
    let words_lower: Vec<Vec<u8>> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let lower: Vec<&[u8]> = words_lower.iter().map(Vec::as_slice).collect();
    match lower.as_slice() {
        [] => return After::Continue,
        [b"quit" | b"exit"] => return After::Leave,
        [b"clear"] => output::bytes(b"\x1b[H\x1b[2J"),
        [b":set", b"hints"] => return After::Hints(true),
        [b":set", b"nohints"] => return After::Hints(false),
        [b"connect", ..] if let [_, host, port] = words.as_slice() => connect(session, host, port),
        _ => return repeat_command(session, &words, repeat),
    }
    output::flush();
    After::Continue
}

fn connect(session: &mut Session, host: &[u8], port: &[u8]) {
    match std::str::from_utf8(port).ok().and_then(|port| port.parse().ok()) {
        Some(port) => {
            session.redirect(String::from_utf8_lossy(host).into_owned(), port);
        }
        None => output::line(format_args!("Invalid argument(s)")),
    }
}

fn repeat_command(session: &mut Session, words: &[Vec<u8>], repeat: u64) -> After {
    let mut after = After::Continue;
    for _ in 0..repeat {
        let start = Instant::now();
        match session.issue(words) {
            Outcome::Answered => {}
            Outcome::Refused => after = After::Failed,
            Outcome::Lost | Outcome::Interrupted => return After::Failed,
        }
        if start.elapsed() >= NOTABLE && session.manner().format == Format::Standard {
            output::line(format_args!("({:.2}s)", start.elapsed().as_secs_f64()));
            output::flush();
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_remembered() {
        assert!(is_worth_remembering("get auth"));
        assert!(!is_worth_remembering("AUTH secret"));
        assert!(!is_worth_remembering("HELLO 3 AUTH user secret"));
        assert!(!is_worth_remembering("CONFIG SET hz 10 requirepass secret"));
        assert!(!is_worth_remembering("config set tls-key-file-pass secret"));
        assert!(!is_worth_remembering("MIGRATE host 6379 key 0 1000 AUTH2 user secret"));
        assert!(!is_worth_remembering("3 \"auth\" secret"));
        assert!(!is_worth_remembering("acl setuser ann >secret"));
        assert!(!is_worth_remembering("auth \"secret"));
        assert!(is_worth_remembering("config set hz 10"));
        assert!(!is_worth_remembering("  "));
    }
}
