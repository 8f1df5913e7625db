//! `sleeve bench` against a server that only counts: exactly the requested commands are sent, no more and no less.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use sleeve_tests::{Kind, Server, Settings};

/// The number of times that each command was received, by its words without values.
type Counts = Arc<Mutex<HashMap<String, u64>>>;

fn serve(stream: TcpStream, counts: &Counts) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut words = Vec::new();
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().strip_prefix('*') {
            Some(count) => {
                for _ in 0..count.parse::<usize>().ok()? {
                    let mut text = String::new();
                    reader.read_line(&mut text).ok()?;
                    text.clear();
                    reader.read_line(&mut text).ok()?;
                    words.push(text.trim_end().to_owned());
                }
            }
            None => words.push(line.trim_end().to_owned()),
        }
        let name = words.first()?.clone();
        let reply = match name.as_str() {
            "GET" => "$3\r\nabc\r\n",
            "INCR" => ":1\r\n",
            "INFO" => "$0\r\n\r\n",
            "FAIL" => "-ERR as asked\r\n",
            "PUSHED" => ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n+OK\r\n",
            "SILENT" => "",
            _ => "+OK\r\n",
        };
        let label = words.get(..2).unwrap_or(&words).join(" ");
        *counts.lock().unwrap().entry(label).or_default() += 1;
        writer.write_all(reply.as_bytes()).ok()?;
    }
}

/// Starts a server of its own; returns its port, and the counts of the commands that it has received.
fn start_server() -> (String, Counts) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let counts = Counts::default();
    let shared = Arc::clone(&counts);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            thread::spawn(move || serve(stream, &shared));
        }
    });
    (port, counts)
}

fn command(port: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sleeve"));
    command.args(["bench", "-p", port]).args(arguments);
    command
}

fn bench(arguments: &[&str]) -> (Output, HashMap<String, u64>) {
    let (port, counts) = start_server();
    let output = command(&port, arguments).output();
    let counts = counts.lock().unwrap().clone();
    (output.unwrap(), counts)
}

/// Runs until the server has received so many of a command, then sends SIGINT; returns the exit code and the output.
fn interrupted(arguments: &[&str], name: &str, enough: u64) -> (Option<i32>, String) {
    let (port, counts) = start_server();
    let mut child = command(&port, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while total(&counts.lock().unwrap(), name) < enough {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Returns the value of a number in the one object of `--json`.
fn figure(output: &Output, name: &str) -> f64 {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, rest) = text.split_once(&format!("\"{name}\":")).unwrap();
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

fn total(counts: &HashMap<String, u64>, name: &str) -> u64 {
    counts.iter().filter(|(label, _)| label.split(' ').next() == Some(name)).map(|(_, count)| count).sum()
}

#[test]
fn every_request_is_sent_once() {
    for extra in [&["-P", "1"][..], &["-P", "7"], &["-P", "16", "--threads", "2"], &["-k", "0", "-P", "3"]] {
        let arguments = [&["-t", "get", "-n", "1000", "-c", "3", "-r", "50", "--csv"], extra].concat();
        let (output, counts) = bench(&arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(total(&counts, "GET"), 1000, "{arguments:?}");
        let in_range = |label: &str| label.strip_prefix("GET key:").unwrap().parse::<u64>().unwrap() < 50;
        assert!(counts.keys().filter(|label| label.starts_with("GET")).all(|label| in_range(label)));
    }
}

#[test]
fn fill_writes_each_key_once_before_the_test() {
    let (output, counts) = bench(&["-t", "get,incr", "-n", "10", "-r", "300", "--fill", "--json"]);
    assert!(output.status.success());
    for number in 0..300 {
        assert_eq!(counts.get(&format!("SET key:{number:012}")), Some(&1));
        assert_eq!(counts.get(&format!("SET counter:{number:012}")), Some(&1));
    }
    assert_eq!((total(&counts, "GET"), total(&counts, "INCR"), total(&counts, "SET")), (10, 10, 600));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"test\":\"GET\"") && text.contains("\"server_cpu_us\":null"), "{text}");
}

#[test]
fn without_a_key_space_the_placeholder_stays() {
    let (_, counts) = bench(&["-t", "set", "-n", "20", "-q"]);
    assert_eq!(counts.get("SET key:__rand_int__"), Some(&20));
}

#[test]
fn a_command_of_ones_own_and_its_database() {
    let (output, counts) = bench(&["-n", "20", "-c", "2", "--dbnum", "3", "-q", "ECHO", "-x"]);
    assert_eq!(counts.get("ECHO -x"), Some(&20));
    // One more connection asks for INFO.
    assert_eq!(counts.get("SELECT 3"), Some(&3));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("ECHO -x: "));
}

#[test]
fn an_error_reply_ends_the_run() {
    let (output, _) = bench(&["-n", "20", "FAIL"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "FAIL: Error from server: ERR as asked\n");
}

#[test]
fn unknown_tests_and_workloads_are_named() {
    let (output, _) = bench(&["-t", "get,nope"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("'nope'"));
    let (output, _) = bench(&["--workload", "nope"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("booksleeve"));
}

#[test]
fn the_last_argument_comes_from_standard_input() {
    let (port, counts) = start_server();
    let mut child = command(&port, &["-n", "6", "-c", "2", "-q", "-x", "ECHO"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"from input").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("ECHO: "), "{output:?}");
    assert_eq!(counts.lock().unwrap().get("ECHO from input"), Some(&6));
}

#[test]
fn data_stands_for_the_value_in_a_command_of_ones_own() {
    let (_, counts) = bench(&["-n", "5", "-d", "4", "-q", "ECHO", "<__data__|__data__>"]);
    assert_eq!(counts.get("ECHO <xxxx|xxxx>"), Some(&5));
}

#[test]
fn tracking_is_switched_on_for_each_connection_and_pushes_are_no_replies() {
    let (output, counts) = bench(&["-n", "50", "-c", "3", "-P", "4", "-3", "--enable-tracking", "--json", "PUSHED"]);
    assert_eq!(figure(&output, "requests"), 50.0);
    assert_eq!((total(&counts, "PUSHED"), counts.get("CLIENT TRACKING")), (50, Some(&3)));
}

#[test]
fn no_more_requests_a_second_than_allowed() {
    for extra in [&["-c", "4"][..], &["-c", "4", "--threads", "2", "-P", "3"], &["-c", "2", "-k", "0"]] {
        let (output, counts) = bench(&[&["-t", "get", "-n", "100", "--rps", "250", "--json"], extra].concat());
        assert_eq!(total(&counts, "GET"), 100);
        // The first batch leaves at once, and a stall of a tenth of a second may be caught up.
        let seconds = figure(&output, "seconds");
        assert!(seconds >= (100.0 - 6.0) / 250.0 - 0.1, "{extra:?}: {seconds}");
    }
}

#[test]
fn a_duration_takes_the_place_of_a_number_and_a_warm_up_is_not_counted() {
    let (output, counts) = bench(&["-t", "get", "--duration", "1", "-c", "2", "--rps", "500", "--json"]);
    assert!(figure(&output, "seconds") >= 1.0);
    let requests = figure(&output, "requests");
    assert!(requests > 0.0 && requests == total(&counts, "GET") as f64, "{requests}");

    let (output, counts) = bench(&["-t", "get", "--warmup", "1", "-n", "20", "-c", "2", "--json"]);
    assert_eq!(figure(&output, "requests"), 20.0);
    assert!(total(&counts, "GET") > 20);
}

#[test]
fn ctrl_c_ends_a_test_with_its_figures_so_far() {
    let (code, out) = interrupted(&["-t", "get,incr", "-n", "1000000000", "-c", "2"], "GET", 100);
    assert_eq!(code, Some(130));
    assert!(out.contains("====== GET ======") && out.contains("throughput summary") && !out.contains("INCR"), "{out}");
    // A server that never answers does not delay the end.
    let (code, out) = interrupted(&["-n", "5", "-c", "2", "--json", "SILENT"], "SILENT", 2);
    assert!(code == Some(130) && out.contains("\"requests\":0,") && out.ends_with("]\n"), "{code:?} {out}");
}

#[test]
fn a_loop_goes_on_until_ctrl_c() {
    let (code, out) = interrupted(&["-l", "-t", "get,incr", "-n", "10", "-c", "2", "-q"], "INCR", 30);
    assert_eq!(code, Some(0));
    assert!(out.matches("GET: ").count() >= 3, "{out}");
}

#[test]
fn idle_connections_stay_until_ctrl_c() {
    let (port, _) = start_server();
    let mut child = command(&port, &["-I", "-c", "7"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "clients: 7"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(lines.last().as_deref(), Some("clients: 7 at the end"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    for arguments in [
        &["-n", "5", "--duration", "3"][..],
        &["-t", "get", "PING"],
        &["--workload", "lookup", "-c", "3"],
        &["-x"],
        &["--fill", "PING"],
        &["-I", "-n", "5"],
        &["--seed", "3"],
        &["--user", "me"],
        &["--sni", "x"],
        &["--list", "-q"],
    ] {
        let (output, counts) = bench(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && !error.is_empty() && counts.is_empty(), "{arguments:?}: {error}");
    }
}

#[test]
fn real_servers_bear_every_test_while_they_track() {
    let redis = Kind::Redis.binary().unwrap();
    for (kind, binary) in [(Kind::Sleeve, Path::new(env!("CARGO_BIN_EXE_sleeve"))), (Kind::Redis, &redis)] {
        let server = Server::launch(kind, binary, Settings::default()).unwrap();
        let options = ["-3", "--enable-tracking", "-n", "60", "-c", "3", "-r", "20", "-P", "2", "-q"];
        let output = command(&server.port().to_string(), &options).output().unwrap();
        assert!(output.status.success(), "{kind:?}: {}", String::from_utf8_lossy(&output.stderr));
        let idle = command(&server.port().to_string(), &["-I", "-c", "3"]).stdout(Stdio::piped()).spawn();
        let mut idle = idle.unwrap();
        let mut lines = BufReader::new(idle.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line == "clients: 3"));
        // A connection is there for its client before the server has taken it, and only then it can be ended.
        let mut connection = server.connect();
        while connection.command(&["CLIENT", "LIST"]).unwrap().iter().filter(|&&byte| byte == b'\n').count() < 6 {}
        connection.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
        assert!(lines.any(|line| line.starts_with("clients: ") && line.contains("the server has closed")));
        assert_eq!(idle.wait().unwrap().code(), Some(1));
    }
}
