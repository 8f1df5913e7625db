//! The programs of Redis's documents, on the embedded engine and over TCP: the client's examples as tests.
//!
//! A market where 64 buyers compete, login cookies, and logs that are counted by a process that is killed again and again. In
//! every case money and items are conserved and each line is counted once.

#[path = "../../crates/client/examples/marketplace/market.rs"]
mod market;
#[path = "../../crates/client/examples/logs/progress.rs"]
mod progress;
#[path = "../../crates/client/examples/cookies/sessions.rs"]
mod sessions;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use market::{Purchase, enrol, list_item, offers, purchase_item};
use progress::{LINES_MAX, process_logs};
use sessions::{VIEWED_MAX, check_token, clean_sessions, update_token, update_token_pipeline};
use sleeve::prelude::*;
use sleeve::{Client, RankRange};
use sleeve_tests::random::{Random, seed};
use sleeve_tests::{Kind, Server};

/// Runs `check` with clients of every place that a program may use.
fn everywhere(check: impl Fn(&Client)) {
    for (kind, arguments) in
        [(Kind::Sleeve, ["--workers", "1"].as_slice()), (Kind::Sleeve, &["--workers", "2"]), (Kind::Redis, &[])]
    {
        let server = Server::start_with(kind, arguments);
        check(&Client::connect(&format!("redis://{}", server.address())).expect("a connection"));
    }
    check(&Client::embedded());
}

#[test]
fn a_market_loses_neither_money_nor_items() {
    const BUYERS: i64 = 64;
    const PRICE: i64 = 10;
    everywhere(|client| {
        for seller in 0..4 {
            let items: Vec<String> = (0..6).map(|number| format!("item{seller}-{number}")).collect();
            let items: Vec<&str> = items.iter().map(String::as_str).collect();
            enrol(client, &format!("seller{seller}"), 0, &items).unwrap();
            assert_eq!(list_item(client, &format!("seller{seller}"), "something else", PRICE), Ok(false));
            for item in items {
                assert_eq!(list_item(client, &format!("seller{seller}"), item, PRICE), Ok(true));
                assert_eq!(list_item(client, &format!("seller{seller}"), item, PRICE), Ok(false));
            }
        }
        for buyer in 0..BUYERS {
            enrol(client, &format!("buyer{buyer}"), 2 * PRICE + 5, &[]).unwrap();
        }
        let bought: usize = thread::scope(|scope| {
            let buyers: Vec<_> = (0..BUYERS)
                .map(|buyer| {
                    let client = client.clone();
                    scope.spawn(move || compete(&client, &format!("buyer{buyer}")))
                })
                .collect();
            buyers.into_iter().map(|buyer| buyer.join().expect("a buyer")).sum()
        });
        assert_eq!(bought, 24);
        assert_eq!(offers(client), Ok(vec![]));
        assert_eq!(purchase_item(client, "buyer0", "item0-0", "seller0", PRICE), Ok(Purchase::Gone));
        let (mut money, mut items) = (0, Vec::new());
        for player in (0..4).map(|n| format!("seller{n}")).chain((0..BUYERS).map(|n| format!("buyer{n}"))) {
            let funds = client.hget::<i64>(format!("users:{player}"), "funds").wait().unwrap();
            assert!(funds >= 0, "{player} has {funds}");
            money += funds;
            items.extend(client.smembers::<Vec<String>>(format!("inventory:{player}")).wait().unwrap());
        }
        items.sort();
        let all: Vec<String> = (0..4).flat_map(|s| (0..6).map(move |n| format!("item{s}-{n}"))).collect();
        assert_eq!((money, items), (BUYERS * (2 * PRICE + 5), all));
    });
}

/// Buys until the market is empty or the money is spent. Returns the number of items.
fn compete(client: &Client, buyer: &str) -> usize {
    let mut bought = 0;
    loop {
        let offers = offers(client).expect("offers");
        let Some((item, seller, price)) = offers.first() else { return bought };
        assert_eq!(purchase_item(client, buyer, item, seller, price + 1), Ok(Purchase::Gone));
        match purchase_item(client, buyer, item, seller, *price).expect("an answer") {
            Purchase::Done => bought += 1,
            Purchase::Gone => {}
            Purchase::TooExpensive => return bought,
        }
    }
}

#[test]
fn login_cookies_are_the_same_by_both_ways() {
    everywhere(|client| {
        for update in [update_token, update_token_pipeline] {
            client.flushdb().wait().unwrap();
            for n in 0..40_u32 {
                let item = format!("item{n}");
                update(client, "token1", "ann", Some(&item), f64::from(n)).unwrap();
                update(client, &format!("guest{n}"), "guest", Some("item0"), 100.0 + f64::from(n)).unwrap();
            }
            update(client, "token2", "bob", None, 200.0).unwrap();
            assert_eq!(check_token(client, "token1"), Ok(Some("ann".into())));
            assert_eq!(check_token(client, "nobody"), Ok(None));
            let last: Vec<String> = (40 - VIEWED_MAX..40).map(|n| format!("item{n}")).collect();
            assert_eq!(client.zrange("viewed:token1", RankRange::by_rank(0, -1)).wait(), Ok(last));
            assert_eq!(client.zscore("viewed:", "item0").wait(), Ok(Some(-41.0)));
            assert_eq!(client.zrank("viewed:", "item0").wait(), Ok(Some(0)));
            assert_eq!(client.zcard("recent:").wait(), Ok(42));
            assert_eq!(clean_sessions(client, 10), Ok(32));
            assert_eq!(client.hlen("login:").wait(), Ok(10));
            assert_eq!(client.zcard("recent:").wait(), Ok(10));
            assert_eq!(client.exists(["viewed:token1", "viewed:guest0", "viewed:guest39"]).wait(), Ok(1));
            assert_eq!(clean_sessions(client, 10), Ok(0));
        }
    });
}

const FILES: usize = 5;
const LINES: usize = 1_950;
const WORDS: [&str; 4] = ["view", "buy", "login", "leave"];

/// Writes log files, and returns the expected counts.
fn logs(name: &str) -> (PathBuf, BTreeMap<String, i64>) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let mut counts = BTreeMap::new();
    for file in 0..FILES {
        let mut text = String::new();
        for line in 0..LINES {
            let word = WORDS[(file + line * line) % WORDS.len()];
            *counts.entry(format!("count:{word}")).or_default() += 1;
            text += &format!("{word} of line {line}\n");
        }
        fs::write(folder.join(format!("log.{file}")), text).expect("a file");
    }
    (folder, counts)
}

fn counted(client: &Client) -> BTreeMap<String, i64> {
    let names = client.keys::<Vec<String>>("count:*").wait().expect("keys");
    names.into_iter().map(|name| (name.clone(), client.get(&name).wait().expect("a count"))).collect()
}

#[test]
fn a_worker_that_dies_counts_each_line_once() {
    everywhere(|client| {
        let (folder, counts) = logs("logs-of-a-worker");
        let mut deaths = 0;
        // Each life is a little longer than the one before, and ends before or after a step of its own.
        while let Err(_death) = catch_unwind(AssertUnwindSafe(|| {
            let mut steps = 0;
            let step = || {
                steps += 1;
                if steps > deaths {
                    std::panic::resume_unwind(Box::new("death"));
                }
            };
            process_logs(client, &folder, step).expect("counted");
        })) {
            deaths += 1;
        }
        assert!(deaths > 5, "it died {deaths} times");
        assert_eq!(counted(client), counts);
        process_logs(client, &folder, || panic!("there is nothing left to count")).expect("counted");
    });
}

/// Counts in a process that is killed. Without its variables it does nothing, and is no test.
#[test]
fn count_as_a_child() {
    if let (Ok(url), Ok(folder)) = (std::env::var("PROGRAMS_URL"), std::env::var("PROGRAMS_FOLDER")) {
        let client = Client::connect(&url).expect("a connection");
        // The process waits for permission to go on, so that it is killed at a certain step.
        let step = || {
            println!("step");
            std::io::stdin().read_line(&mut String::new()).expect("a line, or the end");
        };
        process_logs(&client, Path::new(&folder), step).expect("counted");
    }
}

#[test]
fn a_killed_process_counts_each_line_once() {
    for (kind, arguments) in [(Kind::Sleeve, ["--workers", "2"].as_slice()), (Kind::Redis, &[])] {
        let (folder, counts) = logs("logs-of-a-process");
        let server = Server::start_with(kind, arguments);
        let url = format!("redis://{}", server.address());
        let client = Client::connect(&url).expect("a connection");
        let mut kills = 0;
        while !live(&url, &folder, 3 * kills + 1) {
            kills += 1;
        }
        assert!(kills > 3, "it was killed {kills} times");
        assert_eq!(counted(&client), counts);
        assert!(counts.values().sum::<i64>() > LINES_MAX as i64);
    }
}

#[test]
fn each_line_is_counted_once_by_a_server_after_kill_9() {
    for policy in ["always", "everysec", "no"] {
        let (folder, counts) = logs(&format!("logs-for-a-server-{policy}"));
        let arguments = ["--appendonly", "yes", "--appendfsync", policy, "--workers", "2"];
        let mut server = Server::start_with(Kind::Sleeve, &arguments);
        let client = Client::connect(&server.url()).expect("a connection");
        let (steps, due, is_done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let kills = thread::scope(|scope| {
            let killer = scope.spawn(|| {
                let (mut random, mut kills) = (Random::new(seed(11)), 0);
                loop {
                    // The process dies somewhere in the transaction after so many more steps, or around it.
                    let next = steps.load(Ordering::Relaxed) + random.below(25);
                    due.store(next, Ordering::Relaxed);
                    while steps.load(Ordering::Relaxed) < next && !is_done.load(Ordering::Relaxed) {
                        thread::yield_now();
                    }
                    if is_done.load(Ordering::Relaxed) {
                        return kills;
                    }
                    server.kill();
                    kills += 1;
                    server.restart().expect("it starts again");
                }
            });
            let step = || {
                let taken = steps.fetch_add(1, Ordering::Relaxed);
                // The process goes on while it is being killed, but does not run far ahead of the killer.
                while taken > due.load(Ordering::Relaxed) + 5 {
                    thread::yield_now();
                }
            };
            // Whether the last transaction was made is not known: the progress says so.
            while process_logs(&client, &folder, step).is_err() {}
            is_done.store(true, Ordering::Relaxed);
            killer.join().expect("the killer")
        });
        assert!(kills > 3, "it was killed {kills} times");
        assert_eq!(counted(&client), counts, "{policy}");
    }
}

/// Counts in a process of its own, which is killed after so many steps, at any point of its work. Returns whether it finished
/// before.
fn live(url: &str, folder: &Path, steps: usize) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "client::examples::count_as_a_child", "--nocapture"]);
    command.env("PROGRAMS_URL", url).env("PROGRAMS_FOLDER", folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut told = child.stdin.take().expect("its input");
    let mut seen = 0;
    for _step in lines.map_while(Result::ok).filter(|line| line.contains("step")) {
        seen += 1;
        if seen == steps {
            break;
        }
        told.write_all(b"\n").expect("it listens");
    }
    if seen == steps {
        child.kill().expect("killed");
    }
    let status = child.wait().expect("its end");
    assert!(seen == steps || status.success(), "the child failed by itself");
    seen < steps
}
