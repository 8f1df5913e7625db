//! Writes to standard output, for a program with a reader that may leave.
//!
//! `sleeve cli ... | head` closes the pipe early. The standard library's macros panic then; a program ends quietly, with the
//! exit code that a shell shows for it (128 + SIGPIPE). Any thread.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// The exit code of a program that SIGPIPE has ended.
const BROKEN_PIPE: i32 = 141;

/// Writes bytes; they may stay in the buffer.
pub fn bytes(bytes: &[u8]) {
    settle(io::stdout().write_all(bytes));
}

/// Writes text and a line end.
pub fn line(text: Arguments<'_>) {
    settle(writeln!(io::stdout(), "{text}"));
}

/// Writes out the rest of the buffer.
pub fn flush() {
    settle(io::stdout().flush());
}

/// Ends the program if standard output has failed: without a message if the reader has left, otherwise with one.
fn settle(result: io::Result<()>) {
    match result {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(BROKEN_PIPE),
        Err(error) => {
            eprintln!("cannot write to standard output: {error}");
            std::process::exit(1);
        }
    }
}
