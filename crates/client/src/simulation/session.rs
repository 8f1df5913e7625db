//! The server's side of a connection, and the words that travel on it.

use sleeve_wire::frame::{Frame, Scanner, decode};

use super::server::Key;

/// The server's side of one connection.
pub(super) struct Session {
    pub(super) number: u64,
    pub(super) node: usize,
    pub(super) life: u64,
    pub(super) buffer: Vec<u8>,
    pub(super) scanner: Scanner,
    pub(super) database: u32,
    pub(super) resp3: bool,
    pub(super) queued: Option<Vec<Vec<Vec<u8>>>>,
    /// True if a command of the transaction was refused.
    pub(super) is_spoilt: bool,
    /// True after ASKING: the next command may be about a slot that is being moved to this server.
    pub(super) is_asking: bool,
    /// True if the server remembers the key of the next command (CLIENT CACHING YES).
    pub(super) is_caching: bool,
    pub(super) watched: Vec<(Key, u64)>,
    /// The lists that the session waits for, with the time at which the wait ends.
    pub(super) waits: Option<(Vec<Vec<u8>>, Option<u64>)>,
    /// The bytes that are to be sent.
    pub(super) said: Vec<u8>,
}

impl Session {
    pub(super) fn say(&mut self, reply: &str) {
        self.said.extend_from_slice(reply.as_bytes());
    }

    pub(super) fn bulk(&mut self, text: Option<&[u8]>) {
        match text {
            Some(text) => {
                self.say(&format!("${}\r\n", text.len()));
                self.said.extend_from_slice(text);
                self.say("\r\n");
            }
            None => self.say(if self.resp3 { "_\r\n" } else { "$-1\r\n" }),
        }
    }

    /// Returns the time at which the session's wait ends, if it waits.
    pub(super) fn waits_until_us(&self) -> Option<u64> {
        self.waits.as_ref().and_then(|(_, until_us)| *until_us)
    }
}

pub(super) fn number(text: &[u8]) -> i64 {
    String::from_utf8_lossy(text).parse().expect("a number")
}

/// Returns the words of a request.
pub(super) fn words(request: &[u8]) -> Vec<Vec<u8>> {
    let Ok((Frame::Array(items), _)) = decode(request) else { return Vec::new() };
    let word = |item| match item {
        Ok(Frame::Bulk(word)) => word.to_vec(),
        _ => Vec::new(),
    };
    items.map(word).collect()
}
