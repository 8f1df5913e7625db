//! A large AOF that a rewrite removes: requests do not wait for its removal.
//!
//! The short form has 192 MiB and checks that the file and its descriptors go. `cargo xtask soak removal` has 4 GiB and checks
//! the longest time of a request too, which a machine that does other work beside it would spoil.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_tests::probe::{ask, info, wait_until};
use sleeve_tests::{Kind, Server, soak};

/// The bytes of each write.
const VALUE_BYTES: usize = 64 << 20;

/// The number of writes of the short form.
const SHORT: usize = 3;

/// The longest time that a request may take while the file is removed.
const LONGEST: Duration = Duration::from_millis(5);

/// Returns whether the server has a file of the AOF open that has lost its name.
fn has_nameless_files(server: &Server) -> bool {
    let open = fs::read_dir(format!("/proc/{}/fd", server.process_id())).expect("it runs").flatten();
    let mut open = open.filter_map(|link| fs::read_link(link.path()).ok());
    open.any(|file| file.to_string_lossy().contains(".aof (deleted)"))
}

/// Returns the longest times of a PING and of a SET, one of each a millisecond, until `is_over`.
fn longest(server: &Server, is_over: &AtomicBool) -> [Duration; 2] {
    let (mut connection, mut longest) = (server.connect(), [Duration::ZERO; 2]);
    while !is_over.load(Ordering::Relaxed) {
        for (words, longest) in [&["PING"][..], &["SET", "small", "x"]].into_iter().zip(&mut longest) {
            let begun = Instant::now();
            ask(&mut connection, words);
            *longest = begun.elapsed().max(*longest);
        }
        thread::sleep(Duration::from_millis(1));
    }
    longest
}

#[test]
fn an_aof_of_gigabytes_is_removed_without_holding_requests() {
    let count = soak::count(SHORT);
    let server = Server::start_with(Kind::Sleeve, &["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"]);
    let (mut connection, value) = (server.connect(), vec![b'v'; VALUE_BYTES]);
    for _ in 0..count {
        assert_eq!(connection.command(&[&b"SET"[..], b"large", &value]).expect("a reply"), b"+OK\r\n");
    }
    // The new base is small, so that the removal alone is measured.
    ask(&mut connection, &["DEL", "large"]);
    let folder = server.folder().join("appendonlydir");
    let bytes =
        || fs::read_dir(&folder).expect("a folder").flatten().map(|file| file.metadata().map_or(0, |file| file.len()));
    let before: u64 = bytes().sum();
    assert!(before > (count * VALUE_BYTES) as u64);
    wait_until("the sync", || info(&server, "aof_pending_bio_fsync") == "0");
    let is_over = AtomicBool::new(false);
    let [ping, set] = thread::scope(|scope| {
        let probe = scope.spawn(|| longest(&server, &is_over));
        ask(&mut connection, &["BGREWRITEAOF"]);
        wait_until("the removal", || bytes().sum::<u64>() < VALUE_BYTES as u64 && !has_nameless_files(&server));
        is_over.store(true, Ordering::Relaxed);
        probe.join().expect("the probe")
    });
    println!("{before} bytes removed; longest PING {ping:?}, longest SET {set:?}");
    if count > SHORT {
        assert!(ping <= LONGEST && set <= LONGEST, "a PING took {ping:?}, a SET {set:?}");
    }
}
