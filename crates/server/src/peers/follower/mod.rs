//! The thread of a replica, which follows a primary.
//!
//! It connects, introduces this server (`link`), does a full sync if that is necessary (`full_sync`), and applies the
//! primary's journal as it arrives (`execute/replay`). It sends its offset once a second, and on request. If the connection
//! ends, the thread connects again and continues from its offset. Every fault is logged and followed by a retry, at once or
//! after a pause (`pause`). The thread ends when there is no primary to follow any more.

mod connection;
mod full_sync;
pub mod link;
mod loader;
mod pause;
#[cfg(test)]
mod tests;

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::clients::client_info::ClientInfo;
use crate::engine::journal::BatchBuffer;
use crate::engine::keyspace::all_shards;
use crate::engine::replication::Id;
use crate::engine::replication::role::{LinkState, Role, Task};
use crate::engine::replication::role_change;
use crate::execute::replay::Replay;
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::log;
use crate::messaging::mail::{Letter, Mailbox};
use connection::{Connection, End};
use full_sync::Arriving;
use link::{Event, Introduction, Link, LinkError};
use pause::Reached;

/// This server can load the dumps of this version of Valkey. A primary that is a Valkey expects this statement; other servers
/// do not know it.
const LOADS_LIKE: &str = "9.0.0";
/// The interval of a replica's acknowledgements.
const ACK_EVERY: Duration = Duration::from_secs(1);

/// The longest time for which an ending server waits for the thread that follows its primary.
const LINK_END_MAX: Duration = Duration::from_secs(5);

/// Registers the function that starts the thread when this engine is told to follow a primary.
pub(crate) fn offer(engine: &Arc<Engine>) {
    let own = Arc::downgrade(engine);
    engine.replication.role.set_starter(move || {
        let Some(engine) = own.upgrade() else { return Ok(()) };
        let started = engine.detach_thread("replica", |engine| {
            let _watched = Watched(&engine.replication.role);
            follow(engine)
        });
        started.map_err(|error| error.to_string())
    });
}

/// Stops following without becoming a primary, because the engine ends. A dump that is being loaded is given up. If an
/// embedded engine has been told to follow a primary, the program calls this before it drops the engine, because the thread
/// of the link has a handle of the engine.
pub fn end(engine: &Engine) {
    engine.persistence.loading.give_up();
    engine.replication.role.end();
    engine.replication.role.wait_until_ended(LINK_END_MAX);
}

/// A guard that notes in the role that the thread has failed, if the thread panics.
struct Watched<'r>(&'r Role);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.note_thread_failed();
        }
    }
}

/// Follows primaries until there is none to follow: the body of the thread.
///
/// # Errors
/// The reason for which the server has to end.
fn follow(engine: &Arc<Engine>) -> Result<(), String> {
    let role = &engine.replication.role;
    let mut follower =
        Follower { engine: Arc::clone(engine), copying: None, leads: 0, dump_since: None, streams_since: None };
    let mut pause = Duration::ZERO;
    while let Some(task) = role.task() {
        let primary = &task.primary;
        log::notice(&format!("Connecting to MASTER {primary}"));
        match follower.serve(&task) {
            End::Replaced => pause = Duration::ZERO,
            End::Fatal(reason) => {
                role.note_thread_failed();
                return Err(reason);
            }
            End::Broken(broken) => {
                role.set_state(&task, LinkState::Connect, clock::monotonic_ms());
                role_change::note_role(engine);
                pause = pause::next(pause, broken.fault, follower.reached());
                let again = match pause.as_secs() {
                    0 if pause.is_zero() => "now".to_owned(),
                    0 => format!("in {} ms", pause.as_millis()),
                    seconds => format!("in {seconds} s"),
                };
                log::warning(&format!(
                    "The link to MASTER {primary} has ended: {}. It is tried again {again}",
                    broken.reason
                ));
                role.wait(&task, pause);
            }
        }
    }
    Ok(())
}

/// The state of a replica's thread.
struct Follower {
    engine: Arc<Engine>,
    /// The replay of the primary's journal, if all data before it is present. It continues at the end of the journal.
    copying: Option<Replay>,
    /// See [`Task::leads`].
    leads: u64,
    /// The start of the arrival of a dump, on this connection or the last one.
    dump_since: Option<Instant>,
    /// The start of the arrival of the stream, on this connection or the last one.
    streams_since: Option<Instant>,
}

impl Follower {
    /// Follows the primary of a task until the connection or the task ends.
    fn serve(&mut self, task: &Task) -> End {
        let engine = Arc::clone(&self.engine);
        (self.dump_since, self.streams_since) = (None, None);
        if std::mem::replace(&mut self.leads, task.leads) != task.leads {
            self.copying = None;
        }
        if self.copying.is_none() && task.may_continue {
            // A primary that continues this server's own journal sends a SELECT first. After a load, the journal's position
            // states the selected database.
            let (_, database) = engine.journal.position();
            self.copying = Some(Replay::copy(&engine, database));
        }
        let mut connection = match Connection::open(&engine, task) {
            Ok(connection) => connection,
            Err(end) => return end,
        };
        let ended = self.greet(&mut connection).and_then(|stream| self.stream(&mut connection, stream));
        connection.close();
        match ended {
            Ok(()) => End::Replaced,
            Err(_) if !engine.replication.role.is_current(task) => End::Replaced,
            Err(end) => end,
        }
    }

    /// Returns the progress that the ended connection had made.
    fn reached(&self) -> Reached {
        match (self.streams_since, self.dump_since) {
            (Some(since), _) => Reached::Stream(since.elapsed()),
            (None, Some(since)) => Reached::Dump(since.elapsed()),
            (None, None) => Reached::Nothing,
        }
    }

    /// Does the handshake, up to the beginning of the stream. Returns the bytes of the stream that have already arrived.
    fn greet(&mut self, connection: &mut Connection<'_>) -> Result<Vec<u8>, End> {
        connection.set_state(LinkState::Handshake)?;
        let mut out = Vec::new();
        let mut link = Link::begin(self.introduction(), &mut out);
        let mut arriving = None;
        let mut bytes = Vec::new();
        while !link.is_streaming() {
            connection.send(&out)?;
            out.clear();
            connection.read(&mut bytes)?;
            let mut used = 0;
            loop {
                let (taken, event) = link.receive(bytes.get(used..).unwrap_or_default(), &mut out)?;
                used += taken;
                match event {
                    Some(event) => self.heed(event, &mut arriving, connection)?,
                    None if taken == 0 => break,
                    None => {}
                }
            }
            bytes.drain(..used);
        }
        Ok(bytes)
    }

    /// Returns the introduction: the properties of this server, and the data that it has.
    fn introduction(&self) -> Introduction {
        let engine = &self.engine;
        let config = &engine.config;
        let text = |option: Opt| Some(config.text(option).to_vec()).filter(|text| !text.is_empty());
        let announced = config.number(Opt::ReplicaAnnouncePort) as u32;
        let own_port = match config.flag(Opt::TlsReplication) {
            true => config.number(Opt::TlsPort) as u32,
            false => engine.network.port(),
        };
        Introduction {
            credentials: text(Opt::Masterauth).map(|password| (text(Opt::Masteruser), password)),
            port: if announced == 0 { own_port } else { announced },
            address: text(Opt::ReplicaAnnounceIp),
            version: LOADS_LIKE,
            hands_over: engine.replication.failover.is_in_progress(),
            has: self.copying.is_some().then(|| (engine.replication.ids.id(), engine.journal.end())),
        }
    }

    fn heed(
        &mut self,
        event: Event<'_>,
        arriving: &mut Option<Arriving>,
        connection: &mut Connection<'_>,
    ) -> Result<(), End> {
        let engine = Arc::clone(&self.engine);
        match (event, arriving.as_mut()) {
            (Event::Note(text), _) => log::notice(&text),
            (Event::TakesNoRole(why), _) => {
                engine.replication.failover.note_refused(&engine);
                return Err(LinkError::passing(format!("it does not take the role over: {why}")).into());
            }
            (Event::Continues(id), _) => {
                log::notice("MASTER accepted a Partial Resynchronization.");
                self.go_on_as(id, connection.task())?;
                engine.replication.failover.note_done(&engine);
            }
            (Event::Anew { id, offset }, _) => {
                log::notice(&format!("Full resync from MASTER: {id}:{offset}"));
                engine.replication.failover.note_done(&engine);
                connection.set_state(LinkState::Sync)?;
                *arriving = Some(Arriving::new(&engine, id, offset));
            }
            (Event::DumpBegins(size), Some(arriving)) => arriving.begin(size, connection)?,
            (Event::Part(part), Some(arriving)) => {
                self.dump_since.get_or_insert_with(Instant::now);
                arriving.take(part, connection)?;
            }
            (Event::DumpEnds, Some(_)) => {
                if let Some(arrived) = arriving.take() {
                    // Drop the old replay: the present data is about to be replaced.
                    self.copying = None;
                    self.copying = Some(arrived.finish(connection)?);
                }
            }
            (Event::DumpBegins(_) | Event::Part(_) | Event::DumpEnds, None) => {}
        }
        Ok(())
    }

    /// Continues at this server's offset, in a stream that has this id from here on. Does nothing but return
    /// [`End::Replaced`] if the role has changed in the meantime: otherwise this server might become a primary under the id
    /// of another server's stream.
    fn go_on_as(&mut self, id: Option<Id>, task: &Task) -> Result<(), End> {
        let engine = Arc::clone(&self.engine);
        let batch_buffer = BatchBuffer::default();
        let _locks = all_shards::lock_all(&engine, &batch_buffer);
        if !engine.replication.role.is_current(task) {
            return Err(End::Replaced);
        }
        let ids = &engine.replication.ids;
        if let Some(id) = id.filter(|id| *id != ids.id()) {
            log::notice(&format!("Master replication ID changed to {id}"));
            ids.shift(id, engine.journal.end());
            role_change::disconnect_replicas(&engine);
        }
        self.copying.iter_mut().for_each(Replay::rewind);
        Ok(())
    }

    /// Applies the primary's journal until the connection ends.
    fn stream(&mut self, connection: &mut Connection<'_>, mut bytes: Vec<u8>) -> Result<(), End> {
        let engine = Arc::clone(&self.engine);
        connection.set_state(LinkState::Connected)?;
        self.streams_since = Some(Instant::now());
        role_change::note_role(&engine);
        let listed = Listed::enter(&engine, connection);
        self.copying
            .iter_mut()
            .for_each(|copying| copying.go_on_for(connection.task().number, Arc::clone(&listed.client)));
        let (mut acked, mut unsynced) = (None, None);
        while let Some(copying) = &mut self.copying {
            let used = match copying.apply(&bytes, Instant::now()) {
                Ok(used) => used,
                // A new primary of this server may continue after the applied bytes.
                Err(refused) if refused.is_replaced => return Err(End::Replaced),
                Err(refused) => {
                    // The following bytes are useless, and the present data may be the reason for the refusal.
                    self.copying = None;
                    if engine.config.propagation_errors().ends_replica(engine.config.flag(Opt::ReplicaReadOnly)) {
                        return Err(End::Fatal(format!("has met what its primary should not have sent: {refused}")));
                    }
                    connection.stay()?;
                    engine.replication.role.forbid_continuing();
                    return Err(LinkError::foreign(format!("{refused}. All data will be asked for")).into());
                }
            };
            bytes.drain(..used);
            // The count also has queued requests: those after a MULTI with an EXEC that has not arrived or is held.
            let queued = copying.offset().saturating_sub(engine.journal.end());
            engine.replication.role.note_ahead(queued + bytes.len() as u64);
            if copying.take_asked() {
                unsynced = engine.persistence.known_synced_offset(&engine).map(|_| engine.journal.end());
                acked = None;
            }
            // A client of the primary may be waiting for the fsync (WAITAOF). The acknowledgement is sent again after the
            // fsync.
            let is_synced = unsynced.is_some_and(|asked| {
                engine.persistence.known_synced_offset(&engine).is_none_or(|synced| synced >= asked)
            });
            if is_synced || acked.is_none_or(|acked: Instant| acked.elapsed() >= ACK_EVERY) {
                connection.send_ack()?;
                acked = Some(Instant::now());
                unsynced = unsynced.filter(|_| !is_synced);
            }
            let read = connection.read_on(&mut bytes, copying.is_held());
            if listed.is_killed() {
                return Err(LinkError::closed("a client has ended it (CLIENT KILL)").into());
            }
            read?;
        }
        Err(LinkError::foreign("the stream goes on where nothing was").into())
    }
}

/// The entry of the link in CLIENT LIST, while the stream arrives.
struct Listed<'e> {
    engine: &'e Engine,
    client: Arc<ClientInfo>,
    /// The socket that the client's mailbox shuts down. The replay keeps the client after the end of the connection, so the
    /// client must not own the socket.
    _socket: Option<Arc<TcpStream>>,
}

impl<'e> Listed<'e> {
    fn enter(engine: &'e Engine, connection: &Connection<'_>) -> Self {
        // The only letter to this client is the order to end the link. It takes effect at once, as in Redis.
        let socket = connection.handle();
        let shut = socket.as_ref().map(Arc::downgrade).unwrap_or_default();
        let mailbox = Arc::new(Mailbox::new(move || {
            shut.upgrade().iter().for_each(|socket| _ = socket.shutdown(Shutdown::Both));
        }));
        let client = engine.clients.list.enter(connection.ends(), mailbox, Instant::now().wall_ms());
        client.roles.is_primary.store(true, Ordering::Relaxed);
        client.names.lock().user = b"(superuser)".as_slice().into();
        Self { engine, client, _socket: socket }
    }

    fn is_killed(&self) -> bool {
        self.client.mailbox.collect().iter().any(|letter| matches!(letter, Letter::Close(_)))
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.engine.clients.list.leave(self.client.id);
        self.engine.clients.memory.forget(&self.client);
    }
}
