//! Snapshots of an engine that goes on changing: each equals the journal's state at its instant.
//!
//! Threads write to an embedded engine while one snapshot after the other is taken, as bases of its AOF. A base names its
//! offset in the journal. The journal up to there, applied to an empty engine, is the model; the base, loaded into another,
//! has to hold the same keys, types, deadlines and values. Units that are moved between accounts also have the same sum in
//! each snapshot, without regard to the journal.

mod rig;
mod slow_disk;
mod writers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rig::{Allowance, End, Rig, take_beside};
use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_server::{Engine, Local, Opt};
use sleeve_tests::{Kind, Server, soak};
use slow_disk::slow_disk;
use writers::{ACCOUNTS, change_large, fill_large, random_commands, sum, transfers};

/// The number of threads that write.
const THREADS: u64 = 3;

/// The delay for each key of a snapshot in microseconds, so that many writes happen during the snapshot.
const DELAY_US: &str = "20";

const WORKERS: [&str; 2] = ["1", "4"];

/// Returns the number of snapshots in each of so many configurations: a soak sets their total.
fn snapshots(short: usize, configurations: usize) -> usize {
    soak::count(short * configurations).div_ceil(configurations)
}

#[test]
fn random_commands_are_there_up_to_the_instant() {
    for workers in WORKERS {
        let options = [(Opt::Workers, workers), (Opt::RdbKeySaveDelay, DELAY_US)];
        let mut rig = Rig::new(&options, Arc::new(MemoryDisk::new()));
        // There are so many keys that a snapshot takes a few steps.
        let others: String = (0..2_000).map(|number| format!(" other:{number} x")).collect();
        for _ in 0..snapshots(6, 4) {
            rig.ask("SELECT 3");
            rig.ask(&format!("MSET{others}"));
            take_beside(&mut rig, (&random_commands, THREADS), (1, 3_000), &mut |_, _| {});
        }
    }
}

#[test]
fn a_zero_in_a_formerly_large_sorted_set_may_lose_only_its_sign() {
    let mut rig = Rig::new(&[], Arc::new(MemoryDisk::new()));
    let members: String = (0..200).map(|number| format!(" {number} m{number}")).collect();
    rig.ask(&format!("ZADD z{members} -0 zero"));
    rig.ask("ZREMRANGEBYSCORE z 1 inf");
    assert_eq!(rig.ask("ZSCORE z zero"), "$2\r\n-0\r\n");
    take_beside(&mut rig, (&|_, _, _| {}, THREADS), (1, 1), &mut |_, _| {});
}

#[test]
fn transfers_are_there_whole_or_not_at_all() {
    for workers in WORKERS {
        let options =
            [(Opt::Workers, workers), (Opt::RdbKeySaveDelay, DELAY_US), (Opt::MaxmemoryPolicy, "volatile-random")];
        let mut rig = Rig::new(&options, Arc::new(MemoryDisk::new()));
        for number in 0..ACCOUNTS {
            rig.ask(&format!("SET account:{number} 100"));
        }
        let room = rig.engine.used_bytes() + 600_000;
        assert_eq!(rig.ask(&format!("CONFIG SET maxmemory {room}")), "+OK\r\n");
        let mut last = Vec::new();
        take_beside(&mut rig, (&transfers, THREADS), (snapshots(4, 4), 4_000), &mut |_, taken| {
            assert_eq!(sum(&taken.loaded), 100 * ACCOUNTS as i64);
            last = taken.bytes;
        });
        assert_ne!(rig.info("evicted_keys"), "0");
        assert_ne!(rig.info("expired_keys"), "0");
        assert_eq!(sum_in_redis(&last), 100 * ACCOUNTS as i64);
    }
}

/// Returns the sum of the accounts in a real server that is started with this file.
fn sum_in_redis(file: &[u8]) -> i64 {
    let mut server = Server::start(Kind::Redis);
    server.kill();
    std::fs::write(server.folder().join("dump.rdb"), file).expect("the folder of the server");
    server.restart().unwrap_or_else(|reason| panic!("it does not load it: {reason}"));
    let mut connection = server.connect();
    let script = "local sum = 0 for db = 0, 1 do redis.call('SELECT', db) \
                  for _, k in ipairs(redis.call('KEYS', 'account:*')) do sum = sum + redis.call('GET', k) end \
                  for _, k in ipairs({'bank', 'vault'}) do \
                  for _, v in ipairs(redis.call('HVALS', k)) do sum = sum + v end end \
                  local ranks = redis.call('ZRANGE', 'ranks', 0, -1, 'WITHSCORES') \
                  for i = 2, #ranks, 2 do sum = sum + ranks[i] end end return sum";
    let reply = connection.command(&["EVAL", script, "0"]).expect("a reply");
    let text = String::from_utf8_lossy(&reply).into_owned();
    text.trim_start_matches(':').trim_end().parse().unwrap_or_else(|_| panic!("{text}"))
}

/// Checks snapshots of large values of each type. With `count` set, they have a million elements each.
#[test]
fn large_values_of_each_type_are_as_they_were() {
    let is_soak = soak::count(0) > 0;
    let elements = if is_soak { 1_000_000 } else { 2_000 };
    for workers in WORKERS {
        let mut rig = Rig::new(&[(Opt::Workers, workers)], Arc::new(MemoryDisk::new()));
        fill_large(&rig.engine, elements);
        let change = |engine: &Arc<Engine>, number, allowance: &Allowance| {
            change_large(engine, (number, elements), allowance);
        };
        let much = if is_soak { (10, 100_000) } else { (3, 3_000) };
        take_beside(&mut rig, (&change, THREADS), much, &mut |_, _| {});
    }
}

/// The most bytes that may wait for the disk.
const WAIT_MAX: u64 = 4 << 20;

/// The bytes beyond that bound that are allowed: those that are encoded before they are written, and the before-images of a
/// few commands that began before the bound was reached.
const SLACK: u64 = 2 << 20;

/// The number of times that all keys are written twice before the test gives up waiting for a held writer.
const REFILLS_MAX: usize = 100;

/// The number of keys, with values of a thousand bytes each.
const KEYS: usize = 10_000;

/// Changes one key after the other, and counts the writes that are held.
fn overwrite(engine: &Arc<Engine>, number: u64, (allowance, held): (&Allowance, &AtomicU64)) {
    let (mut local, mut key, value) = (Local::open(engine, || {}), number as usize, "w".repeat(1_000));
    while allowance.take() {
        let request = format!("SET key:{key} {value}\r\n");
        let mut replies = Vec::new();
        local.exchange(request.as_bytes(), &mut replies).expect("nothing here ends a session");
        if replies.is_empty() {
            held.fetch_add(1, Ordering::Relaxed);
            while replies.is_empty() && !allowance.left().1 {
                local.wait(Duration::from_millis(10), &mut replies).expect("nothing here ends a session");
            }
            held.fetch_sub(1, Ordering::Relaxed);
        }
        key = (key + THREADS as usize) % KEYS;
    }
}

#[test]
fn bytes_that_wait_for_a_slow_disk_stay_below_their_bound() {
    for workers in WORKERS {
        let (disk, bound) = (Arc::new(slow_disk(5_000_000)), WAIT_MAX.to_string());
        let options = [(Opt::Workers, workers), (Opt::SnapshotMaxMemory, &bound), (Opt::Rdbcompression, "no")];
        let mut rig = Rig::new(&options, disk.clone());
        (0..KEYS).for_each(|key| _ = rig.ask(&format!("SET key:{key} {}", "v".repeat(1_000))));
        let (engine, allowance, held) = (Arc::clone(&rig.engine), Allowance::default(), AtomicU64::new(0));
        thread::scope(|scope| {
            let _end = End(&allowance);
            for number in 0..THREADS {
                let (engine, told) = (&engine, (&allowance, &held));
                scope.spawn(move || overwrite(engine, number, told));
            }
            for _ in 0..snapshots(1, 10) {
                disk.between().stop(true);
                rig.begin_snapshot();
                allowance.set(2 * KEYS, false);
                // Now everything waits: the snapshot for its disk, and writers for the snapshot. On a busy machine the
                // snapshot may begin late.
                let mut refills = 0;
                while held.load(Ordering::Relaxed) < THREADS {
                    if allowance.left() == (0, false) {
                        assert!(refills < REFILLS_MAX, "nobody was held");
                        refills += 1;
                        allowance.set(2 * KEYS, false);
                    }
                    thread::sleep(Duration::from_millis(1));
                }
                disk.between().stop(false);
                rig.end_snapshot();
                let most: u64 = rig.info("rdb_last_cow_size").parse().expect("bytes");
                assert!((WAIT_MAX..WAIT_MAX + SLACK).contains(&most), "{most} bytes have waited");
            }
        });
    }
}

/// The number of entries of a stream; all of them are pending.
const PENDING: u64 = 10_000;

#[test]
fn pending_entries_of_a_stream_count_until_they_are_written() {
    // The least memory of each key before its group is written: for a base in requests its entry is held with it.
    for (preamble, each_min) in [("yes", 90), ("no", 350)] {
        let mut rig = Rig::new(&[(Opt::AofUseRdbPreamble, preamble)], Arc::new(MemoryDisk::new()));
        rig.ask("XGROUP CREATE stream group 0 MKSTREAM");
        (1..=PENDING).for_each(|number| _ = rig.ask(&format!("XADD stream {number}-1 field value")));
        rig.ask(&format!("XREADGROUP GROUP group consumer COUNT {PENDING} STREAMS stream >"));
        rig.begin_snapshot();
        while rig.info("aof_rewrite_in_progress") == "1" {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(rig.info("aof_last_bgrewrite_status"), "ok");
        let most: u64 = rig.info("rdb_last_cow_size").parse().expect("bytes");
        assert!(most >= PENDING * each_min, "{preamble}: {most} bytes have waited");
    }
}
