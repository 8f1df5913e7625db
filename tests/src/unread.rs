//! Asks the kernel how many of a client's bytes its server has not read yet.
//!
//! A test that sends a request in pieces must know that the first piece has been taken before it sends the second. The kernel
//! reports the length of a socket's receive queue by the socket's two ends (`NETLINK_SOCK_DIAG`, sock_diag(7)). IPv4 loopback
//! and Linux only. One thread uses it at a time.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpStream};

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket};

/// The type of the message that asks about one socket, and of its answer (`SOCK_DIAG_BY_FAMILY`).
const BY_FAMILY: u16 = 20;

/// The offset of the receive queue's length in the answer: after the two headers and the socket's ends.
const QUEUE_AT: usize = 72;

/// A line to the kernel.
#[derive(Debug)]
pub struct Unread {
    line: OwnedFd,
}

impl Unread {
    /// Opens a netlink socket.
    ///
    /// # Errors
    /// The kernel's, such as those of a sandbox that forbids it.
    pub fn open() -> io::Result<Unread> {
        Ok(Unread { line: socket(AddressFamily::NETLINK, SocketType::RAW, Some(netlink::SOCK_DIAG))? })
    }

    /// Returns the number of bytes that wait at the far end of the connection with these ends; 0 as well if that end is gone.
    ///
    /// # Errors
    /// The errors of the sockets.
    pub fn bytes(&self, near: SocketAddrV4, far: SocketAddrV4) -> io::Result<u32> {
        send(&self.line, &question(far, near), SendFlags::empty())?;
        let mut answer = [0; 4096];
        let (_, length) = recv(&self.line, answer.as_mut_slice(), RecvFlags::empty())?;
        let kind = u16::from_ne_bytes([answer[4], answer[5]]);
        if kind != BY_FAMILY || length < QUEUE_AT + 4 {
            return Ok(0);
        }
        let queue = [answer[QUEUE_AT], answer[QUEUE_AT + 1], answer[QUEUE_AT + 2], answer[QUEUE_AT + 3]];
        Ok(u32::from_ne_bytes(queue))
    }
}

/// Returns the near and the far end of a connection.
///
/// # Errors
/// The errors of the socket, or that it is no IPv4 socket.
pub fn ends(stream: &TcpStream) -> io::Result<(SocketAddrV4, SocketAddrV4)> {
    match (stream.local_addr()?, stream.peer_addr()?) {
        (SocketAddr::V4(near), SocketAddr::V4(far)) => Ok((near, far)),
        _ => Err(io::Error::other("not an IPv4 connection")),
    }
}

/// Returns the request, `nlmsghdr` and `inet_diag_req_v2`, for the TCP socket with these ends, in any state.
fn question(local: SocketAddrV4, remote: SocketAddrV4) -> Vec<u8> {
    const INET: u8 = 2;
    const TCP: u8 = 6;
    const REQUEST: u16 = 1;
    let mut body = vec![INET, TCP, 0, 0];
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(local.port().to_be_bytes());
    body.extend(remote.port().to_be_bytes());
    for address in [local, remote] {
        body.extend(address.ip().octets());
        body.extend([0; 12]);
    }
    // The request is for any interface, and without a cookie from an earlier answer.
    body.extend([0; 4]);
    body.extend([0xff; 8]);
    let length = u32::try_from(16 + body.len()).unwrap_or_default();
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn unread_bytes_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let unread = Unread::open().unwrap();
        let (near, far) = ends(&client).unwrap();
        let waiting = || unread.bytes(near, far).unwrap();
        assert_eq!(waiting(), 0);
        client.write_all(b"hello").unwrap();
        assert_eq!(waiting(), 5);
        server.read_exact(&mut [0; 2]).unwrap();
        assert_eq!(waiting(), 3);
    }
}
