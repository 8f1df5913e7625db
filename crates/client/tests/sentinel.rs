//! A service with Sentinels that follow the test: dead ones, silent ones, ones that do not know the service or are behind,
//! and switches of the primary.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, Endpoint, Error, ErrorKind, ReadFrom, SubscriptionEvent};

use crate::scripted::{greet, serve, serve_all, until};

/// The name of the service of these tests.
const SERVICE: &str = "shop";

/// The number of commands that have arrived at a server and wait there.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// A Sentinel's view, which a test may change.
#[derive(Default)]
struct View {
    /// The port of the primary that the Sentinel names; 0 if it does not know the service.
    primary: AtomicU16,
    /// The port of the new primary that it announces, once to each subscriber; 0 for none.
    switched: AtomicU16,
    /// The port of another Sentinel that it names.
    other: AtomicU16,
    /// The number of times that it was asked.
    asked: AtomicU32,
    /// The replicas that it names.
    replicas: Mutex<Vec<u16>>,
}

impl View {
    fn of(primary: u16) -> Arc<Self> {
        let view = Self::default();
        view.primary.store(primary, Ordering::SeqCst);
        Arc::new(view)
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Starts a Sentinel with this view. Returns its port.
    fn serve(self: &Arc<Self>) -> u16 {
        let view = Arc::clone(self);
        serve_all(move |words| Some(view.answer(words)))
    }

    fn answer(&self, words: &[String]) -> Vec<u8> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let known = |port: &AtomicU16| Some(port.load(Ordering::SeqCst)).filter(|port| *port > 0);
        match words[..] {
            ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE] => {
                self.asked.fetch_add(1, Ordering::SeqCst);
                known(&self.primary).map_or(b"*-1\r\n".to_vec(), |port| strings(&["127.0.0.1", &port.to_string()]))
            }
            ["SENTINEL", "SENTINELS", SERVICE] => match known(&self.other) {
                None => b"*0\r\n".to_vec(),
                Some(port) => [b"*1\r\n", &strings(&["ip", "127.0.0.1", "port", &port.to_string()])[..]].concat(),
            },
            ["SENTINEL", "REPLICAS", SERVICE] => {
                let replicas = self.replicas.lock().unwrap();
                let row = |port: &u16| strings(&["name", "x", "ip", "127.0.0.1", "port", &port.to_string()]);
                let rows: Vec<Vec<u8>> = replicas.iter().map(row).collect();
                [format!("*{}\r\n", rows.len()).into_bytes(), rows.concat()].concat()
            }
            ["SUBSCRIBE", channel] => [b"*3\r\n", &strings(&["subscribe", channel])[4..], b":1\r\n"].concat(),
            ["PING"] => match known(&self.switched) {
                None => strings(&["pong", ""]),
                Some(port) => {
                    let moved = format!("{SERVICE} 127.0.0.1 1 127.0.0.1 {port}");
                    [strings(&["message", "+switch-master", &moved]), strings(&["pong", ""])].concat()
                }
            },
            _ => b"-ERR a Sentinel does not know this\r\n".to_vec(),
        }
    }
}

fn strings(words: &[&str]) -> Vec<u8> {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    (format!("*{}\r\n", words.len()) + &words.collect::<String>()).into_bytes()
}

/// Starts a server that answers `WHO` with its name and `ROLE` with its role, and confirms subscriptions. Returns its port.
fn server(name: &'static str, role: impl Fn() -> &'static str + Send + Sync + 'static) -> u16 {
    serve(move |words| match words[0].as_str() {
        "WHO" => Some(format!("+{name}\r\n").into_bytes()),
        "ROLE" => Some(strings(&[role()])),
        "SUBSCRIBE" => {
            let message = [b">3\r\n", &strings(&["message", "news", name])[4..]].concat();
            Some([b">3\r\n", &strings(&["subscribe", "news"])[4..], b":1\r\n", &message].concat())
        }
        "GET" => Some(format!("${}\r\n{name}\r\n", name.len()).into_bytes()),
        "SET" if role() != "master" => Some(b"-READONLY You can't write against a read only replica.\r\n".to_vec()),
        "SET" => Some(b"+OK\r\n".to_vec()),
        // The command waits for as long as the connection exists.
        "BLPOP" => {
            WAITING.fetch_add(1, Ordering::SeqCst);
            Some(Vec::new())
        }
        _ => None,
    })
}

fn primary(name: &'static str) -> u16 {
    server(name, || "master")
}

/// Returns a port without a listener, as long as no other process takes it.
fn nobody() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn config(sentinels: &[u16]) -> Config {
    let sentinels = sentinels.iter().map(|port| ("127.0.0.1".to_owned(), *port)).collect();
    let endpoint = Endpoint::Sentinel { sentinels, service: SERVICE.to_owned() };
    Config::new(endpoint).backoff(Duration::from_millis(1), Duration::from_millis(10))
}

fn who(client: &Client) -> Result<String, Error> {
    client.cmd("WHO").send::<String>().wait()
}

#[test]
fn a_sentinel_that_leads_nowhere_leaves_it_to_the_next() {
    let primary = primary("a");
    let replica = server("b", || "slave");
    let silent = serve_all(|_| Some(Vec::new()));
    let lying = serve_all(|_| Some(b"+QUEUED\r\n".to_vec()));
    let (ignorant, behind, dead_end) = (View::of(0), View::of(replica), View::of(nobody()));
    let good = View::of(primary);
    let all = [nobody(), silent, lying, ignorant.serve(), behind.serve(), dead_end.serve(), good.serve()];
    let client = Client::connect_with(config(&all)).unwrap();
    assert_eq!(who(&client).as_deref(), Ok("a"));
    assert!([&ignorant, &behind, &dead_end, &good].iter().all(|view| view.asked() >= 1));
    // The Sentinel that has led to the primary is asked first from now on. The first that has answered is asked once more, by
    // the subscriber.
    until("somebody listens", || behind.asked() > 1);
    let before = behind.asked();
    let lease = client.lease().unwrap();
    assert_eq!(lease.cmd("WHO").send::<String>().wait().as_deref(), Ok("a"));
    assert_eq!(behind.asked(), before);
}

#[test]
fn an_error_names_the_service_and_the_answer_of_each_sentinel() {
    let replica = server("b", || "slave");
    let (dead, behind) = (nobody(), View::of(replica));
    let (behind_port, echo_port) = (behind.serve(), View::of(replica).serve());
    let ignorant_port = View::of(0).serve();
    let error = Client::connect_with(config(&[dead, behind_port, echo_port, ignorant_port])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    for part in [
        "the service shop: ".to_owned(),
        format!("127.0.0.1:{dead}: cannot connect: "),
        format!("127.0.0.1:{behind_port} names 127.0.0.1:{replica}: it is a replica"),
        format!("127.0.0.1:{echo_port} names 127.0.0.1:{replica} too"),
        format!("127.0.0.1:{ignorant_port} knows no service of this name"),
    ] {
        assert!(error.message().contains(&part), "{part}: {error}");
    }
}

#[test]
fn a_command_fails_at_once_if_no_sentinel_knows_the_service() {
    let client = Client::open_with(config(&[View::of(0).serve()])).unwrap();
    let error = who(&client).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(error.message().contains("knows no service"), "{error}");
}

#[test]
fn sentinels_are_shown_the_password_that_is_for_them() {
    let primary = primary("a");
    let good = View::of(primary);
    let answers = Arc::clone(&good);
    let guarded = serve_all(move |words| match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["AUTH", "ann", "right"] => Some(b"+OK\r\n".to_vec()),
        ["AUTH", ..] => Some(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n".to_vec()),
        _ => Some(answers.answer(words)),
    });
    let client = Client::connect_with(config(&[guarded]).sentinel_user("ann").sentinel_password("right")).unwrap();
    assert_eq!(who(&client).as_deref(), Ok("a"));
    let error = Client::connect_with(config(&[guarded]).sentinel_password("opensesame")).unwrap_err();
    assert!(error.message().contains("WRONGPASS") && !error.message().contains("opensesame"), "{error}");
}

#[test]
fn a_switch_moves_every_connection_though_the_old_primary_is_well() {
    let (old, new) = (primary("old"), primary("new"));
    let view = View::of(old);
    // A second Sentinel never learns of the new primary.
    let client = Client::connect_with(config(&[view.serve(), View::of(old).serve()])).unwrap();
    let subscription = client.subscribe(["news"]).unwrap();
    assert!(matches!(subscription.recv().wait(), Ok(SubscriptionEvent::Message(message)) if message.payload == b"old"));
    let waiting = client.blpop::<(String, String)>("jobs", Duration::ZERO);
    until("it waits", || WAITING.load(Ordering::SeqCst) > 0);
    let lease = client.lease().unwrap();
    assert_eq!(lease.cmd("WHO").send::<String>().wait().as_deref(), Ok("old"));
    assert_eq!(who(&client).as_deref(), Ok("old"));
    let since = Instant::now();
    view.primary.store(new, Ordering::SeqCst);
    view.switched.store(new, Ordering::SeqCst);
    until("the client moves", || who(&client).as_deref() == Ok("new"));
    // Noticing it by the server's silence would have taken longer.
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    let error = waiting.wait().unwrap_err();
    assert!(error.message().contains("the primary of the service shop is now"), "{error}");
    assert!(lease.cmd("WHO").send::<String>().wait().is_err());
    let mut told = Vec::new();
    while told.last().is_none_or(|payload| payload != b"new") {
        if let SubscriptionEvent::Message(message) = subscription.recv().wait().unwrap() {
            told.push(message.payload);
        }
    }
    drop(lease);
    let lease = client.lease().unwrap();
    assert_eq!(lease.cmd("WHO").send::<String>().wait().as_deref(), Ok("new"));
}

#[test]
fn a_wait_for_a_dead_primary_ends_with_the_switch() {
    let new = primary("new");
    let silent = serve_all(|_| Some(Vec::new()));
    let view = View::of(silent);
    // The connect timeout is so long that a wait until its end would be noticed.
    let config = config(&[view.serve()]).connect_timeout(Duration::from_secs(50));
    let client = Client::open_with(config).unwrap();
    until("it was asked, and is listened to", || view.asked() > 1);
    view.primary.store(new, Ordering::SeqCst);
    view.switched.store(new, Ordering::SeqCst);
    let since = Instant::now();
    assert_eq!(who(&client).as_deref(), Ok("new"));
    assert!(since.elapsed() < Duration::from_secs(25), "{:?}", since.elapsed());
}

#[test]
fn a_server_that_has_become_a_replica_is_left() {
    let demoted = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&demoted);
    let old = server("old", move || if seen.load(Ordering::SeqCst) == 0 { "master" } else { "slave" });
    let new = primary("new");
    let view = View::of(old);
    let client = Client::connect_with(config(&[view.serve()])).unwrap();
    assert_eq!(client.set("k", "v").wait(), Ok(()));
    demoted.store(1, Ordering::SeqCst);
    view.primary.store(new, Ordering::SeqCst);
    // The command was not executed, so it is sent to the new primary, without an error for its caller.
    assert_eq!(client.set("k", "v").wait(), Ok(()));
    assert_eq!(who(&client).as_deref(), Ok("new"));
}

#[test]
fn sentinels_that_others_name_are_asked_too() {
    let (old, new) = (Arc::new(AtomicU32::new(0)), primary("new"));
    let hangs_up = Arc::clone(&old);
    let gone = move || hangs_up.load(Ordering::SeqCst) == 1;
    let (asked_gone, answered_gone) = (gone.clone(), gone);
    let first = serve_all(move |words| {
        let ends = asked_gone();
        if ends { None } else { greet(words).or_else(|| Some(strings(&["master"]))) }
    });
    let (named, learned) = (View::of(first), View::of(new));
    named.other.store(learned.serve(), Ordering::SeqCst);
    let only = serve_all(move |words| if answered_gone() { None } else { Some(named.answer(words)) });
    let client = Client::connect_with(config(&[only])).unwrap();
    old.store(1, Ordering::SeqCst);
    // From now on the server and the only Sentinel that the configuration names hang up.
    until("the client moves", || who(&client).as_deref() == Ok("new"));
    assert!(learned.asked() > 0);
}

/// Starts a replica that keeps up, and answers a GET with its name, or refuses it with this error.
fn replica(name: &'static str, refusal: Option<&'static str>) -> u16 {
    serve(move |words| match (words[0].as_str(), refusal) {
        ("ROLE", _) => Some([b"*5\r\n", &strings(&["slave", "h", "1", "connected"])[4..], b":7\r\n"].concat()),
        ("GET", Some(refusal)) => Some(format!("-{refusal}\r\n").into_bytes()),
        ("GET", None) => Some(format!("${}\r\n{name}\r\n", name.len()).into_bytes()),
        _ => Some(b"-ERR this is a replica\r\n".to_vec()),
    })
}

#[test]
fn reads_go_to_the_replicas_that_a_sentinel_names() {
    let view = View::of(primary("primary"));
    *view.replicas.lock().unwrap() = vec![replica("a", None), replica("b", None), nobody()];
    let client = Client::connect_with(config(&[nobody(), view.serve()]).read_from(ReadFrom::Replica)).unwrap();
    let get = || client.get::<String>("k").wait().unwrap();
    until("the first is asked", || get() == "a");
    until("the second is asked", || get() == "b");
    until("they take turns", || {
        let mut names: Vec<String> = (0..6).map(|_| get()).collect();
        names.sort();
        names == ["a", "a", "a", "b", "b", "b"]
    });
    client.set("k", 1).wait().unwrap();
    assert_eq!(who(&client).as_deref(), Ok("primary"));
    let deadline = Instant::now() + Duration::from_secs(30);
    until("a deadline keeps nobody from them", || client.at(deadline).get::<String>("k").wait().unwrap() == "a");
    assert_eq!(client.lease().unwrap().get::<String>("k").wait().as_deref(), Ok("primary"));
    assert_eq!(client.metrics().iter().filter(|metrics| metrics.is_connected).count(), 3);
    client.close(Duration::from_secs(30)).unwrap();
    assert_eq!(client.get::<String>("k").wait().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn reads_that_a_replica_refuses_are_answered_by_the_primary() {
    let view = View::of(primary("primary"));
    let loading = replica("a", Some("LOADING Redis is loading the dataset in memory"));
    *view.replicas.lock().unwrap() = vec![loading];
    let client = Client::connect_with(config(&[view.serve()]).read_from(ReadFrom::Any)).unwrap();
    until("the replica is connected to", || client.metrics().get(1).is_some_and(|replica| replica.replies > 2));
    for _ in 0..50 {
        assert_eq!(client.get::<String>("k").wait().as_deref(), Ok("primary"));
    }
    // A reply is answered even if its client was dropped.
    let reply = client.get::<String>("k");
    drop(client);
    assert_eq!(reply.wait().as_deref(), Ok("primary"));
}

#[test]
fn a_client_that_is_closed_takes_nothing_though_a_replica_does_not_answer() {
    let view = View::of(primary("primary"));
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (released, arrived) = (Mutex::new(released), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&arrived);
    let holding = serve(move |words| match words[0].as_str() {
        "ROLE" => Some([b"*5\r\n", &strings(&["slave", "h", "1", "connected"])[4..], b":7\r\n"].concat()),
        _ => {
            count.fetch_add(1, Ordering::SeqCst);
            released.lock().unwrap().recv().unwrap();
            Some(b"$7\r\nreplica\r\n".to_vec())
        }
    });
    *view.replicas.lock().unwrap() = vec![holding];
    let client = Client::connect_with(config(&[view.serve()]).read_from(ReadFrom::Replica)).unwrap();
    let get = || client.get::<String>("k");
    let mut held = get();
    until("the replica is asked", || {
        if held.is_ready() {
            held = get();
        }
        arrived.load(Ordering::SeqCst) == 1
    });
    assert_eq!(client.close(Duration::from_millis(50)).unwrap_err().kind(), ErrorKind::Timeout);
    for error in [
        client.set("k", 1).wait().unwrap_err(),
        client.at(Instant::now() + Duration::from_secs(60)).set("k", 1).wait().unwrap_err(),
        client.transaction().exec().wait().unwrap_err(),
        get().wait().unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Closed, Effect::None), "{error}");
    }
    release.send(()).unwrap();
    assert_eq!(held.wait().as_deref(), Ok("replica"));
    client.close(Duration::from_secs(60)).unwrap();
}

#[test]
fn a_missing_database_does_not_take_the_replicas_from_other_calls() {
    let view = View::of(primary("primary"));
    *view.replicas.lock().unwrap() = vec![replica("a", None)];
    let client = Client::connect_with(config(&[view.serve()]).read_from(ReadFrom::Replica)).unwrap();
    until("the replica answers, whatever others ask for", || {
        (0..20).all(|_| {
            assert!(client.db(99).get::<String>("k").wait().is_err());
            client.get::<String>("k").wait().unwrap() == "a"
        })
    });
}
