//! What the system sees of a server process: its title, its score when memory runs out, its end by a signal.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use sleeve_tests::server::free_port;
use sleeve_tests::{Connection, Kind, Server};

fn ask(connection: &mut Connection, words: &[&str]) -> String {
    String::from_utf8_lossy(&connection.command(words).expect("a reply")).into_owned()
}

fn of_process(server: &Server, file: &str) -> String {
    let path = format!("/proc/{}/{file}", server.process_id());
    let content = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    String::from_utf8_lossy(&content).trim_end_matches(['\0', '\n']).to_owned()
}

#[test]
fn the_title_is_what_the_template_says() {
    let long = "long ".repeat(12) + "{port}";
    let server = Server::start_with(Kind::Sleeve, &["--proc-title-template", &long]);
    let mut connection = server.connect();
    let port = server.port();
    assert_eq!(of_process(&server, "cmdline"), long.replace("{port}", &port.to_string()));
    let template = "A {listen-addr} {port} {tls-port} {config-file} {unixsocket}";
    assert_eq!(ask(&mut connection, &["CONFIG", "SET", "proc-title-template", template]), "+OK\r\n");
    assert_eq!(of_process(&server, "cmdline"), format!("A 127.0.0.1:{port} {port} 0 -"), "no trace of the longer one");
    assert_eq!(ask(&mut connection, &["CONFIG", "SET", "proc-title-template", "{title}: {title}"]), "+OK\r\n");
    let program = of_process(&server, "cmdline");
    assert!(program.split(": ").all(|program| program.ends_with("sleeve")), "{program}");
    assert!(ask(&mut connection, &["CONFIG", "SET", "proc-title-template", "{nosuch}"]).starts_with("-ERR"));
    assert_eq!(of_process(&server, "cmdline"), program);
}

#[test]
fn without_a_title_the_arguments_stay() {
    let server = Server::start_with(Kind::Sleeve, &["--set-proc-title", "no"]);
    assert_eq!(ask(&mut server.connect(), &["CONFIG", "SET", "proc-title-template", "x"]), "+OK\r\n");
    assert!(of_process(&server, "cmdline").ends_with("--set-proc-title\0no"));
}

#[test]
fn a_title_that_is_too_long_is_cut() {
    let server = Server::start_with(Kind::Sleeve, &["--proc-title-template", &"x".repeat(5_000)]);
    let title = of_process(&server, "cmdline");
    assert!(title.len() <= 4_095 && title.bytes().all(|byte| byte == b'x'));
    assert_eq!(ask(&mut server.connect(), &["PING"]), "+PONG\r\n");
}

#[test]
fn the_score_follows_the_options_and_comes_back() {
    let server = Server::start(Kind::Sleeve);
    let mut connection = server.connect();
    let score = || of_process(&server, "oom_score_adj").parse::<i64>().expect("a number");
    let before = score();
    let mut set = |words: &[&str]| ask(&mut connection, &[&["CONFIG", "SET"], words].concat());
    assert_eq!(set(&["oom-score-adj-values", "10 20 30"]), "+OK\r\n");
    assert_eq!(score(), before, "nobody has asked for it yet");
    assert_eq!(set(&["oom-score-adj", "yes"]), "+OK\r\n");
    assert_eq!(score(), before + 10);
    assert_eq!(set(&["oom-score-adj-values", "15 20 30", "oom-score-adj", "absolute"]), "+OK\r\n");
    assert_eq!(score(), 15);
    assert_eq!(set(&["oom-score-adj", "no"]), "+OK\r\n");
    assert_eq!(score(), before);
    // A change that cannot be applied takes back those that could.
    let refused = set(&["oom-score-adj", "yes", "hz", "33", "tls-port", &server.port().to_string()]);
    assert!(refused.starts_with("-ERR CONFIG SET failed (possibly related to argument 'tls-port')"), "{refused}");
    assert_eq!(score(), before);
    assert!(ask(&mut connection, &["CONFIG", "GET", "hz"]).ends_with("$2\r\n10\r\n"));
}

#[test]
fn a_signal_ends_the_server_as_its_option_says() {
    for (signal, option) in [("INT", "shutdown-on-sigint"), ("TERM", "shutdown-on-sigterm")] {
        let mut server = Server::start_with(Kind::Sleeve, &[&format!("--{option}"), "save", "force"]);
        let mut connection = server.connect();
        let refused = ask(&mut connection, &["CONFIG", "SET", option, "save"]);
        assert!(refused.contains("no snapshots yet"), "{refused}");
        assert!(ask(&mut connection, &["CONFIG", "GET", option]).ends_with("\r\nsave force\r\n"));
        let sent = Command::new("kill").args([format!("-{signal}"), server.process_id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        assert!(server.wait_for_exit(Duration::from_secs(30)).expect("it ends").success());
        assert!(server.log().contains("No snapshot is written"), "{}", server.log());
    }
}

#[test]
fn systemd_is_told_when_the_server_is_ready_and_when_it_ends() {
    let folder = std::env::temp_dir().join(format!("sleeve-notify-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of our own");
    let path = folder.join("notify");
    let socket = UnixDatagram::bind(&path).expect("a free path");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let heard = || {
        let mut buffer = [0; 200];
        let len = socket.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    let port = free_port().to_string();
    let arguments = ["serve", "--supervised", "systemd", "--bind", "127.0.0.1", "--port", &port];
    // The title is long enough to lie over the environment, which must be readable all the same.
    let title = "x".repeat(3_000);
    let mut server = Command::new(Kind::Sleeve.binary().expect("a binary"))
        .args(arguments)
        .args(["--proc-title-template", &title, "--shutdown-on-sigterm", "now"])
        .env("NOTIFY_SOCKET", &path)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    assert!(heard().contains("READY=1\n"));
    let sent = Command::new("kill").args(["-TERM", &server.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    assert_eq!(heard(), "STOPPING=1\n");
    assert!(server.wait().expect("it ends").success());
    _ = std::fs::remove_dir_all(&folder);
}
