//! The faults on the link of an engine for tests, and the rules for their occurrence.
//!
//! Pure decisions: the input is a command, the output the action for it. Any thread.

use std::time::Duration;

use sleeve_wire::commands::Flags;

use crate::resp::request::name::Name;
use crate::sys::lock::Mutex;

/// A fault for a client at the address of an engine for tests: its kind, the commands that it concerns, and its time.
///
/// Without further settings it happens once, to the next command. Commands with which clients begin their connections (HELLO,
/// AUTH, CLIENT, SELECT, COMMAND) do not count, unless [`on`](Fault::on) names them.
#[derive(Clone, Debug)]
pub struct Fault {
    act: Act,
    to: To,
    skip: u64,
    times: u64,
}

/// The kind of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The command is not executed, and answered by this error.
    Error(String),
    /// The command is executed, and its answer leaves later.
    Delay(Duration),
    /// The connection breaks, and the command is not executed.
    CutBefore,
    /// The command is executed, and the connection breaks amid its answer.
    CutAmid,
    /// The command is executed, and the connection breaks before its answer.
    CutAfter,
}

/// The commands that a fault concerns.
#[derive(Clone, Debug)]
enum To {
    Any,
    Writes,
    Named(String),
}

/// The commands with which clients begin their connections.
const GREETING: [&str; 5] = ["HELLO", "AUTH", "CLIENT", "SELECT", "COMMAND"];

impl Fault {
    fn new(act: Act) -> Self {
        Self { act, to: To::Any, skip: 0, times: 1 }
    }

    /// Creates a fault in which the command is not executed, and answered by this error; its first word is the error's code.
    /// In a transaction the command counts as refused, so that EXEC refuses the whole transaction.
    pub fn error(text: impl Into<String>) -> Self {
        Self::new(Act::Error(text.into().replace(['\r', '\n'], " ")))
    }

    /// Creates a fault in which the command is executed, and its answer, with all later ones on that connection, arrives
    /// later by this much real time.
    pub fn delay(time: Duration) -> Self {
        Self::new(Act::Delay(time))
    }

    /// Creates a fault in which the connection breaks when the command has arrived, and the command is not executed.
    pub fn cut_before() -> Self {
        Self::new(Act::CutBefore)
    }

    /// Creates a fault in which the command is executed, half of its answer arrives, and the connection breaks.
    pub fn cut_amid() -> Self {
        Self::new(Act::CutAmid)
    }

    /// Creates a fault in which the command is executed, and the connection breaks before its answer.
    pub fn cut_after() -> Self {
        Self::new(Act::CutAfter)
    }

    /// Limits the fault to commands of this name: `SET`, or with a subcommand `CONFIG SET`.
    pub fn on(mut self, command: &str) -> Self {
        self.to = To::Named(command.to_ascii_uppercase());
        self
    }

    /// Limits the fault to commands that may write, by the command table.
    pub fn on_writes(mut self) -> Self {
        self.to = To::Writes;
        self
    }

    /// Lets this many such commands pass first: with `skip(2)` the fault happens to the third.
    pub fn skip(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Sets how many times the fault happens, to one such command after the other.
    pub fn times(mut self, count: u64) -> Self {
        self.times = count;
        self
    }

    /// Returns whether the fault concerns a command that begins with these words.
    fn is_about(&self, words: &[&[u8]]) -> bool {
        let is = |word: Option<&&[u8]>, name: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        match &self.to {
            To::Any => !GREETING.iter().any(|name| is(words.first(), name)),
            To::Writes => Name::find(words).row().is_some_and(|row| row.flags.contains(Flags::WRITE)),
            To::Named(name) => name.split(' ').enumerate().all(|(index, part)| is(words.get(index), part)),
        }
    }
}

/// The faults of one engine.
#[derive(Default)]
pub(super) struct Faults {
    pending: Mutex<Vec<Fault>>,
    is_down: Mutex<bool>,
}

impl Faults {
    pub(super) fn add(&self, fault: Fault) {
        self.pending.lock().push(fault);
    }

    pub(super) fn clear(&self) {
        self.pending.lock().clear();
    }

    pub(super) fn set_down(&self, is_down: bool) {
        *self.is_down.lock() = is_down;
    }

    pub(super) fn is_down(&self) -> bool {
        *self.is_down.lock()
    }

    /// Returns the fault that happens to a command that begins with these words. The command counts for each fault that
    /// concerns it.
    pub(super) fn judge(&self, words: &[&[u8]]) -> Option<Act> {
        let mut pending = self.pending.lock();
        let mut verdict = None;
        for fault in pending.iter_mut().filter(|fault| fault.times > 0 && fault.is_about(words)) {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if verdict.is_none() {
                fault.times -= 1;
                verdict = Some(fault.act.clone());
            }
        }
        pending.retain(|fault| fault.times > 0);
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(faults: &Faults, line: &str) -> Option<Act> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        faults.judge(&words)
    }

    #[test]
    fn a_fault_happens_to_the_command_that_it_is_about() {
        let faults = Faults::default();
        faults.add(Fault::cut_after().on_writes().skip(1).times(2));
        assert_eq!(judged(&faults, "get a"), None);
        assert_eq!(judged(&faults, "set a 1"), None);
        assert_eq!(judged(&faults, "Del a"), Some(Act::CutAfter));
        assert_eq!(judged(&faults, "exists a"), None);
        assert_eq!(judged(&faults, "incr a"), Some(Act::CutAfter));
        assert_eq!(judged(&faults, "incr a"), None);
        faults.add(Fault::cut_before().on("config set"));
        assert_eq!(judged(&faults, "CONFIG GET a"), None);
        assert_eq!(judged(&faults, "CONFIG SET a b"), Some(Act::CutBefore));
        faults.add(Fault::error("ERR a\r\nb"));
        assert_eq!(judged(&faults, "HELLO 3"), None);
        assert_eq!(judged(&faults, "my.own command"), Some(Act::Error("ERR a  b".to_owned())));
        faults.add(Fault::cut_amid());
        faults.clear();
        assert_eq!(judged(&faults, "PING"), None);
    }
}
