//! `sleeve bench` against a server that only counts: what was asked for is sent, no more and no less.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

/// How often each command was received, by its words without values.
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
            _ => "+OK\r\n",
        };
        let label = words.get(..2).unwrap_or(&words).join(" ");
        *counts.lock().unwrap().entry(label).or_default() += 1;
        writer.write_all(reply.as_bytes()).ok()?;
    }
}

fn bench(arguments: &[&str]) -> (Output, HashMap<String, u64>) {
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
    let command = Command::new(env!("CARGO_BIN_EXE_sleeve")).args(["bench", "-p", &port]).args(arguments).output();
    let counts = counts.lock().unwrap().clone();
    (command.unwrap(), counts)
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
