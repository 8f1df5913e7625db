//! The option `http` from outside: the answers that each user gets, and the effects of foreign bytes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use sleeve_tests::{Kind, Server};

/// Returns a server that answers HTTP, and its port for that.
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
    send(port, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n").as_bytes())
}

#[test]
fn metrics_and_the_page_are_served_to_permitted_users() {
    let (server, port) = server(&["--requirepass", "secret"]);
    for path in ["/", "/status", "/clients", "/keys", "/metrics", "/nothing"] {
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
    // All that it is made of is here.
    let parts: Vec<&str> =
        page.split("href=\"").chain(page.split("src=\"")).filter_map(|rest| rest.split('"').next()).collect();
    for part in parts.iter().filter(|part| part.ends_with(".js") || part.ends_with(".css")) {
        assert!(get(port, &format!("/{part}"), header).starts_with("HTTP/1.1 200"), "{part}");
    }
    let put = send(port, b"DELETE /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(put.starts_with("HTTP/1.1 405"), "{put}");
}

#[test]
fn a_node_of_a_cluster_tells_its_state_to_users_that_may_ask_for_it() {
    let bus_port = sleeve_tests::server::free_port().to_string();
    let (server, port) = server(&["--cluster-enabled", "yes", "--cluster-port", &bus_port]);
    let metrics = get(port, "/metrics", "");
    for line in ["redis_cluster_enabled 1", "redis_cluster_state 0", "redis_cluster_slots_assigned 0"] {
        assert!(metrics.lines().any(|own| own == line), "{line}\n{metrics}");
    }
    assert!(get(port, "/status", "").contains("\"cluster_state\":\"fail\""));
    let user = ["ACL", "SETUSER", "watcher", "on", ">secret", "+info"];
    server.connect().command(&user).expect("it answers");
    // watcher:secret
    let metrics = get(port, "/metrics", "Authorization: Basic d2F0Y2hlcjpzZWNyZXQ=\r\n");
    assert!(metrics.contains("\nredis_cluster_enabled 1\n") && !metrics.contains("redis_cluster_state"), "{metrics}");
}

#[test]
fn probes_follow_the_role_without_a_password() {
    let (server, port) = server(&["--requirepass", "secret", "--masterauth", "secret"]);
    let statuses = || {
        ["/live", "/ready", "/ready?stale=yes", "/primary", "/replica"].map(|path| {
            // A load balancer sends no host, or one that is not configured.
            let [old, named] = ["1.0\r\n", "1.1\r\nHost: pod.example\r\nConnection: close\r\n"]
                .map(|rest| send(port, format!("GET {path} HTTP/{rest}\r\n").as_bytes()))
                .map(|answer| answer.split(' ').nth(1).unwrap_or_default().to_owned());
            assert_eq!(old, named, "{path}");
            old
        })
    };
    assert_eq!(statuses(), ["200", "200", "200", "200", "503"]);
    let mut connection = server.connect();
    connection.command(&["AUTH", "secret"]).expect("it answers");
    connection.command(&["REPLICAOF", "127.0.0.1", "1"]).expect("it answers");
    assert_eq!(statuses(), ["200", "503", "200", "503", "503"]);
    connection.command(&["REPLICAOF", "NO", "ONE"]).expect("it answers");
    assert_eq!(statuses(), ["200", "200", "200", "200", "503"]);
}

#[test]
fn probes_are_answered_while_a_script_or_a_pause_holds_the_data() {
    let (server, port) = server(&["--busy-reply-threshold", "1"]);
    let are_well =
        || ["/live", "/ready", "/primary"].iter().all(|path| get(port, path, "").starts_with("HTTP/1.1 200"));
    let (mut runner, mut other) = (server.connect(), server.connect());
    let script = ["EVAL", "while true do end", "0"].map(str::to_owned);
    runner.send(&sleeve_tests::connection::request(&script)).expect("it listens");
    let is_busy = |reply: Vec<u8>| reply.starts_with(b"-BUSY");
    while !is_busy(other.command(&["GET", "a"]).expect("it answers")) {}
    assert!(are_well(), "a script runs");
    other.command(&["SCRIPT", "KILL"]).expect("it answers");
    runner.reply().expect("it ends");
    other.command(&["CLIENT", "PAUSE", "600000", "ALL"]).expect("it answers");
    assert!(are_well(), "clients are paused");
}

#[test]
fn only_names_of_the_server_are_served_and_no_other_site() {
    let (_server, port) = server(&["--http-hosts", "metrics.example cache"]);
    let asked = |head: &str| {
        let answer = send(port, format!("{head}\r\n\r\n").as_bytes());
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for (head, status) in [
        ("GET /metrics HTTP/1.1\r\nHost: metrics.example:9121", "200"),
        ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1", "200"),
        ("GET /metrics HTTP/1.0", "200"),
        ("HEAD /metrics HTTP/1.1\r\nHost: [::1]:1", "200"),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example", "421"),
        ("GET http://evil.example/metrics HTTP/1.1\r\nHost: 127.0.0.1", "421"),
        ("GET /metrics HTTP/1.1", "400"),
        ("GET /metrics HTTP/1.1\r\nHost: cache\r\nHost: cache", "400"),
        ("GET /metrics HTTP/1.1\r\nHost: cache\r\nOrigin: http://evil.example", "403"),
        ("GET /status HTTP/1.1\r\nHost: cache\r\nSec-Fetch-Site: cross-site", "403"),
        ("OPTIONS /metrics HTTP/1.1\r\nHost: cache", "405"),
        ("POST /metrics HTTP/1.1\r\nHost: cache\r\nContent-Length: 0", "405"),
    ] {
        assert_eq!(asked(head), status, "{head}");
    }
    let refused = get(port, "/metrics", "").to_ascii_lowercase();
    assert!(!refused.contains("access-control-allow"), "{refused}");
}

#[test]
fn foreign_bytes_and_half_closed_connections_are_answered_in_full() {
    let (server, port) = server(&[]);
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(100_000));
    let header = format!("GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {}\r\n\r\n", "A".repeat(100_000));
    for bytes in [&b"\x00\xff\xfe\r\n\r\n"[..], b"SET a b\r\n\r\n", b"GET\r\n\r\n", long.as_bytes(), header.as_bytes()]
    {
        let answer = send(port, bytes);
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    // One request a connection: the bytes behind it are read and not answered, and take nothing from the answer.
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = send(port, request.repeat(500).as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1);
    assert!(
        answer.to_ascii_lowercase().contains("connection: close") && answer.contains("\nredis_cluster_enabled 0\n")
    );
    let mut half = TcpStream::connect(("127.0.0.1", port)).expect("it is served");
    half.write_all(request.as_bytes()).expect("it reads");
    half.shutdown(std::net::Shutdown::Write).expect("a socket");
    let mut answer = String::new();
    half.read_to_string(&mut answer).expect("it is text");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(server.connect().command(&["DBSIZE"]).expect("it goes on"), b":0\r\n");
}

/// Connections that hold the port: some say nothing, some begin a request, some send requests and read nothing, some end at once.
fn hostile(port: u16, count: usize) -> Vec<TcpStream> {
    let requests = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(20);
    let one = |number: usize| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the kernel takes it");
        // It may have been told to leave amid its bytes.
        _ = match number % 4 {
            0 => Ok(()),
            1 => stream.write_all(b"GET /metrics HTTP/1.1\r\nX-a: b"),
            2 => stream.write_all(requests.as_bytes()),
            _ => stream.shutdown(std::net::Shutdown::Write),
        };
        stream
    };
    (0..count).map(one).collect()
}

#[test]
fn a_thousand_hostile_connections_keep_no_scrape_waiting() {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limits.maximum, ..limits };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).expect("as far as it may be");
    let (server, port) = server(&[]);
    let held = hostile(port, 1_000);
    // The machine may be busy otherwise: one of several counts.
    let scrape = |_| {
        let began = Instant::now();
        let answer = get(port, "/metrics", "");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\nredis_cluster_enabled 0\n"), "{answer}");
        began.elapsed()
    };
    let fastest = (0..5).map(scrape).min().expect("some");
    assert!(fastest < Duration::from_secs(2), "{fastest:?}");
    drop(held);
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
