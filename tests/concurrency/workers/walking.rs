//! Commands that go from shard to shard beside scripts that run for long: no worker waits for such a script.

use sleeve_tests::connection::request;
use sleeve_tests::{Connection, Kind, Server, soak};

use super::ask;

/// The commands that go from shard to shard.
const WALKS: &[&[&str]] =
    &[&["KEYS", "none*"], &["INFO", "memory"], &["DBSIZE"], &["SCAN", "0", "COUNT", "500"], &["RANDOMKEY"]];

/// The number of keys. It is so large that a walk takes longer than a script takes to begin.
const KEYS: usize = 20_000;

#[test]
fn a_walk_over_the_shards_never_waits_for_a_long_script() {
    let server = Server::start_with(Kind::Sleeve, &["--workers", "2", "--busy-reply-threshold", "1"]);
    let mut admin = server.connect();
    let fill = format!("for i = 1, {KEYS} do redis.call('SET', i, i) end");
    assert_eq!(ask(&mut admin, &["EVAL", &fill, "0"]), "$-1\r\n");
    // Four connections of each kind, so that each worker has some of both.
    let mut walkers: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
    let mut others: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
    let walks: Vec<u8> = WALKS.iter().cycle().take(40).flat_map(|words| request(words)).collect();
    let mut runner = server.connect();
    for _ in 0..soak::count(40) {
        walkers.iter_mut().for_each(|walker| walker.send(&walks).expect("it is read"));
        // It may be refused for a moment, while a killed one goes.
        runner.send(&request(&["EVAL", "while true do end", "0"])).expect("it is read");
        while !ask(&mut others[0], &["EXISTS", "1"]).starts_with("-BUSY") {}
        for other in &mut others {
            assert!(ask(other, &["EXISTS", "1"]).starts_with("-BUSY"));
        }
        assert_eq!(ask(&mut others[3], &["SCRIPT", "KILL"]), "+OK\r\n");
        let end = String::from_utf8_lossy(&runner.reply().expect("the script is ended")).into_owned();
        assert!(end.contains("Script killed by user"), "{end}");
        for walker in &mut walkers {
            (0..40).for_each(|_| assert!(!walker.reply().expect("a walk ends").is_empty()));
        }
    }
}
