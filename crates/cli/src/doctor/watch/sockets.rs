//! The sockets of this machine that lead to the server, and whether replies that have arrived lie in them unread.
//!
//! The kernel lists connections with their number of unread bytes (sock_diag(7)). If replies lie there for some milliseconds,
//! look after look, the program has not just missed them: the thread or the task that reads them is busy or asleep.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

use crate::doctor::evidence::Sockets;

/// The number of glances in a look.
const GLANCES: usize = 4;
/// The time between two glances.
const PAUSE: Duration = Duration::from_millis(1);

/// The type of messages `SOCK_DIAG_BY_FAMILY`, both of the request and of the kernel's answers.
const BY_FAMILY: u16 = 20;
/// `NLMSG_DONE`: the end of a list.
const DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const LIST: u16 = 0x301;
/// The header of each message, in bytes.
const HEADER: usize = 16;
/// The offset of a connection's addresses in a message: ports, then both addresses of 16 bytes.
const IDENTITY: usize = HEADER + 4;
/// The offset of the number of unread bytes, behind those addresses and a time.
const UNREAD: usize = IDENTITY + 48 + 4;
/// A request: header, five fields, addresses.
const REQUEST: usize = HEADER + 8 + 48;
/// The size of the buffer for answers: as much as the kernel puts into one.
const ANSWER: usize = 64 * 1024;

/// The observer of the sockets.
#[derive(Debug)]
pub struct Looker {
    kernel: OwnedFd,
    server: SocketAddr,
    /// The doctor's own ends.
    own: Vec<SocketAddr>,
    seen: Sockets,
}

impl Looker {
    /// Opens an observer of the sockets that lead to this server, except these own ones.
    pub fn new(server: SocketAddr, own: Vec<SocketAddr>) -> io::Result<Self> {
        let kernel =
            socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
        Ok(Self { kernel, server: canonical(server.ip(), server.port()), own, seen: Sockets::default() })
    }

    /// Takes a look, which lasts some milliseconds.
    pub fn look(&mut self) -> io::Result<()> {
        let mut lying = self.unread()?;
        if lying.is_empty() {
            return Ok(());
        }
        for _ in 1..GLANCES {
            thread::sleep(PAUSE);
            let unread = self.unread()?;
            lying.retain(|socket, bytes| *bytes > 0 && unread.get(socket) == Some(bytes));
        }
        self.seen.looks += 1;
        self.seen.left_lying += u64::from(!lying.is_empty());
        Ok(())
    }

    /// Returns the observations; `None` if there was no such socket.
    pub fn seen(&self) -> Option<Sockets> {
        (self.seen.looks > 0).then_some(self.seen)
    }

    /// Returns the bytes that lie in each socket that leads to the server.
    fn unread(&self) -> io::Result<HashMap<SocketAddr, u32>> {
        let mut unread = HashMap::new();
        // An IPv4 address may be reached by a socket of either family.
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            send(&self.kernel, &request(family, self.server.port()), SendFlags::empty())?;
            let mut answer = vec![0; ANSWER];
            loop {
                let (length, _) = recv(&self.kernel, answer.as_mut_slice(), RecvFlags::empty())?;
                if !self.take(answer.get(..length).unwrap_or_default(), &mut unread) {
                    break;
                }
            }
        }
        Ok(unread)
    }

    /// Takes a part of the kernel's list; returns whether more follows.
    fn take(&self, mut messages: &[u8], unread: &mut HashMap<SocketAddr, u32>) -> bool {
        while let (Some(length), Some(kind)) = (word(messages, 0), half(messages, 4)) {
            let length = length as usize;
            if kind != BY_FAMILY || length < HEADER || length > messages.len() {
                // The end, or an error, behind which nothing comes.
                return kind != DONE && kind == BY_FAMILY;
            }
            if let Some((local, remote, bytes)) = messages.get(..length).and_then(connection)
                && remote == self.server
                && !self.own.contains(&local)
            {
                unread.insert(local, bytes);
            }
            messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        true
    }
}

/// Asks for all connections that stand and lead to a port.
fn request(family: AddressFamily, port: u16) -> [u8; REQUEST] {
    const TCP: u8 = 6;
    const ESTABLISHED: u32 = 1 << 1;
    let mut request = [0; REQUEST];
    let parts: [(usize, &[u8]); 6] = [
        (0, &(REQUEST as u32).to_ne_bytes()),
        (4, &BY_FAMILY.to_ne_bytes()),
        (6, &LIST.to_ne_bytes()),
        (HEADER, &[family.as_raw() as u8, TCP]),
        (HEADER + 4, &ESTABLISHED.to_ne_bytes()),
        (HEADER + 10, &port.to_be_bytes()),
    ];
    for (at, bytes) in parts {
        for (to, from) in request.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }
    request
}

/// Returns both ends of the connection that a message is about, and the number of unread bytes.
fn connection(message: &[u8]) -> Option<(SocketAddr, SocketAddr, u32)> {
    let is_four = i32::from(*message.get(HEADER)?) == i32::from(AddressFamily::INET.as_raw());
    let end = |port_at: usize, host_at: usize| {
        let port = u16::from_be_bytes(message.get(port_at..port_at + 2)?.try_into().ok()?);
        let host: [u8; 16] = message.get(host_at..host_at + 16)?.try_into().ok()?;
        let [a, b, c, d, ..] = host;
        let host: IpAddr = if is_four { [a, b, c, d].into() } else { Ipv6Addr::from(host).into() };
        Some(canonical(host, port))
    };
    let (local, remote) = (end(IDENTITY, IDENTITY + 4)?, end(IDENTITY + 2, IDENTITY + 20)?);
    Some((local, remote, word(message, UNREAD)?))
}

/// Returns an address with IPv4 in its own form, even if an IPv6 socket shows it.
fn canonical(host: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(host.to_canonical(), port)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn unread_replies_are_seen() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(host).unwrap();
            let server = listener.local_addr().unwrap();
            let mut client = TcpStream::connect(server).unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            let mut looker = Looker::new(server, Vec::new()).unwrap();
            let mut look = || {
                looker.look().unwrap();
                looker.seen().map(|seen| (seen.looks, seen.left_lying))
            };
            assert_eq!(look(), Some((1, 0)));
            peer.write_all(b"+OK\r\n").unwrap();
            // It has arrived when it can be seen.
            assert_eq!(client.peek(&mut [0; 5]).unwrap(), 5);
            assert_eq!(look(), Some((2, 1)));
            client.read_exact(&mut [0; 5]).unwrap();
            assert_eq!(look(), Some((3, 1)));
            let mut own = Looker::new(server, vec![client.local_addr().unwrap()]).unwrap();
            own.look().unwrap();
            assert!(own.seen().is_none());
        }
    }
}
