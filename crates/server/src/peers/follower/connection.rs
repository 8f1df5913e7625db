//! A replica's connection to its primary. It ends if the other side closes it or is silent for too long, or if the task is
//! replaced.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use sleeve_wire::reply::{Protocol, Writer};

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::clients::client_info::ClientSocket;
use crate::engine::journal::BatchBuffer;
use crate::engine::keyspace::all_shards;
use crate::engine::replication::role::{LinkState, Task, Transfer};
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::waiting;
use crate::net::outgoing::Outgoing;
use crate::net::tls;
use crate::peers::follower::link::LinkError;

/// The bytes of one read.
const READ_BYTES: usize = 256 << 10;
/// The longest wait for bytes before other conditions are checked.
const WAIT: Duration = Duration::from_millis(100);
/// The maximum number of bytes of the stream that are held during a pause. Beyond that, the rest stays at the primary, which
/// can keep its journal in files.
const HELD_BYTES_MAX: usize = 16 << 20;
/// The interval of the checks whether the pause has ended.
const HELD_WAIT: Duration = Duration::from_millis(10);
/// The interval of the signs of life to a primary while this server loads.
pub(super) const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(1);

/// Waits for the commands and transactions that hold all shards.
fn wait_for_commands(engine: &Engine) {
    let buffer = BatchBuffer::default();
    drop(all_shards::lock_all(engine, &buffer));
}

/// The reason for the end of a task.
pub(super) enum End {
    /// The task has been replaced.
    Replaced,
    /// This connection cannot be used any more.
    Broken(LinkError),
    /// The server is to end, for this reason.
    Fatal(String),
}

impl From<LinkError> for End {
    fn from(broken: LinkError) -> Self {
        Self::Broken(broken)
    }
}

/// A connection to a primary.
pub(super) struct Connection<'t> {
    engine: Arc<Engine>,
    task: &'t Task,
    outgoing: Outgoing,
    buffer: Vec<u8>,
    /// The time of the last received bytes.
    heard: Instant,
    /// The time of the last sign of life.
    signed: Instant,
}

impl<'t> Connection<'t> {
    /// Connects to the primary of the task.
    ///
    /// # Errors
    /// No server answers there, or the task has been replaced.
    pub(super) fn open(engine: &Arc<Engine>, task: &'t Task) -> Result<Self, End> {
        // A transaction that has killed the last connection may go on with DEBUG SLEEP: the server must not reconnect in it.
        wait_for_commands(engine);
        let role = &engine.replication.role;
        if !role.set_state(task, LinkState::Connecting, clock::monotonic_ms()) {
            return Err(End::Replaced);
        }
        let failed = |error: io::Error| LinkError::passing(format!("cannot connect: {error}"));
        let seal = match engine.config.flag(Opt::TlsReplication) {
            true => Some(tls::load_for_primaries(&engine.config).map_err(LinkError::passing)?),
            false => None,
        };
        let primary = &task.primary;
        let outgoing = Outgoing::connect(&primary.host, primary.port, timeout(engine), seal).map_err(failed)?;
        // A thread that replaces the task interrupts the waits by means of this handle.
        let socket = outgoing.socket().try_clone().map_err(failed)?;
        if !role.keep_socket(task, Some(socket)) {
            return Err(End::Replaced);
        }
        role.note_ahead(0);
        let (heard, signed) = (Instant::now(), Instant::now());
        Ok(Self { engine: Arc::clone(engine), task, outgoing, buffer: vec![0; READ_BYTES], heard, signed })
    }

    /// Sets the progress of the link.
    ///
    /// # Errors
    /// The task has been replaced.
    pub(super) fn set_state(&self, state: LinkState) -> Result<(), End> {
        let role = &self.engine.replication.role;
        if role.set_state(self.task, state, clock::monotonic_ms()) { Ok(()) } else { Err(End::Replaced) }
    }

    /// Sets the number of received bytes of a dump.
    pub(super) fn set_transfer(&self, transfer: Transfer) {
        self.engine.replication.role.set_transfer(self.task, transfer);
    }

    /// Appends the bytes that have arrived, possibly none.
    ///
    /// # Errors
    /// The connection has ended or is silent for too long, or the task has been replaced.
    pub(super) fn read(&mut self, into: &mut Vec<u8>) -> Result<(), End> {
        self.read_within(into, WAIT)
    }

    fn read_within(&mut self, into: &mut Vec<u8>, wait: Duration) -> Result<(), End> {
        let role = &self.engine.replication.role;
        if !role.is_current(self.task) {
            return Err(End::Replaced);
        }
        let read = self.outgoing.read(&mut self.buffer, wait);
        // The bytes of a server that sleeps are not applied before the command that follows DEBUG SLEEP in its transaction.
        if self.engine.sleep_out(clock::monotonic_ms()) {
            wait_for_commands(&self.engine);
        }
        let count = read.map_err(|error| LinkError::closed(error.to_string()))?;
        if count != 0 {
            self.heard = Instant::now();
            role.note_heard(clock::monotonic_ms());
            into.extend_from_slice(self.buffer.get(..count).unwrap_or_default());
        } else if self.heard.elapsed() > timeout(&self.engine) {
            let seconds = timeout(&self.engine).as_secs();
            let waited_for = match role.link().map(|link| link.state) {
                Some(LinkState::Connected) => "MASTER timeout: no data nor PING received",
                Some(LinkState::Sync) => "Timeout receiving bulk data from MASTER",
                _ => "Timeout connecting to the MASTER",
            };
            let silence = format!("nothing has come from it for {seconds} s (repl-timeout)");
            return Err(LinkError::passing(format!("{waited_for}: {silence}")).into());
        }
        Ok(())
    }

    /// Appends the bytes of the stream that have arrived. While a pause (CLIENT PAUSE) holds earlier bytes, at most
    /// [`HELD_BYTES_MAX`] are kept here; the rest stays at the primary.
    ///
    /// # Errors
    /// As [`Connection::read`]. While the primary's bytes are left unread, its silence does not count.
    pub(super) fn read_on(&mut self, into: &mut Vec<u8>, is_held: bool) -> Result<(), End> {
        if !is_held {
            return self.read(into);
        }
        waiting::sleep(HELD_WAIT);
        if into.len() < HELD_BYTES_MAX {
            return self.read_within(into, Duration::ZERO);
        }
        self.heard = Instant::now();
        if self.engine.replication.role.is_current(self.task) { Ok(()) } else { Err(End::Replaced) }
    }

    /// Sends these bytes.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.outgoing.send(bytes).map_err(|error| LinkError::closed(error.to_string()).into())
    }

    /// Sends a sign of life, which has no other meaning. It is for times in which this server is busy and sends nothing else.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn send_sign_of_life(&mut self) -> Result<(), End> {
        // While this server is busy it does not wait for the primary, so the time does not count as the primary's silence.
        (self.heard, self.signed) = (Instant::now(), Instant::now());
        self.send(b"\n")
    }

    /// Sends a sign of life if one is due, for a thread that does not read because this server is busy.
    ///
    /// # Errors
    /// The connection is broken, or the task has been replaced.
    pub(super) fn stay(&mut self) -> Result<(), End> {
        if !self.engine.replication.role.is_current(self.task) {
            return Err(End::Replaced);
        }
        if self.signed.elapsed() >= SIGN_OF_LIFE_EVERY { self.send_sign_of_life() } else { Ok(()) }
    }

    /// Returns the addresses of both ends, the primary's first, and the socket's number.
    pub(super) fn ends(&self) -> ClientSocket {
        let socket = self.outgoing.socket();
        let text =
            |address: io::Result<SocketAddr>| address.map_or_else(|_| String::new(), |address| address.to_string());
        ClientSocket {
            address: text(socket.peer_addr()),
            local_address: text(socket.local_addr()),
            descriptor: socket.as_raw_fd(),
            is_tls: self.engine.config.flag(Opt::TlsReplication),
        }
    }

    /// Returns a second handle of the socket, with which any thread can interrupt the waits here. The other side sees the end
    /// of the connection only when this handle is dropped, too.
    pub(super) fn handle(&self) -> Option<Arc<TcpStream>> {
        // Without a second handle, the reader notices a moment later that it has to end.
        self.outgoing.socket().try_clone().ok().map(Arc::new)
    }

    /// Returns the task of this connection.
    pub(super) fn task(&self) -> &'t Task {
        self.task
    }

    /// Sends this server's offset, and the offset of its own AOF.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn send_ack(&mut self) -> Result<(), End> {
        let mut ack = Vec::new();
        let mut writer = Writer::new(&mut ack, Protocol::Resp2);
        let synced = self.engine.persistence.known_synced_offset(&self.engine);
        writer.array(3 + if synced.is_some() { 2 } else { 0 });
        writer.bulks(&[b"REPLCONF", b"ACK"]);
        writer.bulk_integer(self.engine.journal.end() as i64);
        if let Some(synced) = synced {
            writer.bulk(b"FACK");
            writer.bulk_integer(synced as i64);
        }
        self.send(&ack)
    }

    /// Closes the connection.
    pub(super) fn close(self) {
        self.engine.replication.role.keep_socket(self.task, None);
    }
}

/// Returns the value of `repl-timeout`.
fn timeout(engine: &Engine) -> Duration {
    Duration::from_secs(engine.config.number(Opt::ReplTimeout) as u64)
}
