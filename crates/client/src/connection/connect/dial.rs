//! Opening a stream to a server: the look-up of its name, the attempts at its addresses, a stream that does not block.
//!
//! Several addresses are tried as RFC 8305 has it: if one has not answered for a moment, the next is tried beside it, and the
//! first that answers is taken. Nothing here blocks: every slow step is awaited in a task of the reactor.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, connect, sockopt};

use super::attempt::Attempt;
use super::names;
#[cfg(not(feature = "tls"))]
use super::questions::Answer;
use super::refusal::HANDSHAKE_UNANSWERED;
use super::socket::{Socket, wait_for};
#[cfg(feature = "tls")]
use super::tls_session::{Handshake, read_files};
#[cfg(not(feature = "tls"))]
use crate::config::no_tls::{Handshake, Tls};
#[cfg(feature = "tls")]
use crate::config::tls::Tls;
use crate::config::{Config, Endpoint};
use crate::reactor::task_context::{TaskContext, WatchedStream};
use crate::sys::{now, simulated_stream, stream, timespec};

/// The time that an address may take before the next one is tried beside it.
const HEAD_START_MAX: Duration = Duration::from_millis(250);

/// The pause between two attempts at a server with a full queue of connections.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(5);

/// The keepalive settings: the silence after which the kernel probes the peer, the pause between two probes, and their
/// number.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(1);
const KEEPALIVE_COUNT: u32 = 4;

/// Opens a stream to the server, for the task of this context.
pub(crate) async fn dial(config: &Config, context: &TaskContext, attempt: &mut Attempt<'_>) -> io::Result<Socket> {
    match &config.endpoint {
        Endpoint::Tcp { host, port } => dial_host(config, host, *port, context, attempt).await,
        Endpoint::Unix(path) => Ok(Socket::new(unix(path, context, attempt).await?, None)),
        Endpoint::Cluster(_) => Err(io::Error::other("a cluster is several servers, and each has a socket of its own")),
        Endpoint::Sentinel { .. } => Err(io::Error::other("nobody has said where the service is")),
        Endpoint::Embedded(_) => Err(io::Error::other("an embedded engine has no socket")),
    }
}

/// Opens a stream to this host, with or without TLS as the configuration says.
pub(crate) async fn dial_host(
    config: &Config,
    host: &str,
    port: u16,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> io::Result<Socket> {
    let fd = tcp(host, port, context, attempt).await?;
    match &config.tls {
        None => Ok(Socket::new(fd, None)),
        Some(tls) => start_tls(fd, tls, host, context, attempt).await,
    }
}

/// Opens a stream to one of the host's addresses.
async fn tcp(host: &str, port: u16, context: &TaskContext, attempt: &mut Attempt<'_>) -> io::Result<OwnedFd> {
    let addresses = look_up(host, port, context, attempt).await?;
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")));
    }
    race(&addresses, context, attempt).await
}

/// Reads the files of a handshake in a build without TLS: none.
#[cfg(not(feature = "tls"))]
fn read_files(tls: &Tls, _waker: crate::reactor::TaskWaker) -> io::Result<Answer<std::convert::Infallible>> {
    match *tls {}
}

/// Begins TLS on a stream.
async fn start_tls(
    fd: OwnedFd,
    tls: &Tls,
    host: &str,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> io::Result<Socket> {
    let files = read_files(tls, context.task_waker())?.hear(context, attempt).await?;
    let mut handshake = Handshake::new(tls, files, host)?;
    let watch = context.watch(&fd)?;
    while let Some(flags) = handshake.proceed(&fd)? {
        watch.arm(flags.contains(PollFlags::OUT))?;
        attempt.wait(context).await.map_err(late)?;
    }
    drop(watch);
    let tls_session = handshake.finish(&fd)?;
    Ok(Socket::new(fd, Some((tls_session, context.task_waker()))))
}

/// Adds the likely reason to the error of an attempt that timed out in the middle of a handshake: a server without TLS waits
/// for the end of the line.
fn late(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::TimedOut => io::Error::new(io::ErrorKind::TimedOut, HANDSHAKE_UNANSWERED),
        _ => error,
    }
}

/// Opens a stream to a Unix socket.
pub(super) async fn unix(path: &Path, context: &TaskContext, attempt: &mut Attempt<'_>) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let stream = stream(AddressFamily::UNIX)?;
    loop {
        match connect(&stream, &address) {
            Ok(()) => return Ok(stream),
            Err(Errno::INTR) => {}
            // The server's queue of connections is full, and the system does not report when it has room again.
            Err(Errno::AGAIN) => _ = attempt.wait_for(context, FULL_QUEUE_PAUSE).await?,
            Err(error) => return Err(error.into()),
        }
    }
}

async fn look_up(
    host: &str,
    port: u16,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let mut addresses = names::look_up(host, context.task_waker())?.hear(context, attempt).await?;
    addresses.iter_mut().for_each(|address| address.set_port(port));
    Ok(addresses)
}

/// Connects to the first of the addresses that takes the connection.
async fn race(addresses: &[SocketAddr], context: &TaskContext, attempt: &mut Attempt<'_>) -> io::Result<OwnedFd> {
    let head_start = HEAD_START_MAX.min(attempt.left() / (2 * u32::try_from(addresses.len()).unwrap_or(u32::MAX)));
    let (mut untried, mut racing, mut next_at) = (addresses.iter(), Vec::new(), now());
    let mut refusal = io::Error::from(io::ErrorKind::NotFound);
    loop {
        if now() >= next_at || racing.is_empty() {
            match untried.next().map(|address| begin(address, context)) {
                Some(Ok(stream)) => racing.push(stream),
                Some(Err(error)) => refusal = error,
                None if racing.is_empty() => return Err(refusal),
                None => {}
            }
            next_at = now() + head_start;
        }
        if racing.is_empty() {
            continue;
        }
        match settled(&mut racing)? {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => {
                refusal = error;
                next_at = now();
            }
            None => {
                racing.iter().try_for_each(|stream| stream.arm(true))?;
                let head_start = next_at.saturating_duration_since(now());
                let time = if untried.len() > 0 { head_start } else { Duration::MAX };
                attempt.wait_for(context, time).await?;
            }
        }
    }
}

/// Begins to connect, and watches the stream.
fn begin(address: &SocketAddr, context: &TaskContext) -> io::Result<WatchedStream<OwnedFd>> {
    context.watch(simulated_stream(address).unwrap_or_else(|| connecting(address))?)
}

/// Opens a stream that is connecting to this address.
fn connecting(address: &SocketAddr) -> io::Result<OwnedFd> {
    let stream = stream(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
    sockopt::set_tcp_nodelay(&stream, true)?;
    watch_peer(&stream)?;
    match connect(&stream, address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(stream),
        Err(error) => Err(error.into()),
    }
}

/// Takes one of the streams out that is connected or refused, if there is one.
fn settled(racing: &mut Vec<WatchedStream<OwnedFd>>) -> io::Result<Option<io::Result<OwnedFd>>> {
    let mut fds: Vec<PollFd<'_>> = racing.iter().map(|stream| PollFd::new(stream.stream(), PollFlags::OUT)).collect();
    wait_for(&mut fds, Some(&timespec(Duration::ZERO)))?;
    let Some(index) = fds.iter().position(|fd| !fd.revents().is_empty()) else { return Ok(None) };
    drop(fds);
    let watched = racing.swap_remove(index);
    match sockopt::socket_error(watched.stream())? {
        // The descriptor is duplicated, because the original is no longer watched when it is dropped.
        Ok(()) => Ok(Some(Ok(watched.stream().try_clone()?))),
        Err(error) => Ok(Some(Err(error.into()))),
    }
}

/// Makes the kernel notice that a peer's machine is gone without a word. The kernel does not notice a process that has
/// stopped. The time for which bytes stay unacknowledged is no sign, because a server that is busy for long reads none.
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
    use std::time::Instant;

    use rustix::net::{bind, getsockname, listen};

    use super::*;
    use crate::reactor::tests::run;

    /// Creates a server with a full queue of connections: the kernel drops all further ones, as a firewall would.
    fn black_hole() -> (OwnedFd, Vec<OwnedFd>, SocketAddr) {
        let listener = stream(AddressFamily::INET).expect("a socket");
        bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        listen(&listener, 0).expect("a listener");
        let address = SocketAddr::try_from(getsockname(&listener).expect("its address")).expect("of the internet");
        let connecting = |_| {
            let waiting = stream(AddressFamily::INET).expect("a socket");
            let begun = connect(&waiting, &address);
            assert!(matches!(begun, Ok(()) | Err(Errno::INPROGRESS)), "{begun:?}");
            waiting
        };
        let waiting = (0..4).map(connecting).collect();
        (listener, waiting, address)
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs sockets")]
    fn the_second_address_is_reached_while_the_first_drops_everything() {
        let (_listener, _waiting, hole) = black_hole();
        let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = server.local_addr().expect("its address");
        let stream = run(async move |context| {
            let mut tick = || Some(Duration::from_millis(50));
            race(&[hole, address], &context, &mut Attempt::new(Duration::from_secs(30), &mut tick)).await
        });
        let peer = rustix::net::getpeername(stream.expect("a connection")).expect("its peer").expect("of the internet");
        assert_eq!(SocketAddr::try_from(peer), Ok(address));
        let since = Instant::now();
        let raced = run(async move |context| {
            let mut tick = || Some(Duration::from_millis(50));
            race(&[hole], &context, &mut Attempt::new(Duration::from_millis(300), &mut tick)).await
        });
        assert_eq!(raced.expect_err("nobody").kind(), io::ErrorKind::TimedOut);
        assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs sockets")]
    fn an_abandoned_attempt_need_not_wait() {
        let (_listener, _waiting, hole) = black_hole();
        let raced = run(async move |context| {
            let mut ticks = 3;
            let mut tick = || {
                ticks -= 1;
                (ticks > 0).then_some(Duration::from_millis(1))
            };
            race(&[hole], &context, &mut Attempt::new(Duration::MAX, &mut tick)).await
        });
        assert!(raced.is_err());
    }
}
