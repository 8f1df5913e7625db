//! The replica's side of the replication protocol, from the handshake to the first byte of the stream.
//!
//! A [`Link`] takes received bytes and returns bytes to send; it uses no socket and no file. It introduces this server
//! ([`Introduction`]), asks for a partial sync from its offset or for a full sync, and turns the primary's replies into
//! [`Event`]s. The dump of the data is passed on in parts as it arrives. Once [`Link::is_streaming`] returns true, all
//! further bytes are the stream, which the link does not read.
//!
//! A link keeps at most a line of `LINE_BYTES_MAX` bytes, or the last bytes of a dump. Input that no primary sends ends it
//! with a reason ([`LinkError`]). A link is used by one thread.

mod dump;
mod error;

use std::collections::VecDeque;

use sleeve_wire::number;
use sleeve_wire::number::Digits;
use sleeve_wire::reply::{Protocol, Writer};

use crate::engine::replication::{Id, OFFSET_MAX};
use dump::Dump;
pub use dump::Size;
pub use error::{Fault, LinkError};

/// The maximum length of a line of the primary.
const LINE_BYTES_MAX: usize = 1_024;

/// The properties of this server, and the data that it has.
#[derive(Debug, Clone, Default)]
pub struct Introduction {
    /// The password for the primary, and the name of the user unless it is the default user; none if the primary requires no
    /// authentication.
    pub credentials: Option<(Option<Vec<u8>>, Vec<u8>)>,
    /// The port at which other servers can connect to this server.
    pub port: u32,
    /// The address at which other servers can connect to this server, if it is not the one that the primary sees.
    pub address: Option<Vec<u8>>,
    /// This server can load the dumps of this version of Valkey.
    pub version: &'static str,
    /// The id of the stream that this server has, and its offset in it; none if it has no stream.
    pub has: Option<(Id, u64)>,
    /// This server hands its role over to the other side.
    pub hands_over: bool,
}

/// The events of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'b> {
    /// The primary does not know an optional statement of the handshake; this is its reply.
    Note(String),
    /// The other side refuses to take over the role; this is its reply.
    TakesNoRole(String),
    /// A partial sync: the stream continues at the requested offset. It has a new id if one is given.
    Continues(Option<Id>),
    /// A full sync: all data follows, and after it the stream.
    Anew {
        /// The id of the stream.
        id: Id,
        /// The offset in the stream up to which the dump contains the changes.
        offset: u64,
    },
    /// The dump begins.
    DumpBegins(Size),
    /// A part of the dump.
    Part(&'b [u8]),
    /// The dump is complete; the stream follows.
    DumpEnds,
}

/// The request that the next line of the primary answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Ping,
    Auth,
    /// A statement about this server (REPLCONF) that the primary need not know.
    Conf(&'static str),
    Psync,
}

#[derive(Debug)]
enum Phase {
    /// The handshake: requests are sent, and each is answered by a line.
    Asking,
    /// The line before the dump is expected.
    BeforeDump,
    Dump(Dump),
    Streaming,
}

/// The state of one connection to a primary.
#[derive(Debug)]
pub struct Link {
    introduction: Introduction,
    asked: VecDeque<Question>,
    phase: Phase,
    line: Vec<u8>,
}

impl Link {
    /// Begins the handshake: appends the first request to `out`.
    pub fn begin(introduction: Introduction, out: &mut Vec<u8>) -> Self {
        request(out, &[b"PING"]);
        let asked = VecDeque::from([Question::Ping]);
        Self { introduction, asked, phase: Phase::Asking, line: Vec::new() }
    }

    /// Returns whether all further bytes are the stream.
    pub fn is_streaming(&self) -> bool {
        matches!(self.phase, Phase::Streaming)
    }

    /// Takes received bytes before the stream, up to the first event. Returns the number of bytes taken, and the event. The
    /// bytes to send are appended to `out`.
    ///
    /// The caller calls it again with the remaining bytes, and once more without any, until no bytes are taken and no event
    /// is returned.
    ///
    /// # Errors
    /// The reason for which the connection cannot be used any more.
    pub fn receive<'b>(
        &'b mut self,
        bytes: &'b [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Event<'b>>), LinkError> {
        if let Phase::Dump(dump) = &self.phase
            && dump.is_whole()
        {
            self.phase = Phase::Streaming;
            return Ok((0, Some(Event::DumpEnds)));
        }
        match self.phase {
            Phase::Streaming => Ok((0, None)),
            Phase::Dump(ref mut dump) => {
                let (used, part) = dump.receive(bytes);
                Ok((used, (!part.is_empty()).then_some(Event::Part(part))))
            }
            Phase::Asking | Phase::BeforeDump => {
                let end = memchr::memchr(b'\n', bytes);
                let used = end.map_or(bytes.len(), |end| end + 1);
                self.line.extend_from_slice(bytes.get(..used).unwrap_or_default());
                if self.line.len() > LINE_BYTES_MAX {
                    return Err(LinkError::foreign("it has sent a line that does not end"));
                }
                if end.is_none() {
                    return Ok((used, None));
                }
                let line = std::mem::take(&mut self.line);
                let line = line.trim_ascii_end();
                // An empty line is a sign of life of the primary.
                let event = if line.is_empty() { None } else { self.heed(line, out)? };
                Ok((used, event))
            }
        }
    }

    fn heed(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<Option<Event<'static>>, LinkError> {
        if matches!(self.phase, Phase::BeforeDump) {
            let dump = Dump::begin(line)?;
            let size = dump.size();
            self.phase = Phase::Dump(dump);
            return Ok(Some(Event::DumpBegins(size)));
        }
        let mut note = None;
        match self.asked.pop_front() {
            Some(Question::Ping) => {
                check_pong(line)?;
                self.introduce(out);
            }
            Some(Question::Auth) if line.starts_with(b"+") => {}
            Some(Question::Auth) => {
                return Err(LinkError::foreign(format!("Unable to AUTH to MASTER: {}", shown(line))));
            }
            Some(Question::Conf(_)) if line.starts_with(b"+") => {}
            Some(Question::Conf(what)) if line.starts_with(b"-") => {
                note = Some(Event::Note(format!("MASTER does not know REPLCONF {what}: {}", shown(line))));
            }
            Some(Question::Conf(_)) | None => return Err(unexpected(line)),
            Some(Question::Psync) => return self.heed_psync(line).map(Some),
        }
        if self.asked.is_empty() {
            self.ask_for_stream(out);
        }
        Ok(note)
    }

    /// Introduces this server, with all requests at once.
    fn introduce(&mut self, out: &mut Vec<u8>) {
        let Introduction { credentials, port, address, version, .. } = &self.introduction;
        if let Some((user, password)) = credentials {
            match user {
                Some(user) => request(out, &[b"AUTH", user, password]),
                None => request(out, &[b"AUTH", password]),
            }
            self.asked.push_back(Question::Auth);
        }
        let mut say = |what: &'static str, words: &[&[u8]]| {
            request(out, &[&[b"REPLCONF".as_slice()], words].concat());
            self.asked.push_back(Question::Conf(what));
        };
        say("listening-port", &[b"listening-port", Digits::new(i64::from(*port)).as_bytes()]);
        if let Some(address) = address {
            say("ip-address", &[b"ip-address", address]);
        }
        // The last capability is Sleeve's own: a primary that does not know it ignores it.
        say("capa", &[b"capa", b"eof", b"capa", b"psync2", b"capa", b"rdb13"]);
        say("version", &[b"version", version.as_bytes()]);
    }

    fn ask_for_stream(&mut self, out: &mut Vec<u8>) {
        match self.introduction.has {
            // An offset in the protocol is the number of the next byte, and the first byte has number 1.
            Some((id, offset)) => {
                let next = offset.saturating_add(1).to_string();
                let words = [b"PSYNC", id.as_str().as_bytes(), next.as_bytes(), b"FAILOVER"];
                request(out, if self.introduction.hands_over { &words } else { &words[..3] });
            }
            None => request(out, &[b"PSYNC", b"?", b"-1"]),
        }
        self.asked.push_back(Question::Psync);
    }

    fn heed_psync(&mut self, line: &[u8]) -> Result<Event<'static>, LinkError> {
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            [b"+FULLRESYNC", id, offset] => {
                let id = Id::parse(id).ok_or_else(|| unexpected(line))?;
                let offset = number::parse_i64(offset).and_then(|offset| u64::try_from(offset).ok());
                let offset = offset.filter(|&offset| offset <= OFFSET_MAX);
                self.phase = Phase::BeforeDump;
                Ok(Event::Anew { id, offset: offset.ok_or_else(|| unexpected(line))? })
            }
            [b"+CONTINUE", id @ ..] if self.introduction.has.is_some() && id.len() <= 1 => {
                let id = id.first().map(|id| Id::parse(id).ok_or_else(|| unexpected(line))).transpose()?;
                self.phase = Phase::Streaming;
                Ok(Event::Continues(id))
            }
            _ if line.starts_with(b"-") && self.introduction.hands_over => Ok(Event::TakesNoRole(shown(line))),
            [b"-NOMASTERLINK" | b"-LOADING", ..] => {
                Err(LinkError::passing(format!("it cannot serve replicas now: {}", shown(line))))
            }
            _ if line.starts_with(b"-") => {
                Err(LinkError::foreign(format!("it does not serve replicas: {}", shown(line))))
            }
            _ => Err(unexpected(line)),
        }
    }
}

/// Checks that the other side is a primary that answers requests. An answer that demands authentication counts, too.
fn check_pong(line: &[u8]) -> Result<(), LinkError> {
    let is_good = line.starts_with(b"+")
        || [b"-NOAUTH".as_slice(), b"-NOPERM", b"-ERR operation not permitted"]
            .iter()
            .any(|good| line.starts_with(good));
    match line.starts_with(b"-") {
        _ if is_good => Ok(()),
        true => Err(LinkError::passing(format!("it answers PING with an error: {}", shown(line)))),
        false => Err(unexpected(line)),
    }
}

fn unexpected(line: &[u8]) -> LinkError {
    LinkError::foreign(format!("it gives no answer of a primary: '{}'", shown(line)))
}

/// Returns a line for the server log, with special characters replaced.
fn shown(line: &[u8]) -> String {
    line.escape_ascii().to_string()
}

fn request(out: &mut Vec<u8>, words: &[&[u8]]) {
    let mut writer = Writer::new(out, Protocol::Resp2);
    writer.array(words.len());
    writer.bulks(words);
}

#[cfg(test)]
mod tests;
