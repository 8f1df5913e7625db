//! Replicas that are slow or read nothing: their fate, and that they hold up no other client.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_tests::connection::request;
use sleeve_tests::generator::Scope;
use sleeve_tests::random::seed;
use sleeve_tests::{Connection, Kind, Relay, Server, Stops, soak};

use super::words::say;
use super::{assert_same, info, primary, replica, write};
use sleeve_tests::probe::{ask, digest, heir, wait_until};

/// Connects as a replica that asks for a full sync and then reads nothing.
pub fn asks_for_everything(primary: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(primary.address()).expect("it is served");
    say(&mut stream, "REPLCONF capa eof capa psync2\r\n", "\r\n");
    stream.write_all(b"PSYNC ? -1\r\n").expect("it takes them");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    stream
}

/// Sets `count` large values, made of this letter.
pub fn set_large(connection: &mut Connection, count: usize, letter: &str) {
    let value = letter.repeat(1 << 20);
    for number in 0..count {
        assert_eq!(ask(connection, &["SET", &format!("large{number}"), &value]), "+OK\r\n");
    }
}

#[test]
fn a_replica_that_reads_no_snapshot_times_out_without_stalling_others() {
    let together =
        ["--repl-diskless-sync-delay", "1000", "--repl-diskless-sync-max-replicas", "11", "--rdbcompression", "no"];
    let primary = primary(&[&together[..], &["--repl-timeout", "10"]].concat());
    let mut ours = primary.connect();
    set_large(&mut ours, 32, "x");
    let stalled = [(); 10].map(|()| asks_for_everything(&primary));
    wait_until("all of them", || info(&mut ours, "connected_slaves") == "10");
    let replica = replica(Kind::Redis, &primary, &[]);
    wait_until("all data", || {
        assert_eq!(ask(&mut ours, &["INCR", "n"]).get(..1), Some(":"));
        info(&mut replica.connect(), "master_link_status") == "up"
    });
    assert_eq!(primary.log().matches("goes by a file").count(), 1);
    wait_until("the end of the ten", || info(&mut ours, "connected_slaves") == "1");
    drop(stalled);
    assert_same(&primary, &replica);
    assert_eq!(primary.log().matches("timedout replica (full sync)").count(), 10);
    assert_eq!(primary.log().matches("Starting BGSAVE for SYNC").count(), 1);
}

#[test]
fn a_replica_that_takes_its_snapshot_slowly_holds_no_writer() {
    let primary = primary(&["--rdbcompression", "no", "--snapshot-max-memory", "8mb", "--repl-timeout", "3600"]);
    let mut ours = primary.connect();
    set_large(&mut ours, 64, "x");
    let mut stream = asks_for_everything(&primary);
    wait_until("its snapshot", || primary.log().contains("Background RDB transfer started"));
    assert_eq!(info(&mut ours, "slave0").split(',').nth(2), Some("state=wait_bgsave"));
    let mut taken = Vec::new();
    let value = "y".repeat(1 << 20);
    for number in 0..64 {
        let mut some = vec![0; 10_000];
        let count = stream.read(&mut some).expect("more");
        taken.extend_from_slice(&some[..count]);
        // The server takes no more requests of this connection before it replies.
        assert_eq!(ask(&mut ours, &["SET", &format!("large{number}"), &value]), "+OK\r\n");
    }
    assert!(primary.log().contains("goes by a file"), "{}", primary.log());
    let left = std::fs::read_dir(primary.folder()).expect("its folder").map(|entry| entry.expect("a file").file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("temp-repl")));
    let head = String::from_utf8_lossy(&taken[..200]).into_owned();
    let mark = head.split("$EOF:").nth(1).expect("a mark").get(..40).expect("of forty characters").to_owned();
    while !taken.ends_with(mark.as_bytes()) {
        let mut some = vec![0; 1 << 16];
        let count = stream.read(&mut some).expect("more");
        assert_ne!(count, 0, "it ends in {:?}", String::from_utf8_lossy(&taken[taken.len().saturating_sub(40)..]));
        taken.extend_from_slice(&some[..count]);
    }
    // The snapshot has the data of its instant.
    let count = |letter: u8| taken.iter().filter(|byte| **byte == letter).count();
    assert!(count(b'x') >= 64 << 20 && count(b'y') < 1 << 20);
    stream.write_all(b"REPLCONF ACK 0\r\n").expect("it takes them");
    wait_until("the stream", || info(&mut ours, "slave0").contains("state=online"));
}

#[test]
fn flushall_waits_for_no_full_sync() {
    let primary = primary(&["--rdbcompression", "no", "--repl-timeout", "3600"]);
    let mut ours = primary.connect();
    assert_eq!(ask(&mut ours, &["CONFIG", "SET", "save", "3600 1"]), "+OK\r\n");
    set_large(&mut ours, 32, "x");
    let stalled = asks_for_everything(&primary);
    wait_until("its snapshot", || primary.log().contains("Background RDB transfer started"));
    assert_eq!(info(&mut ours, "slave0").split(',').nth(2), Some("state=wait_bgsave"));
    assert_eq!(ask(&mut ours, &["FLUSHALL"]), "+OK\r\n");
    wait_until("the end of its snapshot", || info(&mut ours, "connected_slaves") == "0");
    drop(stalled);
    let replica = replica(Kind::Redis, &primary, &[]);
    assert_same(&primary, &replica);
}

#[test]
fn a_replica_that_is_behind_for_too_long_is_let_go() {
    let limit = ["--client-output-buffer-limit", "replica 0 1mb 1", "--repl-backlog-size", "16384"];
    let primary = primary(&[&limit[..], &["--repl-timeout", "3600", "--repl-spill-max", "0"]].concat());
    let mut ours = primary.connect();
    let mut stream = TcpStream::connect(primary.address()).expect("it is served");
    say(&mut stream, "SYNC\r\n", "\r\n");
    let value = "x".repeat(100_000);
    let lagging = |ours: &mut Connection| info(ours, "mem_not_counted_for_evict").parse::<u64>().expect("a number");
    wait_until("the end of its time", || {
        // The amount is more than the limit that a replica may exceed for some time, and not much more.
        if lagging(&mut ours) < 2 << 20 {
            assert_eq!(ask(&mut ours, &["SET", "a", &value]), "+OK\r\n");
        }
        info(&mut ours, "connected_slaves") == "0"
    });
    assert_eq!(info(&mut ours, "client_output_buffer_limit_disconnections"), "1");
}

#[test]
fn a_replica_that_does_not_read_is_closed_at_its_limit_without_stalls() {
    let limit = ["--client-output-buffer-limit", "replica 1mb 0 0", "--repl-backlog-size", "16384"];
    // Bytes owed to a replica are no reason to evict it as a client.
    let primary = primary(&[&limit[..], &["--maxmemory-clients", "200kb", "--repl-spill-max", "0"]].concat());
    let mut ours = primary.connect();
    let mut stream = TcpStream::connect(primary.address()).expect("it is served");
    say(&mut stream, "SYNC\r\n", "\r\n");
    let value = "x".repeat(100_000);
    let mut lagging = 0_u64;
    wait_until("the end of its patience", || {
        lagging = lagging.max(info(&mut ours, "mem_not_counted_for_evict").parse().expect("a number"));
        assert_eq!(ask(&mut ours, &["SET", "a", &value]), "+OK\r\n");
        info(&mut ours, "connected_slaves") == "0"
    });
    assert_eq!(info(&mut ours, "client_output_buffer_limit_disconnections"), "1");
    assert!(lagging > 100_000, "{lagging} bytes were kept for it");
    assert_eq!(info(&mut ours, "evicted_clients"), "0");
    let bytes: u64 = info(&mut ours, "mem_journal").parse().expect("a number");
    assert!(bytes < 300_000, "{bytes} bytes are kept for nobody");
}

#[test]
fn a_replica_that_reads_no_snapshot_file_times_out() {
    let primary = primary(&["--repl-diskless-sync", "no", "--rdbcompression", "no", "--repl-timeout", "2"]);
    let mut ours = primary.connect();
    let value = "x".repeat(1 << 20);
    for number in 0..24 {
        assert_eq!(ask(&mut ours, &["SET", &format!("large{number}"), &value]), "+OK\r\n");
    }
    let mut stream = TcpStream::connect(primary.address()).expect("it is served");
    stream.write_all(b"PSYNC ? -1\r\n").expect("it takes them");
    wait_until("its file", || info(&mut ours, "slave0").contains("state=send_bulk"));
    wait_until("its end", || info(&mut ours, "connected_slaves") == "0");
    assert!(primary.log().contains("timedout replica (full sync)"));
}

#[test]
fn a_snapshot_file_without_a_waiting_replica_is_cancelled() {
    for (save, goes_on) in [("", false), ("3600 1", true)] {
        let options = ["--repl-diskless-sync", "no", "--rdb-key-save-delay", "100000", "--save", save];
        let primary = primary(&options);
        let mut ours = primary.connect();
        assert_eq!(ask(&mut ours, &["DEBUG", "POPULATE", "10000"]), "+OK\r\n");
        let streams = [(); 2].map(|()| asks_for_everything(&primary));
        // A snapshot that finds no replica when it begins ends at once.
        wait_until("its file", || primary.log().contains("Background saving started"));
        wait_until("two replicas", || info(&mut ours, "connected_slaves") == "2");
        drop(streams);
        wait_until("their end", || info(&mut ours, "connected_slaves") == "0");
        if goes_on {
            assert_eq!(info(&mut ours, "rdb_bgsave_in_progress"), "1");
        } else {
            wait_until("its end", || info(&mut ours, "rdb_bgsave_in_progress") == "0");
        }
        assert_eq!(ask(&mut ours, &["CONFIG", "SET", "rdb-key-save-delay", "0"]), "+OK\r\n");
    }
}

#[test]
fn a_replica_that_is_behind_by_little_touches_no_disk() {
    let primary = primary(&["--repl-backlog-size", "16384"]);
    let replica = replica(Kind::Redis, &primary, &[]);
    assert_same(&primary, &replica);
    let mut ours = primary.connect();
    signal(&replica, "-STOP");
    let value = "x".repeat(100_000);
    wait_until("more than its connection takes", || {
        assert_eq!(ask(&mut ours, &["SET", "a", &value]), "+OK\r\n");
        info(&mut ours, "mem_total_replication_buffers").parse::<u64>().expect("a number") > 3 << 20
    });
    assert_eq!(info(&mut ours, "repl_spilled_bytes"), "0");
    signal(&replica, "-CONT");
    assert_same(&primary, &replica);
}

#[test]
fn bytes_pending_for_a_stopped_replica_and_the_aof_evict_nothing() {
    for options in [&[][..], &["--repl-spill-max", "0"], &["--appendonly", "yes", "--appendfsync", "no"]] {
        let primary = primary(&[&["--repl-backlog-size", "16384"], options].concat());
        let mut ours = primary.connect();
        (0..100).for_each(|key| _ = ask(&mut ours, &["SETRANGE", &format!("key{key}"), "100000", "x"]));
        let replica = replica(Kind::Redis, &primary, &[]);
        assert_same(&primary, &replica);
        signal(&replica, "-STOP");
        let number = |ours: &mut Connection, name: &str| info(ours, name).parse::<u64>().expect("a number");
        // The memory of the backlog counts, and the backlog is full from here on.
        (0..400).for_each(|_| _ = ask(&mut ours, &["SETRANGE", "key0", "0", &"x".repeat(100)]));
        let counted = |ours: &mut Connection| number(ours, "used_memory") - number(ours, "mem_not_counted_for_evict");
        let limit = counted(&mut ours) + (32 << 10);
        ask(&mut ours, &["CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", &limit.to_string()]);
        let change = request(&["SETRANGE", "key0", "0", &"y".repeat(100)]).repeat(50);
        for _ in 0..2_000 {
            ours.send(&change).expect("it takes them");
            (0..50).for_each(|_| assert_eq!(ours.reply().expect("it answers"), b":100001\r\n"));
        }
        assert_eq!(ask(&mut ours, &["DBSIZE"]), ":100\r\n", "{options:?}");
        assert_eq!(info(&mut ours, "evicted_keys"), "0", "{options:?}");
        let [kept, slow, buffers] = ["mem_replication_backlog", "mem_clients_slaves", "mem_total_replication_buffers"]
            .map(|name| number(&mut ours, name));
        assert!(kept == 16_384 && slow > 1 << 20 && buffers > kept + (1 << 20), "{kept} {slow} {buffers}");
        ask(&mut ours, &["CLIENT", "KILL", "TYPE", "replica"]);
        wait_until("nothing for replicas", || number(&mut ours, "mem_clients_slaves") == 0);
        signal(&replica, "-CONT");
    }
}

#[test]
fn a_replica_that_is_behind_catches_up_from_files_without_a_full_sync() {
    let limit = ["--client-output-buffer-limit", "replica 4mb 0 0", "--repl-backlog-size", "64kb"];
    let primary = primary(&limit);
    let replica = replica(Kind::Redis, &primary, &[]);
    assert_same(&primary, &replica);
    let mut ours = primary.connect();
    // The replica is stopped, and takes no bytes.
    signal(&replica, "-STOP");
    let value = "x".repeat(100_000);
    let number = |ours: &mut Connection, name: &str| info(ours, name).parse::<u64>().expect("a number");
    let mut keys = (0..50).cycle();
    // The part that sockets take depends on the machine.
    wait_until("much in files", || {
        let key = format!("key{}", keys.next().unwrap_or_default());
        assert_eq!(ask(&mut ours, &["SET", &key, &value]), "+OK\r\n");
        number(&mut ours, "repl_spilled_bytes") > 20 << 20
    });
    wait_until("little in memory", || number(&mut ours, "mem_not_counted_for_evict") < 4 << 20);
    signal(&replica, "-CONT");
    assert_same(&primary, &replica);
    assert_eq!(
        ["sync_full", "sync_partial_ok", "repl_spilled_bytes"].map(|name| info(&mut ours, name)),
        ["1", "0", "0"]
    );
    let left = std::fs::read_dir(primary.folder()).expect("its folder").map(|entry| entry.expect("a file").file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("temp-repl")));
}

#[test]
fn the_aofs_of_both_servers_and_the_spill_files_give_one_state() {
    let logged = ["--appendonly", "yes"];
    let primary = primary(&[&logged[..], &["--repl-backlog-size", "64kb"]].concat());
    let port = primary.port().to_string();
    let debug = ["--enable-debug-command", "yes", "--replicaof", "127.0.0.1", &port];
    let replica = Server::start_with(Kind::Sleeve, &[&logged[..], &debug].concat());
    let mut ours = primary.connect();
    wait_until("the link", || info(&mut ours, "slave0").contains("state=online"));
    signal(&replica, "-STOP");
    // The data is more than sockets take: the other bytes are in files.
    set_large(&mut ours, 16, "x");
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        let over = Stops(&is_over);
        for number in 0..2 {
            let (address, is_over) = (primary.address(), &is_over);
            threads.spawn(move || write(address, (seed(17) + number, Scope::default()), is_over));
        }
        let number = |ours: &mut Connection| info(ours, "master_repl_offset").parse::<u64>().expect("a number");
        let begun = number(&mut ours);
        wait_until("more", || number(&mut ours) > begun + 200_000);
        drop(over);
    });
    assert_ne!(info(&mut ours, "repl_spilled_bytes"), "0");
    signal(&replica, "-CONT");
    assert_same(&primary, &replica);
    assert_eq!(info(&mut ours, "sync_full"), "1");
    let number = |connection: &mut Connection, name: &str| info(connection, name).parse::<u64>().expect("a number");
    let end = number(&mut ours, "master_repl_offset");
    let heirs = [&primary, &replica].map(|server| {
        let mut connection = server.connect();
        wait_until("the first base", || info(&mut connection, "aof_rewrite_in_progress") == "0");
        // The AOF also gets the removal of keys that have expired by now.
        wait_until("the log", || number(&mut connection, "aof_written_offset") >= end);
        heir(Kind::Sleeve, server, &logged)
    });
    // A key that expires in between expires on all servers.
    wait_until("one state", || {
        let digests = [&primary, &replica, &heirs[0], &heirs[1]].map(digest);
        digests.iter().all(|digest| *digest == digests[0])
    });
}

#[test]
fn a_replica_at_a_tenth_of_the_write_rate_catches_up_from_files() {
    let primary = primary(&["--repl-backlog-size", "1mb"]);
    let (throttled, (permits, permitted)) = (Arc::new(AtomicBool::new(false)), channel::<usize>());
    let relay = Relay::start(primary.address(), {
        let (throttled, permitted) = (Arc::clone(&throttled), Mutex::new(permitted));
        move |mut from, mut to| {
            let permitted = permitted.lock().expect("nobody panics with it");
            let (mut bytes, mut credit) = (vec![0; 1 << 16], 0_usize);
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                while throttled.load(Ordering::Relaxed) && credit < count {
                    let Ok(more) = permitted.recv() else { break };
                    credit += more;
                }
                credit = credit.saturating_sub(count);
                if to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
        }
    });
    let port = relay.port().to_string();
    let replica =
        Server::start_with(Kind::Redis, &["--enable-debug-command", "yes", "--replicaof", "127.0.0.1", &port]);
    assert_same(&primary, &replica);
    let mut ours = primary.connect();
    let value = "x".repeat(100_000);
    let mut write = |number: u64| {
        assert_eq!(ask(&mut ours, &["SET", &format!("key{}", number % 50), &value]), "+OK\r\n");
    };
    (0..50).for_each(&mut write);
    assert_same(&primary, &replica);
    let (before, mut most) = (primary.resident_bytes(), 0);
    throttled.store(true, Ordering::Relaxed);
    let (since, length) = (Instant::now(), soak::duration(Duration::ZERO));
    let mut asks = primary.connect();
    for number in 0_u64.. {
        // The disk may be slower than the writer: the bytes in memory are on their way to it.
        if number.is_multiple_of(40) {
            wait_until("little in memory", || {
                info(&mut asks, "mem_not_counted_for_evict").parse::<u64>().expect("a number") < 6 << 20
            });
        }
        write(number);
        permits.send(value.len() / 10).expect("it is there");
        most = most.max(primary.resident_bytes());
        if number > 400 && since.elapsed() >= length {
            break;
        }
        // The rate is 4 MB a second, so that ten minutes fit into the spill files.
        let due = Duration::from_millis(25) * u32::try_from(number).expect("not so many");
        if !length.is_zero() {
            thread::sleep(due.saturating_sub(since.elapsed()));
        }
    }
    let behind: u64 = info(&mut asks, "repl_spilled_bytes").parse().expect("a number");
    drop(permits);
    assert_same(&primary, &replica);
    let after = ["sync_full", "repl_spilled_bytes"].map(|name| info(&mut asks, name));
    assert_eq!(after, ["1", "0"], "{}", primary.log());
    let grown = most.saturating_sub(before);
    assert!(behind > 20 << 20 && grown < 33 << 20, "{behind} bytes behind, {grown} more in memory");
    println!("{behind} bytes in files, {grown} more in memory");
}

/// Stops a server, or lets it go on.
fn signal(server: &Server, signal: &str) {
    let process = server.process_id().to_string();
    assert!(Command::new("kill").args([signal, &process]).status().expect("kill").success());
}
