//! `sleeve check aof`: its reports on whole and damaged AOFs, its repairs and the bytes that it keeps, and its answers as
//! redis-check-aof where it is called so.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sleeve_disk::disk::Disk;
use sleeve_disk::disk::real::RealDisk;
use sleeve_tests::{Kind, Server};

const SLEEVE: &str = env!("CARGO_BIN_EXE_sleeve");

/// A folder of its own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sleeve-check-aof-{}-{name}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder of our own");
        Folder(path)
    }

    fn put(&self, name: &str, content: &[u8]) {
        fs::write(self.0.join(name), content).expect("written");
    }

    fn content(&self) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(&self.0).expect("the folder").map(|entry| entry.expect("an entry").path());
        let named = |path: PathBuf| {
            (path.file_name().expect("a name").to_string_lossy().into_owned(), fs::read(path).expect("read"))
        };
        let mut content: Vec<_> = entries.filter(|path| path.is_file()).map(named).collect();
        content.sort();
        content
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn request(words: &[&str]) -> Vec<u8> {
    sleeve_tests::connection::request(words)
}

/// Runs the program; returns the status, the output, and the complaints.
fn run(program: &Path, folder: &Folder, words: &[&str], answer: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(program)
        .current_dir(&folder.0)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // A program that asks nothing may be gone before the answer.
    let _ = child.stdin.take().expect("a pipe").write_all(answer.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn check(folder: &Folder, words: &[&str]) -> (Option<i32>, String, String) {
    run(Path::new(SLEEVE), folder, &[&["check", "aof"], words].concat(), "")
}

/// Returns a log as Redis writes it: a base in requests, and two increments, the second with times.
fn plain(name: &str) -> Folder {
    let folder = Folder::new(name);
    let select = request(&["SELECT", "0"]);
    folder.put("a.aof.1.base.aof", &[select.clone(), request(&["SET", "base", "1"])].concat());
    folder.put("a.aof.1.incr.aof", &[select.clone(), request(&["SET", "one", "1"])].concat());
    let second = [
        b"#TS:1700000000\r\n".to_vec(),
        select,
        request(&["SET", "two", "1"]),
        b"#TS:1700000100\r\n".to_vec(),
        request(&["MULTI"]),
        request(&["SET", "three", "1"]),
        request(&["XGROUP", "CREATE", "stream", "g", "$", "MKSTREAM"]),
        request(&["EXEC"]),
    ];
    folder.put("a.aof.2.incr.aof", &second.concat());
    folder.put(
        "a.aof.manifest",
        b"file a.aof.1.base.aof seq 1 type b\nfile a.aof.1.incr.aof seq 1 type i\nfile a.aof.2.incr.aof seq 2 type i\n",
    );
    folder
}

#[test]
fn a_whole_aof_is_listed_file_by_file_and_left_unchanged() {
    let folder = plain("whole");
    let before = folder.content();
    let (status, said, complaint) = check(&folder, &["a.aof.manifest"]);
    assert_eq!((status, complaint.as_str()), (Some(0), ""), "{said}");
    for line in ["base         a.aof.1.base.aof: ", "increment    a.aof.2.incr.aof: ", ", 6 requests", " is whole: "] {
        assert!(said.contains(line), "{said}");
    }
    assert_eq!(folder.content(), before);
}

#[test]
fn a_torn_end_is_reported_with_its_cost_and_cut_off_on_request() {
    let folder = plain("torn");
    let path = folder.0.join("a.aof.2.incr.aof");
    let whole = fs::read(&path).expect("read");
    let torn = &whole[..whole.len() - 3];
    fs::write(&path, torn).expect("written");
    let before = folder.content();
    let (status, said, _) = check(&folder, &["a.aof.manifest"]);
    assert_eq!(status, Some(1), "{said}");
    let good = whole.windows(5).position(|bytes| bytes == b"MULTI").expect("it is there") - 8;
    assert!(said.contains(&format!("a.aof.2.incr.aof, byte {good}: ")), "{said}");
    assert!(said.contains("\"stream\", \"three\"") && said.contains("Nothing was changed"), "{said}");
    assert_eq!(folder.content(), before);
    let (status, said, complaint) = check(&folder, &["--fix", "a.aof.manifest"]);
    assert_eq!(status, Some(0), "{said}{complaint}");
    assert_eq!(fs::read(&path).expect("read"), &whole[..good]);
    assert_eq!(fs::read(folder.0.join("a.aof.2.incr.aof.backup")).expect("a backup"), torn);
    assert_eq!(check(&folder, &["a.aof.manifest"]).0, Some(0));
}

#[test]
fn damage_in_the_middle_costs_the_files_behind_it_and_they_are_kept() {
    let folder = plain("middle");
    let path = folder.0.join("a.aof.1.incr.aof");
    let mut bytes = fs::read(&path).expect("read");
    bytes.extend_from_slice(b"garbage");
    fs::write(&path, &bytes).expect("written");
    let (status, said, complaint) = check(&folder, &["--fix", "a.aof.manifest"]);
    assert_eq!(status, Some(0), "{said}{complaint}");
    assert!(said.contains("1 later files") && said.contains("\"two\""), "{said}");
    let manifest = fs::read_to_string(folder.0.join("a.aof.manifest")).expect("read");
    assert_eq!(manifest, "file a.aof.1.base.aof seq 1 type b\nfile a.aof.1.incr.aof seq 1 type i\n");
    for name in ["a.aof.1.incr.aof.backup", "a.aof.2.incr.aof.backup", "a.aof.manifest.backup"] {
        assert!(folder.0.join(name).exists(), "{name}");
    }
    assert!(!folder.0.join("a.aof.2.incr.aof").exists());
}

#[test]
fn requests_later_than_a_time_are_cut_off() {
    let folder = plain("time");
    let (status, said, _) = check(&folder, &["--truncate-to-timestamp", "1700000050", "a.aof.manifest"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("later than was asked for") && said.contains("\"three\"") && !said.contains("\"two\""),
        "{said}"
    );
    let (status, said, complaint) =
        check(&folder, &["--truncate-to-timestamp", "1700000050", "--fix", "a.aof.manifest"]);
    assert_eq!(status, Some(0), "{said}{complaint}");
    let left = fs::read_to_string(folder.0.join("a.aof.2.incr.aof")).expect("read");
    assert!(left.ends_with("two\r\n$1\r\n1\r\n"), "{left}");
}

#[test]
fn a_log_that_a_server_uses_is_not_mended() {
    let folder = plain("used");
    folder.put("a.aof.2.incr.aof", b"*1\r\n$4\r\nPI");
    let before = folder.content();
    let lock = RealDisk.lock(&folder.0.join("a.aof.lock"), 4_711).expect("nobody has it");
    let (status, said, complaint) = check(&folder, &["--fix", "a.aof.manifest"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(complaint.contains("process 4711") && complaint.contains("nothing was changed"), "{complaint}");
    assert!(check(&folder, &["a.aof.manifest"]).1.contains("It costs 10 bytes"), "to look is allowed");
    drop(lock);
    let changed = folder.content().into_iter().filter(|(name, _)| name != "a.aof.lock").collect::<Vec<_>>();
    assert_eq!(changed, before);
    assert_eq!(check(&folder, &["--fix", "a.aof.manifest"]).0, Some(0));
}

#[test]
fn damage_beyond_repair_is_left_unchanged_with_a_remedy() {
    let folder = plain("beyond");
    let cases: [(&str, &[u8], &str); 4] = [
        ("a.aof.manifest", b"file a.aof.1.base.aof seq 1 type x\n", "Unknown AOF file type"),
        ("a.aof.manifest", b"file no.aof seq 1 type b\n", "is not there"),
        ("a.aof.1.base.aof", b"garbage", "backup"),
        ("a.aof.1.base.aof", b"REDIS0010garbage", "sleeve check rdb"),
    ];
    for (name, content, sentence) in cases {
        let whole = fs::read(folder.0.join(name)).expect("read");
        folder.put(name, content);
        let before = folder.content();
        let (status, said, complaint) = check(&folder, &["--fix", "a.aof.manifest"]);
        assert_eq!(status, Some(1), "{said}");
        assert!(complaint.contains(sentence), "{complaint}");
        let after: Vec<_> = folder.content().into_iter().filter(|(name, _)| !name.ends_with(".lock")).collect();
        assert_eq!(after, before.into_iter().filter(|(name, _)| !name.ends_with(".lock")).collect::<Vec<_>>());
        folder.put(name, &whole);
    }
}

/// Removes the byte that redis-check-aof prints if a line ends too early: it lies behind the line in that tool's memory.
fn without_what_is_behind(said: &str) -> String {
    let mut parts = said.split("got: 00");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |said, part| said + "got: 00.." + part.get(2..).unwrap_or_default())
}

/// Checks the words of redis-check-aof for files of every kind, whole, torn and damaged, and its changes.
#[test]
fn called_by_the_name_of_redis_tool_it_answers_as_that_does() {
    let theirs = Kind::Redis.binary().expect("redis-server").with_file_name("redis-check-aof");
    let bin = Folder::new("bin");
    let ours = bin.0.join("redis-check-aof");
    std::os::unix::fs::symlink(SLEEVE, &ours).expect("a link");
    let whole = plain("tool").content();
    let increment = &whole.iter().find(|(name, _)| name == "a.aof.2.incr.aof").expect("it is there").1;
    let mut contents = vec![increment.clone(), Vec::new(), b"SET a 1\r\n".to_vec(), b"#only a comment\r\n".to_vec()];
    contents.extend((0..increment.len()).step_by(11).map(|length| increment[..length].to_vec()));
    for at in (0..increment.len()).step_by(7) {
        let mut turned = increment.clone();
        turned[at] = b'9';
        contents.push(turned);
    }
    let words: [&[&str]; 8] = [
        &["a.aof.2.incr.aof"],
        &["a.aof.manifest"],
        &["--fix", "a.aof.2.incr.aof"],
        &["--fix", "a.aof.manifest"],
        &["--truncate-to-timestamp", "1700000050", "a.aof.manifest"],
        &["--truncate-to-timestamp", "1700000050", "a.aof.2.incr.aof"],
        &["--truncate-to-timestamp", "1600000000", "a.aof.2.incr.aof"],
        &["--truncate-to-timestamp", "x", "a.aof.2.incr.aof"],
    ];
    for (index, content) in contents.iter().enumerate() {
        // Each content with one or two of the ways to ask.
        for words in [words[index % words.len()], words[(index / words.len()) % words.len()]] {
            let both = [&ours, &theirs].map(|tool| {
                let folder = plain("asked");
                folder.put("a.aof.2.incr.aof", content);
                let (status, said, _) = run(tool, &folder, words, "y\n");
                (status, without_what_is_behind(&said), folder.content())
            });
            assert!(both[0] == both[1], "{words:?} of {}:\n{}\n{}", content.escape_ascii(), both[0].1, both[1].1);
        }
    }
    for words in [&[][..], &["--no"], &["none.aof"], &["a", "b", "c", "d"]] {
        let folder = plain("words");
        let both = [&ours, &theirs].map(|tool| run(tool, &folder, words, ""));
        let plain = |said: &str| said.replace(&theirs.display().to_string(), "redis-check-aof");
        assert_eq!((both[0].0, both[0].1.clone()), (both[1].0, plain(&both[1].1)), "{words:?}");
    }
}

/// CVE-2025-27151: a path that is longer than any buffer is an error and no crash.
#[test]
fn a_path_of_any_length_is_reported() {
    let folder = Folder::new("long-path");
    for length in [4_096, 100_000] {
        let (code, _, errors) = check(&folder, &[&"x".repeat(length)]);
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains("File name too long"), "{}", &errors[errors.len().saturating_sub(200)..]);
    }
}

#[test]
fn the_log_of_a_real_server_is_read_with_its_snapshot() {
    let folder = Folder::new("real");
    let dir = folder.0.to_str().expect("a name in Unicode");
    let server = Server::start_with(Kind::Redis, &["--dir", dir, "--appendonly", "yes"]);
    let mut connection = server.connect();
    assert_eq!(connection.command(&["SET", "k", "v"]).expect("a reply"), b"+OK\r\n");
    drop(server);
    let (status, said, complaint) = check(&folder, &["appendonlydir/appendonly.aof.manifest"]);
    assert_eq!((status, complaint.as_str()), (Some(0), ""), "{said}");
    assert!(said.contains("a snapshot of 0 keys") && said.contains("2 requests"), "{said}");
    let bin = Folder::new("bin2");
    let ours = bin.0.join("redis-check-aof");
    std::os::unix::fs::symlink(SLEEVE, &ours).expect("a link");
    let theirs = Kind::Redis.binary().expect("redis-server").with_file_name("redis-check-aof");
    let both = [&ours, &theirs].map(|tool| run(tool, &folder, &["appendonlydir/appendonly.aof.manifest"], ""));
    assert_eq!(both[0].1, both[1].1);
}
