//! A server's offer to come over its Unix socket: read, and looked into before anything is said there.
//!
//! Whoever listens at the path that a server names need not be that server: the path may lead elsewhere here than there, in
//! another container for one, and anybody may listen at a path of his own. So the server also names the running kernel, the
//! namespace of its process's number, and the number, and the kernel is asked who listens at the other end. Only where all of
//! that is one and the same are credentials shown there. The ticket, which the server takes back over the socket, shows to
//! both that it is the same server, too. On the reactor's thread, as whatever connects.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use sleeve_wire::frame::{Frame, Items, decode};

use super::attempt::Attempt;
use super::dial::unix;
use super::socket::Socket;
use crate::reactor::task_context::TaskContext;
use crate::sys;

/// What a server offers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    path: PathBuf,
    /// Which running kernel the server is on, and the namespace of its process's number.
    boot: String,
    processes: String,
    process: u32,
    pub(crate) ticket: Ticket,
}

/// What shows over the Unix socket that it was offered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The client to which it was given, as the server counts them.
    client: String,
    text: String,
}

impl Ticket {
    /// As HELLO shows it.
    pub(crate) fn words(&self) -> [&str; 3] {
        ["OFFERED", &self.client, &self.text]
    }
}

impl Offer {
    /// Reads the reply of HELLO; none where nothing is offered.
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
            ticket: Ticket { client: client.to_string(), text: text(offer, b"ticket")? },
        })
    }

    /// Connects to the socket, and looks who is there.
    ///
    /// # Errors
    /// It is on another machine or in another container, it is not to be reached from here, or somebody else listens there.
    pub(crate) async fn dial(&self, context: &TaskContext, attempt: &mut Attempt<'_>) -> io::Result<Socket> {
        if sys::whereabouts() != Some((self.boot.clone(), self.processes.clone())) || !self.path.is_absolute() {
            return Err(io::Error::other("the server is elsewhere"));
        }
        let stream = unix(&self.path, context, attempt).await?;
        if sys::peer_process(&stream) != Some(self.process) {
            return Err(io::Error::other("somebody else listens there"));
        }
        Ok(Socket::new(stream, None))
    }
}

/// The value behind this name.
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
    let Frame::Bulk(bytes) = field(items, name)? else { return None };
    Some(std::str::from_utf8(bytes).ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: &str = "$4\r\npath\r\n$7\r\n/run/\u{e4}\r\n$4\r\nboot\r\n$1\r\nb\r\n$9\r\nprocesses\r\n$1\r\np\r\n\
                         $7\r\nprocess\r\n:7\r\n$6\r\nticket\r\n$2\r\n0f\r\n";

    fn hello(offer: &str) -> String {
        format!("%3\r\n$2\r\nid\r\n:12\r\n$4\r\nmode\r\n$1\r\nx\r\n$11\r\nunix-socket\r\n{offer}")
    }

    #[test]
    fn an_offer_is_read_in_either_protocol_and_nothing_else_is_one() {
        let resp3 = hello(&format!("%5\r\n{OFFER}"));
        let offer = Offer::read(resp3.as_bytes()).expect("an offer");
        assert_eq!(offer.path, std::path::Path::new("/run/\u{e4}"));
        assert_eq!((offer.boot.as_str(), offer.processes.as_str(), offer.process), ("b", "p", 7));
        assert_eq!(offer.ticket.words(), ["OFFERED", "12", "0f"]);
        let resp2 = resp3.replacen("%3", "*6", 1).replacen("%5", "*10", 1);
        assert_eq!(Offer::read(resp2.as_bytes()), Some(offer));
        for (what, hello) in [
            ("an error", "-ERR Syntax error in HELLO option 'UNIXSOCKET'\r\n".to_owned()),
            ("no offer", "%1\r\n$2\r\nid\r\n:12\r\n".to_owned()),
            ("a null", hello("_\r\n")),
            ("a field is missing", hello("%1\r\n$4\r\npath\r\n$2\r\n/x\r\n")),
            ("no process", resp3.replace(":7", ":-7")),
            ("no number", resp3.replace(":12", "+12")),
            ("a name alone", "*1\r\n$11\r\nunix-socket\r\n".to_owned()),
            ("more is claimed than there is", hello("%9\r\n$4\r\npath\r\n$2\r\n/x\r\n")),
        ] {
            assert_eq!(Offer::read(hello.as_bytes()), None, "{what}");
        }
    }
}
