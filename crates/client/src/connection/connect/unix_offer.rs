//! A server's offer of its Unix socket: read, and checked before any secret is sent there.
//!
//! The process that listens at the path that a server names need not be that server. The path may lead to another place on
//! this machine than on the server's, for example in another container, and any process may listen at a path of its own. And
//! a server that is not to be trusted may name the socket of another process, so that the client sends that process its
//! password, or works on its data. So two parties are asked first:
//!
//! - **The kernel**: is the process that listens at the path the one that the offer names, in the same running kernel and the
//!   same namespace of process ids? If not, not a byte is sent.
//! - **The process itself**: the client sends the ticket of the offer and nothing else. An answer counts if it has the proof
//!   of the offer, which no other process can know, and the addresses of both ends of the very connection over which the
//!   offer came. A process that only passes on the offer of another server has a connection of its own to that server, with
//!   other addresses.
//!
//! Only then the client logs in there. On the reactor's thread, as all connecting code.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use sleeve_wire::frame::{Frame, Items, decode};

use super::attempt::Attempt;
use super::conversation::Conversation;
use super::dial::unix;
use super::refusal::Refusal;
use super::socket::Socket;
use crate::reactor::task_context::TaskContext;
use crate::sys;

/// The offer of a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    path: PathBuf,
    /// The identity of the running kernel that the server is on, and below it the namespace of its process id.
    boot: String,
    processes: String,
    process: u32,
    ticket: Ticket,
    /// The proof that the server sends over the Unix socket.
    proof: String,
}

/// The data with which the client shows, over the Unix socket, that the socket was offered to it.
#[derive(Debug, PartialEq, Eq)]
struct Ticket {
    /// The client id to which the ticket was given.
    client: String,
    text: String,
}

/// The number of digits of a ticket, and of a proof.
const SECRET_LENGTH: usize = 32;

impl Offer {
    /// Reads the offer from the reply of HELLO; none if the server offers nothing.
    pub(crate) fn read(hello: &[u8]) -> Option<Self> {
        let (Frame::Map(fields) | Frame::Array(fields), _) = decode(hello).ok()? else { return None };
        let (Frame::Map(offer) | Frame::Array(offer)) = field(fields, b"unix-socket")? else { return None };
        let Frame::Integer(client) = field(fields, b"id")? else { return None };
        let Frame::Bulk(path) = field(offer, b"path")? else { return None };
        let Frame::Integer(process) = field(offer, b"process")? else { return None };
        Some(Self {
            path: OsStr::from_bytes(path).into(),
            boot: text(offer, b"boot")?,
            processes: text(offer, b"processes")?,
            process: process.try_into().ok()?,
            ticket: Ticket { client: client.to_string(), text: secret(offer, b"ticket")? },
            proof: secret(offer, b"proof")?,
        })
    }

    /// Connects to the socket, and ensures that the listener there is the server at the other end of `tcp`.
    ///
    /// # Errors
    /// The server is on another machine or in another container, the socket cannot be reached from here, or another process
    /// listens there.
    pub(crate) async fn dial(
        &self,
        tcp: &Socket,
        context: &TaskContext,
        attempt: &mut Attempt<'_>,
    ) -> Result<Socket, Refusal> {
        let elsewhere = |what: &str| Refusal::temporary(what.to_owned());
        let (Some(ends), Some(network)) = (tcp.addresses(), sys::network()) else { return Err(elsewhere("no TCP")) };
        if sys::whereabouts() != Some((self.boot.clone(), self.processes.clone())) || !self.path.is_absolute() {
            return Err(elsewhere("the server is elsewhere"));
        }
        let stream = unix(&self.path, context, attempt).await?;
        if sys::peer_process(&stream) != Some(self.process) {
            return Err(elsewhere("somebody else listens there"));
        }
        let socket = Socket::new(stream, None);
        let question = ["HELLO", "OFFERED", &self.ticket.client, &self.ticket.text];
        let answer = Conversation::new(&socket, context, attempt)?.ask(&question).await?;
        if self.is_proven_by(&answer, ends, &network) { Ok(socket) } else { Err(elsewhere("another server is there")) }
    }

    /// Returns whether this answer comes from the server at the other end of a connection with these addresses, the client's
    /// own first.
    fn is_proven_by(&self, answer: &[u8], (own, peer): (SocketAddr, SocketAddr), network: &str) -> bool {
        let Ok((Frame::Array(words), _)) = decode(answer) else { return false };
        let words: Option<Vec<&str>> = words.take(5).map(|word| word.ok().and_then(as_text)).collect();
        let Some([proof, client, server, place]) = words.as_deref() else { return false };
        let is = |text: &str, address| text.parse().is_ok_and(|said| canonical(said) == canonical(address));
        *proof == self.proof && is(client, own) && is(server, peer) && *place == network
    }
}

/// Returns an address of IPv4 in the form of IPv4, even if it is from a socket of IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    (address.ip().to_canonical(), address.port()).into()
}

fn as_text(frame: Frame<'_>) -> Option<&str> {
    let Frame::Bulk(bytes) = frame else { return None };
    std::str::from_utf8(bytes).ok()
}

/// Returns the value behind this name.
fn field<'a>(items: Items<'a>, name: &[u8]) -> Option<Frame<'a>> {
    let mut items = items.map_while(Result::ok);
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        if matches!(key, Frame::Bulk(key) if key == name) {
            return Some(value);
        }
    }
    None
}

fn text(items: Items<'_>, name: &[u8]) -> Option<String> {
    as_text(field(items, name)?).map(str::to_owned)
}

/// Reads a secret of digits alone: it is sent to the process that the server has named, and must not be readable as a
/// command.
fn secret(items: Items<'_>, name: &[u8]) -> Option<String> {
    let is_one = |text: &String| text.len() == SECRET_LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    text(items, name).filter(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: &str = "$4\r\npath\r\n$7\r\n/run/\u{e4}\r\n$4\r\nboot\r\n$1\r\nb\r\n$9\r\nprocesses\r\n$1\r\np\r\n\
                         $7\r\nprocess\r\n:7\r\n$6\r\nticket\r\n$32\r\n0123456789abcdef0123456789abcdef\r\n\
                         $5\r\nproof\r\n$32\r\nfedcba9876543210fedcba9876543210\r\n";

    fn hello(offer: &str) -> String {
        format!("%3\r\n$2\r\nid\r\n:12\r\n$4\r\nmode\r\n$1\r\nx\r\n$11\r\nunix-socket\r\n{offer}")
    }

    #[test]
    fn an_offer_is_read_in_either_protocol_and_nothing_else_is_one() {
        let resp3 = hello(&format!("%6\r\n{OFFER}"));
        let offer = Offer::read(resp3.as_bytes()).expect("an offer");
        assert_eq!(offer.path, std::path::Path::new("/run/\u{e4}"));
        assert_eq!((offer.boot.as_str(), offer.processes.as_str(), offer.process), ("b", "p", 7));
        assert_eq!((offer.ticket.client.as_str(), &offer.ticket.text[..4], &offer.proof[..4]), ("12", "0123", "fedc"));
        let resp2 = resp3.replacen("%3", "*6", 1).replacen("%6", "*12", 1);
        assert_eq!(Offer::read(resp2.as_bytes()), Some(offer));
        for (what, hello) in [
            ("an error", "-ERR Syntax error in HELLO option 'UNIXSOCKET'\r\n".to_owned()),
            ("no offer", "%1\r\n$2\r\nid\r\n:12\r\n".to_owned()),
            ("a null", hello("_\r\n")),
            ("a field is missing", hello("%1\r\n$4\r\npath\r\n$2\r\n/x\r\n")),
            ("no proof", resp3.replace("%6", "%5").replace("$5\r\nproof", "$5\r\nother")),
            ("no process", resp3.replace(":7", ":-7")),
            ("no number", resp3.replace(":12", "+12")),
            (
                "a ticket that says something",
                resp3.replace("0123456789abcdef0123456789abcdef", "0\r\nflush_all\r\n0123456789abcdef01"),
            ),
            ("a name alone", "*1\r\n$11\r\nunix-socket\r\n".to_owned()),
            ("more is claimed than there is", hello("%9\r\n$4\r\npath\r\n$2\r\n/x\r\n")),
        ] {
            assert_eq!(Offer::read(hello.as_bytes()), None, "{what}");
        }
    }

    #[test]
    fn only_the_server_of_this_very_connection_proves_an_offer() {
        let offer = Offer::read(hello(&format!("%6\r\n{OFFER}")).as_bytes()).expect("an offer");
        let ends = ("127.0.0.1:50000".parse().expect("one"), "127.0.0.1:6379".parse().expect("one"));
        let is_proven = |words: &[&str]| {
            let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
            let count = words.matches('$').count();
            offer.is_proven_by(format!("*{count}\r\n{words}").as_bytes(), ends, "net:[1]")
        };
        let [proof, other] = [offer.proof.as_str(), "0123456789abcdef0123456789abcdef"];
        assert!(is_proven(&[proof, "127.0.0.1:50000", "127.0.0.1:6379", "net:[1]"]));
        assert!(is_proven(&[proof, "[::ffff:127.0.0.1]:50000", "[::ffff:127.0.0.1]:6379", "net:[1]"]));
        for words in [
            &[other, "127.0.0.1:50000", "127.0.0.1:6379", "net:[1]"][..],
            &[proof, "127.0.0.1:50001", "127.0.0.1:6379", "net:[1]"],
            &[proof, "127.0.0.1:50000", "127.0.0.1:6380", "net:[1]"],
            &[proof, "127.0.0.1:50000", "127.0.0.1:6379", "net:[2]"],
            &[proof, "127.0.0.1:50000", "127.0.0.1:6379"],
            &[proof, "127.0.0.1:50000", "127.0.0.1:6379", "net:[1]", "more"],
            &[],
        ] {
            assert!(!is_proven(words), "{words:?}");
        }
        assert!(!offer.is_proven_by(b"+OK\r\n", ends, "net:[1]"));
    }
}
