//! Reads on a replica see a former state of its primary: a prefix of the primary's order that never goes back, with
//! transactions and scripts whole.
//!
//! Clients write to the primary, by single commands, transactions and scripts, on keys of two databases; at the same time
//! others read all of these keys at once on the replica, and its link is cut now and then. A shared clock says when each call
//! began and ended. So many changes are a history, and a checker (`linearizable/checker`) looks for an order that explains
//! both sides. If two reads of a history are exchanged the same checker must find that there is none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_tests::connection::request;
use sleeve_tests::random::{Random, seed};
use sleeve_tests::transcript::frame::children;
use sleeve_tests::{Connection, Kind, Server, soak};

use crate::concurrency::linearizable::checker::{Call, is_linearizable};
use crate::concurrency::linearizable::model::Command;
use crate::replication::replica::{caught_up, follow, replica};

/// The number of clients that write.
const WRITERS: u64 = 3;

/// The number of clients that read on the replica.
const READERS: u64 = 2;

/// The number of histories that are checked together.
const HISTORIES: u64 = 1_000;

/// The number of calls in a history that write.
const WRITES: u64 = 20;

/// The number of histories after which the link is cut.
const CUT_EVERY: u64 = 400;

/// The maximum number of reads that a reader notes in one history.
const READS_MAX: usize = 15;

/// The number of databases with keys.
const DATABASES: usize = 2;

/// The number of keys of a history: a number, a text and a list in each database.
const KEYS: usize = 3 * DATABASES;

/// Runs commands, each given as the number of its words, its database and the words, and returns their replies.
const SCRIPT: &str = "local replies, at = {}, 1 while ARGV[at] do local words = {} redis.call('SELECT', ARGV[at + 1]) \
    for i = 1, tonumber(ARGV[at]) do words[i] = ARGV[at + 1 + i] end replies[#replies + 1] = redis.call(unpack(words)) \
    at = at + 2 + #words end return replies";

/// Commands with their keys, done at one instant.
type Commands = Vec<(usize, Command)>;

/// The form in which reads are sent.
#[derive(Debug, Clone, Copy)]
enum Form {
    Single,
    MGet,
    Transaction,
    Script,
}

/// The ways to read all keys of a history.
const WHOLE: [Form; 2] = [Form::Transaction, Form::Script];

/// The clock and the counters that all clients share.
#[derive(Debug, Default)]
struct Clock {
    /// The number of beginnings and ends of calls so far.
    ticks: AtomicU64,
    /// The number of calls that write.
    writes: AtomicU64,
}

impl Clock {
    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }
}

/// A connection, and the source of its client's choices.
struct Client<'h> {
    connection: Connection,
    random: Random,
    clock: &'h Clock,
    name: u64,
}

impl Client<'_> {
    /// Makes one call in a history, and notes its times; returns none if it was refused.
    fn call(&mut self, (history, begin): (u64, u64), form: Form, commands: Commands) -> Option<Call> {
        let words: Vec<Vec<String>> =
            commands.iter().map(|(key, command)| command.words(&format!("{}:{history}:{key}", self.name))).collect();
        let select = |key: usize| request(&["SELECT", &database(key).to_string()]);
        let parts = match form {
            Form::Single => self.exchange(&[select(commands[0].0), request(&words[0])]).into_iter().skip(1).collect(),
            Form::MGet => {
                let keys = words.iter().map(|words| words[1].as_str());
                let get = request(&["MGET"].into_iter().chain(keys).collect::<Vec<_>>());
                array(self.exchange(&[select(commands[0].0), get]).pop())
            }
            Form::Transaction => {
                let mut requests = vec![request(&["MULTI"])];
                for ((key, _), words) in commands.iter().zip(&words) {
                    requests.extend([select(*key), request(words)]);
                }
                requests.push(request(&["EXEC"]));
                array(self.exchange(&requests).pop()).into_iter().skip(1).step_by(2).collect()
            }
            Form::Script => {
                let mut eval = vec!["EVAL".to_owned(), SCRIPT.to_owned(), "0".to_owned()];
                for ((key, _), words) in commands.iter().zip(&words) {
                    eval.extend([words.len().to_string(), database(*key).to_string()]);
                    eval.extend_from_slice(words);
                }
                array(self.exchange(&[request(&eval)]).pop())
            }
        };
        let end = self.clock.tick();
        let replies: Vec<String> =
            parts.iter().map(|reply: &Vec<u8>| String::from_utf8_lossy(reply).into_owned()).collect();
        let is_done = replies.len() == commands.len() && !replies.iter().any(|reply| reply.starts_with('-'));
        is_done.then_some(Call { commands, replies, begin, end, on_replica: false })
    }

    fn exchange(&mut self, requests: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.connection.send(&requests.concat()).expect("the server is there");
        requests.iter().map(|_| self.connection.reply().expect("the server answers")).collect()
    }
}

/// Returns the elements of an array, as they came; none if the reply is an error.
fn array(reply: Option<Vec<u8>>) -> Vec<Vec<u8>> {
    let reply = reply.unwrap_or_default();
    children(&reply).unwrap_or_default().into_iter().map(<[u8]>::to_vec).collect()
}

fn database(key: usize) -> usize {
    key / (KEYS / DATABASES)
}

/// Returns a change to one of the keys. `unique` is a number that no other change has.
fn change(random: &mut Random, unique: u64) -> (usize, Command) {
    let (key, unique) = (random.below(KEYS), unique.cast_signed());
    let command = match (key % 3, random.below(4)) {
        (0 | 1, 0) => Command::Set(unique),
        (0, _) => Command::Incr,
        (1, _) => Command::Append(random.bits().to_le_bytes()[0] % 10),
        (_, 0) => Command::RPop,
        _ => Command::LPush(unique),
    };
    (key, command)
}

/// Makes calls that write, until there are enough histories; one of the writers also cuts the link.
fn write(mut client: Client<'_>, (count, cuts): (u64, bool)) -> Vec<(u64, Call)> {
    let (mut calls, mut next_cut) = (Vec::new(), CUT_EVERY / 2);
    loop {
        let history = client.clock.writes.fetch_add(1, Ordering::SeqCst) / WRITES;
        let begin = client.clock.tick();
        if history >= count {
            return calls;
        }
        if cuts && history >= next_cut {
            next_cut += CUT_EVERY;
            client.exchange(&[request(&["CLIENT", "KILL", "TYPE", "replica"])]);
        }
        let form = *client.random.pick(&[Form::Single, Form::Single, Form::Transaction, Form::Script]);
        let changes = if matches!(form, Form::Single) { 1 } else { 2 + client.random.below(3) };
        let commands: Commands = (0..changes).map(|_| change(&mut client.random, begin)).collect();
        let call = client.call((history, begin), form, commands);
        calls.push((history, call.expect("the primary takes it")));
        if client.random.once_in(2) {
            // Without this wait, the primary may have written many histories before the replica has time to apply one.
            client.exchange(&[request(&["WAIT", "1", "100"])]);
        }
    }
}

/// The position of a reader in the order of the histories.
#[derive(Debug)]
struct Place {
    history: u64,
    /// The number of noted reads of that history.
    reads: usize,
    /// The number of histories by which the reader now and then looks ahead, to see whether the replica has come that far.
    stride: u64,
}

/// Reads on the replica, until there are enough histories: preferably the keys that change there at the moment. Reads that
/// show that the replica has not reached a history yet are not noted.
fn read(mut client: Client<'_>, count: u64) -> Vec<(u64, Call)> {
    let (mut calls, mut place) = (Vec::new(), Place { history: 0, reads: 0, stride: 1 });
    loop {
        let newest = client.clock.writes.load(Ordering::SeqCst) / WRITES;
        let begin = client.clock.tick();
        if newest >= count {
            return calls;
        }
        let looks_ahead = place.reads > 0 && client.random.once_in(3);
        let history = if looks_ahead { (place.history + place.stride).min(newest) } else { place.history };
        let forms: &[Form] = if place.reads == 0 || looks_ahead { &WHOLE } else { &[Form::MGet, WHOLE[0], WHOLE[1]] };
        let form = *client.random.pick(forms);
        let look = |key: usize| (key, if key % 3 == 2 { Command::LRange } else { Command::Get });
        let keys = if matches!(form, Form::MGet) { 0..2 } else { 0..KEYS };
        // During a full sync the replica refuses reads.
        let Some(call) = client.call((history, begin), form, keys.map(look).collect()) else { continue };
        let is_empty = call.replies.iter().all(|reply| reply == "$-1\r\n" || reply == "*0\r\n");
        if history != place.history {
            place.stride = if is_empty { 1 } else { place.stride * 2 };
            if is_empty {
                continue;
            }
            (place.history, place.reads) = (history, 0);
        }
        if place.reads > 0 || !is_empty {
            place.reads += 1;
            calls.push((history, Call { on_replica: true, ..call }));
        }
        if place.reads == READS_MAX {
            place = Place { history: history + 1, reads: 0, stride: 1 };
        }
    }
}

/// Returns the histories of clients that write to a primary of this kind while others read on its replica, a Sleeve.
fn histories(kind: Kind, name: u64, count: u64) -> Vec<Vec<Call>> {
    let workers: &[&str] = if kind == Kind::Sleeve { &["--workers", "2"] } else { &[] };
    let primary = Server::start_with(kind, &[&["--repl-diskless-sync-delay", "0"], workers].concat());
    let replica = replica(&["--workers", "2"]);
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    let clock = Clock::default();
    let client = |server: &Server, number: u64| {
        let random = Random::new(name.wrapping_mul(WRITERS + READERS).wrapping_add(number));
        Client { connection: server.connect(), random, clock: &clock, name }
    };
    let mut histories = vec![Vec::new(); usize::try_from(count).expect("it is small")];
    thread::scope(|scope| {
        let writers = (0..WRITERS).map(|number| {
            let client = client(&primary, number);
            scope.spawn(move || write(client, (count, number == 0)))
        });
        let readers = (WRITERS..WRITERS + READERS).map(|number| {
            let client = client(&replica, number);
            scope.spawn(move || read(client, count))
        });
        for thread in writers.chain(readers).collect::<Vec<_>>() {
            for (history, call) in thread.join().expect("a client does not fail") {
                histories[usize::try_from(history).expect("it is small")].push(call);
            }
        }
    });
    histories
}

/// Returns whether the replica has shown more than one state.
fn is_seen_changing(history: &[Call]) -> bool {
    let whole: Vec<&Call> = history.iter().filter(|call| call.on_replica && call.commands.len() == KEYS).collect();
    whole.iter().any(|call| call.replies != whole[0].replies)
}

/// Checks histories, round after round with other seeds, for as long as a soak wants; once by default.
fn look(kind: Kind, first_seed: u64) {
    let began = Instant::now();
    for seed in first_seed.. {
        let histories = histories(kind, seed, HISTORIES);
        let changing = histories.iter().filter(|history| is_seen_changing(history)).count();
        println!("{} histories with {}, the replica is seen to change in {changing}", histories.len(), kind.name());
        let wrong: Vec<_> = histories.iter().filter(|history| !is_linearizable(history)).collect();
        assert!(wrong.is_empty(), "seed {seed}: {} histories have no order, such as {:#?}", wrong.len(), wrong[0]);
        assert!(changing > 0, "nothing was seen");
        if began.elapsed() >= soak::duration(Duration::ZERO) {
            break;
        }
    }
}

#[test]
fn a_replica_of_a_sleeve_shows_prefixes_of_its_order() {
    look(Kind::Sleeve, seed(1));
}

#[test]
fn a_replica_of_a_redis_7_shows_prefixes_of_its_order() {
    look(Kind::Redis, seed(2));
}

/// Exchanges the values of two reads, one of which ended before the other began; returns false if no two reads differ.
fn plant(history: &mut [Call]) -> bool {
    let whole = |call: &Call| call.on_replica && call.commands.len() == KEYS;
    let mut pairs = (0..history.len()).flat_map(|one| (0..history.len()).map(move |other| (one, other)));
    let found = pairs.find(|&(one, other)| {
        let (one, other) = (&history[one], &history[other]);
        whole(one) && whole(other) && one.end < other.begin && one.replies != other.replies
    });
    let Some((one, other)) = found else { return false };
    let seen = std::mem::take(&mut history[one].replies);
    history[one].replies = std::mem::replace(&mut history[other].replies, seen);
    true
}

#[test]
fn reads_in_a_wrong_order_are_found() {
    let mut histories = histories(Kind::Sleeve, seed(3), HISTORIES / 4);
    histories.retain_mut(|history| plant(history));
    let found = histories.iter().filter(|history| !is_linearizable(history)).count();
    println!("found in {found} of {} histories", histories.len());
    // Two writes that were under way at the same time may have come in either order.
    assert!(found > 0 && found * 2 > histories.len(), "only {found} of {}", histories.len());
}
