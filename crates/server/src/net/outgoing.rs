//! A connection that this server opens; the calling thread waits for its bytes with a timeout.
//!
//! It is plain or under TLS, with the same calls. One thread.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

#[cfg(test)]
use crate::host::simulated;

/// The least timeout of a socket, because zero would mean none.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// A connection to another server.
#[derive(Debug)]
pub enum Outgoing {
    /// A connection without TLS.
    Plain(TcpStream),
    /// A connection under TLS.
    Sealed(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Outgoing {
    /// Connects to the first address of `host` that answers in time. Names are looked up by the system, which has a timeout
    /// of its own.
    ///
    /// # Errors
    /// The name has no address, or none answers in time.
    pub fn connect(host: &str, port: u16, timeout: Duration, tls: Option<Arc<ClientConfig>>) -> io::Result<Self> {
        #[cfg(test)]
        if let Some(connected) = simulated::connect(host, port) {
            return connected.map(|socket| Self::Plain(TcpStream::from(socket)));
        }
        let begun = Instant::now();
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in (host, port).to_socket_addrs()? {
            let left = timeout.saturating_sub(begun.elapsed()).max(WAIT_MIN);
            match TcpStream::connect_timeout(&address, left) {
                Ok(socket) => return Self::over(socket, host, timeout, tls),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn over(socket: TcpStream, host: &str, timeout: Duration, tls: Option<Arc<ClientConfig>>) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(timeout.max(WAIT_MIN)))?;
        let Some(config) = tls else { return Ok(Self::Plain(socket)) };
        let name =
            ServerName::try_from(host.to_owned()).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Self::Sealed(Box::new(StreamOwned::new(connection, socket))))
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Sealed(stream) => stream.get_ref(),
        }
    }

    /// Waits for bytes for so long. Returns how many have arrived; 0 if none have.
    ///
    /// # Errors
    /// The connection has ended, or is broken.
    pub fn read(&mut self, into: &mut [u8], timeout: Duration) -> io::Result<usize> {
        #[cfg(test)]
        if simulated::is_on() {
            let is_silent = |peeked: io::Result<usize>| peeked.is_err_and(|why| why.kind() == ErrorKind::WouldBlock);
            simulated::wait_until(timeout, || !is_silent(self.socket().peek(&mut [0])));
        }
        self.socket().set_read_timeout(Some(timeout.max(WAIT_MIN)))?;
        let read = match self {
            Self::Plain(socket) => socket.read(into),
            Self::Sealed(stream) => stream.read(into),
        };
        match read {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the other side has closed the connection")),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                Ok(0)
            }
            read => read,
        }
    }

    /// Sends all of these bytes.
    ///
    /// # Errors
    /// The connection is broken, or the other side takes nothing for too long.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Sealed(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}
