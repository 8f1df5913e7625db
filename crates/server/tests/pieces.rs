//! Tests of the journal's form. The effects of one command, transaction or script are one piece of it. A single effect stands
//! alone; several stand between MULTI and EXEC, and a SELECT precedes them. The requests use only words that the oldest
//! server with the type of the value understands.

use std::sync::Arc;

use sleeve_server::engine::journal::Reader;
use sleeve_server::host::clock::Instant;
use sleeve_server::{Config, Engine, Local, Opt, Replay};

use crate::effects::{lines, lines_by};

/// An engine with a journal that is read at times chosen by the test.
struct Written {
    engine: Arc<Engine>,
    local: Local,
    reader: Reader,
    now: Instant,
}

impl Written {
    fn new() -> Self {
        let config = Config::default();
        config.assign(Opt::EnableDebugCommand, &[b"yes"]).expect("an option of the table");
        let engine = Engine::new(config);
        let (local, reader) = (Local::open(&engine, || ()), engine.journal.subscribe());
        let mut written = Self { engine, local, reader, now: Instant::now() };
        written.ask("DEBUG SET-ACTIVE-EXPIRE 0");
        written
    }

    fn ask(&mut self, request: &str) -> String {
        String::from_utf8_lossy(&self.ask_bytes(request)).into_owned()
    }

    fn ask_bytes(&mut self, request: &str) -> Vec<u8> {
        let mut replies = Vec::new();
        let lines = format!("{request}\r\n");
        self.local.exchange_at(self.now, lines.as_bytes(), &mut replies).expect("the session lives");
        replies
    }

    /// Returns the bytes that were appended since the last call.
    fn told(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.reader.read(&mut bytes);
        bytes
    }

    /// Returns the bytes that these requests append, as lines.
    fn effects(&mut self, requests: &[&str]) -> Vec<String> {
        self.told();
        for request in requests {
            let reply = self.ask(request);
            assert!(!reply.starts_with('-'), "{request} is answered by {reply}");
        }
        lines(&self.told())
    }

    fn wait_ms(&mut self, milliseconds: u32) {
        self.now.wall_us += i64::from(milliseconds) * 1_000;
        self.now.monotonic_us += u64::from(milliseconds) * 1_000;
    }

    /// Returns the time this many milliseconds from now, as the journal states it.
    fn in_ms(&self, milliseconds: i64) -> i64 {
        self.now.wall_ms() + milliseconds
    }
}

#[test]
fn one_effect_stands_alone_and_several_between_multi_and_exec() {
    let mut written = Written::new();
    assert_eq!(written.effects(&["SET k 1"]), ["SELECT 0", "SET k 1"]);
    assert_eq!(written.effects(&["INCR k", "MULTI", "INCR k", "EXEC"]), ["INCR k", "INCR k"]);
    assert_eq!(written.effects(&["MULTI", "INCR k", "GET k", "INCR k", "EXEC"]), ["MULTI", "INCR k", "INCR k", "EXEC"]);
    assert_eq!(
        written.effects(&["SELECT 2", "MULTI", "SET a 1", "SELECT 1", "SET b 2", "EXEC", "SET c 3"]),
        ["SELECT 2", "MULTI", "SET a 1", "SELECT 1", "SET b 2", "EXEC", "SET c 3"]
    );
    let script = "EVAL \"redis.call('SET', 'x', 1) redis.call('SELECT', 4) redis.call('SET', 'y', 2)\" 0";
    assert_eq!(written.effects(&[script]), ["MULTI", "SET x 1", "SELECT 4", "SET y 2", "EXEC"]);
    assert_eq!(written.effects(&["EVAL \"redis.call('GET', 'x')\" 0", "MULTI", "GET x", "EXEC"]), [""; 0]);
    assert_eq!(written.effects(&["PUBLISH channel message"]), [""; 0]);
}

#[test]
fn what_expires_as_a_command_looks_at_it_is_part_of_its_piece() {
    let mut written = Written::new();
    written.effects(&["SET a 1 PX 5", "SET b 1 PX 5", "SET c 1 PX 5", "HSET h f 1 g 2", "HPEXPIRE h 5 FIELDS 1 f"]);
    written.wait_ms(10);
    assert_eq!(written.effects(&["GET a"]), ["DEL a"]);
    assert_eq!(written.effects(&["INCR b"]), ["MULTI", "DEL b", "INCR b", "EXEC"]);
    assert_eq!(written.effects(&["HSET h g 3"]), ["MULTI", "HDEL h f", "HSET h g 3", "EXEC"]);
    assert_eq!(written.effects(&["EXISTS c", "SET c 1"]), ["DEL c", "SET c 1"]);
    written.ask("CONFIG SET lazyfree-lazy-expire yes");
    assert_eq!(written.effects(&["EXPIRE c -1"]), ["UNLINK c"]);
}

#[test]
fn what_expires_by_itself_is_one_piece_a_key() {
    let mut written = Written::new();
    written.effects(&["SET a 1 PX 5", "SET b 1 PX 5"]);
    written.wait_ms(500);
    let mut effects = written.effects(&["DEBUG SET-ACTIVE-EXPIRE 1", "PING"]);
    effects.sort();
    assert_eq!(effects, ["DEL a", "DEL b"]);
}

#[test]
fn commands_with_several_effects_are_one_piece() {
    let mut written = Written::new();
    written.effects(&["SADD s 1 2 3 4 5", "XADD x 1-1 a b", "XADD x 1-2 a b", "XGROUP CREATE x g 0"]);
    let now = written.in_ms(0);
    let effects = written.effects(&["XREADGROUP GROUP g c COUNT 1 STREAMS x >"]);
    let claimed = format!("XCLAIM x g c 0 1-1 TIME {now} RETRYCOUNT 1 FORCE JUSTID");
    let expected = ["MULTI", "XGROUP CREATECONSUMER x g c", &claimed, "XGROUP SETID x g 1-1 ENTRIESREAD 1", "EXEC"];
    assert_eq!(effects, expected);
    let effects = written.effects(&["XCLAIM x g d 0 1-1 LASTID 1-2"]);
    let claimed = format!("XCLAIM x g d 0 1-1 TIME {now} RETRYCOUNT 2 FORCE JUSTID");
    let expected = ["MULTI", "XGROUP CREATECONSUMER x g d", &claimed, "XCLAIM x g d 0 0-0 LASTID 1-2", "EXEC"];
    assert_eq!(effects, expected);
    assert_eq!(written.effects(&["XADD x MAXLEN = 1 1-3 a b"]), ["XADD x MAXLEN = 1 1-3 a b"]);
    assert_eq!(written.effects(&["XTRIM x MINID 1-4"]), ["XTRIM x MINID = 1-4"]);
    let effects = written.effects(&["SPOP s 4"]);
    assert!(matches!(&effects[..], [only] if only.starts_with("SREM s ")), "{effects:?}");
    assert_eq!(written.effects(&["SPOP s 4"]), ["DEL s"]);
    let members: String = (0..2_500).map(|member| format!(" m{member}")).collect();
    written.effects(&[&format!("SADD s{members}")]);
    let effects = written.effects(&["SPOP s 2400"]);
    assert_eq!((effects.len(), effects[0].as_str(), effects[4].as_str()), (5, "MULTI", "EXEC"));
}

#[test]
fn conditions_are_told_as_what_they_came_to() {
    let mut written = Written::new();
    let soon = written.in_ms(100_000);
    assert_eq!(written.effects(&["SET k 1", "SET k 2 IFEQ 1"])[1..], ["SET k 1", "SET k 2"]);
    assert_eq!(written.effects(&["SET k 3 IFEQ 1", "SET k 3 IFNE 2", "SET k 3 IFEQ 1 GET"]), Vec::<String>::new());
    assert_eq!(written.effects(&["SET k 3 IFNE 1 PX 100000"]), [format!("SET k 3 PXAT {soon}")]);
    assert_eq!(written.effects(&["SET k 2 IFDNE 0123456789abcdef KEEPTTL GET"]), ["SET k 2 KEEPTTL"]);
    assert_eq!(written.effects(&["DELEX k IFEQ 1", "DELIFEQ k 1", "DELEX k IFEQ 2", "DELEX k"]), ["DEL k"]);
    assert_eq!(written.effects(&["SET k 1", "DELIFEQ k 1", "SET k 1", "DELEX k"])[1..], ["DEL k", "SET k 1", "DEL k"]);
    assert_eq!(written.effects(&["MSETEX 2 a 1 b 2"]), ["MULTI", "SET a 1", "SET b 2", "EXEC"]);
    assert_eq!(written.effects(&["MSETEX 1 a 1 PX 100000 XX"]), [format!("SET a 1 PXAT {soon}")]);
    assert_eq!(written.effects(&["MSETEX 2 a 3 c 3 NX", "MSETEX 2 a 3 c 3 XX"]), Vec::<String>::new());
    assert_eq!(written.effects(&["MSETEX 1 a 3 KEEPTTL"]), ["SET a 3 KEEPTTL"]);
    assert_eq!(written.effects(&["BITOP ONE d a b", "BITOP AND e a b"]), ["SET d \u{1}", "BITOP AND e a b"]);
    assert_eq!(written.effects(&["BITOP DIFF d none gone", "BITOP DIFF d none gone"]), ["DEL d"]);
}

#[test]
fn what_goes_from_streams_and_groups_is_told_in_the_words_of_both() {
    let mut written = Written::new();
    written.effects(&["XADD s 1-0 a 1", "XADD s 2-0 a 1", "XADD s 3-0 a 1", "XADD s 4-0 a 1", "XGROUP CREATE s g 0"]);
    written.effects(&["XGROUP CREATE s h 0", "XREADGROUP GROUP g c STREAMS s >", "XREADGROUP GROUP h c STREAMS s >"]);
    assert_eq!(written.effects(&["XDELEX s IDS 2 1-0 9-0", "XDELEX s ACKED IDS 1 2-0"]), ["XDEL s 1-0"]);
    assert_eq!(
        written.effects(&["XDELEX s DELREF IDS 2 1-0 2-0"]),
        ["MULTI", "XDEL s 2-0", "XACK s g 1-0 2-0", "XACK s h 1-0 2-0", "EXEC"]
    );
    assert_eq!(written.effects(&["XACKDEL s g ACKED IDS 1 3-0"]), ["XACK s g 3-0"]);
    assert_eq!(written.effects(&["XACKDEL s h ACKED IDS 1 3-0"]), ["MULTI", "XDEL s 3-0", "XACK s h 3-0", "EXEC"]);
    assert_eq!(
        written.effects(&["XACKDEL s h DELREF IDS 1 4-0"]),
        ["MULTI", "XDEL s 4-0", "XACK s g 4-0", "XACK s h 4-0", "EXEC"]
    );
    assert_eq!(written.effects(&["XACKDEL s h IDS 1 4-0", "XDELEX s IDS 1 4-0"]), Vec::<String>::new());
}

#[test]
fn counting_within_bounds_is_told_as_what_it_came_to() {
    let mut written = Written::new();
    let soon = written.in_ms(100_000);
    assert_eq!(written.effects(&["INCREX k BYINT 5"])[1..], ["SET k 5 KEEPTTL"]);
    assert_eq!(written.effects(&["INCREX k BYFLOAT 0.5"]), ["SET k 5.5 KEEPTTL"]);
    assert_eq!(written.effects(&["INCREX k BYFLOAT 1 PX 100000"]), [format!("SET k 6.5 PXAT {soon}")]);
    assert_eq!(written.effects(&["INCREX k BYFLOAT 9 PX 1 ENX UBOUND 7 SATURATE"]), ["SET k 7 KEEPTTL"]);
    assert_eq!(written.effects(&["INCREX k UBOUND 7", "INCREX k UBOUND 7 EX 10"]), Vec::<String>::new());
    assert_eq!(
        written.effects(&["INCREX k PERSIST", "INCREX k EX 100 ENX"])[..],
        ["SET k 8".to_owned(), format!("SET k 9 PXAT {soon}")]
    );
    assert_eq!(written.effects(&["INCREX k PXAT 1", "INCREX k PXAT 1"]), ["DEL k"]);
}

#[test]
fn what_is_moved_is_told_in_the_words_of_those_who_move_one_by_one() {
    let mut written = Written::new();
    written.effects(&["RPUSH k 1 2 3 4 5 6 7 8"]);
    assert_eq!(written.effects(&["LMOVEM k d LEFT LEFT COUNT 2 OBO"]), ["MULTI", "LPUSH d 1 2", "LPOP k 2", "EXEC"]);
    assert_eq!(written.effects(&["LMOVEM k d RIGHT RIGHT COUNT 2 BULK"]), ["MULTI", "RPUSH d 7 8", "RPOP k 2", "EXEC"]);
    assert_eq!(
        written.effects(&["BLMOVEM k d LEFT LEFT 0 EXACTLY 2 BULK"]),
        ["MULTI", "LPUSH d 4 3", "LPOP k 2", "EXEC"]
    );
    assert_eq!(written.effects(&["LMOVEM k d LEFT RIGHT"]), ["MULTI", "RPUSH d 5", "LPOP k", "EXEC"]);
    assert_eq!(written.effects(&["LMOVEM k d LEFT RIGHT EXACTLY 2 OBO"]), Vec::<String>::new());
    assert_eq!(written.effects(&["LMOVEM d d LEFT LEFT COUNT 2 BULK", "LMOVEM d d LEFT LEFT"]), Vec::<String>::new());
    assert_eq!(
        written.effects(&["LMOVEM d d LEFT RIGHT COUNT 2 BULK"]),
        ["MULTI", "LMOVE d d LEFT RIGHT", "LMOVE d d LEFT RIGHT", "EXEC"]
    );
    assert_eq!(
        written.effects(&["LMOVEM d d RIGHT RIGHT COUNT 2 OBO"]),
        ["MULTI", "LSET d -2 4", "LSET d -1 3", "EXEC"]
    );
    assert_eq!(written.effects(&["LMOVEM d d LEFT LEFT EXACTLY 2 OBO"]), ["MULTI", "LSET d 0 1", "LSET d 1 2", "EXEC"]);
    let elements: String = (0..2_500).map(|element| format!(" e{element}")).collect();
    written.effects(&["DEL d", &format!("RPUSH k{elements}")]);
    let effects = written.effects(&["LMOVEM k d LEFT LEFT COUNT 2501 OBO"]);
    assert!(effects[1].starts_with("LPUSH d 6 e0 e1 ") && effects[2].starts_with("LPUSH d e"), "{}", effects[2]);
    assert_eq!((effects.len(), effects[0].as_str(), effects.last().map(String::as_str)), (6, "MULTI", Some("EXEC")));
}

#[test]
fn what_is_trimmed_with_regard_to_groups_is_told_in_the_words_of_both() {
    let mut written = Written::new();
    written.effects(&["XADD s 1-0 a 1", "XADD s 2-0 a 1", "XADD s 3-0 a 1", "XADD s 4-0 a 1", "XGROUP CREATE s g 0"]);
    written.effects(&["XREADGROUP GROUP g c STREAMS s >", "XACK s g 2-0 4-0"]);
    assert_eq!(written.effects(&["XTRIM s MAXLEN 0 ACKED", "XTRIM s MAXLEN 0 ACKED"]), ["XDEL s 2-0 4-0"]);
    assert_eq!(written.effects(&["XTRIM s MINID 2-0 DELREF"]), ["MULTI", "XDEL s 1-0", "XACK s g 1-0", "EXEC"]);
    assert_eq!(written.effects(&["XADD s MAXLEN 2 KEEPREF 5-0 a 1"]), ["XADD s MAXLEN = 2 5-0 a 1"]);
    assert_eq!(written.effects(&["XADD s MAXLEN 3 ACKED 6-0 a 1"]), ["XADD s 6-0 a 1"]);
    assert_eq!(
        written.effects(&["XADD s DELREF MAXLEN 3 7-0 a 1"]),
        ["MULTI", "XADD s 7-0 a 1", "XDEL s 3-0", "XACK s g 3-0", "EXEC"]
    );
}

#[test]
fn what_is_given_back_is_told_as_the_claim_of_nobody() {
    let mut written = Written::new();
    written.effects(&["XADD s 1-0 a 1", "XADD s 2-0 a 1", "XADD s 3-0 a 1", "XGROUP CREATE s g 0"]);
    written.effects(&["XREADGROUP GROUP g c STREAMS s >"]);
    assert_eq!(
        written.effects(&["XNACK s g FAIL IDS 3 1-0 2-0 9-0"]),
        ["MULTI", "XGROUP CREATECONSUMER s g ", "XCLAIM s g  0 1-0 2-0 TIME 0 RETRYCOUNT 1 FORCE JUSTID", "EXEC"]
    );
    assert_eq!(
        written.effects(&["XNACK s g FATAL IDS 1 1-0"]),
        ["XCLAIM s g  0 1-0 TIME 0 RETRYCOUNT 9223372036854775807 FORCE JUSTID"]
    );
    written.effects(&["XDEL s 3-0"]);
    assert_eq!(written.effects(&["XNACK s g SILENT IDS 1 3-0", "XNACK s g SILENT IDS 1 3-0"]), ["XACK s g 3-0"]);
}

#[test]
fn a_numbered_message_is_recorded_with_its_entry_and_again_if_repeated() {
    let mut written = Written::new();
    let id = written.effects(&["XADD s IDMP p 1 * a 1"])[1].split(' ').nth(5).map(str::to_owned).expect("an id");
    assert_eq!(written.effects(&["XADD s IDMP p 1 MAXLEN 0 * a 2"]), [format!("XADD s IDMP p 1 {id} a 2")]);
    written.ask("XSETID s 99999999999999-0");
    assert_eq!(
        written.effects(&["XADD s IDMPAUTO p MAXLEN ~ 1000 * a 1", "XADD s NOMKSTREAM IDMPAUTO p * a 1"]),
        ["XADD s IDMPAUTO p MAXLEN = 2 99999999999999-1 a 1", "XADD s IDMPAUTO p 99999999999999-1 a 1"]
    );
    assert_eq!(
        written.effects(&["XCFGSET s IDMP-MAXSIZE 100", "XCFGSET s idmp-maxsize 7", "XCFGSET s IDMP-MAXSIZE 7"]),
        ["XCFGSET s idmp-maxsize 7"]
    );
    assert!(written.effects(&["XADD missing NOMKSTREAM IDMP p 1 * a 1"]).is_empty());
}

#[test]
fn a_producer_message_is_known_for_its_time_and_replayed_at_any_time() {
    let mut written = Written::new();
    for request in ["XADD s 1-0 a 1", "XCFGSET s IDMP-DURATION 2 IDMP-MAXSIZE 3"] {
        assert!(!written.ask(request).starts_with('-'));
    }
    let first = written.ask("XADD s IDMP p 1 * a 1");
    written.wait_ms(2_000);
    assert_eq!(written.ask("XADD s IDMP p 1 * a 1"), first);
    written.wait_ms(1);
    let second = written.ask("XADD s IDMP p 1 * a 1");
    assert_ne!(second, first);
    assert!(written.ask("XINFO STREAM s").contains("iids-tracked\r\n:1\r\n"));
    assert_eq!(written.ask("XADD s IDMP p 1 * a 1"), second);
    let facts = written.ask("XINFO STREAM s");
    let replayed = Engine::new(Config::default());
    let mut replay = Replay::begin(&replayed, 0);
    replay.apply(&written.told(), Instant::now()).expect("it can be applied");
    drop(replay);
    let mut replies = Vec::new();
    Local::open(&replayed, || ()).exchange(b"XINFO STREAM s\r\n", &mut replies).expect("the session lives");
    assert_eq!(String::from_utf8_lossy(&replies), facts);
    written.wait_ms(2_001);
    assert!(written.ask("XINFO STREAM s").contains("pids-tracked\r\n:0\r\n"));
}

#[test]
fn what_is_claimed_by_reading_is_told_as_a_claim() {
    let mut written = Written::new();
    written.effects(&["XADD s 1-0 a 1", "XADD s 2-0 a 1", "XADD s 3-0 a 1", "XGROUP CREATE s g 0"]);
    written.effects(&["XREADGROUP GROUP g c COUNT 2 STREAMS s >", "XGROUP CREATECONSUMER s g d"]);
    written.wait_ms(100);
    let now = written.in_ms(0);
    assert_eq!(written.effects(&["XREADGROUP GROUP g d CLAIM 101 COUNT 0 STREAMS s 0"]), Vec::<String>::new());
    assert_eq!(
        written.effects(&["XREADGROUP GROUP g d CLAIM 100 COUNT 1 STREAMS s >"]),
        [format!("XCLAIM s g d 0 1-0 TIME {now} RETRYCOUNT 2 FORCE JUSTID")]
    );
    assert_eq!(
        written.effects(&["XREADGROUP GROUP g d CLAIM 100 STREAMS s >"]),
        [
            "MULTI".to_owned(),
            format!("XCLAIM s g d 0 2-0 TIME {now} RETRYCOUNT 2 FORCE JUSTID"),
            format!("XCLAIM s g d 0 3-0 TIME {now} RETRYCOUNT 1 FORCE JUSTID"),
            "XGROUP SETID s g 3-0 ENTRIESREAD 3".to_owned(),
            "EXEC".to_owned()
        ]
    );
    assert_eq!(written.effects(&["XREADGROUP GROUP g d CLAIM 1 STREAMS s >"]), Vec::<String>::new());
}

#[test]
fn deadlines_of_fields_are_told_in_the_words_of_those_who_have_them() {
    let mut written = Written::new();
    let (soon, later) = (written.in_ms(100_000), written.in_ms(200_000));
    let expected = [
        "MULTI".to_owned(),
        "HSET h a 1 b 2".to_owned(),
        format!("HPEXPIREAT h {soon} FIELDS 2 a b"),
        "EXEC".to_owned(),
    ];
    assert_eq!(written.effects(&["HSETEX h PX 100000 FIELDS 2 a 1 b 2"])[1..], expected);
    assert_eq!(
        written.effects(&[&format!("HPEXPIREAT h {later} FIELDS 1 b")]),
        [format!("HPEXPIREAT h {later} FIELDS 1 b")]
    );
    let expected = [
        "MULTI".to_owned(),
        "HSET h b 1 a 2 c 3".to_owned(),
        format!("HPEXPIREAT h {soon} FIELDS 1 a"),
        format!("HPEXPIREAT h {later} FIELDS 1 b"),
        "EXEC".to_owned(),
    ];
    assert_eq!(written.effects(&["HSETEX h KEEPTTL FIELDS 3 b 1 a 2 c 3"]), expected);
    let expected =
        ["MULTI".to_owned(), "HSET h a 2.5".to_owned(), format!("HPEXPIREAT h {soon} FIELDS 1 a"), "EXEC".to_owned()];
    assert_eq!(written.effects(&["HINCRBYFLOAT h a 0.5"]), expected);
    assert_eq!(written.effects(&["HINCRBYFLOAT h c 0.5"]), ["HSET h c 3.5"]);
    assert_eq!(written.effects(&["HSETEX h KEEPTTL FIELDS 1 b 4"])[1], "HSET h b 4");
    assert_eq!(written.effects(&["HGETEX h PX 100000 FIELDS 2 a none"]), [format!("HPEXPIREAT h {soon} FIELDS 1 a")]);
    assert_eq!(written.effects(&["HGETEX h PERSIST FIELDS 1 a"]), ["HSET h a 2.5"]);
    assert_eq!(written.effects(&["HPERSIST h FIELDS 3 a b none"]), ["HSET h b 4"]);
    assert_eq!(written.effects(&["HSETEX h PXAT 1 FIELDS 1 a 1"]), ["HDEL h a"]);
}

#[test]
fn what_is_restored_is_told_in_the_oldest_form_that_has_the_type() {
    let mut written = Written::new();
    let deadline = written.in_ms(100_000);
    written.effects(&["HSET plain a 1", &format!("HSETEX timed PXAT {deadline} FIELDS 1 a 1"), "HSET timed b 2"]);
    written.effects(&["SADD set x y"]);
    for (name, expected) in [
        ("timed", vec!["MULTI", "DEL to", "HSET to", "HPEXPIREAT to", "EXEC"]),
        ("timed", vec!["MULTI", "DEL to", "HSET to", "HPEXPIREAT to", "EXEC"]),
        ("plain", vec!["RESTORE to"]),
        ("set", vec!["RESTORE to"]),
    ] {
        let dump = written.ask_bytes(&format!("DUMP {name}"));
        let dump = &dump[dump.iter().position(|byte| *byte == b'\n').expect("a length") + 1..dump.len() - 2];
        let quoted: String = dump.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        written.told();
        written.ask(&format!("RESTORE to 0 \"{quoted}\" REPLACE"));
        let effects = lines_by(&written.told(), |word| match std::str::from_utf8(word) {
            Ok(text) => text.to_owned(),
            Err(_) => format!("(version {})", word[word.len() - 10]),
        });
        let heads = effects.iter().map(|effect| effect.split(' ').take(2).collect::<Vec<_>>().join(" "));
        assert_eq!(heads.collect::<Vec<_>>(), expected, "{name}");
        assert!(name == "timed" || effects[0] == "RESTORE to 0 (version 10) REPLACE", "{effects:?}");
    }
}

#[test]
fn results_are_recorded_where_another_server_could_find_others() {
    let mut written = Written::new();
    written.effects(&["ZADD one 1 a 2 b", "ZADD other 0.5 a 5 c", "RPUSH l 3 1 2", "ZADD mixed 1 b 2 a 3 c"]);
    written.effects(&["GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania"]);
    assert_eq!(written.effects(&["ZUNIONSTORE to 2 one other"]), ["ZADD to 1.5 a 2 b 5 c"]);
    assert_eq!(written.effects(&["ZINTERSTORE to 2 one other"]), ["MULTI", "DEL to", "ZADD to 1.5 a", "EXEC"]);
    assert_eq!(written.effects(&["ZDIFFSTORE to 2 one other"]), ["MULTI", "DEL to", "ZADD to 2 b", "EXEC"]);
    assert_eq!(written.effects(&["ZRANGESTORE to none 0 -1"]), ["DEL to"]);
    assert_eq!(written.effects(&["ZRANGESTORE to none 0 -1"]), [""; 0]);
    assert_eq!(written.effects(&["ZRANGESTORE to one 0 0"]), ["ZADD to 1 a"]);
    assert_eq!(written.effects(&["ZREMRANGEBYLEX mixed [a [b"]), ["ZREM mixed b a"]);
    assert_eq!(written.effects(&["SORT l STORE to"]), ["MULTI", "DEL to", "RPUSH to 1 2 3", "EXEC"]);
    assert_eq!(written.effects(&["SORT none STORE to"]), ["DEL to"]);
    let effects = written.effects(&["GEOSEARCHSTORE to g FROMLONLAT 15 37 BYRADIUS 100 km"]);
    assert_eq!(effects, ["ZADD to 3479447370796909 Catania"]);
    let pairs: String = (0..2_500).map(|member| format!(" {member} m{member}")).collect();
    written.effects(&[&format!("ZADD large{pairs}")]);
    let effects = written.effects(&["ZUNIONSTORE to 1 large"]);
    assert_eq!((effects.len(), effects[1].as_str(), effects[2].len() < 20_000), (6, "DEL to", true));
}

#[test]
fn times_are_absolute_and_random_choices_made() {
    let mut written = Written::new();
    let at = written.in_ms(10_000);
    assert_eq!(written.effects(&["SET k 1 EX 10"])[1..], [format!("SET k 1 PXAT {at}")]);
    assert_eq!(written.effects(&["SET k 1 KEEPTTL GET"]), ["SET k 1 KEEPTTL"]);
    assert_eq!(written.effects(&["GETEX k PX 10000"]), [format!("PEXPIREAT k {at}")]);
    assert_eq!(written.effects(&["GETEX k PERSIST"]), ["PERSIST k"]);
    assert_eq!(written.effects(&["EXPIRE k 10 NX"]), [format!("PEXPIREAT k {at}")]);
    assert_eq!(written.effects(&["INCRBYFLOAT k 0.5"]), ["SET k 1.5 KEEPTTL"]);
    assert_eq!(written.effects(&["GETDEL k"]), ["DEL k"]);
}

#[test]
fn a_log_is_applied_as_if_nothing_expired_and_recorded_by_nobody() {
    let mut written = Written::new();
    let log = b"*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n5\r\n$4\r\nPXAT\r\n$4\r\n1000\r\n\
                *2\r\n$4\r\nINCR\r\n$1\r\nk\r\n*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n";
    let end = b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n*1\r\n$4\r\nEXEC\r\n";
    let mut replay = Replay::begin(&written.engine, 1_000);
    for cut in [10, 40, 70, log.len()] {
        let from = replay.offset() as usize - 1_000;
        replay.apply(&log[from..cut], written.now).expect("it is a log");
    }
    let multi_at = 1_000 + log.len() as u64 - 21 - 15;
    assert_eq!((replay.offset(), replay.open_transaction()), (1_000 + log.len() as u64, Some(multi_at)));
    replay.apply(end, written.now).expect("it is a log");
    assert_eq!(replay.open_transaction(), None);
    // Other clients see no key past its deadline, and no thread removes it.
    assert_eq!(written.effects(&["SELECT 1", "EXISTS k", "DEBUG SET-ACTIVE-EXPIRE 1"]), [""; 0]);
    assert_eq!(written.ask("DBSIZE"), ":1\r\n");
    replay.apply(b"*2\r\n$7\r\nPERSIST\r\n$1\r\nk\r\n", written.now).expect("it is a log");
    drop(replay);
    assert_eq!(written.ask("GET k"), "$1\r\n8\r\n");
    assert_eq!(written.effects(&[]), [""; 0]);
}

#[test]
fn a_log_that_is_none_is_refused_with_the_offset_of_what_is_wrong() {
    let written = Written::new();
    let set = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nx\r\n".as_slice();
    let incr = b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n".as_slice();
    let (multi, exec) = (b"*1\r\n$5\r\nMULTI\r\n".as_slice(), b"*1\r\n$4\r\nEXEC\r\n".as_slice());
    let cases: &[(&[&[u8]], usize, &str)] = &[
        (&[set, incr], set.len(), "INCR"),
        (&[set, multi, set, incr, exec], 2 * set.len() + multi.len(), "INCR"),
        (&[set, b"*1\r\n$5\r\nNEVER\r\n"], set.len(), "NEVER"),
        (&[set, b"*1\r\n$3\r\nGET\r\n"], set.len(), "GET"),
        (&[set, b"INCR k\r\n"], set.len(), "INCR"),
        (&[set, set, b"*1\r\nx\r\n"], 2 * set.len(), ""),
        (&[set, exec], set.len(), "EXEC"),
        (&[multi, multi], multi.len(), "MULTI"),
    ];
    for (parts, at, command) in cases {
        let bytes = parts.concat();
        let refused = Replay::begin(&written.engine, 0).apply_strictly(&bytes, written.now).expect_err("it is no log");
        assert_eq!((refused.offset, refused.command.as_str()), (*at as u64, *command), "{refused}");
        // A known command that returns an error is skipped, and the rest is applied.
        let applied = Replay::begin(&written.engine, 0).apply(&[&bytes, set].concat(), written.now);
        let is_passed_over = parts.contains(&incr);
        assert_eq!(applied.is_ok(), is_passed_over, "{applied:?}");
    }
}
