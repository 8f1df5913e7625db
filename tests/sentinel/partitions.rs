//! The service of `failovers` on three nodes of a network that is cut again and again, at times around the primary alone, at
//! times around the primary and one of its replicas; the Sentinels are on the other side.
//!
//! Callers write on both sides, and learn when so many replicas have a write. With the primary alone cut off, the service
//! loses no write that one replica had; with a replica beside it, it loses no write that two had. It does lose writes that
//! one replica alone had there, which shows that the test would notice.

use std::sync::Mutex;

use super::failovers::{SILENCE_MS, all_know, follows, lost, make_follow};
use super::*;
use crate::cluster::remote_caller::{self, Beside};
use sleeve_tests::network::in_private;
use sleeve_tests::{Stops, soak};

const TEST: &str = "sentinel::partitions::no_write_is_lost_that_enough_replicas_have_while_the_network_is_cut";

/// The number of callers on the Sentinels' side.
const CALLERS: usize = 3;

/// Writes a key; returns whether so many replicas have it.
fn put(client: &Client, key: &str, replicas: usize) -> bool {
    client.set(key, 1).replicated(replicas).wait().is_ok()
}

/// Starts a caller on the primary's node that waits for so many replicas.
fn beside(network: &Network, node: usize, server: &Server, replicas: usize) -> Beside {
    Beside::start(network, node, TEST, &format!("{}?command_timeout=200ms {replicas}", server.url()))
}

/// The life of such a caller.
fn run_beside(job: &str) {
    let (url, replicas) = job.split_once(' ').expect("two words");
    let client = Client::connect(url).expect("the primary");
    let replicas = replicas.parse().expect("a number");
    remote_caller::run("", |key| put(&client, key, replicas));
}

/// Cuts the primary off, in odd rounds with a replica, until another has taken its place, and checks the acknowledged writes
/// afterwards. Returns the time from the switch to a client's first answer.
fn cut(house: &House, network: &Network, client: &Client, round: usize) -> (Duration, usize) {
    let pair = round % 2 == 1;
    let replicas = if pair { 2 } else { 1 };
    let old = house.sentinels[0].primary().expect("a primary");
    let at = house.servers.iter().position(|server| server.port() == old).expect("one of ours");
    let cut: Vec<usize> = if pair { vec![at, (at + 1) % 3] } else { vec![at] };
    let (told, stops) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let count = || told.lock().expect("nobody panics with it").len();
    let more = |of: usize| until("something is acknowledged", || (count() > of + 100).then_some(()));
    let mut near = beside(network, at, &house.servers[at], replicas);
    let mut careless = pair.then(|| beside(network, at, &house.servers[at], 1));
    let (mut recovered, mut new) = (Duration::ZERO, 0);
    thread::scope(|threads| {
        let _stops = Stops(&stops);
        for caller in 0..CALLERS {
            let (told, stops) = (&told, &stops);
            threads.spawn(move || {
                remote_caller::write(
                    &format!("{round}:{caller}"),
                    |key| put(client, key, replicas),
                    |key| {
                        told.lock().expect("nobody panics with it").extend(key);
                        !stops.load(Ordering::Relaxed)
                    },
                );
            });
        }
        more(0);
        near.until(|key| key.is_some());
        network.cut_off(&cut);
        new = house.wait_for_switch(0, old);
        let since = Instant::now();
        until("a client is answered", || client.set("after", 1).wait().ok());
        recovered = since.elapsed();
        // A caller that is alone with the old primary learns that its replicas are unreachable.
        near.until(|key| key.is_none());
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
            // The kernel resolves neighbours that were unreachable again a little later.
            make_follow(server, primary);
            until("it follows the new primary", || follows(server, new).then_some(()));
        }
        more(count());
    });
    all_know(house, new);
    let mut known = told.into_inner().expect("nobody has panicked with it");
    known.append(&mut near.end());
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
        if let Some(job) = remote_caller::job() {
            return run_beside(&job);
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
