//! The statistics of a blocking command when it ends: it is in the slow log once, and counts as a failed call if an error
//! ends it.
//!
//! As Redis 8 has it; Redis 7.0 does not count a command that a change of roles ends.

use sleeve_tests::{Connection, Kind, Server};

/// Returns a server with a slow log that has every command.
fn start(kind: Kind) -> Server {
    Server::start_with(kind, &["--slowlog-log-slower-than", "0", "--slowlog-max-len", "1000"])
}

/// Returns a client that waits in BLPOP.
fn waiting(server: &Server, keeper: &mut Connection) -> Connection {
    let mut waiting = server.connect();
    waiting.send(&sleeve_tests::connection::request(&["BLPOP", "k", "0"])).expect("the request is sent");
    while !info(keeper, "clients").contains("blocked_clients:1\r") {
        std::thread::yield_now();
    }
    waiting
}

fn info(keeper: &mut Connection, section: &str) -> String {
    String::from_utf8_lossy(&keeper.command(&["INFO", section]).expect("a reply")).into_owned()
}

fn each(test: impl Fn(Kind)) {
    [Kind::Redis8, Kind::Sleeve].into_iter().for_each(test);
}

#[test]
fn a_command_that_waited_is_in_the_slow_log_once() {
    each(|kind| {
        let server = start(kind);
        let mut keeper = server.connect();
        let mut waiting = waiting(&server, &mut keeper);
        let mut entries = |when: &str, expected: usize| {
            let log = keeper.command(&["SLOWLOG", "GET", "-1"]).expect("a reply");
            let count = log.windows(11).filter(|part| part == b"\r\nBLPOP\r\n$1").count();
            assert_eq!(count, expected, "{}: {when}", kind.name());
        };
        entries("while it waits", 0);
        server.connect().command(&["RPUSH", "k", "a"]).expect("a reply");
        waiting.reply().expect("what it waited for");
        entries("when it is served", 1);
    });
}

#[test]
fn a_wait_that_a_change_of_roles_ends_is_a_failed_call() {
    each(|kind| {
        let server = start(kind);
        let mut keeper = server.connect();
        let mut waiting = waiting(&server, &mut keeper);
        keeper.command(&["REPLICAOF", "127.0.0.1", "1"]).expect("a reply");
        let reply = waiting.reply().expect("an error");
        assert!(reply.starts_with(b"-UNBLOCKED "), "{}", kind.name());
        let stats = info(&mut keeper, "everything");
        let line = |start: &str| stats.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
        assert!(line("cmdstat_blpop:").contains("calls=1,"), "{}: {}", kind.name(), line("cmdstat_blpop:"));
        assert!(line("cmdstat_blpop:").contains("failed_calls=1"), "{}: {}", kind.name(), line("cmdstat_blpop:"));
        assert_eq!(line("errorstat_UNBLOCKED:"), "errorstat_UNBLOCKED:count=1", "{}", kind.name());
        assert_eq!(line("total_error_replies:"), "total_error_replies:1", "{}", kind.name());
    });
}
