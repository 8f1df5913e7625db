//! `sleeve migrate` between the real servers: the role moves under load and back, and no acknowledged write is lost. A
//! failure before the hand-over leaves the old primary as it was.

mod broken;
mod rationed;
mod replacing;

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sleeve_tests::{Connection, Kind, Server, Stops};

use crate::connections::tls::Authority;
use crate::replication::ids::{assert_same, primary, replica};
use crate::replication::replica::{caught_up, info};
use sleeve_tests::probe::{ask, fill, wait_until};

/// Returns the command line of `sleeve migrate` with these words.
fn command(from: &str, to: &str, more: &[&str]) -> Command {
    let mut command = Command::new(Kind::Sleeve.binary().expect("a binary"));
    command.args(["migrate", from, to]).args(more).stdin(Stdio::null());
    command
}

fn migrate(from: &Server, to: &Server, more: &[&str]) -> Output {
    command(&from.url(), &to.url(), more).output().expect("it runs")
}

/// Starts a migration; its output is read when it ends.
fn spawn(from: &Server, to: &Server, more: &[&str]) -> Child {
    let mut command = command(&from.url(), &to.url(), more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// Returns an option of a server's configuration.
fn option(server: &Server, name: &str) -> String {
    let reply = ask(&mut server.connect(), &["CONFIG", "GET", name]);
    reply.split("\r\n").nth(4).unwrap_or_default().to_owned()
}

/// Migrates, and checks that it has worked; returns the output.
fn migrates(from: &Server, to: &Server, more: &[&str]) -> String {
    let output = migrate(from, to, more);
    let said = text(&output);
    assert!(output.status.success(), "{said}\n{}\n{}", from.log(), to.log());
    assert_eq!((info(from, "role"), info(to, "role")), ("slave".to_owned(), "master".to_owned()), "{said}");
    said
}

/// The number of clients that write at the same time.
const WRITERS: usize = 3;

/// Writers that follow the primary. Each appends numbers to a list, and notes those that were acknowledged.
struct Load {
    ports: Vec<u16>,
    stop: AtomicBool,
    answered: [Mutex<Vec<String>>; WRITERS],
}

impl Load {
    fn on(servers: &[&Server]) -> Self {
        let ports = servers.iter().map(|server| server.port()).collect();
        Self { ports, stop: AtomicBool::new(false), answered: Default::default() }
    }

    /// Writes as one of them until it is told to stop.
    fn write(&self, writer: usize) {
        let (mut at, mut number) = (0, 0_u64);
        while !self.stop.load(Ordering::Relaxed) {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[at]));
            let Ok(mut connection) = Connection::open(address) else { continue };
            while !self.stop.load(Ordering::Relaxed) {
                number += 1;
                let (list, number) = (format!("writer:{writer}"), number.to_string());
                match connection.command(&["RPUSH", &list, &number]) {
                    Ok(reply) if reply.starts_with(b":") => {
                        self.answered[writer].lock().expect("nobody panics").push(number);
                    }
                    // A replica replies with READONLY, and a former primary closes its clients.
                    Ok(_) | Err(_) => break,
                }
            }
            at = (at + 1) % self.ports.len();
        }
    }

    fn answered(&self) -> usize {
        self.answered.iter().map(|answered| answered.lock().expect("nobody panics").len()).sum()
    }

    /// Waits until more writes are acknowledged.
    fn goes_on(&self) {
        let before = self.answered();
        wait_until("writers go on", || self.answered() > before + 200);
    }

    /// Runs the steps amid the load, then compares the acknowledged numbers with the data.
    fn around(&self, last: &Server, steps: impl FnOnce()) {
        thread::scope(|threads| {
            for writer in 0..WRITERS {
                threads.spawn(move || self.write(writer));
            }
            let _stops = Stops(&self.stop);
            self.goes_on();
            steps();
            self.goes_on();
        });
        let mut connection = last.connect();
        for (writer, answered) in self.answered.iter().enumerate() {
            let list = ask(&mut connection, &["LRANGE", &format!("writer:{writer}"), "0", "-1"]);
            let there: HashSet<&str> = list.split("\r\n").collect();
            let answered = answered.lock().expect("nobody panics");
            let lost: Vec<_> = answered.iter().filter(|number| !there.contains(number.as_str())).collect();
            assert!(lost.is_empty(), "of {} that were answered {} are lost: {lost:?}", answered.len(), lost.len());
        }
    }
}

/// Migrates from one server to a Sleeve and back, with writers all the time.
fn there_and_back(kind: Kind) {
    let (old, new) = (primary(kind, &[]), primary(Kind::Sleeve, &[]));
    fill(&old);
    let load = Load::on(&[&old, &new]);
    load.around(&old, || {
        let said = migrates(&old, &new, &[]);
        assert!(said.contains("the way back stays open") && said.contains("FROM follows TO"), "{said}");
        assert_eq!(info(&old, "master_link_status"), "up", "{said}");
        load.goes_on();
        let said = migrates(&new, &old, &[]);
        assert!(said.contains("TO follows FROM already"), "{said}");
    });
    assert_same(&new, &old);
    assert_eq!(info(&new, "sync_full"), "0", "{kind:?}: the way back costs no synchronization\n{}", new.log());
}

#[test]
fn redis_7_moves_to_a_sleeve_and_back_under_load() {
    there_and_back(Kind::Redis);
}

#[test]
fn a_sleeve_moves_to_another_and_back_under_load() {
    there_and_back(Kind::Sleeve);
}

#[test]
fn redis_8_moves_to_a_sleeve_and_back_under_load() {
    there_and_back(Kind::Redis8);
}

#[test]
fn valkey_moves_to_a_sleeve_and_back_under_load() {
    there_and_back(Kind::Valkey);
}

#[test]
fn a_sleeve_leads_from_any_server_to_any_other_under_load() {
    for (first, last) in [(Kind::Redis, Kind::Valkey), (Kind::Valkey, Kind::Redis), (Kind::Redis8, Kind::Redis)] {
        let servers = [primary(first, &[]), primary(Kind::Sleeve, &[]), primary(last, &[])];
        let [one, two, three] = &servers;
        // Redis 7.0 lacks some commands of the others; none of those is used here.
        fill(one);
        let load = Load::on(&[one, two, three]);
        load.around(three, || {
            migrates(one, two, &[]);
            load.goes_on();
            migrates(two, three, &[]);
        });
        assert_same(two, three);
        caught_up(one, two);
    }
}

#[test]
fn replicas_stay_and_clients_of_the_old_primary_are_closed_or_not() {
    for (more, is_closed) in [(&[][..], true), (&["--keep-clients"], false)] {
        let (old, new) = (primary(Kind::Redis, &[]), primary(Kind::Sleeve, &[]));
        let third = replica(Kind::Redis, &old, &[]);
        caught_up(&third, &old);
        let mut client = old.connect();
        assert_eq!(ask(&mut client, &["SET", "a", "1"]), "+OK\r\n");
        let said = migrates(&old, &new, more);
        assert_eq!(client.command(&["GET", "a"]).is_err(), is_closed, "{said}");
        assert!(ask(&mut old.connect(), &["SET", "a", "2"]).starts_with("-READONLY"), "{said}");
        assert_eq!(ask(&mut new.connect(), &["SET", "a", "3"]), "+OK\r\n");
        assert_same(&old, &new);
        assert_same(&third, &old);
        assert_eq!(info(&old, "sync_full"), "2", "the third was there already, and TO came");
    }
}

#[test]
fn each_logs_in_at_the_other_as_its_url_says() {
    let words = |password: &'static str| ["--requirepass", password];
    let start = |kind, password| {
        let arguments = [&words(password)[..], &["--repl-diskless-sync-delay", "0"]].concat();
        let arguments = arguments.into_iter().map(str::to_owned).collect();
        let settings = sleeve_tests::Settings { arguments, password: Some(password.to_owned()) };
        Server::try_start(kind, settings).expect("it starts")
    };
    let (old, new) = (start(Kind::Redis, "old"), start(Kind::Sleeve, "new"));
    // The migration also works as a user of its own.
    let rules = ["ACL", "SETUSER", "mover", "on", ">secret", "+@all", "~*", "&*"];
    assert_eq!(ask(&mut old.connect(), &rules), "+OK\r\n");
    assert_eq!(ask(&mut new.connect(), &["CONFIG", "SET", "masterauth", "before"]), "+OK\r\n");
    let from = format!("redis://mover:secret@127.0.0.1:{}", old.port());
    let to = format!("redis://127.0.0.1:{}", new.port());
    let output = command(&from, &to, &[]).env("SLEEVE_TO_AUTH", "new").output().expect("it runs");
    let said = text(&output);
    assert!(output.status.success(), "{said}\n{}", new.log());
    assert!(!said.contains("secret"), "{said}");
    assert_eq!(option(&new, "masterauth"), "before", "it was put back");
    assert_eq!((option(&new, "masteruser"), option(&old, "masterauth")), (String::new(), "new".to_owned()));
    assert_eq!(ask(&mut new.connect(), &["SET", "a", "1"]), "+OK\r\n");
    let output = command(&to, &from, &[]).env("SLEEVE_FROM_AUTH", "new").output().expect("it runs");
    assert!(output.status.success(), "{}\n{}", text(&output), new.log());
    assert_eq!((option(&new, "masteruser"), option(&new, "masterauth")), ("mover".to_owned(), "secret".to_owned()));
    assert_same(&new, &old);
}

#[test]
fn it_moves_over_tls() {
    let authority = Authority::new("migration");
    let ((old, from), (new, to)) =
        (authority.serve(Kind::Redis, &["--repl-diskless-sync-delay", "0"]), authority.serve(Kind::Sleeve, &[]));
    let [ca, certificate, key] = ["ca.crt", "client.crt", "client.key"].map(|name| authority.file(name));
    let words = ["--cacert", &ca, "--cert", &certificate, "--key", &key];
    let [from, to] = [from, to].map(|port| format!("rediss://127.0.0.1:{port}"));
    assert_eq!(ask(&mut old.connect(), &["SET", "a", "1"]), "+OK\r\n");
    for (from, to) in [(&from, &to), (&to, &from)] {
        let output = command(from, to, &words).output().expect("it runs");
        assert!(output.status.success(), "{}\n{}\n{}", text(&output), old.log(), new.log());
    }
    assert_same(&new, &old);
}
