//! The public properties of a client: the rows of CLIENT LIST.
//!
//! A session alone owns its state. The part that other threads may read is here, in atomics. The session updates them after
//! each batch, so that a request costs nothing for being observed. Any thread may read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use sleeve_wire::protocol_error::ProtocolError;

use crate::host::log;
use crate::messaging::mail::Mailbox;
use crate::net::RING_BYTES;

/// The names that a client has given itself.
#[derive(Debug, Clone, Default)]
pub struct ClientNames {
    /// The user that it is in.
    pub user: Box<[u8]>,
    /// CLIENT SETNAME, or empty.
    pub client: String,
    /// CLIENT SETINFO LIB-NAME, or empty.
    pub library: String,
    /// CLIENT SETINFO LIB-VER, or empty.
    pub library_version: String,
}

/// The public properties of one client.
#[derive(Debug)]
pub struct ClientInfo {
    /// Unique in the life of the engine, ascending, from 1.
    pub id: u64,
    /// The peer's end, `ip:port`, `path:0` or `embedded:0`.
    pub address: String,
    /// Our end, in the same form.
    pub local_address: String,
    /// The socket's number; -1 if there is none.
    pub descriptor: i32,
    /// Wall clock at connect, milliseconds.
    pub created_ms: i64,
    /// The mailbox of its owner.
    pub mailbox: Arc<Mailbox>,
    /// The names that it has given itself.
    pub names: Mutex<ClientNames>,
    /// Wall clock at the last request, milliseconds.
    pub active_ms: AtomicI64,
    /// The selected database.
    pub database: AtomicU32,
    /// Requests in the MULTI queue, or -1 outside of MULTI.
    pub queued: AtomicI64,
    /// Bytes that the MULTI queue and the keys that it watches take.
    pub queued_bytes: AtomicUsize,
    /// Bytes that its session takes by itself.
    pub session_bytes: AtomicUsize,
    /// Bytes of the names of channels that it listens to and of prefixes that it follows.
    pub names_bytes: AtomicUsize,
    /// Number of watched keys.
    pub watched: AtomicUsize,
    /// Channels, patterns and shard channels that it listens to.
    pub listened: [AtomicUsize; 3],
    /// CLIENT TRACKING: the client that gets the invalidations, 0 for itself, -1 if it does not track.
    pub redirect: AtomicI64,
    /// The client that gets its invalidations has disconnected.
    pub broken: AtomicBool,
    /// True for a replica of this server.
    pub is_replica: AtomicBool,
    /// True for the link to this server's primary.
    pub is_primary: AtomicBool,
    /// True for a client that is shown the commands of all others (MONITOR).
    pub monitors: AtomicBool,
    /// True if it tracks in broadcasting mode.
    pub broadcast: AtomicBool,
    /// Bytes received and not yet executed.
    pub input_bytes: AtomicUsize,
    /// Bytes of room for more.
    pub input_spare: AtomicUsize,
    /// Bytes of arguments of a request that has not arrived whole, or that waits for a key.
    pub argument_bytes: AtomicUsize,
    /// Bytes of replies that the socket has not taken.
    pub output_bytes: AtomicUsize,
    /// Bytes of room in the buffer that holds them.
    pub output_spare: AtomicUsize,
    /// Its part of the memory of all clients; see [`crate::engine::clients::client_memory`].
    pub weight: AtomicI64,
    /// 2 or 3.
    pub protocol: AtomicU32,
    /// The last command as an index of the command table, plus one; 0 before the first.
    pub command: AtomicU32,
    /// CLIENT NO-EVICT is on.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH is on.
    pub no_touch: AtomicBool,
    /// CLIENT CAPA REDIRECT: a replica sends it to the primary.
    pub redirects: AtomicBool,
    /// READONLY: and yet it reads from a replica.
    pub reads_replicas: AtomicBool,
    /// CLIENT JOURNAL is on.
    pub follows_journal: AtomicBool,
    /// True if it is told of replicas, too.
    pub follows_replicas: AtomicBool,
    /// See [`Clients::generation`], when it came.
    pub generation: u64,
    /// The bytes that it has sent, including those of the running request.
    pub received_bytes: AtomicU64,
    /// Bytes that it was answered, messages included.
    pub answered_bytes: AtomicU64,
    /// Commands of it that were run, queued or refused.
    pub executed: AtomicU64,
    /// Its bytes go through memory that it shares with the server.
    pub shares_memory: AtomicBool,
    /// A watched key has changed: EXEC will do nothing.
    pub doomed: AtomicBool,
    /// Waits for CLIENT PAUSE to end.
    pub paused: AtomicBool,
    /// Waits for a key.
    pub blocked: AtomicBool,
    /// Will be closed as soon as its replies have left.
    pub closing: AtomicBool,
    /// Its part in the offer of the Unix socket, if any.
    pub unix_route: Mutex<Option<Box<UnixRoute>>>,
}

/// A client and the offer of the Unix socket.
#[derive(Debug)]
pub enum UnixRoute {
    /// A client over TCP: it was given this ticket, and the proof that the server returns to the holder of the ticket.
    Offered {
        /// The ticket that the client presents over the socket.
        ticket: String,
        /// The proof that the server returns then.
        proof: String,
    },
    /// Over the socket: it was offered that at this address.
    CameFrom(String),
}

/// All clients of one engine, by id.
#[derive(Debug, Default)]
pub struct Clients {
    next_id: AtomicU64,
    generation: AtomicU64,
    rows: Mutex<std::collections::BTreeMap<u64, Arc<ClientInfo>>>,
}

/// The known properties of a client when it connects.
#[derive(Debug)]
pub struct NewClient {
    /// See [`ClientInfo::address`].
    pub address: String,
    /// See [`ClientInfo::local_address`].
    pub local_address: String,
    /// See [`ClientInfo::descriptor`].
    pub descriptor: i32,
}

impl ClientInfo {
    /// Returns the bytes that it takes: requests and replies in flight, names of its subscriptions, and its properties.
    pub fn bytes(&self) -> usize {
        let input = [&self.input_bytes, &self.input_spare, &self.argument_bytes];
        let output = [&self.output_bytes, &self.output_spare];
        let others = [&self.queued_bytes, &self.names_bytes, &self.session_bytes];
        input.iter().chain(&output).chain(&others).map(|bytes| bytes.load(Ordering::Relaxed)).sum::<usize>()
            + size_of::<Self>()
            + self.ring_bytes()
    }

    /// Counts received bytes. Called by its owner alone, as the two below.
    #[inline]
    pub fn note_received(&self, bytes: usize) {
        add(&self.received_bytes, bytes);
    }

    /// Counts bytes that were written for it.
    #[inline]
    pub fn note_answered(&self, bytes: usize) {
        add(&self.answered_bytes, bytes);
    }

    /// Counts its commands that were run, queued or refused.
    #[inline]
    pub fn note_executed(&self, commands: usize) {
        add(&self.executed, commands);
    }

    /// Bytes of the memory that it shares.
    fn ring_bytes(&self) -> usize {
        if self.shares_memory.load(Ordering::Relaxed) { 2 * RING_BYTES } else { 0 }
    }

    /// Returns the client's line in CLIENT LIST: Redis's fields in Redis's order, then the origin of its connection if it was
    /// offered its Unix socket, and the line's end.
    pub fn line(&self, now_ms: i64) -> String {
        let client = self;
        let names = client.names.lock().clone();
        let number = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let (input, spare, arguments) =
            (number(&client.input_bytes), number(&client.input_spare), number(&client.argument_bytes));
        let (output, queued) = (number(&client.output_bytes), number(&client.queued_bytes));
        let command = match client.command.load(Ordering::Relaxed) {
            0 => "NULL",
            row => sleeve_wire::commands::all()[row as usize - 1].full_name,
        };
        format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={}{} db={} sub={} psub={} ssub={} multi={} watch={} qbuf={input} \
             qbuf-free={spare} argv-mem={arguments} multi-mem={queued} rbs=0 rbp=0 obl=0 oll=0 omem={output} tot-mem={} events={} cmd={command} \
             user={} redir={} resp={} lib-name={} lib-ver={} tot-net-in={} tot-net-out={} tot-cmds={}{}\n",
            client.id,
            client.address,
            client.local_address,
            client.descriptor,
            names.client,
            (now_ms - client.created_ms).max(0) / 1_000,
            (now_ms - client.active_ms.load(Ordering::Relaxed)).max(0) / 1_000,
            client.flags(),
            if client.redirects.load(Ordering::Relaxed) { " capa=r" } else { "" },
            client.database.load(Ordering::Relaxed),
            number(&client.listened[0]),
            number(&client.listened[1]),
            number(&client.listened[2]),
            client.queued.load(Ordering::Relaxed),
            number(&client.watched),
            client.bytes(),
            if output == 0 { "r" } else { "rw" },
            String::from_utf8_lossy(&names.user),
            client.redirect.load(Ordering::Relaxed),
            client.protocol.load(Ordering::Relaxed),
            names.library,
            names.library_version,
            client.received_bytes.load(Ordering::Relaxed),
            client.answered_bytes.load(Ordering::Relaxed),
            client.executed.load(Ordering::Relaxed),
            client.nearness(),
        )
    }

    /// Warns in the server log that this client is closed because it speaks TLS, if that is the error in its bytes.
    pub fn warn_of(&self, error: ProtocolError) {
        if error == ProtocolError::TlsHandshake {
            let what = "Closed a client that speaks TLS to a port without TLS; tls-port has another for it";
            log::warning(&format!("{what} (addr={} laddr={})", self.address, self.local_address));
        }
    }

    /// Returns the fields of its line about a connection nearer than TCP: the address at which it was offered the Unix
    /// socket, and the size of each of its rings in bytes.
    fn nearness(&self) -> String {
        let origin = match self.unix_route.lock().as_deref() {
            Some(UnixRoute::CameFrom(address)) => format!(" tcp-addr={address}"),
            _ => String::new(),
        };
        if self.shares_memory.load(Ordering::Relaxed) { format!("{origin} rings={RING_BYTES}") } else { origin }
    }

    fn flags(&self) -> String {
        let client = self;
        let set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let marks = [
            ('S', set(&client.is_replica)),
            ('M', set(&client.is_primary)),
            ('O', set(&client.monitors)),
            ('P', client.is_listening()),
            ('x', client.queued.load(Ordering::Relaxed) >= 0),
            ('b', set(&client.paused) || set(&client.blocked)),
            ('t', client.redirect.load(Ordering::Relaxed) >= 0),
            ('R', set(&client.broken)),
            ('B', set(&client.broadcast)),
            ('d', set(&client.doomed)),
            ('c', set(&client.closing)),
            ('U', client.is_over_unix()),
            ('r', set(&client.reads_replicas)),
            ('e', set(&client.no_evict)),
            ('T', set(&client.no_touch)),
            ('J', set(&client.follows_journal)),
        ];
        let text: String = marks.iter().filter(|(_, on)| *on).map(|(mark, _)| mark).collect();
        if text.is_empty() { "N".into() } else { text }
    }

    /// Returns whether it is connected over a Unix socket.
    pub fn is_over_unix(&self) -> bool {
        self.address.ends_with(":0") && self.descriptor >= 0
    }

    /// Returns whether it is subscribed to any channel.
    pub fn is_listening(&self) -> bool {
        self.listened.iter().any(|count| count.load(Ordering::Relaxed) != 0)
    }
}

/// Adds to a figure that one thread alone changes.
#[inline]
fn add(figure: &AtomicU64, more: usize) {
    figure.store(figure.load(Ordering::Relaxed) + more as u64, Ordering::Relaxed);
}

impl Clients {
    /// Enters a client that has just come.
    pub fn enter(&self, arrival: NewClient, mailbox: Arc<Mailbox>, now_ms: i64) -> Arc<ClientInfo> {
        let client = self.describe(arrival, mailbox, now_ms);
        self.rows.lock().insert(client.id, Arc::clone(&client));
        client
    }

    /// Describes a client without entering it: CLIENT LIST does not show it, and no count has it.
    pub fn describe(&self, arrival: NewClient, mailbox: Arc<Mailbox>, now_ms: i64) -> Arc<ClientInfo> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::new(ClientInfo {
            id,
            address: arrival.address,
            local_address: arrival.local_address,
            descriptor: arrival.descriptor,
            created_ms: now_ms,
            mailbox,
            names: Mutex::default(),
            active_ms: AtomicI64::new(now_ms),
            database: AtomicU32::new(0),
            queued: AtomicI64::new(-1),
            queued_bytes: AtomicUsize::new(0),
            session_bytes: AtomicUsize::new(0),
            names_bytes: AtomicUsize::new(0),
            watched: AtomicUsize::new(0),
            listened: Default::default(),
            redirect: AtomicI64::new(-1),
            broken: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
            is_primary: AtomicBool::new(false),
            monitors: AtomicBool::new(false),
            broadcast: AtomicBool::new(false),
            input_bytes: AtomicUsize::new(0),
            input_spare: AtomicUsize::new(0),
            argument_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            output_spare: AtomicUsize::new(0),
            weight: AtomicI64::new(0),
            protocol: AtomicU32::new(2),
            command: AtomicU32::new(0),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            redirects: AtomicBool::new(false),
            reads_replicas: AtomicBool::new(false),
            follows_journal: AtomicBool::new(false),
            received_bytes: AtomicU64::new(0),
            answered_bytes: AtomicU64::new(0),
            executed: AtomicU64::new(0),
            shares_memory: AtomicBool::new(false),
            follows_replicas: AtomicBool::new(false),
            generation: self.generation(),
            doomed: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            unix_route: Mutex::default(),
        })
    }

    /// Returns how often another server's data has replaced, or is about to replace, all data: the changes that an earlier
    /// client has seen may be lost.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Another server's data takes the place of all data; the clients that follow a journal which is no more.
    pub fn begin_generation(&self) -> Vec<Arc<ClientInfo>> {
        self.generation.fetch_add(1, Ordering::AcqRel);
        let mut followers = self.all();
        followers.retain(|client| client.follows_journal.load(Ordering::Relaxed));
        followers
    }

    /// Strikes out a client that has gone.
    pub fn leave(&self, id: u64) {
        self.rows.lock().remove(&id);
    }

    /// The client with this id.
    pub fn find(&self, id: u64) -> Option<Arc<ClientInfo>> {
        self.rows.lock().get(&id).cloned()
    }

    /// All clients, oldest first.
    pub fn all(&self) -> Vec<Arc<ClientInfo>> {
        self.rows.lock().values().cloned().collect()
    }

    /// The bytes that all clients take other than replicas, and those that replicas take.
    pub fn bytes(&self) -> (usize, usize) {
        let (mut clients, mut replicas) = (0, 0);
        for client in self.rows.lock().values() {
            let sum = if client.is_replica.load(Ordering::Relaxed) { &mut replicas } else { &mut clients };
            *sum += client.bytes();
        }
        (clients, replicas)
    }

    /// Returns how many clients there are.
    pub fn len(&self) -> usize {
        self.rows.lock().len()
    }

    /// Returns whether there is no client.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
