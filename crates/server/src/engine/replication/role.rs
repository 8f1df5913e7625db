//! The role of this server: primary or replica, its primary's address, and the state of its link.
//!
//! The thread that changes the role holds the locks of all shards ([`Role::follow`], [`Role::lead`]), so no write that has
//! passed the gates before is still running. One thread runs the link while there is a primary to follow. It asks for its
//! [`Task`], reports its progress, and ends when there is no task any more. Each task has a number: a task that was replaced
//! can no longer report. Any thread may read.

use std::net::{Shutdown, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::host::waiting::Condvar;

/// The address of a primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The primary's name or address.
    pub host: String,
    /// The primary's port.
    pub port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The progress of a link, with ROLE's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// The link is down: no connection is open.
    Connect,
    /// A connection is being opened.
    Connecting,
    /// Replica and primary exchange their properties.
    Handshake,
    /// A full sync: the snapshot is arriving, or is being loaded.
    Sync,
    /// The stream arrives.
    Connected,
}

impl LinkState {
    /// Returns ROLE's name of the state.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Connecting => "connecting",
            Self::Handshake => "handshake",
            Self::Sync => "sync",
            Self::Connected => "connected",
        }
    }
}

/// The snapshot of a full sync that is arriving.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfer {
    /// The length of the snapshot, if the primary has stated it.
    pub total_bytes: Option<u64>,
    /// The received bytes.
    pub read_bytes: u64,
}

/// The state of a replica's link.
#[derive(Debug, Clone)]
pub struct LinkStatus {
    /// The primary's address.
    pub primary: Address,
    /// The progress of the link.
    pub state: LinkState,
    /// The time of the last bytes from the primary, in monotonic milliseconds; None before the first.
    pub heard_ms: Option<u64>,
    /// The time since which no stream arrives, in monotonic milliseconds; None if it never began, or if it arrives.
    pub down_since_ms: Option<u64>,
    /// The time of the last bytes of the stream that has ended, in monotonic milliseconds; None if it never began, or if it
    /// arrives. The server may notice the end of a link long after them.
    pub copied_ms: Option<u64>,
    /// The snapshot that is arriving.
    pub transfer: Option<Transfer>,
}

/// The primary that the link's thread has to follow.
#[derive(Debug, Clone)]
pub struct Task {
    /// The primary's address.
    pub primary: Address,
    /// The number of this task.
    pub number: u64,
    /// The number of times that this server had become a primary, or had changed data by itself, when the task began. Data
    /// that was copied before such a change is no copy any more.
    pub leads: u64,
    /// This server's own journal, from the time when it was a primary, may be continued.
    pub may_continue: bool,
}

/// A function that starts the thread of the link.
type Starter = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The role of one engine. Any thread.
#[derive(Default)]
pub struct Role {
    is_replica: AtomicBool,
    /// The received bytes of the stream that are not applied yet.
    ahead_bytes: AtomicU64,
    /// See [`Task::leads`].
    leads: AtomicU64,
    /// The number of the present task, for frequent checks.
    number: AtomicU64,
    inner: Mutex<Inner>,
    changed: Condvar,
    starter: OnceLock<Starter>,
}

impl std::fmt::Debug for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Role").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Inner {
    primary: Option<Address>,
    /// The number of the present task.
    number: u64,
    may_continue: bool,
    link: Link,
    /// The link's socket, so that a thread that replaces the task can end waits on it.
    socket: Option<TcpStream>,
    has_thread: bool,
    /// The engine has ended.
    is_over: bool,
}

#[derive(Debug)]
struct Link {
    state: LinkState,
    heard_ms: Option<u64>,
    down_since_ms: Option<u64>,
    copied_ms: Option<u64>,
    transfer: Option<Transfer>,
}

impl Default for Link {
    fn default() -> Self {
        Self { state: LinkState::Connect, heard_ms: None, down_since_ms: None, copied_ms: None, transfer: None }
    }
}

impl Role {
    /// Returns whether this is a replica.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::Acquire)
    }

    /// Returns the number of the present task. Costs one load.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Sets the function that starts the thread of the link.
    pub fn set_starter(&self, start: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        // If it was set before, the first one stays: all starters of one engine are the same.
        _ = self.starter.set(Box::new(start));
    }

    /// Returns whether this engine can be a replica.
    pub fn can_follow(&self) -> bool {
        self.starter.get().is_some()
    }

    /// Makes this server follow a primary from now on, in place of an earlier one. Returns false if it does so already. If it
    /// was a primary, `may_continue` says whether its own journal may be continued. All shards are locked, or no client is
    /// served yet.
    pub fn follow(&self, primary: Address, may_continue: bool) -> bool {
        let mut inner = self.inner.lock();
        if inner.primary.as_ref() == Some(&primary) {
            return false;
        }
        if inner.primary.is_none() {
            inner.may_continue = may_continue;
        }
        inner.replace(Some(primary));
        self.number.store(inner.number, Ordering::Release);
        self.is_replica.store(true, Ordering::Release);
        self.changed.notify_all();
        true
    }

    /// Makes this server a primary. Returns false if it is one already. All shards are locked.
    pub fn lead(&self) -> bool {
        let mut inner = self.inner.lock();
        if inner.primary.is_none() {
            return false;
        }
        inner.replace(None);
        self.number.store(inner.number, Ordering::Release);
        self.leads.fetch_add(1, Ordering::AcqRel);
        self.is_replica.store(false, Ordering::Release);
        self.changed.notify_all();
        true
    }

    /// Lets the link continue at the position of the loaded data, which lies in a primary's stream. No client is served yet.
    pub fn allow_continuing(&self) {
        self.inner.lock().may_continue = true;
    }

    /// Makes the link ask for a full sync: the data may differ from the stream.
    pub fn forbid_continuing(&self) {
        self.inner.lock().may_continue = false;
    }

    /// Makes the link begin again with a full sync, because this server has changed data outside of the stream. All shards
    /// are locked, so a link that is about to apply bytes notices that its task was replaced.
    pub fn begin_anew(&self) {
        let mut inner = self.inner.lock();
        if !std::mem::replace(&mut inner.may_continue, false) {
            return;
        }
        let primary = inner.primary.take();
        inner.replace(primary);
        self.number.store(inner.number, Ordering::Release);
        self.leads.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_all();
    }

    /// Starts the thread of the link, if there is a primary to follow and the thread does not run. No lock is held.
    ///
    /// # Errors
    /// The reason why the thread cannot start.
    pub fn start(&self) -> Result<(), String> {
        let mut inner = self.inner.lock();
        if inner.has_thread || inner.primary.is_none() || inner.is_over {
            return Ok(());
        }
        let Some(start) = self.starter.get() else { return Err("this engine has no threads of its own".into()) };
        inner.has_thread = true;
        drop(inner);
        start().inspect_err(|_| self.inner.lock().has_thread = false)
    }

    /// Ends the link and its thread, because the engine ends.
    pub fn end(&self) {
        let mut inner = self.inner.lock();
        inner.is_over = true;
        inner.number += 1;
        self.number.store(inner.number, Ordering::Release);
        inner.shut();
        self.changed.notify_all();
    }

    /// Waits until the link's thread has ended, as it was told to, or until the timeout.
    pub fn wait_until_ended(&self, time: Duration) {
        let mut inner = self.inner.lock();
        self.changed.wait_while_for(&mut inner, |inner| inner.has_thread, time);
    }

    /// Returns the primary and the state of the link, if this is a replica.
    pub fn link(&self) -> Option<LinkStatus> {
        let inner = self.inner.lock();
        let Link { state, heard_ms, down_since_ms, copied_ms, transfer } = inner.link;
        Some(LinkStatus { primary: inner.primary.clone()?, state, heard_ms, down_since_ms, copied_ms, transfer })
    }

    /// Returns whether the stream arrives.
    pub fn is_connected(&self) -> bool {
        self.inner.lock().link.state == LinkState::Connected
    }

    /// Returns whether a full sync is in progress: the snapshot is arriving, or is being loaded.
    pub fn is_syncing(&self) -> bool {
        self.inner.lock().link.state == LinkState::Sync
    }

    /// Returns the received bytes of the stream that are not applied yet.
    pub fn ahead_bytes(&self) -> u64 {
        self.ahead_bytes.load(Ordering::Relaxed)
    }
}

/// The functions for the link's thread.
impl Role {
    /// Returns the task of the thread. If it returns None, the thread has to end, and another may be started later.
    pub fn task(&self) -> Option<Task> {
        let mut inner = self.inner.lock();
        let primary = inner.primary.clone().filter(|_| !inner.is_over);
        if primary.is_none() {
            inner.has_thread = false;
            self.changed.notify_all();
        }
        let Inner { number, may_continue, .. } = *inner;
        let leads = self.leads.load(Ordering::Acquire);
        Some(Task { primary: primary?, number, leads, may_continue })
    }

    /// Notes that the thread has ended within its task, because of an internal fault.
    pub fn note_thread_failed(&self) {
        self.inner.lock().has_thread = false;
        self.changed.notify_all();
    }

    /// Returns whether a task has not been replaced.
    pub fn is_current(&self, task: &Task) -> bool {
        self.inner.lock().number == task.number
    }

    /// Waits for so long, or until the task is replaced or ended.
    pub fn wait(&self, task: &Task, time: Duration) {
        let mut inner = self.inner.lock();
        if inner.number == task.number {
            self.changed.wait_for(&mut inner, time);
        }
    }

    /// Keeps a second handle of the link's socket, to shut it when the task ends. Returns false if the task has ended
    /// already.
    pub fn keep_socket(&self, task: &Task, socket: Option<TcpStream>) -> bool {
        let mut inner = self.inner.lock();
        let is_current = inner.number == task.number;
        if is_current {
            inner.socket = socket;
        }
        is_current
    }

    /// Sets the state of the link at this time, in monotonic milliseconds. Returns false if the task has ended.
    pub fn set_state(&self, task: &Task, state: LinkState, now_ms: u64) -> bool {
        let mut inner = self.inner.lock();
        if inner.number != task.number {
            return false;
        }
        let link = &mut inner.link;
        if state == LinkState::Connected {
            (link.down_since_ms, link.copied_ms) = (None, None);
        } else if link.state == LinkState::Connected {
            link.down_since_ms = Some(now_ms);
            link.copied_ms = link.heard_ms.or(Some(now_ms));
        }
        if state != LinkState::Sync {
            link.transfer = None;
        }
        link.state = state;
        true
    }

    /// Sets the progress of an arriving snapshot.
    pub fn set_transfer(&self, task: &Task, transfer: Transfer) {
        let mut inner = self.inner.lock();
        if inner.number == task.number {
            inner.link.transfer = Some(transfer);
        }
    }

    /// Sets the number of received bytes of the stream that are not applied yet.
    pub fn note_ahead(&self, bytes: u64) {
        self.ahead_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Notes that bytes of the primary arrived at this time, in monotonic milliseconds.
    pub fn note_heard(&self, now_ms: u64) {
        self.inner.lock().link.heard_ms = Some(now_ms);
    }
}

impl Inner {
    fn replace(&mut self, primary: Option<Address>) {
        self.primary = primary;
        self.number += 1;
        self.link = Link::default();
        self.shut();
    }

    /// Shuts the socket, which ends all waits on it.
    fn shut(&mut self) {
        if let Some(socket) = self.socket.take() {
            // An error means that the socket is closed already, which is as good.
            _ = socket.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address { host: "localhost".into(), port }
    }

    #[test]
    fn a_task_that_was_replaced_says_nothing_any_more() {
        let role = Role::default();
        assert!(!role.is_replica() && role.link().is_none() && role.task().is_none() && !role.lead());
        assert!(role.follow(address(1), false) && !role.follow(address(1), false) && role.is_replica());
        let first = role.task().expect("a primary");
        assert!(role.set_state(&first, LinkState::Connected, 7) && role.is_connected());
        assert!(role.follow(address(2), false));
        assert!(!role.is_current(&first) && !role.set_state(&first, LinkState::Connected, 7));
        role.set_transfer(&first, Transfer::default());
        let link = role.link().expect("a replica");
        assert_eq!((link.primary.port, link.state, link.transfer), (2, LinkState::Connect, None));
        role.wait(&first, Duration::from_secs(1_000));
        assert!(role.lead() && !role.is_replica());
        assert!(role.task().is_none());
    }

    #[test]
    fn a_link_that_is_lost_says_since_when() {
        let role = Role::default();
        role.follow(address(1), false);
        let task = role.task().expect("a primary");
        role.set_state(&task, LinkState::Sync, 7);
        role.set_transfer(&task, Transfer { total_bytes: Some(10), read_bytes: 3 });
        let link = role.link().expect("a replica");
        assert_eq!((link.down_since_ms, link.transfer.map(|transfer| transfer.read_bytes)), (None, Some(3)));
        role.set_state(&task, LinkState::Connected, 7);
        role.note_heard(8);
        role.set_state(&task, LinkState::Connect, 20_000);
        let link = role.link().expect("a replica");
        assert_eq!((link.down_since_ms, link.copied_ms, link.transfer), (Some(20_000), Some(8), None));
        role.set_state(&task, LinkState::Handshake, 20_001);
        role.note_heard(20_002);
        assert_eq!(role.link().expect("a replica").copied_ms, Some(8), "a handshake brings no data");
    }

    #[test]
    fn one_thread_keeps_the_link_and_ends_when_there_is_nobody_to_be_followed() {
        let role = Role::default();
        assert!(!role.can_follow());
        let started = std::sync::Arc::new(AtomicU64::new(0));
        let count = std::sync::Arc::clone(&started);
        role.set_starter(move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        role.start().expect("nothing to be done");
        role.follow(address(1), false);
        role.start().expect("a thread");
        role.follow(address(2), false);
        role.start().expect("it is there");
        assert_eq!(started.load(Ordering::Relaxed), 1);
        role.lead();
        assert!(role.task().is_none());
        role.follow(address(3), false);
        role.start().expect("another");
        assert_eq!(started.load(Ordering::Relaxed), 2);
        role.end();
        assert!(role.task().is_none());
        role.wait_until_ended(Duration::from_secs(1_000));
    }
}
