//! Logs that go from here to redis-server 7.0, Redis 8 and Valkey 9, and back, by way of the disk.

use std::io::{IoSlice, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sleeve_disk::aof::{AofWriter, Folder, NewBase, OpenError, Options, manifest_path};
use sleeve_disk::disk::Disk;
use sleeve_disk::disk::real::RealDisk;
use sleeve_disk::replay::{self, Outcome, Step, request};
use sleeve_tests::{Connection, Kind, Server};

use crate::base::{self, create};

const PEERS: [Kind; 3] = [Kind::Redis, Kind::Redis8, Kind::Valkey];

/// A folder of the test's own, which is removed with the value.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sleeve-log-{}-{number}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder of our own");
        Scratch(path)
    }

    pub fn options(&self, checksums: bool) -> Options {
        let (folder, name) = (self.0.join("appendonlydir"), "appendonly.aof".to_owned());
        Options { folder, name, checksums, timestamps: true, salt: 99 }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    words.iter().for_each(|word| bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
    bytes
}

/// Returns a log with a base in words of requests that sets `base`.
pub fn begin(options: &Options) -> AofWriter {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let folder = Folder::open(disk, options.clone(), 1).expect("an empty folder");
    let base = write_base(options, 0, &[&["SELECT", "0"], &["SET", "base", "b"]]);
    create(folder, base).expect("a log")
}

fn write_base(options: &Options, stands_for: u64, requests: &[&[&str]]) -> NewBase {
    let requests: Vec<_> = requests.iter().map(|words| request(words)).collect();
    base::write_base(&RealDisk, options, stands_for, &requests).expect("it is written")
}

/// Appends these requests as one block, at this time.
pub fn append(log: &mut AofWriter, requests: &[&[&str]], now: i64) {
    let bytes: Vec<Vec<u8>> = requests.iter().map(|words| request(words)).collect();
    let slices: Vec<IoSlice<'_>> = bytes.iter().map(|bytes| IoSlice::new(bytes)).collect();
    let length: usize = bytes.iter().map(Vec::len).sum();
    // Behind each block the journal has bytes that are not logged.
    log.append(log.end() + length as u64, &slices, now).expect("it is appended");
    log.append(log.end() + 14, &[], now).expect("nothing is appended");
}

/// Writes an AOF that has every feature: a base, increments, transactions, several databases, times and, if asked, a rewrite.
fn write_log(options: &Options, rewrites: bool) {
    let mut log = begin(options);
    append(&mut log, &[&["SELECT", "0"], &["SET", "a", "1"]], 1_700_000_000);
    append(&mut log, &[&["MULTI"], &["SET", "m", "1"], &["INCR", "m"], &["EXEC"]], 1_700_000_000);
    append(&mut log, &[&["SELECT", "3"], &["SET", "in three", "yes"]], 1_700_000_001);
    let rotated = log.rotation().run().expect("an increment");
    let stands_for = log.end();
    let since = log.switch(rotated).expect("it is switched to");
    append(&mut log, &[&["SELECT", "0"], &["RPUSH", "list", "one", "#SLV:B 0 0 0 0 0", "*1\r\n"]], 1_700_000_002);
    if rewrites {
        let data: [&[&str]; 6] = [
            &["SELECT", "0"],
            &["SET", "base", "b"],
            &["SET", "a", "1"],
            &["SET", "m", "2"],
            &["SELECT", "3"],
            &["SET", "in three", "yes"],
        ];
        let base = write_base(options, stands_for, &data);
        let rewritten = log.rewrite(base, since).and_then(|rewrite| rewrite.run()).expect("a rewrite");
        log.rewritten(rewritten);
        log.history().expect("the old files").run().expect("they are removed");
        log.history_removed();
    }
    let job = log.sync_job().expect("there is something");
    job.run().expect("it is synced");
    log.synced(&job);
    log.close().expect("it is closed");
}

/// Opens an AOF that no process uses any more. Another test that starts a program may hold the lock for a moment, in the
/// forked child that has not yet become that program.
pub fn open_again(options: Options, process: u32) -> Folder {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match Folder::open(Arc::new(RealDisk), options.clone(), process) {
            Err(OpenError::Held(_)) if Instant::now() < deadline => std::thread::yield_now(),
            opened => return opened.expect("a log"),
        }
    }
}

/// Returns everything that an AOF holds, a line for each request; `RDB` for a snapshot.
pub fn read(options: &Options) -> (Vec<String>, Folder, Outcome) {
    let folder = open_again(options.clone(), 1);
    let mut replay = folder.replay(replay::Options { load_truncated: true, read_until: None });
    let (mut bytes, mut lines) = (Vec::new(), Vec::new());
    loop {
        match replay.next(&mut bytes).unwrap_or_else(|damage| panic!("{damage}")) {
            Step::Requests => {}
            Step::Rdb(mut source) => {
                let mut snapshot = Vec::new();
                source.read_to_end(&mut snapshot).expect("it is read");
                lines.push("RDB".to_owned());
                replay.after_rdb(source.position(), None).expect("the file goes on");
            }
            Step::End(outcome) => return (lines, folder, outcome),
        }
        let told = request::for_each(&bytes, |words| {
            let words: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            lines.push(words.join(" "));
        });
        told.expect("requests");
        bytes.clear();
    }
}

fn ask(connection: &mut Connection, words: &[&str]) -> String {
    String::from_utf8_lossy(&connection.command(words).expect("a reply")).into_owned()
}

fn serve(kind: Kind, scratch: &Scratch) -> Server {
    let dir = scratch.0.to_str().expect("a name in Unicode");
    Server::start_with(kind, &["--dir", dir, "--appendonly", "yes", "--aof-timestamp-enabled", "yes"])
}

fn check_aof(manifest: &Path) {
    let tool = Kind::Redis.binary().expect("redis-server").with_file_name("redis-check-aof");
    let output = Command::new(tool).arg(manifest).output().expect("redis-tools are there");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("All AOF files and manifest are valid"), "{said}");
}

#[test]
fn redis_and_sleeve_load_and_continue_each_others_aof() {
    let manners = [(true, false), (false, true), (true, true)];
    for (kind, (checksums, rewrites)) in PEERS.into_iter().flat_map(|kind| manners.map(|manner| (kind, manner))) {
        let scratch = Scratch::new(kind.name());
        let options = scratch.options(checksums);
        write_log(&options, rewrites);
        check_aof(&manifest_path(&options.folder, &options.name));
        let server = serve(kind, &scratch);
        let mut connection = server.connect();
        assert_eq!(ask(&mut connection, &["GET", "base"]), "$1\r\nb\r\n", "{kind:?}");
        assert_eq!(ask(&mut connection, &["GET", "m"]), "$1\r\n2\r\n");
        assert_eq!(ask(&mut connection, &["LLEN", "list"]), ":3\r\n");
        assert_eq!(ask(&mut connection, &["SELECT", "3"]), "+OK\r\n");
        assert_eq!(ask(&mut connection, &["GET", "in three"]), "$3\r\nyes\r\n");
        assert_eq!(ask(&mut connection, &["SET", "theirs", "1"]), "+OK\r\n");
        drop(server);
        let (lines, folder, outcome) = read(&options);
        let third = if rewrites { "SET a 1" } else { "SELECT 0" };
        assert_eq!(lines[..3], ["SELECT 0", "SET base b", third], "{kind:?}");
        assert_eq!(lines[lines.len() - 2..], ["SELECT 3", "SET theirs 1"], "{lines:?}");
        assert!(outcome.cut.is_none() && outcome.told.is_empty(), "{outcome:?}");
        // The AOF goes on once more behind the other server's requests, with a line of Sleeve's in the middle of that
        // server's file.
        let mut log = folder.resume(outcome).expect("it goes on");
        append(&mut log, &[&["SELECT", "0"], &["SET", "again", "2"]], 1_700_000_003);
        drop(log);
        check_aof(&manifest_path(&options.folder, &options.name));
        assert_eq!(read(&options).0.last().map(String::as_str), Some("SET again 2"));
        let server = serve(kind, &scratch);
        assert_eq!(ask(&mut server.connect(), &["GET", "again"]), "$1\r\n2\r\n", "{kind:?}");
    }
}

#[test]
fn an_aof_that_redis_wrote_and_rewrote_is_continued() {
    for kind in PEERS {
        let scratch = Scratch::new(kind.name());
        let options = scratch.options(true);
        let server = serve(kind, &scratch);
        let mut connection = server.connect();
        assert_eq!(ask(&mut connection, &["SET", "before", "1"]), "+OK\r\n");
        assert!(ask(&mut connection, &["BGREWRITEAOF"]).starts_with('+'));
        let deadline = Instant::now() + Duration::from_secs(60);
        while !ask(&mut connection, &["INFO", "persistence"]).contains("aof_rewrite_in_progress:0") {
            assert!(Instant::now() < deadline, "the rewrite does not end");
        }
        assert_eq!(ask(&mut connection, &["MULTI"]), "+OK\r\n");
        assert_eq!(ask(&mut connection, &["SET", "a", "1"]), "+QUEUED\r\n");
        assert_eq!(ask(&mut connection, &["SET", "b", "1"]), "+QUEUED\r\n");
        assert!(ask(&mut connection, &["EXEC"]).starts_with("*2"));
        drop(server);
        let (mut lines, folder, outcome) = read(&options);
        // Servers place the SELECT differently.
        lines.retain(|line| line != "SELECT 0");
        assert_eq!(lines, ["RDB", "MULTI", "SET a 1", "SET b 1", "EXEC"], "{kind:?}");
        assert!(outcome.cut.is_none() && outcome.told.is_empty(), "{outcome:?}");
        assert!(folder.told().is_empty(), "{:?}", folder.told());
        let mut log = folder.resume(outcome).expect("it goes on");
        append(&mut log, &[&["SELECT", "0"], &["SET", "ours", "2"]], 1_900_000_000);
        drop(log);
        let server = serve(kind, &scratch);
        let mut connection = server.connect();
        assert_eq!(
            ask(&mut connection, &["MGET", "before", "a", "ours"]),
            "*3\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n2\r\n",
            "{kind:?}"
        );
    }
}

#[test]
fn other_servers_pass_over_how_much_of_a_file_counts() {
    for kind in PEERS {
        let scratch = Scratch::new(kind.name());
        let options = scratch.options(true);
        write_log(&options, false);
        let path = manifest_path(&options.folder, &options.name);
        let manifest = std::fs::read_to_string(&path).expect("a manifest");
        let increment = options.folder.join(format!("{}.1.incr.aof", options.name));
        let length = std::fs::metadata(&increment).expect("an increment").len();
        std::fs::write(&path, manifest.trim_end().to_owned() + &format!(" length {length}\n")).expect("written");
        check_aof(&path);
        assert_eq!(ask(&mut serve(kind, &scratch).connect(), &["GET", "m"]), "$1\r\n2\r\n", "{kind:?}");
    }
}

#[test]
fn a_file_beyond_its_length_is_cut_and_a_shorter_one_refused() {
    let scratch = Scratch::new("length");
    let options = scratch.options(true);
    write_log(&options, false);
    let (_, folder, outcome) = read(&options);
    let mut log = folder.resume(outcome).expect("it goes on");
    let rotated = log.rotation().run().expect("an increment");
    log.switch(rotated).expect("it is switched to");
    append(&mut log, &[&["SELECT", "0"], &["SET", "behind", "1"]], 1_700_000_003);
    drop(log);
    let lines = read(&options).0;
    let path = manifest_path(&options.folder, &options.name);
    let manifest = std::fs::read_to_string(&path).expect("a manifest");
    let increment = options.folder.join(format!("{}.1.incr.aof", options.name));
    let content = std::fs::read(&increment).expect("an increment");
    let says = format!("type i length {}", content.len());
    std::fs::write(&path, manifest.replacen("type i", &says, 1)).expect("written");
    // The process that healed the AOF has died in front of the cut.
    std::fs::write(&increment, [&content, b"*1\r\n$4\r\nPIN".as_slice()].concat()).expect("written");
    let (again, folder, outcome) = read(&options);
    assert_eq!((again, outcome.cut.is_none()), (lines, true));
    drop(folder.resume(outcome).expect("it goes on"));
    assert_eq!(std::fs::read(&increment).expect("an increment"), content);
    std::fs::write(&increment, &content[..content.len() - 1]).expect("written");
    let folder = open_again(options, 1);
    let mut replay = folder.replay(replay::Options { load_truncated: true, read_until: None });
    let refused = loop {
        match replay.next(&mut Vec::new()) {
            Ok(Step::End(_)) => panic!("a byte is missing"),
            Ok(_) => {}
            Err(damage) => break damage.to_string(),
        }
    };
    assert!(refused.contains("the file ends in the middle of something"), "{refused}");
}

#[test]
fn the_single_file_of_older_servers_is_taken_over_as_redis_does() {
    let content = [request(&["SELECT", "0"]), request(&["SET", "old", "1"])].concat();
    let names = |scratch: &Scratch| {
        let options = scratch.options(true);
        let manifest = std::fs::read_to_string(manifest_path(&options.folder, &options.name)).expect("a manifest");
        (manifest, scratch.0.join("appendonly.aof").exists(), options.folder.join("appendonly.aof").exists())
    };
    let ours = Scratch::new("ours");
    std::fs::write(ours.0.join("appendonly.aof"), &content).expect("written");
    let (lines, folder, outcome) = read(&ours.options(true));
    assert_eq!(lines, ["SELECT 0", "SET old 1"]);
    assert!(folder.has_taken_over());
    drop(folder.resume(outcome).expect("it goes on"));
    let theirs = Scratch::new("theirs");
    std::fs::write(theirs.0.join("appendonly.aof"), &content).expect("written");
    drop(serve(Kind::Redis, &theirs));
    assert_eq!(names(&ours), names(&theirs));
    // A start that found the manifest and not the file goes on from there.
    let options = ours.options(true);
    std::fs::rename(options.folder.join("appendonly.aof"), ours.0.join("appendonly.aof")).expect("moved");
    std::fs::write(manifest_path(&options.folder, &options.name), "file appendonly.aof seq 1 type b\n")
        .expect("written");
    assert_eq!(read(&options).0, ["SELECT 0", "SET old 1"]);
}

#[test]
fn a_second_opener_is_told_who_the_first_is() {
    let scratch = Scratch::new("lock");
    let options = scratch.options(true);
    let first = Folder::open(Arc::new(RealDisk), options.clone(), 4_711).expect("the first");
    let error = Folder::open(Arc::new(RealDisk), options.clone(), 2).expect_err("the second").to_string();
    assert!(error.contains("process 4711") && error.contains("appendonly.aof.lock"), "{error}");
    drop(first);
    drop(open_again(options, 2));
}
