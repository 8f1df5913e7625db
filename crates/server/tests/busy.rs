//! Tests of other clients while a script runs for a long time: with one worker, which runs the script, and with two.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use sleeve_server::boot::{self, Server};
use sleeve_server::{Config, Engine, Local, Opt};

pub(crate) const ENDLESS: &[&str] = &["EVAL", "while true do end", "0"];
const BUSY: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";

pub(crate) struct Served {
    pub(crate) engine: Arc<Engine>,
    pub(crate) server: Server,
}

impl Served {
    /// Starts a server with this threshold in milliseconds for long scripts.
    pub(crate) fn new(workers: usize, threshold_ms: &str) -> Self {
        let config = Config::default();
        config.assign(Opt::Workers, &[workers.to_string().as_bytes()]).expect("a number of workers");
        let served = Engine::new(config);
        let server = boot::listen(&served, "127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let served = Self { engine: served, server };
        served.set_threshold(threshold_ms);
        served
    }

    pub(crate) fn set_threshold(&self, threshold_ms: &str) {
        self.engine.config.assign(Opt::BusyReplyThreshold, &[threshold_ms.as_bytes()]).expect("a threshold");
    }

    pub(crate) fn open(&self) -> Peer {
        let stream = TcpStream::connect(self.server.addresses()[0]).expect("listening");
        // Only a failing test waits this long.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        Peer(stream)
    }

    /// Runs an endless script, and waits until other clients get the error BUSY.
    fn run_for_ever(&self, script: &[&str]) -> (Peer, Peer) {
        let (mut runner, mut other) = (self.open(), self.open());
        runner.send(script);
        other.until_busy();
        (runner, other)
    }

    /// Opens a connection at another worker than the one that a script keeps busy.
    pub(crate) fn open_beside(&self) -> Peer {
        let mut peers: Vec<Peer> = (0..16).map(|_| self.open()).collect();
        for peer in &mut peers {
            peer.send(&["PING"]);
            peer.0.set_nonblocking(true).expect("a socket");
        }
        loop {
            let answered = peers.iter().position(|peer| peer.0.peek(&mut [0]).is_ok());
            if let Some(place) = answered {
                let mut peer = peers.swap_remove(place);
                peer.0.set_nonblocking(false).expect("a socket");
                peer.expect("+PONG\r\n");
                return peer;
            }
            std::thread::yield_now();
        }
    }

    /// Waits until a script has the locks of all shards.
    pub(crate) fn until_locked(&self) {
        while self.engine.keyspace.store.try_lock(0).is_some() {
            std::thread::yield_now();
        }
    }
}

pub(crate) struct Peer(pub(crate) TcpStream);

impl Peer {
    pub(crate) fn send(&mut self, words: &[&str]) {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        self.0.write_all(request.as_bytes()).expect("connected");
    }

    /// Checks that the next bytes are these.
    pub(crate) fn expect(&mut self, reply: &str) {
        let mut bytes = vec![0; reply.len()];
        let mut length = 0;
        while length < bytes.len() && reply.as_bytes().starts_with(&bytes[..length]) {
            match self.0.read(&mut bytes[length..]) {
                // A receive with a timeout is not restarted after the process was stopped for a moment.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => length += read.expect("a reply"),
            }
        }
        assert_eq!(String::from_utf8_lossy(&bytes[..length]), reply);
    }

    pub(crate) fn ask(&mut self, words: &[&str], reply: &str) {
        self.send(words);
        self.expect(reply);
    }

    /// Returns whether the reply to these words begins with `start`.
    fn begins_with(&mut self, words: &[&str], start: &str) -> bool {
        self.send(words);
        start.bytes().all(|expected| {
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("a reply");
            byte == [expected]
        })
    }

    /// Returns the next line.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("a reply");
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).into_owned()
    }

    pub(crate) fn until_busy(&mut self) {
        loop {
            self.send(&["PING"]);
            match self.line().as_str() {
                BUSY => return,
                reply => assert!(reply == "+PONG\r\n" || reply.starts_with("-BUSY"), "{reply}"),
            }
        }
    }

    fn killed(&mut self, command: &str) {
        let line = self.line();
        assert!(line.starts_with(&format!("-ERR Script killed by user with {command}. script: ")), "{line}");
    }

    /// Returns the number of clients in CLIENT LIST. Retries until the server accepts the command.
    fn clients(&mut self) -> usize {
        loop {
            self.send(&["CLIENT", "LIST"]);
            let head = self.line();
            if let Ok(len) = head[1..].trim_end().parse::<usize>() {
                let mut list = vec![0; len + 2];
                self.0.read_exact(&mut list).expect("a list");
                return String::from_utf8_lossy(&list).matches("id=").count();
            }
            assert_eq!(head, BUSY);
        }
    }
}

fn with_one_and_two_workers(test: impl Fn(&dyn Fn(&str) -> Served)) {
    for workers in [1, 2] {
        test(&|threshold_ms| Served::new(workers, threshold_ms));
    }
}

#[test]
fn others_are_told_and_may_end_it() {
    with_one_and_two_workers(|serve| {
        let served = serve("20");
        let (mut runner, mut other) = served.run_for_ever(ENDLESS);
        let mut third = served.open();
        for peer in [&mut third, &mut other] {
            peer.ask(&["GET", "k"], BUSY);
            peer.ask(&["EVAL", "return 1", "0"], BUSY);
            peer.ask(&["DBSIZE"], BUSY);
            peer.ask(&["SHUTDOWN"], BUSY);
            peer.ask(&["FUNCTION", "KILL"], BUSY);
        }
        other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
        runner.killed("SCRIPT KILL");
        third.ask(&["SET", "k", "v"], "+OK\r\n");
        other.ask(&["SCRIPT", "KILL"], "-NOTBUSY No scripts in execution right now.\r\n");
        runner.ask(&["EVAL", "return 7", "0"], ":7\r\n");
    });
}

#[test]
fn functions_are_ended_by_their_own_command() {
    with_one_and_two_workers(|serve| {
        let served = serve("20");
        let library = "#!lua name=l\nredis.register_function('f', function() while true do end end)";
        served.open().ask(&["FUNCTION", "LOAD", library], "$1\r\nl\r\n");
        let (mut runner, mut other) = (served.open(), served.open());
        runner.send(&["FCALL", "f", "0"]);
        let busy = BUSY.replace("SCRIPT KILL", "FUNCTION KILL");
        while {
            other.send(&["SCRIPT", "KILL"]);
            other.line() != busy
        } {}
        let running = "*4\r\n$14\r\nrunning_script\r\n*6\r\n$4\r\nname\r\n$1\r\nf\r\n$7\r\ncommand\r\n*3\r\n";
        // Another worker may already treat the script as a long one, a moment before the details of the script are published.
        while !served.open().begins_with(&["FUNCTION", "STATS"], running) {}
        other.ask(&["FUNCTION", "KILL"], "+OK\r\n");
        runner.killed("FUNCTION KILL");
        assert!(other.begins_with(&["FUNCTION", "STATS"], "*4\r\n$14\r\nrunning_script\r\n$-1\r\n"));
    });
}

#[test]
fn who_has_written_is_ended_by_the_end_of_the_server_alone() {
    with_one_and_two_workers(|serve| {
        let served = serve("20");
        let writer = "redis.call('set', 'k', 'v') while true do pcall(function() while true do end end) end";
        let (mut runner, mut other) = served.run_for_ever(&["EVAL", writer, "1", "k"]);
        other.send(&["SCRIPT", "KILL"]);
        assert!(other.line().starts_with("-UNKILLABLE "));
        other.send(&["SHUTDOWN", "NOSAVE"]);
        for peer in [&mut other, &mut runner] {
            let mut rest = Vec::new();
            // If the server has not read all bytes, the connection ends with a reset.
            _ = peer.0.read_to_end(&mut rest);
        }
        served.server.stop();
    });
}

#[test]
fn a_transaction_that_meets_it_is_refused() {
    with_one_and_two_workers(|serve| {
        let served = serve("20");
        let mut early = served.open();
        early.ask(&["MULTI"], "+OK\r\n");
        early.ask(&["SET", "k", "early"], "+QUEUED\r\n");
        let (mut runner, mut other) = served.run_for_ever(ENDLESS);
        early.send(&["EXEC"]);
        early.expect(&BUSY.replace("-BUSY", "-EXECABORT Transaction discarded because of: BUSY"));
        other.ask(&["MULTI"], "+OK\r\n");
        other.ask(&["SET", "k", "late"], BUSY);
        served.open().ask(&["SCRIPT", "KILL"], "+OK\r\n");
        runner.killed("SCRIPT KILL");
        other.send(&["EXEC"]);
        assert!(other.line().starts_with("-EXECABORT "));
        early.ask(&["GET", "k"], "$-1\r\n");
    });
}

#[test]
fn clients_may_come_and_go_and_so_may_its_own() {
    with_one_and_two_workers(|serve| {
        let served = serve("20");
        let (runner, mut other) = served.run_for_ever(ENDLESS);
        let mut guests: Vec<Peer> = (0..4).map(|_| served.open()).collect();
        guests.iter_mut().for_each(|guest| guest.ask(&["GET", "k"], BUSY));
        guests.truncate(1);
        drop(runner);
        let mut late = served.open();
        late.ask(&["PING"], BUSY);
        other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
        while other.clients() != 3 {
            std::thread::yield_now();
        }
        late.ask(&["PING"], "+PONG\r\n");
        guests[0].ask(&["PING"], "+PONG\r\n");
    });
}

#[test]
fn what_stands_behind_it_runs_afterwards_in_order() {
    with_one_and_two_workers(|serve| {
        let served = serve("20");
        let (mut runner, mut other) = (served.open(), served.open());
        let script = "*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n";
        let batch = ["PING one\r\n", script, "SET k 1\r\nGET k\r\nECH"].concat();
        runner.0.write_all(batch.as_bytes()).expect("connected");
        other.until_busy();
        runner.0.write_all(b"O two\r\nINCR k\r\n").expect("connected");
        other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
        runner.expect("$3\r\none\r\n");
        runner.killed("SCRIPT KILL");
        runner.expect("+OK\r\n$1\r\n1\r\n$3\r\ntwo\r\n:2\r\n");
    });
}

#[test]
fn who_waits_for_its_locks_does_not_wait_for_ever() {
    let served = Served::new(2, "3600000");
    let (mut runner, mut waiting) = (served.open(), served.open());
    runner.send(ENDLESS);
    served.until_locked();
    for request in [&["GET", "k"][..], &["MGET", "a", "b"], &["EVAL", "return 1", "0"], &["DBSIZE"], &["FLUSHALL"]] {
        served.set_threshold("3600000");
        waiting.send(request);
        // At this point the other worker is waiting, or is about to find that the threshold has passed.
        served.set_threshold("1");
        waiting.expect(BUSY);
    }
    waiting.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    runner.killed("SCRIPT KILL");
}

#[test]
fn one_that_begins_when_waiting_for_a_key_ends_can_be_ended_too() {
    with_one_and_two_workers(|serve| {
        let served = serve("20");
        let (mut runner, mut other) = (served.open(), served.open());
        runner.send(&["BLPOP", "q", "0"]);
        runner.send(ENDLESS);
        while {
            other.send(&["RPUSH", "q", "x"]);
            let pushed = other.line();
            other.send(&["DEL", "q"]);
            _ = other.line();
            pushed != BUSY
        } {}
        other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
        runner.expect("*2\r\n$1\r\nq\r\n$1\r\nx\r\n");
        runner.killed("SCRIPT KILL");
    });
}

#[test]
fn messages_reach_those_who_listen_and_the_client_of_the_script_itself() {
    with_one_and_two_workers(|serve| {
        let served = serve("3600000");
        let (mut runner, mut listener) = (served.open(), served.open());
        let subscribed = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
        listener.ask(&["SUBSCRIBE", "c"], subscribed);
        runner.send(&["HELLO", "3"]);
        runner.send(&["SUBSCRIBE", "c"]);
        while runner.line() != "$9\r\n" {}
        runner.expect("subscribe\r\n$1\r\nc\r\n:1\r\n");
        runner.send(ENDLESS);
        served.until_locked();
        let mut replies = Vec::new();
        let publish = b"PUBLISH c first\r\nPUBLISH c second\r\n";
        Local::open(&served.engine, || {}).exchange(publish, &mut replies).expect("the session lives");
        assert_eq!(replies, b":2\r\n:2\r\n");
        served.set_threshold("1");
        let message = |payload: &str| format!("$7\r\nmessage\r\n$1\r\nc\r\n${}\r\n{payload}\r\n", payload.len());
        for payload in ["first", "second"] {
            listener.expect(&format!("*3\r\n{}", message(payload)));
        }
        served.open().ask(&["SCRIPT", "KILL"], "+OK\r\n");
        runner.killed("SCRIPT KILL");
        for payload in ["first", "second"] {
            runner.expect(&format!(">3\r\n{}", message(payload)));
        }
        runner.ask(&["PING"], "+PONG\r\n");
    });
}

fn with_one_and_four_workers(test: impl Fn(&dyn Fn(&str) -> Served)) {
    for workers in [1, 4] {
        test(&|threshold_ms| Served::new(workers, threshold_ms));
    }
}

#[test]
fn one_within_a_transaction_is_as_any_other() {
    with_one_and_four_workers(|serve| {
        let served = serve("20");
        let (mut runner, mut other) = (served.open(), served.open());
        runner.ask(&["MULTI"], "+OK\r\n");
        for request in [&["SET", "k", "1"][..], ENDLESS, &["INCR", "k"]] {
            runner.ask(request, "+QUEUED\r\n");
        }
        runner.send(&["EXEC"]);
        other.until_busy();
        other.ask(&["GET", "k"], BUSY);
        other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
        runner.expect("*3\r\n+OK\r\n");
        runner.killed("SCRIPT KILL");
        runner.expect(":2\r\n");
        other.ask(&["GET", "k"], "$1\r\n2\r\n");
    });
}

#[test]
fn who_waits_for_a_key_is_told_in_time_while_one_runs() {
    with_one_and_four_workers(|serve| {
        let served = serve("20");
        let (mut runner, mut waiting) = (served.open(), served.open());
        waiting.send(&["BLPOP", "q", "0.3"]);
        let mut list = Vec::new();
        let mut local = Local::open(&served.engine, || {});
        while !String::from_utf8_lossy(&list).contains(" flags=b ") {
            list.clear();
            local.exchange(b"CLIENT LIST\r\n", &mut list).expect("the session lives");
        }
        runner.send(ENDLESS);
        // This reply is that of the timeout: the script still runs, and is ended below.
        waiting.expect("*-1\r\n");
        let mut other = served.open();
        other.until_busy();
        other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
        runner.killed("SCRIPT KILL");
    });
}

#[test]
fn several_in_one_batch_and_those_of_others_run_one_after_the_other() {
    with_one_and_four_workers(|serve| {
        let served = serve("5");
        let (mut killer, mut killed) = (served.open(), 0);
        let batch = || {
            let mut runner = served.open();
            (0..3).for_each(|_| runner.send(ENDLESS));
            runner.send(&["SET", "k", "v"]);
            let lines: Vec<_> = (0..4).map(|_| runner.line()).collect();
            (runner, lines)
        };
        let ends = std::thread::scope(|scope| {
            let runners: Vec<_> = (0..3).map(|_| scope.spawn(batch)).collect();
            while !runners.iter().all(|runner| runner.is_finished()) {
                killer.send(&["SCRIPT", "KILL"]);
                killed += usize::from(killer.line() == "+OK\r\n");
            }
            runners.into_iter().map(|runner| runner.join().expect("all lines came")).collect::<Vec<_>>()
        });
        let mut ended = 0;
        for (mut runner, lines) in ends {
            for line in &lines[..3] {
                let is_killed = line.starts_with("-ERR Script killed by user with SCRIPT KILL.");
                assert!(is_killed || line == BUSY, "{line}");
                ended += usize::from(is_killed);
            }
            assert!(lines[3] == "+OK\r\n" || lines[3] == BUSY, "{}", lines[3]);
            runner.ask(&["PING"], "+PONG\r\n");
        }
        assert!((1..=killed).contains(&ended), "{ended} of {killed}");
    });
}

#[test]
fn the_end_of_the_server_ends_all_that_stand_in_one_batch() {
    with_one_and_four_workers(|serve| {
        let served = serve("20");
        let (mut runner, _other) = served.run_for_ever(ENDLESS);
        (0..3).for_each(|_| runner.send(ENDLESS));
        let (mut batched, mut other) = (served.open(), served.open());
        other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
        runner.killed("SCRIPT KILL");
        (0..3).for_each(|_| batched.send(ENDLESS));
        other.until_busy();
        served.server.stop();
        assert_eq!(served.engine.failure(), None);
        let mut rest = Vec::new();
        // If the server has not read all bytes, the connection ends with a reset.
        _ = runner.0.read_to_end(&mut rest);
    });
}

#[test]
fn a_panic_of_its_thread_ends_the_engine_and_leaves_nobody_waiting() {
    let endless = "*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n";
    let patient =
        "while redis.call('config', 'get', 'maxclients')[2] ~= '77' do end return redis.call('debug', 'panic')";
    let within = format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{patient}\r\n$1\r\n0\r\n", patient.len());
    for (workers, batch) in [(1, &within), (4, &within), (1, &format!("{endless}DEBUG PANIC\r\n"))] {
        let config = Config::default();
        config.assign(Opt::Workers, &[workers.to_string().as_bytes()]).expect("a number of workers");
        config.assign(Opt::EnableDebugCommand, &[b"yes"]).expect("an option");
        let engine = Engine::new(config);
        let server = boot::listen(&engine, "127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let served = Served { engine, server };
        served.set_threshold("20");
        let (mut runner, mut other) = (served.open(), served.open());
        other.ask(&["DEBUG", "SET-DISABLE-DENY-SCRIPTS", "1"], "+OK\r\n");
        runner.0.write_all(batch.as_bytes()).expect("connected");
        other.until_busy();
        served.engine.config.assign(Opt::Maxclients, &[b"77"]).expect("a number");
        if *batch != within {
            other.ask(&["SCRIPT", "KILL"], "+OK\r\n");
        }
        for peer in [&mut other, &mut runner] {
            _ = peer.0.read_to_end(&mut Vec::new());
        }
        let reason = served.engine.failure().expect("the engine is over").to_owned();
        assert!(reason.contains("DEBUG PANIC asked for it"), "{reason}");
        served.server.stop();
    }
}

#[test]
fn what_stands_behind_one_lives_later_than_it() {
    let served = Served::new(1, "3600000");
    let mut runner = served.open();
    // The script returns the time of its start, and ends 50 ms later.
    let lasting = "local t = redis.call('time') local began = t[1] * 1000 + math.floor(t[2] / 1000) \
                   repeat t = redis.call('time') until t[1] * 1000 + t[2] / 1000 > began + 50 return began";
    for [before, behind] in [["", ""], ["MULTI\r\n", "EXEC\r\n"]] {
        let script = format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{lasting}\r\n$1\r\n0\r\n", lasting.len());
        let batch = [before, &script, behind, "SET k v PX 1000000\r\nPEXPIRETIME k\r\n"].concat();
        runner.0.write_all(batch.as_bytes()).expect("connected");
        let mut number = || loop {
            if let Some(number) = runner.line().strip_prefix(':') {
                return number.trim_end().parse::<i64>().expect("milliseconds");
            }
        };
        let (began_ms, ends_ms) = (number(), number());
        assert!(ends_ms >= began_ms + 1_000_050, "{began_ms} {ends_ms}");
    }
}
