//! Reaching a server: its names looked up, its addresses tried, a stream that does not block.
//!
//! Several addresses are tried as RFC 8305 has it: one that has not answered for a moment is joined by the next, and the
//! first that answers is taken. Names are looked up on a thread of their own, because the system's look-up cannot be bounded.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, connect, sockopt};

use super::attempt::Attempt;
use super::socket::{Bell, Socket, wait_for};
#[cfg(feature = "tls")]
use super::tls_stream::Seal;
#[cfg(not(feature = "tls"))]
use crate::config::no_tls::Seal;
use crate::config::{Config, Endpoint};
use crate::sys::{stream, timespec};

/// How long an address may take before the next one is tried beside it.
const HEAD_START_MAX: Duration = Duration::from_millis(250);

/// Between two tries at a server whose queue of connections is full.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(5);

/// After how long without a word the kernel asks whether the peer's is still there, how often it asks again, and the pause.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(1);
const KEEPALIVE_COUNT: u32 = 4;

/// Opens a stream to the server. The bell is that of the thread which waits for it.
pub(crate) fn dial(config: &Config, bell: &Bell, attempt: &mut Attempt<'_>) -> io::Result<Socket> {
    match &config.endpoint {
        Endpoint::Tcp { host, port } => {
            let fd = tcp(host, *port, attempt)?;
            let seal = match &config.tls {
                None => None,
                Some(tls) => {
                    let wait = |flags| wait_for(&mut [PollFd::new(&fd, flags)], Some(&timespec(attempt.slice()?)));
                    Some((Seal::handshake_with(&fd, tls, host, wait)?, bell.twin()?))
                }
            };
            Ok(Socket::new(fd, seal))
        }
        Endpoint::Unix(path) => Ok(Socket::new(unix(path, attempt)?, None)),
        Endpoint::Embedded(_) => Err(io::Error::other("an embedded engine has no socket")),
    }
}

/// A stream to one of the host's addresses.
fn tcp(host: &str, port: u16, attempt: &mut Attempt<'_>) -> io::Result<OwnedFd> {
    let addresses = look_up(host, port, attempt)?;
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")));
    }
    let stream = race(&addresses, attempt)?;
    sockopt::set_tcp_nodelay(&stream, true)?;
    watch_peer(&stream)?;
    Ok(stream)
}

/// A stream to a Unix socket.
fn unix(path: &Path, attempt: &mut Attempt<'_>) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let stream = stream(AddressFamily::UNIX)?;
    loop {
        match connect(&stream, &address) {
            Ok(()) => return Ok(stream),
            Err(Errno::INTR) => {}
            // The server's queue of connections is full, and nothing tells when it no longer is.
            Err(Errno::AGAIN) => thread::sleep(attempt.slice()?.min(FULL_QUEUE_PAUSE)),
            Err(error) => return Err(error.into()),
        }
    }
}

fn look_up(host: &str, port: u16, attempt: &mut Attempt<'_>) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let (sender, receiver) = channel();
    let place = (host.to_owned(), port);
    let look_up = move || {
        let addresses = (place.0.as_str(), place.1).to_socket_addrs().map(Iterator::collect);
        // It fails when the attempt was over before the look-up.
        let _ = sender.send(addresses);
    };
    thread::Builder::new().name("sleeve-names".to_owned()).spawn(look_up)?;
    loop {
        match receiver.recv_timeout(attempt.slice()?) {
            Ok(addresses) => {
                let failed = |error: io::Error| io::Error::new(error.kind(), format!("{host} is not found: {error}"));
                return addresses.map_err(failed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other(format!("{host} was not looked up"))),
        }
    }
}

/// The first of the addresses that takes the connection.
fn race(addresses: &[SocketAddr], attempt: &mut Attempt<'_>) -> io::Result<OwnedFd> {
    let head_start = HEAD_START_MAX.min(attempt.left() / (2 * u32::try_from(addresses.len()).unwrap_or(u32::MAX)));
    let (mut untried, mut racing, mut next_at) = (addresses.iter(), Vec::new(), Instant::now());
    let mut refusal = io::Error::from(io::ErrorKind::NotFound);
    loop {
        if Instant::now() >= next_at || racing.is_empty() {
            match untried.next().map(begin) {
                Some(Ok(stream)) => racing.push(stream),
                Some(Err(error)) => refusal = error,
                None if racing.is_empty() => return Err(refusal),
                None => {}
            }
            next_at = Instant::now() + head_start;
        }
        if racing.is_empty() {
            continue;
        }
        let slice = attempt.slice()?;
        let slice =
            if untried.len() > 0 { slice.min(next_at.saturating_duration_since(Instant::now())) } else { slice };
        match settled(&mut racing, slice)? {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => {
                refusal = error;
                next_at = Instant::now();
            }
            None => {}
        }
    }
}

/// Begins to connect.
fn begin(address: &SocketAddr) -> io::Result<OwnedFd> {
    let stream = stream(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
    match connect(&stream, address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(stream),
        Err(error) => Err(error.into()),
    }
}

/// Waits for one of them to be connected or refused, and takes it out.
fn settled(racing: &mut Vec<OwnedFd>, slice: Duration) -> io::Result<Option<io::Result<OwnedFd>>> {
    let mut fds: Vec<PollFd<'_>> = racing.iter().map(|stream| PollFd::new(stream, PollFlags::OUT)).collect();
    wait_for(&mut fds, Some(&timespec(slice)))?;
    let Some(index) = fds.iter().position(|fd| !fd.revents().is_empty()) else { return Ok(None) };
    drop(fds);
    let stream = racing.swap_remove(index);
    let outcome = sockopt::socket_error(&stream)?;
    Ok(Some(outcome.map(|()| stream).map_err(io::Error::from)))
}

/// Has the kernel notice a peer's machine that is gone without a word. A process that has stopped, it does not notice. How
/// long bytes stay unacknowledged is no sign: a server that is busy for long takes none.
fn watch_peer(stream: &impl AsFd) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_PAUSE)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_COUNT)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net::{bind, getsockname, listen};

    use super::*;

    /// A server whose queue of connections is full: the kernel drops whatever else comes, as a firewall would.
    fn black_hole() -> (OwnedFd, Vec<OwnedFd>, SocketAddr) {
        let listener = stream(AddressFamily::INET).expect("a socket");
        bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        listen(&listener, 0).expect("a listener");
        let address = SocketAddr::try_from(getsockname(&listener).expect("its address")).expect("of the internet");
        let waiting = (0..4).map(|_| begin(&address).expect("a beginning")).collect();
        (listener, waiting, address)
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs sockets")]
    fn the_second_address_is_reached_while_the_first_drops_everything() {
        let (_listener, _waiting, hole) = black_hole();
        let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = server.local_addr().expect("its address");
        let mut tick = || Some(Duration::from_millis(50));
        let stream = race(&[hole, address], &mut Attempt::new(Duration::from_secs(30), &mut tick));
        let peer = rustix::net::getpeername(stream.expect("a connection")).expect("its peer").expect("of the internet");
        assert_eq!(SocketAddr::try_from(peer), Ok(address));
        let since = Instant::now();
        let error = race(&[hole], &mut Attempt::new(Duration::from_millis(300), &mut tick)).expect_err("nobody");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs sockets")]
    fn whoever_no_longer_wants_it_need_not_wait() {
        let (_listener, _waiting, hole) = black_hole();
        let mut ticks = 3;
        let mut tick = || {
            ticks -= 1;
            (ticks > 0).then_some(Duration::from_millis(1))
        };
        assert!(race(&[hole], &mut Attempt::new(Duration::MAX, &mut tick)).is_err());
    }
}
