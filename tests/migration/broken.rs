//! What is refused, what goes wrong, and what is left then: the old primary takes writes, and the other's state is told.

use super::rationed::Rationed;
use super::*;

/// It has ended so, with these words, and FROM takes writes.
fn ends(output: &Output, code: i32, words: &[&str], from: &Server) {
    let said = text(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}\n{said}");
    }
    assert_eq!(info(from, "role"), "master", "{said}");
    assert_eq!(ask(&mut from.connect(), &["SET", "afterwards", "1"]), "+OK\r\n", "{said}");
}

/// How much of a dump may pass where it is held up.
const PART: u64 = 200_000;

/// A server whose dump has many pieces, and somebody in front of it who lets through a few.
fn large(kind: Kind) -> (Server, Rationed) {
    let server = primary(kind, &["--rdbcompression", "no"]);
    let mut connection = server.connect();
    for number in 0..20 {
        assert_eq!(ask(&mut connection, &["SET", &format!("large:{number}"), &"x".repeat(100_000)]), "+OK\r\n");
    }
    let relay = Rationed::before(server.address(), PART);
    (server, relay)
}

/// A server that follows another through somebody, who lets nothing through any more, and lacks something.
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
fn what_cannot_be_is_refused_and_changes_nothing() {
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
fn a_dry_run_says_what_would_happen() {
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
fn what_the_other_cannot_load_goes_one_way_where_that_is_said() {
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
        let old = primary(kind, &[]);
        let (new, relay) = lagging(Kind::Sleeve, &old);
        let output = migrate(&old, &new, &["--pause", "100", "--attempts", "2"]);
        let words =
            ["attempt 1: writers were held", "attempt 2:", "did not catch up within", "follows FROM, as before"];
        ends(&output, 1, &words, &old);
        assert_eq!(info(&old, "master_failover_state"), "no-failover");
        relay.allow(u64::MAX);
        assert_same(&new, &old);
        assert_eq!(info(&old, "sync_full"), "1");
    }
}

/// Migrates until a part of the dump has passed; no more does.
fn amid_the_dump(old: &Server, new: &Server, relay: &Rationed) -> Child {
    let child = spawn(old, new, &["--from-address", &relay.address(), "--one-way"]);
    wait_until("a part of the dump", || relay.passed() >= PART);
    child
}

#[test]
fn ctrl_c_amid_the_dump_ends_it_in_order() {
    for kind in [Kind::Sleeve, Kind::Redis, Kind::Valkey] {
        let ((old, relay), new) = (large(Kind::Redis), primary(kind, &[]));
        assert_eq!(ask(&mut new.connect(), &["CONFIG", "SET", "masterauth", "before"]), "+OK\r\n");
        let child = amid_the_dump(&old, &new, &relay);
        interrupt(&child);
        let output = child.wait_with_output().expect("it ends");
        ends(&output, 130, &["takes writes, as before", "follows nobody", "not all that FROM has"], &old);
        assert_eq!(info(&new, "role"), "master");
        assert_eq!(option(&new, "masterauth"), "before");
        // It can be done again.
        relay.allow(u64::MAX);
        migrates(&old, &new, &["--replace", "--one-way"]);
    }
}

#[test]
fn a_new_server_that_dies_amid_the_dump_changes_nothing() {
    let ((old, relay), mut new) = (large(Kind::Redis), primary(Kind::Sleeve, &[]));
    let child = amid_the_dump(&old, &new, &relay);
    new.kill();
    let output = child.wait_with_output().expect("it ends");
    ends(&output, 1, &["TO at 127.0.0.1:", "takes writes, as before", "may still follow FROM"], &old);
}

#[test]
fn an_old_primary_that_dies_amid_the_dump_is_told() {
    let ((mut old, relay), new) = (large(Kind::Redis), primary(Kind::Sleeve, &[]));
    let child = amid_the_dump(&old, &new, &relay);
    old.kill();
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("FROM at 127.0.0.1:") && said.contains("follows nobody"), "{said}");
    assert_eq!(info(&new, "role"), "master");
}

/// Migrates until writers are held.
fn amid_the_hand_over(old: &Server, new: &Server, pause: &str) -> Child {
    let child = spawn(old, new, &["--pause", pause]);
    wait_until("writers are held", || info(old, "master_failover_state") == "waiting-for-sync");
    child
}

#[test]
fn an_old_primary_that_dies_while_it_hands_over_leaves_the_other_as_it_was() {
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
fn an_answer_that_is_late_takes_the_role_back() {
    // What the new one answers before the question of FAILOVER itself: +PONG, and two times +OK.
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
    // FAILOVER has its own end.
    assert_eq!(ask(&mut old.connect(), &["SET", "a", "3"]), "+OK\r\n");
    assert_eq!((info(&old, "role"), info(&old, "master_failover_state")), ("master".into(), "no-failover".into()));
}
