//! The replies of a replica, beside a replica that is redis-server 7.0.

use sleeve_tests::{Kind, Server};

use super::{caught_up, follow, primary};
use sleeve_tests::probe::{ask, wait_until};

/// Sends the same lines to two replicas of one primary, and compares the replies.
struct Both {
    ours: Server,
    theirs: Server,
}

impl Both {
    fn of(primary: &Server, arguments: &[&str]) -> Both {
        Both::with(Kind::Redis, primary, arguments)
    }

    fn with(kind: Kind, primary: &Server, arguments: &[&str]) -> Both {
        let arguments = [&["--enable-debug-command", "yes"], arguments].concat();
        let both =
            Both { ours: Server::start_with(Kind::Sleeve, &arguments), theirs: Server::start_with(kind, &arguments) };
        for replica in [&both.ours, &both.theirs] {
            follow(replica, primary);
            caught_up(replica, primary);
        }
        both
    }

    fn play(&self, lines: &[&str]) {
        let (mut ours, mut theirs) = (self.ours.connect(), self.theirs.connect());
        for line in lines {
            let words: Vec<String> = line.split(' ').map(|word| word.replace('_', " ")).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(ask(&mut ours, &words), ask(&mut theirs, &words), "{line}");
        }
    }
}

const WRITES: &[&str] = &[
    "SET a 1",
    "GET a",
    "MULTI",
    "GET a",
    "SET a 2",
    "EXEC",
    "MULTI",
    "GET a",
    "EXEC",
    "PFCOUNT hll",
    "PUBLISH news x",
    "SORT list STORE other",
    "SORT list",
    "XREADGROUP GROUP g c STREAMS stream >",
    "BLPOP list 1",
    "GETEX a PERSIST",
    "GETEX a",
    "FLUSHALL",
    "SPOP set",
    "EVAL return_redis.call('get','a') 0",
    "EVAL return_redis.call('set','a','1') 0",
    "EVAL return_redis.pcall('set','a','1').err 0",
    "EVAL #!lua\nreturn_1 0",
    "EVAL #!lua_flags=no-writes\nreturn_redis.call('get','a') 0",
    "EVAL_RO return_redis.call('get','a') 0",
    "FCALL f 0",
    "FUNCTION FLUSH",
    "SCRIPT LOAD return_1",
    "EXPIRE a 100",
    "OBJECT ENCODING a",
    "RESTORE b 0 x",
    "DEL nothing",
    "WAIT 0 0",
];

const REDIRECTED: &[&str] = &[
    "GET a",
    "SET a 2",
    "CLIENT CAPA redirect",
    "GET a",
    "SET a 2",
    "KEYS *",
    "DBSIZE",
    "PING",
    "PUBLISH news x",
    "WATCH a",
    "EVAL return_redis.call('get','a') 1 a",
    "EVAL_RO return_1 0",
    "MULTI",
    "GET a",
    "EXEC",
    "MULTI",
    "READONLY",
    "EXEC",
    "GET a",
    "SET a 2",
    "MULTI",
    "GET a",
    "EXEC",
    "READWRITE",
    "GET a",
    "READONLY",
    "RESET",
    "GET a",
];

#[test]
fn a_client_with_capa_redirect_is_sent_to_the_primary() {
    let primary = primary(Kind::Redis);
    ask(&mut primary.connect(), &["SET", "a", "1"]);
    let both = Both::with(Kind::Valkey, &primary, &[]);
    both.play(REDIRECTED);
    for replica in [&both.ours, &both.theirs] {
        ask(&mut replica.connect(), &["CONFIG", "SET", "replica-read-only", "no"]);
    }
    // Whether a replica is writable does not matter to a client that follows redirects.
    both.play(REDIRECTED);
    for replica in [&both.ours, &both.theirs] {
        ask(&mut replica.connect(), &["REPLICAOF", "NO", "ONE"]);
    }
    both.play(&["CLIENT CAPA redirect", "SET a 1", "GET a"]);
}

#[test]
fn a_replica_refuses_writes_as_redis_does() {
    let primary = primary(Kind::Redis);
    sleeve_tests::probe::fill(&primary);
    ask(&mut primary.connect(), &["SET", "a", "1"]);
    let both = Both::of(&primary, &[]);
    both.play(WRITES);
    let port = primary.port().to_string();
    both.play(&[
        &format!("REPLICAOF 127.0.0.1 {port}"),
        &format!("SLAVEOF 127.0.0.1 {port}"),
        "REPLICAOF 127.0.0.1 x",
        "REPLICAOF 127.0.0.1 65536",
        "REPLICAOF NO",
        "CONFIG GET replicaof",
        "CONFIG SET replicaof no_one",
        "CONFIG GET replica-read-only",
        "CONFIG SET replica-read-only no",
        "SET a 3",
        "GET a",
        "EVAL return_redis.call('set','a','4') 0",
        "CONFIG SET replica-read-only yes",
        "SET a 5",
        "GET a",
        "MULTI",
        "REPLICAOF NO ONE",
        "SET a 6",
    ]);
}

#[test]
fn a_replica_without_a_link_answers_as_redis_does() {
    let mut primary = primary(Kind::Redis);
    sleeve_tests::probe::fill(&primary);
    let both = Both::of(&primary, &[]);
    primary.kill();
    for replica in [&both.ours, &both.theirs] {
        wait_until("the link's end", || super::info(replica, "master_link_status") == "down");
    }
    both.play(&["GET string:0", "SET a 1", "PING"]);
    both.play(&["CONFIG SET replica-serve-stale-data no"]);
    both.play(&[
        "GET string:0",
        "SET a 1",
        "PING",
        "ECHO x",
        "SELECT 1",
        "MULTI",
        "GET string:0",
        "EXEC",
        "MULTI",
        "PING",
        "EXEC",
        "EVAL return_1 0",
        "EVAL return_redis.call('get','a') 0",
        "EVAL #!lua\nreturn_1 0",
        "EVAL #!lua_flags=no-writes\nreturn_1 0",
        "EVAL #!lua_flags=allow-stale,no-writes\nreturn_1 0",
        "EVAL #!lua_flags=allow-stale,no-writes\nreturn_redis.call('get','a') 0",
        "EVAL #!lua_flags=allow-stale,no-writes\nreturn_redis.call('echo','a') 0",
        "PUBLISH news x",
        "DBSIZE",
        "CONFIG SET replica-serve-stale-data yes",
        "GET string:0",
        "DBSIZE",
        "REPLICAOF NO ONE",
        "SET a 1",
        "GET a",
    ]);
}

#[test]
fn commands_of_the_primary_are_counted_as_in_redis() {
    let primary = primary(Kind::Redis);
    let both = Both::of(&primary, &[]);
    for replica in [&both.ours, &both.theirs] {
        ask(&mut replica.connect(), &["CONFIG", "RESETSTAT"]);
    }
    let mut writer = primary.connect();
    for line in ["SET a 1", "GETSET a 2", "SET a 3 GET", "RPUSH l x y", "BLMOVE l m LEFT RIGHT 0", "BRPOPLPUSH l m 0"] {
        ask(&mut writer, &line.split(' ').collect::<Vec<_>>());
    }
    for words in [&["MULTI"][..], &["INCR", "a"], &["SADD", "s", "x"], &["EXEC"]] {
        ask(&mut writer, words);
    }
    ask(&mut writer, &["EVAL", "redis.call('incr','a') return redis.call('incr','a')", "0"]);
    let counted = |replica: &Server| {
        caught_up(replica, &primary);
        let text = ask(&mut replica.connect(), &["INFO", "commandstats"]);
        let lines = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(",usec="));
        let lines = lines.map(|(calls, _)| calls.to_owned());
        // These counts depend on the number of looks of the test, and of requests of the primary.
        let own = ["info", "config", "ping", "replconf"];
        let mut lines: Vec<_> = lines.filter(|line| !own.iter().any(|own| line.starts_with(own))).collect();
        lines.sort();
        lines
    };
    assert_eq!(counted(&both.ours), counted(&both.theirs));
}
