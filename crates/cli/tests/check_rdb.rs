//! `sleeve check rdb`: its reports on the contents and faults of a file, and the tool's words under Redis's name.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sleeve_store::ValueRef;
use sleeve_store::rdb::Version;
use sleeve_store::rdb::file::{About, Access, Format, Head, Writer};
use sleeve_store::rdb::types::{set, string};

/// A folder of its own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sleeve-check-rdb-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder of our own");
        Self(folder)
    }

    fn write(&self, bytes: &[u8]) -> PathBuf {
        let file = self.0.join("dump.rdb");
        std::fs::write(&file, bytes).expect("written");
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Three strings, one with a deadline that is over, a set, and a library.
fn file() -> Vec<u8> {
    let mut writer = Writer::new(Format { version: Version::Ten, is_compressing: true, is_summing: true });
    writer.about(&About { server_version: "7.0.15", written_s: 1_700_000_000, used_memory: 9, is_log_base: false });
    writer.function(b"#!lua name=lib");
    writer.select(0);
    writer.sizes(3, 1);
    for (key, deadline) in [("one", None), ("two", Some(1000)), ("three", None)] {
        let head = Head { key: key.as_bytes(), deadline, access: Access::Unknown };
        string::write_string(writer.record(&head), ValueRef::Bytes(b"a value that is easily found"));
    }
    writer.select(7);
    writer.sizes(1, 0);
    set::open(writer.record(&Head { key: b"set", deadline: None, access: Access::Unknown }), 1);
    set::write_member(writer.parts(), ValueRef::Bytes(b"member"));
    writer.end().expect("version 10 knows strings and sets");
    writer.drain(<[u8]>::to_vec)
}

fn check(file: &Path) -> (Option<i32>, String, String) {
    told(Command::new(env!("CARGO_BIN_EXE_sleeve")).args(["check", "rdb"]).arg(file).output().expect("it runs"))
}

fn told(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_whole_file_is_counted() {
    let folder = Folder::new("whole");
    let (code, said, complaint) = check(&folder.write(&file()));
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    for line in [
        "format       version 10 of Redis",
        "redis-ver    7.0.15",
        "functions    1 library",
        "database 0   3 keys, 1 with a deadline, 1 of them over",
        "database 7   1 key, 0 with a deadline, 0 of them over",
        "set          1 key",
        "string       3 keys",
    ] {
        assert!(said.lines().any(|own| own == line), "{line} is missing in\n{said}");
    }
    assert!(
        said.lines().last().is_some_and(|last| last.ends_with(&format!("is whole: {} bytes", file().len()))),
        "{said}"
    );
}

#[test]
fn damage_is_reported_with_its_byte_and_its_cost() {
    let folder = Folder::new("damage");
    let mut cut = file();
    let at = cut.windows(5).position(|window| window == b"three").expect("the key");
    cut.truncate(at + 12);
    let (code, said, complaint) = check(&folder.write(&cut));
    assert_eq!(code, Some(1));
    assert!(said.contains("database 0   2 keys"), "{said}");
    let record = at - 2;
    for part in [
        format!("in the record of the key \"three\" of database 0 that begins at byte {record}"),
        "It costs the key \"three\" and what stands behind it, 1 key at least. 2 keys in front of it can be read."
            .to_owned(),
    ] {
        assert!(complaint.contains(&part), "{part} is missing in\n{complaint}");
    }
    let mut changed = file();
    let at = changed.windows(5).position(|window| window == b"found").expect("the value");
    changed[at] ^= 1;
    let (code, _, complaint) = check(&folder.write(&changed));
    assert!(
        code == Some(1) && complaint.contains("All 4 keys can be read, and any of them may have changed"),
        "{complaint}"
    );
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let folder = Folder::new("other");
    for (bytes, reason) in [(&b"bind 127.0.0.1\n"[..], "no RDB file"), (b"REDIS0099\xff", "REDIS0099")] {
        let (code, said, complaint) = check(&folder.write(bytes));
        assert_eq!((code, said.as_str()), (Some(1), ""));
        assert!(complaint.contains(reason) && complaint.contains("Nothing of it can be read."), "{complaint}");
    }
    for (path, reason) in [(folder.0.join("absent"), "No such file"), (folder.0.clone(), "is a folder")] {
        let (code, _, complaint) = check(&path);
        assert!(code == Some(1) && complaint.contains(reason), "{complaint}");
    }
}

/// Checks that the words are those of redis-check-rdb of Redis 7.0, except for the text behind the name of a fault.
#[test]
fn under_the_name_of_redis_tool_it_answers_as_that_does() {
    let folder = Folder::new("name");
    let tool = folder.0.join("redis-check-rdb");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sleeve"), &tool).expect("a name for the program");
    let cut = file()[..150].to_vec();
    for bytes in [file(), cut] {
        let path = folder.write(&bytes);
        let ask = |program: &Path| told(Command::new(program).arg(&path).output().expect("it runs"));
        let (ours, theirs) = (ask(&tool), ask(Path::new("redis-check-rdb")));
        assert_eq!(ours.0, theirs.0);
        let lines = |said: &str| {
            let kept =
                |line: &&str| !line.starts_with("[additional") && !line.contains("] at byte") && !line.contains("EOF");
            said.lines().filter(kept).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(&ours.1), lines(&theirs.1));
    }
}
