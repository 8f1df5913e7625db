//! An engine whose disk fails at a sync: what may be lost is written once more, whether the journal still has it or not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sleeve_disk::disk::crashing::{CrashingDisk, Fault, Plan};
use sleeve_server::engine::origin::Origin;
use sleeve_server::{Config, Engine, Local, Opt};

/// An engine that has loaded what is on this disk.
fn begin(disk: &CrashingDisk, policy: &str) -> Arc<Engine> {
    let config = Config::default();
    for (option, value) in [(Opt::Appendonly, "yes"), (Opt::Appendfsync, policy), (Opt::EnableDebugCommand, "yes")] {
        config.assign(option, &[value.as_bytes()]).expect("an option of the table");
    }
    let engine = Engine::begin(config, Origin::of_machine().on(Arc::new(disk.clone())));
    engine.load().expect("what was left is a log");
    engine
}

pub(crate) fn ask(local: &mut Local, request: &str) -> String {
    let mut replies = Vec::new();
    local.exchange(format!("{request}\r\n").as_bytes(), &mut replies).expect("the session lives");
    String::from_utf8(replies).expect("text")
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Writes under one policy, has the disk fail under another, and cuts the power when it works again.
fn heal(before: &str, after: &str) {
    let disk = CrashingDisk::new(Plan::default());
    let engine = begin(&disk, before);
    let (mut local, mut length) = (engine.connect(|| {}), 0);
    let mut is_synced = true;
    while is_synced {
        for _ in 0..500 {
            length += 1;
            assert_eq!(ask(&mut local, &format!("RPUSH list {length}")), format!(":{length}\r\n"));
        }
        // Nobody writes any more, so that these are looks at the size of files, the sync, and attempts to heal.
        let first = disk.calls() + 1;
        disk.fail((first..first + 8).map(|call| (call, Fault::Broken)).collect::<BTreeMap<_, _>>(), None);
        let offsets = ask(&mut local, "INFO persistence");
        let offset = |name: &str| offsets.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        is_synced = offset("aof_written_offset:") == offset("aof_synced_offset:");
    }
    assert_eq!(ask(&mut local, &format!("CONFIG SET appendfsync {after}")), "+OK\r\n");
    wait_until("the failure", || ask(&mut local, "INFO persistence").contains("aof_last_write_status:err"));
    wait_until("the healing", || ask(&mut local, "SET later 1") == "+OK\r\n");
    assert_eq!(ask(&mut local, "WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
    let digest = ask(&mut local, "DEBUG DIGEST");
    for seed in 0..8 {
        let left = disk.survivors(seed, Plan::default());
        let again = begin(&left, after);
        assert_eq!(ask(&mut again.connect(|| {}), "DEBUG DIGEST"), digest, "{before}, then {after}, {seed}");
        again.end_log();
    }
    engine.end_log();
}

#[test]
fn a_sync_that_fails_loses_nothing_of_what_was_written_before() {
    heal("everysec", "everysec");
    heal("everysec", "always");
}

#[test]
fn what_was_written_under_no_is_healed_when_a_later_sync_fails() {
    heal("no", "everysec");
    heal("no", "always");
}
