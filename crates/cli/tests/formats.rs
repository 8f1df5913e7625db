//! `sleeve cli` beside redis-cli, byte by byte.
//!
//! A server made for this test answers `R n` with the nth of a list of replies, one for every type and shape. Both programs
//! ask for each of them in every output format, and run with every other form of their command lines; standard output, error
//! output and exit code must be the same.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread;

/// The replies to `R n`.
const REPLIES: &[&[u8]] = &[
    b"+OK\r\n",
    b"+\r\n",
    b"+some \"quoted\" words\r\n",
    b"-ERR bad thing\r\n",
    b"-\r\n",
    b":42\r\n",
    b":-7\r\n",
    b"$-1\r\n",
    b"$0\r\n\r\n",
    b"$5\r\nhello\r\n",
    b"$9\r\na\"\\\n\r\t\x00\xff\x07\r\n",
    b"$2\r\n\x08\x0c\r\n",
    b"$3\r\n\x7f\x1f/\r\n",
    b"$8\r\n\xc3\xa9\xe2\x9c\x93\xc3\xbc'\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"*3\r\n:1\r\n$1\r\na\r\n$-1\r\n",
    b"*2\r\n*2\r\n:1\r\n*1\r\n$1\r\nx\r\n*0\r\n",
    b"*12\r\n:0\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n:10\r\n:11\r\n",
    b"*2\r\n*11\r\n:5\r\n:5\r\n:5\r\n:5\r\n:5\r\n:5\r\n:5\r\n:5\r\n:5\r\n:5\r\n:5\r\n-ERR x\r\n",
    b"*1\r\n*1\r\n*1\r\n*0\r\n",
    b"_\r\n",
    b"#t\r\n",
    b"#f\r\n",
    b",1.5\r\n",
    b",inf\r\n",
    b",3.0000000000000001\r\n",
    b"=9\r\ntxt:a\nb\"c\r\n",
    b"=5\r\ntxt:\n\r\n",
    b"%0\r\n",
    b"%2\r\n+a\r\n:1\r\n$1\r\nb\r\n*2\r\n:1\r\n:2\r\n",
    b"%1\r\n*1\r\n:1\r\n%1\r\n:2\r\n:3\r\n",
    b"%1\r\n+a\r\n*1\r\n*2\r\n:1\r\n:2\r\n",
    b"%1\r\n+a\r\n=8\r\ntxt:a\nbc\r\n",
    b"%1\r\n+a\r\n%1\r\n+b\r\n*1\r\n:1\r\n",
    b"%1\r\n*2\r\n:1\r\n:2\r\n*2\r\n:1\r\n:2\r\n",
    b"%2\r\n+a\r\n%2\r\n+b\r\n:1\r\n+c\r\n:3\r\n+d\r\n*0\r\n",
    b"%3\r\n$1\r\na\r\n:1\r\n*1\r\n+q\r\n:2\r\n%1\r\n+a\r\n+\"\r\n:2\r\n",
    b"%3\r\n_\r\n-ERR x\r\n$3\r\na\"b\r\n:2\r\n,1.5\r\n*0\r\n",
    b"%2\r\n:1\r\n_\r\n#t\r\n,2.5\r\n",
    b"~0\r\n",
    b"~3\r\n+a\r\n+b\r\n:3\r\n",
    b"~2\r\n~2\r\n:1\r\n:2\r\n%1\r\n:1\r\n~1\r\n:9\r\n",
    b"*2\r\n%2\r\n+k\r\n+v\r\n+k2\r\n~2\r\n:1\r\n:2\r\n$3\r\nabc\r\n",
    b"*2\r\n+x\r\n%10\r\n+k\r\n:1\r\n+k\r\n:1\r\n+k\r\n:1\r\n+k\r\n:1\r\n+k\r\n:1\r\n+k\r\n:1\r\n+k\r\n:1\r\n+k\r\n:1\r\n+k\r\n:1\r\n+k\r\n:1\r\n",
    b">2\r\n+invalidate\r\n*1\r\n+k\r\n+OK\r\n",
];

const MODES: &[&[&str]] = &[
    &["--no-raw"],
    &["--raw"],
    &["--csv"],
    &["--json"],
    &["--json", "-2"],
    &["--quoted-json"],
    &["--no-raw", "-3"],
    &["--no-raw", "-e"],
    &["-d", "|", "-D", ";"],
    &["--no-raw", "-3", "--show-pushes", "yes"],
];

/// More command lines, each with the content of standard input.
const SESSIONS: &[(&[&str], &str)] = &[
    (&["-r", "3", "R", "5"], ""),
    (&["-r", "2", "-D", "|", "R", "5"], ""),
    (&["-r", "2", "--no-raw", "-i", "0.001", "R", "5"], ""),
    (&["-x", "ECHO"], "from input\n"),
    (&["-X", "TAG", "ECHO", "TAG"], "from input"),
    (&["--quoted-input", "ECHO", "\"a\\x41\""], ""),
    (&["--quoted-input", "ECHO", "\"a"], ""),
    (&["-n", "5", "R", "0"], ""),
    (&["-n", "99", "R", "0"], ""),
    (&["-a", "bad", "R", "0"], ""),
    (&["-a", "bad", "--no-auth-warning", "R", "0"], ""),
    (&["--user", "me", "--pass", "good", "R", "0"], ""),
    (&["-e", "R", "3"], ""),
    (&["R", "3"], ""),
    (&["INFO"], ""),
    (&["--csv", "client", "LIST"], ""),
    (&["--no-raw"], "R 0\nR 3\n\n3 R 5\nECHO \"a b\"\nECHO \"a\nselect 3\nR 10\n"),
    (&[], "R 0\nR 3\nECHO 'it''s'\nmulti\nexec\nquit\nR 0\n"),
    (&["--pipe"], "R 0\r\nR 5\r\n*2\r\n$1\r\nR\r\n$1\r\n0\r\n"),
    (&["--pipe"], ""),
];

/// Answers requests, inline and multibulk, until the peer hangs up.
fn answer(stream: TcpStream) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let words: Vec<String> = match line.trim_end().strip_prefix('*') {
            Some(count) => (0..count.parse().ok()?).map(|_| read_bulk(&mut reader)).collect::<Option<_>>()?,
            None => line.split_whitespace().map(str::to_owned).collect(),
        };
        writer.write_all(&reply(&words)).ok()?;
    }
}

fn read_bulk(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    reader.read_line(&mut head).ok()?;
    let mut bytes = vec![0; head.trim_end().strip_prefix('$')?.parse::<usize>().ok()? + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(bytes.len() - 2);
    // One character a byte, because redis-cli's marks are any bytes.
    Some(bytes.into_iter().map(char::from).collect())
}

fn reply(words: &[String]) -> Vec<u8> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let name = words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
    match (name.as_str(), words.as_slice()) {
        ("", _) => Vec::new(),
        ("R", [_, number]) => REPLIES[number.parse::<usize>().unwrap()].to_vec(),
        ("ECHO", [_, text]) => {
            let bytes: Vec<u8> = text.chars().map(|character| character as u8).collect();
            [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat()
        }
        ("HELLO", _) => b"%1\r\n+server\r\n+redis\r\n".to_vec(),
        ("SELECT", [_, "99"]) => b"-ERR DB index is out of range\r\n".to_vec(),
        ("AUTH", [_, "bad"]) => b"-WRONGPASS invalid username-password pair\r\n".to_vec(),
        ("INFO" | "CLIENT", _) => b"$14\r\n# One\r\ntwo:3\r\n\r\n".to_vec(),
        ("COMMAND", _) => b"*0\r\n".to_vec(),
        _ => b"+OK\r\n".to_vec(),
    }
}

fn start_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    port
}

fn run(program: &[&str], port: u16, arguments: &[&str], input: &str) -> Output {
    let (name, first) = program.split_first().unwrap();
    let mut child = Command::new(name)
        .args(first)
        .args(["-p", &port.to_string()])
        .args(arguments)
        .env_remove("REDISCLI_AUTH")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {name}: {error}; Debian's package redis-tools has redis-cli"));
    // A program that does not read its input has closed it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn compare(port: u16, arguments: &[&str], input: &str) {
    let theirs = run(&["redis-cli"], port, arguments, input);
    let ours = run(&[env!("CARGO_BIN_EXE_sleeve"), "cli"], port, arguments, input);
    let show = |output: &Output| {
        let (out, err) = (output.stdout.escape_ascii(), output.stderr.escape_ascii());
        format!("exit {:?}\nout {out}\nerr {err}", output.status.code())
    };
    assert_eq!(show(&ours), show(&theirs), "{arguments:?} with input {input:?}");
}

#[test]
fn every_reply_prints_as_redis_cli_prints_it() {
    let port = start_server();
    for mode in MODES {
        for number in 0..REPLIES.len() {
            let number = number.to_string();
            let arguments: Vec<&str> = mode.iter().copied().chain(["R", &number]).collect();
            compare(port, &arguments, "");
        }
    }
}

#[test]
fn options_and_input_mean_the_same_as_to_redis_cli() {
    let port = start_server();
    for (arguments, input) in SESSIONS {
        compare(port, arguments, input);
    }
}

#[test]
fn a_server_that_is_not_there_is_reported_in_the_same_words() {
    // The port was free a moment ago; nothing else on this machine asks for it.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    compare(port, &["R", "0"], "");
    compare(port, &["-r", "2", "R", "0"], "");
    compare(port, &["--pipe"], "R 0\r\n");
    compare(port, &[], "R 0\n");
}
