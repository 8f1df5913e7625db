//! The lines of the cluster commands, and the questions to the user.
//!
//! The lines go to standard output as redis-cli's do, because scripts look for their marks (`[OK]`, `[ERR]`, `>>>`, `***`). They
//! have redis-cli's colours where standard output is a terminal that has colours.

use std::fmt::Arguments;
use std::io::{self, IsTerminal};

use crate::output;

/// The kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Step,
    Warning,
    Error,
    Success,
}

/// A failure that has been printed already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported;

/// The terminal of the commands.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    is_coloured: bool,
}

impl Console {
    /// Returns the console of this process.
    pub fn new() -> Self {
        let has_colours = std::env::var("TERM").is_ok_and(|name| name.contains("xterm"));
        Self { is_coloured: has_colours && io::stdout().is_terminal() }
    }

    /// Prints the beginning of a step.
    pub fn step(self, text: Arguments<'_>) {
        self.line(Kind::Step, text);
    }

    /// Prints a warning.
    pub fn warn(self, text: Arguments<'_>) {
        self.line(Kind::Warning, text);
    }

    /// Prints an error of the cluster.
    pub fn error(self, text: Arguments<'_>) {
        self.line(Kind::Error, text);
    }

    /// Prints that something is in order.
    pub fn success(self, text: Arguments<'_>) {
        self.line(Kind::Success, text);
    }

    /// Prints an error of the cluster, and returns it as the end of the command.
    pub fn fail<T>(self, text: Arguments<'_>) -> Result<T, Reported> {
        self.error(text);
        Err(Reported)
    }

    fn line(self, kind: Kind, text: Arguments<'_>) {
        let colour = match kind {
            Kind::Step => "29;1m",
            Kind::Warning => "33;1m",
            Kind::Error => "31;1m",
            Kind::Success => "32;1m",
        };
        match self.is_coloured {
            true => output::bytes(format!("\x1b[{colour}{text}\n\x1b[0m").as_bytes()),
            false => output::line(text),
        }
    }

    /// Prints a part of a line at once.
    pub fn part(self, text: Arguments<'_>) {
        output::bytes(text.to_string().as_bytes());
        output::flush();
    }

    /// Asks, and returns the answer without its line end. The end of standard input is reported: there is no answer to come.
    pub fn ask(self, question: Arguments<'_>) -> Result<String, Reported> {
        self.part(question);
        let mut line = String::new();
        match io::stdin().read_line(&mut line) {
            Ok(0) => complain(format_args!("\nStandard input has ended: there is no answer")),
            Ok(_) => Ok(line.trim_end_matches(['\r', '\n']).to_owned()),
            Err(error) => complain(format_args!("\nStandard input: {error}")),
        }
    }

    /// Asks for a `yes`; every other answer, and the end of standard input, is a no.
    pub fn confirm(self, question: &str) -> bool {
        self.part(format_args!("{question} (type 'yes' to accept): "));
        let mut line = String::new();
        io::stdin().read_line(&mut line).is_ok() && line.trim_end_matches(['\r', '\n']) == "yes"
    }
}

/// Prints a fault of the command line or of a connection on standard error, and returns it as the end of the command.
pub fn complain<T>(text: Arguments<'_>) -> Result<T, Reported> {
    output::flush();
    eprintln!("{text}");
    Err(Reported)
}
