//! `repl-sync-rate`: a full sync takes its time, loses no replica by that, and the stream behind it has no bound.

use std::io::Read;
use std::time::{Duration, Instant};

use sleeve_tests::Kind;

use super::slow::{asks_for_everything, set_large};
use super::{assert_same, info, primary, replica};
use sleeve_tests::probe::{ask, wait_until};

/// A rate at which 8 MB take a quarter of an hour.
const CRAWLING: &str = "10000";

#[test]
fn a_snapshot_takes_at_least_its_bytes_by_the_rate() {
    const RATE: u64 = 1_000_000;
    for diskless in ["yes", "no"] {
        let rate = RATE.to_string();
        let options = ["--rdbcompression", "no", "--repl-sync-rate", &rate, "--repl-diskless-sync", diskless];
        let primary = primary(&options);
        set_large(&mut primary.connect(), 2, "x");
        let begun = Instant::now();
        let mut stream = asks_for_everything(&primary);
        let (mut taken, mut some) = (0, vec![0; 1 << 16]);
        while taken < 2_u64 << 20 {
            let count = stream.read(&mut some).expect("more");
            assert_ne!(count, 0, "it ends after {taken} bytes: {}", primary.log());
            taken += count as u64;
            // The lines before the snapshot have fewer than 1,000 bytes, and are not bounded.
            let least = Duration::from_millis(taken.saturating_sub(1_000) * 1_000 / RATE);
            assert!(begun.elapsed() >= least, "{taken} bytes after {:?}, diskless {diskless}", begun.elapsed());
        }
    }
}

#[test]
fn a_rate_that_is_lifted_counts_for_a_transfer_under_way() {
    for (kind, diskless, workers) in [(Kind::Redis, "yes", "1"), (Kind::Sleeve, "no", "2"), (Kind::Valkey, "yes", "2")]
    {
        let options = ["--rdbcompression", "no", "--repl-sync-rate", CRAWLING, "--repl-diskless-sync", diskless];
        let primary = primary(&[&options[..], &["--workers", workers]].concat());
        let mut ours = primary.connect();
        set_large(&mut ours, 8, "x");
        let replica = replica(kind, &primary, &[]);
        wait_until("some of the snapshot", || {
            let read = info(&mut replica.connect(), "master_sync_read_bytes");
            read.parse::<u64>().is_ok_and(|bytes| bytes > 1_000)
        });
        assert_eq!(ask(&mut ours, &["SET", "meanwhile", "x"]), "+OK\r\n");
        assert_eq!(info(&mut replica.connect(), "master_link_status"), "down");
        assert_eq!(ask(&mut ours, &["CONFIG", "SET", "repl-sync-rate", "0"]), "+OK\r\n");
        assert_same(&primary, &replica);
        assert_eq!(info(&mut ours, "sync_full"), "1", "{}", kind.name());
    }
}

#[test]
fn the_stream_behind_the_snapshot_has_no_bound() {
    let primary = primary(&["--repl-sync-rate", CRAWLING]);
    let replica = replica(Kind::Redis, &primary, &[]);
    assert_same(&primary, &replica);
    // At the rate of the snapshot this would take longer than the comparison waits.
    set_large(&mut primary.connect(), 4, "y");
    assert_same(&primary, &replica);
}

#[test]
fn a_full_sync_of_longer_than_the_timeout_loses_no_replica() {
    let timeout = ["--repl-timeout", "5"];
    // The first is slow to send, the second slow to make: in 8 s it has a few kilobytes.
    let slow = [["--repl-sync-rate", "130000"], ["--rdb-key-save-delay", "50000"]];
    for (number, slow) in slow.into_iter().enumerate() {
        let primary = primary(&[&["--rdbcompression", "no"], &timeout[..], &slow].concat());
        let mut ours = primary.connect();
        match number {
            0 => set_large(&mut ours, 1, "x"),
            _ => (0..160).for_each(|key| _ = ask(&mut ours, &["SET", &format!("key{key}"), "x"])),
        }
        let replica = replica(Kind::Redis, &primary, &timeout);
        assert_same(&primary, &replica);
        assert_eq!(info(&mut ours, "sync_full"), "1", "{slow:?}: {}", replica.log());
    }
}
