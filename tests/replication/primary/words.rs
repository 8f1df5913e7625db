//! The replies of a primary to a client that only claims to be a replica.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use sleeve_tests::connection::request;
use sleeve_tests::random::{Random, seed};
use sleeve_tests::{Connection, Kind, Server};

use super::{assert_same, info, primary, replica};
use sleeve_tests::probe::{ask, wait_until};

/// Sends lines as they are, and reads until the received bytes end in `end`.
pub fn say(stream: &mut TcpStream, line: &str, end: &str) -> String {
    stream.write_all(line.as_bytes()).expect("it takes them");
    let (mut said, mut byte) = (String::new(), [0]);
    while !said.ends_with(end) {
        stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} behind {said:?}"));
        said.push(char::from(byte[0]));
    }
    said
}

#[test]
fn the_first_words_are_answered_as_redis_answers_them() {
    let words = [
        "REPLCONF\r\n",
        "REPLCONF listening-port 7000 capa eof capa psync2 capa nosuch\r\n",
        "REPLCONF listening-port x\r\n",
        "REPLCONF nosuch 1\r\n",
        "REPLCONF rdb-only 2\r\n",
        "REPLCONF rdb-filter-only \"functions nosuch\"\r\n",
        "REPLCONF rdb-filter-only \"\"\r\n",
        "REPLCONF rdb-only 0 ip-address 10.0.0.1\r\n",
        "REPLCONF rdb-only\r\n",
        "PSYNC ? x\r\n",
    ];
    let answers = [Kind::Sleeve, Kind::Redis].map(|kind| {
        let server = Server::start_with(kind, &[]);
        let mut stream = TcpStream::connect(server.address()).expect("it is served");
        let answers = words.map(|line| say(&mut stream, line, "\r\n"));
        assert_eq!(server.log().matches("asks for synchronization but with a wrong offset").count(), 1);
        answers
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn an_empty_filter_leaves_keys_and_functions_out_of_a_snapshot() {
    for (filter, has_functions, has_keys) in [("", false, false), ("functions", true, false)] {
        for kind in [Kind::Sleeve, Kind::Redis] {
            let server = Server::start_with(kind, &["--repl-diskless-sync-delay", "0"]);
            let mut ours = server.connect();
            ask(&mut ours, &["SET", "the-key", "1"]);
            let code = "#!lua name=zebra\nredis.register_function('the_function', function() return 1 end)";
            ask(&mut ours, &["FUNCTION", "LOAD", code]);
            let mut stream = TcpStream::connect(server.address()).expect("it is served");
            say(&mut stream, &format!("REPLCONF capa eof rdb-only 1 rdb-filter-only \"{filter}\"\r\n"), "\r\n");
            stream.write_all(b"SYNC\r\n").expect("it takes it");
            let mut dump = Vec::new();
            stream.read_to_end(&mut dump).expect("it ends with the snapshot");
            let has = |word: &[u8]| dump.windows(word.len()).any(|part| part == word);
            assert!(has(b"REDIS00"), "{}", dump.escape_ascii());
            let told = (has(b"name=zebra"), has(b"the-key"));
            assert_eq!(told, (has_functions, has_keys), "{filter:?} {}", kind.name());
        }
    }
}

#[test]
fn a_marked_snapshot_and_its_stream_are_sent_at_their_offsets() {
    let primary = primary(&[]);
    let mut ours = primary.connect();
    ask(&mut ours, &["SET", "a", "1"]);
    let mut stream = TcpStream::connect(primary.address()).expect("it is served");
    assert_eq!(say(&mut stream, "REPLCONF capa eof capa psync2\r\n", "\r\n"), "+OK\r\n");
    let told = say(&mut stream, "PSYNC ? -1\r\n", "\r\n");
    let id = info(&mut ours, "master_replid");
    assert_eq!(told.trim_start_matches('\n'), format!("+FULLRESYNC {id} 0\r\n"));
    let head = say(&mut stream, "", "\r\n");
    let mark = head.trim_end().strip_prefix("$EOF:").expect("a mark").to_owned();
    assert_eq!(mark.len(), 40);
    assert!(say(&mut stream, "", &mark).starts_with("REDIS0010"));
    ask(&mut ours, &["SET", "a", "2"]);
    assert_eq!(info(&mut ours, "slave0").split(',').nth(2), Some("state=send_bulk"));
    let effect = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n2\r\n";
    assert_eq!(say(&mut stream, "REPLCONF ACK 0\r\n", "\r\n$1\r\n2\r\n"), effect);
    drop(stream);
    // A replica that returns names the next byte, counted from 1.
    for (next, is_good) in
        [(24, true), (effect.len() as i64 + 1, true), (1, true), (0, false), (1_000, false), (i64::MIN, false)]
    {
        let mut stream = TcpStream::connect(primary.address()).expect("it is served");
        say(&mut stream, "REPLCONF capa eof capa psync2\r\n", "\r\n");
        let answer = say(&mut stream, &format!("PSYNC {id} {next}\r\n"), "\r\n");
        let expected =
            if is_good { format!("+CONTINUE {id}\r\n") } else { format!("+FULLRESYNC {id} {}\r\n", effect.len()) };
        assert_eq!(answer.trim_start_matches('\n'), expected, "{next}");
        if is_good && next <= effect.len() as i64 {
            assert_eq!(say(&mut stream, "", "\r\na\r\n$1\r\n2\r\n"), effect[next as usize - 1..]);
        }
    }
    let mut other = TcpStream::connect(primary.address()).expect("it is served");
    let refused = say(&mut other, &format!("PSYNC {} 1\r\n", "0".repeat(40)), "\r\n");
    assert_eq!(refused.trim_start_matches('\n'), format!("+FULLRESYNC {id} {}\r\n", effect.len()));
}

#[test]
fn a_replica_without_capa_eof_gets_the_length() {
    let primary = primary(&[]);
    ask(&mut primary.connect(), &["SET", "a", "1"]);
    let mut stream = TcpStream::connect(primary.address()).expect("it is served");
    let head = say(&mut stream, "SYNC\r\n", "\r\n");
    let length: usize = head.trim().strip_prefix('$').expect("a length").parse().expect("a number");
    let mut snapshot = vec![0; length];
    stream.read_exact(&mut snapshot).expect("the snapshot");
    assert!(snapshot.starts_with(b"REDIS0010"));
    ask(&mut primary.connect(), &["SET", "a", "2"]);
    assert!(say(&mut stream, "", "\r\n$1\r\n2\r\n").ends_with("SET\r\n$1\r\na\r\n$1\r\n2\r\n"));
}

#[test]
fn unknown_words_of_a_replica_do_no_harm() {
    let primary = primary(&[]);
    let mut random = Random::new(seed(5));
    let pieces = [
        "REPLCONF ACK ",
        "REPLCONF ACK 5 FACK ",
        "REPLCONF GETACK *",
        "PSYNC ? -1",
        "PSYNC ",
        "SYNC",
        "-1",
        "99999999999999999999",
        "REPLCONF capa eof",
        "\r\n",
        "\r\n",
        " ",
        "*1\r\n$4\r\nPING",
        "GET a",
        "SUBSCRIBE b",
        "MULTI",
        "EXEC",
        "QUIT",
        "CLIENT REPLY ON",
        "REPLCONF version 9.0.0",
        "REPLCONF version x.y",
        "RESET",
        "\0",
    ];
    for _ in 0..60 {
        let mut stream = TcpStream::connect(primary.address()).expect("it is served");
        let text: String = (0..20).map(|_| *random.pick(&pieces)).collect();
        // The server may have closed it for the earlier bytes.
        _ = stream.write_all(text.as_bytes());
        _ = stream.write_all(b"\r\n");
        assert_eq!(ask(&mut primary.connect(), &["PING"]), "+PONG\r\n");
    }
    let mut ours = primary.connect();
    wait_until("all have gone", || info(&mut ours, "connected_slaves") == "0");
    assert_eq!(ask(&mut ours, &["SET", "a", "1"]), "+OK\r\n");
}

#[test]
fn a_replica_that_ends_in_the_packet_in_which_it_begins_is_forgotten() {
    let server = primary(&[]);
    for (number, request) in ["PSYNC ? -1\r\nQUIT\r\n", "SYNC\r\n*-5\r\n", "SYNC\r\nQUIT\r\n"].iter().enumerate() {
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        stream.write_all(request.as_bytes()).expect("connected");
        drop(stream);
        let asked = || server.log().matches("asks for synchronization").count();
        wait_until("the replica", || asked() == number + 1);
    }
    wait_until("the end of all", || info(&mut server.connect(), "connected_slaves") == "0");
}

#[test]
fn a_forbidden_request_of_a_replica_closes_it_as_in_redis() {
    let lines = [
        "PING",
        "GET a",
        "SET a 1",
        "EVAL \"redis.call('set','a','1')\" 0",
        "RESET",
        "CLIENT REPLY ON",
        "CLIENT REPLY SKIP",
        "CLIENT REPLY SKIP\r\nPING",
        "CLIENT REPLY OFF",
        "CLIENT REPLY OFF\r\nSET a 1",
        "CLIENT REPLY OFF\r\nCLIENT REPLY ON",
        "MULTI",
        "EXEC",
        "SUBSCRIBE x",
        "MONITOR",
        "QUIT",
        "NOSUCH",
        "REPLCONF listening-port 1",
        "REPLCONF",
        "REPLCONF GETACK *",
        "REPLCONF ACK",
        "REPLCONF ACK x",
        "PSYNC ? -1",
        "SYNC",
        "SELECT 1",
        "CLIENT SETNAME x",
        "PUBLISH a b",
        "WAIT 0 0",
        "WAIT 9 1",
        "HELLO 3",
        "CLIENT LIST",
    ];
    let options = ["--repl-diskless-sync-delay", "0"];
    let outcomes = [Kind::Sleeve, Kind::Redis].map(|kind| {
        let server = Server::start_with(kind, &options);
        let mut ours = server.connect();
        let outcomes = lines.map(|line| {
            let mut stream = TcpStream::connect(server.address()).expect("it is served");
            say(&mut stream, "REPLCONF capa eof capa psync2\r\n", "\r\n");
            assert!(say(&mut stream, "PSYNC ? -1\r\n", "\r\n").trim_start().starts_with("+FULLRESYNC"));
            // A client that waits for replicas gets no reply to the request behind WAIT.
            let end = if line.starts_with("WAIT 9") { "" } else { "REPLCONF ACK 777\r\n" };
            stream.write_all(format!("{line}\r\n{end}").as_bytes()).expect("it takes them");
            let mut is_over = false;
            wait_until(line, || {
                is_over = info(&mut ours, "connected_slaves") == "0";
                is_over || info(&mut ours, "slave0").contains("offset=777")
            });
            drop(stream);
            wait_until("its end", || info(&mut ours, "connected_slaves") == "0");
            (line, is_over)
        });
        let (log, sends) = (server.log(), "== CRITICAL == This master is sending an error to its replica: ");
        let errors = log.lines().filter_map(|line| line.split_once(sends)?.1.rsplit_once("after processing"));
        (outcomes, errors.map(|(_, command)| command.to_owned()).collect::<BTreeSet<_>>())
    });
    assert_eq!(outcomes[0], outcomes[1]);
    assert!(outcomes[0].0.iter().any(|(_, is_over)| *is_over));
}

#[test]
fn a_replica_changes_nothing_and_is_sent_no_reply_amid_its_stream() {
    let primary = primary(&[]);
    let mut ours = primary.connect();
    let mut stream = TcpStream::connect(primary.address()).expect("it is served");
    say(&mut stream, "HELLO 3\r\n", "*0\r\n");
    say(&mut stream, "CLIENT TRACKING ON BCAST\r\n", "\r\n");
    say(&mut stream, "SUBSCRIBE news\r\n", ":1\r\n");
    say(&mut stream, "REPLCONF capa eof capa psync2\r\n", "\r\n");
    say(&mut stream, "PSYNC ? -1\r\n", "\r\n");
    let head = say(&mut stream, "", "\r\n");
    say(&mut stream, "", head.trim_end().strip_prefix("$EOF:").expect("a mark"));
    let refused = "CLIENT REPLY OFF\r\nSET a 1\r\nPING\r\nREPLCONF ACK 0\r\n";
    stream.write_all(refused.as_bytes()).expect("it takes them");
    wait_until("the stream", || info(&mut ours, "slave0").contains("state=online"));
    assert_eq!(ask(&mut ours, &["EXISTS", "a"]), ":0\r\n");
    assert_eq!(ask(&mut ours, &["PUBLISH", "news", "one"]), ":0\r\n");
    assert_eq!(ask(&mut ours, &["SET", "b", "1"]), "+OK\r\n");
    let effects = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$3\r\none\r\n\
                   *3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n1\r\n";
    assert_eq!(say(&mut stream, "", "\r\nb\r\n$1\r\n1\r\n"), effects);
}

#[test]
fn a_snapshot_of_the_server_puts_nothing_into_the_stream() {
    let primary = primary(&["--save", "3600 1"]);
    let mut ours = primary.connect();
    let mut stream = TcpStream::connect(primary.address()).expect("it is served");
    let head = say(&mut stream, "SYNC\r\n", "\r\n");
    let length: usize = head.trim().strip_prefix('$').expect("a length").parse().expect("a number");
    stream.read_exact(&mut vec![0; length]).expect("the snapshot");
    assert_eq!(ask(&mut ours, &["SET", "a", "1"]), "+OK\r\n");
    // The snapshot of the replica may still be about to end.
    wait_until("a snapshot", || ask(&mut ours, &["SAVE"]) == "+OK\r\n");
    for words in [&["FLUSHALL"][..], &["SET", "b", "2"]] {
        assert_eq!(ask(&mut ours, words), "+OK\r\n");
    }
    let effects = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n\
                   *1\r\n$8\r\nFLUSHALL\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n2\r\n";
    assert_eq!(say(&mut stream, "", "\r\nb\r\n$1\r\n2\r\n"), effects);
}

#[test]
fn a_former_primary_with_a_higher_offset_asks_for_acks_at_once() {
    let (other, server) = (primary(&[]), primary(&[]));
    let mut ours = server.connect();
    let follower = || {
        let mut stream = TcpStream::connect(server.address()).expect("it is served");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let head = say(&mut stream, "SYNC\r\n", "\r\n");
        let length: usize = head.trim().strip_prefix('$').expect("a length").parse().expect("a number");
        stream.read_exact(&mut vec![0; length]).expect("the snapshot");
        stream
    };
    let asks = |stream: &mut TcpStream, ours: &mut Connection| {
        assert_eq!(ask(ours, &["SET", "a", "1"]), "+OK\r\n");
        // WAIT makes the primary ask for acknowledgements.
        ours.send(b"WAIT 1 1\r\n").expect("it hears");
        say(stream, "", "GETACK\r\n$1\r\n*\r\n");
        assert_eq!(ours.reply().expect("an answer"), b":0\r\n");
    };
    let mut stream = follower();
    assert_eq!(ask(&mut ours, &["SET", "large", &"x".repeat(1 << 20)]), "+OK\r\n");
    asks(&mut stream, &mut ours);
    // Of the history in which it was a primary, only the offset is left: it is ahead of the other server's.
    assert_eq!(ask(&mut ours, &["REPLICAOF", "127.0.0.1", &other.port().to_string()]), "+OK\r\n");
    wait_until("the link", || info(&mut ours, "master_link_status") == "up");
    assert_eq!(ask(&mut ours, &["REPLICAOF", "NO", "ONE"]), "+OK\r\n");
    asks(&mut follower(), &mut ours);
}

#[test]
fn keys_of_debug_populate_are_in_no_stream() {
    let primary = primary(&[]);
    let replica = replica(Kind::Redis, &primary, &[]);
    assert_same(&primary, &replica);
    let mut ours = primary.connect();
    assert_eq!(ask(&mut ours, &["DEBUG", "POPULATE", "10"]), "+OK\r\n");
    assert_eq!(ask(&mut ours, &["SET", "a", "1"]), "+OK\r\n");
    wait_until("the stream", || ask(&mut replica.connect(), &["GET", "a"]) == "$1\r\n1\r\n");
    assert_eq!(ask(&mut replica.connect(), &["DBSIZE"]), ":1\r\n");
}

#[test]
fn the_pop_of_a_blocked_client_is_in_the_stream_as_in_redis() {
    let streams = [Kind::Sleeve, Kind::Redis].map(|kind| {
        let primary = Server::start_with(kind, &["--repl-diskless-sync-delay", "0"]);
        let mut ours = primary.connect();
        let mut stream = TcpStream::connect(primary.address()).expect("it is served");
        let head = say(&mut stream, "SYNC\r\n", "\r\n");
        let length: usize = head.trim().strip_prefix('$').expect("a length").parse().expect("a number");
        stream.read_exact(&mut vec![0; length]).expect("the snapshot");
        for line in [
            "RPUSH a 1 2 3",
            "BRPOPLPUSH a b 0",
            "BLMOVE a b LEFT RIGHT 0",
            "BLPOP a 0",
            "BRPOP b 0",
            "ZADD z 1 x 2 y",
            "BZPOPMIN z 0",
            "SET end 1",
        ] {
            ask(&mut ours, &line.split(' ').collect::<Vec<_>>());
        }
        let told = say(&mut stream, "", "\r\nend\r\n$1\r\n1\r\n").to_lowercase();
        // A PING comes when it is due, also to a replica that has just connected.
        told.replace("*1\r\n$4\r\nping\r\n", "")
    });
    assert_eq!(streams[0], streams[1]);
}

#[test]
fn a_replica_that_returns_during_the_killing_transaction_loses_nothing() {
    let primary = primary(&["--workers", "2", "--repl-backlog-size", "1mb"]);
    let mut connection = primary.connect();
    // There are more replicas than workers, so some belong to a worker that does not run the transaction.
    let replicas = [(); 4].map(|()| {
        let mut stream = TcpStream::connect(primary.address()).expect("it is served");
        say(&mut stream, "REPLCONF capa eof capa psync2\r\n", "\r\n");
        let told = say(&mut stream, "PSYNC ? -1\r\n", "\r\n");
        let words: Vec<String> = told.split_whitespace().map(str::to_owned).collect();
        assert_eq!(words[0], "+FULLRESYNC", "{told}");
        (stream, words[1].clone(), words[2].parse::<u64>().expect("an offset"))
    });
    let wait = "local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end \
                local since = now() while now() - since < 1000 do end";
    ask(&mut connection, &["MULTI"]);
    ask(&mut connection, &["CLIENT", "KILL", "TYPE", "replica"]);
    ask(&mut connection, &["CONFIG", "SET", "repl-backlog-size", "16384"]);
    ask(&mut connection, &["EVAL", wait, "0"]);
    for number in 0..10 {
        ask(&mut connection, &["SET", &number.to_string(), &"x".repeat(16_384)]);
    }
    connection.send(&request(&["EXEC"])).expect("it is connected");
    for (mut stream, id, offset) in replicas {
        // The connection may be closed while bytes are sent to the replica.
        _ = stream.read_to_end(&mut Vec::new());
        let mut again = TcpStream::connect(primary.address()).expect("it is served");
        let told = say(&mut again, &format!("PSYNC {id} {}\r\n", offset + 1), "\r\n");
        assert!(told.trim_start().starts_with("+FULLRESYNC"), "{told}\n{}", primary.log());
    }
}

/// Connects a replica, and reads its snapshot.
fn follower(primary: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(primary.address()).expect("it is served");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let head = say(&mut stream, "SYNC\r\n", "\r\n");
    let length: usize = head.trim().strip_prefix('$').expect("a length").parse().expect("a number");
    stream.read_exact(&mut vec![0; length]).expect("the snapshot");
    stream
}

#[test]
fn a_message_and_restored_keys_are_in_the_stream_as_in_redis() {
    let streams = [Kind::Sleeve, Kind::Redis].map(|kind| {
        let primary = Server::start_with(kind, &["--repl-diskless-sync-delay", "0"]);
        let (mut ours, mut stream) = (primary.connect(), follower(&primary));
        for line in ["PUBLISH news 1", "SET a 1"] {
            ask(&mut ours, &line.split(' ').collect::<Vec<_>>());
        }
        let dump = ours.command(&[b"DUMP".as_slice(), b"a"]).expect("a reply");
        let dump = &dump[dump.iter().position(|byte| *byte == b'\n').expect("a length") + 1..dump.len() - 2];
        for (ttl, more) in
            [("0", "replace"), ("9999999999999", "absttl IDLETIME 7"), ("9999999999999", "FREQ 7 AbsTTL")]
        {
            ask(&mut ours, &["DEL", "b"]);
            let words = [b"restore".as_slice(), b"b", ttl.as_bytes(), dump].into_iter();
            let words: Vec<&[u8]> = words.chain(more.split(' ').map(str::as_bytes)).collect();
            assert_eq!(ours.command(&words).expect("a reply"), b"+OK\r\n", "{} {more}", kind.name());
        }
        ask(&mut ours, &["SET", "end", "1"]);
        let said = say(&mut stream, "", "\r\nend\r\n$1\r\n1\r\n");
        // A primary may say PING at any time, Redis in small letters.
        ["PING", "ping"].iter().fold(said, |said, ping| said.replace(&format!("*1\r\n$4\r\n{ping}\r\n"), ""))
    });
    assert_eq!(streams[0], streams[1]);
    assert!(streams[0].starts_with("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$7\r\nPUBLISH"), "{}", streams[0]);
}

#[test]
fn writes_with_replies_reach_replicas_before_a_role_change_cuts_them() {
    let primary = primary(&[]);
    let mut ours = primary.connect();
    for round in 0..50 {
        let mut stream = follower(&primary);
        assert_eq!(ask(&mut ours, &["SET", "first", "1"]), "+OK\r\n");
        say(&mut stream, "", "\r\nfirst\r\n$1\r\n1\r\n");
        assert_eq!(ask(&mut ours, &["SET", "a", &round.to_string()]), "+OK\r\n");
        assert_eq!(ask(&mut ours, &["REPLICAOF", "127.0.0.1", "1"]), "+OK\r\n");
        let mut told = String::new();
        stream.read_to_string(&mut told).expect("the rest, and the end");
        assert!(told.ends_with(&format!("\r\na\r\n${}\r\n{round}\r\n", round.to_string().len())), "{round}: {told}");
        assert_eq!(ask(&mut ours, &["REPLICAOF", "NO", "ONE"]), "+OK\r\n");
    }
}
