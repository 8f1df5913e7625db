//! The public properties of a client: the row of CLIENT LIST.
//!
//! Only the session uses its own state. The part that other threads may read is here, in atomics. The session updates them
//! after each batch, so that a request costs nothing for being observed. Any thread may read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use sleeve_wire::protocol_error::ProtocolError;

use crate::host::log;
use crate::messaging::mail::Mailbox;
use crate::net::RING_BYTES;

/// The names of a client: its user, and those that it has given itself.
#[derive(Debug, Clone, Default)]
pub struct ClientNames {
    /// The user as which it is logged in.
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
    /// The client's id: unique in the life of the engine, ascending, from 1.
    pub id: u64,
    /// The socket of the client's connection.
    pub socket: ClientSocket,
    /// Wall clock at connect, milliseconds.
    pub created_ms: i64,
    /// The generation of the data when the client connected; see [`super::client_list::ClientList::generation`].
    pub generation: u64,
    /// The mailbox of the thread that owns the client's session.
    pub mailbox: Arc<Mailbox>,
    /// The names that it has given itself.
    pub names: Mutex<ClientNames>,
    /// The client's settings and last command, as its session has them.
    pub activity: ClientActivity,
    /// The client's transaction.
    pub multi: ClientMulti,
    /// The numbers of channels, patterns and shard channels to which the client is subscribed.
    pub listened: [AtomicUsize; 3],
    /// CLIENT TRACKING.
    pub tracking: ClientTracking,
    /// The roles of the client, if it is a replica, the link to the primary, or a monitor.
    pub roles: ClientRoles,
    /// The memory that it takes.
    pub memory: ClientBytes,
    /// The requests and replies so far.
    pub traffic: ClientTraffic,
    /// The settings that it has asked for.
    pub settings: ClientSettings,
    /// The conditions that hold the client, and its end.
    pub status: ClientStatus,
    /// The client's part in the offer of the Unix socket, if any.
    pub unix_route: Mutex<Option<Box<UnixRoute>>>,
}

/// The socket of a client, which is known when it connects.
#[derive(Debug)]
pub struct ClientSocket {
    /// The peer's end, `ip:port`, `path:0` or `embedded:0`.
    pub address: String,
    /// The server's end, in the same form.
    pub local_address: String,
    /// The socket's number; -1 if there is none.
    pub descriptor: i32,
    /// The client speaks TLS.
    pub is_tls: bool,
}

/// The settings and the last command of a client, as its session publishes them.
#[derive(Debug)]
pub struct ClientActivity {
    /// Wall clock at the last request, milliseconds.
    pub active_ms: AtomicI64,
    /// The selected database.
    pub database: AtomicU32,
    /// The RESP version, 2 or 3.
    pub protocol: AtomicU32,
    /// The last command as an index of the command table, plus one; 0 before the first.
    pub command: AtomicU32,
}

/// The transaction of a client.
#[derive(Debug)]
pub struct ClientMulti {
    /// Requests in the MULTI queue, or -1 outside of MULTI.
    pub queued: AtomicI64,
    /// The number of watched keys.
    pub watched: AtomicUsize,
    /// A watched key has changed: EXEC will do nothing.
    pub doomed: AtomicBool,
}

/// CLIENT TRACKING of a client.
#[derive(Debug)]
pub struct ClientTracking {
    /// The client that gets the invalidations, 0 for itself, -1 if it does not track.
    pub redirect: AtomicI64,
    /// The client that gets its invalidations has disconnected.
    pub broken: AtomicBool,
    /// The client tracks in broadcasting mode.
    pub broadcast: AtomicBool,
}

/// The roles of a client other than that of an ordinary client.
#[derive(Debug, Default)]
pub struct ClientRoles {
    /// The client is a replica of this server.
    pub is_replica: AtomicBool,
    /// The client is the link to this server's primary.
    pub is_primary: AtomicBool,
    /// The client is shown the commands of all others (MONITOR).
    pub monitors: AtomicBool,
}

/// The memory of a client.
#[derive(Debug, Default)]
pub struct ClientBytes {
    /// Bytes received and not yet executed.
    pub input: AtomicUsize,
    /// The free room behind these bytes.
    pub input_spare: AtomicUsize,
    /// Bytes of arguments of a request that has not arrived whole, or that waits for a key.
    pub arguments: AtomicUsize,
    /// Bytes of replies that the socket has not taken.
    pub output: AtomicUsize,
    /// The free room in the buffer of these replies, in bytes.
    pub output_spare: AtomicUsize,
    /// The memory of the MULTI queue and of the watched keys, in bytes.
    pub queue: AtomicUsize,
    /// The memory of the names of subscriptions and of the prefixes of CLIENT TRACKING, in bytes.
    pub names: AtomicUsize,
    /// The memory of the session itself, in bytes.
    pub session: AtomicUsize,
    /// The client's share in the memory of all clients; see [`crate::engine::clients::client_memory`].
    pub weight: AtomicI64,
    /// The client's bytes go through memory that it shares with the server.
    pub has_rings: AtomicBool,
}

/// The traffic of a client. Only the client's owner counts.
#[derive(Debug, Default)]
pub struct ClientTraffic {
    /// The bytes that the client has sent, including those of the running request.
    received_bytes: AtomicU64,
    /// The bytes of the replies and messages to the client.
    answered_bytes: AtomicU64,
    /// The number of its commands that were run, queued or refused.
    executed: AtomicU64,
}

/// The settings that a client has asked for.
#[derive(Debug, Default)]
pub struct ClientSettings {
    /// CLIENT NO-EVICT is on.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH is on.
    pub no_touch: AtomicBool,
    /// CLIENT CAPA REDIRECT: the client understands a redirect from a replica to the primary.
    pub redirects: AtomicBool,
    /// READONLY: the client reads from a replica instead of being redirected.
    pub reads_replicas: AtomicBool,
    /// CLIENT JOURNAL is on.
    pub follows_journal: AtomicBool,
    /// The messages of CLIENT JOURNAL also have the replicas' offset.
    pub follows_replicas: AtomicBool,
}

/// The conditions that hold a client, and its end.
#[derive(Debug, Default)]
pub struct ClientStatus {
    /// The client waits for the end of CLIENT PAUSE.
    pub paused: AtomicBool,
    /// The client waits for a key.
    pub blocked: AtomicBool,
    /// The client will be closed as soon as its replies have been sent.
    pub closing: AtomicBool,
}

/// The part of a client in the offer of the Unix socket (`commands/connection/unix_offer`).
#[derive(Debug)]
pub enum UnixRoute {
    /// A client over TCP to which the offer was made.
    Offered {
        /// The ticket that the client presents over the socket.
        ticket: String,
        /// The proof that the server returns for the ticket.
        proof: String,
    },
    /// A client over the Unix socket that has redeemed the ticket of a client with this address.
    CameFrom(String),
}

impl ClientInfo {
    /// Makes the properties of a client that has just connected.
    pub fn new(id: u64, socket: ClientSocket, mailbox: Arc<Mailbox>, (now_ms, generation): (i64, u64)) -> Self {
        Self {
            id,
            socket,
            created_ms: now_ms,
            generation,
            mailbox,
            names: Mutex::default(),
            activity: ClientActivity {
                active_ms: AtomicI64::new(now_ms),
                database: AtomicU32::new(0),
                protocol: AtomicU32::new(2),
                command: AtomicU32::new(0),
            },
            multi: ClientMulti {
                queued: AtomicI64::new(-1),
                watched: AtomicUsize::new(0),
                doomed: AtomicBool::new(false),
            },
            listened: Default::default(),
            tracking: ClientTracking {
                redirect: AtomicI64::new(-1),
                broken: AtomicBool::new(false),
                broadcast: AtomicBool::new(false),
            },
            roles: ClientRoles::default(),
            memory: ClientBytes::default(),
            traffic: ClientTraffic::default(),
            settings: ClientSettings::default(),
            status: ClientStatus::default(),
            unix_route: Mutex::default(),
        }
    }

    /// Returns the client's line in CLIENT LIST: Redis's fields in Redis's order. If the client has taken the offer of the
    /// Unix socket, the address of its former connection follows. The line end comes last.
    pub fn line(&self, now_ms: i64) -> String {
        let client = self;
        let names = client.names.lock().clone();
        let number = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let (input, spare, arguments) =
            (number(&client.memory.input), number(&client.memory.input_spare), number(&client.memory.arguments));
        let (output, queued) = (number(&client.memory.output), number(&client.memory.queue));
        let command = match client.activity.command.load(Ordering::Relaxed) {
            0 => "NULL",
            row => sleeve_wire::commands::all()[row as usize - 1].full_name,
        };
        format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={}{} db={} sub={} psub={} ssub={} multi={} qbuf={input} \
             qbuf-free={spare} argv-mem={arguments} multi-mem={queued} rbs=0 rbp=0 obl=0 oll=0 omem={output} tot-mem={} events={} cmd={command} \
             user={} redir={} resp={} lib-name={} lib-ver={} watch={} tot-net-in={} tot-net-out={} tot-cmds={}{}\n",
            client.id,
            client.socket.address,
            client.socket.local_address,
            client.socket.descriptor,
            names.client,
            (now_ms - client.created_ms).max(0) / 1_000,
            (now_ms - client.activity.active_ms.load(Ordering::Relaxed)).max(0) / 1_000,
            client.flags(),
            if client.settings.redirects.load(Ordering::Relaxed) { " capa=r" } else { "" },
            client.activity.database.load(Ordering::Relaxed),
            number(&client.listened[0]),
            number(&client.listened[1]),
            number(&client.listened[2]),
            client.multi.queued.load(Ordering::Relaxed),
            client.memory.sum(),
            if output == 0 { "r" } else { "rw" },
            String::from_utf8_lossy(&names.user),
            client.tracking.redirect.load(Ordering::Relaxed),
            client.activity.protocol.load(Ordering::Relaxed),
            names.library,
            names.library_version,
            number(&client.multi.watched),
            client.traffic.received_bytes.load(Ordering::Relaxed),
            client.traffic.answered_bytes.load(Ordering::Relaxed),
            client.traffic.executed.load(Ordering::Relaxed),
            client.nearness(),
        )
    }

    /// Logs a warning if the client is closed because it speaks TLS to a port without TLS, as the error in its bytes shows.
    pub fn warn_of(&self, error: ProtocolError) {
        if error == ProtocolError::TlsHandshake {
            let what = "Closed a client that speaks TLS to a port without TLS; tls-port has another for it";
            log::warning(&format!("{what} (addr={} laddr={})", self.socket.address, self.socket.local_address));
        }
    }

    /// Returns the fields of the client's line about a Unix socket and shared memory: the address of the connection to which
    /// the socket was offered, and the size of each ring in bytes.
    fn nearness(&self) -> String {
        let origin = match self.unix_route.lock().as_deref() {
            Some(UnixRoute::CameFrom(address)) => format!(" tcp-addr={address}"),
            _ => String::new(),
        };
        if self.memory.has_rings.load(Ordering::Relaxed) { format!("{origin} rings={RING_BYTES}") } else { origin }
    }

    fn flags(&self) -> String {
        let client = self;
        let set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let marks = [
            ('S', set(&client.roles.is_replica)),
            ('M', set(&client.roles.is_primary)),
            ('O', set(&client.roles.monitors)),
            ('P', client.is_listening()),
            ('x', client.multi.queued.load(Ordering::Relaxed) >= 0),
            ('b', set(&client.status.paused) || set(&client.status.blocked)),
            ('t', client.tracking.redirect.load(Ordering::Relaxed) >= 0),
            ('R', set(&client.tracking.broken)),
            ('B', set(&client.tracking.broadcast)),
            ('d', set(&client.multi.doomed)),
            ('c', set(&client.status.closing)),
            ('U', client.is_over_unix()),
            ('r', set(&client.settings.reads_replicas)),
            ('e', set(&client.settings.no_evict)),
            ('T', set(&client.settings.no_touch)),
            ('J', set(&client.settings.follows_journal)),
        ];
        let text: String = marks.iter().filter(|(_, on)| *on).map(|(mark, _)| mark).collect();
        if text.is_empty() { "N".into() } else { text }
    }

    /// Returns whether the client is connected over a Unix socket.
    pub fn is_over_unix(&self) -> bool {
        self.socket.address.ends_with(":0") && self.socket.descriptor >= 0
    }

    /// Returns whether the client has any subscription.
    pub fn is_listening(&self) -> bool {
        self.listened.iter().any(|count| count.load(Ordering::Relaxed) != 0)
    }
}

impl ClientBytes {
    /// Returns the client's memory: requests and replies in flight, names of its subscriptions, its rings, and its
    /// properties.
    pub fn sum(&self) -> usize {
        let input = [&self.input, &self.input_spare, &self.arguments];
        let output = [&self.output, &self.output_spare];
        let others = [&self.queue, &self.names, &self.session];
        let rings = if self.has_rings.load(Ordering::Relaxed) { 2 * RING_BYTES } else { 0 };
        input.iter().chain(&output).chain(&others).map(|bytes| bytes.load(Ordering::Relaxed)).sum::<usize>()
            + size_of::<ClientInfo>()
            + rings
    }
}

impl ClientTraffic {
    /// Counts received bytes.
    #[inline]
    pub fn note_received(&self, bytes: usize) {
        add(&self.received_bytes, bytes);
    }

    /// Counts the bytes of replies and messages to the client.
    #[inline]
    pub fn note_answered(&self, bytes: usize) {
        add(&self.answered_bytes, bytes);
    }

    /// Counts commands of the client that were run, queued or refused.
    #[inline]
    pub fn note_executed(&self, commands: usize) {
        add(&self.executed, commands);
    }
}

/// Adds to a figure that only one thread changes.
#[inline]
fn add(figure: &AtomicU64, more: usize) {
    figure.store(figure.load(Ordering::Relaxed) + more as u64, Ordering::Relaxed);
}
