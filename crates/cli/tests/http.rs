//! The option `http` from outside: who is told what, and what foreign bytes do.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use sleeve_tests::{Kind, Server};

/// A server that answers HTTP, and its port for that.
fn server(options: &[&str]) -> (Server, u16) {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|taken| taken.local_addr()).expect("a port").port();
    let server = Server::start_with(Kind::Sleeve, &[&["--http", &port.to_string()], options].concat());
    (server, port)
}

/// Sends these bytes and returns all that comes back until the other side closes.
fn send(port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it is served");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let mut answer = Vec::new();
    // It may have been told to leave amid its bytes.
    _ = stream.write_all(bytes);
    _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(port: u16, path: &str, header: &str) -> String {
    send(port, format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n").as_bytes())
}

#[test]
fn metrics_and_the_page_are_there_for_who_may_see_them() {
    let (server, port) = server(&["--requirepass", "secret"]);
    for path in ["/", "/status", "/keys", "/metrics", "/nothing"] {
        let refused = get(port, path, "");
        let is_open = path == "/nothing";
        assert!(refused.starts_with(if is_open { "HTTP/1.1 404" } else { "HTTP/1.1 401" }), "{path}: {refused}");
        assert_eq!(refused.contains("\r\nwww-authenticate: Basic"), !is_open, "{refused}");
    }
    // default:secret
    let header = "Authorization: Basic ZGVmYXVsdDpzZWNyZXQ=\r\n";
    let mut ours = server.connect();
    for words in [&["AUTH", "secret"][..], &["SET", "a", "b"], &["GET", "a"], &["GET", "nothing"]] {
        ours.command(words).expect("it answers");
    }
    let metrics = get(port, "/metrics", header);
    for line in ["redis_keyspace_misses_total 1", "redis_commands_total{cmd=\"get\"} 2", "redis_db_keys{db=\"db0\"} 1"]
    {
        assert!(metrics.lines().any(|own| own == line), "{line}\n{metrics}");
    }
    let status = get(port, "/status", header);
    assert!(status.contains("\"redis_mode\":\"standalone\"") && status.contains("\"hot_keys\":"), "{status}");
    let keys = get(port, "/keys?database=0&cursor=0", header);
    assert!(
        keys.contains("\"cursor\":\"0\"") && keys.contains("\"key\":\"a\"") && keys.contains("\"seen\":1"),
        "{keys}"
    );
    let phase = |name: &str| metrics.contains(&format!("\nsleeve_phase_seconds_total{{phase=\"{name}\"}} "));
    assert!(["read", "wait", "execute", "sync", "write"].into_iter().all(phase), "{metrics}");
    let page = get(port, "/", header);
    assert!(page.contains("content-security-policy: default-src 'none'") && page.contains("</html>"), "{page}");
    let put = send(port, b"DELETE /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(put.starts_with("HTTP/1.1 405"), "{put}");
}

#[test]
fn foreign_bytes_and_connections_that_say_nothing_harm_nobody() {
    let (server, port) = server(&[]);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let header = format!("GET / HTTP/1.1\r\nAuthorization: Basic {}\r\n\r\n", "A".repeat(100_000));
    for bytes in [&b"\x00\xff\xfe\r\n\r\n"[..], b"SET a b\r\n\r\n", b"GET\r\n\r\n", long.as_bytes(), header.as_bytes()]
    {
        let answer = send(port, bytes);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    // More than there is room for: each is let go when its head has not come in time, and who comes behind is served.
    let silent: Vec<TcpStream> =
        (0..40).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("the kernel takes it")).collect();
    assert!(get(port, "/metrics", "").starts_with("HTTP/1.1 200"));
    drop(silent);
    assert_eq!(server.connect().command(&["DBSIZE"]).expect("it goes on"), b":0\r\n");
}

#[test]
fn a_place_that_cannot_be_listened_on_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = taken.local_addr().expect("it is bound").to_string();
    for (place, why) in [(place.as_str(), "in use"), ("nowhere", "give a port")] {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let started = std::process::Command::new(env!("CARGO_BIN_EXE_sleeve"))
            .args(["serve", "--port", &free.to_string(), "--save", "", "--http", place])
            .output()
            .expect("it can be started");
        let errors = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(!started.status.success() && errors.contains(place) && errors.contains(why), "{errors}");
    }
}
