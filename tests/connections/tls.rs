//! TLS from the outside: which certificates are accepted, and that bytes arrive unchanged.
//!
//! Certificates are made here, by an authority that exists for one test. Tests of our client run against redis-server as well
//! as against Sleeve.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose};
use sleeve::prelude::*;
use sleeve::{Client, Config, Endpoint, ErrorKind, Resend, Tls};
use sleeve_tests::server::free_port;
use sleeve_tests::{Kind, Server};

/// The longest wait on a very busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// An authority with a certificate for the server and one for a client, in a folder of its own.
pub(crate) struct Authority {
    folder: PathBuf,
    name: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sleeve-tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let authority = Self { folder, name: format!("authority of {name}") };
        authority.issue();
        authority
    }

    /// Makes everything anew, as if all certificates had been replaced.
    fn issue(&self) {
        let ca_key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, self.name.as_str());
        let ca = params.self_signed(&ca_key).expect("a certificate");
        self.write("ca.crt", &ca.pem());
        for name in ["server", "client"] {
            let key = KeyPair::generate().expect("a key");
            let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
            let mut params = CertificateParams::new(names).expect("parameters");
            params.distinguished_name.push(DnType::CommonName, name);
            let certificate = params.signed_by(&key, &ca, &ca_key).expect("a certificate");
            self.write(&format!("{name}.crt"), &certificate.pem());
            self.write(&format!("{name}.key"), &key.serialize_pem());
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).expect("written");
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Starts a server that speaks TLS at the returned port, with further arguments.
    pub(crate) fn serve(&self, kind: Kind, more: &[&str]) -> (Server, u16) {
        let port = free_port();
        let (certificate, key, ca) = (self.file("server.crt"), self.file("server.key"), self.file("ca.crt"));
        let tls_port = port.to_string();
        let words = ["--tls-port", &tls_port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
        let words = [&words[..], &["--tls-ca-cert-file", &ca], more].concat();
        (Server::start_with(kind, &words), port)
    }

    fn believing(&self) -> Tls {
        Tls::new().ca_file(self.file("ca.crt"))
    }

    fn showing(&self) -> Tls {
        self.believing().certificate(self.file("client.crt"), self.file("client.key"))
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(Path::new(&self.folder));
    }
}

fn connect(port: u16, tls: Tls) -> Result<Client, sleeve::Error> {
    Client::connect_with(Config::new(Endpoint::Tcp { host: "localhost".to_owned(), port }).tls(tls))
}

fn kinds() -> [Kind; 2] {
    [Kind::Sleeve, Kind::Redis]
}

#[test]
fn bytes_of_any_length_go_both_ways() {
    let authority = Authority::new("bytes");
    for kind in kinds() {
        let (_server, port) = authority.serve(kind, &[]);
        let client = connect(port, authority.showing()).unwrap();
        let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        client.set("large", &large).wait().unwrap();
        assert!(client.get::<Vec<u8>>("large").wait().unwrap() == large, "{}", kind.name());
        let replies: Vec<_> = (0..10_000).map(|n| client.set(format!("k{n}"), n)).collect();
        replies.into_iter().for_each(|reply| reply.wait().unwrap());
        let replies: Vec<_> = (0..10_000).map(|n| client.get::<i64>(format!("k{n}"))).collect();
        let values: Vec<i64> = replies.into_iter().map(|reply| reply.wait().unwrap()).collect();
        assert!(values.into_iter().eq(0..10_000));
        let many: Vec<_> = (0..20).map(|_| client.get::<Vec<u8>>("large")).collect();
        assert!(many.into_iter().all(|reply| reply.wait().unwrap() == large));
    }
}

#[test]
fn a_large_request_needs_nothing_to_go_on_but_room() {
    let authority = Authority::new("large");
    let (_server, port) = authority.serve(Kind::Sleeve, &[]);
    // No timer runs here, so that none wakes a task that forgot its bytes.
    let endpoint = Endpoint::Tcp { host: "localhost".to_owned(), port };
    let config = Config::new(endpoint).tls(authority.showing()).command_timeout(None).silence_max(None);
    let client = Client::connect_with(config).unwrap();
    let large = vec![7_u8; 1_000_000];
    client.set("large", &large).wait_for(PATIENCE).unwrap();
    assert!(client.get::<Vec<u8>>("large").wait_for(PATIENCE).unwrap() == large);
    // A caller that is alone reads and writes by itself.
    for _ in 0..50 {
        client.set("small", 1).wait_for(PATIENCE).unwrap();
    }
    client.set("large", &large).wait_for(PATIENCE).unwrap();
    assert!(client.get::<Vec<u8>>("large").wait_for(PATIENCE).unwrap() == large);
}

#[test]
fn threads_share_one_connection() {
    let authority = Authority::new("threads");
    let (_server, port) = authority.serve(Kind::Sleeve, &["--workers", "2"]);
    let client = connect(port, authority.showing()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..500).for_each(|_| _ = client.incr("count").wait().unwrap()));
        }
    });
    assert_eq!(client.get::<i64>("count").wait().unwrap(), 4_000);
}

#[test]
fn others_are_served_while_a_script_runs_for_long() {
    let authority = Authority::new("busy");
    for workers in ["1", "2"] {
        let (server, port) = authority.serve(Kind::Sleeve, &["--workers", workers, "--busy-reply-threshold", "20"]);
        let endpoint = Endpoint::Tcp { host: "localhost".to_owned(), port };
        // A refused call is to be reported, and not to be sent again.
        let config = Config::new(endpoint).tls(authority.showing()).resend(Resend::Nothing);
        let [runner, other] = [(); 2].map(|()| Client::connect_with(config.clone()).unwrap());
        let script = "while true do end";
        let ended = runner.cmd("EVAL").arg((script, 0)).send::<()>();
        let behind = runner.incr("n");
        let is_busy = |result: Result<i64, sleeve::Error>| result.is_err_and(|error| error.code() == Some("BUSY"));
        while !is_busy(other.incr("m").wait()) {}
        assert!(is_busy(other.incr("m").wait()));
        assert_eq!(server.connect().command(&["SCRIPT", "KILL"]).unwrap(), b"+OK\r\n");
        assert!(ended.wait().unwrap_err().message().contains("killed by user"));
        assert_eq!(behind.wait().unwrap(), 1);
        assert!(other.incr("m").wait().unwrap() >= 1);
    }
}

/// CVE-2026-56684: a client that kills itself amid decrypted requests which wait for their turn harms no other.
#[test]
fn a_client_that_kills_itself_amid_its_requests_harms_no_other() {
    let authority = Authority::new("killed");
    let (server, port) = authority.serve(Kind::Sleeve, &["--workers", "2"]);
    let mut plain = server.connect();
    for round in 0..30 {
        let client = connect(port, authority.showing()).unwrap();
        let id: i64 = client.cmd("CLIENT").arg("ID").send().wait().unwrap();
        (0..round * 20).for_each(|number| client.set("k", number).forget());
        client.cmd("CLIENT").arg(("KILL", "ID", id, "SKIPME", "no")).send::<()>().forget();
        (0..200).for_each(|number| client.set("k", number).forget());
        drop(client);
        assert_eq!(plain.command(&["PING"]).unwrap(), b"+PONG\r\n");
    }
}

#[test]
fn a_client_with_a_bad_certificate_is_refused() {
    let authority = Authority::new("belief");
    let other = Authority::new("other");
    for kind in kinds() {
        let (server, port) = authority.serve(kind, &[]);
        for (tls, why) in [
            (authority.believing(), "Certificate"),
            (authority.believing().certificate(other.file("client.crt"), other.file("client.key")), ""),
            (other.believing(), "UnknownIssuer"),
            (Tls::new(), "UnknownIssuer"),
            (authority.showing().server_name("elsewhere"), "not valid for name"),
        ] {
            let error = connect(port, tls).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
            assert!(error.message().contains(why), "{}: {error}", kind.name());
        }
        connect(port, authority.showing().server_name("127.0.0.1")).unwrap();
        connect(port, other.showing().insecure(true)).map(drop).unwrap_err();
        let mut plain = server.connect();
        assert_eq!(plain.command(&["CONFIG", "SET", "tls-auth-clients", "optional"]).unwrap(), b"+OK\r\n");
        connect(port, authority.believing()).unwrap();
        connect(port, authority.believing().insecure(true)).unwrap();
        assert_eq!(plain.command(&["CONFIG", "SET", "tls-auth-clients", "no"]).unwrap(), b"+OK\r\n");
        connect(port, authority.believing()).unwrap();
    }
}

#[test]
fn certificates_may_come_from_memory() {
    let authority = Authority::new("memory");
    let read = |name: &str| std::fs::read(authority.file(name)).unwrap();
    let (ca, certificate, key) = (read("ca.crt"), read("client.crt"), read("client.key"));
    for kind in kinds() {
        let (_server, port) = authority.serve(kind, &[]);
        let believing = Tls::new().ca_pem(&ca);
        let client = connect(port, believing.clone().certificate_pem(&certificate, &key)).unwrap();
        assert_eq!(client.ping().wait().as_deref(), Ok("PONG"), "{}", kind.name());
        for (tls, why) in [
            (believing.clone(), "Certificate"),
            (Tls::new().ca_pem("no PEM"), "the PEM in memory: there is no certificate in it"),
            (believing.certificate_pem(&certificate, "no PEM"), "the PEM in memory: "),
        ] {
            let error = connect(port, tls).map(drop).unwrap_err();
            assert!(error.message().contains(why), "{}: {error}", kind.name());
        }
    }
}

#[test]
fn urls_say_all_of_it() {
    let authority = Authority::new("urls");
    let (_server, port) = authority.serve(Kind::Sleeve, &["--requirepass", ""]);
    let [ca, certificate, key] = ["ca.crt", "client.crt", "client.key"].map(|name| authority.file(name));
    let url = format!("rediss://localhost:{port}/3?ca={ca}&cert={certificate}&key={key}&name=sealed");
    let client = Client::connect(&url).unwrap();
    let info: String = client.client_info().wait().unwrap();
    assert!(info.contains(" db=3 ") && info.contains(" name=sealed "), "{info}");
    let error = Client::connect(&format!("rediss://localhost:{port}?ca=/missing.crt")).map(drop).unwrap_err();
    assert!(error.message().contains("/missing.crt"), "{error}");
}

#[test]
fn certificates_are_read_anew_when_they_are_set_again() {
    let authority = Authority::new("renewed");
    let (server, port) = authority.serve(Kind::Sleeve, &[]);
    let before = connect(port, authority.showing()).unwrap();
    authority.issue();
    connect(port, authority.showing()).map(drop).expect_err("the server has the old certificate");
    let mut plain = server.connect();
    let [certificate, key, ca] = ["server.crt", "server.key", "ca.crt"].map(|name| authority.file(name));
    let set = ["CONFIG", "SET", "tls-cert-file", &certificate, "tls-key-file", &key, "tls-ca-cert-file", &ca];
    assert_eq!(plain.command(&set).unwrap(), b"+OK\r\n");
    connect(port, authority.showing()).unwrap();
    before.ping().wait().expect("who is there stays");
    let refused = plain.command(&["CONFIG", "SET", "tls-cert-file", "/missing.crt"]).unwrap();
    let reason = "- Unable to update TLS configuration. Check server logs.\r\n";
    assert!(String::from_utf8_lossy(&refused).ends_with(reason), "{}", String::from_utf8_lossy(&refused));
    connect(port, authority.showing()).unwrap();
}

#[test]
fn a_certificate_file_that_never_ends_holds_up_no_other_client() {
    let authority = Authority::new("endless");
    let (_server, port) = authority.serve(Kind::Sleeve, &[]);
    let client = connect(port, authority.showing()).unwrap();
    let pipe = authority.file("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let endpoint = Endpoint::Tcp { host: "localhost".to_owned(), port };
    let held_up = Config::new(endpoint).tls(Tls::new().ca_file(&pipe)).connect_timeout(Duration::from_millis(300));
    let connecting = std::thread::spawn(move || Client::connect_with(held_up).map(drop).unwrap_err());
    while !connecting.is_finished() {
        client.set("k", 1).wait_for(PATIENCE).unwrap();
    }
    let error = connecting.join().unwrap();
    assert!(error.to_string().contains("did not answer in time"), "{error}");
    // A server that still reads the pipe finds its end.
    std::fs::write(&pipe, "").unwrap();
}

#[test]
fn the_command_line_reads_options_of_tls_in_a_url() {
    let authority = Authority::new("url");
    let (_server, port) = authority.serve(Kind::Sleeve, &[]);
    let [ca, certificate, key] = ["ca.crt", "client.crt", "client.key"].map(|name| authority.file(name));
    let url = format!("rediss://localhost:{port}?ca={ca}&cert={certificate}&key={key}");
    let mut shell = Command::new(Kind::Sleeve.binary().expect("our binary"));
    let said = shell.args(["cli", "-u", &url, "PING"]).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "PONG\n", "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn the_command_line_gives_up_a_certificate_file_that_never_ends() {
    let authority = Authority::new("fifo");
    let (_server, port) = authority.serve(Kind::Sleeve, &[]);
    let pipe = authority.file("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let complaint = shell_says(port, &["--tls", "--cacert", &pipe]);
    assert!(complaint.contains("did not answer in time"), "{complaint}");
}

#[test]
fn a_plain_request_is_no_handshake() {
    let authority = Authority::new("plain");
    let (server, port) = authority.serve(Kind::Sleeve, &[]);
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let mut plain = sleeve_tests::Connection::open(address).unwrap();
    plain.send(b"*1\r\n$4\r\nPING\r\n").unwrap();
    assert_eq!(plain.read_to_end().unwrap().first(), Some(&21), "an alert and the end");
    assert!(server.log().contains("Error accepting a client connection"), "{}", server.log());
}

#[test]
fn redis_cli_comes_with_tls_too() {
    let authority = Authority::new("cli");
    let (_server, port) = authority.serve(Kind::Sleeve, &[]);
    let help = Command::new("redis-cli").arg("--help").output().expect("redis-cli is there");
    let help = [help.stdout, help.stderr].concat();
    if !String::from_utf8_lossy(&help).contains("--tls ") {
        println!("this redis-cli was built without TLS");
        return;
    }
    let [ca, certificate, key] = ["ca.crt", "client.crt", "client.key"].map(|name| authority.file(name));
    let said = Command::new("redis-cli")
        .args(["-p", &port.to_string(), "--tls", "--cacert", &ca, "--cert", &certificate, "--key", &key, "PING"])
        .output()
        .expect("redis-cli runs");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "PONG\n");
}

#[test]
fn connect_at_the_prompt_keeps_tls_and_the_host_as_typed() {
    let authority = Authority::new("elsewhere");
    let [(_first, from), (_second, to)] = [(); 2].map(|()| authority.serve(Kind::Sleeve, &[]));
    let [ca, certificate, key] = ["ca.crt", "client.crt", "client.key"].map(|name| authority.file(name));
    let from = from.to_string();
    let lines =
        format!("SET where first\nCONNECT LocalHost {to}\nSET where second\nGET where\nconnect \"No.Such Host\" 1\n");
    let mut shell = Command::new(Kind::Sleeve.binary().expect("our binary"))
        .args(["cli", "-p", &from, "--tls", "--cacert", &ca, "--cert", &certificate, "--key", &key])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    shell.stdin.take().expect("an input").write_all(lines.as_bytes()).expect("it reads");
    let said = shell.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "OK\nOK\nsecond\n");
    let complaint = String::from_utf8_lossy(&said.stderr);
    assert!(complaint.contains("Could not connect to Redis at No.Such Host:1: "), "{complaint}");
}

/// Returns the path of a file that OpenSSL has made for the tests of `sleeve-certificates`.
fn pem(name: &str) -> String {
    format!("{}/../crates/certificates/tests/pems/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Starts a server with this certificate and key, which trusts one file; returns it with its port.
fn serve_with([certificate, key, ca]: [&str; 3], more: &[&str]) -> (Server, u16) {
    let (port, files) = (free_port(), [certificate, key, ca].map(pem));
    let tls_port = port.to_string();
    let words = ["--tls-port", &tls_port, "--tls-cert-file", &files[0], "--tls-key-file", &files[1]];
    (Server::start_with(Kind::Sleeve, &[&words[..], &["--tls-ca-cert-file", &files[2]], more].concat()), port)
}

#[test]
fn one_certificate_of_its_own_authority_serves_clients_and_replicas() {
    for name in ["alone", "alone-old", "p521"] {
        let (certificate, key) = (format!("{name}.crt"), format!("{name}.key"));
        let files = [certificate.as_str(), &key, &certificate];
        let (primary, port) = serve_with(files, &["--repl-diskless-sync-delay", "0"]);
        let client = connect(port, Tls::new().ca_file(pem(&certificate)).certificate(pem(&certificate), pem(&key)));
        client.unwrap().set("k", name).wait().unwrap();
        let refused =
            connect(port, Tls::new().ca_file(pem(&certificate)).certificate(pem("named.crt"), pem("named.key")));
        assert_eq!(refused.map(drop).unwrap_err().kind(), ErrorKind::Connect);
        let own = [pem(&certificate), pem(&key)];
        let words = ["--tls-replication", "yes", "--replicaof", "localhost", &port.to_string()].map(str::to_owned);
        let shown = ["--tls-client-cert-file", &own[0], "--tls-client-key-file", &own[1]];
        let words: Vec<&str> = words.iter().map(String::as_str).chain(shown).collect();
        // The replica shows its clients a certificate that its primary would not take.
        let (replica, _) = serve_with(["named.crt", "named.key", &certificate], &words);
        let mut plain = primary.connect();
        while plain.command(&["WAIT", "1", "1000"]).unwrap() != b":1\r\n" {}
        let kept = replica.connect().command(&["GET", "k"]).unwrap();
        assert!(String::from_utf8_lossy(&kept).ends_with(&format!("\r\n{name}\r\n")), "{name}");
    }
}

#[test]
fn files_made_by_openssl_with_its_defaults_are_accepted() {
    let words = ["--tls-key-file-pass", "secret", "--tls-ciphers", "DEFAULT:!MEDIUM", "--tls-auth-clients", "optional"];
    let (server, port) = serve_with(["old.crt", "old.aes256.key", "authority.crt"], &words);
    let believing = Tls::new().ca_file(pem("authority.crt"));
    let showing = believing.clone().certificate(pem("old.crt"), pem("old.scrypt.key"));
    connect(port, showing.clone().pass_phrase("secret")).unwrap();
    for (tls, why) in [
        (showing.clone(), "it is encrypted with a pass phrase, and none is given"),
        (showing.pass_phrase("wrong"), "the pass phrase is wrong"),
        (believing.clone().server_name("elsewhere"), "subjectAltName=DNS:elsewhere"),
        (Tls::new().ca_file(pem("alone.crt")), "UnknownIssuer"),
    ] {
        let error = connect(port, tls).map(drop).unwrap_err();
        assert!(error.message().contains(why) && !error.message().contains("wrong\""), "{error}");
    }
    let mut plain = server.connect();
    for (name, value, is_taken) in [
        ("tls-ciphers", "ECDHE+AESGCM:!aNULL", true),
        ("tls-ciphers", "DHE:RC4", false),
        ("tls-key-file-pass", "another", false),
    ] {
        let answer = plain.command(&["CONFIG", "SET", name, value]).unwrap();
        assert_eq!(answer == b"+OK\r\n", is_taken, "{}", String::from_utf8_lossy(&answer));
    }
    let said = Command::new(Kind::Sleeve.binary().expect("our binary"))
        .args(["cli", "-h", "127.0.0.1", "-p", &port.to_string(), "--tls", "--insecure", "PING"])
        .output()
        .expect("it runs");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "PONG\n", "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn an_unreadable_key_is_named_with_a_remedy() {
    for (key, why) in [
        ("old.aes256.key", "it is encrypted with a pass phrase, and 'tls-key-file-pass' says none"),
        ("old.traditional.key", "openssl pkcs8 -topk8"),
        ("alone.key", "the certificate and the key do not belong together"),
    ] {
        let [certificate, key, ca] = ["old.crt", key, "authority.crt"].map(pem);
        let port = free_port().to_string();
        let words = ["--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
        let arguments = words.into_iter().chain(["--tls-ca-cert-file", &ca]).map(str::to_owned).collect();
        let settings = sleeve_tests::Settings { arguments, password: None };
        let refused = Server::try_start(Kind::Sleeve, settings).expect_err("no such key can be used");
        assert!(refused.contains(&key) && refused.contains(why), "{refused}");
    }
}

/// Returns the message of the shell about a server at this port.
fn shell_says(port: u16, more: &[&str]) -> String {
    let port = port.to_string();
    let words = [&["cli", "-p", &port], more, &["PING"]].concat();
    let mut command = Command::new(Kind::Sleeve.binary().expect("it is built"));
    let output = command.args(words).stdin(Stdio::null()).output().expect("it runs");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_mismatch_of_tls_and_plain_ports_is_named_both_ways() {
    let authority = Authority::new("named");
    for kind in kinds() {
        let (server, tls_port) = authority.serve(kind, &[]);
        let config = |port| Config::new(Endpoint::Tcp { host: "localhost".to_owned(), port });
        let error = Client::connect_with(config(tls_port)).map(drop).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Connect && error.message().contains("use rediss://"),
            "{}: {error}",
            kind.name()
        );
        assert!(shell_says(tls_port, &[]).contains("add --tls"), "{}: {}", kind.name(), shell_says(tls_port, &[]));
        // Redis at a port without TLS waits for the end of a line, and the bytes that it gets may contain one.
        let plain = config(server.port()).tls(authority.believing()).connect_timeout(Duration::from_secs(1));
        let error = Client::connect_with(plain).map(drop).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Connect && error.message().contains("use redis://"),
            "{}: {error}",
            kind.name()
        );
        if kind == Kind::Sleeve {
            assert!(
                error.message().contains("does not speak TLS, it answers \"-ERR Protocol error: this port"),
                "{error}"
            );
            let ca = authority.file("ca.crt");
            let said = shell_says(server.port(), &["--tls", "--cacert", &ca]);
            assert!(said.contains("this port does not speak TLS"), "{said}");
            let log = server.log();
            assert!(log.contains("the client does not speak TLS, and this port does"), "{log}");
            assert!(log.contains("Closed a client that speaks TLS to a port without TLS"), "{log}");
        }
    }
}
