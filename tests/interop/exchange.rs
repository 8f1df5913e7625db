//! Data that goes from our server to those of other makers and back, as a snapshot and as a whole log: random values of every
//! type and encoding, with groups, deadlines and functions, and after each step the same contents.
//!
//! On the way the files are shown to the tools of the other maker, and to ours by their names: none finds anything wrong.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use sleeve_tests::random::{Random, seed};
use sleeve_tests::{Kind, Server};

use crate::interop::rdb_files;
use crate::persistence::replay::peer;
use sleeve_tests::probe::{ask, digest, heir, info, wait_until};

/// The form in which a server's data is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    /// A snapshot.
    Snapshot,
    /// An AOF with a snapshot as its base, and as much data behind it.
    SnapshotBase,
    /// An AOF with a base of requests, and as much data behind it.
    RequestsBase,
}

use Keeping::{RequestsBase, Snapshot, SnapshotBase};

impl Keeping {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Snapshot => &["--save", "3600 1000000"],
            SnapshotBase => &["--appendonly", "yes"],
            RequestsBase => &["--appendonly", "yes", "--aof-use-rdb-preamble", "no"],
        }
    }

    /// Adds data to a server, and makes it keep the data in this form.
    fn keep(self, server: &Server, random: &mut Random, has_timed: bool) {
        let mut connection = server.connect();
        rdb_files::fill(&mut connection, random, has_timed);
        match self {
            Snapshot => assert_eq!(ask(&mut connection, &["SAVE"]), "+OK\r\n"),
            SnapshotBase | RequestsBase => {
                assert!(ask(&mut connection, &["BGREWRITEAOF"]).starts_with('+'));
                wait_until("the rewrite", || {
                    info(server, "aof_rewrite_in_progress") == "0" && info(server, "aof_rewrite_scheduled") == "0"
                });
                assert_eq!(info(server, "aof_last_bgrewrite_status"), "ok", "{}", server.log());
                rdb_files::fill(&mut connection, random, has_timed);
            }
        }
    }

    /// Returns the file that a check tool is given, with the data that this server keeps.
    fn file(self, server: &Server) -> PathBuf {
        let name = if self == Snapshot { "dump.rdb" } else { "appendonlydir/appendonly.aof.manifest" };
        server.folder().join(name)
    }
}

/// Returns the data of a server in a form that `kind` can compare: a digest of everything, if it computes digests as Sleeve
/// does.
fn held(kind: Kind, server: &Server) -> Vec<String> {
    if kind == Kind::Redis {
        return vec![digest(server)];
    }
    let mut connection = server.connect();
    peer::contents(kind, &mut |words| connection.command(words).expect("it answers"))
}

fn assert_same(what: &str, before: &[String], after: &[String]) {
    let differing: Vec<_> = before.iter().zip(after).filter(|(before, after)| before != after).take(3).collect();
    assert!(differing.is_empty() && before.len() == after.len(), "{what}: {differing:#?}");
}

/// Runs a server's binary by the name of a tool.
fn tool(kind: Kind, name: &str, file: &Path) -> Output {
    let binary = kind.binary().unwrap_or_else(|reason| panic!("{reason}"));
    Command::new(binary).arg0(name).arg(file).output().expect("it runs")
}

/// Returns whether a tool finds a file whole, and its output.
fn verdict(output: &Output) -> (bool, String) {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_good = ["RDB looks OK!", "All AOF files and manifest are valid"].iter().any(|good| said.contains(good));
    assert_eq!(is_good, output.status.success(), "{said}");
    (is_good, said)
}

/// Checks the files of a server: its maker's tool finds no fault in them, and neither do Sleeve's tools, under their own name
/// and, as far as Redis's tools understand the files, under theirs.
fn check(kind: Kind, keeping: Keeping, server: &Server) {
    let (file, what) = (keeping.file(server), if keeping == Snapshot { "rdb" } else { "aof" });
    let maker = if kind == Kind::Valkey { "valkey" } else { "redis" };
    // Valkey's own tool takes a base in Valkey's own format for one in requests; its server does not.
    if (kind, keeping) != (Kind::Valkey, SnapshotBase) {
        let (is_good, said) = verdict(&tool(kind, &format!("{maker}-check-{what}"), &file));
        assert!(is_good, "{} {keeping:?}: {said}", kind.name());
    }
    let sleeve = Kind::Sleeve.binary().expect("it is built");
    let ours = Command::new(sleeve).args(["check", what]).arg(&file).output().expect("it runs");
    assert!(ours.status.success(), "{keeping:?}: {}", String::from_utf8_lossy(&ours.stdout));
    if kind != Kind::Valkey {
        let (is_good, said) = verdict(&tool(Kind::Sleeve, &format!("redis-check-{what}"), &file));
        assert!(is_good, "{keeping:?}: {said}");
    }
}

/// Takes data from Sleeve to a server of this kind, changes it there, and takes it back.
fn there_and_back(kind: Kind, keeping: Keeping, random: &mut Random) {
    let (route, has_timed) = (format!("{} {keeping:?}", kind.name()), kind != Kind::Redis);
    let own: Vec<&str> = match kind {
        Kind::Valkey => [keeping.arguments(), &["--rdb-format", "valkey"]].concat(),
        _ => keeping.arguments().to_vec(),
    };
    let mut ours = Server::start_with(Kind::Sleeve, &[&["--enable-debug-command", "yes"], &own[..]].concat());
    keeping.keep(&ours, random, has_timed);
    let before = held(kind, &ours);
    ours.kill();
    check(kind, keeping, &ours);
    let mut theirs = heir(kind, &ours, keeping.arguments());
    assert_same(&format!("{route}, there"), &before, &held(kind, &theirs));
    keeping.keep(&theirs, random, has_timed);
    // A killed Redis may lack writes that it acknowledged while a sync was under way.
    let _ = theirs.connect().command(&["SHUTDOWN"]);
    assert!(theirs.wait_for_exit(Duration::from_secs(30)).expect("it ends").success());
    // The expected data is that which the server reads from its own files: its AOF lacks consumers that have never received
    // an entry.
    theirs.restart().expect("it starts again");
    let before = held(kind, &theirs);
    theirs.kill();
    check(kind, keeping, &theirs);
    let back = heir(Kind::Sleeve, &theirs, &own);
    assert_same(&format!("{route}, back"), &before, &held(kind, &back));
    assert_eq!(ask(&mut back.connect(), &["FCALL", "hello", "0"]), "$5\r\nhello\r\n");
}

fn exchange(kind: Kind, own_seed: u64) {
    let mut random = Random::new(seed(own_seed));
    for keeping in [Snapshot, SnapshotBase, RequestsBase] {
        there_and_back(kind, keeping, &mut random);
    }
}

#[test]
fn snapshots_and_logs_go_to_redis_7_and_back() {
    exchange(Kind::Redis, 71);
}

#[test]
fn snapshots_and_logs_go_to_redis_8_and_back() {
    exchange(Kind::Redis8, 72);
}

#[test]
fn snapshots_and_logs_go_to_valkey_9_and_back() {
    exchange(Kind::Valkey, 73);
}
