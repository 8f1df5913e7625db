//! `sleeve doctor` from outside: it names the planted cause first, against Sleeve and against Redis; without one, it reports
//! none.
//!
//! The programs are threads of a test, which go on until the doctor has reported. A cause that cannot be planted on a test
//! machine is simulated by the answers of a server that has it: swapping, see `lines::swapped`. A fork cannot be planted in
//! Sleeve, which has none. Planted causes take the processors that the doctor judges by, and other tests would take them too:
//! such tests run one at a time, by `cargo xtask soak doctor`.

mod lines;
mod planted;

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sleeve_tests::{Connection, Kind, Server, Settings, Stops};

use crate::connections::tls::Authority;

/// The servers with which each situation is planted.
const KINDS: [Kind; 2] = [Kind::Sleeve, Kind::Redis];

/// The program's report.
struct Report {
    code: Option<i32>,
    text: String,
    errors: String,
}

impl Report {
    /// Returns the cause that the report names first.
    fn cause(&self) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix("The likely cause: "))
    }

    /// Checks that the report names this cause first, and that the exit code says that there is one.
    fn names(&self, cause: &str, kind: Kind) {
        assert_eq!(self.cause(), Some(cause), "{kind:?}\n{}{}", self.text, self.errors);
        assert_eq!(self.code, Some(1), "{kind:?}\n{}", self.text);
    }

    /// Asserts that the doctor finds no fault. A machine that runs other tests too may have no processor to spare; that is
    /// then a true finding.
    fn is_healthy(&self, kind: Kind) {
        if self.cause() == Some("CPU") && self.text.contains("Remedy: Give the machine more processors") {
            return;
        }
        assert!(self.text.contains("\nNothing wrong: "), "{kind:?}\n{}{}", self.text, self.errors);
        assert_eq!(self.code, Some(0), "{kind:?}\n{}", self.text);
    }
}

fn doctor(words: &[&str]) -> Report {
    let mut command = Command::new(Kind::Sleeve.binary().expect("a binary"));
    let output: Output = command.arg("doctor").args(words).stdin(Stdio::null()).output().expect("it runs");
    let [text, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Report { code: output.status.code(), text, errors }
}

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

/// Returns the report on this port while so many threads work, each of which asks whether to go on.
fn examine(port: u16, threads: usize, work: impl Fn(&dyn Fn() -> bool, usize) + Sync) -> Report {
    examine_for("3s", port, threads, work)
}

/// Does the same as `examine` for the given time.
fn examine_for(time: &str, port: u16, threads: usize, work: impl Fn(&dyn Fn() -> bool, usize) + Sync) -> Report {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        for number in 0..threads {
            let (stop, work) = (&stop, &work);
            scope.spawn(move || work(&|| !stop.load(Ordering::Relaxed), number));
        }
        let report = doctor(&[&url(port), "--for", time]);
        drop(stops);
        report
    })
}

fn connect(port: u16) -> Connection {
    Connection::open(([127, 0, 0, 1], port).into()).expect("it listens")
}

/// Sends commands together and takes their replies.
fn together(connection: &mut Connection, commands: &[Vec<String>]) {
    let bytes: Vec<u8> = commands.iter().flat_map(|words| sleeve_tests::connection::request(words)).collect();
    connection.send(&bytes).expect("it is sent");
    for _ in commands {
        connection.reply().expect("a reply");
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Returns as many writes and reads of as many keys as a program may send at once.
fn mixed(count: usize, from: usize) -> Vec<Vec<String>> {
    let of_key = |at: usize| [format!("SET key:{} value", (from + at) % 5_000), format!("GET key:{}", at % 5_000)];
    (0..count / 2).flat_map(of_key).map(|line| words(&line)).collect()
}

#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn a_healthy_program_is_left_in_peace() {
    for kind in [Kind::Sleeve, Kind::Redis, Kind::Valkey] {
        let server = Server::start(kind);
        examine(server.port(), 2, planted::healthy(server.port())).is_healthy(kind);
    }
}

#[test]
fn a_program_is_started_and_watched_to_its_end() {
    for kind in KINDS {
        let server = Server::start(kind);
        let line = lines::long(&server, std::time::Duration::from_millis(2));
        let (sleeve, port) = (Kind::Sleeve.binary().expect("a binary"), line.port().to_string());
        let program = [sleeve.to_str().expect("a name"), "cli", "-p", &port, "-r", "300", "INCR", "counter"];
        let report = doctor(&[&[&url(line.port()), "--json", "--"][..], &program].concat());
        assert_eq!(report.code, Some(1), "{}{}", report.text, report.errors);
        assert!(report.text.contains(r#""cause":"no pipelining""#), "{}", report.text);
        assert!(report.errors.contains("300"), "what the program says is seen: {}", report.errors);
        assert_eq!(server.connect().command(&["GET", "counter"]).expect("a reply"), b"$3\r\n300\r\n");
        let failing =
            doctor(&[&server.url(), "--", "sh", "-c", &format!("redis-cli -p {} PING; exit 7", server.port())]);
        assert!(failing.errors.contains("the program ended with exit status: 7"), "{}", failing.errors);
        let endless = doctor(&[&server.url(), "--for", "500ms", "--", "sleep", "600"]);
        assert_eq!(endless.code, Some(2), "{}", endless.text);
    }
}

#[test]
fn facts_that_the_doctor_cannot_find_out_are_named() {
    let server = Server::start(Kind::Sleeve);
    let idle = doctor(&[&server.url(), "--for", "300ms"]);
    assert!(idle.code == Some(2) && idle.errors.contains("nobody asked for anything"), "{}", idle.errors);
    for (words, expected) in [
        (&["redis://127.0.0.1:1"][..], "Could not connect to Redis at 127.0.0.1:1"),
        (&["http://x"], "Invalid URI scheme"),
        (&[&server.url(), "--insecure"], "--insecure means nothing"),
        (&[&server.url(), "--for", "5"], "a time needs a unit"),
        (&[&server.url(), "--", "/nowhere/to/be/found"], "/nowhere/to/be/found cannot be started"),
    ] {
        let report = doctor(words);
        assert!(report.code == Some(2) && report.errors.contains(expected), "{words:?}: {}", report.errors);
    }
}

#[test]
fn a_user_with_few_permissions_is_shown_the_missing_ones() {
    for kind in KINDS {
        let server = Server::start(kind);
        let mut connection = server.connect();
        let rule = "ACL SETUSER doctor on >secret +ping +echo +info +client|list";
        assert_eq!(connection.command(&words(rule)).expect("a reply"), b"+OK\r\n");
        assert_eq!(connection.command(&words("ACL SETUSER blind on >secret +ping")).expect("a reply"), b"+OK\r\n");
        let url = format!("redis://doctor:secret@127.0.0.1:{}", server.port());
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let stops = Stops(&stop);
            scope.spawn(|| planted::healthy(server.port())(&|| !stop.load(Ordering::Relaxed), 0));
            let report = doctor(&[&url, "--for", "1s"]);
            for missing in ["MONITOR", "SLOWLOG GET", "CONFIG GET", "EXISTS"] {
                assert!(report.text.contains(&format!("Could not be read: {missing}: ")), "{missing}: {}", report.text);
            }
            report.is_healthy(kind);
            drop(stops);
        });
        let blind = doctor(&[&url.replace("doctor", "blind")]);
        assert!(blind.code == Some(2) && blind.errors.contains("ACL SETUSER name +info"), "{}", blind.errors);
    }
}

#[test]
fn it_speaks_tls_and_logs_in() {
    let (authority, port) = (Authority::new("doctor"), sleeve_tests::server::free_port().to_string());
    let files = ["ca.crt", "server.crt", "server.key"].map(|name| authority.file(name));
    let [ca, certificate, key] = &files;
    let arguments = [
        ["--tls-port", &port],
        ["--tls-cert-file", certificate],
        ["--tls-key-file", key],
        ["--tls-ca-cert-file", ca],
        ["--tls-auth-clients", "no"],
        ["--requirepass", "secret"],
    ];
    let arguments = arguments.concat().into_iter().map(str::to_owned).collect();
    let settings = Settings { arguments, password: Some("secret".to_owned()) };
    let server = Server::try_start(Kind::Sleeve, settings).expect("it starts");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        scope.spawn(|| {
            let mut connection = server.connect();
            while !stop.load(Ordering::Relaxed) {
                together(&mut connection, &mixed(20, 0));
                thread::sleep(planted::REST);
            }
        });
        let report = doctor(&[&format!("rediss://:secret@127.0.0.1:{port}"), "--cacert", ca, "--for", "1s"]);
        report.is_healthy(Kind::Sleeve);
        let refused = doctor(&[&format!("rediss://:wrong@127.0.0.1:{port}"), "--cacert", ca, "--for", "1s"]);
        assert!(refused.code == Some(2) && refused.errors.contains("WRONGPASS"), "{}", refused.errors);
        drop(stops);
    });
}
