//! Connections that move to memory shared by client and server: the bytes that they carry, the clients that get none, and the
//! remains when either side dies or breaks the rules.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Config};
use sleeve_rings::handover;
use sleeve_rings::memory::Memory;
use sleeve_rings::ring::{Words, Writer};
use sleeve_rings::side::{Role, ends};
use sleeve_tests::{Kind, Server};

const DRIVERS: [&str; 3] = ["epoll", "uring", "tokio"];

fn serve(arguments: &[&str]) -> Server {
    Server::start_with(Kind::Sleeve, &[&["--unixsocket", "server.sock"], arguments].concat())
}

fn socket_url(server: &Server) -> String {
    format!("unix://{}", server.folder().join("server.sock").display())
}

fn shares(client: &Client) -> bool {
    client.client_info().wait().expect("it is there").contains(" rings=65536")
}

/// Returns a number of INFO.
fn info(server: &Server, field: &str) -> i64 {
    let info = server.connect().command(&["INFO"]).expect("it answers");
    let info = String::from_utf8_lossy(&info).into_owned();
    let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("no {field} in {info}"))
}

/// Returns the number of pieces of shared memory that the server has mapped.
fn mapped(server: &Server) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", info(server, "process_id"))).expect("it lives");
    maps.lines().filter(|line| line.contains("sleeve-rings")).count()
}

#[test]
fn everything_goes_through_the_memory_over_each_driver() {
    for io in DRIVERS {
        let server = serve(&["--io", io]);
        for url in [server.url(), socket_url(&server)] {
            let client = Client::connect(&url).unwrap();
            assert!(shares(&client), "{io} {url}");
            let large: String = (0..500_000).map(|number| format!("{number},")).collect();
            client.set("large", &large).wait().unwrap();
            let got: String = client.get("large").wait().unwrap();
            assert!(got == large, "{io}");
            let replies: Vec<_> = (0..20_000).map(|number| client.rpush("list", number)).collect();
            assert!(replies.into_iter().zip(1..).all(|(reply, number)| reply.wait() == Ok(number)));
            let channel = client.subscribe(["news"]).unwrap();
            let lease = client.lease().unwrap();
            let waiting = lease.blpop::<Option<(String, String)>>(["queue"], Duration::from_secs(60));
            // There are three: the client's connection, its subscription and its lease, which is opened at its first use.
            while client.client_list().wait().unwrap().matches(" rings=65536").count() != 3 {}
            client.rpush("queue", "x").wait().unwrap();
            assert!(waiting.wait().unwrap().is_some());
            client.publish("news", "here").wait().unwrap();
            assert!(channel.recv().wait().is_ok());
            client.flushall().wait().unwrap();
        }
    }
}

#[test]
fn shared_memory_serves_threads_and_pipelines_beside_sockets() {
    for io in DRIVERS {
        let server = serve(&["--io", io]);
        let client = Client::connect(&server.url()).unwrap();
        let over_tcp = Client::connect(&format!("{}?unix_socket=no", server.url())).unwrap();
        assert!(shares(&client) && !shares(&over_tcp));
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let client = &client;
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        client.incr("shared").wait().unwrap();
                    }
                    let replies: Vec<_> = (0..5_000).map(|_| client.incr(format!("own:{thread}"))).collect();
                    assert!(replies.into_iter().zip(1..).all(|(reply, number)| reply.wait() == Ok(number)));
                });
            }
            scope.spawn(|| (0..1_000).for_each(|_| _ = over_tcp.incr("shared").wait().unwrap()));
        });
        assert_eq!(over_tcp.get("shared").wait(), Ok(7_000));
    }
}

/// Checks a thread that is alone on its connection and reads for itself. A caller that arrives when it stops must still be
/// served; if a bell were not rung, the test would wait for ever.
#[test]
fn callers_beside_a_thread_that_reads_for_itself_are_answered() {
    for io in DRIVERS {
        let server = serve(&["--io", io]);
        let (told, heard) = mpsc::channel();
        let config = Config::from_url(&format!("{}?command_timeout=none", socket_url(&server))).unwrap();
        let client = Client::connect_with(config.on_error(move |error| _ = told.send(error.to_string()))).unwrap();
        assert!(shares(&client));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut expected = 0;
        for round in 0..30 {
            for at_once in [1, 2, 16, 500] {
                let mut on_their_way = VecDeque::new();
                for _ in 0..500 {
                    on_their_way.push_back(client.incr("n"));
                    if on_their_way.len() == at_once {
                        expected += 1;
                        assert_eq!(on_their_way.pop_front().unwrap().wait(), Ok(expected), "{io} {round}");
                    }
                }
                for reply in on_their_way {
                    expected += 1;
                    assert_eq!(reply.wait(), Ok(expected), "{io} {round}");
                }
            }
            match round % 4 {
                // No caller waits.
                0 => {
                    client.set("text", "x").forget();
                    client.incr("text").forget();
                    assert!(heard.recv().unwrap().contains("not an integer"), "{io}");
                }
                // A task does.
                1 => runtime.block_on(async {
                    for _ in 0..100 {
                        let (one, other) = tokio::join!(client.incr("n"), client.incr("n"));
                        assert_eq!((one, other), (Ok(expected + 1), Ok(expected + 2)), "{io}");
                        expected += 2;
                    }
                }),
                // Several callers wait.
                2 => {
                    std::thread::scope(|scope| {
                        for _ in 0..3 {
                            scope.spawn(|| (0..500).for_each(|_| _ = client.incr("n").wait().unwrap()));
                        }
                    });
                    expected += 1_500;
                }
                // More bytes pass in both directions than the memory holds.
                _ => {
                    let large = "x".repeat(200_000);
                    let sent: Vec<_> = (0..20).map(|_| client.cmd("ECHO").arg(&large).send::<String>()).collect();
                    assert!(sent.into_iter().all(|reply| reply.wait().is_ok_and(|got| got == large)), "{io}");
                }
            }
        }
    }
}

#[test]
fn either_side_can_switch_shared_memory_off_and_the_reason_is_shown() {
    let server = serve(&[]);
    let client = Client::connect(&format!("{}?shared_memory=no", server.url())).unwrap();
    assert!(!shares(&client) && client.client_info().wait().unwrap().contains("server.sock:0"));
    client.config_set([("unixsocket-rings", "no")]).wait().unwrap();
    let refused = Client::connect(&socket_url(&server)).unwrap();
    assert!(!shares(&refused));
    let say = |stream: &mut UnixStream, words: &str, reply: &str| {
        stream.write_all(words.as_bytes()).unwrap();
        let mut got = vec![0; reply.len()];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8_lossy(&got), reply);
    };
    let mut raw = UnixStream::connect(server.folder().join("server.sock")).unwrap();
    let off = "-ERR CLIENT RINGS is switched off by the option 'unixsocket-rings'\r\n";
    say(&mut raw, "CLIENT RINGS\r\n", off);
    client.config_set([("unixsocket-rings", "yes")]).wait().unwrap();
    say(&mut raw, "MULTI\r\n", "+OK\r\n");
    say(&mut raw, "CLIENT RINGS\r\n", "-ERR Command not allowed inside a transaction\r\n");
    let error = server.connect().command(&["CLIENT", "RINGS"]).unwrap();
    assert!(error.starts_with(b"-ERR CLIENT RINGS is for connections over the Unix socket"));
    assert!(shares(&Client::connect(&socket_url(&server)).unwrap()));
}

/// A hand-written client, without the library.
struct Peer {
    socket: UnixStream,
    memory: Memory,
    writer: Writer<Memory>,
}

impl Peer {
    fn connect(server: &Server) -> Self {
        let mut socket = UnixStream::connect(server.folder().join("server.sock")).unwrap();
        socket.write_all(b"CLIENT RINGS\r\n").unwrap();
        let file = loop {
            if let Ok((_, Some(file))) = handover::receive(&socket, &mut [0; 16]) {
                break file;
            }
        };
        let memory = Memory::open(&file).unwrap();
        let (writer, _) = ends(memory.clone(), Role::Client);
        Self { socket, memory, writer }
    }

    fn say(&mut self, bytes: &[u8]) -> usize {
        let count = self.writer.write(bytes).unwrap_or(0);
        _ = self.socket.write_all(b"!");
        count
    }

    /// Waits until the server has closed the connection.
    fn await_end(&mut self) {
        self.socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        while !matches!(self.socket.read(&mut [0; 64]), Ok(0)) {}
    }
}

#[test]
fn positions_that_cannot_be_end_the_connection_and_nothing_else() {
    for io in DRIVERS {
        let server = serve(&["--io", io]);
        let client = Client::connect(&server.url()).unwrap();
        let words = Peer::connect(&server).memory.words().len();
        for round in 0..200_u64 {
            let mut peer = Peer::connect(&server);
            peer.say(b"SET k 1\r\nGET k\r\n*3\r\n$3\r\nSET\r\n$1\r\n");
            // The heads of both rings, and some of the bytes behind them.
            for word in 0..40 {
                let word = if round % 2 == 0 { word } else { words / 2 + word };
                peer.memory.words()[word]
                    .store(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (round % 64), Ordering::SeqCst);
            }
            peer.say(b"PING\r\n");
        }
        let mut liar = Peer::connect(&server);
        liar.memory.words()[0].store(u64::MAX, Ordering::SeqCst);
        liar.say(b"");
        liar.await_end();
        assert_eq!(client.incr("n").wait(), Ok(1), "{io}");
        while mapped(&server) != 1 {}
    }
}

#[test]
fn a_client_that_never_reads_is_closed_by_its_limit() {
    for io in DRIVERS {
        let server = serve(&["--io", io, "--client-output-buffer-limit", "normal 1mb 0 0"]);
        let client = Client::connect(&server.url()).unwrap();
        client.set("k", "x".repeat(100_000)).wait().unwrap();
        let mut peer = Peer::connect(&server);
        for _ in 0..20 {
            peer.say(b"GET k\r\n");
        }
        peer.await_end();
        while mapped(&server) != 1 {}
    }
}

/// The variable with the server's URL for the client process of this test.
const URL: &str = "SLEEVE_TESTS_URL_OF_A_LOAD";

/// Runs the client that [`a_client_that_is_killed_leaves_nothing_behind`] kills. It is no test.
#[test]
fn load_until_killed() {
    let Ok(url) = std::env::var(URL) else { return };
    let client = Client::connect(&url).unwrap();
    let value = "x".repeat(50_000);
    loop {
        let sent: Vec<_> = (0..100).map(|number| client.set(format!("k:{number}"), &value)).collect();
        let read: Vec<_> = (0..100).map(|number| client.get::<String>(format!("k:{number}"))).collect();
        sent.into_iter().for_each(|reply| drop(reply.wait()));
        read.into_iter().for_each(|reply| drop(reply.wait()));
    }
}

#[test]
fn a_client_that_is_killed_leaves_nothing_behind() {
    for io in DRIVERS {
        let server = serve(&["--io", io]);
        let mut watch = server.connect();
        let sockets = |server: &Server| {
            let open = std::fs::read_dir(format!("/proc/{}/fd", info(server, "process_id"))).expect("it lives");
            let links = open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
            links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
        };
        let before = sockets(&server);
        for _ in 0..5 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "connections::shared_memory::load_until_killed"])
                .env(URL, socket_url(&server))
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            while info(&server, "total_commands_processed") % 1_000 < 500 || mapped(&server) == 0 {}
            child.kill().unwrap();
            child.wait().unwrap();
            let clients = |watch: &mut sleeve_tests::Connection| {
                let list = watch.command(&["CLIENT", "LIST"]).unwrap();
                String::from_utf8_lossy(&list).matches(" rings=").count()
            };
            while clients(&mut watch) != 0 || mapped(&server) != 0 || sockets(&server) > before {}
        }
    }
}

#[test]
fn a_killed_server_leaves_no_caller_waiting_and_is_found_again() {
    for io in DRIVERS {
        let mut server = serve(&["--io", io]);
        // A forgotten caller would wait for ever.
        let client = Client::connect(&format!("{}?backoff_max=20ms&command_timeout=none", server.url())).unwrap();
        assert!(shares(&client));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        _ = client.set("k", "x".repeat(10_000)).wait();
                    }
                });
            }
            for _ in 0..5 {
                while client.get::<Option<String>>("k").wait().is_err() {}
                server.kill();
                server.restart().unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        while !client.client_info().wait().is_ok_and(|info| info.contains(" rings=65536")) {}
    }
}

#[test]
fn a_client_that_sends_more_than_its_request_for_memory_is_closed() {
    for io in DRIVERS {
        let server = serve(&["--io", io]);
        let large = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n{}", "x".repeat(40_000));
        for more in ["BLPOP k 0\r\n", "*1\r\n", &large] {
            let mut socket = UnixStream::connect(server.folder().join("server.sock")).unwrap();
            socket.write_all(format!("CLIENT RINGS\r\n{more}").as_bytes()).unwrap();
            let mut got = Vec::new();
            // Bytes that the server has not read make the end an error.
            _ = socket.read_to_end(&mut got);
            assert!(got.is_empty() || got == b"+OK\r\n", "{io}: {got:?}");
        }
        while mapped(&server) != 0 {}
        assert_eq!(server.connect().command(&["PING"]).unwrap(), b"+PONG\r\n");
    }
}
