//! Disks that are full or read-only, and AOF files that another process removes.

use std::process::Command;

use sleeve_tests::probe::{ask, digest, fill, heir, info, wait_until};
use sleeve_tests::{Kind, Server, Settings};

use super::{EVERYTHING, start};

#[test]
fn where_the_disk_is_full_writes_are_refused_and_go_on_when_there_is_room() {
    for policy in ["everysec", "always"] {
        let mut server = start(&["--appendonly", "yes", "--appendfsync", policy]);
        let mut connection = server.connect();
        assert_eq!(ask(&mut connection, &["SET", "a", "1"]), "+OK\r\n");
        limit_files(&server, "20000:unlimited");
        let value = "v".repeat(1_000);
        let mut kept = 0;
        let refused = loop {
            let reply = ask(&mut connection, &["RPUSH", "list", &value]);
            if reply.starts_with('-') {
                break reply;
            }
            kept += 1;
            assert!(kept < 100, "the file is over its limit");
        };
        assert!(refused.starts_with("-MISCONF Errors writing to the AOF file: File too large"), "{refused}");
        assert!(ask(&mut connection, &["SET", "a", "2"]).starts_with("-MISCONF Errors writing"));
        assert!(ask(&mut connection, &["PING"]).starts_with("-MISCONF"));
        assert_eq!(ask(&mut connection, &["GET", "a"]), "$1\r\n1\r\n");
        assert_eq!(info(&server, "aof_last_write_status"), "err");
        limit_files(&server, "unlimited:unlimited");
        wait_until("the log's recovery", || ask(&mut connection, &["SET", "a", "3"]) == "+OK\r\n");
        let before = digest(&server);
        server.restart().expect("it starts again");
        assert_eq!(digest(&server), before, "{policy}");
        assert!(
            ask(&mut server.connect(), &["LLEN", "list"])
                .trim_start_matches(':')
                .trim_end()
                .parse::<i64>()
                .is_ok_and(|len| len >= kept)
        );
    }
}

/// Limits the size of the files that a server's process may write, or lifts the limit.
pub fn limit_files(server: &Server, bytes: &str) {
    let process = server.process_id().to_string();
    let set = Command::new("prlimit").args([&format!("--fsize={bytes}"), "--pid", &process]).status();
    assert!(set.is_ok_and(|status| status.success()), "prlimit is a part of util-linux");
}

#[test]
fn on_a_full_disk_a_snapshot_fails_and_the_old_file_stays() {
    let mut server = start(&["--save", "3600 100000000"]);
    fill(&server);
    let mut connection = server.connect();
    assert_eq!(ask(&mut connection, &["SAVE"]), "+OK\r\n");
    let saved = digest(&server);
    assert_eq!(ask(&mut connection, &["SET", "later", "1"]), "+OK\r\n");
    limit_files(&server, "5000:unlimited");
    assert_eq!(ask(&mut connection, &["BGSAVE"]), "+Background saving started\r\n");
    wait_until("the failure", || info(&server, "rdb_last_bgsave_status") == "err");
    assert!(server.log().contains("Background saving error: cannot write"), "{}", server.log());
    assert!(ask(&mut connection, &["SET", "later", "2"]).starts_with("-MISCONF Redis is configured to save RDB"));
    assert_eq!(ask(&mut connection, &["GET", "later"]), "$1\r\n1\r\n");
    let names = std::fs::read_dir(server.folder()).expect("a folder").flatten();
    let left: Vec<_> =
        names.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().starts_with("temp")).collect();
    assert!(left.is_empty(), "{left:?}");
    let kept = heir(Kind::Sleeve, &server, &[]);
    assert_eq!(digest(&kept), saved);
    limit_files(&server, "unlimited:unlimited");
    assert_eq!(ask(&mut connection, &["SAVE"]), "+OK\r\n");
    assert_eq!(ask(&mut connection, &["SET", "later", "2"]), "+OK\r\n");
    assert_eq!(ask(&mut connection, &["SAVE"]), "+OK\r\n");
    let before = digest(&server);
    server.restart().expect("it starts again");
    assert_eq!(digest(&server), before);
}

#[test]
fn a_rewrite_on_a_full_disk_leaves_the_log_as_it_was() {
    let mut server = start(&["--appendonly", "yes"]);
    let mut connection = server.connect();
    for number in 0..100 {
        ask(&mut connection, &["SET", &format!("key:{number}"), "a value"]);
    }
    // The increment is longer, but nothing more is to be written to it.
    limit_files(&server, "1500:unlimited");
    assert!(ask(&mut connection, &["BGREWRITEAOF"]).starts_with('+'));
    wait_until("the failure", || info(&server, "aof_last_bgrewrite_status") == "err");
    assert!(server.log().contains("Background AOF rewrite terminated: cannot"), "{}", server.log());
    let before = digest(&server);
    server.restart().expect("it starts again");
    assert_eq!(digest(&server), before);
}

#[test]
fn an_aof_that_cannot_be_begun_is_reported_with_a_remedy() {
    let refused = |arguments: &[&str]| {
        let arguments = [EVERYTHING, &["--appendonly", "yes"], arguments].concat();
        let arguments = arguments.into_iter().map(str::to_owned).collect();
        Server::try_start(Kind::Sleeve, Settings { arguments, password: None }).expect_err("there is no log")
    };
    // A read-only file system, also for root.
    let reason = refused(&["--dir", "/sys"]);
    assert!(reason.contains("cannot make the folder /sys/appendonlydir: "), "{reason}");
    assert!(reason.contains("Look after the disk and the permissions, or use another folder"), "{reason}");
    let reason = refused(&["--appenddirname", "server.log"]);
    assert!(reason.contains("File exists") && reason.contains("use another folder"), "{reason}");
}

/// Ways to tamper with an AOF that is being written, and the server's message for each.
const TAMPERINGS: [(&str, &str); 6] = [
    ("rm -r appendonlydir", "removed"),
    ("rm appendonlydir/*.incr.aof", "removed"),
    ("rm appendonlydir/*.manifest", "removed"),
    ("rm appendonlydir/*.base.rdb", "removed"),
    ("truncate -s 30 appendonlydir/*.incr.aof", "cut"),
    (
        "cp appendonlydir/*.incr.aof x; rm appendonlydir/*.incr.aof; echo >> x; mv x appendonlydir/appendonly.aof.1.incr.aof",
        "another file",
    ),
];

#[test]
fn an_aof_that_another_process_removes_or_cuts_is_begun_anew_and_logged() {
    for (number, (command, deed)) in TAMPERINGS.into_iter().enumerate() {
        let policy = ["everysec", "always", "no"][number % 3];
        let mut server = start(&["--appendonly", "yes", "--appendfsync", policy]);
        let mut connection = server.connect();
        for number in 0..20 {
            assert_eq!(ask(&mut connection, &["SET", &format!("key:{number}"), "before"]), "+OK\r\n");
        }
        let done = Command::new("sh").args(["-c", command]).current_dir(server.folder()).status();
        assert!(done.is_ok_and(|status| status.success()), "{command}");
        assert_eq!(ask(&mut connection, &["SET", "key:1", "meanwhile"]), "+OK\r\n");
        wait_until("the new log", || {
            let log = server.log();
            let is_told = log.contains("Somebody else has ") && log.contains(deed);
            is_told && log.matches("Background AOF rewrite finished successfully").count() == 2
        });
        assert_eq!(ask(&mut connection, &["SET", "key:2", "behind"]), "+OK\r\n");
        let before = digest(&server);
        server.restart().unwrap_or_else(|reason| panic!("{command}: {reason}"));
        assert_eq!(digest(&server), before, "{command}");
    }
}

#[test]
fn a_log_whose_folder_is_gone_for_good_is_begun_when_it_can_be() {
    let mut server = start(&["--appendonly", "yes"]);
    let mut connection = server.connect();
    assert_eq!(ask(&mut connection, &["SET", "key", "before"]), "+OK\r\n");
    let folder = server.folder().join("appendonlydir");
    std::fs::remove_dir_all(&folder).and_then(|()| std::fs::write(&folder, "")).expect("a file in its place");
    wait_until("a refusal", || ask(&mut connection, &["SET", "key", "meanwhile"]).starts_with("-MISCONF"));
    let refused = ask(&mut connection, &["SET", "key", "refused"]);
    assert!(refused.contains("cannot make the folder") && refused.contains("appendonlydir"), "{refused}");
    assert!(server.log().contains("Error beginning the AOF file"), "{}", server.log());
    std::fs::remove_file(&folder).expect("the file");
    wait_until("the new log", || ask(&mut connection, &["SET", "key", "behind"]) == "+OK\r\n");
    wait_until("its base", || info(&server, "aof_enabled") == "1" && info(&server, "aof_rewrite_in_progress") == "0");
    let before = digest(&server);
    server.restart().expect("it starts again");
    assert_eq!(digest(&server), before);
}
