//! Tests of an AOF that is switched off and on while the engine is in use.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_disk::aof::{Folder, OpenError};
use sleeve_disk::disk::gated::Gate;
use sleeve_disk::disk::read_small;
use sleeve_disk::replay::Step;
use sleeve_server::Local;
use sleeve_server::Opt;
use sleeve_server::may_end;

use crate::logged::Logged;

impl Logged {
    /// Opens the folder of the engine's AOF, as another process would.
    fn folder(&self) -> Result<Folder, OpenError> {
        Folder::open(Arc::new(self.gate.clone()), self.engine.persistence.aof.options(&self.engine), 0)
    }
}

/// Returns whether this text is in the increments of an AOF, which has to be readable to its end.
fn is_there(folder: &Folder, text: &str) -> bool {
    let (mut replay, mut bytes) = (folder.replay(sleeve_disk::replay::Options::default()), Vec::new());
    while !matches!(replay.next(&mut bytes).unwrap_or_else(|damage| panic!("{damage}")), Step::End(_)) {}
    String::from_utf8_lossy(&bytes).contains(text)
}

#[test]
fn a_log_that_is_switched_off_is_whole_when_that_is_answered() {
    let logged = Logged::new(&[(Opt::Workers, "1")]);
    let (mut local, mut replies) = (Local::open(&logged.engine, || {}), Vec::new());
    logged.gate.set(Gate::Closed);
    let (mut waiting, mut observer) = (logged.open(), logged.open());
    waiting.send("SET key value\r\nWAITAOF 1 0 0");
    assert_eq!(waiting.frame(), "+OK\r\n");
    while !observer.ask("INFO clients").contains("blocked_clients:1\r\n") {}
    local.exchange_now(b"CONFIG SET appendonly no\r\n", &mut replies).expect("the session lives");
    assert!(waiting.frame().starts_with("-ERR WAITAOF cannot be used"), "nobody syncs any more");
    logged.gate.wait_for_sync();
    local.wait(Duration::from_millis(1), &mut replies).expect("the session lives");
    assert_eq!(String::from_utf8_lossy(&replies), "", "the disk does not have it");
    assert!(matches!(logged.folder(), Err(OpenError::Held(_))));
    logged.gate.set(Gate::Open);
    while replies.is_empty() {
        local.wait(Duration::from_millis(10), &mut replies).expect("the session lives");
    }
    assert_eq!(String::from_utf8_lossy(&replies), "+OK\r\n");
    let folder = logged.folder().expect("nobody has it any more");
    assert!(is_there(&folder, "value"));
    drop(folder);
    assert_eq!(observer.ask("SET key other"), "+OK\r\n");
    assert!(!is_there(&logged.folder().expect("still nobody"), "other"));
    // A second CONFIG SET closes nothing.
    assert_eq!(observer.ask("CONFIG SET appendonly no"), "+OK\r\n");
}

#[test]
fn in_a_transaction_too() {
    let logged = Logged::new(&[(Opt::Workers, "2")]);
    logged.gate.set(Gate::Closed);
    assert_eq!(logged.open().ask("SET key value"), "+OK\r\n");
    let mut local = Local::open(&logged.engine, || {});
    let (tell, told) = mpsc::channel();
    let switching = thread::spawn(move || {
        let mut replies = Vec::new();
        let transaction = b"MULTI\r\nCONFIG SET appendonly no\r\nCONFIG SET appendonly no\r\nEXEC\r\n";
        local.exchange(transaction, &mut replies).expect("the session lives");
        while !replies.ends_with(b"*2\r\n+OK\r\n+OK\r\n") {
            local.wait(Duration::from_millis(10), &mut replies).expect("the session lives");
        }
        tell.send(()).expect("somebody listens");
    });
    logged.gate.wait_for_sync();
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "the disk does not have it");
    assert!(matches!(logged.folder(), Err(OpenError::Held(_))));
    logged.gate.set(Gate::Open);
    told.recv().expect("it is answered");
    switching.join().expect("it ends well");
    assert!(is_there(&logged.folder().expect("nobody has it any more"), "value"));
}

#[test]
fn replies_wait_for_the_disk_while_the_first_base_is_written() {
    let logged = Logged::new(&[(Opt::Workers, "1"), (Opt::Appendfsync, "always")]);
    let (mut admin, mut writer, mut observer) = (logged.open(), logged.open(), logged.open());
    assert_eq!(admin.ask("MSET a 1 b 2"), "+OK\r\n");
    for words in ["appendonly no", "rdb-key-save-delay 100000000", "appendonly yes"] {
        assert_eq!(admin.ask(&format!("CONFIG SET {words}")), "+OK\r\n");
    }
    while !logged.engine.persistence.aof.is_open() {
        thread::yield_now();
    }
    logged.gate.set(Gate::Closed);
    writer.send("SET key value");
    // The base is not fsynced yet: its writer still waits between keys.
    logged.gate.wait_for_sync();
    let file = logged.engine.persistence.aof.folder_path(&logged.engine).join("temp-appendonly.aof.incr");
    let bytes = read_small(&logged.gate, &file, 1 << 20).expect("a file");
    assert!(String::from_utf8_lossy(&bytes).contains("value"), "it is written");
    assert!(!writer.is_answered(), "and not synced");
    logged.gate.set(Gate::Open);
    assert_eq!(writer.frame(), "+OK\r\n");
    writer.send("WAITAOF 1 0 0");
    while !observer.ask("INFO clients").contains("blocked_clients:1\r\n") {}
    // The data is not stored anywhere else yet.
    assert_eq!(admin.ask("SHUTDOWN"), "-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
    assert!(!may_end(&logged.engine, false) && may_end(&logged.engine, true));
    assert_eq!(admin.ask("CONFIG SET rdb-key-save-delay 0"), "+OK\r\n");
    assert_eq!(writer.frame(), "*2\r\n:1\r\n:0\r\n", "the base is in its place");
    assert!(may_end(&logged.engine, false));
}

#[test]
fn a_failed_sync_before_the_first_base_stays_failed_without_new_bytes() {
    let logged = Logged::new(&[(Opt::Workers, "1"), (Opt::Appendfsync, "always")]);
    let (mut admin, mut writer, mut reader) = (logged.open(), logged.open(), logged.open());
    assert_eq!(admin.ask("MSET a 1 b 2"), "+OK\r\n");
    for words in ["appendonly no", "rdb-key-save-delay 100000000", "appendonly yes"] {
        assert_eq!(admin.ask(&format!("CONFIG SET {words}")), "+OK\r\n");
    }
    while !logged.engine.persistence.aof.is_open() {
        thread::yield_now();
    }
    logged.gate.set(Gate::Failing);
    assert!(writer.ask("SET key value").starts_with("-MISCONF "));
    logged.gate.set(Gate::Open);
    // The AOF thread does this now and then.
    logged.engine.persistence.aof.write(&logged.engine);
    assert!(admin.ask("INFO persistence").contains("aof_last_write_status:err"));
    assert!(writer.ask("SET key other").starts_with("-MISCONF "));
    assert_eq!(reader.ask("GET key"), "$5\r\nvalue\r\n", "nobody waits for what does not come");
    assert_eq!(admin.ask("CONFIG SET rdb-key-save-delay 0"), "+OK\r\n");
    // Once the AOF has a base, it can be healed.
    while writer.ask("SET key third") != "+OK\r\n" {
        thread::yield_now();
    }
    assert_eq!(writer.ask("WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
    logged.engine.persistence.aof.finish(&logged.engine);
    assert!(is_there(&logged.folder().expect("nobody has it any more"), "third"));
}

#[test]
fn a_wait_for_an_aof_that_ends_before_its_base_learns_of_no_durability() {
    let logged = Logged::new(&[(Opt::Workers, "1")]);
    let mut admin = logged.open();
    assert_eq!(admin.ask("MSET a 1 b 2"), "+OK\r\n");
    for words in ["appendonly no", "rdb-key-save-delay 100000000", "appendonly yes"] {
        assert_eq!(admin.ask(&format!("CONFIG SET {words}")), "+OK\r\n");
    }
    while !logged.engine.persistence.aof.is_open() {
        thread::yield_now();
    }
    assert_eq!(admin.ask("SET key value"), "+OK\r\n");
    let (tell, told) = mpsc::channel();
    logged
        .engine
        .persistence
        .when_synced(&logged.engine, move |is_synced| tell.send(is_synced).expect("somebody listens"));
    assert_eq!(admin.ask("CONFIG SET appendonly no"), "+OK\r\n");
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(false), "no manifest names that increment");
}

/// A generator of pseudorandom numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn switch(&mut self) -> bool {
        self.below(2) == 0
    }
}

fn word(is_on: bool) -> &'static str {
    if is_on { "yes" } else { "no" }
}

/// Waits until the AOF has the requested state, and no change of it is in progress.
fn settle(logged: &Logged, is_on: bool, sequence: &[String]) {
    let (file, deadline) = (&logged.engine.persistence.aof, Instant::now() + Duration::from_secs(60));
    let is_settled = || {
        let is_right = if is_on { file.is_open() && !file.lacks_base() } else { !file.is_open() };
        is_right && !file.has_starting() && !file.end.is_begun() && !logged.engine.persistence.snapshots.is_running()
    };
    while !is_settled() {
        assert!(Instant::now() < deadline, "it does not become {}: {sequence:#?}", word(is_on));
        thread::yield_now();
    }
}

/// Switches the AOF on and off in a random order: once, or several times in a transaction, with rewrites, snapshots and
/// writes in between. If `fails` is true, some fsyncs fail.
fn switch_at_random(seed: u64, fails: bool) {
    let logged = Logged::new(&[(Opt::Workers, "2")]);
    let (mut client, mut other) = (logged.open(), logged.open());
    let (mut chance, mut is_on, mut sequence) = (Chance(seed), true, vec![format!("seed {seed}")]);
    for number in 0..12 {
        let (asked, say) = match chance.below(if fails { 8 } else { 7 }) {
            0 | 1 => (Some(vec![chance.switch()]), String::new()),
            2 | 3 => {
                let switches: Vec<_> = (0..1 + chance.below(4)).map(|_| chance.switch()).collect();
                (Some(switches), "MULTI".to_owned())
            }
            4 => (None, "BGREWRITEAOF".to_owned()),
            5 => (None, "BGSAVE SCHEDULE".to_owned()),
            6 => (None, format!("SET key {number}")),
            _ => {
                let gate = [Gate::Failing, Gate::Open][chance.below(2) as usize];
                logged.gate.set(gate);
                sequence.push(format!("{gate:?}"));
                continue;
            }
        };
        let Some(switches) = asked else {
            let reply = other.ask(&say);
            sequence.push(format!("{say}: {reply}"));
            continue;
        };
        let commands = switches.iter().map(|&on| format!("CONFIG SET appendonly {}", word(on)));
        let replies: Vec<String> = if say.is_empty() {
            commands.map(|command| client.ask(&command)).collect()
        } else {
            assert_eq!(client.ask("MULTI"), "+OK\r\n");
            commands.for_each(|command| assert_eq!(client.ask(&command), "+QUEUED\r\n"));
            client.ask("EXEC").split_inclusive("\r\n").skip(1).map(str::to_owned).collect()
        };
        sequence.push(format!("{say} {switches:?}: {replies:?}"));
        for (&switch, reply) in switches.iter().zip(&replies) {
            assert!(fails || reply == "+OK\r\n", "{sequence:#?}");
            is_on = if reply == "+OK\r\n" { switch } else { is_on };
        }
    }
    logged.gate.set(Gate::Open);
    settle(&logged, is_on, &sequence);
    if is_on {
        while other.ask("SET key last") != "+OK\r\n" {
            thread::yield_now();
        }
        logged.engine.persistence.aof.finish(&logged.engine);
    }
    let folder = logged.folder().unwrap_or_else(|error| panic!("{error}: {sequence:#?}"));
    assert!(!is_on || is_there(&folder, "last"), "{sequence:#?}");
}

#[test]
fn every_sequence_of_switching_ends_as_was_asked_for_last() {
    (1..=40).for_each(|seed| switch_at_random(seed * 0x9e37_79b9, false));
}

#[test]
fn so_it_does_where_syncs_fail_now_and_then() {
    (1..=20).for_each(|seed| switch_at_random(seed * 0x85eb_ca6b, true));
}

#[test]
fn on_and_off_in_one_transaction_and_then_on_again_is_on() {
    let logged = Logged::new(&[(Opt::Workers, "1")]);
    let mut client = logged.open();
    for _ in 0..20 {
        assert_eq!(client.ask("CONFIG SET appendonly no"), "+OK\r\n");
        for say in ["MULTI", "CONFIG SET appendonly yes", "CONFIG SET appendonly no"] {
            client.ask(say);
        }
        assert_eq!(client.ask("EXEC"), "*2\r\n+OK\r\n+OK\r\n");
        assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK\r\n");
        settle(&logged, true, &[]);
    }
}
