//! Replication ids across restarts: a server that was stopped continues by a partial sync, and one that was killed does so
//! only if both have the same data.
//!
//! Each case is between Sleeve and one of Redis 7.0, Redis 8, Valkey 9 and Sleeve, on either side. The test counts the full
//! syncs of a replica.

use std::time::Duration;

use sleeve_tests::{Kind, Server};

use crate::persistence::replay::peer;
use crate::replication::replica::{caught_up, follow, info};
use sleeve_tests::probe::{ask, fill, heir, wait_until};

/// The options of every server: without PINGs in the stream, which would move offsets while they are compared.
const OPTIONS: [&str; 8] = [
    "--enable-debug-command",
    "yes",
    "--repl-diskless-sync-delay",
    "0",
    "--repl-ping-replica-period",
    "3600",
    "--repl-backlog-size",
    "64mb",
];

const ALL: [Kind; 4] = [Kind::Sleeve, Kind::Redis, Kind::Redis8, Kind::Valkey];

/// The way in which a server is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// SHUTDOWN SAVE.
    Save,
    /// SIGTERM, with rules for snapshots.
    TermSaving,
    /// SIGTERM, with an AOF and no snapshot.
    TermLogging,
}

impl Stop {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Save => &[],
            Self::TermSaving => &["--save", "3600 1"],
            Self::TermLogging => &["--appendonly", "yes"],
        }
    }
}

/// Starts a primary that sends its data at once.
pub fn primary(kind: Kind, more: &[&str]) -> Server {
    Server::start_with(kind, &[&OPTIONS[..], more].concat())
}

/// Starts a replica of a server.
pub fn replica(kind: Kind, of: &Server, more: &[&str]) -> Server {
    let port = of.port().to_string();
    primary(kind, &[&["--replicaof", "127.0.0.1", &port], more].concat())
}

fn stop(server: &mut Server, how: Stop) {
    if how == Stop::TermLogging {
        wait_until("the log's first base", || {
            ["aof_rewrite_in_progress", "aof_rewrite_scheduled"].iter().all(|name| info(server, name) == "0")
        });
    }
    if how == Stop::Save {
        // The server closes the connection without a reply.
        _ = server.connect().command(&["SHUTDOWN", "SAVE"]);
    } else {
        let killed = std::process::Command::new("kill").arg(server.process_id().to_string()).status();
        assert!(killed.expect("kill runs").success());
    }
    let status = server.wait_for_exit(Duration::from_secs(60)).expect("it ends");
    assert!(status.success(), "{}", server.log());
}

/// Asserts that both servers hold the same data.
pub fn assert_same(replica: &Server, primary: &Server) {
    caught_up(replica, primary);
    // The data is compared in a form that both servers know.
    let kind = if primary.kind() == Kind::Sleeve { replica.kind() } else { primary.kind() };
    let held = |server: &Server| {
        let mut connection = server.connect();
        peer::contents(kind, &mut |words| connection.command(words).expect("it answers"))
    };
    assert!(held(replica) == held(primary), "they differ\n{}\n{}", replica.log(), primary.log());
}

fn write(server: &Server, database: &str, times: usize) {
    let mut connection = server.connect();
    assert_eq!(ask(&mut connection, &["SELECT", database]), "+OK\r\n");
    for number in 0..times {
        let words = ["RPUSH", "written", &number.to_string()];
        let reply = ask(&mut connection, &words);
        assert!(reply.starts_with(':'), "{reply}");
    }
}

/// Returns the number of full syncs and of partial syncs of a primary.
fn syncs(primary: &Server) -> [String; 2] {
    ["sync_full", "sync_partial_ok"].map(|name| info(primary, name))
}

/// Stops and starts a primary of this kind, and checks that its replica continues by a partial sync.
fn primary_goes_on(primary_kind: Kind, replica_kind: Kind, how: Stop) {
    let case = format!("{primary_kind:?} with a replica {replica_kind:?}, {how:?}");
    let mut primary = primary(primary_kind, how.options());
    fill(&primary);
    let replica = replica(replica_kind, &primary, &[]);
    caught_up(&replica, &primary);
    write(&primary, "5", 10);
    ask(&mut primary.connect(), &["PUBLISH", "news", "which no log has"]);
    caught_up(&replica, &primary);
    let (id, offset) = (info(&primary, "master_replid"), info(&primary, "master_repl_offset"));
    stop(&mut primary, how);
    primary.restart().expect("it starts");
    assert_same(&replica, &primary);
    assert_eq!(syncs(&primary), ["0", "1"], "{case}\n{}\n{}", primary.log(), replica.log());
    assert_ne!(info(&primary, "master_replid"), id, "{case}");
    assert_eq!(info(&primary, "master_replid2"), id, "{case}");
    // The primary may have asked its replicas for their offsets, and that request is part of the stream.
    let number = |text: String| text.parse::<u64>().expect("a number");
    assert!(number(info(&primary, "second_repl_offset")) > number(offset), "{case}");
    write(&primary, "6", 10);
    assert_same(&replica, &primary);
}

/// Stops and starts a replica of this kind while its primary is written to, and checks that it continues by a partial sync.
fn replica_goes_on(primary_kind: Kind, replica_kind: Kind, how: Stop) {
    let case = format!("{replica_kind:?} of a primary {primary_kind:?}, {how:?}");
    let primary = primary(primary_kind, &[]);
    fill(&primary);
    let mut replica = replica(replica_kind, &primary, how.options());
    caught_up(&replica, &primary);
    write(&primary, "5", 10);
    caught_up(&replica, &primary);
    // The replica stops amid the stream of a database; the stream does not select that database again.
    let mut connection = primary.connect();
    ask(&mut connection, &["SELECT", "7"]);
    ask(&mut connection, &["SET", "a", "1"]);
    caught_up(&replica, &primary);
    stop(&mut replica, how);
    ask(&mut connection, &["INCR", "a"]);
    replica.restart().expect("it starts");
    assert_same(&replica, &primary);
    assert_eq!(syncs(&primary), ["1", "1"], "{case}\n{}\n{}", primary.log(), replica.log());
    write(&primary, "6", 10);
    assert_same(&replica, &primary);
    assert_eq!(info(&replica, "master_replid"), info(&primary, "master_replid"), "{case}");
}

#[test]
fn a_primary_that_was_stopped_goes_on_with_its_replicas() {
    for kind in ALL {
        primary_goes_on(Kind::Sleeve, kind, Stop::Save);
    }
    primary_goes_on(Kind::Sleeve, Kind::Redis, Stop::TermSaving);
    primary_goes_on(Kind::Sleeve, Kind::Valkey, Stop::TermLogging);
    primary_goes_on(Kind::Sleeve, Kind::Sleeve, Stop::TermLogging);
    for kind in [Kind::Redis, Kind::Redis8, Kind::Valkey] {
        primary_goes_on(kind, Kind::Sleeve, Stop::Save);
    }
}

#[test]
fn a_replica_that_was_stopped_goes_on_with_its_primary() {
    for kind in ALL {
        replica_goes_on(kind, Kind::Sleeve, Stop::Save);
    }
    replica_goes_on(Kind::Redis, Kind::Sleeve, Stop::TermSaving);
    replica_goes_on(Kind::Valkey, Kind::Sleeve, Stop::TermLogging);
    replica_goes_on(Kind::Sleeve, Kind::Sleeve, Stop::TermLogging);
    for kind in [Kind::Redis, Kind::Redis8, Kind::Valkey] {
        replica_goes_on(Kind::Sleeve, kind, Stop::Save);
    }
}

#[test]
fn another_server_goes_on_with_the_snapshot_of_a_primary_and_its_replicas() {
    for kind in [Kind::Redis, Kind::Redis8, Kind::Valkey] {
        for (first, second) in [(kind, Kind::Sleeve), (Kind::Sleeve, kind)] {
            let mut old = primary(first, &[]);
            fill(&old);
            let replica = replica(kind, &old, &[]);
            write(&old, "5", 10);
            caught_up(&replica, &old);
            stop(&mut old, Stop::Save);
            let new = heir(second, &old, &OPTIONS);
            follow(&replica, &new);
            assert_same(&replica, &new);
            assert_eq!(syncs(&new), ["0", "1"], "{first:?}, then {second:?}\n{}\n{}", new.log(), replica.log());
            write(&new, "6", 10);
            assert_same(&replica, &new);
        }
    }
}

#[test]
fn a_killed_replica_resumes_from_its_snapshot_within_the_backlog() {
    for kind in [Kind::Redis, Kind::Sleeve] {
        let primary = primary(kind, &[]);
        fill(&primary);
        let mut replica = replica(Kind::Sleeve, &primary, &[]);
        caught_up(&replica, &primary);
        write(&primary, "5", 10);
        caught_up(&replica, &primary);
        assert_eq!(ask(&mut replica.connect(), &["SAVE"]), "+OK\r\n");
        write(&primary, "5", 10);
        caught_up(&replica, &primary);
        replica.restart().expect("it starts");
        assert_same(&replica, &primary);
        assert_eq!(syncs(&primary), ["1", "1"], "{kind:?}\n{}", replica.log());
    }
}

#[test]
fn a_killed_primary_resumes_with_no_replica_that_is_ahead_of_it() {
    for options in [&["--save", "3600 1"][..], &["--appendonly", "yes"]] {
        let mut primary = primary(Kind::Sleeve, options);
        fill(&primary);
        let replicas = [Kind::Redis, Kind::Sleeve].map(|kind| replica(kind, &primary, &[]));
        for replica in &replicas {
            caught_up(replica, &primary);
        }
        assert_eq!(ask(&mut primary.connect(), &["SAVE"]), "+OK\r\n");
        write(&primary, "5", 10);
        ask(&mut primary.connect(), &["PUBLISH", "news", "which no log has"]);
        for replica in &replicas {
            caught_up(replica, &primary);
        }
        primary.restart().expect("it starts");
        for replica in &replicas {
            assert_same(replica, &primary);
        }
        assert_eq!(syncs(&primary), ["2", "0"], "{options:?}\n{}", primary.log());
        write(&primary, "6", 10);
        for replica in &replicas {
            assert_same(replica, &primary);
        }
    }
}

#[test]
fn a_log_that_was_written_since_it_was_closed_says_nothing_of_the_stream() {
    let mut primary = primary(Kind::Sleeve, &["--appendonly", "yes"]);
    let replica = replica(Kind::Redis, &primary, &[]);
    write(&primary, "0", 10);
    caught_up(&replica, &primary);
    let beside = primary.folder().join("appendonlydir/appendonly.aof.stream");
    for round in 0..2 {
        stop(&mut primary, Stop::TermLogging);
        assert!(beside.exists(), "{}", primary.log());
        primary.restart().expect("it starts");
        assert!(!beside.exists());
        caught_up(&replica, &primary);
        assert_eq!(syncs(&primary), ["0", "1"], "round {round}\n{}", primary.log());
    }
    ask(&mut primary.connect(), &["PUBLISH", "news", "which no log has"]);
    caught_up(&replica, &primary);
    primary.restart().expect("it starts");
    assert_same(&replica, &primary);
    assert_eq!(syncs(&primary), ["1", "0"], "{}", primary.log());
}

#[test]
fn keys_that_were_over_at_the_start_go_from_replicas_too() {
    let mut primary = primary(Kind::Sleeve, &[]);
    let replica = replica(Kind::Redis, &primary, &[]);
    caught_up(&replica, &primary);
    let mut connection = primary.connect();
    ask(&mut connection, &["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    for number in 0..100 {
        ask(&mut connection, &["SET", &format!("soon{number}"), "1", "PX", "1"]);
    }
    caught_up(&replica, &primary);
    stop(&mut primary, Stop::Save);
    primary.restart().expect("it starts");
    for server in [&primary, &replica] {
        wait_until("they have gone", || ask(&mut server.connect(), &["DBSIZE"]) == ":0\r\n");
    }
    assert_eq!(syncs(&primary), ["0", "1"], "{}", primary.log());
}

#[test]
fn a_replica_that_returns_to_a_changed_id_gets_a_full_sync() {
    for (primary_kind, replica_kind) in
        [(Kind::Sleeve, Kind::Redis), (Kind::Sleeve, Kind::Sleeve), (Kind::Redis, Kind::Sleeve)]
    {
        let primary = primary(primary_kind, &[]);
        let replica = replica(replica_kind, &primary, &[]);
        caught_up(&replica, &primary);
        write(&primary, "5", 10);
        caught_up(&replica, &primary);
        let (id, mut ours) = (info(&primary, "master_replid"), primary.connect());
        assert_eq!(ask(&mut ours, &["DEBUG", "CHANGE-REPL-ID"]), "+OK\r\n");
        assert_ne!(info(&primary, "master_replid"), id);
        assert_eq!(info(&primary, "master_replid2"), "0".repeat(40));
        ask(&mut ours, &["CLIENT", "KILL", "TYPE", "replica"]);
        wait_until("all data", || info(&primary, "sync_full") == "2");
        assert_same(&replica, &primary);
        assert_eq!(info(&replica, "master_replid"), info(&primary, "master_replid"));
    }
}

#[test]
fn writes_of_a_transaction_that_changes_the_role_never_divide_the_data() {
    for workers in ["1", "2"] {
        for writes_first in [true, false] {
            let options = ["--workers", workers];
            let old = primary(Kind::Sleeve, &options);
            let new = replica(Kind::Sleeve, &old, &options);
            let chained = replica(Kind::Sleeve, &new, &options);
            assert_same(&new, &old);
            assert_same(&chained, &new);
            let execute = |server: &Server, commands: [&[&str]; 2]| {
                let mut connection = server.connect();
                ask(&mut connection, &["MULTI"]);
                commands.iter().for_each(|words| assert_eq!(ask(&mut connection, words), "+QUEUED\r\n"));
                ask(&mut connection, &["EXEC"])
            };
            // A write by itself would be refused before EXEC.
            let script = ["EVAL", "return redis.call('SET', 'led', '1')", "0"];
            assert_eq!(execute(&new, [&["REPLICAOF", "NO", "ONE"], &script]), "*2\r\n+OK\r\n+OK\r\n");
            assert_same(&chained, &new);
            let port = new.port().to_string();
            let (follow, write) = (["REPLICAOF", "127.0.0.1", &port], ["SET", "own", "1"]);
            let reply = match writes_first {
                true => execute(&old, [&write, &follow]),
                false => execute(&old, [&follow, &write]),
            };
            assert_eq!(reply, "*2\r\n+OK\r\n+OK\r\n");
            // As in Redis, the change is in no stream, so the replica needs a full sync.
            assert_same(&old, &new);
            assert_eq!(ask(&mut old.connect(), &["EXISTS", "own"]), ":0\r\n");
        }
    }
}
