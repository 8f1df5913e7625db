//! The state of one client that its session and the commands that it runs share.
//!
//! Plain data. The session owns it and lends it to each command; the part of a client that other threads may see or change is
//! in `client_info` instead. So nothing here needs a lock: only the thread that runs the session at the moment uses it.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sleeve_wire::commands::{Flags, Row};
use sleeve_wire::reply::{Protocol, Writer};

use crate::acl::User;
use crate::engine::Engine;
use crate::engine::clients::blocking::Waiter;
use crate::engine::clients::client_info::ClientInfo;
use crate::engine::clients::tracking::Changer;
use crate::engine::clients::watch::Flag;
use crate::engine::replication::Replica;
use crate::messaging::message::Kind;
use crate::messaging::pubsub::Own;
use crate::messaging::subscription::Subscriptions;
use crate::request::KeyAt;
use crate::request::queue::Queue;

/// The settings of a client: database, protocol, transaction, subscriptions, tracking. Owned by the session; no other thread
/// sees it.
#[derive(Debug)]
pub struct SessionState {
    /// The part of this client that other threads see.
    pub client: Arc<ClientInfo>,
    /// The selected database.
    pub database: u32,
    /// The protocol of the replies.
    pub protocol: Protocol,
    /// The user as which this client is logged in.
    pub login: Login,
    /// The transaction between MULTI and EXEC, and the watched keys.
    pub multi: Multi,
    /// The setting of CLIENT REPLY: which replies are sent.
    pub replies: Replies,
    /// The connection is closed when the replies so far have left.
    pub closing: bool,
    /// CLIENT NO-TOUCH: reading does not renew a key's access clock.
    pub no_touch: bool,
    /// The client's subscriptions, once it has subscribed to anything.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// The options of CLIENT TRACKING, if it is on: the keys that the client reads are remembered.
    pub tracking: Option<Box<Track>>,
    /// The facts that the client has given about itself as a replica.
    pub replica: Option<Arc<Replica>>,
    /// The waiter of a blocked client. While there is one, no command of the client runs.
    pub blocked: Option<Arc<Waiter>>,
    /// The command that runs or ran last.
    pub row: Option<&'static Row>,
    /// The origin of the commands, if they do not come from the client itself.
    pub origin: Origin,
    /// The offsets of the journal that the client has seen and written.
    pub journal: JournalOffsets,
    /// The data about the client that other threads see may be out of date in more fields than those that are updated after
    /// each batch.
    pub is_news: bool,
}

/// The user of a client.
#[derive(Debug)]
pub struct Login {
    /// The user.
    pub user: Arc<User>,
    /// The client has logged in, or needed no password when it connected.
    pub authenticated: bool,
    /// The epoch of the users at which `user` was looked up.
    pub seen_at: u64,
    /// The epoch of the users at which nothing was forbidden to this client; 0 for none. While it is the present epoch, no
    /// permission has to be checked.
    pub unrestricted_at: u64,
}

/// The state of MULTI, EXEC and WATCH.
#[derive(Debug, Default)]
pub struct Multi {
    /// Commands that wait for EXEC, after MULTI.
    pub transaction: Option<Transaction>,
    /// The number of commands of the EXEC that runs.
    pub executing: Option<i64>,
    /// The watched keys: EXEC fails if one of them has changed.
    pub watching: Watching,
    /// The slot to which the running EXEC or script is bound by its keys. Only a node of a cluster uses it.
    pub slot: Option<u16>,
}

/// The origin of a session's commands.
#[derive(Debug, Default)]
pub struct Origin {
    /// The commands are those of an AOF or of a primary's stream: they find expired keys still there.
    pub is_replaying: bool,
    /// The commands may not block on a key, because a script or a replay runs them.
    pub denies_blocking: bool,
    /// The requests of this session appear in no log and no count of errors.
    pub is_unobserved: bool,
    /// The number of commands, 1 or 2, until the end of the one that follows ASKING; see [`Origin::note_asking`].
    pub asking: u8,
    /// The waiter of the running request, if this is the stand-in for the state of a blocked client.
    pub serving: Option<Arc<Waiter>>,
}

impl Origin {
    /// Notes that the client has sent ASKING: it was sent here by another node of the cluster, for its next command.
    pub fn note_asking(&mut self) {
        self.asking = 2;
    }

    /// Notes that a command begins. The commands of a transaction count as one.
    pub fn pass_asking(&mut self) {
        self.asking = self.asking.saturating_sub(1);
    }

    /// Forgets that the client has sent ASKING.
    pub fn forget_asking(&mut self) {
        self.asking = 0;
    }

    /// Returns whether the running command is the one behind ASKING.
    pub fn is_asking(&self) -> bool {
        self.asking != 0
    }
}

/// The offsets of the journal that a client has seen and written.
#[derive(Debug, Default)]
pub struct JournalOffsets {
    /// The journal's offset behind all changes that the replies so far show: the client's own, and those of others that it
    /// has read.
    pub shown_offset: u64,
    /// The client has changed something since [`JournalOffsets::written_offset`] was called last.
    pub has_written: bool,
    /// The offset that [`JournalOffsets::written_offset`] returned last: it is behind all changes that the client had made by
    /// then.
    written_offset: u64,
}

/// CLIENT TRACKING: the options of the client.
#[derive(Debug, Clone, Default)]
pub struct Track {
    /// The client that the invalidations are redirected to; 0 for none.
    pub redirect: u64,
    /// The client is notified of every change below its prefixes.
    pub broadcast: bool,
    /// OPTIN: only keys of commands behind CLIENT CACHING YES are remembered.
    pub opt_in: bool,
    /// OPTOUT: all keys are remembered, except those of commands behind CLIENT CACHING NO.
    pub opt_out: bool,
    /// The client gets no invalidations of its own changes.
    pub no_loop: bool,
    /// CLIENT CACHING was the last command.
    pub caching: bool,
    /// The client to which the invalidations are redirected has disconnected.
    pub broken: bool,
    /// The prefixes of the keys of which the client is notified in BCAST mode.
    pub prefixes: Vec<Box<[u8]>>,
    /// The memory of the prefixes.
    pub prefixes_bytes: usize,
}

/// The settings of CLIENT REPLY, and that of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replies {
    /// All replies are sent.
    On,
    /// Sends no replies until CLIENT REPLY ON.
    Off,
    /// The reply to the next command is not sent: the running command is CLIENT REPLY SKIP.
    SkipNext,
    /// The reply to the running command is not sent.
    Skip,
    /// Sends no replies to a replica, which gets the replication stream: if a command answers it, it is closed.
    Stream,
}

/// The transaction that MULTI began.
#[derive(Debug, Default)]
pub struct Transaction {
    /// A command could not be queued: EXEC will refuse.
    pub aborted: bool,
    /// The commands in order.
    pub queue: Queue,
    /// The flags that at least one of the commands had when it was queued.
    pub flags: Flags,
    /// The flags that let a command run while data is loaded or stale, and that at least one of the queued commands lacks.
    pub lacking: Flags,
    /// The places of the keys of all commands, once EXEC has arrived. [`Transaction::places`] says which of them belong to
    /// each command.
    pub keys: Vec<KeyAt>,
    /// The range of `keys` that belongs to each command; see [`Transaction::keys`].
    pub places: Vec<Range<usize>>,
}

/// The watched keys of one client.
#[derive(Debug, Default)]
pub struct Watching {
    flag: Flag,
    keys: HashSet<Watched>,
    /// The memory of the keys.
    bytes: usize,
}

/// One watched key.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Watched {
    /// The key's database.
    pub database: u32,
    /// The key's name.
    pub key: Box<[u8]>,
}

/// The memory of a watched key besides its name, in bytes: entries of tables that are not full, here and in the engine's
/// table of watched keys, which has the name once more, and a list of flags.
const WATCHED_BYTES: usize = 200;

/// The memory of a prefix besides its name, in bytes: here and in the engine's table of prefixes, which has the name once
/// more.
const PREFIX_BYTES: usize = 400;

/// The sizes of a session's input that was not executed yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Input {
    /// The number of received bytes.
    pub bytes: usize,
    /// The free room behind them, in bytes.
    pub spare: usize,
    /// The bytes of the arguments' positions, and of the arguments of a request that waits for a key.
    pub argument_bytes: usize,
}

impl Track {
    /// Weighs the client's prefixes after a change.
    pub fn weigh(&mut self) {
        self.prefixes_bytes = self.prefixes.iter().map(|prefix| PREFIX_BYTES + 2 * prefix.len()).sum();
    }
}

impl SessionState {
    /// Makes the state of a client that has just connected.
    pub fn new(client: Arc<ClientInfo>, user: Arc<User>) -> Self {
        let authenticated = user.enabled && user.no_password;
        Self {
            client,
            database: 0,
            protocol: Protocol::Resp2,
            login: Login { user, authenticated, seen_at: 0, unrestricted_at: 0 },
            multi: Multi::default(),
            replies: Replies::On,
            closing: false,
            no_touch: false,
            subscriptions: None,
            tracking: None,
            replica: None,
            blocked: None,
            row: None,
            origin: Origin::default(),
            journal: JournalOffsets::default(),
            is_news: true,
        }
    }

    /// Returns whether the client is in no special state: it has no transaction, no subscriptions and no tracking, gets all
    /// replies, and is no replica.
    #[inline]
    pub fn is_ordinary(&self) -> bool {
        let has_begun = self.multi.transaction.is_some() || self.subscriptions.is_some() || self.replica.is_some();
        !has_begun && self.tracking.is_none() && self.replies == Replies::On
    }

    /// Returns the state with which the request of a blocked client runs, in place of the state of its session, which another
    /// thread owns.
    pub fn stand_in(waiter: &Arc<Waiter>) -> Self {
        Self {
            database: waiter.database,
            protocol: waiter.protocol,
            no_touch: waiter.no_touch,
            row: Some(waiter.row),
            origin: Origin { serving: Some(Arc::clone(waiter)), ..Origin::default() },
            ..Self::new(Arc::clone(&waiter.client), Arc::clone(&waiter.user))
        }
    }

    /// Makes this the client of another user, which was looked up just now.
    pub fn log_in(&mut self, user: Arc<User>, authenticated: bool) {
        self.client.names.lock().user = user.name.clone();
        self.login = Login { user, authenticated, seen_at: 0, unrestricted_at: 0 };
    }

    /// Returns this client as a publisher that may receive its own messages, if it has subscriptions.
    #[inline]
    pub fn own(&self) -> Option<Own<'_>> {
        let subscriptions = self.subscriptions.as_deref()?;
        Some(Own { id: self.client.id, subscriptions })
    }

    /// Returns whether the client is shown the commands of all others.
    #[inline]
    pub fn is_monitor(&self) -> bool {
        self.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.len(Kind::Monitor) != 0)
    }

    /// Returns whether the client is a replica.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.is_registered())
    }

    /// Returns whether letters bring the client messages or invalidations: it has subscriptions, or tracks keys.
    #[inline]
    pub fn is_told(&self) -> bool {
        self.subscriptions.is_some() || self.tracking.is_some()
    }

    /// Returns which replies are sent if the client has not used CLIENT REPLY.
    pub fn usual_replies(&self) -> Replies {
        if self.is_replica() { Replies::Stream } else { Replies::On }
    }

    /// Returns whether the client has any subscriptions.
    #[inline]
    pub fn is_listening(&self) -> bool {
        self.subscriptions.as_ref().is_some_and(|subscriptions| !subscriptions.is_empty())
    }

    /// Returns this client as the author of changes of keys, if any client tracks.
    #[inline]
    pub fn changer(&self) -> Changer {
        Some((self.client.id, self.tracking.as_ref().is_some_and(|tracking| tracking.no_loop)))
    }

    /// Ends CLIENT TRACKING for this client.
    pub fn stop_tracking(&mut self, engine: &Engine) {
        if let Some(tracking) = self.tracking.take() {
            engine.clients.tracking.leave(self.client.id, &tracking.prefixes);
        }
    }

    /// Ends all subscriptions of this client.
    pub fn unsubscribe_all(&mut self, engine: &Engine) {
        let Some(subscriptions) = &mut self.subscriptions else { return };
        for kind in Kind::ALL {
            let names: Vec<Arc<[u8]>> = subscriptions.names(kind).cloned().collect();
            for name in names {
                subscriptions.strike_out(kind, &name);
                engine.pubsub.unsubscribe(kind, &name, &self.client.mailbox);
            }
        }
    }

    /// Ends the subscription to a shard channel that another node of the cluster serves. Returns the message for the client,
    /// or None if it has no such subscription.
    pub fn end_shard_channel(&mut self, engine: &Engine, channel: &[u8]) -> Option<Vec<u8>> {
        let subscriptions = self.subscriptions.as_mut()?;
        if !subscriptions.strike_out(Kind::Shard, channel) {
            return None;
        }
        engine.pubsub.unsubscribe(Kind::Shard, channel, &self.client.mailbox);
        let left = subscriptions.len(Kind::Shard);
        self.client.listened[Kind::Shard as usize].store(left, Ordering::Relaxed);
        let mut bytes = Vec::new();
        let mut message = Writer::new(&mut bytes, self.protocol);
        message.push(3);
        message.bulk(b"sunsubscribe");
        message.bulk(channel);
        message.integer(left as i64);
        Some(bytes)
    }

    /// Returns the memory of names: those of subscriptions and watched keys, and the prefixes of CLIENT TRACKING. The queue
    /// and the requests are not included.
    fn names_bytes(&self) -> usize {
        let listened_bytes = self.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.bytes());
        listened_bytes + self.tracking.as_ref().map_or(0, |tracking| tracking.prefixes_bytes)
    }

    /// Returns whether the actions of other clients may at any time change the data that other threads see of this client.
    pub fn is_watchful(&self) -> bool {
        let waits =
            self.multi.transaction.is_some() || self.multi.executing.is_some() || !self.multi.watching.keys.is_empty();
        waits || self.subscriptions.is_some() || self.tracking.is_some()
    }

    /// Updates the data that other threads see of this client after commands that concern data alone.
    #[inline]
    pub fn publish_use(&self, input: Input, now_ms: i64) {
        let client = &self.client;
        client.activity.active_ms.store(now_ms, Ordering::Relaxed);
        client.memory.input.store(input.bytes, Ordering::Relaxed);
        client.memory.input_spare.store(input.spare, Ordering::Relaxed);
        client.memory.arguments.store(input.argument_bytes, Ordering::Relaxed);
        self.publish_command();
    }

    /// Updates the command that other threads see: the one that the client runs, or has run last.
    #[inline]
    pub fn publish_command(&self) {
        self.client.activity.command.store(self.row.map_or(0, |row| row.id as u32 + 1), Ordering::Relaxed);
    }

    /// Updates all data that other threads see of this client.
    pub fn publish(&self, input: Input, now_ms: i64) {
        self.publish_use(input, now_ms);
        let client = &self.client;
        client.activity.database.store(self.database, Ordering::Relaxed);
        client.activity.protocol.store(if self.protocol == Protocol::Resp3 { 3 } else { 2 }, Ordering::Relaxed);
        let waiting = self.multi.transaction.as_ref().map(|transaction| transaction.queue.len() as i64);
        let queued = waiting.or(self.multi.executing).unwrap_or(-1);
        client.multi.queued.store(queued, Ordering::Relaxed);
        let queued_bytes = self.multi.transaction.as_ref().map_or(0, |transaction| transaction.queue.heap_bytes());
        client.memory.queue.store(queued_bytes + self.multi.watching.bytes, Ordering::Relaxed);
        client.multi.watched.store(self.multi.watching.keys.len(), Ordering::Relaxed);
        client.memory.names.store(self.names_bytes(), Ordering::Relaxed);
        client.multi.doomed.store(self.multi.watching.is_raised(), Ordering::Relaxed);
        client.status.closing.store(self.closing, Ordering::Relaxed);
        client.roles.monitors.store(self.is_monitor(), Ordering::Relaxed);
        let tracking = self.tracking.as_deref();
        client.tracking.redirect.store(tracking.map_or(-1, |tracking| tracking.redirect as i64), Ordering::Relaxed);
        client.tracking.broken.store(tracking.is_some_and(|tracking| tracking.broken), Ordering::Relaxed);
        client.tracking.broadcast.store(tracking.is_some_and(|tracking| tracking.broadcast), Ordering::Relaxed);
        if let Some(subscriptions) = &self.subscriptions {
            for (count, kind) in client.listened.iter().zip([Kind::Channel, Kind::Pattern, Kind::Shard]) {
                count.store(subscriptions.len(kind), Ordering::Relaxed);
            }
        }
    }
}

impl JournalOffsets {
    /// Returns an offset of the journal behind all changes of this client. If the client has changed something since the last
    /// call, that is `shown`, the offset that it has seen by now, which may be later than its last change; otherwise it is
    /// the previous answer.
    pub fn written_offset(&mut self, shown: u64) -> u64 {
        if std::mem::take(&mut self.has_written) {
            self.written_offset = shown.max(self.shown_offset);
        }
        self.written_offset
    }
}

impl Watching {
    /// Watches one more key, which may have expired already. The caller holds the lock of the key's shard.
    pub fn add(&mut self, engine: &Engine, database: u32, key: &[u8], expired: bool) {
        if self.keys.insert(Watched { database, key: key.into() }) {
            engine.clients.watches.add(database, key, &self.flag, expired);
            self.bytes += WATCHED_BYTES + 2 * key.len();
        }
    }

    /// Ends all watches and forgets the changes.
    pub fn clear(&mut self, engine: &Engine) {
        self.bytes = 0;
        for watched in std::mem::take(&mut self.keys) {
            engine.clients.watches.remove(watched.database, &watched.key, &self.flag);
        }
        if self.is_raised() {
            self.flag = Arc::new(AtomicBool::new(false));
        }
    }

    /// Returns whether a watched key has changed.
    pub fn is_raised(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Returns whether a key had expired when it was first watched, so that its removal is no change for EXEC.
    pub fn was_expired(&self, engine: &Engine, watched: &Watched) -> bool {
        engine.clients.watches.was_expired(watched.database, &watched.key, &self.flag)
    }

    /// Returns the watched keys.
    pub fn keys(&self) -> &HashSet<Watched> {
        &self.keys
    }
}
