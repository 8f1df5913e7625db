//! The Unix socket that a server offers to clients on its machine: the clients that take it, those that do not, and that no
//! other client notices.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use sleeve::prelude::*;
use sleeve::{Client, Config, Endpoint, SubscriptionEvent, Tls};
use sleeve_tests::connection::request;
use sleeve_tests::transcript::frame::text;
use sleeve_tests::{Connection, Kind, Server, Settings};
use sleeve_wire::frame::Scanner;

use crate::connections::tls::Authority;
use sleeve_tests::probe::wait_until;

const SOCKET: [&str; 2] = ["--unixsocket", "server.sock"];
const NO_SOCKET: [&str; 2] = ["--unixsocket", ""];

fn serve(arguments: &[&str]) -> Server {
    Server::start_with(Kind::Sleeve, &[&SOCKET, arguments].concat())
}

fn path(server: &Server) -> PathBuf {
    server.folder().join("server.sock")
}

/// Returns the reply of CLIENT INFO about a client.
fn info(client: &Client) -> String {
    client.client_info().wait().expect("it is there")
}

fn is_over_unix(info: &str) -> bool {
    info.contains("server.sock:0 laddr=") && info.contains("server.sock:0 fd=")
}

fn is_over_tcp(info: &str) -> bool {
    info.contains(" addr=127.0.0.1:") && info.contains(" laddr=127.0.0.1:") && !info.contains("tcp-addr")
}

#[test]
fn a_client_on_the_same_machine_moves_and_logs_in_as_over_tcp() {
    let arguments = [&SOCKET[..], &["--requirepass", "secret"]].concat().iter().map(|&word| word.to_owned()).collect();
    let settings = Settings { arguments, password: Some("secret".to_owned()) };
    let server = Server::try_start(Kind::Sleeve, settings).unwrap();
    let place = server.url().trim_start_matches("redis://").to_owned();
    for protocol in [2, 3] {
        let url = format!("redis://:secret@{place}/3?name=mover&protocol={protocol}");
        let client = Client::connect(&url).unwrap();
        let info = info(&client);
        assert!(is_over_unix(&info) && info.contains(" tcp-addr=127.0.0.1:"), "{info}");
        for part in [" name=mover ", " flags=U ", " db=3 ", " user=default ", " lib-name=sleeve "] {
            assert!(info.contains(part), "{part}: {info}");
        }
        assert!(info.contains(&format!(" resp={protocol} ")), "{info}");
        client.set("k", "x".repeat(3_000_000)).wait().unwrap();
        assert_eq!(client.strlen("k").wait(), Ok(3_000_000));
        let count = |client: &Client| client.client_list().wait().unwrap().lines().count();
        // The connection over TCP closes by itself, as soon as the server looks at it.
        while count(&client) != 1 {}
    }
}

#[test]
fn it_moves_again_when_it_comes_again() {
    let server = serve(&[]);
    let client = Client::connect(&server.url()).unwrap();
    let mut other = server.connect();
    for _ in 0..3 {
        let before = client.client_id().wait().unwrap();
        other.command(&["CLIENT", "KILL", "ID", &before.to_string()]).unwrap();
        while client.client_id().wait().is_ok_and(|now| now == before) {}
        let info = info(&client);
        assert!(is_over_unix(&info) && info.contains(" tcp-addr="), "{info}");
    }
    let channel = client.subscribe(["news"]).unwrap();
    let lease = client.lease().unwrap();
    // A connection over TCP from which one has moved closes by itself, as soon as the server looks at it.
    wait_until("all over the socket", || {
        let list = client.client_list().wait().unwrap();
        list.lines().filter(|line| line.contains("lib-name=sleeve")).all(is_over_unix)
    });
    drop(lease);
    client.publish("news", "here").wait().unwrap();
    let heard = channel.recv().wait().unwrap();
    assert!(matches!(&heard, SubscriptionEvent::Message(message) if message.payload == b"here"), "{heard:?}");
}

#[test]
fn either_side_can_switch_it_off() {
    let server = serve(&[]);
    let client = Client::connect(&format!("{}?unix_socket=no", server.url())).unwrap();
    assert!(is_over_tcp(&info(&client)), "{}", info(&client));
    client.config_set([("unixsocket-offer", "no")]).wait().unwrap();
    let refused = Client::connect(&server.url()).unwrap();
    assert!(is_over_tcp(&info(&refused)), "{}", info(&refused));
    client.config_set([("unixsocket-offer", "yes")]).wait().unwrap();
    let moved = Client::connect(&server.url()).unwrap();
    assert!(is_over_unix(&info(&moved)), "{}", info(&moved));
    let over_unix = Client::connect(&format!("unix://{}", path(&server).display())).unwrap();
    let info = info(&over_unix);
    assert!(is_over_unix(&info) && !info.contains("tcp-addr"), "nobody has offered it: {info}");
    // A server without such a socket has nothing to offer.
    let without = Server::start_with(Kind::Sleeve, &NO_SOCKET);
    let client = Client::connect(&without.url()).unwrap();
    assert!(is_over_tcp(&client.client_info().wait().unwrap()));
}

#[test]
fn a_client_that_asks_for_tls_keeps_tls() {
    let authority = Authority::new("offer");
    let (_server, port) = authority.serve(Kind::Sleeve, &SOCKET);
    let tls = Tls::new().ca_file(authority.file("ca.crt"));
    let tls = tls.certificate(authority.file("client.crt"), authority.file("client.key"));
    let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port };
    let client = Client::connect_with(Config::new(endpoint).tls(tls)).unwrap();
    assert!(is_over_tcp(&info(&client)), "{}", info(&client));
}

#[test]
fn a_socket_that_cannot_be_reached_is_left_alone() {
    let server = serve(&[]);
    std::fs::remove_file(path(&server)).unwrap();
    let client = Client::connect(&server.url()).unwrap();
    assert!(is_over_tcp(&info(&client)), "{}", info(&client));
}

/// Checks that another process that listens at the server's path receives nothing from a client: no password, not a byte.
#[test]
fn a_foreign_listener_at_the_socket_gets_no_request() {
    let server = serve(&[]);
    std::fs::remove_file(path(&server)).unwrap();
    let impostor = UnixListener::bind(path(&server)).unwrap();
    let client = Client::connect(&server.url()).unwrap();
    assert!(is_over_tcp(&info(&client)), "{}", info(&client));
    let (mut visitor, _) = impostor.accept().unwrap();
    assert_eq!(visitor.read(&mut [0; 16]).unwrap(), 0, "it has gone without a word");
    // A socket that accepts no connection costs a moment and no more.
    rustix::net::listen(&impostor, 0).unwrap();
    let _waiting: Vec<_> = (0..3).map_while(|_| connect_now(&path(&server))).collect();
    let client = Client::connect(&server.url()).unwrap();
    assert!(is_over_tcp(&info(&client)), "{}", info(&client));
}

/// Starts a server that replies to greetings, and offers the result of `offer` as its Unix socket. Returns its port.
fn offering(offer: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut received, mut room) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = stream.read(&mut room) {
                received.extend_from_slice(&room[..count]);
                while let Ok(Some(length)) = Scanner::new().scan(&received) {
                    let request: Vec<u8> = received.drain(..length).collect();
                    let is = |word: &str| String::from_utf8_lossy(&request).contains(&format!("\r\n{word}\r\n"));
                    let reply = match () {
                        () if is("UNIXSOCKET") => offer(),
                        () if is("HELLO") => b"%1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n".to_vec(),
                        () if is("CONFIG") => b"%1\r\n$9\r\ndatabases\r\n$2\r\n16\r\n".to_vec(),
                        () if is("PING") => b"+PONG\r\n".to_vec(),
                        () if is("GET") => b"$7\r\nhostile\r\n".to_vec(),
                        () => b"+OK\r\n".to_vec(),
                    };
                    stream.write_all(&reply).unwrap();
                }
            }
        }
    });
    port
}

/// Returns the value that a client of this server reads there. The client logs in with a password.
fn found(port: u16) -> String {
    let client = Client::connect(&format!("redis://ann:opensesame@127.0.0.1:{port}")).unwrap();
    client.get("k").wait().unwrap()
}

/// Returns the offer of a socket, in the name of this process, whichever process listens at the socket.
fn forged(path: &std::path::Path) -> Vec<u8> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let processes = std::fs::read_link("/proc/self/ns/pid").unwrap().display().to_string();
    let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let secret = text("0123456789abcdef0123456789abcdef");
    let fields =
        [("path", text(path.to_str().unwrap())), ("boot", text(boot.trim_end())), ("processes", text(&processes))];
    let more = [("process", format!(":{}\r\n", std::process::id())), ("ticket", secret.clone()), ("proof", secret)];
    let fields: String = fields.iter().chain(&more).map(|(name, value)| text(name) + value).collect();
    format!("%2\r\n$2\r\nid\r\n:1\r\n$11\r\nunix-socket\r\n%6\r\n{fields}").into_bytes()
}

/// Checks a server at the TCP port that must not be trusted: it names the socket of a process that has nothing to do with it.
#[test]
fn a_server_that_offers_the_socket_of_another_process_gets_it_no_secret() {
    let folder = std::env::temp_dir().join(format!("sleeve-forged-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("other.sock");
    for answer in [
        &b"-ERR unknown command\r\n"[..],
        b"%1\r\n$4\r\nmode\r\n$1\r\nx\r\n",
        b"*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n",
    ] {
        let other = UnixListener::bind(&path).unwrap();
        let heard = std::thread::spawn(move || {
            let (mut visitor, _) = other.accept().unwrap();
            let mut heard = vec![0; 4096];
            let count = visitor.read(&mut heard).unwrap();
            visitor.write_all(answer).unwrap();
            heard.truncate(count);
            visitor.read_to_end(&mut heard).unwrap();
            String::from_utf8_lossy(&heard).into_owned()
        });
        let named = path.clone();
        assert_eq!(found(offering(move || forged(&named))), "hostile", "it stays where it was");
        let heard = heard.join().unwrap();
        assert_eq!(heard.matches("HELLO").count(), 1, "{heard}");
        assert!(heard.contains("OFFERED") && !heard.contains("opensesame") && !heard.contains("AUTH"), "{heard}");
        std::fs::remove_file(&path).unwrap();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Checks the same with a server that passes on the offer which a good server has made to it: proof, ticket and all.
#[test]
fn an_offer_that_was_passed_on_is_known_by_its_addresses() {
    let server = serve(&[]);
    server.connect().command(&["SET", "k", "good"]).unwrap();
    // Both connections stay open, so that the ticket counts.
    let relay = std::sync::Mutex::new(server.connect());
    let port = offering(move || relay.lock().unwrap().command(&["HELLO", "3", "UNIXSOCKET"]).unwrap().to_vec());
    assert_eq!(found(port), "hostile");
    let mut admin = server.connect();
    let stats = text_of(&mut admin, &["INFO", "commandstats"]);
    assert!(
        stats.contains("cmdstat_hello:calls=2,") && !stats.contains("cmdstat_get") && !stats.contains("cmdstat_auth"),
        "{stats}"
    );
    assert!(text_of(&mut admin, &["ACL", "LOG"]).starts_with("*0"), "nobody has tried to log in");
}

/// Connects to the socket, if its queue has room.
fn connect_now(path: &std::path::Path) -> Option<rustix::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).ok().map(|()| socket)
}

/// Checks other servers: Sleeve's client asks every server for the offer, and those that do not know it serve the client as
/// before.
#[test]
fn other_servers_are_asked_in_vain() {
    let settings = Settings { arguments: SOCKET.map(str::to_owned).to_vec(), password: None };
    let redis = Server::try_start(Kind::Redis, settings).unwrap();
    for protocol in [2, 3] {
        let client = Client::connect(&format!("{}?protocol={protocol}", redis.url())).unwrap();
        assert!(is_over_tcp(&info(&client)), "{}", info(&client));
        client.set("k", 1).wait().unwrap();
    }
}

#[test]
fn hello_is_as_it_was_for_everybody_else() {
    let (with, without) = (serve(&[]), Server::start_with(Kind::Sleeve, &NO_SOCKET));
    let [mut with, mut without] = [&with, &without].map(Server::connect);
    // The replies differ in the client's number, and in nothing else.
    let hello = |connection: &mut Connection, words: &[&str]| {
        let id = text_of(connection, &["CLIENT", "ID"]);
        text_of(connection, words).replacen(&format!("id\r\n{id}"), "id\r\n", 1)
    };
    for words in [&["HELLO"][..], &["HELLO", "2"], &["HELLO", "3"], &["HELLO", "3", "SETNAME", "x"]] {
        assert_eq!(hello(&mut with, words), hello(&mut without, words));
    }
    let asking = ["HELLO", "3", "UNIXSOCKET"];
    assert_eq!(hello(&mut without, &asking), hello(&mut without, &["HELLO", "3"]));
    assert!(hello(&mut with, &asking).contains("unix-socket"));
}

fn text_of(connection: &mut Connection, words: &[&str]) -> String {
    String::from_utf8_lossy(&connection.command(words).unwrap()).into_owned()
}

/// Sends a request over the Unix socket, and returns the reply.
fn say(stream: &mut UnixStream, words: &[&str]) -> String {
    stream.write_all(&request(words)).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let mut answer = vec![0; 4096];
    let count = match stream.read(&mut answer) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("nobody answers"),
        outcome => outcome.unwrap(),
    };
    String::from_utf8_lossy(&answer[..count]).into_owned()
}

#[test]
fn a_ticket_counts_once_over_the_socket_and_for_its_connection() {
    const REFUSED: &str = "-ERR No such offer of the Unix socket\r\n";
    let server = serve(&[]);
    let mut tcp = server.connect();
    let id = text_of(&mut tcp, &["CLIENT", "ID"]).trim().trim_start_matches(':').to_owned();
    let mut offered = || {
        let hello = tcp.command(&["HELLO", "2", "UNIXSOCKET"]).unwrap();
        let offer = String::from_utf8_lossy(&hello).into_owned();
        assert!(offer.contains(&path(&server).display().to_string()), "{offer}");
        let ticket = offer.split("\r\n").skip_while(|line| *line != "ticket").nth(2).unwrap();
        let proof = offer.split("\r\n").skip_while(|line| *line != "proof").nth(2).unwrap();
        (ticket.to_owned(), proof.to_owned(), text_of(&mut tcp, &["HELLO", "OFFERED", &id, ticket]))
    };
    let (early, _, over_tcp) = offered();
    assert_eq!(over_tcp, REFUSED, "it is for the socket");
    let (ticket, proof, _) = offered();
    let mut unix = UnixStream::connect(path(&server)).unwrap();
    for (giver, word) in [(id.as_str(), early.as_str()), ("99", &ticket), ("x", &ticket), (&id, "")] {
        assert_eq!(say(&mut unix, &["HELLO", "OFFERED", giver, word]), REFUSED);
    }
    // HELLO OFFERED works before a client has logged in, and it does not log the client in.
    say(&mut unix, &["CONFIG", "SET", "requirepass", "secret"]);
    let mut fresh = UnixStream::connect(path(&server)).unwrap();
    let shown = say(&mut fresh, &["HELLO", "OFFERED", &id, &ticket]);
    assert!(shown.starts_with(&format!("*4\r\n$32\r\n{proof}\r\n")) && shown.contains("\r\n127.0.0.1:"), "{shown}");
    assert!(say(&mut fresh, &["CLIENT", "INFO"]).starts_with("-NOAUTH"));
    assert_eq!(say(&mut fresh, &["AUTH", "secret"]), "+OK\r\n");
    say(&mut fresh, &["CONFIG", "SET", "requirepass", ""]);
    assert!(say(&mut fresh, &["CLIENT", "LIST", "ID", &id]).contains(" addr=127.0.0.1:"));
    assert!(say(&mut fresh, &["CLIENT", "INFO"]).contains(" tcp-addr=127.0.0.1:"));
    let mut again = UnixStream::connect(path(&server)).unwrap();
    assert_eq!(say(&mut again, &["HELLO", "OFFERED", &id, &ticket]), REFUSED, "it counts once");
    // Over the Unix socket nothing is offered.
    assert!(!say(&mut again, &["HELLO", "2", "UNIXSOCKET"]).contains("unix-socket"));
    let (ticket, ..) = offered();
    drop(tcp);
    while text(say(&mut again, &["CLIENT", "LIST", "ID", &id]).as_bytes()).is_some_and(|line| !line.is_empty()) {}
    assert_eq!(say(&mut again, &["HELLO", "OFFERED", &id, &ticket]), REFUSED, "it has gone with its connection");
}
