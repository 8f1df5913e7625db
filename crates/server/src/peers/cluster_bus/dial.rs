//! Connections that this node opens to others, without waiting for them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// Begins to connect to an address. The socket can be written to when the connection is established, or was refused.
///
/// # Errors
/// The text is no IP address, and the errors of the kernel that show at once.
pub(super) fn begin(ip: &str, port: u16) -> io::Result<OwnedFd> {
    // A name would have to be looked up, for which the thread would have to wait.
    let ip: IpAddr = ip.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "it is no IP address"))?;
    let family = if ip.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match net::connect(&socket, &SocketAddr::new(ip, port)) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a connection that was begun is established, once its socket can be written to.
///
/// # Errors
/// The reason why it is not.
pub(super) fn finish(socket: impl AsFd) -> io::Result<()> {
    sockopt::socket_error(&socket)?.map_err(io::Error::from)
}
