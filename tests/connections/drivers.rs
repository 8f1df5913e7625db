//! Tests of each driver of the option `io`: the promises to its clients. With `SLEEVE_IO` all other tests run over one of
//! them.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use sleeve_tests::connection::request;
use sleeve_tests::transcript::frame::text;
use sleeve_tests::{Connection, Kind, Server, Settings};

const DRIVERS: [&str; 3] = ["epoll", "uring", "tokio"];

fn start(driver: &str, arguments: &[&str]) -> Server {
    Server::start_with(Kind::Sleeve, &[&["--io", driver], arguments].concat())
}

fn ask(connection: &mut Connection, line: &str) -> String {
    let reply =
        connection.command(&line.split(' ').collect::<Vec<_>>()).unwrap_or_else(|error| panic!("{line}: {error}"));
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn the_option_names_the_driver_and_only_those_that_there_are() {
    for driver in DRIVERS {
        let server = start(driver, &[]);
        let mut client = server.connect();
        let shown = format!("*2\r\n$2\r\nio\r\n${}\r\n{driver}\r\n", driver.len());
        assert_eq!(ask(&mut client, "CONFIG GET io"), shown);
        assert!(ask(&mut client, "CONFIG SET io epoll").contains("immutable") || driver == "epoll");
        let is_refused = server.log().contains("io uring is not to be had");
        let runs = if is_refused { "epoll" } else { driver };
        assert!(ask(&mut client, "INFO server").contains(&format!("\r\nio:{runs}\r\n")));
    }
    let settings = Settings { arguments: vec!["--io".into(), "threads".into()], password: None };
    let reason = Server::try_start(Kind::Sleeve, settings).expect_err("there is none of that name");
    assert!(
        reason.contains("argument(s) must be one of the following: epoll, uring, tokio, hybrid, completion, async"),
        "{reason}"
    );
}

/// Checks that each older word still names its driver: on the command line, in a configuration file, and for CONFIG SET and
/// GET.
#[test]
fn the_older_words_of_the_drivers_and_of_the_busy_poll_are_accepted() {
    let shown = |name: &str, value: &str| format!("*2\r\n${}\r\n{name}\r\n${}\r\n{value}\r\n", name.len(), value.len());
    let file = std::env::temp_dir().join(format!("sleeve-older-words-{}.conf", std::process::id()));
    for (old, new) in [("hybrid", "epoll"), ("completion", "uring"), ("async", "tokio")] {
        std::fs::write(&file, format!("io {old}\nio-look no\n")).expect("a file");
        for arguments in [&["--io", old, "--io-look", "no"][..], &["--include", &file.display().to_string()]] {
            let server = Server::start_with(Kind::Sleeve, arguments);
            let mut client = server.connect();
            assert_eq!(ask(&mut client, "CONFIG GET io"), shown("io", new));
            assert_eq!(ask(&mut client, &format!("CONFIG SET io {old}")), "+OK\r\n", "the present value");
            assert_eq!(ask(&mut client, "CONFIG GET io-busy-poll"), shown("io-busy-poll", "no"));
            assert_eq!(ask(&mut client, "CONFIG SET io-look yes"), "+OK\r\n");
            assert_eq!(ask(&mut client, "CONFIG GET io-look"), shown("io-look", "yes"));
            assert_eq!(ask(&mut client, "CONFIG GET io-busy-poll"), shown("io-busy-poll", "yes"));
        }
    }
    _ = std::fs::remove_file(&file);
}

/// Sends batches of ECHO with strings of many lengths, and now and then a command that waits for nothing.
fn echo_in_order(server: &Server, seed: usize) {
    let mut client = server.connect();
    for round in 0..60 {
        let lengths =
            (0..1 + (seed + round) % 40).map(|index| [0, 3, 100, 1_000, 3_000, 20_000][(index * seed + round) % 6]);
        let said: Vec<String> =
            lengths.enumerate().map(|(index, len)| format!("{round}-{index}-{}", "x".repeat(len))).collect();
        let (echo, wait) = (|word: &String| request(&["ECHO", word]), request(&["BLPOP", "none", "0.002"]));
        let batch = said
            .iter()
            .flat_map(|word| [echo(word), if word.len() % 7 == 0 { wait.clone() } else { Vec::new() }].concat());
        client.send(&batch.collect::<Vec<u8>>()).unwrap();
        for word in &said {
            let reply = client.reply().unwrap();
            assert!(
                text(&reply) == Some(word.as_bytes()),
                "{} for {}",
                reply[..40.min(reply.len())].escape_ascii(),
                &word[..5]
            );
            if word.len() % 7 == 0 {
                assert_eq!(client.reply().unwrap(), b"*-1\r\n");
            }
        }
    }
}

#[test]
fn replies_come_in_the_order_of_their_requests() {
    for driver in DRIVERS {
        let server = start(driver, &["--workers", "2"]);
        std::thread::scope(|scope| {
            (1..7).for_each(|seed| {
                _ = scope.spawn({
                    let server = &server;
                    move || echo_in_order(server, seed)
                })
            });
        });
    }
}

#[test]
fn a_client_that_closed_its_sending_side_gets_all_replies() {
    for driver in DRIVERS {
        let server = start(driver, &["--workers", "1"]);
        let mut client = server.connect();
        let value = vec![b'v'; 3_000_000];
        assert_eq!(client.command(&[b"SET".as_slice(), b"k", &value]).unwrap(), b"+OK\r\n");
        let mut late = server.connect();
        late.send(&b"GET k\r\nSTRLEN k\r\n".repeat(5)).unwrap();
        let mut other = server.connect();
        other.send(b"GET k\r\nPING\r\nQUIT\r\n").unwrap();
        let replies = other.read_to_end().unwrap();
        assert_eq!(replies.len(), value.len() + b"$3000000\r\n\r\n+PONG\r\n+OK\r\n".len(), "{driver}");
        let mut short = server.connect();
        short.send(b"PING\r\nPING\r\n").unwrap();
        short.stream().shutdown(Shutdown::Write).unwrap();
        assert_eq!(short.read_to_end().unwrap(), b"+PONG\r\n+PONG\r\n", "{driver}");
        for _ in 0..5 {
            assert_eq!(late.reply().unwrap().len(), value.len() + b"$3000000\r\n\r\n".len());
            assert_eq!(late.reply().unwrap(), b":3000000\r\n");
        }
    }
}

#[test]
fn large_values_arrive_whole_whatever_comes_with_them() {
    for driver in DRIVERS {
        let server = start(driver, &[]);
        let (mut client, mut observer) = (server.connect(), server.connect());
        for (round, len) in [32_768, 65_536, 200_000, 3_000_000].into_iter().enumerate() {
            let value: String = (0..len).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
            let set = |name: &str| request(&["SET", name, &value]);
            if round % 2 == 1 {
                // The complete request waits, and so do the bytes behind it.
                ask(&mut observer, "CLIENT PAUSE 50 WRITE");
            }
            let batch = [request(&["SET", "small", "1"]), set("one"), request(&["PING"]), set("other"), set("one")];
            client.send(&batch.concat()).unwrap();
            for reply in ["+OK\r\n", "+OK\r\n", "+PONG\r\n", "+OK\r\n", "+OK\r\n"] {
                assert_eq!(client.reply().unwrap(), reply.as_bytes(), "{driver}, {len}");
            }
            for name in ["one", "other"] {
                let reply = client.command(&["GET", name]).unwrap();
                assert!(text(&reply) == Some(value.as_bytes()), "{driver}, {len}");
            }
        }
    }
}

#[test]
fn a_killed_client_sees_the_end_after_any_request() {
    for driver in DRIVERS {
        let server = start(driver, &["--workers", "2"]);
        let mut admin = server.connect();
        for held in ["PING", "BLPOP none 0"] {
            let mut victim = server.connect();
            let id = ask(&mut victim, "CLIENT ID");
            victim.send(format!("{held}\r\nPING\r\n").as_bytes()).unwrap();
            assert_eq!(ask(&mut admin, &format!("CLIENT KILL ID {}", id[1..].trim())), ":1\r\n");
            victim.stream().set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let mut rest = Vec::new();
            // If bytes were not read, the connection ends with a reset.
            let read = victim.stream().read_to_end(&mut rest).map_err(|error| error.kind());
            assert!(read.is_ok_and(|_| true) || read == Err(std::io::ErrorKind::ConnectionReset), "{driver}: {read:?}");
            assert!(victim.stream().write_all(&[b'x'; 100_000]).is_err() || victim.stream().write_all(b"x").is_err());
        }
        assert_eq!(ask(&mut admin, "PING"), "+PONG\r\n");
    }
}

#[test]
fn a_worker_goes_to_another_thread_and_back_with_all_its_connections() {
    for driver in DRIVERS {
        let server = start(driver, &["--workers", "1", "--busy-reply-threshold", "5"]);
        let (mut one, mut other) = (server.connect(), server.connect());
        let many: Vec<_> = (0..300).map(|_| server.connect()).collect();
        let mut waiting = server.connect();
        waiting.send(b"BLPOP k 0\r\nPING\r\n").unwrap();
        while !ask(&mut other, "INFO clients").contains("blocked_clients:1\r\n") {}
        for _ in 0..5 {
            one.send(&[request(&["EVAL", "while true do end", "0"]), b"PING\r\n".to_vec()].concat()).unwrap();
            while !ask(&mut other, "PING").starts_with("-BUSY") {}
            one.send(b"PING\r\n").unwrap();
            assert_eq!(ask(&mut other, "SCRIPT KILL"), "+OK\r\n", "{driver}");
            let ended = one.reply().unwrap().escape_ascii().to_string();
            assert!(ended.contains("Script killed by user"), "{driver}: {ended}");
            (0..2).for_each(|_| assert_eq!(one.reply().unwrap(), b"+PONG\r\n"));
            assert_eq!(ask(&mut other, "PING"), "+PONG\r\n");
        }
        assert_eq!(ask(&mut other, "LPUSH k v"), ":1\r\n");
        assert_eq!(waiting.reply().unwrap(), b"*2\r\n$1\r\nk\r\n$1\r\nv\r\n");
        assert_eq!(waiting.reply().unwrap(), b"+PONG\r\n");
        for mut client in many {
            assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
        }
    }
}

/// Checks that a connection's own requests never overtake messages that were published before the requests arrived.
#[test]
fn a_message_published_before_its_listener_unsubscribes_reaches_it_first() {
    for driver in DRIVERS {
        let server = start(driver, &["--workers", "1"]);
        let (mut listener, mut publisher) = (server.connect(), server.connect());
        let signal = |name: &str| {
            let id = server.process_id().to_string();
            let sent = std::process::Command::new("kill").args([name, &id]).status().expect("there is kill");
            assert!(sent.success());
        };
        ask(&mut publisher, "PING");
        for leave in [&["UNSUBSCRIBE", "a"][..], &["UNSUBSCRIBE"], &["RESET"]] {
            ask(&mut listener, "SUBSCRIBE a");
            // The worker finds both when it goes on, in the order in which they arrived.
            signal("-STOP");
            publisher.send(&request(&["PUBLISH", "a", "m"])).unwrap();
            listener.send(&request(leave)).unwrap();
            signal("-CONT");
            assert_eq!(publisher.reply().unwrap(), b":1\r\n", "{driver} {leave:?}");
            let message = b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nm\r\n";
            assert_eq!(listener.reply().unwrap(), message, "{driver} {leave:?}");
            listener.reply().unwrap();
        }
        // In the reverse order, a client that subscribes first gets the message, and a client that has unsubscribed does not.
        for (words, count) in [(["SUBSCRIBE", "b"], b":1\r\n"), (["UNSUBSCRIBE", "b"], b":0\r\n")] {
            signal("-STOP");
            listener.send(&request(&words)).unwrap();
            publisher.send(&request(&["PUBLISH", "b", "m"])).unwrap();
            signal("-CONT");
            assert_eq!(publisher.reply().unwrap(), count, "{driver} {words:?}");
            listener.reply().unwrap();
            if count == b":1\r\n" {
                listener.reply().unwrap();
            }
        }
    }
}
