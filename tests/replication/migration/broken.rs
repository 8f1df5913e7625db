//! Migrations that are refused or fail, and the state afterwards: the old primary takes writes, and the other server's state
//! is reported.

use std::io::{BufRead, BufReader};

use super::rationed::Rationed;
use super::*;

/// Checks that the migration has ended with this code and these words, and that FROM takes writes.
fn ends(output: &Output, code: i32, words: &[&str], from: &Server) {
    let said = text(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}\n{said}");
    }
    assert_eq!(info(from, "role"), "master", "{said}");
    assert_eq!(ask(&mut from.connect(), &["SET", "afterwards", "1"]), "+OK\r\n", "{said}");
}

/// The number of bytes of a dump that pass before it is held up.
const PART: u64 = 200_000;

/// Starts a server with a dump of many pieces, behind a relay that lets through a few.
fn large(kind: Kind) -> (Server, Rationed) {
    let server = primary(kind, &["--rdbcompression", "no"]);
    let mut connection = server.connect();
    for number in 0..20 {
        assert_eq!(ask(&mut connection, &["SET", &format!("large:{number}"), &"x".repeat(100_000)]), "+OK\r\n");
    }
    let relay = Rationed::before(server.address(), PART);
    (server, relay)
}

/// Starts a server that follows another through a relay that lets nothing through any more, and lacks some writes.
fn lagging(kind: Kind, old: &Server) -> (Server, Rationed) {
    let (new, relay) = (primary(kind, &[]), Rationed::before(old.address(), u64::MAX));
    let address = relay.address();
    let (host, port) = address.split_once(':').expect("a host and a port");
    assert_eq!(ask(&mut old.connect(), &["SET", "a", "1"]), "+OK\r\n");
    assert_eq!(ask(&mut new.connect(), &["REPLICAOF", host, port]), "+OK\r\n");
    caught_up(&new, old);
    relay.allow(0);
    assert_eq!(ask(&mut old.connect(), &["SET", "a", "2"]), "+OK\r\n");
    (new, relay)
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

#[test]
fn impossible_migrations_are_refused_and_change_nothing() {
    let (old, new) = (primary(Kind::Redis, &[]), primary(Kind::Sleeve, &[]));
    assert_eq!(ask(&mut old.connect(), &["SET", "a", "1"]), "+OK\r\n");
    ends(&migrate(&old, &old, &[]), 1, &["the same server", "Nothing was changed"], &old);
    assert_eq!(ask(&mut new.connect(), &["SET", "b", "1"]), "+OK\r\n");
    ends(&migrate(&old, &new, &[]), 1, &["TO (127.0.0.1:", "has data (keys: 1): --replace says"], &old);
    assert_eq!(ask(&mut new.connect(), &["DEL", "b"]), ":1\r\n");
    let few = primary(Kind::Sleeve, &["--databases", "4"]);
    let mut last = old.connect();
    assert_eq!(ask(&mut last, &["SELECT", "15"]), "+OK\r\n");
    assert_eq!(ask(&mut last, &["SET", "a", "1"]), "+OK\r\n");
    ends(&migrate(&old, &few, &[]), 1, &["uses database 15", "has 4 of them"], &old);
    let follower = replica(Kind::Sleeve, &old, &[]);
    caught_up(&follower, &old);
    ends(&migrate(&follower, &new, &[]), 1, &["is a replica: give its primary"], &old);
    ends(&migrate(&new, &follower, &[]), 1, &["follows 127.0.0.1:", "--replace says"], &old);
    let valkey = primary(Kind::Valkey, &[]);
    ends(&migrate(&old, &valkey, &[]), 1, &["no way back: --one-way"], &old);
    ends(&migrate(&valkey, &old, &["--one-way", "--replace"]), 1, &["does not load what", "a Sleeve in between"], &old);
    let output = command(&old.url(), "unix:///nowhere", &[]).output().expect("it runs");
    ends(&output, 1, &["replicas connect by TCP"], &old);
    let output = command(&old.url(), "redis://127.0.0.1:1", &[]).output().expect("it runs");
    ends(&output, 1, &["TO at 127.0.0.1:1", "Nothing was changed"], &old);
    for server in [&new, &few, &valkey] {
        assert_eq!((info(server, "role"), info(server, "connected_slaves")), ("master".into(), "0".into()));
    }
}

#[test]
fn a_dry_run_prints_the_steps() {
    let (old, new) = (primary(Kind::Valkey, &["--appendonly", "yes"]), primary(Kind::Sleeve, &["--requirepass", "x"]));
    let to = format!("redis://:x@127.0.0.1:{}", new.port());
    let output = command(&old.url(), &to, &["--dry-run"]).output().expect("it runs");
    ends(
        &output,
        0,
        &["would have TO", "would set masterauth of FROM", "would hand over by FAILOVER", "note: FROM saves"],
        &old,
    );
    assert_eq!(info(&old, "connected_slaves"), "0");
    assert_eq!(option(&old, "masterauth"), "");
}

#[test]
fn a_server_out_of_reach_of_the_other_is_reported() {
    let (old, new) = (primary(Kind::Redis, &[]), primary(Kind::Sleeve, &[]));
    // No server listens there.
    let output = migrate(&old, &new, &["--from-address", "127.0.0.1:1", "--patience", "1"]);
    let words = ["link: TO connects", "gets no link to FROM", "--from-address", "not all that FROM has (keys: 0)"];
    ends(&output, 1, &words, &old);
    assert_eq!(info(&new, "role"), "master");
    migrates(&old, &new, &[]);
}

#[test]
fn a_sentinel_that_watches_is_noted() {
    let (old, new) = (primary(Kind::Redis, &[]), primary(Kind::Sleeve, &[]));
    let mut sentinel = old.connect();
    assert_eq!(ask(&mut sentinel, &["CLIENT", "SETNAME", "sentinel-0123abcd-cmd"]), "+OK\r\n");
    ends(&migrate(&old, &new, &["--dry-run"]), 0, &["note: a Sentinel watches FROM"], &old);
}

/// Returns the output of the migration, line by line.
fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().expect("it is read")).lines().map(|line| line.expect("text"))
}

/// Ends the link of the one replica.
fn cut(old: &Server) {
    assert_eq!(ask(&mut old.connect(), &["CLIENT", "KILL", "TYPE", "replica"]), ":1\r\n");
    wait_until("the end of the link", || info(old, "connected_slaves") == "0");
}

#[test]
fn a_link_that_is_cut_before_or_while_it_catches_up_costs_nothing() {
    for is_cut_before in [true, false] {
        let old = primary(Kind::Redis, &[]);
        let (new, relay) = lagging(Kind::Sleeve, &old);
        // The value is larger than the lag at which writers are held.
        assert_eq!(ask(&mut old.connect(), &["SET", "large", &"x".repeat(3_000_000)]), "+OK\r\n");
        if is_cut_before {
            cut(&old);
        }
        let mut child = spawn(&old, &new, &["--from-address", &relay.address()]);
        let mut lines = lines(&mut child);
        assert!(lines.any(|line| line.contains("TO follows FROM already")));
        if !is_cut_before {
            assert!(lines.any(|line| line.starts_with("lag:")), "it catches up");
            cut(&old);
        }
        relay.allow(u64::MAX);
        assert!(lines.any(|line| line.contains("is the primary now")), "it goes on");
        assert!(child.wait().expect("it ends").success());
        assert_eq!(ask(&mut new.connect(), &["STRLEN", "large"]), ":3000000\r\n");
        assert_same(&old, &new);
        assert_eq!(info(&old, "sync_full"), "1");
    }
}

#[test]
fn data_that_the_old_server_cannot_load_goes_one_way_if_allowed() {
    let (old, new) = (primary(Kind::Redis, &[]), primary(Kind::Valkey, &[]));
    fill(&old);
    let load = Load::on(&[&old, &new]);
    load.around(&new, || {
        let said = migrates(&old, &new, &["--one-way"]);
        assert!(said.contains("FROM cannot load a dump of TO"), "{said}");
    });
    caught_up(&old, &new);
}

#[test]
fn one_that_does_not_catch_up_leaves_the_role_where_it_was() {
    for kind in [Kind::Sleeve, Kind::Redis] {
        let old = primary(kind, &["--replica-read-only", "no"]);
        let (new, relay) = lagging(Kind::Sleeve, &old);
        let output = migrate(&old, &new, &["--pause", "100", "--attempts", "2"]);
        let words =
            ["attempt 1: writers were held", "attempt 2:", "did not catch up within", "follows FROM, as before"];
        ends(&output, 1, &words, &old);
        assert_eq!(info(&old, "master_failover_state"), "no-failover");
        assert_eq!(option(&old, "replica-read-only"), "no", "it was put back");
        relay.allow(u64::MAX);
        assert_same(&new, &old);
        assert_eq!(info(&old, "sync_full"), "1");
        // The server's own data would be lost if it became a replica.
        let said = migrates(&old, &new, &[]);
        assert!(said.contains("replica-read-only of FROM was set"), "{said}");
        assert!(ask(&mut old.connect(), &["SET", "a", "3"]).starts_with("-READONLY"), "{said}");
    }
}

/// Starts a migration, and waits until a part of the dump has passed; the relay lets no more bytes through.
fn amid_the_dump(old: &Server, new: &Server, relay: &Rationed, patience: &str) -> Child {
    let child = spawn(old, new, &["--from-address", &relay.address(), "--one-way", "--patience", patience]);
    wait_until("a part of the dump", || relay.passed() >= PART);
    child
}

#[test]
fn ctrl_c_amid_the_dump_ends_it_in_order() {
    for kind in [Kind::Sleeve, Kind::Redis, Kind::Valkey] {
        let ((old, relay), new) = (large(Kind::Redis), primary(kind, &[]));
        assert_eq!(ask(&mut new.connect(), &["CONFIG", "SET", "masterauth", "before"]), "+OK\r\n");
        // Valkey takes its time to give up a dump that does not come.
        let child = amid_the_dump(&old, &new, &relay, "30");
        interrupt(&child);
        let output = child.wait_with_output().expect("it ends");
        ends(&output, 130, &["takes writes, as before", "follows nobody", "not all that FROM has"], &old);
        assert_eq!(info(&new, "role"), "master");
        assert_eq!(option(&new, "masterauth"), "before");
        // The migration can be repeated.
        relay.allow(u64::MAX);
        migrates(&old, &new, &["--replace", "--one-way"]);
    }
}

#[test]
fn a_new_server_that_dies_amid_the_dump_changes_nothing() {
    let ((old, relay), mut new) = (large(Kind::Redis), primary(Kind::Sleeve, &[]));
    let child = amid_the_dump(&old, &new, &relay, "2");
    new.kill();
    let output = child.wait_with_output().expect("it ends");
    ends(&output, 1, &["TO at 127.0.0.1:", "takes writes, as before", "may still follow FROM"], &old);
}

#[test]
fn the_death_of_an_old_primary_amid_the_dump_is_reported() {
    let ((mut old, relay), new) = (large(Kind::Redis), primary(Kind::Sleeve, &[]));
    let child = amid_the_dump(&old, &new, &relay, "2");
    old.kill();
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("FROM at 127.0.0.1:") && said.contains("follows nobody"), "{said}");
    assert_eq!(info(&new, "role"), "master");
}

/// Starts a migration, and waits until writers are held.
fn amid_the_hand_over(old: &Server, new: &Server, pause: &str) -> Child {
    let child = spawn(old, new, &["--pause", pause, "--patience", "2"]);
    wait_until("writers are held", || info(old, "master_failover_state") == "waiting-for-sync");
    child
}

#[test]
fn an_old_primary_killed_amid_the_handover_leaves_the_new_one_unchanged() {
    let mut old = primary(Kind::Sleeve, &[]);
    let (new, _relay) = lagging(Kind::Redis, &old);
    let child = amid_the_hand_over(&old, &new, "60000");
    old.kill();
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("still follows FROM, and has everything up to offset"), "{said}");
    assert_eq!(ask(&mut new.connect(), &["GET", "a"]), "$1\r\n1\r\n");
}

#[test]
fn ctrl_c_while_it_catches_up_says_how_far_it_came() {
    // An attempt closes the link, so the link may be down when Ctrl-C is noticed, and the report says so. That rarely happens
    // many times in a row.
    let has_all = std::iter::repeat_with(|| {
        let (old, new) = (primary(Kind::Valkey, &[]), primary(Kind::Sleeve, &[]));
        let relay = Rationed::before(old.address(), u64::MAX);
        assert_eq!(ask(&mut old.connect(), &["SET", "a", "1"]), "+OK\r\n");
        // The role cannot be handed to a server at a wrong announced address.
        assert_eq!(ask(&mut new.connect(), &["CONFIG", "SET", "replica-announce-port", "1"]), "+OK\r\n");
        let child = spawn(&old, &new, &["--from-address", &relay.address(), "--pause", "100", "--attempts", "100000"]);
        wait_until("it tries", || old.log().contains("FAILOVER requested to"));
        interrupt(&child);
        let output = child.wait_with_output().expect("it ends");
        ends(&output, 130, &["follows nobody", "(keys: 1)", "takes writes, as before"], &old);
        let said = text(&output);
        let has_all = said.contains("what FROM had at offset");
        assert!(has_all || said.contains("not all that FROM has"), "{said}");
        has_all
    });
    assert!(has_all.take(20).any(|has_all| has_all), "twenty times in a row it had not all");
}

#[test]
fn an_answer_that_is_late_takes_the_role_back() {
    // The new server's replies before that to FAILOVER itself: +PONG, and two times +OK.
    for (passes, is_asked) in [(0, false), (17, true)] {
        let (old, new) = (primary(Kind::Redis, &[]), primary(Kind::Sleeve, &[]));
        let relay = Rationed::before(new.address(), passes);
        let port = relay.address().split_off("127.0.0.1:".len());
        assert_eq!(ask(&mut new.connect(), &["CONFIG", "SET", "replica-announce-port", &port]), "+OK\r\n");
        let id = info(&new, "master_replid");
        let output = migrate(&old, &new, &["--pause", "300", "--attempts", "2"]);
        let words = ["attempt 2: writers were held", "takes writes, as before", "follows nobody"];
        ends(&output, 1, &words, &old);
        assert_ne!(info(&new, "master_replid"), id);
        let was_asked = new.log().contains("failover request");
        assert_eq!(was_asked, is_asked, "{}", new.log());
        assert_eq!(old.log().matches("FAILOVER requested to").count(), 2, "{}", old.log());
        relay.allow(u64::MAX);
        migrates(&old, &new, &["--replace"]);
    }
}

#[test]
fn ctrl_c_while_writers_are_held_waits_for_the_end_of_the_pause() {
    let old = primary(Kind::Valkey, &[]);
    let (new, _relay) = lagging(Kind::Sleeve, &old);
    let child = amid_the_hand_over(&old, &new, "1000");
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    ends(&output, 130, &["attempt 1: writers were held", "takes writes, as before", "follows FROM, as before"], &old);
}

#[test]
fn a_migration_that_is_killed_while_writers_are_held_lets_them_go_on() {
    let old = primary(Kind::Redis, &[]);
    let (new, _relay) = lagging(Kind::Sleeve, &old);
    let mut child = amid_the_hand_over(&old, &new, "3000");
    child.kill().and_then(|()| child.wait()).expect("it ends");
    // FAILOVER ends by its own timeout.
    assert_eq!(ask(&mut old.connect(), &["SET", "a", "3"]), "+OK\r\n");
    assert_eq!((info(&old, "role"), info(&old, "master_failover_state")), ("master".into(), "no-failover".into()));
}
