//! The bytes, writes and fsyncs of the AOF, as INFO counts them.

use sleeve_tests::Server;

use super::start;
use sleeve_tests::probe::{ask, info, wait_until};

fn number(server: &Server, name: &str) -> u64 {
    info(server, name).parse().expect("a number")
}

/// Returns the bytes of all increments.
fn increment_bytes(server: &Server) -> u64 {
    let files = std::fs::read_dir(server.folder().join("appendonlydir")).expect("a folder").flatten();
    let increments = files.filter(|file| file.file_name().to_string_lossy().ends_with(".incr.aof"));
    increments.map(|file| file.metadata().expect("it is there").len()).sum()
}

#[test]
fn bytes_and_writes_of_known_commands_are_the_growth_of_the_aof() {
    for options in [["--appendfsync", "always"], ["--appendfsync", "everysec"], ["--aof-checksums", "no"]] {
        let server = start(&[&["--appendonly", "yes"], &options[..]].concat());
        let mut connection = server.connect();
        ask(&mut connection, &["SET", "before", "x"]);
        wait_until("the first write", || info(&server, "aof_buffer_length") == "0");
        wait_until("its fsync", || info(&server, "aof_synced_offset") == info(&server, "aof_written_offset"));
        assert_eq!(ask(&mut connection, &["CONFIG", "RESETSTAT"]), "+OK\r\n");
        let names = ["aof_total_written_bytes", "aof_total_writes", "aof_total_syncs"];
        assert_eq!(names.map(|name| number(&server, name)), [0; 3], "{options:?}");
        assert_eq!(["aof_bytes_per_write", "aof_writes_per_sync"].map(|name| info(&server, name)), ["0.00", "0.00"]);
        let before = increment_bytes(&server);
        for key in 0..10 {
            assert_eq!(ask(&mut connection, &["SET", &format!("key{key}"), "value"]), "+OK\r\n");
        }
        // A transaction and a script are one write each; a read and a write without an effect are none.
        for words in [&["MULTI"][..], &["SET", "a", "1"], &["SET", "b", "2"], &["EXEC"]] {
            ask(&mut connection, words);
        }
        ask(&mut connection, &["EVAL", "redis.call('set','a','3') redis.call('set','b','4') return 1", "0"]);
        ask(&mut connection, &["GET", "a"]);
        ask(&mut connection, &["DEL", "absent"]);
        wait_until("the last write", || info(&server, "aof_buffer_length") == "0");
        wait_until("the last fsync", || info(&server, "aof_synced_offset") == info(&server, "aof_written_offset"));
        let [bytes, writes, syncs] = names.map(|name| number(&server, name));
        assert_eq!((bytes, writes), (increment_bytes(&server) - before, 12), "{options:?}");
        assert!((1..=12).contains(&syncs), "{syncs} fsyncs, {options:?}");
        assert_eq!(info(&server, "aof_bytes_per_write"), format!("{:.2}", bytes as f64 / 12.0));
        assert_eq!(info(&server, "aof_writes_per_sync"), format!("{:.2}", 12.0 / syncs as f64));
        // A rewrite goes on in a new increment; its base is not counted.
        ask(&mut connection, &["BGREWRITEAOF"]);
        wait_until("the rewrite", || {
            info(&server, "aof_rewrite_in_progress") == "0" && number(&server, "aof_rewrites") > 0
        });
        ask(&mut connection, &["SET", "after", "x"]);
        wait_until("the write behind it", || number(&server, "aof_total_writes") == 13);
        assert_eq!(number(&server, "aof_total_written_bytes"), bytes + increment_bytes(&server), "{options:?}");
    }
    let server = start(&[]);
    assert!(!ask(&mut server.connect(), &["INFO", "persistence"]).contains("aof_total_"));
}
