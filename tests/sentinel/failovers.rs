//! A service of three Sleeves with a primary that dies or falls silent again and again, under Redis's own Sentinels.
//!
//! Callers write and WAIT for one replica. Every write that a replica acknowledged is there after each failover: with the
//! primary alone gone, the most advanced replica is made the primary. The time until a client is answered again is measured
//! and printed.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;

use super::*;
use sleeve_tests::probe::ask;
use sleeve_tests::{Stops, soak};

/// The number of callers that write.
const WRITERS: usize = 3;

/// The time that a writer waits for a reply before it looks for another primary.
const SILENCE_MAX: Duration = Duration::from_millis(500);

/// The silence after which a primary counts as failed: longer than a busy machine delays a server, because a live one must
/// not be replaced here.
pub const SILENCE_MS: u32 = 2_000;

/// Returns a line of INFO replication; none if the server does not answer.
fn info(server: &Server, name: &str) -> Option<String> {
    let text = server.try_connect().and_then(|mut connection| connection.command(&["INFO", "replication"])).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).map(str::to_owned)
}

/// Returns whether a server follows the one with this port.
pub fn follows(server: &Server, primary: u16) -> bool {
    let is = |name: &str, value: &str| info(server, name).as_deref() == Some(value);
    is("master_port", &primary.to_string()) && is("master_link_status", "up")
}

/// Tells a server to follow a primary, and tries again until the server accepts it. A Sentinel that does the same closes the
/// connections of the server's clients, and while the server loads the primary's data every other request is refused.
pub fn make_follow(server: &Server, primary: &Server) {
    let words = ["REPLICAOF", &primary.host().to_string(), &primary.port().to_string()];
    until("it is told whom to follow", || {
        let answer = server.try_connect().and_then(|mut connection| connection.command(&words)).ok()?;
        assert!(answer.starts_with(b"+OK") || answer.starts_with(b"-LOADING"), "{}", String::from_utf8_lossy(&answer));
        answer.starts_with(b"+OK").then_some(())
    });
}

/// Returns the address of the primary, as the first Sentinel says.
fn primary_of(sentinel: SocketAddr) -> Option<SocketAddr> {
    let mut connection = Connection::open(sentinel).ok()?;
    let answer = connection.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]).ok()?;
    let port = String::from_utf8_lossy(&answer).trim_end().rsplit("\r\n").next()?.parse().ok()?;
    Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// Writes to the present primary until it is stopped, and notes the writes that a replica has.
fn write(sentinel: SocketAddr, writer: usize, acknowledged: &Mutex<Vec<String>>, stops: &AtomicBool) {
    let mut number = 0_u64;
    while !stops.load(Ordering::Relaxed) {
        let Some(mut connection) = primary_of(sentinel).and_then(|address| Connection::open(address).ok()) else {
            thread::yield_now();
            continue;
        };
        // A stopped server does not reply; then the writer looks for the next primary.
        connection.stream().set_read_timeout(Some(SILENCE_MAX)).expect("a length of time");
        while !stops.load(Ordering::Relaxed) {
            number += 1;
            let key = format!("{writer}:{number}");
            let written = connection.command(&["SET", &key, "1"]).is_ok_and(|reply| reply == b"+OK\r\n");
            if !written || !connection.command(&["WAIT", "1", "300"]).is_ok_and(|reply| reply > b":0\r\n".to_vec()) {
                break;
            }
            acknowledged.lock().expect("nobody panics with it").push(key);
        }
    }
}

/// Returns the keys that were acknowledged and are missing.
pub fn lost(server: &Server, acknowledged: &[String]) -> Vec<String> {
    let mut connection = server.connect();
    let mut lost = Vec::new();
    for keys in acknowledged.chunks(1_000) {
        let words: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        let reply = ask(&mut connection, &words);
        // The reply has one line for a missing key, and two for one that exists.
        let mut lines = reply.split("\r\n").skip(1);
        for key in keys {
            match lines.next() {
                Some("$1") => _ = lines.next(),
                _ => lost.push(key.clone()),
            }
        }
    }
    lost
}

/// Kills or stops the primary, waits for the Sentinels' switch, and brings it back as a replica. Returns the time from the
/// switch to a client's first answer.
fn fail_over(house: &mut House, client: &Client, kills: bool) -> Duration {
    let old = house.sentinels[0].primary().expect("a primary");
    let at = house.servers.iter().position(|server| server.port() == old).expect("one of ours");
    if kills {
        house.servers[at].kill();
    } else {
        signal(house.servers[at].process_id(), "STOP");
    }
    let new = house.wait_for_switch(0, old);
    let since = Instant::now();
    until("a client is answered", || client.set("after", 1).wait().ok());
    let recovered = since.elapsed();
    // The old primary goes on below. If the other replica still followed it then, that replica would acknowledge writes that
    // are lost when the old primary becomes a replica.
    let others = |server: &&Server| ![old, new].contains(&server.port());
    for server in house.servers.iter().filter(others) {
        until("the other follows the new primary", || follows(server, new).then_some(()));
    }
    if kills {
        house.servers[at].restart().expect("it starts");
        // Sentinels would make the server follow by themselves, some seconds later.
        make_follow(&house.servers[at], house.server(new));
    } else {
        signal(house.servers[at].process_id(), "CONT");
    }
    until("the old primary follows the new one", || follows(&house.servers[at], new).then_some(()));
    all_know(house, new);
    recovered
}

/// Waits until all Sentinels have the server with this port as the primary, and suspect no failure of it.
pub fn all_know(house: &House, primary: u16) {
    for sentinel in &house.sentinels {
        until("all Sentinels know of it", || {
            let says = sentinel.ask(&["SENTINEL", "MASTER", SERVICE]);
            let flags = says.split("\r\n").skip_while(|line| *line != "flags").nth(2).map(str::to_owned);
            (sentinel.primary() == Some(primary) && flags.as_deref() == Some("master")).then_some(())
        });
    }
}

#[test]
fn no_write_that_one_replica_has_is_lost_by_kills_and_stops() {
    let mut house = House::build_of(Kind::Sleeve, SILENCE_MS, None);
    let client = house.client(3);
    let (acknowledged, stops, sentinel) = (Mutex::new(Vec::new()), AtomicBool::new(false), house.sentinels[0].address);
    let known = || acknowledged.lock().expect("nobody panics with it").clone();
    let mut recovered = Vec::new();
    thread::scope(|threads| {
        let _stops = Stops(&stops);
        for writer in 0..WRITERS {
            let (acknowledged, stops) = (&acknowledged, &stops);
            threads.spawn(move || write(sentinel, writer, acknowledged, stops));
        }
        for round in 0..soak::count(3) {
            let before = known().len();
            until("something is acknowledged", || (known().len() > before + 100).then_some(()));
            recovered.push(fail_over(&mut house, &client, round % 2 == 0));
            let told = known();
            let primary = house.server(house.sentinels[0].primary().expect("a primary"));
            let lost = lost(primary, &told);
            assert!(lost.is_empty(), "round {round}: {} of {} are not there: {lost:?}", lost.len(), told.len());
        }
    });
    recovered.sort_unstable();
    println!(
        "{} failovers, {} writes acknowledged; a client was answered {:?} behind the switch at the median, {:?} at the most",
        recovered.len(),
        known().len(),
        recovered[recovered.len() / 2],
        recovered[recovered.len() - 1]
    );
}

/// Waits until a client uses the server with this port: until then the old primary may take writes that will be lost.
fn moves_to(client: &Client, port: u16) {
    let found = || client.config_get::<HashMap<String, u16>>("port").wait().ok();
    until("the client moves", || found().filter(|found| found["port"] == port));
}

#[test]
fn the_preferred_replica_is_promoted_and_old_clients_are_redirected() {
    let house = House::build_of(Kind::Sleeve, SILENCE_MS, None);
    let client = house.client(3);
    let (first, second, third) = (&house.servers[0], &house.servers[1], &house.servers[2]);
    for (server, priority) in [(first, "0"), (second, "100"), (third, "10")] {
        assert_eq!(ask(&mut server.connect(), &["CONFIG", "SET", "replica-priority", priority]), "+OK\r\n");
    }
    let replicas = || house.sentinels[0].ask(&["SENTINEL", "REPLICAS", SERVICE]);
    until("the Sentinel knows", || replicas().contains("slave-priority\r\n$2\r\n10\r\n").then_some(()));
    for server in [second, third] {
        let text = ask(&mut server.connect(), &["INFO", "server"]);
        let run_id = text.lines().find_map(|line| line.strip_prefix("run_id:")).expect("it has one").to_owned();
        assert!(replicas().contains(&run_id), "{}", replicas());
    }
    let (mut plain, mut listener) = (first.connect(), first.connect());
    assert_eq!(ask(&mut plain, &["PING"]), "+PONG\r\n");
    assert!(ask(&mut listener, &["SUBSCRIBE", "news"]).starts_with("*3"));
    client.set("before", 1).wait().expect("a primary");
    let asked = house.sentinels[0].ask(&["SENTINEL", "FAILOVER", SERVICE]);
    assert!(asked.starts_with("+OK"), "{asked}");
    assert_eq!(house.wait_for_switch(0, first.port()), third.port());
    moves_to(&client, third.port());
    client.set("after", 1).wait().expect("it is the primary");
    for server in [first, second] {
        until("it follows", || follows(server, third.port()).then_some(()));
    }
    assert!(plain.reply().is_err() && listener.reply().is_err(), "they were told to go");
    // A replica with priority 0 is never promoted, so the second server is.
    until("a second failover", || {
        house.sentinels[0].ask(&["SENTINEL", "FAILOVER", SERVICE]).starts_with("+OK").then_some(())
    });
    assert_eq!(house.wait_for_switch(0, third.port()), second.port());
    moves_to(&client, second.port());
    client.set("again", 1).wait().expect("it is the primary");
    let read = ask(&mut second.connect(), &["MGET", "before", "after", "again"]);
    assert_eq!(read, "*3\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n");
}
