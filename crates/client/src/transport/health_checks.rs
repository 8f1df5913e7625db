//! Health checks of replicas: they find out which replicas are fit to be read from, before a caller needs one.
//!
//! Each replica is asked for its role at intervals. It is fit if it answers soon, follows its primary and has the primary's
//! writes up to the last check. A fresh connection to a cluster's replica is first switched to reading (READONLY), and if the
//! zone matters, servers are asked for theirs. A replica that refuses a read, or loses its connection, is not fit until it
//! has answered again.
//!
//! The checks belong to one task, which sends and receives without waiting; on the reactor's thread alone. Foreign bytes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sleeve_wire::frame::Frame;

use super::internal_requests::InternalRequests;
use super::node::{Fitness, Node};
use super::replicas::Replicas;
use crate::config::read_from::ReadFrom;
use crate::connection::Link;
use crate::error::Error;
use crate::pipe::slot::Handle;
use crate::pipe::slot::Payload;
use crate::resp::request::name::Name;
use crate::sys::now;

/// The time between two checks; a replica that lacks writes of one or two checks ago is not fit.
const PERIOD: Duration = Duration::from_secs(1);

/// The time that a replica may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

const ROLE: &[u8] = b"*1\r\n$4\r\nROLE\r\n";
const READONLY: &[u8] = b"*1\r\n$8\r\nREADONLY\r\n";
const INFO: &[u8] = b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n";

/// The error codes with which a replica says that it does not have its data, or not any more.
const WITHOUT_DATA: [&str; 2] = ["LOADING", "MASTERDOWN"];

/// The health checks of all replicas, and of their primaries.
pub(super) struct HealthChecks {
    policy: ReadFrom,
    /// True in a cluster, in which connections to replicas have to be switched to reading.
    is_cluster: bool,
    next_at: Instant,
    /// The state of each server, by the number of its node.
    known: HashMap<u32, Known>,
}

/// The state of a server.
#[derive(Default)]
struct Known {
    /// The connection on which the server was asked last; below it the number of that connection at the time. If it is made
    /// again, it may lead to another server.
    link: Option<Arc<Link>>,
    connection: u32,
    question: Option<Question>,
    /// True if the server has refused to switch the connection to reading.
    is_refused: bool,
    /// The primary's offset at the last check but one, and at the last.
    written: (Option<i64>, Option<i64>),
}

/// A check of a server that is in flight.
struct Question {
    /// Each request with its answer, or with the slot in which that arrives.
    parts: Vec<(Ask, Result<Payload, Handle>)>,
    until: Instant,
}

/// One request of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Readonly,
    Zone,
    Role,
}

/// The role that a server claims.
#[derive(Debug, PartialEq, Eq)]
enum Role {
    Primary {
        written: i64,
    },
    Replica {
        follows: bool,
        read: i64,
    },
    /// The server refuses to tell its role, or its answer is no role.
    Unknown,
}

impl HealthChecks {
    pub(super) fn new(policy: &ReadFrom, is_cluster: bool) -> Self {
        Self { policy: policy.clone(), is_cluster, next_at: now(), known: HashMap::new() }
    }

    /// Returns the time of the next check if no event comes first.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        if self.policy == ReadFrom::Primary {
            return None;
        }
        let questions = self.known.values().filter_map(|known| known.question.as_ref());
        let late = questions.map(|question| question.until).filter(|&until| until > now);
        late.chain([self.next_at]).min()
    }

    /// Lets the next turn check the servers, because they may have changed.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.next_at = now;
    }

    /// Takes the answers that have arrived, and begins new checks when they are due. Returns whether a server has turned out
    /// to be no replica of its primary any more.
    pub(super) fn turn<'a>(
        &mut self,
        shards: impl Iterator<Item = (&'a Arc<Node>, &'a Replicas)>,
        requests: &mut InternalRequests,
        now: Instant,
    ) -> bool {
        if self.policy == ReadFrom::Primary {
            return false;
        }
        let is_due = self.next_at <= now;
        let mut before = std::mem::take(&mut self.known);
        let mut is_doubted = false;
        for (primary, replicas) in shards {
            let mut known = before.remove(&primary.number).unwrap_or_default();
            if let Some(answers) = known.hear(primary, now) {
                known.is_primary(&answers, primary, &self.policy);
            }
            let written = known.written.0;
            if is_due && known.question.is_none() {
                let link = primary.link().filter(|_| !replicas.all.is_empty());
                let asks = self.asks(&known, link.as_ref(), false);
                known.ask(link, asks, requests, now);
            }
            self.known.insert(primary.number, known);
            for replica in &replicas.all {
                let mut known = before.remove(&replica.number).unwrap_or_default();
                if let Some(answers) = known.hear(replica, now) {
                    is_doubted |= known.is_replica(&answers, replica, &self.policy, written);
                }
                if is_due && known.question.is_none() {
                    let link = replica.connect(now);
                    if link.is_none() {
                        replica.set_fitness(Fitness::Unfit);
                    }
                    let asks = self.asks(&known, link.as_ref(), true);
                    known.ask(link, asks, requests, now);
                }
                self.known.insert(replica.number, known);
            }
        }
        if is_due {
            self.next_at = now + PERIOD;
        }
        is_doubted
    }
}

/// The checks that are sent.
impl HealthChecks {
    /// Returns the requests of a check over this connection; some are sent only once for each connection.
    fn asks(&self, known: &Known, link: Option<&Arc<Link>>, is_replica: bool) -> Vec<Ask> {
        let is_fresh = link.is_some_and(|link| known.link.as_ref().is_none_or(|known| !Arc::ptr_eq(known, link)));
        let mut asks = Vec::new();
        if is_fresh && is_replica && self.is_cluster {
            asks.push(Ask::Readonly);
        }
        let is_elsewhere = link.is_some_and(|link| link.connection.load(Ordering::Relaxed) != known.connection);
        if (is_fresh || is_elsewhere) && matches!(self.policy, ReadFrom::Zone(_)) {
            asks.push(Ask::Zone);
        }
        asks.push(Ask::Role);
        asks
    }
}

impl Known {
    fn ask(&mut self, link: Option<Arc<Link>>, asks: Vec<Ask>, requests: &mut InternalRequests, now: Instant) {
        let Some(link) = link else {
            *self = Self::default();
            return;
        };
        let mut parts = Vec::new();
        for ask in asks {
            let Some(handle) = requests.send(&link, ask.request(), ask.name()) else {
                *self = Self::default();
                return;
            };
            parts.push((ask, Err(handle)));
        }
        self.connection = link.connection.load(Ordering::Relaxed);
        self.link = Some(link);
        self.question = Some(Question { parts, until: now + ANSWER_TIMEOUT });
    }

    /// Returns the answers of a check, once all have arrived. A server that takes too long is unfit until then.
    fn hear(&mut self, node: &Node, now: Instant) -> Option<Vec<(Ask, Payload)>> {
        let Question { parts, until } = self.question.take()?;
        let parts: Vec<_> = parts.into_iter().map(|(ask, part)| (ask, part.or_else(Handle::take))).collect();
        if parts.iter().any(|(_, part)| part.is_err()) {
            if until <= now {
                node.set_fitness(Fitness::Unfit);
            }
            self.question = Some(Question { parts, until });
            return None;
        }
        Some(parts.into_iter().filter_map(|(ask, part)| Some((ask, part.ok()?))).collect())
    }

    /// Takes the answers of a primary.
    fn is_primary(&mut self, answers: &[(Ask, Payload)], node: &Node, policy: &ReadFrom) {
        for (ask, answer) in answers {
            match ask {
                Ask::Zone => node.set_near(is_in(answer, policy)),
                Ask::Role => {
                    let written = match role(answer) {
                        Role::Primary { written } => Some(written),
                        _ => None,
                    };
                    self.written = (self.written.1, written);
                }
                Ask::Readonly => {}
            }
        }
    }

    /// Takes the answers of a replica; `written` is its primary's offset one check ago. Returns true if the server is no
    /// replica any more.
    fn is_replica(&mut self, answers: &[(Ask, Payload)], node: &Node, policy: &ReadFrom, written: Option<i64>) -> bool {
        let mut has_changed = false;
        for (ask, answer) in answers {
            match ask {
                Ask::Readonly => self.is_refused = answer.frame().is_err(),
                Ask::Zone => node.set_near(is_in(answer, policy)),
                Ask::Role => {
                    let role = role(answer);
                    has_changed = matches!(role, Role::Primary { .. });
                    node.set_fitness(match role {
                        _ if self.is_refused => Fitness::Unfit,
                        Role::Primary { .. } => Fitness::Unfit,
                        Role::Replica { follows: true, read } if written.is_none_or(|written| read >= written) => {
                            Fitness::Fit
                        }
                        Role::Replica { .. } => Fitness::Stale,
                        Role::Unknown if is_without_data(answer) => Fitness::Unfit,
                        Role::Unknown => Fitness::Fit,
                    });
                }
            }
        }
        has_changed
    }
}

impl Ask {
    fn request(self) -> &'static [u8] {
        match self {
            Self::Readonly => READONLY,
            Self::Zone => INFO,
            Self::Role => ROLE,
        }
    }

    fn name(self) -> Name {
        match self {
            Self::Readonly => const { Name::of(&["READONLY"]) },
            Self::Zone => const { Name::of(&["INFO"]) },
            Self::Role => const { Name::of(&["ROLE"]) },
        }
    }
}

/// Returns whether this answer to ROLE means that the server cannot be read from: it has no data, or no connection. A server
/// that refuses to tell its role counts as having the expected one.
fn is_without_data(answer: &Payload) -> bool {
    answer.frame().is_err_and(|error: Error| error.code().is_none_or(|code| WITHOUT_DATA.contains(&code)))
}

/// Reads the role from the answer to ROLE.
fn role(answer: &Payload) -> Role {
    let read = || {
        let Frame::Array(mut items) = answer.frame().ok()? else { return None };
        let mut next = || items.next()?.ok();
        match next()? {
            Frame::Bulk(b"master") => match next()? {
                Frame::Integer(written) => Some(Role::Primary { written }),
                _ => None,
            },
            Frame::Bulk(b"slave") => {
                let (_, _) = (next()?, next()?);
                match (next()?, next()?) {
                    (Frame::Bulk(state), Frame::Integer(read)) => {
                        Some(Role::Replica { follows: state == b"connected", read })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    };
    read().unwrap_or(Role::Unknown)
}

/// Returns whether the answer to INFO says that the server is in the preferred zone.
fn is_in(answer: &Payload, policy: &ReadFrom) -> bool {
    let ReadFrom::Zone(wanted) = policy else { return false };
    let Ok(Frame::Bulk(info) | Frame::Verbatim { text: info, .. }) = answer.frame() else { return false };
    let mut lines = info.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
    lines.any(|line| line.strip_prefix(b"availability_zone:") == Some(wanted.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read_from_foreign_bytes() {
        let role = |bytes: &str| role(&Payload::of(bytes.as_bytes()));
        assert_eq!(role("*3\r\n$6\r\nmaster\r\n:77\r\n*0\r\n"), Role::Primary { written: 77 });
        let replica =
            |state: &str| format!("*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n${}\r\n{state}\r\n:7\r\n", state.len());
        assert_eq!(role(&replica("connected")), Role::Replica { follows: true, read: 7 });
        assert_eq!(role(&replica("sync")), Role::Replica { follows: false, read: 7 });
        for odd in ["+OK\r\n", "*1\r\n$5\r\nslave\r\n", "*2\r\n$6\r\nmaster\r\n$1\r\nx\r\n", "-NOPERM no\r\n", "*0\r\n"]
        {
            assert_eq!(role(odd), Role::Unknown, "{odd}");
        }
    }

    #[test]
    fn a_zone_is_a_line_of_info() {
        let is_in = |info: &str| {
            let bytes = format!("${}\r\n{info}\r\n", info.len());
            is_in(&Payload::of(bytes.as_bytes()), &ReadFrom::Zone("a-1".to_owned()))
        };
        assert!(is_in("# Server\r\navailability_zone:a-1\r\nx:y\r\n"));
        for other in ["# Server\r\nx:y\r\n", "availability_zone:\r\n", "availability_zone:a-10\r\n", ""] {
            assert!(!is_in(other), "{other}");
        }
    }
}
