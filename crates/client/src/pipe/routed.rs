//! A request of a cluster, with the parts that are kept until it is answered, so that it can go to another node.
//!
//! A node refuses some requests: their slot belongs to another node, or is being moved, or the cluster is down. And a
//! connection may be lost before a request has left on it. In either case the request was not executed, and goes back to its
//! sender, with its bytes and its caller's end, to be sent again. A reply of any other kind is the caller's, and so is the
//! loss of a connection on which the request had left: it may have been executed.
//!
//! A script may end with an error of its own that reads as a node's, after it has written. Such a reply does not tell the two
//! apart. A redirect is the exception: it names the slot of the keys and a node, which scripts cannot learn. So a script that
//! may write comes back only with a redirect; every other error goes to its caller, which knows the script.
//!
//! This module takes bytes and gives bytes: no socket, no clock, no thread. `transport/cluster` decides on a request that
//! comes back.

use std::mem;
use std::sync::{Arc, Weak};

use sleeve_wire::commands::Flags;

use super::cached_read::{Cache, Read};
use super::slot::{Completions, Payload, Target};
use crate::error::{Effect, Error, ErrorKind};
use crate::resp::request::name::Name;
use crate::sys::planted::{self, Fault};

/// The request that announces that the next command follows a redirect for a slot that is being moved.
const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// The codes with which a node of a cluster refuses a request that may be sent again: to another node, or later.
pub(crate) const TURNED_AWAY: [&str; 9] =
    ["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "BUSY", "READONLY", "MASTERDOWN", "UNBLOCKED"];

/// The sender that takes requests back.
///
/// A reader calls it with its own lock held, and so does the owner of a connection. It only takes note, and takes no lock
/// under which a thread waits.
pub(crate) trait Redirector: Send + Sync {
    /// Takes back a request that was not executed: one that a node has refused, with the node's error; or one on a connection
    /// that was lost before the request had left, with the reason.
    fn came_back(&self, request: Routed, why: Error, done: &mut Completions);
}

/// The node that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The owner of this slot.
    Slot(u16),
    /// Any node that has a copy of this slot, the owner among them. The request only reads.
    Copies(u16),
    /// Any node that owns slots.
    Anybody,
    /// The node of this number, and no other.
    Node(u32),
}

/// The receiver of the answer.
enum End {
    Caller(Target),
    /// A cache, and the callers that wait there.
    Cache(Box<Read>),
}

/// The outcome of a reply to a request.
pub(super) enum Accepted {
    /// The request takes more replies.
    More(Box<Routed>),
    /// The reply is this caller's.
    Answered(Target),
    /// The node has returned the request, or it was answered.
    Over,
}

/// A request that may have to go to another node.
pub(crate) struct Routed {
    redirector: Weak<dyn Redirector>,
    end: Option<End>,
    pub(crate) bytes: Arc<[u8]>,
    /// The bytes of a read for a cache with the requests around it; none once it was refused.
    whole: Option<Arc<[u8]>>,
    pub(crate) name: Name,
    pub(crate) database: u32,
    /// The time at which its caller sent it, on the wrapping clock of milliseconds; or, if `is_due`, the time at which it
    /// times out.
    pub(crate) at_ms: u32,
    /// True if `at_ms` is the time at which it times out.
    pub(crate) is_due: bool,
    /// True if its caller has set that time.
    pub(crate) has_deadline: bool,
    pub(crate) destination: Destination,
    /// The number of the connection that only this request uses, if it has one.
    pub(crate) dedicated: Option<u64>,
    /// The number of the node that it was sent to last.
    pub(crate) node: u32,
    /// The number of times that a node has refused it.
    pub(crate) attempts: u16,
    /// The number of redirects that it has followed in a row without a pause.
    pub(crate) redirections: u16,
    /// True if ASKING goes ahead of the request: the slot is being moved to the node.
    is_asking: bool,
    /// True if the reply to ASKING has not arrived yet.
    is_asked: bool,
}

impl Routed {
    pub(crate) fn new(
        redirector: Weak<dyn Redirector>,
        (bytes, name): (Arc<[u8]>, Name),
        database: u32,
        (at_ms, is_due): (u32, bool),
        destination: Destination,
    ) -> Self {
        let (node, attempts, redirections) = (0, 0, 0);
        let (is_asking, is_asked) = (false, false);
        let (end, whole, has_deadline) = (None, None, is_due);
        Self {
            redirector,
            end,
            bytes,
            whole,
            name,
            database,
            at_ms,
            is_due,
            has_deadline,
            destination,
            dedicated: None,
            node,
            attempts,
            redirections,
            is_asking,
            is_asked,
        }
    }

    /// Sets the receiver of the answer.
    pub(crate) fn attach(&mut self, target: Target) {
        self.end = Some(End::Caller(target));
    }

    /// Sets a cache's read as the receiver of the answer. The first time, the request leaves with the requests around the
    /// read (`whole`).
    pub(crate) fn attach_read(&mut self, read: Box<Read>, whole: Arc<[u8]>) {
        (self.end, self.whole) = (Some(End::Cache(read)), Some(whole));
    }

    /// Sets whether ASKING goes ahead of the request at the next node.
    pub(crate) fn ask(&mut self, is_asking: bool) {
        (self.is_asking, self.is_asked) = (is_asking, false);
    }

    /// Returns whether ASKING goes ahead of the request at the next node.
    pub(crate) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Returns the number of replies that the request takes.
    pub(super) fn frames(&self) -> u32 {
        match &self.end {
            Some(End::Cache(read)) if self.whole.is_some() => read.frames(),
            _ => 1 + u32::from(self.is_asking),
        }
    }

    /// Returns its bytes, with those of the requests that leave with it.
    pub(super) fn request(&self) -> Arc<[u8]> {
        match &self.whole {
            Some(whole) => Arc::clone(whole),
            None if self.is_asking => [ASKING, &self.bytes].concat().into(),
            None => Arc::clone(&self.bytes),
        }
    }

    pub(super) fn target(&self) -> Option<&Target> {
        match self.end.as_ref()? {
            End::Caller(target) => Some(target),
            End::Cache(read) => read.target(),
        }
    }

    /// Returns whether its caller may read the connection that the request is on.
    pub(super) fn is_first(&self) -> bool {
        self.attempts == 0 && self.dedicated.is_none()
    }

    /// Returns whether no caller waits for the answer any more. Callers that joined the read at the cache are not known here.
    pub(crate) fn is_abandoned(&self) -> bool {
        match &self.end {
            Some(End::Caller(target)) => target.is_abandoned(),
            Some(End::Cache(_)) => false,
            None => true,
        }
    }

    /// Answers the caller with an error.
    pub(crate) fn give_up(mut self, error: Error, done: &mut Completions) {
        match self.end.take() {
            Some(End::Caller(target)) => target.complete(Payload::Failed(error), done),
            Some(End::Cache(mut read)) => read.fail(&error, done),
            None => {}
        }
    }

    /// Takes a reply. `over` is the cache that the connection invalidates, if there is one. A refused request is returned.
    pub(super) fn accept(
        mut self: Box<Self>,
        reply: &[u8],
        over: Option<&dyn Cache>,
        done: &mut Completions,
    ) -> Accepted {
        if self.is_asking && !mem::replace(&mut self.is_asked, true) && !planted::has(Fault::TakesReplyToAsking) {
            return Accepted::More(self);
        }
        match self.end.take() {
            Some(End::Cache(read)) => return self.accept_read(read, reply, over, done),
            end => self.end = end,
        }
        match (turned_away(reply).filter(|why| self.is_of_server(why)), self.end.take()) {
            (None, Some(End::Caller(target))) => Accepted::Answered(target),
            (None, _) => Accepted::Over,
            (Some(why), end) => {
                self.end = end;
                self.come_back(why, done);
                Accepted::Over
            }
        }
    }

    /// Takes a reply as `accept` does, for a read for a cache.
    fn accept_read(
        mut self: Box<Self>,
        mut read: Box<Read>,
        reply: &[u8],
        over: Option<&dyn Cache>,
        done: &mut Completions,
    ) -> Accepted {
        if self.whole.is_none() {
            read.take_alone(reply);
        } else if !read.take(reply) {
            self.end = Some(End::Cache(read));
            return Accepted::More(self);
        }
        match turned_away(read.reply()) {
            None => read.land(over, done),
            Some(why) => {
                self.end = Some(End::Cache(read));
                self.come_back(why, done);
            }
        }
        Accepted::Over
    }

    /// Returns whether the error is the node's own, and does not come from code that the request ran: a script, or a command
    /// that the client does not know.
    fn is_of_server(&self, why: &Error) -> bool {
        if self.name.row().is_some_and(|row| !row.runs_script() || row.flags.contains(Flags::READONLY)) {
            return true;
        }
        let mut words = why.message().split(' ');
        let is_redirection = matches!(words.next(), Some("MOVED" | "ASK"));
        let slot = words.next().and_then(|slot| slot.parse().ok());
        match self.destination {
            Destination::Slot(own) | Destination::Copies(own) => is_redirection && slot == Some(own),
            // Only the node knows the keys of an unknown command.
            Destination::Anybody | Destination::Node(_) => is_redirection && self.name.row().is_none(),
        }
    }

    /// Gives the request back to its sender.
    fn come_back(mut self, why: Error, done: &mut Completions) {
        self.whole = None;
        match self.redirector.upgrade() {
            Some(redirector) => redirector.came_back(self, why, done),
            None => self.give_up(why, done),
        }
    }

    /// Fails a request that the connection will not answer. A request that never left goes back to its sender; any other
    /// error goes to the caller.
    pub(super) fn fail(self, error: &Error, done: &mut Completions) {
        let never_left = error.effect() == Effect::None;
        match error.kind() {
            ErrorKind::Connect | ErrorKind::Closed if never_left => self.come_back(error.clone(), done),
            // A read has changed nothing, so it may be sent to another node.
            ErrorKind::Disconnected
                if matches!(self.destination, Destination::Copies(_)) || planted::has(Fault::SendsAgainInCluster) =>
            {
                self.come_back(error.clone(), done)
            }
            _ => self.give_up(error.clone(), done),
        }
    }
}

/// Returns the error of a node that has refused a request before it was executed; none for any other reply.
fn turned_away(reply: &[u8]) -> Option<Error> {
    let text = reply.strip_prefix(b"-")?.trim_ascii_end();
    let is_code = |code: &&str| text.strip_prefix(code.as_bytes()).is_some_and(|rest| matches!(rest, [] | [b' ', ..]));
    if !TURNED_AWAY.iter().any(is_code) {
        return None;
    }
    let error = Error::server(text);
    (error.effect() == Effect::Refused).then_some(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_by_a_node_are_told_from_failures() {
        for away in [
            "-MOVED 5 h:1\r\n",
            "-ASK 5 h:1\r\n",
            "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
            "-CLUSTERDOWN The cluster is down\r\n",
            "-CLUSTERDOWN Hash slot not served\r\n",
            "-LOADING Redis is loading the dataset in memory\r\n",
            "-READONLY You can't write against a read only replica.\r\n",
            "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n",
        ] {
            assert!(turned_away(away.as_bytes()).is_some(), "{away}");
        }
        for answer in [
            "-ERR no\r\n",
            "-MOVEDNOT 5 h:1\r\n",
            "-READONLY You can't write against a read only replica. script: 2a, on @user_script:1.\r\n",
            "-LOADING is what my script calls it\r\n",
            "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n",
            "+MOVED 5 h:1\r\n",
            "$3\r\nASK\r\n",
        ] {
            assert!(turned_away(answer.as_bytes()).is_none(), "{answer}");
        }
    }
}
