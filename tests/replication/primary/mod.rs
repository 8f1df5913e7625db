//! Sleeve as the primary of servers of other makers: they are given all data while it changes, follow, lose their connections
//! and go on, and hold the same in the end at the same offset.

mod durable;
mod rate;
mod slow;
mod words;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sleeve_tests::generator::{Generator, Scope};
use sleeve_tests::random::{Random, seed};
use sleeve_tests::{Connection, Kind, Server, Stops};
use sleeve_wire::commands::Group;

use crate::interop::rdb_files;
use crate::persistence::replay::peer;
use sleeve_tests::probe::{ask, heir, wait_until};

/// The options of the primary: without PINGs in the stream, which would move the offset while it is compared.
const PRIMARY: &[&str] =
    &["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "3600"];

fn primary(more: &[&str]) -> Server {
    Server::start_with(Kind::Sleeve, &[PRIMARY, more].concat())
}

/// Starts a server of this kind that follows another.
fn replica(kind: Kind, primary: &Server, more: &[&str]) -> Server {
    let port = primary.port().to_string();
    let own = ["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes", "--save", ""];
    Server::start_with(kind, &[&own, more].concat())
}

/// Returns a line of INFO.
fn info(connection: &mut Connection, name: &str) -> String {
    let text = ask(connection, &["INFO", "everything"]);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).map(str::to_owned);
    line.unwrap_or_default()
}

/// Waits until a replica has caught up, and compares the data of both.
fn assert_same(primary: &Server, replica: &Server) {
    let kind = replica.kind();
    let (mut ours, mut theirs) = (primary.connect(), replica.connect());
    let held =
        |connection: &mut Connection| peer::contents(kind, &mut |words| connection.command(words).expect("it answers"));
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let offset = info(&mut ours, "master_repl_offset");
        if info(&mut theirs, "master_link_status") == "up" && info(&mut theirs, "slave_repl_offset") == offset {
            (before, after) = (held(&mut ours), held(&mut theirs));
            if before == after && info(&mut ours, "master_repl_offset") == offset {
                assert_eq!(info(&mut theirs, "master_replid"), info(&mut ours, "master_replid"));
                return;
            }
        }
        if std::time::Instant::now() > deadline {
            let differing: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
            panic!("{differing:#?}\n{} and {}\n{}", before.len(), after.len(), replica.log());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the random commands that a replica of this kind understands.
fn scope(kind: Kind) -> Scope {
    let mut scope = Scope { entries_read: kind != Kind::Redis8, ..Scope::default() }.without_producers();
    if kind == Kind::Redis {
        // Deadlines of fields are newer than Redis 7, which does not know their commands.
        scope.rows.retain(|row| row.group != Group::Hash || row.docs.since < "7.4" || row.full_name == "hgetdel");
    }
    scope
}

/// Sends random commands until it is stopped, some of them in transactions.
fn write(address: std::net::SocketAddr, (seed, scope): (u64, Scope), is_over: &AtomicBool) {
    let mut connection = Connection::open(address).expect("it is served");
    let mut generator = Generator::new(seed, scope);
    let mut in_transaction = false;
    while !is_over.load(Ordering::Relaxed) {
        let words = if in_transaction { generator.command_in_transaction() } else { generator.command() };
        in_transaction = connection.command(&words).expect("a reply") == b"+QUEUED\r\n";
        if generator.random().once_in(20) && !in_transaction {
            let random = generator.random();
            let (key, time) = (random.below(3), 1 + random.below(20));
            let request = match random.below(5) {
                0 => format!("SET k{key} {time} PX {time}"),
                1 => format!("SPOP s{key} {time}"),
                2 => format!("PUBLISH channel message{time}"),
                3 => format!("XADD x{key} MAXLEN ~ 100 * field {time}"),
                _ => format!(
                    "EVAL return{{redis.call('incr','n'),redis.call('publish','c','m'),redis.call('rpush','r','{time}')}} 0"
                ),
            };
            let words: Vec<&str> = request.split(' ').collect();
            connection.command(&words).expect("a reply");
        }
    }
    connection.command(&["EXEC"]).expect("a reply");
}

/// Starts a replica of this kind while the data changes, and cuts its connection twice.
fn follows(kind: Kind, more: &[&str]) {
    let seed = seed(11);
    let primary = primary(more);
    rdb_files::fill(&mut primary.connect(), &mut Random::new(seed), kind != Kind::Redis);
    let is_over = AtomicBool::new(false);
    let replica = thread::scope(|threads| {
        let over = Stops(&is_over);
        for number in 0..2 {
            let (address, is_over) = (primary.address(), &is_over);
            threads.spawn(move || write(address, (seed + number, scope(kind)), is_over));
        }
        let replica = replica(kind, &primary, &[]);
        let (mut ours, mut theirs) = (primary.connect(), replica.connect());
        wait_until("the link", || info(&mut theirs, "master_link_status") == "up");
        let mut count = |name: &str| info(&mut ours, name).parse::<u64>().expect("a number");
        while count("sync_partial_ok") < 2 {
            let before = count("sync_partial_ok") + count("sync_full");
            let mut killer = primary.connect();
            wait_until("more", || ask(&mut killer, &["CLIENT", "KILL", "TYPE", "replica"]) == ":1\r\n");
            wait_until("going on", || count("sync_partial_ok") + count("sync_full") > before);
        }
        drop(over);
        replica
    });
    assert_same(&primary, &replica);
    let mut ours = primary.connect();
    // Of a Redis 8 it is seen under load that it keeps no primary to go on with, and asks for everything: "no cached master".
    assert!(kind == Kind::Redis8 || info(&mut ours, "sync_full") == "1", "{}", replica.log());
    assert_eq!(info(&mut ours, "connected_slaves"), "1");
}

#[test]
fn a_redis_7_replica_loads_changing_data_and_resumes_after_a_cut() {
    follows(Kind::Redis, &["--workers", "1"]);
}

#[test]
fn a_redis_8_replica_loads_changing_data_and_resumes_after_a_cut() {
    follows(Kind::Redis8, &["--workers", "2"]);
}

#[test]
fn a_valkey_9_replica_loads_changing_data_and_resumes_after_a_cut() {
    follows(Kind::Valkey, &["--workers", "2", "--appendonly", "yes"]);
}

#[test]
fn a_replica_that_comes_while_a_file_is_written_for_another_shares_it() {
    let primary = primary(&["--repl-diskless-sync", "no", "--rdb-key-save-delay", "100000000"]);
    let mut ours = primary.connect();
    rdb_files::fill(&mut ours, &mut Random::new(7), false);
    let replicas = [0, 1].map(|number| {
        let replica = replica(Kind::Redis, &primary, &[]);
        wait_until("the snapshot", || replica.log().contains("Full resync from master"));
        ask(&mut ours, &["SET", &format!("behind{number}"), "the instant"]);
        assert!(info(&mut ours, &format!("slave{number}")).contains("state=wait_bgsave"));
        replica
    });
    assert_eq!(ask(&mut ours, &["CONFIG", "SET", "rdb-key-save-delay", "0"]), "+OK\r\n");
    replicas.iter().for_each(|replica| assert_same(&primary, replica));
    assert_eq!(primary.log().matches("Starting BGSAVE for SYNC").count(), 1);
    let left = std::fs::read_dir(primary.folder()).expect("its folder").map(|entry| entry.expect("a file").file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("temp-repl")));
}

#[test]
fn a_log_that_goes_further_than_the_stream_begins_the_stream_anew() {
    let mut logged = primary(&["--appendonly", "yes"]);
    for number in 0..1_000 {
        ask(&mut logged.connect(), &["SET", "logged", &number.to_string()]);
    }
    logged.kill();
    let primary = heir(Kind::Sleeve, &logged, PRIMARY);
    let replica = replica(Kind::Redis, &primary, &[]);
    assert_same(&primary, &replica);
    let mut ours = primary.connect();
    let before = info(&mut ours, "master_replid");
    assert_eq!(ask(&mut ours, &["SET", "a", "1"]), "+OK\r\n");
    assert_eq!(ask(&mut ours, &["CONFIG", "SET", "appendonly", "yes"]), "+OK\r\n");
    wait_until("another stream", || info(&mut ours, "master_replid") != before);
    wait_until("the base", || info(&mut ours, "aof_rewrite_in_progress") == "0");
    assert_eq!(ask(&mut ours, &["SET", "a", "2"]), "+OK\r\n");
    assert_same(&primary, &replica);
    assert_eq!(info(&mut ours, "sync_full"), "2");
}

#[test]
fn waiting_for_replicas_and_their_disks_ends_when_they_have_it() {
    let primary = primary(&["--appendonly", "yes"]);
    let mut ours = primary.connect();
    assert_eq!(ask(&mut ours, &["SET", "a", "1"]), "+OK\r\n");
    assert_eq!(ask(&mut ours, &["WAIT", "1", "10"]), ":0\r\n");
    let replica = replica(Kind::Valkey, &primary, &["--appendonly", "yes"]);
    assert_same(&primary, &replica);
    for number in 0..20 {
        assert_eq!(ask(&mut ours, &["SET", "a", &number.to_string()]), "+OK\r\n");
        assert_eq!(ask(&mut ours, &["WAIT", "1", "0"]), ":1\r\n");
        assert_eq!(
            ask(&mut replica.connect(), &["GET", "a"]),
            format!("${}\r\n{number}\r\n", number.to_string().len())
        );
    }
    assert_eq!(ask(&mut ours, &["SET", "a", "x"]), "+OK\r\n");
    assert_eq!(ask(&mut ours, &["WAITAOF", "1", "1", "0"]), "*2\r\n:1\r\n:1\r\n");
    assert_eq!(ask(&mut ours, &["WAIT", "2", "10"]), ":1\r\n");
    assert_eq!(ask(&mut ours, &["WAITAOF", "1", "2", "10"]), "*2\r\n:1\r\n:1\r\n");
    let role = ask(&mut ours, &["ROLE"]);
    let offset = info(&mut ours, "master_repl_offset");
    let port = replica.port();
    assert!(
        role.starts_with(&format!(
            "*3\r\n$6\r\nmaster\r\n:{offset}\r\n*1\r\n*3\r\n$9\r\n127.0.0.1\r\n$5\r\n{port}\r\n"
        )),
        "{role}"
    );
    let clients = ask(&mut ours, &["CLIENT", "LIST", "TYPE", "replica"]);
    assert!(clients.contains(" flags=S ") && clients.contains("cmd=replconf"), "{clients}");
}

#[test]
fn writes_are_refused_while_too_few_replicas_follow() {
    let primary = primary(&[]);
    let mut ours = primary.connect();
    let refused = "-NOREPLICAS Not enough good replicas to write.\r\n";
    assert_eq!(ask(&mut ours, &["CONFIG", "SET", "min-replicas-to-write", "1"]), "+OK\r\n");
    assert_eq!(ask(&mut ours, &["SET", "a", "1"]), refused);
    assert_eq!(ask(&mut ours, &["GET", "a"]), "$-1\r\n");
    assert!(ask(&mut ours, &["EVAL", "return redis.call('set','a','1')", "0"]).starts_with("-NOREPLICAS"));
    assert_eq!(ask(&mut ours, &["MULTI"]), "+OK\r\n");
    assert_eq!(ask(&mut ours, &["SET", "a", "1"]), refused);
    assert!(ask(&mut ours, &["EXEC"]).starts_with("-EXECABORT"));
    assert_eq!(info(&mut ours, "min_slaves_good_slaves"), "0");
    let replica = replica(Kind::Redis, &primary, &[]);
    wait_until("a replica", || ask(&mut ours, &["SET", "a", "1"]) == "+OK\r\n");
    assert_eq!(info(&mut ours, "min_slaves_good_slaves"), "1");
    drop(replica);
    wait_until("none", || ask(&mut ours, &["SET", "a", "1"]) == refused);
    assert_eq!(ask(&mut ours, &["CONFIG", "SET", "min-replicas-max-lag", "0"]), "+OK\r\n");
    assert_eq!(ask(&mut ours, &["SET", "a", "1"]), "+OK\r\n");
}

#[test]
fn messages_reach_subscribers_of_a_replica_and_no_aof() {
    let mut primary = primary(&["--appendonly", "yes", "--appendfsync", "always"]);
    let replica = replica(Kind::Redis, &primary, &[]);
    assert_same(&primary, &replica);
    let (mut ours, mut listener) = (primary.connect(), replica.connect());
    assert!(ask(&mut listener, &["SUBSCRIBE", "news"]).starts_with("*3"));
    for request in [
        vec!["PUBLISH", "news", "one"],
        vec!["MULTI"],
        vec!["SET", "a", "1"],
        vec!["PUBLISH", "news", "two"],
        vec!["EXEC"],
        vec!["EVAL", "redis.call('publish', 'news', 'three') return redis.call('publish', 'news', 'four')", "0"],
        vec!["SET", "b", "2"],
    ] {
        assert!(!ask(&mut ours, &request).starts_with('-'));
    }
    for message in ["one", "two", "three", "four"] {
        let heard = String::from_utf8_lossy(&listener.reply().expect("a message")).into_owned();
        assert!(heard.ends_with(&format!("\r\n{message}\r\n")), "{heard}");
    }
    assert_same(&primary, &replica);
    let folder = primary.folder().join("appendonlydir");
    let files = std::fs::read_dir(&folder).expect("a log").map(|entry| entry.expect("a file").path());
    let logged: Vec<u8> = files.flat_map(|path| std::fs::read(path).expect("a file")).collect();
    let logged = String::from_utf8_lossy(&logged).to_lowercase();
    assert!(logged.contains("\r\na\r\n") && logged.contains("\r\nb\r\n"), "{logged}");
    assert!(!logged.contains("publish") && !logged.contains("getack") && !logged.contains("ping"), "{logged}");
    let before = ask(&mut ours, &["DEBUG", "DIGEST"]);
    primary.kill();
    primary.restart().expect("it starts");
    assert_eq!(ask(&mut primary.connect(), &["DEBUG", "DIGEST"]), before);
}

#[test]
fn a_replica_killed_by_a_transaction_resumes_behind_that_transaction() {
    for workers in ["1", "2"] {
        let primary = primary(&["--workers", workers, "--repl-spill-max", "0"]);
        let replica = replica(Kind::Sleeve, &primary, &[]);
        let mut connection = primary.connect();
        for round in 1..=6 {
            assert_same(&primary, &replica);
            assert_eq!(
                info(&mut connection, "sync_full"),
                round.to_string(),
                "what it lacks is not kept\n{}",
                primary.log()
            );
            ask(&mut connection, &["CONFIG", "SET", "repl-backlog-size", "1mb"]);
            ask(&mut connection, &["MULTI"]);
            ask(&mut connection, &["CLIENT", "KILL", "TYPE", "replica"]);
            ask(&mut connection, &["ROLE"]);
            ask(&mut connection, &["CONFIG", "SET", "repl-backlog-size", "16384"]);
            for number in 0..10 {
                ask(&mut connection, &["SET", &number.to_string(), &"x".repeat(16_384)]);
            }
            let reply = ask(&mut connection, &["EXEC"]);
            let lines: Vec<&str> = reply.lines().collect();
            let none_left = ["*13", ":1", "*3", "$6", "master", "*0"];
            assert_eq!([&lines[..5], &lines[6..7]].concat(), none_left, "{reply}");
            wait_until("it has come back", || info(&mut connection, "sync_full") != round.to_string());
        }
    }
}

#[test]
fn a_file_that_takes_no_sign_of_the_replica_is_no_reason_to_let_go_of_it() {
    let primary = primary(&["--repl-diskless-sync", "no"]);
    let mut connection = primary.connect();
    ask(&mut connection, &["SET", "key", "value"]);
    let replica = replica(Kind::Redis, &primary, &[]);
    assert_same(&primary, &replica);
    let slave = |connection: &mut Connection| info(connection, "slave0");
    wait_until("a sign of life", || {
        slave(&mut connection).contains("lag=0") || slave(&mut connection).contains("lag=1")
    });
    assert_eq!(["sync_full", "sync_partial_ok"].map(|name| info(&mut connection, name)), ["1", "0"]);
    assert!(!primary.log().contains("Disconnecting timedout replica"), "{}", primary.log());
}

#[test]
fn replicas_get_data_that_their_primary_loaded_beside_the_stream() {
    let primary = primary(&["--workers", "2"]);
    let mut connection = primary.connect();
    ask(&mut connection, &["SET", "key", "old"]);
    assert_eq!(ask(&mut connection, &["CONFIG", "SET", "appendonly", "yes"]), "+OK\r\n");
    wait_until("the log's base", || {
        ["aof_rewrite_in_progress", "aof_rewrite_scheduled"].iter().all(|name| info(&mut connection, name) == "0")
    });
    assert_eq!(ask(&mut connection, &["CONFIG", "SET", "appendonly", "no"]), "+OK\r\n");
    assert_eq!(ask(&mut connection, &["SAVE"]), "+OK\r\n");
    let replica = replica(Kind::Sleeve, &primary, &[]);
    for words in [["DEBUG", "RELOAD", "NOSAVE"].as_slice(), &["DEBUG", "LOADAOF"]] {
        ask(&mut connection, &["SET", "key", "new"]);
        assert_same(&primary, &replica);
        assert_eq!(ask(&mut connection, words), "+OK\r\n");
        assert_same(&primary, &replica);
        assert_eq!(ask(&mut replica.connect(), &["GET", "key"]), "$3\r\nold\r\n", "{words:?}");
    }
}
