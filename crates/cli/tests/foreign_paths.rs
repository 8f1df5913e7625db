//! Tests of every option, argument and variable that names a path, pointed at a thing that is not the program's own: a
//! device, a directory, a FIFO, symbolic links, and another program's file. The program works without changing the thing, or
//! ends with an error that names it.
//!
//! The options of the server come from its table and the arguments of the tools from their completions, so that a new one
//! without a case here fails the test. The devices are made in the test's own folder, where the system lets us.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use sleeve_server::config::table::{self, Path as Names};

const SLEEVE: &str = env!("CARGO_BIN_EXE_sleeve");

/// A program that has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A name that no error has by chance.
const THING: &str = "xthing";

/// The contents of a file that belongs to another program.
const PRECIOUS: &str = "precious\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Device,
    Directory,
    Fifo,
    /// A link to an empty file.
    Link,
    /// A link to a file that does not exist.
    Dangling,
    LinkToDevice,
    Foreign,
}

const THINGS: [Thing; 7] =
    [Thing::Device, Thing::Directory, Thing::Fifo, Thing::Link, Thing::Dangling, Thing::LinkToDevice, Thing::Foreign];

impl Thing {
    /// Puts it at a path; false where the system does not let us.
    fn make(self, path: &Path) -> bool {
        let mode = Mode::from_raw_mode(0o622);
        let device = |path: &Path| mknodat(CWD, path, FileType::CharacterDevice, mode, makedev(1, 3)).is_ok();
        match self {
            Self::Device => return device(path),
            Self::Directory => fs::create_dir(path).and_then(|()| fs::write(path.join("kept"), PRECIOUS)).unwrap(),
            Self::Fifo => mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap(),
            Self::Link => {
                write(&path.with_file_name("target"), "");
                symlink("target", path).unwrap();
            }
            Self::Dangling => symlink("target", path).unwrap(),
            Self::LinkToDevice => {
                symlink("target", path).unwrap();
                return device(&path.with_file_name("target"));
            }
            Self::Foreign => write(path, PRECIOUS),
        }
        true
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o640)).unwrap();
}

/// The changes that are allowed to another's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    Kept,
    AppendedTo,
    /// Written or removed: an option that names the folder is about the files in it.
    Replaced,
}

#[derive(Clone, Copy, Debug)]
enum Runs {
    /// A server with these words, which is sent these commands and then SHUTDOWN.
    Server(&'static [&'static str], &'static [&'static str]),
    /// A tool with these words; its program has this name, if it is another's.
    Tool(Option<&'static str>, &'static [&'static str]),
    /// The shell of `sleeve cli` on a terminal, with this variable.
    Shell(&'static str),
}

#[derive(Clone, Copy, Debug)]
struct Case {
    /// The option or argument.
    name: &'static str,
    /// The place of the thing.
    at: &'static str,
    runs: Runs,
    files: Files,
}

const fn server(
    name: &'static str,
    at: &'static str,
    words: &'static [&'static str],
    commands: &'static [&'static str],
) -> Case {
    Case { name, at, runs: Runs::Server(words, commands), files: Files::Kept }
}

const fn tool(name: &'static str, at: &'static str, words: &'static [&'static str]) -> Case {
    Case { name, at, runs: Runs::Tool(None, words), files: Files::Kept }
}

const SWEEP: &[&str] = &[
    "bench",
    "sweep",
    "--rounds",
    "1",
    "--time",
    "5ms",
    "--clients",
    "1",
    "--depths",
    "1",
    "--tests",
    "ping_inline",
    "--memory-keys",
    "0",
    "--server",
    "here=SLEEVE serve",
    "--out",
    "out",
];
const WRITE: &[&str] = &["SET k v", "SAVE"];
const REWRITE: &[&str] = &["SET k v", "BGREWRITEAOF"];
const LOG: &[&str] = &["--appendonly", "yes", "--dir", "data", "--appendfilename", "x"];

const CASES: &[Case] = &[
    server("FILE", "xthing", &["xthing"], &["CONFIG SET maxmemory 1gb", "CONFIG REWRITE"]),
    server("include", "xthing", &["including.conf"], &["CONFIG REWRITE"]),
    server("unixsocket", "xthing", &["--unixsocket", "xthing"], &[]),
    server("aclfile", "xthing", &["--aclfile", "xthing"], &["ACL SETUSER ann on", "ACL SAVE", "ACL LOAD"]),
    Case { files: Files::AppendedTo, ..server("logfile", "xthing", &["--logfile", "xthing"], &["PING"]) },
    server("pidfile", "xthing", &["--pidfile", "xthing"], &[]),
    server(
        "cluster-config-file",
        "xthing",
        &["--cluster-enabled", "yes", "--cluster-port", "PORT", "--cluster-config-file", "xthing"],
        &["CLUSTER BUMPEPOCH"],
    ),
    server("dir", "xthing", &["--dir", "xthing"], WRITE),
    server("dbfilename", "data/xthing", &["--dir", "data", "--dbfilename", "xthing"], WRITE),
    server("repl-spill-dir", "xthing", &["--repl-spill-dir", "xthing"], WRITE),
    server(
        "appenddirname",
        "data/xthing",
        &["--appendonly", "yes", "--dir", "data", "--appenddirname", "xthing"],
        REWRITE,
    ),
    // The one file of a log of servers before Redis 7, and those of a log.
    server(
        "appendfilename",
        "data/xthing",
        &["--appendonly", "yes", "--dir", "data", "--appendfilename", "xthing"],
        REWRITE,
    ),
    server("appendfilename", "data/appendonlydir/x.manifest", LOG, REWRITE),
    // A file of this name is one that the program has not finished.
    Case { files: Files::Replaced, ..server("appendfilename", "data/appendonlydir/temp-x.manifest", LOG, REWRITE) },
    server("appendfilename", "data/appendonlydir/x.lock", LOG, REWRITE),
    Case { files: Files::Replaced, ..server("appendfilename", "data/appendonlydir/x.2.base.rdb", LOG, REWRITE) },
    server(
        "tls-cert-file",
        "xthing",
        &["--tls-port", "PORT", "--tls-cert-file", "xthing", "--tls-key-file", "no"],
        &[],
    ),
    server(
        "tls-key-file",
        "xthing",
        &["--tls-port", "PORT", "--tls-cert-file", "xthing", "--tls-key-file", "xthing"],
        &[],
    ),
    server(
        "tls-client-cert-file",
        "xthing",
        &[
            "--replicaof",
            "127.0.0.1",
            "PORT",
            "--tls-replication",
            "yes",
            "--tls-client-cert-file",
            "xthing",
            "--tls-client-key-file",
            "no",
        ],
        &[],
    ),
    server(
        "tls-client-key-file",
        "xthing",
        &[
            "--replicaof",
            "127.0.0.1",
            "PORT",
            "--tls-replication",
            "yes",
            "--tls-client-cert-file",
            "xthing",
            "--tls-client-key-file",
            "xthing",
        ],
        &[],
    ),
    server("tls-ca-cert-file", "xthing", &["--tls-ca-cert-file", "xthing"], &["CONFIG SET tls-auth-clients no"]),
    server("tls-ca-cert-dir", "xthing", &["--tls-ca-cert-dir", "xthing"], &["CONFIG SET tls-auth-clients no"]),
    Case { name: "REDISCLI_HISTFILE", at: "xthing", runs: Runs::Shell("REDISCLI_HISTFILE"), files: Files::AppendedTo },
    tool("-s", "xthing", &["cli", "-s", "xthing", "PING"]),
    tool("--eval", "xthing", &["cli", "--eval", "xthing", "-p", "1"]),
    // A snapshot that does not come replaces nothing; `programs` has those that come.
    tool("--rdb", "xthing", &["cli", "-p", "1", "--rdb", "xthing"]),
    tool("--functions-rdb", "xthing", &["cli", "-p", "1", "--functions-rdb", "xthing"]),
    tool(":target", "xthing", &["backup", "-p", "1", "xthing"]),
    tool("--salvage", "xthing", &["check", "rdb", "--salvage", "xthing", "including.conf"]),
    tool(":file", "xthing", &["restore", "--no-checksum", "xthing", "."]),
    tool("--cacert", "xthing", &["cli", "-p", "1", "--tls", "--cacert", "xthing", "PING"]),
    tool("--cacertdir", "xthing", &["cli", "-p", "1", "--tls", "--cacertdir", "xthing", "PING"]),
    tool("--cert", "xthing", &["cli", "-p", "1", "--tls", "--cert", "xthing", "--key", "xthing", "PING"]),
    tool("--key", "xthing", &["cli", "-p", "1", "--tls", "--cert", "no", "--key", "xthing", "PING"]),
    tool("-o", "xthing", &["bench", "sweep", "-o", "xthing", "--server", "none=redis://127.0.0.1:1"]),
    tool("--redraw", "xthing", &["bench", "sweep", "--redraw", "xthing", "-o", "redrawn"]),
    Case { files: Files::Replaced, ..tool("--out", "out/sweep.csv", SWEEP) },
    tool(":file", "xthing", &["check", "rdb", "xthing"]),
    tool(":file", "xthing", &["check", "aof", "xthing"]),
    // All of it is no log: it is cut off, and kept beside it.
    Case { files: Files::Replaced, ..tool(":file", "xthing", &["check", "aof", "--fix", "xthing"]) },
    Case { runs: Runs::Tool(Some("redis-check-rdb"), &["xthing"]), ..tool("redis-check-rdb", "xthing", &[]) },
    Case {
        runs: Runs::Tool(Some("redis-check-aof"), &["--fix", "xthing"]),
        files: Files::Replaced,
        ..tool("redis-check-aof", "xthing", &[])
    },
    tool(":folder", "xthing", &["reference", "man", "xthing"]),
    Case { files: Files::Replaced, ..tool(":folder", "out/sleeve.1", &["reference", "man", "out"]) },
];

/// The files that are written through a link: the option, the link, and the text behind it then.
const BEHIND_LINKS: &[(&str, Thing, &str)] = &[
    ("FILE", Thing::Link, "maxmemory 1gb"),
    ("aclfile", Thing::Link, "user ann on"),
    ("logfile", Thing::Link, "Sleeve is starting"),
    ("logfile", Thing::Dangling, "Sleeve is starting"),
    ("dbfilename", Thing::Dangling, "REDIS"),
    ("REDISCLI_HISTFILE", Thing::Link, "PING"),
    ("REDISCLI_HISTFILE", Thing::Dangling, "PING"),
    ("--out", Thing::Link, "PING_INLINE"),
    (":folder", Thing::Dangling, ".TH "),
];

/// The arguments with which the client waits for the writer of a FIFO: it reads certificates as `cat` would.
const WAITS_FOR_WRITER: &[&str] = &["--cacert", "--cert", "--key"];

#[test]
fn every_option_that_names_a_path_has_a_case_here() {
    let cased: BTreeSet<&str> = CASES.iter().map(|case| case.name).collect();
    for row in table::ROWS.iter().filter(|row| row.kind.path() != Names::None) {
        assert!(cased.contains(row.name), "the option {} has no case", row.name);
    }
    let completions = Command::new(SLEEVE).args(["reference", "completions", "zsh"]).output().unwrap().stdout;
    let completions = String::from_utf8(completions).unwrap();
    // Such a line is '-o+[...]:folder:_files', '(--cpu --server)--redraw=[...]:file:_files', with the options that exclude it
    // in front, or ':file -- The file:_files'.
    let mut found = 0;
    for line in completions.lines().filter(|line| line.contains(":_files'")) {
        let listed = line.trim_start_matches(['\'', '*']);
        let behind_list = listed.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let option = behind_list.map_or(listed, |(_, option)| option).trim_start_matches('*');
        let name = option.split(['=', '+', '[', ' ']).next().unwrap_or_default().trim_end_matches(':');
        assert!(cased.contains(name), "{name} has no case: {line}");
        found += 1;
    }
    assert!(found >= 10, "{completions}");
}

#[test]
fn files_that_are_not_the_programs_own_stay_unchanged() {
    let root = std::env::temp_dir().join(format!("sleeve-foreign-{}", std::process::id()));
    fs::create_dir_all(&root).unwrap();
    let try_all = |thing: Thing| {
        let one = |(number, case): (usize, &Case)| {
            let folder = root.join(format!("{thing:?}-{number}"));
            std::panic::catch_unwind(|| try_one(*case, thing, &folder)).is_err()
        };
        CASES.iter().enumerate().filter(|case| one(*case)).count()
    };
    // All that is wrong is told at once.
    let failed: usize = std::thread::scope(|scope| {
        let threads = THINGS.map(|thing| scope.spawn(move || try_all(thing)));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    fs::remove_dir_all(&root).unwrap();
    assert_eq!(failed, 0, "see above");
}

fn try_one(case: Case, thing: Thing, folder: &Path) {
    if thing == Thing::Fifo && WAITS_FOR_WRITER.contains(&case.name) {
        return;
    }
    let path = folder.join(case.at);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::create_dir_all(folder.join("data")).unwrap();
    write(&folder.join("including.conf"), "include xthing\n");
    if !thing.make(&path) {
        return;
    }
    let before = Facts::of(&path, thing);
    let (succeeded, output) = match case.runs {
        Runs::Server(words, commands) => run_server(case, words, commands, folder),
        Runs::Tool(name, words) => run_tool(name, words, folder),
        Runs::Shell(variable) => run_shell(variable, folder),
    };
    let told = format!("{} {thing:?} at {}: {output}", case.name, case.at);
    if thing == Thing::Foreign && case.files == Files::Replaced && !path.exists() {
        return;
    }
    let after = Facts::of(&path, thing);
    let is_written = thing == Thing::Foreign && case.files != Files::Kept;
    if is_written {
        assert_eq!((after.mode, after.owner), (before.mode, before.owner), "{told}");
        let is_appended = after.content.as_deref().is_some_and(|text| text.starts_with(PRECIOUS.as_bytes()));
        assert!(case.files == Files::Replaced || is_appended, "{told}");
    } else {
        assert_eq!(after, before, "{told}");
    }
    assert!(!output.contains("panicked"), "{told}");
    // Another's file may be read to be judged, and is then named as configurations and snapshots are.
    let last = Path::new(case.at).file_name().unwrap().to_str().unwrap();
    // The target of a link may be named instead. A program that got as far as the server has read the file.
    let is_named =
        thing == Thing::Foreign || [last, "/target", "Connection refused"].iter().any(|name| output.contains(name));
    assert!(succeeded || is_named, "the thing is not named: {told}");
    for (.., text) in BEHIND_LINKS.iter().filter(|(name, link, _)| *name == case.name && *link == thing) {
        let target = fs::read(path.with_file_name("target")).unwrap_or_default();
        // Of two cases of a name one is about the folder.
        assert!(
            String::from_utf8_lossy(&target).contains(text) || case.at == THING && case.name == ":folder",
            "{told}"
        );
    }
}

/// The facts of a thing that must not change.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    mode: u32,
    owner: (u32, u32),
    device: u64,
    inode: u64,
    /// Of another's file, or of the one in a folder.
    content: Option<Vec<u8>>,
    /// The target of a link, and the permissions of the file there; those of an empty file are ours to see to, and stay too.
    link: Option<(PathBuf, u32, u64)>,
}

impl Facts {
    fn of(path: &Path, thing: Thing) -> Self {
        let found = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{} is gone: {error}", path.display()));
        let content = match thing {
            Thing::Directory => Some(fs::read(path.join("kept")).unwrap()),
            Thing::Foreign => Some(fs::read(path).unwrap()),
            _ => None,
        };
        let link = fs::read_link(path).ok().map(|target| {
            let behind = fs::metadata(path).ok();
            // If a file is made or taken away behind a link, the option asks for that.
            let (mode, device) = behind.map_or((0o640, 0), |behind| match thing {
                Thing::Dangling => (0o640, 0),
                _ => (behind.mode() & 0o777, behind.rdev()),
            });
            (target, mode, device)
        });
        Self {
            mode: found.mode(),
            owner: (found.uid(), found.gid()),
            device: found.rdev(),
            inode: found.ino(),
            content,
            link,
        }
    }
}

/// Starts a program in a folder, with its output in a file there.
fn spawn(command: &mut Command, folder: &Path) -> Child {
    let output = File::create(folder.join("output")).unwrap();
    command.current_dir(folder).stdout(output.try_clone().unwrap()).stderr(output);
    command.spawn().unwrap()
}

fn output(folder: &Path) -> String {
    String::from_utf8_lossy(&fs::read(folder.join("output")).unwrap()).into_owned()
}

/// Waits until a program has ended, or `look` has found something.
fn wait<T>(child: &mut Child, folder: &Path, mut look: impl FnMut() -> Option<T>) -> Result<T, bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if let Some(status) = child.try_wait().unwrap() {
            return Err(status.success());
        }
        if Instant::now() > deadline {
            // It may have ended this moment.
            let _ = child.kill();
            panic!("it hangs in {}: {}", folder.display(), output(folder));
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

fn run_tool(name: Option<&str>, words: &[&str], folder: &Path) -> (bool, String) {
    let mut command = Command::new(SLEEVE);
    name.iter().for_each(|name| _ = command.arg0(name));
    command.args(words.iter().map(|word| word.replace("SLEEVE", SLEEVE))).stdin(Stdio::null());
    let ended = wait::<()>(&mut spawn(&mut command, folder), folder, || None);
    (ended == Err(true), output(folder))
}

fn run_shell(variable: &str, folder: &Path) -> (bool, String) {
    let line = format!("exec {SLEEVE} cli -s none");
    let mut command = Command::new("script");
    command.args(["-q", "-e", "-c", &line, "typescript"]).env("TERM", "dumb").env(variable, THING);
    let mut child = spawn(command.stdin(Stdio::piped()), folder);
    child.stdin.take().unwrap().write_all(b"PING\rquit\r").unwrap();
    let ended = wait::<()>(&mut child, folder, || None);
    (ended == Err(true), output(folder))
}

fn run_server(case: Case, words: &[&str], commands: &[&str], folder: &Path) -> (bool, String) {
    let socket = folder.join(if case.name == "unixsocket" { THING } else { "s" });
    let mut command = Command::new(SLEEVE);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    command.arg("serve").args(words.iter().map(|word| if *word == "PORT" { &free } else { *word }));
    command.args(["--port", "0"]);
    if case.name != "unixsocket" {
        command.arg("--unixsocket").arg(&socket);
    }
    let mut child = spawn(command.stdin(Stdio::null()), folder);
    let connection = match wait(&mut child, folder, || ready(&socket)) {
        Err(succeeded) => return (succeeded, output(folder)),
        Ok(connection) => connection,
    };
    let mut said = String::new();
    let mut lines = BufReader::new(connection);
    for command in commands.iter().chain(&["SHUTDOWN", "SHUTDOWN NOSAVE FORCE"]) {
        // The last is for a server that could not save, and has not ended.
        let sent = lines.get_mut().write_all(format!("{command}\r\n").as_bytes());
        if sent.is_err() || lines.read_line(&mut said).is_err() {
            break;
        }
    }
    let ended = wait::<()>(&mut child, folder, || None);
    (ended == Err(true), output(folder) + &said)
}

/// Returns a connection, once the server has its data.
fn ready(socket: &Path) -> Option<UnixStream> {
    let mut connection = UnixStream::connect(socket).ok()?;
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(b"PING\r\n").ok()?;
    let mut reply = String::new();
    BufReader::new(connection.try_clone().unwrap()).read_line(&mut reply).ok()?;
    (reply == "+PONG\r\n").then_some(connection)
}
