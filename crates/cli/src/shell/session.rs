//! The shell's state: the connection, the facts known about it, and the format of replies.
//!
//! Commands go through [`Session::issue`], which connects when it must, prints the reply, and follows the changes that the
//! command made (the database, a transaction, a subscription). A command is sent once: when the connection breaks after that,
//! its effect is unknown. The shell reports that instead of trying again. With `-c` a redirection of a cluster leads to another
//! node, where the command is sent again: the node that redirects has not executed it.

use std::io::{self, IsTerminal, stdout};
use std::sync::Arc;
use std::time::Duration;

use sleeve_wire::frame::{Frame, FrameError, decode};

use super::connection::{Connection, Target, error_of};
use super::format::Format;
use super::help;
use crate::endpoint::{Login, without_number};
use crate::interrupt::Interrupt;
use crate::output;

/// The pause before another attempt to connect.
const PAUSE: Duration = Duration::from_secs(1);

/// The most redirections that one command follows. Nodes that redirect to each other do not agree yet.
const REDIRECTIONS_MAX: usize = 16;

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server replied, and not with an error.
    Answered,
    /// The server replied with an error.
    Refused,
    /// The server did not reply.
    Lost,
    /// Ctrl-C came before the answer, or ended a stream of messages.
    Interrupted,
}

/// The end of one exchange with a node.
#[derive(Clone, Debug)]
enum Step {
    /// The command has ended.
    Done(Outcome),
    /// Another node has to be asked.
    Redirected(Redirection),
}

/// An error by which a node of a cluster names another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Redirection {
    slot: u16,
    /// The host; `None` if it is that of the node itself.
    host: Option<String>,
    port: u16,
    /// True if the other node serves this one command only, after ASKING.
    is_ask: bool,
}

impl Redirection {
    /// Reads `MOVED 3999 127.0.0.1:6381` or `ASK ...`; `None` for every other reply.
    fn of(frame: &Frame<'_>) -> Option<Self> {
        let Frame::Error(text) = frame else { return None };
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let is_ask = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let slot = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = (!host.is_empty()).then(|| host.to_owned());
        Some(Self { slot, host, port: port.parse().ok()?, is_ask })
    }
}

/// Returns whether the other side has ended the connection.
fn has_hung_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// The way in which the shell prints replies.
#[derive(Clone, Debug)]
pub struct Manner {
    /// The output format.
    pub format: Format,
    /// True if pushed messages are printed.
    pub show_pushes: bool,
    /// True if an error reply goes to the error output and makes the exit code 1.
    pub exit_error: bool,
    /// True if RESP3 is wanted but may be refused.
    pub prefer_resp3: bool,
    /// True if the redirections of a cluster are followed.
    pub follow: bool,
    /// True if a line says that a redirection is followed.
    pub announce: bool,
}

/// The shell's state.
#[derive(Debug)]
pub struct Session {
    target: Target,
    login: Login,
    manner: Manner,
    connection: Option<Connection>,
    in_transaction: bool,
    interrupt: Option<Arc<Interrupt>>,
}

impl Session {
    /// Returns a session that has not connected yet.
    pub fn new(target: Target, login: Login, manner: Manner) -> Self {
        Self { target, login, manner, connection: None, in_transaction: false, interrupt: None }
    }

    /// Makes Ctrl-C end only the present wait, and not the program, from now on.
    pub fn heed(&mut self, interrupt: Arc<Interrupt>) {
        if let Some(connection) = &mut self.connection {
            connection.heed(Arc::clone(&interrupt));
        }
        self.interrupt = Some(interrupt);
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|interrupt| interrupt.is_heard())
    }

    /// Returns the prompt of the interactive shell.
    pub fn prompt(&self) -> String {
        if self.connection.is_none() {
            return "not connected> ".to_owned();
        }
        let database = match self.login.database {
            0 => String::new(),
            number => format!("[{number}]"),
        };
        let transaction = if self.in_transaction { "(TX)" } else { "" };
        format!("{}{database}{transaction}> ", self.target)
    }

    /// Returns the settings with which replies are shown.
    pub fn manner(&self) -> &Manner {
        &self.manner
    }

    /// Uses another server from now on, over TLS if the session did so before.
    pub fn redirect(&mut self, host: String, port: u16) {
        self.target = self.target.elsewhere(host, port);
        self.connection = None;
        self.connect();
    }

    /// Connects if there is no connection; prints the reason on the error output if it fails.
    pub fn connect(&mut self) -> bool {
        if self.connection.as_ref().is_some_and(Connection::is_stale) {
            self.connection = None;
        }
        if self.connection.is_some() {
            return true;
        }
        self.in_transaction = false;
        match Connection::open(&self.target) {
            Ok(mut connection) => {
                if let Some(interrupt) = &self.interrupt {
                    connection.heed(Arc::clone(interrupt));
                }
                let ready = self.log_in(&mut connection);
                if let Err(error) = &ready {
                    eprintln!("Error: {}", without_number(error));
                } else {
                    self.connection = Some(connection);
                }
                ready.is_ok()
            }
            Err(error) => {
                eprintln!("Could not connect to Redis at {}: {}", self.target, without_number(&error));
                false
            }
        }
    }

    /// Sends credentials, database and protocol; a refusal is printed and does not end the session.
    fn log_in(&mut self, connection: &mut Connection) -> io::Result<()> {
        if let Some(password) = &self.login.password {
            let mut words = vec!["AUTH", password];
            if let Some(user) = &self.login.user {
                words.insert(1, user);
            }
            if let Some(error) = refusal(connection, &words)? {
                eprintln!("AUTH failed: {error}");
            }
        }
        if self.login.database != 0 {
            let number = self.login.database.to_string();
            if let Some(error) = refusal(connection, &["SELECT", &number])? {
                eprintln!("SELECT {number} failed: {error}");
                self.login.database = 0;
            }
        }
        if self.login.resp3 || self.manner.prefer_resp3 {
            let refused = refusal(connection, &["HELLO", "3"])?;
            if let (Some(error), true) = (refused, self.login.resp3) {
                eprintln!("HELLO 3 failed: {error}");
            }
        }
        Ok(())
    }

    /// Sends one command and prints its reply.
    pub fn issue(&mut self, words: &[Vec<u8>]) -> Outcome {
        let Some(name) = words.first() else { return Outcome::Answered };
        if name.eq_ignore_ascii_case(b"help") || name == b"?" {
            output::bytes(help::text(words.get(1..).unwrap_or_default()).as_bytes());
            return Outcome::Answered;
        }
        let mut redirections = if self.manner.follow { REDIRECTIONS_MAX } else { 0 };
        let result = loop {
            if !self.connect() {
                return Outcome::Lost;
            }
            let result = if is_stream(words) {
                self.stream(words, redirections > 0)
            } else {
                self.exchange(words, redirections > 0)
            };
            match result {
                Ok(Step::Redirected(redirection)) => {
                    redirections -= 1;
                    match self.follow(redirection) {
                        Ok(true) => {}
                        Ok(false) => return Outcome::Lost,
                        Err(error) => break Err(error),
                    }
                }
                Ok(Step::Done(outcome)) => break Ok(outcome),
                Err(error) => break Err(error),
            }
        };
        output::flush();
        result.unwrap_or_else(|error| {
            self.connection = None;
            // A server that obeys SHUTDOWN closes the connection without a reply.
            if name.eq_ignore_ascii_case(b"shutdown") && has_hung_up(&error) {
                return Outcome::Answered;
            }
            if self.is_interrupted() {
                if stdout().is_terminal() {
                    // The line end follows the terminal's "^C".
                    output::line(format_args!(""));
                }
                if !is_stream(words) {
                    eprintln!("Interrupted: the server may have executed it all the same.");
                }
                return Outcome::Interrupted;
            }
            eprintln!("Error: {}", without_number(&error));
            Outcome::Lost
        })
    }

    /// Goes on at the node to which a redirection leads; returns false if it cannot be reached, which is printed.
    fn follow(&mut self, redirection: Redirection) -> io::Result<bool> {
        let Redirection { slot, host, port, is_ask } = redirection;
        self.target = self.target.elsewhere(host.unwrap_or_else(|| self.target.host().to_owned()), port);
        if self.manner.announce {
            output::line(format_args!("-> Redirected to slot [{slot}] located at {}", self.target));
        }
        self.connection = None;
        if !self.connect() {
            return Ok(false);
        }
        if let (true, Some(connection)) = (is_ask, &mut self.connection)
            && let Some(error) = refusal(connection, &["ASKING"])?
        {
            eprintln!("ASKING failed: {error}");
        }
        Ok(true)
    }

    /// Asks until there is a reply, on new connections if necessary; returns `None` if Ctrl-C came first.
    ///
    /// An error reply is an error of kind `Other`.
    pub fn ask_until_answered(&mut self, words: &[&str], interrupt: &Interrupt) -> io::Result<Option<Vec<u8>>> {
        loop {
            let reply = self.connection.as_mut().map(|connection| connection.ask(words));
            if interrupt.is_heard() {
                return Ok(None);
            }
            match reply {
                Some(Ok(reply)) => {
                    return error_of(&reply).map_or(Ok(Some(reply)), |text| Err(io::Error::other(text)));
                }
                Some(Err(error)) => {
                    eprintln!("Error: {}; trying again every second", without_number(&error));
                    self.connection = None;
                }
                None => {}
            }
            if !interrupt.sleep(PAUSE) {
                return Ok(None);
            }
            self.connect();
        }
    }

    fn exchange(&mut self, words: &[Vec<u8>], may_follow: bool) -> io::Result<Step> {
        let Some(connection) = &mut self.connection else { return Ok(Step::Done(Outcome::Lost)) };
        connection.send(words)?;
        let manner = self.manner.clone();
        let reply = connection.receive_reply(|pushed| {
            if manner.show_pushes {
                let _ = print_frame(&manner, pushed, false);
            }
        })?;
        let (frame, _) = decode(&reply).map_err(invalid)?;
        if let Some(redirection) = Redirection::of(&frame).filter(|_| may_follow) {
            return Ok(Step::Redirected(redirection));
        }
        let refused = matches!(frame, Frame::Error(_));
        if refused && manner.exit_error {
            eprint_error(&frame);
            return Ok(Step::Done(Outcome::Refused));
        }
        print_frame(&manner, &reply, is_text(words))?;
        if refused {
            self.note_refusal(words);
            return Ok(Step::Done(Outcome::Refused));
        }
        self.note(words);
        Ok(Step::Done(Outcome::Answered))
    }

    /// Prints messages until Ctrl-C or the connection ends: MONITOR, SUBSCRIBE and their like.
    fn stream(&mut self, words: &[Vec<u8>], may_follow: bool) -> io::Result<Step> {
        let Some(connection) = &mut self.connection else { return Ok(Step::Done(Outcome::Lost)) };
        connection.send(words)?;
        if !matches!(self.manner.format, Format::Raw { .. }) {
            output::line(format_args!("Reading messages... (press Ctrl-C to quit)"));
        }
        loop {
            let message = connection.receive()?;
            let (frame, _) = decode(&message).map_err(invalid)?;
            if let Some(redirection) = Redirection::of(&frame).filter(|_| may_follow) {
                return Ok(Step::Redirected(redirection));
            }
            print_frame(&self.manner, &message, false)?;
            output::flush();
            if message.first() == Some(&b'-') {
                return Ok(Step::Done(Outcome::Refused));
            }
        }
    }

    /// Updates the session's state after an accepted command: database, transaction, protocol.
    fn note(&mut self, words: &[Vec<u8>]) {
        let name = words.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        match name.as_slice() {
            b"select" => {
                let number = words.get(1).and_then(|word| std::str::from_utf8(word).ok()).and_then(|n| n.parse().ok());
                // Within a transaction the answer is QUEUED, and the database changes when EXEC runs.
                self.login.database = number.unwrap_or(self.login.database);
            }
            b"multi" => self.in_transaction = true,
            b"exec" | b"discard" => self.in_transaction = false,
            b"reset" => {
                self.in_transaction = false;
                self.login.database = 0;
            }
            b"auth" => match words {
                [_, password] => self.keep_credentials(None, password),
                [_, user, password] => self.keep_credentials(Some(user), password),
                _ => {}
            },
            b"quit" | b"shutdown" => self.connection = None,
            _ => {}
        }
    }

    /// Notes that a refused EXEC has ended its transaction all the same.
    fn note_refusal(&mut self, words: &[Vec<u8>]) {
        if words.first().is_some_and(|name| name.eq_ignore_ascii_case(b"exec")) {
            self.in_transaction = false;
        }
    }

    fn keep_credentials(&mut self, user: Option<&[u8]>, password: &[u8]) {
        self.login.user = user.map(|user| String::from_utf8_lossy(user).into_owned());
        self.login.password = Some(String::from_utf8_lossy(password).into_owned());
    }

    /// Returns the connection, once [`Self::connect`] has succeeded.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }
}

/// Returns whether a command is answered by messages without an end.
pub fn is_stream(words: &[Vec<u8>]) -> bool {
    let streams: [&[u8]; 4] = [b"monitor", b"subscribe", b"psubscribe", b"ssubscribe"];
    words.first().is_some_and(|name| streams.iter().any(|stream| name.eq_ignore_ascii_case(stream)))
}

/// Returns whether a command's reply is a text to be read and not data: it is shown without quotes.
fn is_text(words: &[Vec<u8>]) -> bool {
    const WHOLE: [&[u8]; 2] = [b"info", b"lolwut"];
    const PAIRS: [(&[u8], &[u8]); 10] = [
        (b"debug", b"htstats"),
        (b"debug", b"htstats-key"),
        (b"memory", b"malloc-stats"),
        (b"memory", b"doctor"),
        (b"cluster", b"info"),
        (b"cluster", b"nodes"),
        (b"client", b"list"),
        (b"client", b"info"),
        (b"latency", b"graph"),
        (b"latency", b"doctor"),
    ];
    let Some(name) = words.first() else { return false };
    let same = |one: &[u8], other: &[u8]| one.eq_ignore_ascii_case(other);
    WHOLE.iter().any(|whole| same(name, whole))
        || words.get(1).is_some_and(|sub| PAIRS.iter().any(|(first, second)| same(name, first) && same(sub, second)))
}

/// Sends a request, and returns the text of the error reply, if it is one.
fn refusal(connection: &mut Connection, words: &[&str]) -> io::Result<Option<String>> {
    Ok(error_of(&connection.ask(words)?))
}

fn print_frame(manner: &Manner, bytes: &[u8], text: bool) -> io::Result<()> {
    let (frame, _) = decode(bytes).map_err(invalid)?;
    output::bytes(&manner.format.render(&frame, text).map_err(invalid)?);
    Ok(())
}

fn eprint_error(frame: &Frame<'_>) {
    if let Frame::Error(text) = frame {
        eprintln!("{}", String::from_utf8_lossy(text));
    }
}

/// Returns the error of a reply that is no frame, or one that cannot be shown.
pub fn invalid(error: FrameError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read_and_other_errors_are_not() {
        let of = |text: &'static str| Redirection::of(&Frame::Error(text.as_bytes()));
        let read = |host: Option<&str>, is_ask| {
            Some(Redirection { slot: 3999, host: host.map(str::to_owned), port: 6381, is_ask })
        };
        assert_eq!(of("MOVED 3999 127.0.0.1:6381"), read(Some("127.0.0.1"), false));
        assert_eq!(of("ASK 3999 ::1:6381"), read(Some("::1"), true));
        assert_eq!(of("MOVED 3999 :6381"), read(None, false));
        for other in
            ["ERR MOVED 1 h:1", "MOVED", "MOVED 1", "MOVED 1 h", "MOVED x h:1", "MOVED 1 h:99999", "TRYAGAIN x"]
        {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(Redirection::of(&Frame::Simple(b"MOVED 1 h:1")), None);
    }
}
