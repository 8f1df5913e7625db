//! Clients that wait for keys, while other clients serve them, unblock them and pause the server, at the very moment at which
//! their timeouts are reached.
//!
//! However such moments fall together, each client gets its answer, and an element that is taken out of a key reaches one
//! client and no other. When all clients are answered, no thread has anything left to do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_tests::connection::request;
use sleeve_tests::random::{Random, seed};
use sleeve_tests::transcript::frame::{leaves, split};
use sleeve_tests::{Connection, Kind, Server, soak};

use super::{PATIENCE, ask, told, until};

/// The number of clients that wait.
const WAITERS: u64 = 50;

/// The number of clients that serve them.
const PRODUCERS: u64 = 3;

/// The duration of the work on a server in the short form.
const SHORT: Duration = Duration::from_millis(1_500);

fn server(workers: &str) -> Server {
    Server::start_with(Kind::Sleeve, &["--workers", workers, "--enable-debug-command", "yes"])
}

/// Checks a blocked client that reaches its timeout while its own thread is busy with the request that precedes the one that
/// serves it. When that thread looks for timeouts that were reached, it has not read yet the message that the client was
/// served.
#[test]
fn a_timeout_that_passes_during_a_serve_holds_up_no_client() {
    for workers in ["1", "2"] {
        let server = server(workers);
        let mut admin = server.connect();
        let [mut waiter, mut first, mut server_of_it, mut last] = [(); 4].map(|()| server.connect());
        waiter.send(&request(&["BLPOP", "k", "0.4"])).expect("the server listens");
        until("it waits", || told(&mut admin, "blocked_clients") == 1);
        first.send(&request(&["DEBUG", "SLEEP", "0.2"])).expect("the server listens");
        // While the sleep runs, the other clients send, so that their thread finds both requests when it looks next.
        thread::sleep(Duration::from_millis(50));
        let serve = [request(&["DEBUG", "SLEEP", "0.4"]), request(&["LPUSH", "k", "v"])].concat();
        server_of_it.send(&serve).expect("the server listens");
        last.send(&request(&["PING"])).expect("the server listens");
        assert_eq!(first.reply().expect("a reply"), b"+OK\r\n");
        assert_eq!(server_of_it.reply().expect("a reply"), b"+OK\r\n");
        assert_eq!(server_of_it.reply().expect("a reply"), b":1\r\n");
        assert_eq!(last.reply().expect("a reply"), b"+PONG\r\n");
        let reply = waiter.reply().expect("a reply");
        let is_served = reply == b"*2\r\n$1\r\nk\r\n$1\r\nv\r\n";
        assert!(is_served || reply == b"*-1\r\n", "{}", String::from_utf8_lossy(&reply));
        let left = ask(&mut admin, &["DEL", "k"]);
        assert_eq!(left, if is_served { ":0\r\n" } else { ":1\r\n" }, "nothing is lost or doubled");
        assert_idle(&server);
    }
}

/// The state of the run that all clients share.
struct Run<'a> {
    server: &'a Server,
    is_over: AtomicBool,
    /// The number of elements that the producers have made.
    made: AtomicU64,
    /// The number of waits that ended by the timeout, and of those that another client ended.
    ended: [AtomicU64; 2],
}

/// The ways to wait, each for elements of a key of its own.
const WAYS: [&str; 5] = ["BLPOP", "BLMOVE", "BZPOPMIN", "XREADGROUP", "BLMPOP"];

/// Returns a request that waits for so many milliseconds.
fn wait(way: usize, ms: i64) -> Vec<u8> {
    let (seconds, ms) = (format!("0.{ms:03}"), ms.to_string());
    match WAYS[way] {
        "BLPOP" => request(&["BLPOP", "none", "list", &seconds]),
        "BLMOVE" => request(&["BLMOVE", "source", "moved", "LEFT", "RIGHT", &seconds]),
        "BZPOPMIN" => request(&["BZPOPMIN", "scores", &seconds]),
        "XREADGROUP" => {
            request(&["XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "BLOCK", &ms, "NOACK", "STREAMS", "stream", ">"])
        }
        _ => request(&["BLMPOP", &seconds, "2", "none", "many", "RIGHT", "COUNT", "1"]),
    }
}

/// Returns a request that makes an element to take for clients that wait in this way.
fn make(way: usize, element: &str) -> Vec<u8> {
    match WAYS[way] {
        "BLPOP" => request(&["RPUSH", "list", element]),
        "BLMOVE" => request(&["RPUSH", "source", element]),
        "BZPOPMIN" => request(&["ZADD", "scores", "1", element]),
        "XREADGROUP" => request(&["XADD", "stream", "*", "element", element]),
        _ => request(&["RPUSH", "many", element]),
    }
}

/// Returns the elements in a reply to a client that waited.
fn elements(reply: &[u8]) -> Vec<String> {
    let words = leaves(reply).into_iter().map(|word| String::from_utf8_lossy(&word).into_owned());
    words.filter(|word| word.starts_with("e:")).collect()
}

/// Waits again and again, and returns the elements that it has received.
fn waiter(run: &Run<'_>, number: u64) -> Vec<String> {
    let (mut random, mut connection) = (Random::new(seed(1).wrapping_add(number)), run.server.connect());
    let (way, mut got) = (number as usize % WAYS.len(), Vec::new());
    while !run.is_over.load(Ordering::Relaxed) {
        connection.send(&wait(way, random.between(10, 80))).expect("the server listens");
        let reply = connection.reply().unwrap_or_else(|error| panic!("{}: {error}", WAYS[way]));
        match reply.as_slice() {
            b"*-1\r\n" | b"$-1\r\n" => _ = run.ended[0].fetch_add(1, Ordering::Relaxed),
            reply if reply.starts_with(b"-UNBLOCKED ") => _ = run.ended[1].fetch_add(1, Ordering::Relaxed),
            reply => {
                let elements = elements(reply);
                assert_eq!(elements.len(), 1, "{}: {}", WAYS[way], String::from_utf8_lossy(reply));
                got.extend(elements);
            }
        }
    }
    got
}

/// Makes elements, a few at a time, alone, in a transaction or in a script; sometimes with a long script before them.
fn produce(run: &Run<'_>, number: u64) {
    let (mut random, mut connection) = (Random::new(seed(2).wrapping_add(number)), run.server.connect());
    while !run.is_over.load(Ordering::Relaxed) {
        let count = 1 + random.below(4);
        let mut bytes = Vec::new();
        let is_transaction = random.once_in(3);
        if random.once_in(40) {
            bytes.extend(request(&["DEBUG", "SLEEP", "0.02"]));
        }
        if is_transaction {
            bytes.extend(request(&["MULTI"]));
        }
        for _ in 0..count {
            let element = format!("e:{}", run.made.fetch_add(1, Ordering::Relaxed));
            bytes.extend(make(random.below(WAYS.len()), &element));
        }
        if is_transaction {
            bytes.extend(request(&["EXEC"]));
        }
        bytes.extend(request(&["ECHO", "done"]));
        connection.send(&bytes).expect("the server listens");
        while connection.reply().expect("a reply") != b"$4\r\ndone\r\n" {}
        // The pause sets the load: a waiter is served about as often as it reaches its timeout.
        thread::sleep(Duration::from_micros(random.between(500, 8_000).cast_unsigned()));
    }
}

/// Ends the waits of some clients by CLIENT UNBLOCK, pauses all clients, and kills clients that wait for a key that stays
/// empty.
fn disturb(run: &Run<'_>) {
    let (mut random, mut connection) = (Random::new(seed(3)), run.server.connect());
    while !run.is_over.load(Ordering::Relaxed) {
        let list = ask(&mut connection, &["CLIENT", "LIST"]);
        let waiting = list.lines().filter(|line| line.contains(" flags=b "));
        let ids: Vec<&str> = waiting.filter_map(|line| line.strip_prefix("id=")?.split(' ').next()).collect();
        let chosen: Vec<&str> = ids.into_iter().filter(|_| random.once_in(10)).collect();
        for id in chosen {
            let reason = *random.pick(&["TIMEOUT", "ERROR"]);
            let done = ask(&mut connection, &["CLIENT", "UNBLOCK", id, reason]);
            assert!(done == ":0\r\n" || done == ":1\r\n", "{done}");
        }
        let (ms, mode) = (random.between(1, 30).to_string(), *random.pick(&["WRITE", "ALL"]));
        assert_eq!(ask(&mut connection, &["CLIENT", "PAUSE", &ms, mode]), "+OK\r\n");
        let mut victim = run.server.connect();
        victim
            .send(&[request(&["CLIENT", "ID"]), request(&["BLPOP", "nothing", "0.05"])].concat())
            .expect("it listens");
        let id = victim.reply().expect("an id");
        let id = String::from_utf8_lossy(&id[1..]).trim().to_owned();
        thread::sleep(Duration::from_millis(random.between(30, 70).cast_unsigned()));
        ask(&mut connection, &["CLIENT", "KILL", "ID", &id]);
        // The client gets a reply or its connection is closed: it is not left waiting.
        assert!(matches!(victim.reply(), Ok(reply) if reply == b"*-1\r\n") || victim.reply().is_err());
    }
}

/// Returns the elements that are left in the keys after all clients have stopped.
fn rest(connection: &mut Connection) -> Vec<String> {
    let mut rest = Vec::new();
    for words in [
        ["LRANGE", "list", "0", "-1"],
        ["LRANGE", "source", "0", "-1"],
        ["LRANGE", "many", "0", "-1"],
        ["ZRANGE", "scores", "0", "-1"],
    ] {
        rest.extend(elements(&connection.command(&words).expect("a reply")));
    }
    let unread = ["XREADGROUP", "GROUP", "g", "c", "NOACK", "STREAMS", "stream", ">"];
    rest.extend(elements(&connection.command(&unread).expect("a reply")));
    rest
}

/// Returns the processor time that a server has used.
fn processor_time(server: &Server) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.process_id())).expect("the process is there");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("ticks")).sum();
    Duration::from_millis(ticks * 10)
}

/// Looks at an idle server until it uses next to no processor time. A thread that spins never lets that happen.
fn assert_idle(server: &Server) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (before, began) = (processor_time(server), Instant::now());
        thread::sleep(Duration::from_millis(500));
        let (used, passed) = (processor_time(server) - before, began.elapsed());
        if used * 20 <= passed {
            return;
        }
        assert!(Instant::now() < deadline, "nobody asks anything, and {used:?} of {passed:?} are used");
    }
}

fn work(workers: &str, duration: Duration) {
    let server = server(workers);
    let mut admin = server.connect();
    ask(&mut admin, &["XGROUP", "CREATE", "stream", "g", "$", "MKSTREAM"]);
    let run = Run { server: &server, is_over: false.into(), made: 0.into(), ended: Default::default() };
    let mut found: HashMap<String, u64> = HashMap::new();
    thread::scope(|scope| {
        let run = &run;
        let waiters: Vec<_> = (0..WAITERS).map(|number| scope.spawn(move || waiter(run, number))).collect();
        (0..PRODUCERS).for_each(|number| _ = scope.spawn(move || produce(run, number)));
        scope.spawn(|| disturb(run));
        thread::sleep(duration);
        run.is_over.store(true, Ordering::Relaxed);
        for waiter in waiters {
            let got = waiter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            got.into_iter().for_each(|element| *found.entry(element).or_default() += 1);
        }
    });
    let taken = found.len();
    rest(&mut admin).into_iter().for_each(|element| *found.entry(element).or_default() += 1);
    let made = run.made.load(Ordering::Relaxed);
    for number in 0..made {
        let times = found.remove(&format!("e:{number}")).unwrap_or(0);
        assert_eq!(times, 1, "{workers} workers: element {number} of {made} was found so many times");
    }
    assert!(found.is_empty(), "nobody made these: {found:?}");
    let moved = split(&admin.command(&["LRANGE", "moved", "0", "-1"]).expect("a reply")).len();
    assert!(moved > 0 && taken > 0);
    assert_eq!(told(&mut admin, "blocked_clients"), 0);
    assert_idle(&server);
    let [timed_out, unblocked] = run.ended.each_ref().map(|count| count.load(Ordering::Relaxed));
    println!("{workers} workers: {made} made, {taken} taken, {timed_out} timed out, {unblocked} unblocked");
}

#[test]
fn blocked_clients_lose_nothing_double_nothing_and_spin_no_worker() {
    for workers in ["1", "2", "4"] {
        work(workers, soak::duration(SHORT));
    }
}

#[test]
fn the_watchdog_logs_a_worker_that_does_not_serve() {
    for workers in ["1", "2"] {
        let server = Server::start_with(Kind::Sleeve, &["--workers", workers, "--enable-debug-command", "yes"]);
        let mut connection = server.connect();
        assert_eq!(ask(&mut connection, &["DEBUG", "POPULATE", "100"]), "+OK\r\n");
        assert_eq!(
            ask(&mut connection, &["CONFIG", "SET", "watchdog-period", "20", "key-load-delay", "1000"]),
            "+OK\r\n"
        );
        for (busy, told) in [
            (["DEBUG", "SLEEP", "0.1"].as_slice(), "has not looked at its mail for"),
            (&["DEBUG", "RELOAD"], "clients are refused"),
        ] {
            until(told, || {
                assert_eq!(ask(&mut connection, busy), "+OK\r\n");
                server.log().lines().any(|line| line.contains("WATCHDOG TIMER EXPIRED") && line.contains(told))
            });
        }
    }
}
