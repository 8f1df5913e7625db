//! Tests of an embedded engine with a panic in a thread that writes its files: no client waits forever.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use sleeve_disk::disk::File;
use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_disk::disk::passing::{Between, PassingDisk};
use sleeve_server::boot;
use sleeve_server::engine::origin::Origin;
use sleeve_server::{Closed, Config, Engine, Local, Opt};

use crate::healing::{ask, wait_until};

/// A disk that panics at an fsync of a file with this name, once the panic is due.
#[derive(Debug)]
struct Panicking {
    name: &'static str,
    is_due: AtomicBool,
}

impl Between for Panicking {
    fn sync(&self, file: &dyn File, path: &Path) -> io::Result<()> {
        let is_it = path.to_string_lossy().contains(self.name);
        assert!(!(is_it && self.is_due.swap(false, Ordering::SeqCst)), "by chance");
        file.sync()
    }
}

/// Begins an engine under `appendfsync always`, on a disk that panics at the next fsync of a file of this name.
fn begin(name: &'static str) -> Arc<Engine> {
    let config = Config::default();
    for (option, value) in [(Opt::Appendonly, "yes"), (Opt::Appendfsync, "always")] {
        config.assign(option, &[value.as_bytes()]).expect("an option of the table");
    }
    let disk = PassingDisk::new(Arc::new(MemoryDisk::new()), Panicking { name, is_due: AtomicBool::new(false) });
    let engine = Engine::begin(config, Origin::of_machine().on(Arc::new(disk.clone())));
    boot::load(&engine).expect("a log begins");
    disk.between().is_due.store(true, Ordering::SeqCst);
    engine
}

/// Runs a function that has to return. Only a failing test waits for the whole time limit.
fn returns<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(act()));
    told.recv_timeout(Duration::from_secs(60)).expect("it returns")
}

#[test]
fn whoever_waits_for_the_log_is_told_when_its_thread_has_panicked() {
    let engine = begin("temp-appendonly.aof.incr");
    let mut local = Local::open(&engine, || {});
    let answered = returns(move || {
        let mut replies = Vec::new();
        (local.exchange(b"SET key value\r\n", &mut replies), replies)
    });
    assert_eq!(answered, (Err(Closed), Vec::new()));
    assert!(engine.failure().is_some_and(|reason| reason.starts_with("log panicked")), "{:?}", engine.failure());
    returns(move || engine.persistence.aof.finish(&engine));
}

#[test]
fn whoever_waits_for_a_snapshot_goes_on_when_its_thread_has_panicked() {
    let engine = begin("temp-rewriteaof");
    let mut local = Local::open(&engine, || {});
    assert_eq!(ask(&mut local, "BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
    wait_until("the failure", || engine.failure().is_some());
    let engine = returns(move || {
        engine.persistence.snapshots.wait_until_over();
        engine.persistence.snapshots.close();
        engine
    });
    returns(move || engine.persistence.aof.finish(&engine));
}
