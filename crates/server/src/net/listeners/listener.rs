//! Listening sockets: bound once, watched by every worker.
//!
//! They never block: the kernel wakes workers for a new connection, one of them takes it, and the others find nothing. Any
//! thread may close a socket, while workers still hold it. Any thread.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use sleeve_disk::own::{self, Claim};

use crate::messaging::mail::Accepted;

/// A socket that accepts connections. Dropping the last handle of a Unix socket removes its file.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    bound_to: BoundTo,
    keepalive_s: AtomicU64,
    is_tls: bool,
}

#[derive(Debug)]
enum BoundTo {
    Tcp(SocketAddr),
    Unix { path: PathBuf, claim: Claim },
}

/// The longest idle time before keepalive probes that the kernel accepts. It refuses the socket option beyond that, and a
/// connection must not fail for it.
const KEEPALIVE_S_MAX: u64 = 32_767;

/// The most connections of one listener that are accepted before other events have their turn.
const ACCEPTS_MAX: usize = 64;

/// Binds a TCP socket; port 0 takes a free one. If `keepalive_s` is 0, no keepalive probes are sent.
///
/// # Errors
/// The errors of the kernel: the address is in use, or does not belong to this machine.
pub fn bind_tcp(address: SocketAddr, backlog: i32, keepalive_s: u64) -> io::Result<Listener> {
    let socket = bound(address)?;
    net::listen(&socket, backlog)?;
    let bound = SocketAddr::try_from(net::getsockname(&socket)?)?;
    Ok(Listener { socket, bound_to: BoundTo::Tcp(bound), keepalive_s: keepalive_s.into(), is_tls: false })
}

/// Checks that a TCP socket could be bound, without listening: no client notices.
///
/// # Errors
/// As [`bind_tcp`].
pub fn try_tcp(address: SocketAddr) -> io::Result<()> {
    bound(address).map(drop)
}

fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    net::bind(&socket, &address)?;
    Ok(socket)
}

/// Checks that a Unix socket could be bound, as far as that is possible without making or removing a file.
///
/// # Errors
/// As [`bind_unix`], or the error of the folder in which the file would be made.
pub fn try_unix(path: &Path) -> io::Result<()> {
    let place = own::follow(path)?;
    SocketAddrUnix::new(&place)?;
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?;
    match std::fs::symlink_metadata(&place) {
        Ok(found) if !found.file_type().is_socket() => Err(own::refusal(found.file_type(), "a socket")),
        Ok(_) if is_live(&place)? => Err(taken()),
        _ => Ok(()),
    }
}

/// Binds a Unix socket, and replaces the one that a dead process left at its path. Links that lead there stay. `mode` 0
/// leaves the permissions to the umask.
///
/// # Errors
/// Another server listens there, the path is no socket, or the kernel refuses the path.
pub fn bind_unix(path: &Path, backlog: i32, mode: u32) -> io::Result<Listener> {
    let place = own::follow(path)?;
    free(&place)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::bind(&socket, &SocketAddrUnix::new(&place)?)?;
    let claim = Claim::of(place.clone())?;
    if mode != 0 {
        rustix::fs::chmod(&place, Mode::from_raw_mode(mode))?;
    }
    net::listen(&socket, backlog)?;
    Ok(Listener {
        socket,
        bound_to: BoundTo::Unix { path: path.to_owned(), claim },
        keepalive_s: 0.into(),
        is_tls: false,
    })
}

/// Removes a socket at a path on which no process listens any more.
fn free(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?.file_type(),
    };
    if !found.is_socket() {
        return Err(own::refusal(found, "a socket"));
    }
    if is_live(path)? { Err(taken()) } else { std::fs::remove_file(path) }
}

/// Returns whether a process listens on the socket at a path.
fn is_live(path: &Path) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match net::connect(&probe, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => Ok(false),
        // A process listens there: it takes the connection, or its queue is full.
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn taken() -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, "another server listens there")
}

impl Listener {
    /// Sets whether connections of this listener speak TLS.
    pub fn with_tls(mut self, is_tls: bool) -> Self {
        self.is_tls = is_tls;
        self
    }

    /// Returns whether connections of this listener speak TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns the address and port, for TCP.
    pub fn address(&self) -> Option<SocketAddr> {
        match self.bound_to {
            BoundTo::Tcp(address) => Some(address),
            BoundTo::Unix { .. } => None,
        }
    }

    /// Returns the path, for a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        match &self.bound_to {
            BoundTo::Tcp(_) => None,
            BoundTo::Unix { path, .. } => Some(path),
        }
    }

    /// Sets TCP keepalive for connections that are accepted from now on: seconds of idleness before a probe; 0 for none.
    pub fn set_keepalive(&self, seconds: u64) {
        self.keepalive_s.store(seconds, Ordering::Relaxed);
    }

    /// Stops listening at once, although workers still hold the socket: its address is free from now on.
    pub fn close(&self) {
        // An error means that the socket was not listening any more.
        _ = net::shutdown(&self.socket, net::Shutdown::Both);
    }

    /// Accepts the connections that wait, but only so many that other events have their turn.
    ///
    /// # Errors
    /// The errors of the kernel, such as too many open files, if no connection was accepted before.
    pub fn accept_some(&self) -> io::Result<Vec<Accepted>> {
        let mut accepted = Vec::new();
        while accepted.len() < ACCEPTS_MAX {
            match self.accept() {
                Ok(Some(connection)) => accepted.push(connection),
                Err(error) if accepted.is_empty() => return Err(error),
                Ok(None) | Err(_) => break,
            }
        }
        Ok(accepted)
    }

    fn accept(&self) -> io::Result<Option<Accepted>> {
        loop {
            match net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    // A connection that has broken already cannot be configured; it is skipped.
                    if let Ok(accepted) = self.receive(socket) {
                        return Ok(Some(accepted));
                    }
                }
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                // A listener that has been closed returns INVAL until its worker releases it.
                Err(Errno::AGAIN | Errno::INVAL) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn receive(&self, socket: OwnedFd) -> io::Result<Accepted> {
        let (address, local_address) = match &self.bound_to {
            BoundTo::Unix { path, .. } => (format!("{}:0", path.display()), format!("{}:0", path.display())),
            BoundTo::Tcp(_) => {
                self.tune(&socket)?;
                (text_of(net::getpeername(&socket)), text_of(net::getsockname(&socket).map(Some)))
            }
        };
        Ok(Accepted { socket, address, local_address, is_tls: self.is_tls })
    }

    fn tune(&self, socket: &OwnedFd) -> io::Result<()> {
        sockopt::set_tcp_nodelay(socket, true)?;
        let seconds = self.keepalive_s.load(Ordering::Relaxed).min(KEEPALIVE_S_MAX);
        if seconds != 0 {
            sockopt::set_socket_keepalive(socket, true)?;
            sockopt::set_tcp_keepidle(socket, Duration::from_secs(seconds))?;
            sockopt::set_tcp_keepintvl(socket, Duration::from_secs((seconds / 3).max(1)))?;
            sockopt::set_tcp_keepcnt(socket, 3)?;
        }
        Ok(())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let BoundTo::Unix { claim, .. } = &self.bound_to {
            claim.release();
        }
    }
}

fn text_of(name: rustix::io::Result<Option<net::SocketAddrAny>>) -> String {
    let address = name.ok().flatten().and_then(|any| SocketAddr::try_from(any).ok());
    match address {
        None => "?:0".to_owned(),
        Some(address) => match address.ip() {
            IpAddr::V4(ip) => format!("{ip}:{}", address.port()),
            IpAddr::V6(ip) => format!("[{ip}]:{}", address.port()),
        },
    }
}
