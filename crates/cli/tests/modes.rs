//! The modes of `sleeve cli` beside those of redis-cli, on our server, on Redis and on Valkey: the same figures where they are
//! figures of the server, and an end in order when Ctrl-C comes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use sleeve_tests::{Kind, Server, Settings};

const SLEEVE: &str = env!("CARGO_BIN_EXE_sleeve");

/// Starts one server of each kind.
fn servers() -> [Server; 3] {
    [Kind::Sleeve, Kind::Redis, Kind::Valkey].map(server)
}

/// Returns a server with a few keys of every type.
fn server(kind: Kind) -> Server {
    let binary = if kind == Kind::Sleeve { PathBuf::from(SLEEVE) } else { kind.binary().unwrap() };
    let server = Server::launch(kind, &binary, Settings::default()).unwrap();
    let mut connection = server.connect();
    let lines =
        ["MSET a 1 b 22", "RPUSH l a b c", "RPUSH l2 a b c d e", "SADD s a b c", "HSET h f v", "ZADD z 1 a 2 b"];
    let lines = lines.iter().chain(&["XADD x * f v"]).map(|line| line.split(' ').collect());
    for words in lines.chain([vec!["SET", "with \"quotes\"", "4444"]]) {
        let reply = connection.command(&words).unwrap();
        assert_ne!(reply.first(), Some(&b'-'), "{words:?}: {}", reply.escape_ascii());
    }
    server
}

fn run(program: &[&str], port: u16, arguments: &[&str]) -> Output {
    let (name, first) = program.split_first().unwrap();
    let port = port.to_string();
    Command::new(name).args(first).args(["-p", &port]).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn ours(port: u16, arguments: &[&str]) -> Output {
    run(&[SLEEVE, "cli"], port, arguments)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program that runs until it is told to stop, or is forgotten.
struct Running {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    seen: String,
}

impl Running {
    fn start(port: u16, arguments: &[&str]) -> Self {
        let mut command = Command::new(SLEEVE);
        command.arg("cli");
        if !arguments.contains(&"--intrinsic-latency") {
            command.args(["-p", &port.to_string()]);
        }
        Self::spawn(command.args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped()))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines, seen: String::new() }
    }

    /// Reads on until a line contains the text.
    fn wait_for(&mut self, text: &str) -> String {
        loop {
            let mut line = Vec::new();
            let length = self.lines.read_until(b'\n', &mut line).unwrap();
            assert!(length > 0, "it ended before it said {text:?}: {}", self.seen);
            let line = String::from_utf8_lossy(&line).into_owned();
            self.seen.push_str(&line);
            if line.contains(text) {
                return line;
            }
        }
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Waits for the end by itself; the exit code and all output.
    fn end(mut self) -> (Option<i32>, String) {
        self.lines.read_to_string(&mut self.seen).unwrap();
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.seen))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_that_ends_on_request_is_no_error() {
    for server in servers() {
        let ended = ours(server.port(), &["SHUTDOWN", "NOSAVE"]);
        assert!(ended.status.success(), "{ended:?}");
        assert_eq!((text(&ended.stdout), text(&ended.stderr)), (String::new(), String::new()));
    }
}

#[test]
fn an_unknown_option_is_refused_with_a_hint() {
    for (tool, typed, near) in [("cli", "--bigkye", "--bigkeys"), ("bench", "--piplin", ""), ("cli", "-z", "")] {
        let output = Command::new(SLEEVE).args([tool, "-p", "1", typed]).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{tool} {typed}: {error}");
        assert!(error.contains(&format!("'{typed}'")) && error.contains(near), "{error}");
        assert!(error.contains(&format!("-- {typed}")), "{error} does not say how to send the word");
    }
    let server = server(Kind::Sleeve);
    assert_eq!(text(&ours(server.port(), &["--", "ECHO", "-z"]).stdout), "-z\n");
    let error = text(&ours(server.port(), &["--", "--bigkye"]).stdout);
    assert!(error.contains("unknown command '--bigkye'"), "{error}");
}

/// Returns every option with which a line of a program's help begins.
fn options_of(program: &str) -> Vec<String> {
    let help = Command::new(program).arg("--help").output().unwrap();
    let help = [help.stdout, help.stderr].concat();
    let words = |line: &str| line.trim().split(' ').next().map(str::to_owned);
    let options: Vec<String> =
        text(&help).lines().filter_map(words).filter(|word| word.starts_with('-') && word.len() > 1).collect();
    assert!(options.len() > 20, "{options:?}");
    options
}

#[test]
fn every_option_of_redis_is_there_or_says_why_not() {
    for (tool, program) in [("cli", "redis-cli"), ("bench", "redis-benchmark")] {
        let help = Command::new(SLEEVE).args([tool, "--help"]).output().unwrap();
        let help = text(&help.stdout);
        let (there, absent) = help.split_once("Not there").unwrap();
        for option in options_of(program) {
            let letters = |word: &str| word.trim_end_matches([',', '.']) == option;
            // clap prints "-a, --pass"; the first of the two stands alone in Redis's help.
            if there.split_whitespace().any(letters) {
                continue;
            }
            assert!(absent.split_whitespace().any(letters), "{tool} --help does not know {option}");
            let refused = Command::new(SLEEVE).args([tool, &option, "x"]).output().unwrap();
            let error = text(&refused.stderr);
            assert!(error.contains(&format!("{option} is not there: ")), "{option}: {error}");
            assert_eq!(refused.status.code(), Some(1));
        }
    }
}

#[test]
fn help_describes_each_tool() {
    for (tool, what) in
        [("cli", "A command-line client"), ("bench", "A load generator"), ("tour", "Runs the documents'")]
    {
        for flag in ["--help", "-h"] {
            let output = Command::new(SLEEVE).args([tool, flag]).output().unwrap();
            let help = text(&output.stdout);
            assert!(output.status.success() && help.starts_with(what), "{tool} {flag}: {help}");
            assert!(help.contains("Examples:"), "{help}");
        }
    }
}

#[test]
fn versions_are_printed() {
    for (tool, flag) in [("cli", "--version"), ("cli", "-v"), ("bench", "--version"), ("bench", "-v")] {
        let output = Command::new(SLEEVE).args([tool, flag]).output().unwrap();
        assert_eq!(text(&output.stdout), format!("sleeve-{tool} {}\n", env!("CARGO_PKG_VERSION")));
        assert!(output.status.success());
    }
}

fn write_script(name: &str, content: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}

#[test]
fn a_script_of_a_file_runs_as_with_redis_cli() {
    let good =
        write_script("good.lua", "#!lua flags=no-writes\nreturn {KEYS[1], KEYS[2], ARGV[1], ARGV[2], 1, {2, 'x'}}");
    let bad = write_script("bad.lua", "return redis.error_reply('ERR bad')");
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    for server in servers() {
        for arguments in [
            &["--eval", good, "k1", "k2", ",", "a", "-b"][..],
            &["--no-raw", "--eval", good, "k1", "k2"],
            &["--csv", "--eval", good, ",", "a"],
            &["--json", "--eval", good, "k1,", "k2"],
            &["-r", "2", "--eval", good],
            &["--eval", bad],
            &["-e", "--eval", bad],
            &["--eval", "/nonexistent.lua"],
        ] {
            let (ours, theirs) = (ours(server.port(), arguments), run(&["redis-cli"], server.port(), arguments));
            let of = |output: &Output| (text(&output.stdout), text(&output.stderr), output.status.code());
            assert_eq!(of(&ours), of(&theirs), "{arguments:?}");
        }
        // redis-cli passes over the option here.
        let quoted = ours(server.port(), &["--quoted-input", "--eval", good, "\"a\\x41\"", "\"b\""]);
        assert!(text(&quoted.stdout).starts_with("aA\nb\n"), "{}", text(&quoted.stdout));
    }
}

/// Returns the lines that say something, without an order.
fn findings(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = text(&output.stdout);
    let mut lines: Vec<String> =
        output.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn the_biggest_and_hottest_keys_are_those_that_redis_cli_finds() {
    for server in servers() {
        let port = server.port();
        for arguments in [
            &["--bigkeys"][..],
            &["--bigkeys", "--pattern", "l*"],
            &["--memkeys"],
            &["--memkeys", "--memkeys-samples", "1"],
        ] {
            let theirs = || findings(&run(&["redis-cli"], port, arguments));
            // There the second option asks for the mode as well; here either does.
            let own = if arguments.contains(&"--memkeys-samples") { &arguments[1..] } else { arguments };
            // Redis goes through the keys in another order while it moves them to a larger table, bit by bit.
            let (before, found) = loop {
                let (before, found) = (theirs(), findings(&ours(port, own)));
                if theirs() == before {
                    break (before, found);
                }
            };
            assert_eq!(found, before, "{own:?} on {:?}", server.kind());
        }
        let refused = ours(port, &["--hotkeys"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("LFU"), "{}", text(&refused.stderr));
        let mut connection = server.connect();
        // Without decay, because a minute may pass between two walks, and the counter would fall by one.
        let options = ["maxmemory-policy", "allkeys-lfu", "lfu-log-factor", "0", "lfu-decay-time", "0"];
        connection.command(&[&["CONFIG", "SET"][..], &options].concat()).unwrap();
        for _ in 0..20 {
            connection.command(&["GET", "a"]).unwrap();
        }
        let found = findings(&ours(port, &["--hotkeys"]));
        assert_eq!(found, findings(&run(&["redis-cli"], port, &["--hotkeys"])));
        assert!(found.iter().any(|line| line.ends_with("keyname: \"a\"")), "{found:?}");
    }
}

#[test]
fn latencies_are_four_figures_that_programs_can_read() {
    for server in servers() {
        let first_line = |arguments: &[&str]| {
            let output = ours(server.port(), &[arguments, &["-i", "0.05"]].concat());
            assert!(output.status.success());
            let out = text(&output.stdout);
            assert_eq!(out.lines().count(), 1, "{out}");
            out.trim_end().to_owned()
        };
        let figures = |line: &str, separator: char| {
            let figures: Vec<f64> = line.split(separator).map(|figure| figure.trim().parse().unwrap()).collect();
            assert!(
                figures.len() == 4 && figures[0] <= figures[2] && figures[2] <= figures[1] && figures[3] > 0.0,
                "{line}"
            );
        };
        figures(&first_line(&["--latency"]), ' ');
        figures(&first_line(&["--latency", "--csv"]), ',');
        let json = first_line(&["--latency", "--json"]);
        assert!(json.starts_with("{\"min\": ") && json.contains(", \"avg\": ") && json.ends_with('}'), "{json}");

        let mut history = Running::start(server.port(), &["--latency-history", "--csv", "-i", "0.05"]);
        figures(&history.wait_for(","), ',');
        figures(&history.wait_for(","), ',');
        history.interrupt();
        assert_eq!(history.end().0, Some(0));
        let mut live = Running::start(server.port(), &["--latency-history", "--no-raw", "-i", "0.05"]);
        live.wait_for(" samples) -- 0.");
        live.interrupt();
        let (code, seen) = live.end();
        assert!(code == Some(0) && seen.ends_with('\n') && seen.contains("\x1b[0G\x1b[2Kmin: "), "{seen:?}");
        let mut spectrum = Running::start(server.port(), &["--latency-dist", "-i", "0.05"]);
        spectrum.wait_for("m?\x1b[0m");
        spectrum.interrupt();
        assert_eq!(spectrum.end().0, Some(0));
    }
}

#[test]
fn statistics_come_line_by_line_until_ctrl_c() {
    for server in servers() {
        let mut stat = Running::start(server.port(), &["--stat", "-i", "0.01"]);
        stat.wait_for("keys       mem      clients blocked requests            connections");
        for _ in 0..2 {
            let line = stat.wait_for("(+");
            assert_eq!(line.split_whitespace().count(), 7, "{line}");
            assert_eq!(line.split_whitespace().next(), Some("9"), "{line}");
        }
        for _ in 0..20 {
            stat.wait_for("(+");
        }
        stat.interrupt();
        let (code, seen) = stat.end();
        assert_eq!(code, Some(0));
        assert_eq!(seen.matches("- child -").count(), 2 + usize::from(seen.matches("(+").count() > 40), "{seen}");
    }
}

#[test]
fn a_server_that_comes_back_is_watched_on() {
    let mut server = server(Kind::Sleeve);
    let mut stat = Running::start(server.port(), &["--stat", "-i", "0.01"]);
    stat.wait_for("(+");
    server.kill();
    let mut errors = BufReader::new(stat.child.stderr.take().unwrap()).lines();
    assert!(errors.any(|line| line.unwrap().contains("trying again every second")));
    server.restart().unwrap();
    while !stat.wait_for("(+").starts_with("0 ") {}
    stat.interrupt();
    assert_eq!(stat.end().0, Some(0));
}

#[test]
fn intrinsic_latency_sums_up_at_ctrl_c() {
    let mut running = Running::start(0, &["--intrinsic-latency", "1000"]);
    running.wait_for("Max latency so far: ");
    running.interrupt();
    let (code, seen) = running.end();
    assert_eq!(code, Some(0));
    assert!(seen.contains(" total runs (avg latency: ") && seen.contains("Worst run took "), "{seen}");
    let whole = Command::new(SLEEVE).args(["cli", "--intrinsic-latency", "1"]).output().unwrap();
    assert!(whole.status.success() && text(&whole.stdout).contains(" total runs "));
}

#[test]
fn a_walk_that_ctrl_c_ends_says_how_far_it_came() {
    let server = server(Kind::Sleeve);
    let fill = "for i = 1, 3000 do redis.call('SET', 'key:' .. i, 'x') end";
    server.connect().command(&["EVAL", fill, "0"]).unwrap();
    let mut bigkeys = Running::start(server.port(), &["--bigkeys", "-i", "1000"]);
    bigkeys.wait_for("] Biggest string");
    bigkeys.interrupt();
    let (code, seen) = bigkeys.end();
    assert_eq!(code, Some(0));
    let summary = seen.split_once("- summary -").unwrap().1;
    assert!(summary.contains("%] Sampled ") && summary.contains(" strings with "), "{summary}");

    // A reader of a list of names must know that it is not whole.
    let mut scan = Running::start(server.port(), &["--scan", "-i", "1000"]);
    scan.wait_for("");
    scan.interrupt();
    assert_eq!(scan.end().0, Some(130));

    let mut pipe = Running::start(server.port(), &["--pipe"]);
    let mut input = pipe.child.stdin.take().unwrap();
    input.write_all(b"SET piped 1\r\n").unwrap();
    let mut connection = server.connect();
    while connection.command(&["EXISTS", "piped"]).unwrap() != b":1\r\n" {
        assert_eq!(pipe.child.try_wait().unwrap(), None, "it ended by itself");
    }
    pipe.interrupt();
    let (code, seen) = pipe.end();
    assert_eq!(code, Some(130));
    assert!(seen.contains("errors: 0, replies: "), "{seen}");
}

#[test]
fn lines_end_at_the_first_failure_where_that_is_asked_for() {
    let server = server(Kind::Sleeve);
    for (arguments, code, last) in [(&["-e"][..], Some(1), ""), (&[], Some(0), "PONG\n")] {
        let mut running = Running::start(server.port(), arguments);
        running.child.stdin.take().unwrap().write_all(b"GET a\nINCR l\nPING\n").unwrap();
        let (ended, seen) = running.end();
        assert_eq!(ended, code);
        assert!(seen.starts_with("1\n") && seen.ends_with(last) && seen.contains("PONG") != last.is_empty(), "{seen}");
    }
}

/// Starts the prompt of `sleeve cli` on a terminal of its own, which the program `script` makes.
fn prompt(server: &Server) -> Running {
    // A shell that stays in between reports its own end by Ctrl-C, as dash does, instead of the prompt's exit code.
    let line = format!("exec {SLEEVE} cli -p {}", server.port());
    let mut command = Command::new("script");
    // Both files are in the server's folder and go with it: a fault of ours must not reach a device of the machine.
    let [typescript, history] = ["typescript", "history"].map(|name| server.folder().join(name));
    command.args(["-q", "-e", "-c", &line]).arg(typescript).env("TERM", "dumb").env("REDISCLI_HISTFILE", history);
    Running::spawn(command.stdin(Stdio::piped()))
}

#[test]
fn ctrl_c_leads_back_to_the_prompt() {
    for server in servers() {
        let mut connection = server.connect();
        let mut prompt = prompt(&server);
        let mut keys = prompt.child.stdin.take().unwrap();
        let mut enter = |line: &str| keys.write_all(format!("{line}\r").as_bytes()).unwrap();
        enter("MONITOR");
        prompt.wait_for("OK");
        connection.command(&["ECHO", "watched"]).unwrap();
        prompt.wait_for("\"watched\"");
        enter("\x03ECHO one");
        prompt.wait_for("\"one\"");
        for (line, last) in [
            ("SUBSCRIBE ch", "3) (integer) 1"),
            ("PSUBSCRIBE c*", "3) (integer) 1"),
            ("SSUBSCRIBE ch", "3) (integer) 1"),
        ] {
            enter(line);
            prompt.wait_for(last);
            enter("\x03ECHO two");
            prompt.wait_for("\"two\"");
        }
        enter("BLPOP none 0");
        while !text(&connection.command(&["INFO", "clients"]).unwrap()).contains("blocked_clients:1") {
            assert_eq!(prompt.child.try_wait().unwrap(), None, "it ended by itself");
        }
        enter("\x03ECHO three");
        prompt.wait_for("\"three\"");
        enter("quit");
        let (code, seen) = prompt.end();
        assert_eq!(code, Some(0), "{seen}");
        assert!(!seen.contains("not connected>"), "{seen}");
    }
}

#[test]
fn a_stream_on_the_command_line_ends_well_at_ctrl_c() {
    let server = server(Kind::Sleeve);
    let mut monitor = Running::start(server.port(), &["MONITOR"]);
    monitor.wait_for("OK");
    monitor.interrupt();
    assert_eq!(monitor.end().0, Some(0));
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    for (arguments, reason) in [
        (&["--user", "me", "PING"][..], "--user needs a password"),
        (&["--stat", "PING"], "means nothing to --stat"),
        (&["--insecure", "PING"], "means nothing without --tls"),
        (&["-u", "embedded://", "--tls", "PING"], "means nothing to embedded://"),
        (&["--pattern", "x", "PING"], "--scan, --bigkeys"),
    ] {
        let refused = ours(1, arguments);
        let error = text(&refused.stderr);
        assert!(refused.status.code() == Some(1) && error.contains(reason), "{arguments:?}: {error}");
    }
}

#[test]
fn workloads_end_in_order_at_ctrl_c() {
    let server = server(Kind::Sleeve);
    let url = server.url();
    for arguments in [&["tour"][..], &["bench", "--workload", "all", "--url", &url]] {
        let mut running = Running::spawn(Command::new(SLEEVE).args(arguments).stderr(Stdio::piped()));
        running.wait_for("CPU each");
        running.wait_for(" ");
        running.interrupt();
        assert_eq!(running.end().0, Some(130), "{arguments:?}");
    }
    let keys = text(&ours(server.port(), &["DBSIZE"]).stdout);
    assert_eq!(keys, "9\n", "what a workload has written is removed");
}

/// A proxy that adds a round trip is none that the client may leave out, although the server offers its Unix socket through it.
#[test]
fn workloads_use_the_requested_transport() {
    const GREETING: [&str; 5] = ["client|setinfo", "config|get", "hello", "ping", "select"];
    let server = Server::start_with(Kind::Sleeve, &["--unixsocket", "server.sock"]);
    let arguments = ["bench", "--workload", "all", "--rtt", "1ms", "--url", &server.url()];
    let running = Running::spawn(Command::new(SLEEVE).args(arguments).stderr(Stdio::piped()));
    let at_work = loop {
        let clients = text(&ours(server.port(), &["CLIENT", "LIST"]).stdout);
        let is_greeting = |line: &str| GREETING.iter().any(|name| line.contains(&format!(" cmd={name} ")));
        let mut ours = clients.lines().filter(|line| line.contains(" lib-name=sleeve ") && !is_greeting(line));
        if let Some(line) = ours.next() {
            break line.to_owned();
        }
    };
    assert!(at_work.contains(" addr=127.0.0.1:"), "{at_work}");
    running.interrupt();
    assert_eq!(running.end().0, Some(130));
}
