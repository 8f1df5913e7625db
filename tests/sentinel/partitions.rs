//! The same service on three nodes of a network that is cut again and again, at times around the primary alone, at times around
//! the primary and one of its replicas; the Sentinels are on the other side.
//!
//! Callers write on both sides, and are told when so many replicas have it. With the primary alone cut off, nothing is lost that
//! one replica had; with a replica beside it, nothing that two had. What one alone had there is lost, which shows that the test
//! would notice.

use std::io::{BufRead, BufReader, Read};
use std::process::ChildStdout;
use std::sync::Mutex;

use super::failovers::{SILENCE_MS, all_know, follows, lost};
use super::*;
use crate::persistence::ask;
use sleeve_tests::network::in_private;
use sleeve_tests::{Stops, soak};

const TEST: &str = "sentinel::partitions::no_write_is_lost_that_enough_replicas_have_while_the_network_is_cut";

/// What a caller beside the primary is started with: the URL and how many replicas it waits for.
const BESIDE: &str = "SLEEVE_CALLER_BESIDE";

/// Callers on the Sentinels' side.
const CALLERS: usize = 3;

/// Writes for as long as there is somebody to tell of each key that so many replicas have.
fn write(client: &Client, name: &str, replicas: usize, mut tell: impl FnMut(Option<String>) -> bool) {
    let mut number = 0_u64;
    loop {
        number += 1;
        let key = format!("{name}:{number}");
        let told = client.set(&key, 1).replicated(replicas).wait().is_ok();
        if !told {
            // Without a connection it fails at once.
            thread::sleep(Duration::from_millis(1));
        }
        if !tell(told.then_some(key)) {
            return;
        }
    }
}

/// A caller on the primary's node, in a process of its own, that writes until it is dropped.
struct Beside {
    child: Child,
    lines: BufReader<ChildStdout>,
    known: Vec<String>,
}

impl Beside {
    fn start(network: &Network, node: usize, server: &Server, replicas: usize) -> Self {
        let itself = std::env::current_exe().expect("the running test has a name");
        let mut command = network.place(node).command(&itself);
        command
            .args([TEST, "--exact", "--nocapture"])
            .env(BESIDE, format!("{}?command_timeout=200ms {replicas}", server.url()));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines, known: Vec::new() }
    }

    /// The other side of [`Beside::start`].
    fn run(job: &str) {
        let (url, replicas) = job.split_once(' ').expect("two words");
        let client = Client::connect(url).expect("the primary");
        let name = format!("beside:{}", std::process::id());
        write(&client, &name, replicas.parse().expect("a number"), |key| {
            println!("{}", key.as_deref().unwrap_or("-"));
            true
        });
    }

    /// Ends it; all keys that it was told of.
    fn end(mut self) -> Vec<String> {
        self.kill();
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).expect("text");
        let mut known = std::mem::take(&mut self.known);
        // The last line may be cut.
        let whole = rest.rsplit_once('\n').map_or("", |(whole, _)| whole);
        known.extend(whole.lines().filter(|line| line.starts_with("beside:")).map(str::to_owned));
        known
    }

    fn kill(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for what it says of its next writes, until this holds of a key that it was told of, or of none.
    fn until(&mut self, mut holds: impl FnMut(Option<&str>) -> bool) {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).expect("it speaks"), 0, "it has ended");
            let key = line.strip_prefix("beside:").map(|_| line.trim_end().to_owned());
            self.known.extend(key.clone());
            if (key.is_some() || line == "-\n") && holds(key.as_deref()) {
                return;
            }
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Cuts the primary off, with a replica if the round is an odd one, until another has taken its place; what callers were told
/// meanwhile is there afterwards. How long a client waited for its first answer behind the switch.
fn cut(house: &House, network: &Network, client: &Client, round: usize) -> (Duration, usize) {
    let pair = round % 2 == 1;
    let replicas = if pair { 2 } else { 1 };
    let old = house.sentinels[0].primary().expect("a primary");
    let at = house.servers.iter().position(|server| server.port() == old).expect("one of ours");
    let cut: Vec<usize> = if pair { vec![at, (at + 1) % 3] } else { vec![at] };
    let (told, stops) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let count = || told.lock().expect("nobody panics with it").len();
    let more = |of: usize| until("something is acknowledged", || (count() > of + 100).then_some(()));
    let mut beside = Beside::start(network, at, &house.servers[at], replicas);
    let mut careless = pair.then(|| Beside::start(network, at, &house.servers[at], 1));
    let (mut recovered, mut new) = (Duration::ZERO, 0);
    thread::scope(|threads| {
        let _stops = Stops(&stops);
        for caller in 0..CALLERS {
            let (told, stops) = (&told, &stops);
            threads.spawn(move || {
                write(client, &format!("{round}:{caller}"), replicas, |key| {
                    told.lock().expect("nobody panics with it").extend(key);
                    !stops.load(Ordering::Relaxed)
                });
            });
        }
        more(0);
        beside.until(|key| key.is_some());
        network.cut_off(&cut);
        new = house.wait_for_switch(0, old);
        let since = Instant::now();
        until("a client is answered", || client.set("after", 1).wait().ok());
        recovered = since.elapsed();
        // Whoever is alone with the old primary is told that its replicas are not there.
        beside.until(|key| key.is_none());
        if let Some(careless) = &mut careless {
            let mut more = 0;
            careless.until(|key| {
                more += usize::from(key.is_some());
                more > 100
            });
        } else {
            let follower = house.servers.iter().find(|server| ![old, new].contains(&server.port())).expect("a third");
            until("the other follows the new primary", || follows(follower, new).then_some(()));
            more(count());
        }
        network.cut_off(&[]);
        let primary = house.server(new);
        for server in cut.iter().map(|&node| &house.servers[node]) {
            // Neighbours that were not there are asked for again a little later.
            let mut connection = until("it is joined again", || server.try_connect().ok());
            let words = ["REPLICAOF", &primary.host().to_string(), &new.to_string()];
            assert!(ask(&mut connection, &words).starts_with("+OK"));
            until("it follows the new primary", || follows(server, new).then_some(()));
        }
        more(count());
    });
    all_know(house, new);
    let mut known = told.into_inner().expect("nobody has panicked with it");
    known.append(&mut beside.end());
    let missing = lost(house.server(new), &known);
    assert!(missing.is_empty(), "{} of {} are not there: {missing:?}", missing.len(), known.len());
    if let Some(careless) = careless {
        let missing = lost(house.server(new), &careless.end());
        assert!(!missing.is_empty(), "what one replica had is lost with it, and that was not noticed");
    }
    println!("cut {round}: {} writes acknowledged, answered {recovered:?} behind the switch", known.len());
    (recovered, known.len())
}

#[test]
fn no_write_is_lost_that_enough_replicas_have_while_the_network_is_cut() {
    in_private(TEST, || {
        if let Ok(job) = std::env::var(BESIDE) {
            return Beside::run(&job);
        }
        let network = Network::new(3);
        let house = House::build_of(Kind::Sleeve, SILENCE_MS, Some(&network));
        let client = house.client(3);
        let rounds = (0..soak::count(2)).map(|round| cut(&house, &network, &client, round));
        let (mut recovered, known): (Vec<_>, Vec<_>) = rounds.unzip();
        recovered.sort_unstable();
        println!(
            "{} cuts, {} writes acknowledged; a client was answered {:?} behind the switch at the median, {:?} at the most",
            recovered.len(),
            known.iter().sum::<usize>(),
            recovered[recovered.len() / 2],
            recovered[recovered.len() - 1]
        );
    });
}
