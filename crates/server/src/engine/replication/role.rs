//! Whether this server is a primary or a replica, of whom, and how its link is.
//!
//! Who changes the role holds the locks of all shards ([`Role::follow`], [`Role::lead`]): so no write is under way that was let
//! through before. One thread keeps the link while there is a primary to be followed; it asks for its [`Task`], says how far it
//! is, and ends when there is none any more. A task that another has replaced says nothing any more: each has a number. Any
//! thread may look.

use std::net::{Shutdown, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::host::waiting::Condvar;

/// Where a primary is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// How far a link is, in the words of ROLE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// There is to be one.
    Connect,
    /// A connection is being made.
    Connecting,
    /// The two introduce themselves.
    Handshake,
    /// All data is coming, or being loaded.
    Sync,
    /// The stream comes.
    Connected,
}

impl LinkState {
    /// As ROLE says it.
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

/// A dump that is coming.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Its bytes, if the primary has said how many.
    pub total_bytes: Option<u64>,
    /// Bytes that have come.
    pub read_bytes: u64,
}

/// What a replica can say of its link.
#[derive(Debug, Clone)]
pub struct LinkStatus {
    /// Where the primary is.
    pub primary: Address,
    /// How far the link is.
    pub state: LinkState,
    /// When something last came, monotonic milliseconds; none before that.
    pub heard_ms: Option<u64>,
    /// Since when there is no stream, monotonic milliseconds; none where it never came, or is there.
    pub down_since_ms: Option<u64>,
    /// The dump that is coming.
    pub transfer: Option<Transfer>,
}

/// Whom the link's thread is to follow.
#[derive(Debug, Clone)]
pub struct Task {
    /// Where the primary is.
    pub primary: Address,
    /// Which task this is.
    pub number: u64,
    /// How often this server had become a primary, or had changed data by itself: what was copied from another before that is no
    /// copy any more.
    pub leads: u64,
    /// Whether this server's own journal, of the time when it was a primary, may be continued.
    pub may_continue: bool,
}

/// Starts the thread of the link.
type Starter = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The role of one engine. Any thread.
#[derive(Default)]
pub struct Role {
    is_replica: AtomicBool,
    /// Bytes of the stream that have come, beyond those that were applied.
    ahead_bytes: AtomicU64,
    /// See [`Task::leads`].
    leads: AtomicU64,
    /// The number of the present task, for whoever looks at it often.
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
    /// The link's socket, so that whoever replaces the task can end what waits for it.
    socket: Option<TcpStream>,
    has_thread: bool,
    /// The engine ends.
    is_over: bool,
}

#[derive(Debug)]
struct Link {
    state: LinkState,
    heard_ms: Option<u64>,
    down_since_ms: Option<u64>,
    transfer: Option<Transfer>,
}

impl Default for Link {
    fn default() -> Self {
        Self { state: LinkState::Connect, heard_ms: None, down_since_ms: None, transfer: None }
    }
}

impl Role {
    /// Whether this is a replica.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::Acquire)
    }

    /// The number of the present task. Costs one load.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Says what starts the thread of the link.
    pub fn set_starter(&self, start: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        // The first stays: all of one engine are the same.
        _ = self.starter.set(Box::new(start));
    }

    /// Whether this engine can be a replica.
    pub fn can_follow(&self) -> bool {
        self.starter.get().is_some()
    }

    /// Follows this primary from now on, whomever it followed before; false where it did so already. Where it was a primary,
    /// `may_continue` says whether its own journal may be continued. All shards are locked, or nobody is served yet.
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

    /// Follows nobody from now on; false where it did not. All shards are locked.
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

    /// What was loaded stands at a place in a primary's stream: the link may go on from there. Nobody is served yet.
    pub fn allow_continuing(&self) {
        self.inner.lock().may_continue = true;
    }

    /// What there is may not be what the stream says: the link is to ask for all data.
    pub fn forbid_continuing(&self) {
        self.inner.lock().may_continue = false;
    }

    /// Has the link begin once more and ask for all data, because this server has changed data that the stream does not have.
    /// All shards are locked: a link that was about to go on finds its task replaced.
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

    /// Sees to it that there is a thread for the link, if there is to be one. No lock is held.
    ///
    /// # Errors
    /// Why it cannot start.
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

    /// Has the link end and its thread: the engine ends.
    pub fn end(&self) {
        let mut inner = self.inner.lock();
        inner.is_over = true;
        inner.number += 1;
        self.number.store(inner.number, Ordering::Release);
        inner.shut();
        self.changed.notify_all();
    }

    /// Waits until the thread of the link has ended, which was told to, or until the time is over.
    pub fn wait_until_ended(&self, time: Duration) {
        let mut inner = self.inner.lock();
        self.changed.wait_while_for(&mut inner, |inner| inner.has_thread, time);
    }

    /// The primary, if this is a replica, and how the link is.
    pub fn link(&self) -> Option<LinkStatus> {
        let inner = self.inner.lock();
        let Link { state, heard_ms, down_since_ms, transfer } = inner.link;
        Some(LinkStatus { primary: inner.primary.clone()?, state, heard_ms, down_since_ms, transfer })
    }

    /// Whether the stream comes.
    pub fn is_connected(&self) -> bool {
        self.inner.lock().link.state == LinkState::Connected
    }

    /// Bytes of the stream that have come and are not applied yet.
    pub fn ahead_bytes(&self) -> u64 {
        self.ahead_bytes.load(Ordering::Relaxed)
    }
}

/// What the thread of the link says and asks.
impl Role {
    /// Whom to follow; none when the thread is to end, which it then does: another may be started.
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

    /// The thread has ended amid its task, because of a fault of ours.
    pub fn note_thread_failed(&self) {
        self.inner.lock().has_thread = false;
        self.changed.notify_all();
    }

    /// Whether a task still stands.
    pub fn is_current(&self, task: &Task) -> bool {
        self.inner.lock().number == task.number
    }

    /// Waits for so long, or until the task does not stand any more.
    pub fn wait(&self, task: &Task, time: Duration) {
        let mut inner = self.inner.lock();
        if inner.number == task.number {
            self.changed.wait_for(&mut inner, time);
        }
    }

    /// Keeps a second handle of the link's socket, to end it when the task does; false when the task has ended already.
    pub fn keep_socket(&self, task: &Task, socket: Option<TcpStream>) -> bool {
        let mut inner = self.inner.lock();
        let is_current = inner.number == task.number;
        if is_current {
            inner.socket = socket;
        }
        is_current
    }

    /// Says how far the link is at this time, monotonic milliseconds; false when the task has ended.
    pub fn set_state(&self, task: &Task, state: LinkState, now_ms: u64) -> bool {
        let mut inner = self.inner.lock();
        if inner.number != task.number {
            return false;
        }
        let link = &mut inner.link;
        if state == LinkState::Connected {
            link.down_since_ms = None;
        } else if link.state == LinkState::Connected {
            link.down_since_ms = Some(now_ms);
        }
        if state != LinkState::Sync {
            link.transfer = None;
        }
        link.state = state;
        true
    }

    /// Says how much of a dump has come.
    pub fn set_transfer(&self, task: &Task, transfer: Transfer) {
        let mut inner = self.inner.lock();
        if inner.number == task.number {
            inner.link.transfer = Some(transfer);
        }
    }

    /// Says how many bytes of the stream have come that are not applied yet.
    pub fn note_ahead(&self, bytes: u64) {
        self.ahead_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Something has come from the primary at this time, monotonic milliseconds.
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

    /// Ends what waits for the socket.
    fn shut(&mut self) {
        if let Some(socket) = self.socket.take() {
            // One that is closed already is as good.
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
        role.set_state(&task, LinkState::Connect, 7);
        let link = role.link().expect("a replica");
        assert_eq!((link.down_since_ms, link.transfer), (Some(7), None));
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
