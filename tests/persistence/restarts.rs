//! Restarts: the data after `kill -9`, rewrites, snapshots and an orderly end, and the files that other servers load.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use sleeve_tests::probe::{ask, digest, fill, heir, info, wait_until};
use sleeve_tests::random::{Random, seed};
use sleeve_tests::{Connection, Kind, Server, soak};

use super::start;

#[test]
fn everything_is_there_again_after_a_crash_and_after_a_rewrite() {
    for workers in ["1", "3"] {
        let mut server = start(&["--appendonly", "yes", "--workers", workers]);
        fill(&server);
        let before = digest(&server);
        server.restart().expect("it starts again");
        assert_eq!(digest(&server), before, "{workers} workers");
        assert_eq!(ask(&mut server.connect(), &["FCALL", "f", "0"]), ":7\r\n");
        let small = info(&server, "aof_current_size").parse::<u64>().expect("a number");
        let started = "+Background append only file rewriting started\r\n";
        assert_eq!(ask(&mut server.connect(), &["BGREWRITEAOF"]), started);
        ask(&mut server.connect(), &["SET", "later", "1"]);
        wait_until("the rewrite", || info(&server, "aof_rewrite_in_progress") == "0");
        assert_eq!(info(&server, "aof_last_bgrewrite_status"), "ok", "{}", server.log());
        assert!(info(&server, "aof_current_size").parse::<u64>().expect("a number") < small);
        let before = digest(&server);
        server.restart().expect("it starts again");
        assert_eq!(digest(&server), before, "{workers} workers");
        assert_eq!(ask(&mut server.connect(), &["FCALL", "f", "0"]), ":7\r\n");
    }
}

#[test]
fn a_snapshot_is_written_by_save_bgsave_and_at_the_end_and_is_loaded() {
    let mut server = start(&["--save", "3600 1"]);
    fill(&server);
    let before = digest(&server);
    assert_eq!(ask(&mut server.connect(), &["SAVE"]), "+OK\r\n");
    server.restart().expect("it starts again");
    assert_eq!(digest(&server), before);
    assert_eq!(ask(&mut server.connect(), &["SET", "later", "1"]), "+OK\r\n");
    assert_eq!(ask(&mut server.connect(), &["BGSAVE"]), "+Background saving started\r\n");
    wait_until("the snapshot", || info(&server, "rdb_bgsave_in_progress") == "0");
    let before = digest(&server);
    server.restart().expect("it starts again");
    assert_eq!(digest(&server), before);
    ask(&mut server.connect(), &["SET", "at the end", "1"]);
    let before = digest(&server);
    // The server does not reply: it closes the connection.
    let _ = server.connect().command(&["SHUTDOWN"]);
    assert!(server.wait_for_exit(Duration::from_secs(30)).expect("it ends").success(), "{}", server.log());
    server.restart().expect("it starts again");
    assert_eq!(digest(&server), before);
}

#[test]
fn appendonly_yes_begins_with_the_data_and_appendonly_no_ends_the_aof() {
    let mut server = start(&["--workers", "2"]);
    fill(&server);
    let mut connection = server.connect();
    assert_eq!(ask(&mut connection, &["CONFIG", "SET", "appendonly", "yes"]), "+OK\r\n");
    ask(&mut connection, &["INCR", "behind"]);
    wait_until("the first base", || {
        info(&server, "aof_enabled") == "1" && info(&server, "aof_rewrite_in_progress") == "0"
    });
    ask(&mut connection, &["INCR", "behind"]);
    let before = digest(&server);
    let manifest = std::fs::read_to_string(server.folder().join("appendonlydir/appendonly.aof.manifest"));
    assert!(manifest.is_ok_and(|text| text.contains(".base.rdb") && text.contains(".incr.aof")), "{}", server.log());
    // The start options say `appendonly no`, so another server that has it on loads the data.
    server.kill();
    let other = heir(Kind::Sleeve, &server, &["--appendonly", "yes"]);
    assert_eq!(digest(&other), before);
    assert_eq!(ask(&mut other.connect(), &["CONFIG", "SET", "appendonly", "no"]), "+OK\r\n");
    wait_until("the end of the log", || info(&other, "aof_enabled") == "0");
    assert_eq!(ask(&mut other.connect(), &["SET", "unlogged", "1"]), "+OK\r\n");
    assert_eq!(ask(&mut other.connect(), &["CONFIG", "SET", "appendonly", "yes"]), "+OK\r\n");
    wait_until("the new base", || info(&other, "aof_enabled") == "1" && info(&other, "aof_rewrite_in_progress") == "0");
    let before = digest(&other);
    let mut other = other;
    other.restart().expect("it starts again");
    assert_eq!(digest(&other), before);
}

/// The highest value of each counter that any client saw, in replies to its writer and to readers.
type Seen = Mutex<HashMap<String, i64>>;

/// Adds to counters, and remembers the acknowledged and the read values.
fn count(server: &Server, number: usize, depth: usize, seen: &Seen) -> Option<()> {
    let mut connection = server.try_connect().ok()?;
    let (own, other) = (format!("counter:{number}"), format!("counter:{}", (number + 1) % COUNTERS));
    let (left, right) = (format!("left:{number}"), format!("right:{number}"));
    let pair = format!("MULTI\r\nINCR {left}\r\nINCR {right}\r\nEXEC\r\n");
    let script = "redis.call('INCR',KEYS[1]) return redis.call('INCR',KEYS[2])";
    let script = format!("EVAL \"{script}\" 2 {left} {right}\r\n");
    let note = |counter: &str, reply: &str| {
        let value: i64 = reply.trim_start_matches(':').trim_end().parse().ok()?;
        let mut seen = seen.lock().expect("nobody panics with it");
        let best = seen.entry(counter.to_owned()).or_default();
        *best = value.max(*best);
        Some(())
    };
    loop {
        let requests = format!("{}INCRBY {other} 0\r\n{pair}{script}", format!("INCR {own}\r\n").repeat(depth));
        connection.send(requests.as_bytes()).ok()?;
        for index in 0..depth + 6 {
            let reply = String::from_utf8(connection.reply().ok()?).ok()?;
            match index.checked_sub(depth) {
                None => note(&own, &reply)?,
                Some(0) => note(&other, &reply)?,
                // The replies of MULTI and of the queued commands.
                Some(1..=3) => {}
                Some(4) => note(&right, reply.lines().last()?)?,
                Some(_) => note(&right, &reply)?,
            }
        }
    }
}

const COUNTERS: usize = 6;

/// Lets clients count for a while, with a rewrite and a snapshot under way, and kills the server in the middle.
fn kill_amid_work(server: &Server, random: &mut Random, seen: &Seen) {
    let depths: Vec<usize> = (0..COUNTERS).map(|_| *random.pick(&[1, 5, 30])).collect();
    std::thread::scope(|scope| {
        for (number, &depth) in depths.iter().enumerate() {
            scope.spawn(move || _ = count(server, number, depth, seen));
        }
        let total = || seen.lock().expect("nobody panics with it").values().sum::<i64>();
        let (begun, more) = (total(), 50 + random.below(2_000) as i64);
        wait_until("some work", || total() > begun + more);
        if let Some(order) = [Some("BGREWRITEAOF"), Some("BGSAVE"), None][random.below(3)] {
            ask(&mut server.connect(), &[order]);
        }
        let killed = Command::new("kill").args(["-9", &server.process_id().to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
    });
}

/// Returns the value of a counter.
fn counted(connection: &mut Connection, counter: &str) -> i64 {
    let reply = ask(connection, &["INCRBY", counter, "0"]);
    reply.trim_start_matches(':').trim_end().parse().unwrap_or_else(|_| panic!("{counter}: {reply}"))
}

#[test]
fn nothing_acknowledged_or_read_is_missing_after_kill_9() {
    let numbers = ["1", "2", "4"];
    let rounds = soak::count(6).div_ceil(numbers.len());
    for (policy, workers) in ["no", "everysec", "always"].iter().flat_map(|policy| numbers.map(|n| (policy, n))) {
        let (mut random, seen) = (Random::new(seed(7)), Seen::default());
        let arguments = ["--appendonly", "yes", "--appendfsync", policy, "--workers", workers];
        let mut server = start(&[arguments.as_slice(), &["--auto-aof-rewrite-min-size", "16kb"]].concat());
        for round in 0..rounds {
            kill_amid_work(&server, &mut random, &seen);
            let when = format!("{policy}, {workers} workers, round {round}");
            server.restart().unwrap_or_else(|reason| panic!("{when}: {reason}"));
            let mut connection = server.connect();
            for (counter, &value) in seen.lock().expect("mine").iter() {
                let found = counted(&mut connection, counter);
                assert!(found >= value, "{when}: {counter} is {found}, and {value} was seen");
            }
            for number in 0..COUNTERS {
                let [left, right] = ["left", "right"].map(|side| counted(&mut connection, &format!("{side}:{number}")));
                assert_eq!(left, right, "{when}: a transaction or a script is half there");
            }
        }
        println!(
            "{policy}, {workers} workers: killed {rounds} times, {} changes seen",
            seen.lock().expect("mine").values().sum::<i64>()
        );
    }
}

#[test]
fn logs_and_snapshots_are_exchanged_with_other_servers() {
    for kind in [Kind::Redis, Kind::Redis8, Kind::Valkey] {
        for arguments in [["--appendonly", "yes"], ["--save", "3600 1"]] {
            let mut ours = start(&arguments);
            fill(&ours);
            if arguments[0] == "--save" {
                assert_eq!(ask(&mut ours.connect(), &["SAVE"]), "+OK\r\n");
            }
            let expected = digest(&ours);
            ours.kill();
            let mut theirs = heir(kind, &ours, &arguments);
            assert_eq!(digest(&theirs), expected, "{} reads ours, {arguments:?}", kind.name());
            ask(&mut theirs.connect(), &["SADD", "large:set", "theirs"]);
            ask(&mut theirs.connect(), &["INCR", "counter"]);
            if arguments[0] == "--save" {
                assert_eq!(ask(&mut theirs.connect(), &["SAVE"]), "+OK\r\n");
            }
            let expected = digest(&theirs);
            // A killed Redis may lack writes that it acknowledged while a sync was under way.
            let _ = theirs.connect().command(&["SHUTDOWN"]);
            assert!(theirs.wait_for_exit(Duration::from_secs(30)).expect("it ends").success());
            let back = heir(Kind::Sleeve, &theirs, &arguments);
            assert_eq!(digest(&back), expected, "we read that of {}, {arguments:?}", kind.name());
            assert_eq!(ask(&mut back.connect(), &["FCALL", "f", "0"]), ":7\r\n");
        }
    }
}

#[test]
fn waitaof_waits_for_the_disk_and_returns_its_counts() {
    let server = start(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    let mut connection = server.connect();
    for index in 0..3 {
        assert_eq!(ask(&mut connection, &["SET", "a", &index.to_string()]), "+OK\r\n");
        assert_eq!(ask(&mut connection, &["WAITAOF", "1", "0", "0"]), "*2\r\n:1\r\n:0\r\n");
        assert_eq!(info(&server, "aof_synced_offset"), info(&server, "aof_written_offset"));
    }
    assert_eq!(ask(&mut connection, &["WAITAOF", "1", "1", "10"]), "*2\r\n:1\r\n:0\r\n");
    let idle = ask(&mut server.connect(), &["WAITAOF", "1", "0", "0"]);
    assert_eq!(idle, "*2\r\n:1\r\n:0\r\n", "who has done nothing waits for nothing");
}

#[test]
fn writes_without_a_waiting_client_are_in_the_aof_too() {
    let mut server = start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut connection = server.connect();
    assert_eq!(ask(&mut connection, &["SET", "soon", "over", "PX", "1"]), "+OK\r\n");
    connection.send(b"CLIENT REPLY OFF\r\nSET quiet 1\r\n").expect("connected");
    wait_until("the log", || {
        let log = std::fs::read_to_string(server.folder().join("appendonlydir/appendonly.aof.1.incr.aof"));
        log.is_ok_and(|log| log.contains("quiet") && (log.contains("DEL") || log.contains("UNLINK")))
    });
    server.restart().expect("it starts again");
    assert_eq!(ask(&mut server.connect(), &["MGET", "quiet", "soon"]), "*2\r\n$1\r\n1\r\n$-1\r\n");
}

#[test]
fn clients_get_loading_errors_and_info_shows_the_progress() {
    for arguments in [["--key-load-delay", "20000"], ["--appendonly", "yes"]] {
        let mut server = start(&[arguments.as_slice(), &["--key-load-delay", "20000"]].concat());
        let mut connection = server.connect();
        for index in 0..400 {
            ask(&mut connection, &["SET", &format!("key:{index}"), &"value ".repeat(50)]);
        }
        let (save, is_logged) = if arguments[0] == "--appendonly" { ("BGREWRITEAOF", true) } else { ("SAVE", false) };
        assert!(ask(&mut connection, &[save]).starts_with('+'));
        wait_until("the file", || !is_logged || info(&server, "aof_rewrite_in_progress") == "0");
        let before = digest(&server);
        let address = server.address();
        server.kill();
        let (mut seen, mut used_bytes): (Vec<u64>, u64) = (Vec::new(), 0);
        std::thread::scope(|scope| {
            let restarted = scope.spawn(|| server.restart().expect("it starts again"));
            while !restarted.is_finished() {
                let Ok(mut connection) = Connection::open(address) else { continue };
                let text = ask(&mut connection, &["INFO", "persistence"]);
                let number = |name: &str| -> Option<u64> {
                    text.lines().find_map(|line| line.strip_prefix(name)).and_then(|text| text.parse().ok())
                };
                if number("loading:") != Some(1) {
                    continue;
                }
                let (Some(loaded), Some(total)) = (number("loading_loaded_bytes:"), number("loading_total_bytes:"))
                else {
                    panic!("{text}");
                };
                assert!(loaded <= total && total > 1_000, "{text}");
                seen.push(loaded);
                used_bytes = used_bytes.max(number("loading_rdb_used_mem:").expect("a line"));
                let reply = ask(&mut connection, &["GET", "key:1"]);
                assert!(reply.starts_with("-LOADING") || reply.starts_with('$'), "{reply}");
                // The server loads slowly until the progress was seen twice, however seldom a busy machine lets the test
                // look.
                seen.dedup();
                if seen.len() >= 3 {
                    ask(&mut connection, &["CONFIG", "SET", "key-load-delay", "0"]);
                }
            }
        });
        assert!(seen.is_sorted(), "{seen:?}");
        assert!(used_bytes > 100_000, "as much as the file says: {used_bytes}");
        assert!(seen.len() >= 3, "it was seen to go on: {seen:?}");
        assert_eq!(digest(&server), before);
    }
}

#[test]
fn a_damaged_snapshot_stops_the_start_names_the_byte_and_stays_unchanged() {
    let mut server = start(&[]);
    let mut connection = server.connect();
    for index in 0..3_000 {
        ask(&mut connection, &["SET", &format!("key:{index}"), &"value ".repeat(50)]);
    }
    assert_eq!(ask(&mut connection, &["CONFIG", "SET", "rdbcompression", "no"]), "+OK\r\n");
    assert_eq!(ask(&mut connection, &["SAVE"]), "+OK\r\n");
    let before = digest(&server);
    server.kill();
    let path = server.folder().join("dump.rdb");
    let whole = std::fs::read(&path).expect("it was written");
    let mut flipped = whole.clone();
    let middle = whole.len() / 2;
    flipped[middle] ^= 1;
    // The file has a record twice, in stretches that different threads read.
    let record = whole.windows(4).position(|four| four == b"key:").expect("there are keys") - 2;
    let length = 1 + 1 + usize::from(whole[record + 1]) + 2 + 300;
    let twice = [&whole[..whole.len() - 9], &whole[record..record + length], &[255; 9]].concat();
    let reasons = [
        (flipped, "the sum at the end of the file".to_owned()),
        (whole[..whole.len() - 1_000].to_vec(), "the bytes end in the middle of it".to_owned()),
        (twice, "stands in database 0 twice".to_owned()),
    ];
    for (bytes, reason) in reasons {
        std::fs::write(&path, &bytes).expect("a file");
        let told = server.restart().expect_err("it does not start");
        assert!(told.contains(&reason) && told.contains("dump.rdb: at byte"), "{reason} is not in {told}");
        assert!(told.contains("Nothing was loaded"), "{told}");
        assert!(std::fs::read(&path).is_ok_and(|found| found == bytes));
    }
    std::fs::write(&path, &whole).expect("a file");
    server.restart().expect("it starts with the file as it was");
    assert_eq!(digest(&server), before);
}
