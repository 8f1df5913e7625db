//! Servers that attack: replies without end, lengths that lie, messages without end, redirects in circles, maps and Sentinels
//! with any content. In all cases, a call ends in its time, and the client keeps no more bytes than it may.
//!
//! The bytes that it keeps are measured in a process of its own: this program once more, which runs one ignored test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, Endpoint, Error, ErrorKind};

use crate::endless::in_time;
use crate::scripted::{Requests, begins, config, echo, greet, serve, serve_all};

/// A function that makes a node's answer from its port and the number of earlier requests.
type Answer = fn(u16, u32) -> Vec<u8>;

const LIMIT: Duration = Duration::from_millis(200);

/// The most bytes that a client may keep of a reply in these tests.
const REPLY_BYTES_MAX: usize = 4 << 20;

/// The variable with the number of the attack and the server's port, for the process that measures.
const PLACE: &str = "SLEEVE_HOSTILE_PLACE";

/// The bytes that a hostile server sends: the beginning once, and then the rest again and again.
struct Attack {
    name: &'static str,
    begin: &'static [u8],
    again: &'static [u8],
    /// A part of the caller's error, if it is not a timeout.
    told: &'static str,
}

const X: &[u8] = &[b'x'; 4096];

const ATTACKS: [Attack; 12] = [
    Attack { name: "a string without end", begin: b"$1099511627776\r\n", again: X, told: "reply_bytes_max" },
    Attack { name: "a list without end", begin: b"*4294967295\r\n", again: b":1\r\n", told: "reply_bytes_max" },
    Attack { name: "a map of lies", begin: b"%4294967295\r\n", again: b"%4294967295\r\n", told: "reply_bytes_max" },
    Attack { name: "lists in lists", begin: b"", again: b"*1\r\n", told: "reply_bytes_max" },
    Attack { name: "attributes", begin: b"", again: b"|1\r\n+a\r\n+b\r\n", told: "reply_bytes_max" },
    Attack { name: "one message without end", begin: b">4294967295\r\n", again: b"+a\r\n", told: "reply_bytes_max" },
    Attack { name: "a line without end", begin: b"+", again: X, told: "too long" },
    Attack { name: "half a reply", begin: b"$1000000\r\nhalf", again: b"", told: "timeout" },
    Attack { name: "messages", begin: b"", again: b">2\r\n+a\r\n+b\r\n", told: "timeout" },
    Attack {
        name: "invalidations",
        begin: b"",
        again: b">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
        told: "timeout",
    },
    Attack { name: "replies nobody asked for", begin: b"", again: b"+OK\r\n", told: "" },
    Attack { name: "nulls", begin: b"*4294967295\r\n", again: b"_\r\n", told: "reply_bytes_max" },
];

/// Sends the bytes of an attack until the client has closed the connection.
fn attack(stream: &mut TcpStream, attack: &Attack) {
    _ = stream.write_all(attack.begin);
    if attack.again.is_empty() {
        while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
        return;
    }
    let chunk = attack.again.repeat(1 + 65536 / attack.again.len());
    while stream.write_all(&chunk).is_ok() {}
}

/// Starts a server that attacks a client at a request which `is_due`; it answers earlier requests well. Returns its port.
fn hostile(number: usize, is_due: fn(&[String]) -> bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut requests = Requests::default();
                while requests.receive(&mut stream) {
                    while let Some(words) = requests.next() {
                        match greet(&words).filter(|_| !is_due(&words)) {
                            Some(reply) => _ = stream.write_all(&reply),
                            None => return attack(&mut stream, &ATTACKS[number]),
                        }
                    }
                }
            });
        }
    });
    port
}

fn cautious(port: u16) -> Config {
    let config = config(port).command_timeout(Some(LIMIT)).connect_timeout(LIMIT);
    config.reply_bytes_max(REPLY_BYTES_MAX).queue_bytes_max(REPLY_BYTES_MAX)
}

/// Returns a figure of the kernel about this process's memory, in bytes.
fn memory(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Runs an ignored test in another process, with this attack and port; panics if that process fails.
fn apart(test: &str, place: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("hostile::{test}"), "--exact", "--ignored", "--nocapture"]).env(PLACE, place);
    let output = command.output().unwrap();
    let told = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success() && told[0].contains("1 passed"), "{place}: {}{}", told[0], told[1]);
}

/// Returns the number of the attack and the server's port for this process.
fn place() -> (usize, u16) {
    let place = std::env::var(PLACE).unwrap();
    let (number, port) = place.split_once(' ').unwrap();
    (number.parse().unwrap(), port.parse().unwrap())
}

/// Checks that the kept memory is bounded: one reply's bound, twice while its buffer grows, and the memory of a client.
fn is_bounded(before: usize, what: &str) {
    let peak = memory("VmHWM:").saturating_sub(before);
    assert!(peak <= 2 * REPLY_BYTES_MAX + (6 << 20), "{what}: {} KiB", peak / 1024);
}

#[test]
fn any_reply_ends_its_call_and_memory_is_bounded() {
    for number in 0..ATTACKS.len() {
        let port = hostile(number, |words| words[0] == "GET");
        apart("one_process_under_attack", &format!("{number} {port}"));
    }
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn one_process_under_attack() {
    let (number, port) = place();
    let Attack { name, told, .. } = ATTACKS[number];
    let client = Client::connect_with(cautious(port)).unwrap();
    let cached = client.cached().unwrap();
    let before = memory("VmRSS:");
    for round in 0..3 {
        let since = Instant::now();
        let error = match round {
            1 => cached.get::<String>("k").wait().unwrap_err(),
            _ => client.get::<String>("k").wait().map(drop).err().unwrap_or_else(|| Error::usage("")),
        };
        in_time(since, LIMIT);
        match told {
            "timeout" => assert_eq!(error.kind(), ErrorKind::Timeout, "{name}: {error}"),
            told if round == 0 => assert!(error.message().contains(told), "{name}: {error}"),
            _ => {}
        }
    }
    // After the caller has given up, no task of the client goes on keeping bytes that arrive.
    thread::sleep(LIMIT / 2);
    is_bounded(before, name);
}

#[test]
fn a_reply_that_is_too_long_fails_only_its_call_without_a_resend() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = asked.clone();
    let port = serve(move |words| match words[1].as_str() {
        "large" => {
            counted.fetch_add(1, Ordering::SeqCst);
            let length = REPLY_BYTES_MAX + 1;
            Some([format!("${length}\r\n").into_bytes(), vec![b'x'; length], b"\r\n".to_vec()].concat())
        }
        _ => echo(words),
    });
    let client = Client::connect_with(config(port).reply_bytes_max(REPLY_BYTES_MAX)).unwrap();
    let (large, behind) = (client.get::<String>("large"), client.get::<String>("behind"));
    let error = large.wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Protocol, Effect::Unknown), "{error}");
    // The length counts the string, its length in front of it, and the ends of both lines.
    let length = REPLY_BYTES_MAX + 1 + 12;
    let told = format!("a reply of {length} bytes or more is longer than reply_bytes_max, {REPLY_BYTES_MAX} bytes");
    assert!(error.message().contains(&told), "{error}");
    assert_eq!((behind.wait(), asked.load(Ordering::SeqCst)), (Ok("behind".to_owned()), 1));
    // A caller that trusts its server raises the bound.
    let client = Client::connect_with(config(port).reply_bytes_max(2 * REPLY_BYTES_MAX)).unwrap();
    assert_eq!(client.get::<String>("large").wait().unwrap().len(), REPLY_BYTES_MAX + 1);
}

#[test]
fn an_attack_on_the_greeting_fails_the_connection_in_its_time() {
    for (number, Attack { name, .. }) in ATTACKS.iter().enumerate() {
        for is_due in [begins as fn(&[String]) -> bool, |words| words[0] == "CONFIG"] {
            let since = Instant::now();
            let outcome = Client::connect_with(cautious(hostile(number, is_due)).unix_socket(false));
            in_time(since, LIMIT);
            // Further good answers are no fault.
            if !matches!(*name, "replies nobody asked for") {
                assert_eq!(outcome.map(drop).unwrap_err().kind(), ErrorKind::Connect, "{name}");
            }
        }
    }
}

/// Starts a server that answers the requests of a subscription well, and then attacks.
fn publisher(begin: &'static [u8], again: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, again) = (stream.unwrap(), again.clone());
            thread::spawn(move || {
                let mut requests = Requests::default();
                while requests.receive(&mut stream) {
                    while let Some(words) = requests.next() {
                        let Some(reply) = greet(&words) else {
                            _ = stream.write_all(b">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
                            _ = stream.write_all(begin);
                            while stream.write_all(&again).is_ok() {}
                            return;
                        };
                        _ = stream.write_all(&reply);
                    }
                }
            });
        }
    });
    port
}

#[test]
fn messages_of_a_subscription_are_bounded_in_number_and_length() {
    let message = b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$4\r\nmore\r\n".repeat(1000);
    let attacks = [(&b""[..], message), (b">3\r\n$1099511627776\r\n", X.to_vec()), (b"", b"*1\r\n".repeat(1000))];
    for (number, (begin, again)) in attacks.into_iter().enumerate() {
        apart("one_subscriber_under_attack", &format!("{number} {}", publisher(begin, again)));
    }
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn one_subscriber_under_attack() {
    let (number, port) = place();
    let client = Client::connect_with(cautious(port)).unwrap();
    let before = memory("VmRSS:");
    let subscription = client.subscribe("news").unwrap();
    // The subscription is not read for a while; then its messages are there, or the event that messages may be missing.
    thread::sleep(LIMIT);
    for _ in 0..10 {
        subscription.recv().wait_for(Duration::from_secs(60)).unwrap().expect("something comes");
    }
    // The messages that wait for their reader are bounded by the queue's bound: their bytes as they travelled, and 64 more
    // for each.
    let peak = memory("VmHWM:").saturating_sub(before);
    assert!(peak <= 6 * REPLY_BYTES_MAX + (6 << 20), "{number}: {} KiB", peak / 1024);
}

/// Starts a server of a cluster that answers CLUSTER SLOTS by `slots`, and everything else by `other`. Both functions get its
/// port.
fn node(slots: fn(u16) -> Vec<u8>, other: fn(u16, u32) -> Vec<u8>) -> (u16, Arc<AtomicU32>) {
    let (port, asked) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (own, counted) = (port.clone(), asked.clone());
    let served = serve_all(move |words| {
        let own = own.load(Ordering::SeqCst) as u16;
        Some(match words[0].as_str() {
            "HELLO" => b"%1\r\n$4\r\nmode\r\n$7\r\ncluster\r\n".to_vec(),
            "CLUSTER" => slots(own),
            "ASKING" => b"+OK\r\n".to_vec(),
            _ => greet(words).unwrap_or_else(|| other(own, counted.fetch_add(1, Ordering::SeqCst))),
        })
    });
    port.store(served.into(), Ordering::SeqCst);
    (served, asked)
}

/// Returns the map of a cluster in which this node owns all slots.
fn all_slots(port: u16) -> Vec<u8> {
    format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n").into_bytes()
}

fn in_cluster(port: u16) -> Config {
    let seeds = vec![("127.0.0.1".to_owned(), port)];
    let config = Config::new(Endpoint::Cluster(seeds)).backoff(Duration::from_millis(1), Duration::from_millis(10));
    config.command_timeout(Some(LIMIT)).connect_timeout(LIMIT).reply_bytes_max(REPLY_BYTES_MAX)
}

#[test]
fn redirections_in_circles_end_with_the_call_and_go_slowly() {
    let moved = |port: u16, _| format!("-MOVED 12182 127.0.0.1:{port}\r\n").into_bytes();
    let ask = |port: u16, _| format!("-ASK 12182 127.0.0.1:{port}\r\n").into_bytes();
    // These redirects lead to servers that do not exist, each time to another one.
    let away = |_, count: u32| format!("-MOVED 12182 127.0.0.1:{}\r\n", 1 + count % 1000).into_bytes();
    let again = |_, _| b"-TRYAGAIN\r\n".to_vec();
    let (circles, aways): ([Answer; 4], usize) = ([moved, ask, again, away], 3);
    for (number, circle) in circles.into_iter().enumerate() {
        let (port, asked) = node(all_slots, circle);
        let client = Client::connect_with(in_cluster(port)).unwrap();
        for _ in 0..3 {
            let since = Instant::now();
            let error = client.get::<String>("foo").wait().unwrap_err();
            in_time(since, LIMIT);
            assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Server | ErrorKind::Connect), "{error}");
        }
        let count = asked.load(Ordering::SeqCst);
        assert!(number == aways || count < 3 * 200, "{number}: {count} requests in {:?}", LIMIT * 3);
    }
}

#[test]
fn a_map_of_a_cluster_that_is_none_does_no_harm() {
    // The maps have more ranges than there are slots, more nodes than any range has, one slot of all nodes, and invented
    // content.
    let ranges = |port: u16| {
        let range = format!("*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
        [b"*20000\r\n".to_vec(), range.into_bytes().repeat(20_000)].concat()
    };
    let nodes = |port: u16| {
        let node = format!("*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
        [b"*1\r\n*10002\r\n:0\r\n:16383\r\n".to_vec(), node.into_bytes().repeat(10_000)].concat()
    };
    // No server of another test listens at this address.
    let all_over = |port: u16| {
        let range =
            |other: u16| format!("*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.2\r\n:{}\r\n", port.wrapping_add(other));
        [b"*16384\r\n".to_vec(), (1..=16384).map(range).collect::<String>().into_bytes()].concat()
    };
    let lies = |_| b"*4294967295\r\n*4294967295\r\n".to_vec();
    let maps: [fn(u16) -> Vec<u8>; 4] = [ranges, nodes, all_over, lies];
    for (number, map) in maps.into_iter().enumerate() {
        let (port, _) = node(map, |_, _| b"$1\r\nv\r\n".to_vec());
        let since = Instant::now();
        let client = Client::open_with(in_cluster(port)).unwrap();
        let error = client.get::<String>("foo").wait().unwrap_err();
        in_time(since, LIMIT);
        assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Connect), "{number}: {error}");
    }
}

#[test]
fn sentinels_that_lie_or_never_end_fail_the_connection_in_its_time() {
    let reached = |port: u16| {
        let endpoint =
            Endpoint::Sentinel { sentinels: vec![("127.0.0.1".to_owned(), port)], service: "shop".to_owned() };
        let since = Instant::now();
        let error = Client::connect_with(Config::new(endpoint).connect_timeout(LIMIT)).map(drop).unwrap_err();
        in_time(since, LIMIT);
        assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    };
    (0..ATTACKS.len()).for_each(|number| reached(hostile(number, |words| words[0] == "SENTINEL")));
    // This Sentinel names itself, and a great many others.
    let (port, _) = node(all_slots, |port, _| {
        let address = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.to_string().len());
        let other = |number: usize| format!("*4\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$5\r\n{number}\r\n");
        let others: String = (20_000..30_000).map(other).collect();
        format!("{address}*10000\r\n{others}").into_bytes()
    });
    reached(port);
}
