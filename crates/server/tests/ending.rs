//! The end of a server with a last snapshot, while a script runs that keeps the data from it.

use std::io::Read;
use std::path::PathBuf;

use sleeve_server::Opt;

use crate::busy::{ENDLESS, Peer, Served};

/// A server that one client asks to end with a snapshot while a script of another runs, before anybody knows that it runs
/// for long; with the file that it writes.
fn asked_to_save(name: &str, script: &[&str]) -> (Served, Peer, PathBuf) {
    let folder = std::env::temp_dir().join(format!("sleeve-busy-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of our own");
    let served = Served::new(2, "3600000");
    let path = folder.to_str().expect("a path of text").as_bytes();
    served.engine.config.assign(Opt::Dir, &[path]).expect("a folder");
    served.engine.config.assign(Opt::EnableDebugCommand, &[b"yes"]).expect("an option");
    let (mut runner, mut other) = (served.open(), served.open());
    other.ask(&["DEBUG", "SET-DISABLE-DENY-SCRIPTS", "1"], "+OK\r\n");
    runner.send(script);
    served.until_locked();
    other.send(&["SHUTDOWN", "SAVE"]);
    while !served.engine.pause.is_begun() {
        std::thread::yield_now();
    }
    served.set_threshold("20");
    (served, runner, folder)
}

#[test]
fn the_end_of_the_server_with_a_snapshot_ends_one_that_has_not_written() {
    let (served, mut runner, folder) = asked_to_save("unwritten", ENDLESS);
    _ = runner.0.read_to_end(&mut Vec::new());
    served.server.stop();
    assert!(folder.join("dump.rdb").is_file());
    _ = std::fs::remove_dir_all(folder);
}

#[test]
fn the_end_of_the_server_with_a_snapshot_waits_for_one_that_has_written_and_who_may_end_it_is_heard() {
    let writer = "redis.call('set', 'k', 'v') while redis.call('config', 'get', 'maxclients')[2] ~= '77' do end";
    let (served, mut runner, folder) = asked_to_save("written", &["EVAL", writer, "1", "k"]);
    let mut other = served.open();
    while served.engine.scripts.running.ends_gently() != Some(false) {
        std::thread::yield_now();
    }
    other.send(&["SCRIPT", "KILL"]);
    assert!(other.line().starts_with("-UNKILLABLE "));
    served.engine.config.assign(Opt::Maxclients, &[b"77"]).expect("a number");
    _ = runner.0.read_to_end(&mut Vec::new());
    served.server.stop();
    assert!(folder.join("dump.rdb").is_file());
    _ = std::fs::remove_dir_all(folder);
    let writer = "redis.call('set', 'k', 'v') while true do end";
    let (served, _runner, folder) = asked_to_save("unsaved", &["EVAL", writer, "1", "k"]);
    let mut other = served.open();
    while served.engine.scripts.running.ends_gently() != Some(false) {
        std::thread::yield_now();
    }
    other.send(&["SHUTDOWN", "NOSAVE"]);
    _ = other.0.read_to_end(&mut Vec::new());
    served.server.stop();
    _ = std::fs::remove_dir_all(folder);
}
