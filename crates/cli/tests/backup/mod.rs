//! `sleeve backup` and `sleeve restore`: snapshots of running servers, kept with their checksums, and put back.

mod faults;
mod restore;
mod rotation;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sleeve_tests::probe::{ask, digest, fill};
use sleeve_tests::{Kind, Server};

const SLEEVE: &str = env!("CARGO_BIN_EXE_sleeve");

/// A folder of its own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sleeve-backup-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder of our own");
        Self(folder)
    }

    fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the names in the folder, in order.
    fn names(&self) -> Vec<String> {
        names(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns the command `sleeve` with these words, without a password from the environment.
fn command<W: AsRef<OsStr>>(words: &[W]) -> Command {
    let mut command = Command::new(SLEEVE);
    command.args(words).stdin(Stdio::null()).env_remove("REDISCLI_AUTH").env_remove("VALKEYCLI_AUTH");
    command
}

/// Returns the exit status, the output and the complaints.
fn told(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn run<W: AsRef<OsStr>>(words: &[W]) -> (Option<i32>, String, String) {
    told(command(words).output().expect("it runs"))
}

/// Backs a server up into a file, and checks that it worked.
fn back_up(server: &Server, target: &Path) -> String {
    let (code, said, complaint) = run(&[OsStr::new("backup"), OsStr::new(&server.url()), target.as_os_str()]);
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{said}");
    said
}

/// Starts a server that answers DEBUG DIGEST and sends snapshots at once.
fn start(kind: Kind) -> Server {
    Server::start_with(kind, &["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"])
}

/// Checks a file against the checksum beside it, by the program for it.
fn sums_are_right(folder: &Path, name: &str) -> bool {
    let check = Command::new("sha256sum").arg("-c").arg(format!("{name}.sha256")).current_dir(folder).output();
    check.is_ok_and(|check| check.status.success())
}

/// The database of the writes that go on during a backup.
const BUSY: &str = "9";

/// Works while a writer goes on in its own database, which is empty again in the end.
fn under_load<R>(server: &Server, work: impl FnOnce() -> R) -> R {
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = server.connect();
            ask(&mut connection, &["SELECT", BUSY]);
            while !is_over.load(Ordering::Relaxed) {
                let number = written.fetch_add(1, Ordering::Relaxed).to_string();
                ask(&mut connection, &["SET", &format!("busy:{number}"), &number]);
            }
            ask(&mut connection, &["FLUSHDB"]);
        });
        while written.load(Ordering::Relaxed) < 100 {
            std::thread::yield_now();
        }
        let before = written.load(Ordering::Relaxed);
        let result = work();
        assert!(written.load(Ordering::Relaxed) > before, "the writer stood still");
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn a_snapshot_taken_under_load_is_restored_to_the_same_data() {
    for kind in [Kind::Sleeve, Kind::Redis, Kind::Valkey] {
        let folder = Folder::new(&format!("load-{}", kind.name()));
        let server = start(kind);
        fill(&server);
        let said = under_load(&server, || back_up(&server, &folder.0));
        let snapshot = folder.names().remove(0);
        assert!(said.contains(&snapshot) && said.contains(" keys, ") && said.ends_with(" bytes, checked\n"), "{said}");
        assert_eq!(folder.names(), [snapshot.clone(), format!("{snapshot}.sha256")], "nothing else is left");
        assert!(sums_are_right(&folder.0, &snapshot));
        let mut heir = start(Kind::Sleeve);
        heir.kill();
        let data = heir.folder().to_owned();
        let (code, said, complaint) =
            run(&[OsStr::new("restore"), folder.join(&snapshot).as_os_str(), data.as_os_str()]);
        assert_eq!((code, complaint.as_str()), (Some(0), ""), "{said}");
        heir.restart().expect("it starts on the snapshot");
        let mut connection = heir.connect();
        ask(&mut connection, &["SELECT", BUSY]);
        assert_ne!(ask(&mut connection, &["DBSIZE"]), ":0\r\n", "the writer was at work");
        ask(&mut connection, &["FLUSHDB"]);
        assert_eq!(digest(&heir), digest(&server), "{}", kind.name());
    }
}

#[test]
fn a_file_is_replaced_only_by_force() {
    let folder = Folder::new("file");
    let server = start(Kind::Sleeve);
    ask(&mut server.connect(), &["SET", "key", "1"]);
    let (url, file) = (server.url(), folder.join("own name.rdb"));
    back_up(&server, &file);
    let first = fs::read(&file).expect("a snapshot");
    ask(&mut server.connect(), &["SET", "key", "2"]);
    let file_name = file.to_str().expect("letters");
    let (code, _, complaint) = run(&["backup", &url, file_name]);
    assert!(code == Some(1) && complaint.contains("add --force"), "{complaint}");
    assert_eq!(fs::read(&file).expect("a snapshot"), first);
    let (code, _, complaint) = run(&["backup", "--force", &url, file_name]);
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    assert_ne!(fs::read(&file).expect("a snapshot"), first);
    assert_eq!(folder.names(), ["own name.rdb", "own name.rdb.sha256"]);
    assert!(sums_are_right(&folder.0, "own name.rdb"));
    // A checksum that stands there alone is of an unknown file.
    fs::remove_file(&file).expect("it was there");
    let (code, _, complaint) = run(&["backup", &url, file_name]);
    assert!(code == Some(1) && complaint.contains("its .sha256 is there"), "{complaint}");
}
