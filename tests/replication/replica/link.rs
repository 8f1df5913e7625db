//! The link of a replica: under TLS, on a full disk, with a primary that falls silent or refuses; and the view of clients.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use sleeve_tests::{Connection, Kind, Server};

use super::foreign::{ID, empty_dump, greet};
use super::{DEBUG, assert_same, caught_up, follow, info, primary, replica};
use crate::connections::tls::Authority;
use crate::persistence::failing::limit_files;
use sleeve_tests::probe::{ask, digest, fill, wait_until};

#[test]
fn a_replica_and_its_primary_speak_tls() {
    let authority = Authority::new("replication");
    let (certificate, key, ca) = (authority.file("client.crt"), authority.file("client.key"), authority.file("ca.crt"));
    for (of_primary, of_replica) in
        [(Kind::Redis, Kind::Sleeve), (Kind::Sleeve, Kind::Redis), (Kind::Sleeve, Kind::Sleeve)]
    {
        let quick = [&DEBUG[..], &["--repl-diskless-sync-delay", "0"]].concat();
        let (primary, port) = authority.serve(of_primary, &quick);
        fill(&primary);
        let words = ["--tls-replication", "yes", "--tls-ca-cert-file", &ca, "--tls-cert-file", &certificate];
        let replica = Server::start_with(of_replica, &[&DEBUG[..], &words, &["--tls-key-file", &key]].concat());
        let mut connection = replica.connect();
        assert_eq!(ask(&mut connection, &["REPLICAOF", "127.0.0.1", &port.to_string()]), "+OK\r\n");
        caught_up(&replica, &primary);
        ask(&mut primary.connect(), &["SET", "later", "1"]);
        caught_up(&replica, &primary);
        assert_eq!(digest(&replica), digest(&primary), "{} of {}", of_replica.name(), of_primary.name());
    }
    // A primary with a foreign certificate is reported in the log, and nothing is sent to it.
    let stranger = Authority::new("strangers in replication");
    let (primary, port) = stranger.serve(Kind::Redis, &[]);
    let words = ["--tls-replication", "yes", "--tls-ca-cert-file", &ca, "--tls-cert-file", &certificate];
    let replica = replica(&[&words[..], &["--tls-key-file", &key]].concat());
    ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", &port.to_string()]);
    wait_until("a reason", || replica.log().contains("has ended"));
    assert!(replica.log().contains("certificate"), "{}", replica.log());
    assert_eq!(info(&primary, "connected_slaves"), "0");
}

#[test]
fn a_replica_with_a_full_disk_keeps_its_data_and_tries_again() {
    let (primary, replica) = (primary(Kind::Redis), replica(&[]));
    ask(&mut replica.connect(), &["SET", "mine", "1"]);
    ask(&mut primary.connect(), &["SET", "large", &"x".repeat(100_000)]);
    ask(&mut primary.connect(), &["CONFIG", "SET", "rdbcompression", "no"]);
    limit_files(&replica, "50000:unlimited");
    follow(&replica, &primary);
    wait_until("a reason", || replica.log().contains("cannot write its dump"));
    assert_eq!(ask(&mut replica.connect(), &["GET", "mine"]), "$1\r\n1\r\n");
    limit_files(&replica, "unlimited:unlimited");
    assert_same(&replica, &primary);
    let left = std::fs::read_dir(replica.folder()).expect("a folder").flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().contains("temp-sync")));
}

#[test]
fn a_log_that_cannot_be_written_does_not_keep_a_replica_from_following() {
    let (primary, replica) = (primary(Kind::Redis), replica(&["--appendonly", "yes"]));
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    wait_until("the log's first base", || info(&replica, "aof_rewrite_in_progress") == "0");
    limit_files(&replica, "50000:unlimited");
    ask(&mut primary.connect(), &["SET", "large", &"x".repeat(100_000)]);
    wait_until("the failure", || info(&replica, "aof_last_write_status") == "err");
    ask(&mut primary.connect(), &["SET", "later", "1"]);
    caught_up(&replica, &primary);
    assert_eq!(ask(&mut replica.connect(), &["GET", "later"]), "$1\r\n1\r\n");
    limit_files(&replica, "unlimited:unlimited");
    wait_until("the recovery", || info(&replica, "aof_last_write_status") == "ok");
    super::its_log_gives_the_same(replica, &primary);
}

#[test]
fn a_sleeping_primary_sends_no_heartbeat_from_any_worker() {
    for workers in ["1", "3"] {
        let words = [&DEBUG[..], &["--repl-diskless-sync-delay", "1000", "--workers", workers]].concat();
        let (primary, replica) = (Server::start_with(Kind::Sleeve, &words), replica(&["--repl-timeout", "2"]));
        follow(&replica, &primary);
        wait_until("a handshake", || info(&primary, "connected_slaves") == "1");
        let mut sleeper = primary.connect();
        sleeper.send(b"DEBUG SLEEP 1000\r\n").expect("it listens");
        wait_until("the time", || replica.log().contains("Timeout connecting to the MASTER"));
    }
}

#[test]
fn a_replica_does_not_reconnect_while_its_transaction_sleeps() {
    const SLEEP: Duration = Duration::from_millis(1_500);
    let replica = replica(&[]);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let dump = empty_dump();
    std::thread::scope(|threads| {
        let away = threads.spawn(|| {
            let (mut peer, _) = listener.accept().expect("a replica");
            greet(&mut peer);
            let head = format!("+FULLRESYNC {ID} 7\r\n${}\r\n", dump.len());
            peer.write_all(&[head.as_bytes(), &dump[..]].concat()).expect("a replica listens");
            _ = peer.read_to_end(&mut Vec::new());
            _ = listener.accept().expect("a replica");
            Instant::now()
        });
        ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", &address.port().to_string()]);
        wait_until("the stream", || info(&replica, "master_link_status") == "up");
        let mut client = replica.connect();
        let seconds = SLEEP.as_secs_f64();
        let words = format!("MULTI\r\nCLIENT KILL {address}\r\nDEBUG SLEEP {seconds}\r\nEXEC\r\n");
        let killed = Instant::now();
        client.send(words.as_bytes()).expect("it listens");
        let away = away.join().expect("the replica comes back") - killed;
        assert!(away >= SLEEP, "it was away for {away:?}");
        ask(&mut replica.connect(), &["REPLICAOF", "NO", "ONE"]);
    });
}

#[test]
fn a_primary_that_falls_silent_is_left_and_found_again() {
    let replica = replica(&["--repl-timeout", "1"]);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("it is bound").port().to_string();
    let dump = empty_dump();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for is_whole in [false, true] {
                let (mut peer, _) = listener.accept().expect("a replica");
                greet(&mut peer);
                let head = format!("+FULLRESYNC {ID} 7\r\n${}\r\n", dump.len());
                let sent = if is_whole { &dump[..] } else { &dump[..9] };
                peer.write_all(&[head.as_bytes(), sent].concat()).expect("a replica listens");
                // The primary sends nothing until the other side has closed.
                _ = peer.read_to_end(&mut Vec::new());
            }
            // The replica asks for the stream at its last offset.
            let (mut peer, _) = listener.accept().expect("a replica");
            greet(&mut peer);
            peer.write_all(b"+CONTINUE\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n").expect("a replica listens");
            _ = peer.read_to_end(&mut Vec::new());
        });
        ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", &port]);
        wait_until("the stream", || ask(&mut replica.connect(), &["GET", "a"]) == "$1\r\n1\r\n");
        for why in ["Timeout receiving bulk data from MASTER", "MASTER timeout: no data nor PING received"] {
            assert_eq!(replica.log().matches(&format!("{why}: nothing has come from it for 1 s")).count(), 1, "{why}");
        }
        ask(&mut replica.connect(), &["REPLICAOF", "NO", "ONE"]);
    });
}

#[test]
fn retries_at_a_refusing_primary_back_off_and_the_log_has_the_reason() {
    let replica = replica(&[]);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("it is bound").port().to_string();
    let answer = format!("+FULLRESYNC {ID} 7\r\n$9\r\nREDIS9999");
    std::thread::scope(|threads| {
        threads.spawn(|| super::foreign::serve(&listener, answer.as_bytes(), 3));
        ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", &port]);
        wait_until("three attempts", || replica.log().contains("tried again in 4 s"));
        ask(&mut replica.connect(), &["REPLICAOF", "NO", "ONE"]);
    });
    let log = replica.log();
    let refused: Vec<&str> = log.lines().filter(|line| line.contains("tried again in")).collect();
    assert!(refused.iter().zip([1, 2, 4]).all(|(line, seconds)| line.contains(&format!("in {seconds} s"))), "{log}");
    assert!(refused.iter().all(|line| line.contains("cannot be loaded") && line.contains("9999")), "{log}");
}

#[test]
fn writes_of_a_replicas_clients_stay_until_the_next_full_sync() {
    let (primary, replica) = (primary(Kind::Redis), replica(&["--replica-read-only", "no", "--appendonly", "yes"]));
    ask(&mut primary.connect(), &["SET", "theirs", "1"]);
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    let mut writer = replica.connect();
    assert_eq!(ask(&mut writer, &["SET", "mine", "1", "PX", "1"]), "+OK\r\n");
    assert_eq!(ask(&mut writer, &["INCR", "theirs"]), ":2\r\n");
    assert_eq!(ask(&mut writer, &["EVAL", "return redis.call('INCR','theirs')", "0"]), ":3\r\n");
    wait_until("its time", || ask(&mut writer, &["GET", "mine"]) == "$-1\r\n");
    ask(&mut primary.connect(), &["INCR", "theirs"]);
    let offset = caught_up(&replica, &primary);
    assert_eq!(ask(&mut writer, &["GET", "theirs"]), "$1\r\n4\r\n", "the effect is what was done, here as there");
    assert_eq!(info(&replica, "master_repl_offset"), offset.to_string(), "no byte of its own");
    ask(&mut writer, &["REPLICAOF", "NO", "ONE"]);
    follow(&replica, &primary);
    assert!(caught_up(&replica, &primary) >= offset);
}

/// Returns the line of CLIENT LIST about the link to the primary, without the fields that differ by chance.
fn link_line(replica: &Server, primary: &Server) -> Vec<String> {
    let text = ask(&mut replica.connect(), &["CLIENT", "LIST", "TYPE", "master"]);
    let line = text.lines().find(|line| line.starts_with("id=")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(&format!(" addr=127.0.0.1:{} ", primary.port())), "{line}");
    let is_alike =
        |field: &&str| ["name=", "flags=", "db=", "sub=", "multi=", "user="].iter().any(|name| field.starts_with(name));
    line.split(' ').filter(is_alike).map(str::to_owned).collect()
}

/// Returns the output of MONITOR up to a mark, without times.
fn shown(monitor: &mut Connection) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let line = String::from_utf8_lossy(&monitor.reply().expect("a line")).into_owned();
        let line = line.split_once(' ').map_or(String::new(), |(_, rest)| rest.to_lowercase());
        if line.contains("mark") {
            return lines;
        }
        // These commands arrive at any time.
        if !line.contains("\"ping\"") && !line.contains("client") && !line.contains("info") {
            lines.push(line);
        }
    }
}

#[test]
fn the_link_and_its_commands_are_shown_as_in_redis() {
    let primary = primary(Kind::Redis);
    let both = [Kind::Sleeve, Kind::Redis].map(|kind| Server::start_with(kind, &DEBUG));
    let mut monitors = both.each_ref().map(|replica| {
        follow(replica, &primary);
        caught_up(replica, &primary);
        let mut monitor = replica.connect();
        assert_eq!(ask(&mut monitor, &["MONITOR"]), "+OK\r\n");
        monitor
    });
    let mut writer = primary.connect();
    for words in [
        &["SELECT", "3"][..],
        &["SET", "a", "1"],
        &["MULTI"],
        &["INCR", "a"],
        &["PUBLISH", "news", "x"],
        &["EXEC"],
        &["EVAL", "redis.call('SET','b','2') redis.call('INCR','b') return 1", "0"],
        &["SPOP", "none"],
        &["SET", "mark", "1"],
    ] {
        ask(&mut writer, words);
    }
    let [ours, theirs] = monitors.each_mut().map(shown);
    assert_eq!(ours, theirs);
    both.iter().for_each(|replica| _ = caught_up(replica, &primary));
    let [ours, theirs] = both.each_ref().map(|replica| link_line(replica, &primary));
    assert_eq!(ours, theirs);
    let replica = &both[0];
    let mut admin = replica.connect();
    // The server notices a little later that a client has closed.
    wait_until("the monitor and this one", || {
        ask(&mut admin, &["CLIENT", "LIST", "TYPE", "normal"]).matches("id=").count() == 2
    });
    assert_eq!(ask(&mut admin, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]), ":1\r\n");
    let before = info(&primary, "sync_partial_ok").parse::<u64>().expect("a number");
    assert_eq!(ask(&mut replica.connect(), &["CLIENT", "KILL", "TYPE", "master"]), ":1\r\n");
    wait_until("a new link", || info(&primary, "sync_partial_ok").parse::<u64>().expect("a number") > before);
    assert_same(replica, &primary);
}

#[test]
fn a_primary_that_empties_all_keeps_no_replica_from_its_last_snapshot() {
    let primary = primary(Kind::Redis);
    let mut replica = replica(&["--rdb-key-save-delay", "100000"]);
    let mut writer = primary.connect();
    (0..30).for_each(|number| _ = ask(&mut writer, &["SET", &format!("k{number}"), "1"]));
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    replica.connect().send(b"SHUTDOWN SAVE\r\n").expect("it hears");
    // The snapshot's file exists when its data is chosen; the log line about saving comes before that.
    let is_unfinished = |name: &str| name.starts_with("temp-") && name.ends_with(".rdb");
    wait_until("the last snapshot", || {
        let mut files = std::fs::read_dir(replica.folder()).expect("its folder").flatten();
        files.any(|file| is_unfinished(&file.file_name().to_string_lossy()))
    });
    ask(&mut writer, &["FLUSHALL"]);
    replica.wait_for_exit(Duration::from_secs(60)).unwrap_or_else(|error| panic!("{error}: {}", replica.log()));
    replica.restart().expect("it loads its snapshot");
    assert_eq!(ask(&mut replica.connect(), &["DBSIZE"]), ":30\r\n");
}

/// Checks that a replica shows no write of its primary before the replica's pause ends.
#[test]
fn a_pause_on_a_replica_holds_the_stream_offsets_included() {
    for kind in [Kind::Redis, Kind::Sleeve] {
        let replica = Server::start_with(kind, &DEBUG);
        let primary = primary(Kind::Sleeve);
        // Without PINGs the offset does not move.
        ask(&mut primary.connect(), &["CONFIG", "SET", "repl-ping-replica-period", "3600"]);
        follow(&replica, &primary);
        let (mut ours, mut theirs) = (primary.connect(), replica.connect());
        caught_up(&replica, &primary);
        // The first write also selects a database, which is an effect of its own in the stream.
        ask(&mut ours, &["SET", "first", "1"]);
        let offset = caught_up(&replica, &primary).to_string();
        let pause = |connection: &mut Connection, time_ms: &str, scope: &str| {
            assert_eq!(ask(connection, &["CLIENT", "PAUSE", time_ms, scope]), "+OK\r\n");
        };
        pause(&mut theirs, "1000000", "WRITE");
        ask(&mut ours, &["EVAL", "redis.call('SET', 'a', 1) redis.call('SET', 'b', 2)", "0"]);
        ask(&mut ours, &["SET", "large", &"x".repeat(1 << 20)]);
        let sent = info(&primary, "master_repl_offset");
        wait_until("all has come", || info(&replica, "slave_read_repl_offset") == sent);
        assert_eq!(ask(&mut ours, &["WAIT", "1", "50"]), ":0\r\n", "{}", kind.name());
        assert_eq!(info(&replica, "slave_repl_offset"), offset, "{}", kind.name());
        assert_eq!(ask(&mut theirs, &["EXISTS", "a", "b", "large"]), ":0\r\n");
        ask(&mut theirs, &["CLIENT", "UNPAUSE"]);
        caught_up(&replica, &primary);
        assert_eq!(ask(&mut theirs, &["EXISTS", "a", "b", "large"]), ":3\r\n");
        // A question that nothing answers while all is held.
        pause(&mut theirs, "2000", "ALL");
        ask(&mut ours, &["SET", "c", "3"]);
        assert_eq!(ask(&mut ours, &["WAIT", "1", "50"]), ":0\r\n", "{}", kind.name());
        caught_up(&replica, &primary);
        // If the replica stops following its primary, it never applies the writes that it holds at that time.
        pause(&mut theirs, "1000000", "WRITE");
        ask(&mut ours, &["SET", "d", "4"]);
        let sent = info(&primary, "master_repl_offset");
        wait_until("all has come", || info(&replica, "slave_read_repl_offset") == sent);
        ask(&mut theirs, &["REPLICAOF", "NO", "ONE"]);
        ask(&mut theirs, &["CLIENT", "UNPAUSE"]);
        assert_eq!(ask(&mut theirs, &["EXISTS", "c", "d"]), ":1\r\n", "{}", kind.name());
    }
}
