//! Chains of three servers, Sleeve beside Redis 7.0, Redis 8 and Valkey 9: each kind at each place, so that each is once the
//! primary and once the replica of Sleeve.
//!
//! Clients write at random, all types, while the servers begin to follow, while links are cut, while the one in the middle dies
//! and the one at the end is restarted, and while the first and the second exchange their roles. In the end all have the same
//! data at the same offset.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use sleeve_tests::generator::Scope;
use sleeve_tests::random::seed;
use sleeve_tests::{Kind, Server, Stops};

use crate::replication::replica::{assert_same, caught_up, follow, info, primary, scope, write};
use sleeve_tests::probe::{ask, digest, fill, wait_until};

/// Returns the commands that all servers of a chain know and propagate.
fn common(kinds: [Kind; 3]) -> Scope {
    let foreign = kinds.into_iter().find(|kind| *kind != Kind::Sleeve);
    scope(foreign.unwrap_or(Kind::Valkey))
}

/// Runs `work` while two clients write to a server.
fn under_load(server: &Server, scope: &Scope, work: impl FnOnce()) {
    let (stop, seed) = (AtomicBool::new(false), seed(5_000));
    thread::scope(|threads| {
        let _stops = Stops(&stop);
        for writer in 0..2 {
            let stop = &stop;
            threads.spawn(move || write(server, (seed + writer, scope), stop));
        }
        work();
        // The last writes come after the work, too.
        more(server);
    });
}

fn offset(server: &Server) -> u64 {
    info(server, "master_repl_offset").parse().expect("a number")
}

/// Waits until a server's offset has grown for a while.
fn more(server: &Server) {
    let before = offset(server);
    wait_until("more of the stream", || offset(server) > before + 20_000);
}

fn is_up(server: &Server) -> bool {
    info(server, "master_link_status") == "up"
}

fn chain(kinds: [Kind; 3]) {
    let [mut first, mut second, mut third] = kinds.map(primary);
    let scope = common(kinds);
    fill(&first);
    under_load(&first, &scope, || {
        follow(&second, &first);
        follow(&third, &second);
        wait_until("two links", || is_up(&second) && is_up(&third));
        more(&third);
        for (server, its_replica) in [(&first, &second), (&second, &third)] {
            let mut killer = server.connect();
            wait_until("a cut", || ask(&mut killer, &["CLIENT", "KILL", "TYPE", "replica"]) == ":1\r\n");
            more(server);
            wait_until("the link", || is_up(its_replica));
        }
        more(&third);
    });
    for server in [&second, &third] {
        assert_same(server, &first);
    }
    under_load(&first, &scope, || {
        second.restart().expect("it starts");
        follow(&second, &first);
        wait_until("two links", || is_up(&second) && is_up(&third));
        // It saves its data, and exits without a reply.
        third.connect().send(b"SHUTDOWN SAVE\r\n").expect("it hears");
        third.wait_for_exit(Duration::from_secs(60)).unwrap_or_else(|error| panic!("{error}: {}", third.log()));
        third.restart().expect("it starts");
        follow(&third, &second);
        wait_until("two links", || is_up(&second) && is_up(&third));
        more(&third);
    });
    for server in [&second, &third] {
        assert_same(server, &first);
    }
    assert!(ask(&mut second.connect(), &["REPLICAOF", "NO", "ONE"]).starts_with("+OK"));
    under_load(&second, &scope, || {
        follow(&first, &second);
        wait_until("two links", || is_up(&first) && is_up(&third));
        more(&third);
    });
    std::mem::swap(&mut first, &mut second);
    for server in [&second, &third] {
        assert_same(server, &first);
        if first.kind() == Kind::Sleeve && server.kind() == Kind::Sleeve {
            assert_eq!(digest(server), digest(&first));
        }
    }
    // The primary may write to the stream at any time: expired keys, or a PING.
    wait_until("one offset", || caught_up(&second, &first) == caught_up(&third, &first));
}

#[test]
fn redis_7_before_and_behind_sleeve() {
    chain([Kind::Redis, Kind::Sleeve, Kind::Redis]);
}

#[test]
fn redis_7_between_sleeves() {
    chain([Kind::Sleeve, Kind::Redis, Kind::Sleeve]);
}

#[test]
fn redis_8_before_and_behind_sleeve() {
    chain([Kind::Redis8, Kind::Sleeve, Kind::Redis8]);
}

#[test]
fn redis_8_between_sleeves() {
    chain([Kind::Sleeve, Kind::Redis8, Kind::Sleeve]);
}

#[test]
fn valkey_9_before_and_behind_sleeve() {
    chain([Kind::Valkey, Kind::Sleeve, Kind::Valkey]);
}

#[test]
fn valkey_9_between_sleeves() {
    chain([Kind::Sleeve, Kind::Valkey, Kind::Sleeve]);
}

#[test]
fn sleeves_alone() {
    chain([Kind::Sleeve; 3]);
}
