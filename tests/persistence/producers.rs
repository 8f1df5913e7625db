//! A stream's memory of producers that number their messages outlives the process, and goes to replicas and into dumps.
//!
//! Each step sends the same message again: if it is known, the reply is the id of the entry that it became.

use sleeve_tests::transcript::frame::{leaves, text};
use sleeve_tests::{Connection, Kind, Server};

use sleeve_tests::probe::{ask, info, wait_until};

/// The number of messages of the producers in the stream `large`, which has many blocks; `small` gets 5. Some of the entries
/// of both streams are deleted.
const MESSAGES: usize = 700;

fn say(connection: &mut Connection, line: &str) -> String {
    ask(connection, &line.split(' ').collect::<Vec<_>>())
}

fn fill(server: &Server) {
    let mut connection = server.connect();
    for key in ["small", "large"] {
        say(&mut connection, &format!("XADD {key} 9999999999999-0 a 1"));
        say(&mut connection, &format!("XCFGSET {key} IDMP-DURATION 86000 IDMP-MAXSIZE 400"));
        let messages = if key == "small" { 5 } else { MESSAGES };
        for number in 0..messages {
            say(&mut connection, &format!("XADD {key} IDMP p{} {number} * field {number}", number % 3));
        }
        say(&mut connection, &format!("XADD {key} IDMPAUTO auto * field value"));
        say(&mut connection, &format!("XDEL {key} 9999999999999-2 9999999999999-4"));
        say(&mut connection, &format!("XTRIM {key} MAXLEN {}", messages - 2));
        say(&mut connection, &format!("XGROUP CREATE {key} group 0"));
        say(&mut connection, &format!("XREADGROUP GROUP group reader COUNT 2 STREAMS {key} >"));
    }
    say(&mut connection, "XADD plain 1-0 a 1");
}

/// Returns the facts about the streams, without the counts of added and repeated messages.
fn facts(connection: &mut Connection, has_counts: bool) -> Vec<String> {
    let facts = |key: &str, connection: &mut Connection| {
        let told = connection.command(&["XINFO", "STREAM", key]).expect("an answer");
        let leaves: Vec<_> = leaves(&told).iter().map(|leaf| String::from_utf8_lossy(leaf).into_owned()).collect();
        let fact = |name: &str| leaves.iter().position(|leaf| leaf == name).map(|at| leaves[at + 1].clone());
        let names = ["length", "last-generated-id", "max-deleted-entry-id", "entries-added", "groups"];
        let counts = ["iids-added", "iids-duplicates"];
        let of_producers = ["idmp-duration", "idmp-maxsize", "pids-tracked", "iids-tracked"];
        let names = names.iter().chain(&of_producers).chain(counts.iter().filter(|_| has_counts));
        let facts: Vec<_> = names.map(|name| fact(name).unwrap_or_default()).collect();
        format!("{key} {}", facts.join(" "))
    };
    ["small", "large"].map(|key| facts(key, connection)).to_vec()
}

/// Sends the earlier messages again, and checks that none is added.
fn assert_known(connection: &mut Connection) {
    for (key, number, id) in
        [("small", 0, 1), ("small", 1, 2), ("small", 4, 5), ("large", 699, 700), ("large", 250, 251)]
    {
        let again = format!("XADD {key} NOMKSTREAM IDMP p{} {number} * field other", number % 3);
        assert_eq!(
            say(connection, &again),
            format!("${}\r\n9999999999999-{id}\r\n", 14 + id.to_string().len()),
            "{again}"
        );
    }
    assert_eq!(say(connection, "XADD small IDMPAUTO auto * field value"), "$15\r\n9999999999999-6\r\n");
}

#[test]
fn producers_are_known_after_a_restart_from_each_kind_of_file() {
    let logged = ["--appendonly", "yes"];
    for (arguments, rewrites, has_counts) in [
        (&["--save", "3600 1"][..], false, true),
        (&logged, false, true),
        (&logged, true, true),
        (&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"], true, false),
    ] {
        let mut server = Server::start_with(Kind::Sleeve, arguments);
        fill(&server);
        let mut connection = server.connect();
        assert_known(&mut connection);
        if rewrites {
            assert!(say(&mut connection, "BGREWRITEAOF").starts_with('+'));
            wait_until("the rewrite", || info(&server, "aof_rewrite_in_progress") == "0");
            assert_eq!(info(&server, "aof_last_bgrewrite_status"), "ok", "{}", server.log());
        } else if arguments[0] == "--save" {
            assert_eq!(say(&mut connection, "SAVE"), "+OK\r\n");
        }
        let before = facts(&mut connection, has_counts);
        server.kill();
        server.restart().expect("it starts again");
        let mut connection = server.connect();
        assert_eq!(facts(&mut connection, has_counts), before, "{arguments:?}");
        assert_known(&mut connection);
    }
}

/// Waits until a replica shows the same as its primary.
fn wait_for_same(primary: &Server, replica: &Server) {
    let (mut of_primary, mut of_replica) = (primary.connect(), replica.connect());
    let both = format!("that {} has what {} has", replica.kind().name(), primary.kind().name());
    wait_until(&both, || {
        say(&mut of_replica, "INFO replication").contains("master_link_status:up")
            && facts(&mut of_primary, true) == facts(&mut of_replica, true)
    });
}

fn follow(replica: &Server, primary: &Server) {
    let line = format!("REPLICAOF {} {}", primary.host(), primary.port());
    assert_eq!(say(&mut replica.connect(), &line), "+OK\r\n");
}

/// Returns whether a server knows producers.
fn knows_producers(server: &Server) -> bool {
    let told = server.connect().command(&["COMMAND", "INFO", "XCFGSET"]);
    told.is_ok_and(|told| !leaves(&told).is_empty())
}

#[test]
fn a_replica_knows_producers_from_the_snapshot_and_from_the_stream() {
    for kinds in [(Kind::Sleeve, Kind::Sleeve), (Kind::Sleeve, Kind::Redis8), (Kind::Redis8, Kind::Sleeve)] {
        let (primary, replica) = (Server::start(kinds.0), Server::start(kinds.1));
        if !knows_producers(&primary) || !knows_producers(&replica) {
            eprintln!("{kinds:?}: it does not know producers, and is not asked");
            continue;
        }
        fill(&primary);
        assert_eq!(say(&mut primary.connect(), "COPY large copied"), ":1\r\n");
        follow(&replica, &primary);
        wait_for_same(&primary, &replica);
        let mut connection = primary.connect();
        assert_eq!(say(&mut connection, "DEL small large"), ":2\r\n");
        fill(&primary);
        if kinds.0 == kinds.1 {
            assert_known(&mut connection);
        }
        wait_for_same(&primary, &replica);
        let mut promoted = replica.connect();
        assert_eq!(say(&mut promoted, "REPLICAOF NO ONE"), "+OK\r\n");
        let again = "XADD copied IDMP p0 699 * field other";
        assert_eq!(say(&mut promoted, again), "$17\r\n9999999999999-700\r\n");
        if kinds.0 == kinds.1 || kinds.1 == Kind::Sleeve {
            assert_known_but_for_digests(&mut promoted);
        }
    }
}

/// Does the same as [`assert_known`], without messages identified by another server's digest of the fields.
fn assert_known_but_for_digests(connection: &mut Connection) {
    assert_eq!(say(connection, "XADD small IDMP p1 1 * field other"), "$15\r\n9999999999999-2\r\n");
    assert_eq!(say(connection, "XADD large IDMP p0 699 * field other"), "$17\r\n9999999999999-700\r\n");
}

#[test]
fn dumps_are_of_the_oldest_version_that_has_words_for_them() {
    let server = Server::start(Kind::Sleeve);
    fill(&server);
    let mut connection = server.connect();
    let mut dump = |key: &str| {
        let reply = connection.command(&["DUMP", key]).expect("an answer");
        text(&reply).expect("a dump").to_vec()
    };
    let version = |dump: &[u8]| u16::from_le_bytes([dump[dump.len() - 10], dump[dump.len() - 9]]);
    let (plain, small) = (dump("plain"), dump("small"));
    assert_eq!((version(&plain), version(&small)), (10, 13));
    for kind in [Kind::Sleeve, Kind::Redis8] {
        let target = Server::start(kind);
        if !knows_producers(&target) {
            eprintln!("{kind:?}: it does not know producers, and is not asked");
            continue;
        }
        let mut there = target.connect();
        let restored = there.command(&[b"RESTORE".as_slice(), b"small", b"0", &small]).expect("an answer");
        assert_eq!(restored, b"+OK\r\n", "{kind:?}");
        assert_known_in_small(&mut there);
        let back = there.command(&["DUMP", "small"]).expect("an answer");
        let words = [b"RESTORE".as_slice(), b"back", b"0", text(&back).expect("a dump")];
        assert_eq!(connection.command(&words).expect("an answer"), b"+OK\r\n");
        assert_eq!(say(&mut connection, "XADD back IDMP p1 1 * field other"), "$15\r\n9999999999999-2\r\n");
        assert_eq!(say(&mut connection, "DEL back"), ":1\r\n");
    }
}

fn assert_known_in_small(connection: &mut Connection) {
    assert_eq!(say(connection, "XADD small IDMP p1 1 * field other"), "$15\r\n9999999999999-2\r\n");
    assert_eq!(say(connection, "XADD small IDMP p0 0 * field other"), "$15\r\n9999999999999-1\r\n");
}

#[test]
fn a_valkey_replica_gets_nothing_that_it_cannot_load() {
    let (primary, replica) = (Server::start(Kind::Sleeve), Server::start(Kind::Valkey));
    fill(&primary);
    follow(&replica, &primary);
    wait_until("the refusal", || primary.log().contains("streams know ids of their producers' messages"));
    say(&mut primary.connect(), "FLUSHALL");
    say(&mut primary.connect(), "SET key value");
    wait_until("the replica", || say(&mut replica.connect(), "GET key") == "$5\r\nvalue\r\n");
}
