//! One server of the simulation: the real engine with its real worker, on a simulated disk that can lose bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use sleeve_disk::disk::crashing::{CrashingDisk, Plan};
use sleeve_wire::frame::{Frame, decode};

use crate::boot;
use crate::config::{Config, Opt};
use crate::context::worker_handoff::NoWorker;
use crate::engine::Engine;
use crate::engine::clients::client_info::ClientSocket;
use crate::engine::origin::Origin;
use crate::engine::persistence::shutdown;
use crate::engine::persistence::shutdown::{FinalSnapshot, Shutdown};
use crate::engine::readiness::Hindrance;
use crate::engine::replication::role_change;
use crate::execute::scratch::Scratch;
use crate::host::clock::Instant;
use crate::host::simulated;
use crate::messaging::mail::Mailbox;
use crate::session::Session;
use crate::worker::stepped::Stepped;

/// The list to which every write appends its number.
pub const ORDER: &str = "order";

/// A server, its disk, and the server that it is told to follow.
pub struct Node {
    number: usize,
    /// The server's disk with its files.
    pub disk: CrashingDisk,
    /// The server's options, in addition to those of all servers.
    options: Vec<(Opt, String)>,
    /// The server that it follows when it starts.
    pub follows: Option<usize>,
    life: Option<Life>,
    /// The reason for which the server could not load its data.
    unloaded: Arc<Mutex<Option<String>>>,
}

/// The parts that exist while the server runs.
struct Life {
    engine: Arc<Engine>,
    worker: Stepped,
    /// True while the worker runs.
    serves: bool,
    /// A session that reads the data without waiting for a disk.
    session: Session,
    scratch: Scratch,
}

/// Returns the port of a server.
pub fn port(number: usize) -> u16 {
    7_000 + number as u16
}

impl Node {
    /// Makes a server that does not run yet.
    pub fn new(number: usize, options: Vec<(Opt, String)>) -> Self {
        let disk = CrashingDisk::new(Plan::default());
        Self { number, disk, options, follows: None, life: None, unloaded: Arc::default() }
    }

    /// Starts the server, which loads its data in a separate task.
    pub fn start(&mut self, seed: u64, now: Instant) {
        let config = Config::default();
        let all = [(Opt::Appendonly, "yes"), (Opt::EnableDebugCommand, "yes"), (Opt::ReplDisklessSyncDelay, "0")];
        let own = self.options.iter().map(|(option, value)| (*option, value.as_str()));
        for (option, value) in all.into_iter().chain(own) {
            config.assign(option, &[value.as_bytes()]).expect("an option of the table");
        }
        if let Some(primary) = self.follows {
            let (host, port) = (format!("n{primary}"), port(primary).to_string());
            config.assign(Opt::Replicaof, &[host.as_bytes(), port.as_bytes()]).expect("a primary");
        }
        let engine = Engine::begin(config, Origin::of_seed(seed, now).on(Arc::new(self.disk.clone())));
        engine.network.port.store(u32::from(port(self.number)), Ordering::Relaxed);
        role_change::follow_configured(&engine);
        engine.lifecycle.readiness.set(Hindrance::Loading, true);
        let worker = Stepped::new(&engine);
        let socket =
            ClientSocket { address: "look:0".into(), local_address: "look:0".into(), descriptor: -1, is_tls: false };
        let client = engine.clients.list.enter(socket, Arc::new(Mailbox::new(|| ())), now.wall_ms());
        let (session, scratch) = (Session::new(&engine, client), Scratch::new(&engine, now));
        let (loading, unloaded) = (Arc::clone(&engine), Arc::clone(&self.unloaded));
        simulated::start("boot", move || match boot::load(&loading) {
            Ok(()) => boot::begin_service(&loading, "Ready to accept connections"),
            Err(why) => *unloaded.lock() = Some(why),
        });
        self.life = Some(Life { engine, worker, serves: true, session, scratch });
    }

    /// Returns the engine if the server runs.
    pub fn engine(&self) -> Option<&Arc<Engine>> {
        self.life.as_ref().map(|life| &life.engine)
    }

    /// Returns the engine if the server runs and has loaded its data.
    pub fn loaded(&self) -> Option<&Arc<Engine>> {
        let life = self.life.as_ref().filter(|life| life.serves)?;
        let is_loading = life.engine.lifecycle.readiness.has(Hindrance::Loading);
        Some(&life.engine).filter(|_| !is_loading && !self.disk.is_cut())
    }

    /// Returns the worker if it runs.
    pub fn worker(&mut self) -> Option<&mut Stepped> {
        self.life.as_mut().filter(|life| life.serves).map(|life| &mut life.worker)
    }

    /// Runs the worker's pending work. Returns whether the worker has ended.
    pub fn step(&mut self) -> bool {
        let Some(life) = self.life.as_mut().filter(|life| life.serves) else { return false };
        life.serves = life.worker.step();
        !life.serves
    }

    /// Returns the fault of the server: its data cannot be loaded, or the engine has failed. None if the power was cut.
    pub fn fault(&self) -> Option<String> {
        let unloaded = self.unloaded.lock().clone().map(|why| format!("it cannot load: {why}"));
        let failed = self.engine().and_then(|engine| engine.failure()).map(|why| format!("it has failed: {why}"));
        unloaded.or(failed).filter(|_| !self.disk.is_cut()).map(|why| format!("n{}: {why}", self.number))
    }

    /// Tells the server to end, as SIGTERM does. Returns false if it continues, because its AOF has no base yet.
    pub fn shut_down(&self) -> bool {
        let Some(engine) = self.engine().filter(|engine| shutdown::may_end(engine, false)) else { return false };
        shutdown::begin(engine, Shutdown { final_snapshot: FinalSnapshot::NoSave, force: false, now: false }, None);
        true
    }

    /// Starts a task that ends the activities outside the worker.
    pub fn end_rest(&self) {
        if let Some(engine) = self.engine().cloned() {
            simulated::start("end", move || boot::end_rest(&engine));
        }
    }

    /// Drops the server's memory. `left` returns the state of the disk for the next start.
    pub fn forget(&mut self, left: impl FnOnce(&CrashingDisk) -> CrashingDisk) {
        self.life = None;
        *self.unloaded.lock() = None;
        self.disk = left(&self.disk);
    }

    /// Runs a command at once, and returns its reply; none if the server does not answer now. The reply does not wait until
    /// the disk has the changes that it shows.
    pub fn ask(&mut self, now: Instant, words: &[&str]) -> Option<Vec<u8>> {
        let life = self.life.as_mut().filter(|life| life.serves)?;
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        life.scratch.now = now;
        life.session.receive(request.as_bytes(), &mut life.scratch, &mut NoWorker);
        let mut reply = Vec::new();
        life.scratch.output.copy_to(&mut reply);
        life.scratch.output.shown = 0;
        Some(reply).filter(|reply| !reply.is_empty())
    }

    /// Returns the numbers of the writes in the server's data, in their order; none if the server does not answer now.
    pub fn order(&mut self, now: Instant) -> Option<Vec<u64>> {
        self.loaded()?;
        let reply = self.ask(now, &["LRANGE", ORDER, "0", "-1"])?;
        let Ok((Frame::Array(items), _)) = decode(&reply) else { return None };
        let number = |item: Frame<'_>| match item {
            Frame::Bulk(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        };
        items.flatten().map(number).collect()
    }

    /// Returns the digest of the server's data; none if the server does not answer now.
    pub fn digest(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.loaded()?;
        self.ask(now, &["DEBUG", "DIGEST"])
    }
}
