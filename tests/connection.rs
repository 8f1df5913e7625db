//! A blocking connection that sends bytes and reads whole replies as the bytes that came.
//!
//! It refuses to decode: a test compares what was on the wire. Replies are cut by their own framing in
//! RESP2 and RESP3, and what has arrived beyond a reply is kept for the next. One thread uses it at a time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A reply that is not here after this time is an error, in seconds: a test must end even if a server hangs.
const REPLY_SECONDS_MAX: u64 = 60;

/// A peer that nests deeper than this is broken.
const DEPTH_MAX: usize = 64;

/// One connection to a server under test.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// How much of `received` has been given out.
    taken: usize,
}

impl Connection {
    /// Connects, without Nagle's delay.
    ///
    /// # Errors
    /// What the socket reports.
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(REPLY_SECONDS_MAX)))?;
        Ok(Connection { stream, received: Vec::new(), taken: 0 })
    }

    /// Sends a request of these arguments and returns its reply as it came.
    ///
    /// # Errors
    /// What the socket reports; `UnexpectedEof` when the server closed the connection.
    pub fn command<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<Vec<u8>> {
        self.send(&request(arguments))?;
        self.reply()
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// What the socket reports.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next whole reply (or push) as it came.
    ///
    /// # Errors
    /// What the socket reports, `UnexpectedEof` when the server closed the connection, `InvalidData` for
    /// bytes that are no reply.
    pub fn reply(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(length) = frame_length(&self.received[self.taken..], 0)? {
                let reply = self.received[self.taken..self.taken + length].to_vec();
                self.taken += length;
                return Ok(reply);
            }
            self.receive()?;
        }
    }

    /// The next whole reply, if one is complete within `limit`; used to show that nothing comes.
    ///
    /// # Errors
    /// As [`Connection::reply`].
    pub fn reply_within(&mut self, limit: Duration) -> io::Result<Option<Vec<u8>>> {
        self.stream.set_read_timeout(Some(limit))?;
        let reply = self.reply();
        self.stream.set_read_timeout(Some(Duration::from_secs(REPLY_SECONDS_MAX)))?;
        match reply {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Everything up to the end of the connection, for peers that close it.
    ///
    /// # Errors
    /// What the socket reports; a reset counts as the end.
    pub fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        loop {
            match self.receive() {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
                    self.received.drain(..std::mem::take(&mut self.taken));
                    return Ok(std::mem::take(&mut self.received));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The socket itself, for a test that needs to shut one direction or read its address.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn receive(&mut self) -> io::Result<()> {
        self.received.drain(..std::mem::take(&mut self.taken));
        let mut chunk = [0; 64 * 1024];
        let count = self.stream.read(&mut chunk)?;
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        self.received.extend_from_slice(&chunk[..count]);
        Ok(())
    }
}

/// A request of these arguments in the form that every client sends.
pub fn request<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The length of the first reply in `bytes`, or `None` while it is incomplete.
fn frame_length(bytes: &[u8], depth: usize) -> io::Result<Option<usize>> {
    if depth > DEPTH_MAX {
        return Err(broken("a reply is nested too deeply"));
    }
    let Some(line_end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (kind, number) = (bytes[0], &bytes[1..line_end]);
    let body = line_end + 2;
    let items = match kind {
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => return Ok(Some(body)),
        b'$' | b'=' | b'!' => {
            let length = match parse_length(number)? {
                Some(length) => body + length + 2,
                None => body,
            };
            return Ok((bytes.len() >= length).then_some(length));
        }
        b'*' | b'~' | b'>' => parse_length(number)?.unwrap_or(0),
        b'%' => 2 * parse_length(number)?.unwrap_or(0),
        // An attribute precedes the reply that it describes: its pairs and one more.
        b'|' => 2 * parse_length(number)?.unwrap_or(0) + 1,
        _ => return Err(broken("a reply begins with an unknown byte")),
    };
    let mut end = body;
    for _ in 0..items {
        match frame_length(&bytes[end..], depth + 1)? {
            Some(length) => end += length,
            None => return Ok(None),
        }
    }
    Ok(Some(end))
}

/// A length as sent; -1 is "none".
fn parse_length(digits: &[u8]) -> io::Result<Option<usize>> {
    if digits == b"-1" {
        return Ok(None);
    }
    let text = std::str::from_utf8(digits).map_err(|_| broken("a length is no number"))?;
    text.parse().map(Some).map_err(|_| broken("a length is no number"))
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
