//! The address of a server and the login to it, for the tools that use a socket themselves.
//!
//! `bench` and `cli` take redis-benchmark's and redis-cli's address options (`-h -p -s -a --user -u -3`). This file turns
//! them into a connected, authenticated stream. It refuses to be a client: it sends a few requests and waits for their
//! replies before anything else is sent. Used from any thread; nothing is shared.

pub mod address;
mod tls_stream;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use tls_stream::TlsStream;

use crate::replies::Replies;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A host name or address, and a port.
    Tcp {
        /// Name or address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A TCP address that is spoken to with TLS.
    Tls {
        /// Name or address.
        host: String,
        /// TCP port.
        port: u16,
        /// The certificates to trust and to show.
        tls: Box<sleeve::Tls>,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// Returns the end point of a single server.
    pub fn new(place: sleeve::Endpoint, tls: Option<sleeve::Tls>) -> Result<Self, String> {
        match (place, tls) {
            (sleeve::Endpoint::Tcp { host, port }, None) => Ok(Self::Tcp { host, port }),
            (sleeve::Endpoint::Tcp { host, port }, Some(tls)) => Ok(Self::Tls { host, port, tls: Box::new(tls) }),
            (sleeve::Endpoint::Unix(path), _) => Ok(Self::Unix(path)),
            (place, _) => Err(format!("{place} is no single server")),
        }
    }

    /// Returns the same kind of server at another place: TLS stays TLS.
    pub fn elsewhere(&self, host: String, port: u16) -> Self {
        match self {
            Self::Tls { tls, .. } => Self::Tls { host, port, tls: tls.clone() },
            Self::Tcp { .. } | Self::Unix(_) => Self::Tcp { host, port },
        }
    }

    /// Connects, and blocks until the connection is established. Nagle's delay is off.
    pub fn connect(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp { host, port } => tcp(host, *port).map(Stream::Tcp),
            Self::Tls { host, port, tls } => {
                let stream = TlsStream::new(tcp(host, *port)?, tls, host)?;
                Ok(Stream::Tls(Box::new(stream)))
            }
            Self::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path)?)),
        }
    }
}

fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { host, port } | Self::Tls { host, port, .. } if host.contains(':') => {
                write!(f, "[{host}]:{port}")
            }
            Self::Tcp { host, port } | Self::Tls { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A connected byte stream of any kind.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over TCP with TLS.
    Tls(Box<TlsStream>),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Switches between blocking and non-blocking calls.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(on),
            Self::Tls(stream) => {
                stream.set_nonblocking(on);
                Ok(())
            }
            Self::Unix(stream) => stream.set_nonblocking(on),
        }
    }

    /// Sets the timeout of a read; with `None` a read waits for ever.
    pub fn set_read_timeout(&self, limit: Option<std::time::Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(limit),
            Self::Tls(stream) => {
                stream.set_read_timeout(limit);
                Ok(())
            }
            Self::Unix(stream) => stream.set_read_timeout(limit),
        }
    }

    /// Returns the stream's own address and the peer's, if they have addresses.
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let stream = match self {
            Self::Unix(_) => return None,
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.stream(),
        };
        Some((stream.local_addr().ok()?, stream.peer_addr().ok()?))
    }

    /// Returns whether the peer runs on this machine: a Unix socket, or the same address at both ends.
    pub fn is_local(&self) -> bool {
        match self.addresses() {
            Some((here, there)) => here.ip() == there.ip() || there.ip().is_loopback(),
            None => matches!(self, Self::Unix(_)),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).read(into),
            Stream::Tls(stream) => stream.read(into),
            Stream::Unix(stream) => (&mut &*stream).read(into),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// The requests that a connection sends first: protocol, credentials, database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// User name; `None` is the default user.
    pub user: Option<String>,
    /// Password; `None` sends no credentials.
    pub password: Option<String>,
    /// Database number; 0 sends no SELECT.
    pub database: u32,
    /// True if the connection is to switch to RESP3.
    pub resp3: bool,
    /// True if the server shall track the keys that are read (CLIENT TRACKING).
    pub tracking: bool,
}

impl Login {
    /// Refuses a user without a password: there would be nothing to send.
    pub fn check(&self) -> Result<(), String> {
        match (&self.user, &self.password) {
            (Some(_), None) => Err("--user needs a password: give one with -a".to_owned()),
            _ => Ok(()),
        }
    }

    /// Returns the requests of this login as bytes, and the number of replies to expect.
    pub fn requests(&self) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        let mut count = 0;
        if let Some(password) = &self.password {
            match &self.user {
                Some(user) => encode(&["AUTH", user, password], &mut out),
                None => encode(&["AUTH", password], &mut out),
            }
            count += 1;
        }
        if self.resp3 {
            encode(&["HELLO", "3"], &mut out);
            count += 1;
        }
        if self.database != 0 {
            encode(&["SELECT", &self.database.to_string()], &mut out);
            count += 1;
        }
        if self.tracking {
            encode(&["CLIENT", "TRACKING", "ON"], &mut out);
            count += 1;
        }
        (out, count)
    }

    /// Connects to `endpoint` and logs in. An error reply of the server becomes an error of kind `Other`.
    pub fn connect(&self, endpoint: &Endpoint) -> io::Result<Stream> {
        let stream = endpoint.connect()?;
        let (requests, count) = self.requests();
        exchange(&stream, &requests, count)?;
        Ok(stream)
    }
}

/// Returns the client library's configuration for an address. The named address is used as it is: the way to it is measured,
/// so a proxy of ours that makes the way longer must not be bypassed by a Unix socket.
pub fn client_config(endpoint: &Endpoint, login: &Login) -> sleeve::Config {
    let mut config = sleeve::Config::new(match endpoint {
        Endpoint::Tcp { host, port } | Endpoint::Tls { host, port, .. } => {
            sleeve::Endpoint::Tcp { host: host.clone(), port: *port }
        }
        Endpoint::Unix(path) => sleeve::Endpoint::Unix(path.clone()),
    });
    if let Endpoint::Tls { tls, .. } = endpoint {
        config = config.tls(sleeve::Tls::clone(tls));
    }
    if let Some(user) = &login.user {
        config = config.user(user);
    }
    if let Some(password) = &login.password {
        config = config.password(password);
    }
    config.database(login.database).unix_socket(false)
}

/// Returns the error for a server that has closed a connection. A server that has sent nothing before may speak TLS: some
/// close such a port without a word when the bytes that arrive are not TLS.
pub fn hung_up(stream: &Stream, has_heard: bool, kind: io::ErrorKind) -> io::Error {
    let message = match stream {
        Stream::Tcp(_) if !has_heard => {
            "Server closed the connection before it said anything; if this port speaks TLS, add --tls"
        }
        _ => "Server closed the connection",
    };
    io::Error::new(kind, message)
}

/// The most bytes that are kept of the replies to a few requests.
const RECEIVED_MAX: usize = 64 << 20;

/// Sends `requests` and returns the bytes of `count` replies; an error among them becomes an error of kind `Other`.
pub fn exchange(mut stream: &Stream, requests: &[u8], count: usize) -> io::Result<Vec<u8>> {
    let mut replies = Replies::default();
    let mut received = Vec::new();
    let mut seen = 0;
    if count > 0 {
        stream.write_all(requests)?;
    }
    let mut chunk = [0; 4096];
    while seen < count {
        let length = match stream.read(&mut chunk) {
            Ok(0) => return Err(hung_up(stream, !received.is_empty(), io::ErrorKind::UnexpectedEof)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return Err(hung_up(stream, !received.is_empty(), error.kind()));
            }
            // A stop of the process (Ctrl-Z and fg) ends a receive of the doctor, whose socket has a timeout.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            outcome => outcome?,
        };
        if received.len() > RECEIVED_MAX {
            let message = format!("Server answers with more than {RECEIVED_MAX} bytes where few are due");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let bytes = chunk.get(..length).unwrap_or_default();
        received.extend_from_slice(bytes);
        seen += replies.count(bytes)?;
    }
    match replies.first_error() {
        Some(text) => Err(io::Error::other(text.to_owned())),
        None => Ok(received),
    }
}

/// Appends one request in multibulk form.
pub fn encode<T: AsRef<[u8]>>(arguments: &[T], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    for argument in arguments {
        let bytes = argument.as_ref();
        out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
}

/// Returns the message for a server that cannot be reached.
pub fn cannot_connect(endpoint: &Endpoint, error: &io::Error) -> String {
    format!("Could not connect to Redis at {endpoint}: {}", without_number(error))
}

/// Returns the system's words for an error, without the number that the standard library adds.
pub fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_sends_only_the_requested_commands() {
        assert_eq!(Login::default().requests(), (Vec::new(), 0));
        let login = Login { password: Some("p".into()), database: 2, ..Login::default() };
        let expected = b"*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n".to_vec();
        assert_eq!(login.requests(), (expected, 2));
    }

    #[test]
    fn addresses_print_as_redis_cli_prints_them() {
        assert_eq!(Endpoint::Tcp { host: "::1".into(), port: 1 }.to_string(), "[::1]:1");
        assert_eq!(Endpoint::Unix("/run/s".into()).to_string(), "/run/s");
    }
}
