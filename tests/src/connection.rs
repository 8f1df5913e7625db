//! A blocking connection that sends bytes and reads whole replies as the bytes that came.
//!
//! It does not decode: a test compares the bytes on the wire. Replies are cut by their own framing in RESP2 and RESP3,
//! however long they are, and bytes beyond a reply are kept for the next. One thread uses it at a time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use sleeve_wire::frame::Scanner;

/// The timeout of a reply, in seconds: a test must end even if a server hangs.
const REPLY_SECONDS_MAX: u64 = 60;

/// A connection to a server under test.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// The number of bytes of `received` that have been given out.
    taken: usize,
    /// The state of the search for the end of the next reply.
    scanner: Scanner,
}

impl Connection {
    /// Connects, without Nagle's delay.
    ///
    /// # Errors
    /// The errors of the socket.
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(REPLY_SECONDS_MAX)))?;
        Ok(Connection { stream, received: Vec::new(), taken: 0, scanner: Scanner::new() })
    }

    /// Sends a request of these arguments and returns its reply as it came.
    ///
    /// # Errors
    /// The errors of the socket; `UnexpectedEof` when the server closed the connection.
    pub fn command<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<Vec<u8>> {
        self.send(&request(arguments))?;
        self.reply()
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The errors of the socket.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Returns the next whole reply (or push) as it came.
    ///
    /// # Errors
    /// The errors of the socket, `UnexpectedEof` when the server closed the connection, `InvalidData` for bytes that are no
    /// reply.
    pub fn reply(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let next = self.scanner.scan(&self.received[self.taken..]);
            if let Some(length) = next.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))? {
                let reply = self.received[self.taken..self.taken + length].to_vec();
                self.taken += length;
                return Ok(reply);
            }
            self.receive()?;
        }
    }

    /// Returns the next whole reply, if one is complete within `limit`; used to show that nothing comes.
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

    /// Reads everything up to the end of the connection, for peers that close it.
    ///
    /// # Errors
    /// The errors of the socket; a reset counts as the end.
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

    /// Returns the socket itself, for a test that needs to shut one direction or read its address.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn receive(&mut self) -> io::Result<()> {
        self.received.drain(..std::mem::take(&mut self.taken));
        let mut chunk = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
                Ok(count) => {
                    self.received.extend_from_slice(&chunk[..count]);
                    return Ok(());
                }
                // A receive with a timeout is not restarted after the process was stopped for a moment.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns a request of these arguments in the form that every client sends.
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
