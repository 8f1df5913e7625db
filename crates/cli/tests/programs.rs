//! The binary called by the names of Redis's and Valkey's programs, beside Redis's own where both can be compared.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sleeve_tests::{Kind, Server, Settings};

const SLEEVE: &str = env!("CARGO_BIN_EXE_sleeve");

/// A folder with a link to the binary under each name.
struct Names(PathBuf);

impl Names {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sleeve-names-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for family in ["redis", "valkey"] {
            for program in ["server", "cli", "benchmark", "check-rdb", "check-aof", "sentinel"] {
                symlink(SLEEVE, folder.join(format!("{family}-{program}"))).expect("a link");
            }
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn run(&self, name: &str, words: &[&str]) -> Output {
        run(&self.path(name), &self.0, words)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(program: &Path, folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).stdin(Stdio::null()).env_remove("REDISCLI_AUTH");
    command.output().expect("it runs")
}

/// Starts a server with this password; an empty one is none.
fn start_with_password(kind: Kind, password: &str) -> Server {
    let arguments = vec!["--requirepass".to_owned(), password.to_owned()];
    let password = (!password.is_empty()).then(|| password.to_owned());
    Server::try_start(kind, Settings { arguments, password }).expect("it starts")
}

fn shown(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn the_command_line_client_answers_as_redis_cli_does() {
    let names = Names::new("cli");
    for password in ["", "secret"] {
        let server = start_with_password(Kind::Redis, password);
        let port = server.port().to_string();
        let redis_cli = Path::new("redis-cli");
        for words in [
            &["-p", &port, "ping"][..],
            &["-a", "secret", "-p", &port, "ping"],
            &["-h", "127.0.0.1", "-p", &port, "--no-auth-warning", "-a", "secret", "ping"],
            &["-p", &port, "--raw", "get", "nothing"],
            &["-p", "1", "ping"],
        ] {
            // Some answers depend on whether the server knows the password's user, and the texts of the system are the same.
            let theirs = shown(&run(redis_cli, &names.0, words));
            for name in ["redis-cli", "valkey-cli"] {
                assert_eq!(shown(&names.run(name, words)), theirs, "{name} {words:?}");
            }
        }
    }
}

#[test]
fn a_password_comes_from_the_environment() {
    let names = Names::new("environment");
    let server = start_with_password(Kind::Sleeve, "secret");
    let port = server.port().to_string();
    for (name, variable) in
        [("redis-cli", "REDISCLI_AUTH"), ("valkey-cli", "REDISCLI_AUTH"), ("valkey-cli", "VALKEYCLI_AUTH")]
    {
        let mut command = Command::new(names.path(name));
        let output = command.args(["-p", &port, "ping"]).env(variable, "secret").output().expect("it runs");
        assert_eq!(shown(&output), ("PONG\n".into(), String::new(), Some(0)), "{name} {variable}");
    }
}

#[test]
fn versions_begin_as_scripts_expect() {
    let names = Names::new("version");
    for family in ["redis", "valkey"] {
        for (program, beginning) in
            [("server", "Redis server v=7.2."), ("cli", "redis-cli 7.2."), ("benchmark", "redis-benchmark 7.2.")]
        {
            let (said, _, code) = shown(&names.run(&format!("{family}-{program}"), &["--version"]));
            assert!(said.starts_with(beginning) && code == Some(0), "{family}-{program}: {said}");
        }
    }
}

#[test]
fn a_sentinel_is_refused_with_a_sentence() {
    let names = Names::new("sentinel");
    std::fs::write(names.path("x.conf"), "port 26379\n").expect("written");
    let calls: [(&str, &[&str]); 4] = [
        ("redis-sentinel", &["x.conf"]),
        ("valkey-sentinel", &["x.conf"]),
        ("redis-server", &["x.conf", "--sentinel"]),
        ("redis-server", &["--sentinel"]),
    ];
    for (name, words) in calls {
        let (said, complaint, code) = shown(&names.run(name, words));
        assert!(said.is_empty() && code == Some(1), "{name} {words:?}: {said}");
        assert!(complaint.starts_with("Sleeve has no Sentinel of its own yet."), "{complaint}");
    }
}

#[test]
fn a_benchmark_and_the_checks_run_by_their_names() {
    let names = Names::new("others");
    let server = Server::start(Kind::Sleeve);
    let port = server.port().to_string();
    let (said, complaint, code) = shown(&names.run("redis-benchmark", &["-p", &port, "-n", "100", "-t", "set", "-q"]));
    assert!(said.contains("SET: ") && code == Some(0), "{said}{complaint}");
    let saved = names.run("redis-cli", &["-p", &port, "--rdb", "dump.rdb"]);
    assert!(saved.status.success(), "{:?}", shown(&saved));
    for name in ["redis-check-rdb", "valkey-check-rdb"] {
        let (said, _, code) = shown(&names.run(name, &["dump.rdb"]));
        assert!(said.contains("RDB looks OK!") && code == Some(0), "{said}");
    }
    assert_eq!(names.run("redis-check-aof", &["dump.aof"]).status.code(), Some(1));
}

/// The lines on the error output of a snapshot's transfer, without the length, which differs between servers.
fn progress(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let neutral = |line: &str| line.split(" after ").next().unwrap_or_default().to_owned();
    text.lines().map(neutral).collect()
}

#[test]
fn a_snapshot_is_fetched_from_each_server_as_redis_cli_does() {
    let names = Names::new("rdb");
    for kind in [Kind::Sleeve, Kind::Redis, Kind::Valkey] {
        let mut words = vec!["--repl-diskless-sync-delay", "0", "--dbfilename", "own.rdb"];
        if kind == Kind::Sleeve {
            words.extend(["--workers", "2"]);
        }
        let server = Server::start_with(kind, &words);
        let port = server.port().to_string();
        let mut connection = server.connect();
        connection.command(&["SET", "wanted", &"v".repeat(100_000)]).expect("a reply");
        connection
            .command(&["FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() end)"])
            .expect("a reply");
        for (option, has_key) in [("--rdb", true), ("--functions-rdb", false)] {
            let theirs = run(Path::new("redis-cli"), &names.0, &["-p", &port, option, "x.rdb"]);
            let ours = names.run("redis-cli", &["-p", &port, option, "x.rdb"]);
            assert_eq!(progress(&ours), progress(&theirs), "{} {option}", kind.name());
            assert!(ours.status.success() && theirs.status.success());
            let written = std::fs::read(names.path("x.rdb")).expect("a file");
            assert!(written.starts_with(b"REDIS"), "{} {option}", kind.name());
            assert_eq!(written.windows(6).any(|bytes| bytes == b"wanted"), has_key, "{} {option}", kind.name());
            assert!(written.windows(6).any(|bytes| bytes == b"name=l"), "{} {option}", kind.name());
            // Standard output has the snapshot and nothing else.
            let printed = names.run("redis-cli", &["-p", &port, option, "-"]);
            assert!(printed.status.success() && printed.stdout.starts_with(b"REDIS"));
            let check = Path::new("redis-check-rdb");
            std::fs::write(names.path("y.rdb"), &printed.stdout).expect("written");
            if kind != Kind::Valkey {
                let (said, _, code) = shown(&run(check, &names.0, &["y.rdb"]));
                assert_eq!(code, Some(0), "{} {option}: {said}", kind.name());
            }
        }
    }
}

#[test]
fn a_snapshot_that_cannot_be_had_leaves_the_old_file() {
    let names = Names::new("refused");
    let server = start_with_password(Kind::Sleeve, "secret");
    let port = server.port().to_string();
    std::fs::write(names.path("old.rdb"), "old").expect("written");
    let (_, complaint, code) = shown(&names.run("redis-cli", &["-p", &port, "--rdb", "old.rdb"]));
    assert!(complaint.contains("SYNC with master failed: -NOAUTH") && code == Some(1), "{complaint}");
    let words = ["-p", &port, "-a", "secret", "--no-auth-warning", "--rdb", "nowhere/x.rdb"];
    let (_, complaint, code) = shown(&names.run("redis-cli", &words));
    assert!(complaint.contains("Error opening 'nowhere/x.rdb': No such file") && code == Some(1), "{complaint}");
    assert_eq!(std::fs::read(names.path("old.rdb")).expect("a file"), b"old");
    let left: Vec<_> =
        std::fs::read_dir(&names.0).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".tmp")), "{left:?}");
}

#[test]
fn a_replica_prints_the_commands_of_its_primary() {
    use std::io::{BufRead, BufReader};
    let names = Names::new("replica");
    for kind in [Kind::Sleeve, Kind::Redis] {
        let server = Server::start_with(kind, &["--repl-diskless-sync-delay", "0"]);
        let port = server.port().to_string();
        let mut command = Command::new(names.path("redis-cli"));
        command.args(["-p", &port, "--replica"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut replica = command.spawn().expect("it starts");
        let lines = BufReader::new(replica.stdout.take().expect("a pipe")).lines();
        let is_found = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut connection = server.connect();
                // The server says that the replica is online before it sends it commands.
                while !is_found.load(Ordering::Relaxed) {
                    connection.command(&["SET", "key", "a \"value\""]).expect("a reply");
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
            let found =
                lines.map_while(Result::ok).any(|line| line.eq_ignore_ascii_case(r#""SET","key","a \"value\"""#));
            is_found.store(true, Ordering::Relaxed);
            assert!(found, "{}", kind.name());
        });
        replica.kill().expect("it runs");
        replica.wait().expect("it ends");
    }
}
