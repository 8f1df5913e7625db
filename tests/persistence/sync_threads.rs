//! The thread that writes and syncs an AOF: a worker if that is quick, else the AOF's own threads; and that no reply leaves
//! before its changes have reached the level of durability that `appendfsync` asks for.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use sleeve_disk::disk::File;
use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_disk::disk::passing::{Between, PassingDisk};
use sleeve_server::boot::{self, Server as Served};
use sleeve_server::engine::origin::Origin;
use sleeve_server::{Config, Engine, Opt};

/// A disk that remembers its appended and synced bytes, and the names of the threads that write and sync.
#[derive(Debug, Default)]
struct Watch {
    state: Mutex<Watched>,
    /// The duration of a sync in microseconds.
    sync_us: AtomicU64,
    /// Syncs fail.
    fails: AtomicBool,
}

#[derive(Debug, Default)]
struct Watched {
    /// The bytes that were appended to the log's increments.
    bytes: Vec<u8>,
    /// The number of these bytes that are synced.
    synced: usize,
    writers: Vec<String>,
    syncers: Vec<String>,
}

fn thread_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

impl Between for Watch {
    fn append(&self, file: &dyn File, path: &Path, slices: &[IoSlice<'_>]) -> io::Result<()> {
        if path.to_string_lossy().contains(".incr") {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            slices.iter().for_each(|slice| state.bytes.extend_from_slice(slice));
            state.writers.push(thread_name());
        }
        file.append(slices)
    }

    fn sync(&self, file: &dyn File, path: &Path) -> io::Result<()> {
        let is_log = path.to_string_lossy().contains(".incr");
        let covered = self.state.lock().unwrap_or_else(PoisonError::into_inner).bytes.len();
        thread::sleep(Duration::from_micros(self.sync_us.load(Ordering::Relaxed)));
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk fails"));
        }
        if is_log {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.synced = state.synced.max(covered);
            state.syncers.push(thread_name());
        }
        file.sync()
    }
}

/// A server over such a disk.
struct Rig {
    disk: PassingDisk<Watch>,
    engine: Arc<Engine>,
    served: Served,
}

impl Rig {
    fn new(workers: &str, policy: &str) -> Self {
        let config = Config::default();
        for (option, value) in [(Opt::Appendonly, "yes"), (Opt::Workers, workers), (Opt::Appendfsync, policy)] {
            config.assign(option, &[value.as_bytes()]).expect("a value");
        }
        let disk = PassingDisk::new(Arc::new(MemoryDisk::new()), Watch::default());
        let engine = Engine::begin(config, Origin::of_machine().on(Arc::new(disk.clone())));
        boot::load(&engine).expect("a log begins");
        let served = boot::listen(&engine, "127.0.0.1:0".parse().expect("an address")).expect("a port");
        Self { disk, engine, served }
    }

    fn client(&self) -> Guest {
        let stream = TcpStream::connect(self.served.addresses()[0]).expect("it listens");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        Guest(stream)
    }

    fn look<R>(&self, look: impl FnOnce(&mut Watched) -> R) -> R {
        look(&mut self.disk.between().state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether these bytes are in the log's file, synced or not.
    fn has(&self, text: &str, is_synced: bool) -> bool {
        self.look(|state| {
            let end = if is_synced { state.synced } else { state.bytes.len() };
            state.bytes[..end].windows(text.len()).any(|part| part == text.as_bytes())
        })
    }

    /// Forgets the threads so far; returns those that wrote and those that synced.
    fn threads(&self) -> (Vec<String>, Vec<String>) {
        self.look(|state| (std::mem::take(&mut state.writers), std::mem::take(&mut state.syncers)))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.disk.between().fails.store(false, Ordering::Relaxed);
        self.engine.persistence.aof.finish(&self.engine);
    }
}

struct Guest(TcpStream);

impl Guest {
    /// Sends a line, and returns the first line of the reply.
    fn ask(&mut self, line: &str) -> String {
        self.0.write_all(format!("{line}\r\n").as_bytes()).expect("it is open");
        let (mut reply, mut byte) = (String::new(), [0]);
        while !reply.ends_with("\r\n") {
            self.0.read_exact(&mut byte).expect("a reply");
            reply.push(char::from(byte[0]));
        }
        reply
    }
}

/// The name of the workers' threads, without their numbers.
const WORKER: &str = "worker-";

fn of_workers(threads: &[String]) -> usize {
    threads.iter().filter(|name| name.starts_with(WORKER)).count()
}

#[test]
fn under_always_a_worker_syncs_alone_and_no_reply_comes_before() {
    for workers in ["1", "2"] {
        let rig = Rig::new(workers, "always");
        let mut client = rig.client();
        let mut write = |prefix: &str, count: usize| {
            for number in 0..count {
                let key = format!("{prefix}-{number}-");
                assert_eq!(client.ask(&format!("SET {key} value")), "+OK\r\n");
                assert!(rig.has(&key, true), "{key} was answered and is not synced");
            }
            rig.threads().1
        };
        write("first", 50);
        let quick = write("quick", 50);
        assert!(of_workers(&quick) >= 40, "a lone worker waits for no other thread: {quick:?}");
        rig.disk.between().sync_us.store(5_000, Ordering::Relaxed);
        let slow = write("slow", 30);
        assert!(of_workers(&slow) <= 2, "a worker does not wait for a slow disk: {slow:?}");
        rig.disk.between().sync_us.store(0, Ordering::Relaxed);
        write("first", 50);
        rig.disk.between().fails.store(true, Ordering::Relaxed);
        assert!(client.ask("SET failed value").starts_with("-MISCONF"), "the sync has failed");
        assert!(client.ask("SET refused value").starts_with("-MISCONF"), "the disk still fails");
        rig.disk.between().fails.store(false, Ordering::Relaxed);
        while client.ask("SET again value") != "+OK\r\n" {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(rig.has("failed", true) && rig.has("again", true), "all that was answered is written again");
    }
}

#[test]
fn under_always_several_busy_workers_leave_syncs_to_one_thread() {
    let rig = Rig::new("2", "always");
    rig.disk.between().sync_us.store(200, Ordering::Relaxed);
    let run = |count: usize| {
        thread::scope(|scope| {
            for client in 0..8 {
                let (rig, mut guest) = (&rig, rig.client());
                scope.spawn(move || {
                    for number in 0..count {
                        let key = format!("{client}-{number}-");
                        assert_eq!(guest.ask(&format!("SET {key} value")), "+OK\r\n");
                        assert!(rig.has(&key, true), "{key} was answered and is not synced");
                    }
                });
            }
        });
        rig.threads().1
    };
    let syncers = run(100);
    assert!(syncers.iter().any(|name| name == "log"), "the changes of two workers are synced together: {syncers:?}");
}

#[test]
fn under_everysec_replies_follow_the_write_while_a_sync_runs() {
    for workers in ["1", "2"] {
        let rig = Rig::new(workers, "everysec");
        let mut client = rig.client();
        let (is_syncing, mut number) = (|| rig.engine.persistence.aof.status().is_syncing, 0);
        // Writes during syncs of this duration until a thread with this name has written.
        let mut write_until = |sync_us: u64, wanted: &str| {
            rig.disk.between().sync_us.store(sync_us, Ordering::Relaxed);
            loop {
                number += 1;
                assert!(number < 1_000_000, "no thread {wanted} writes during a sync");
                let (key, began) = (format!("key-{number}-"), is_syncing());
                assert_eq!(client.ask(&format!("SET {key} value")), "+OK\r\n");
                if !began {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                }
                assert!(rig.has(&key, false), "{key} was answered and would be lost with the process");
                let (writers, _) = rig.threads();
                if is_syncing() && writers.last().is_some_and(|name| name.starts_with(wanted)) {
                    return;
                }
            }
        };
        write_until(20_000, WORKER);
        write_until(600_000, "log");
    }
}
