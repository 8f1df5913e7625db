//! Tests of CLIENT JOURNAL: the messages that a connection gets about its replies and the disk, and the cases without a
//! message.

use sleeve_disk::disk::gated::Gate;
use sleeve_server::{Config, Engine, Local, Opt};

use crate::logged::Logged;

#[test]
fn nobody_is_told_that_something_is_synced_before_it_is() {
    for workers in ["1", "3"] {
        let logged = Logged::new(&[(Opt::Workers, workers)]);
        let mut writers = [(); 4].map(|()| logged.follow());
        logged.gate.set(Gate::Closed);
        let mut shown = Vec::new();
        for (index, writer) in writers.iter_mut().enumerate() {
            assert_eq!(writer.ask(&format!("SET key:{index} value")), "+OK\r\n");
            let (offset, synced) = writer.told();
            assert!(offset > synced.expect("there is a log"), "{offset} {synced:?}");
            shown.push(offset);
        }
        logged.gate.wait_for_sync();
        for (writer, shown) in writers.iter_mut().zip(&shown) {
            assert_eq!(writer.ask("PING"), "+PONG\r\n");
            let (offset, synced) = writer.told();
            assert!(offset == *shown && synced < Some(offset), "{offset} {synced:?}");
        }
        // The waiting fsync covers at least the first write, and the next fsync covers all.
        logged.gate.set(Gate::Open);
        for (writer, shown) in writers.iter_mut().zip(shown) {
            let mut told = writer.told();
            while told.1 < Some(shown) {
                told = writer.told();
            }
            assert_eq!(told.0, shown);
            assert_eq!(writer.ask("PING"), "+PONG\r\n", "who was told that all is synced is told nothing more");
            assert_eq!(writer.told(), told);
        }
    }
}

#[test]
fn a_reply_is_covered_whoever_made_what_it_shows() {
    let logged = Logged::new(&[(Opt::Workers, "2")]);
    logged.gate.set(Gate::Closed);
    let (mut writer, mut reader, mut popper) = (logged.follow(), logged.follow(), logged.follow());
    writer.ask("SET key value");
    let (shown, _) = writer.told();
    assert_eq!(reader.ask("GET key"), "$5\r\nvalue\r\n");
    assert_eq!(reader.told().0, shown, "what it has read is not synced");
    popper.send("BLPOP list 0");
    let mut observer = logged.open();
    while !observer.ask("INFO clients").contains("blocked_clients:1\r\n") {}
    writer.ask("RPUSH list a");
    let (pushed, _) = writer.told();
    let mut frame = popper.frame();
    if frame.starts_with('>') {
        // If both keys are in the same shard, the client's lookup of the list has already shown it the first write.
        frame = popper.frame();
    }
    assert_eq!(frame, "*2\r\n$4\r\nlist\r\n$1\r\na\r\n");
    assert!(popper.told().0 > shown && pushed > shown, "what others did for it is its own");
    // A client that turns CLIENT JOURNAL on gets a message about everything that its replies have shown.
    let mut late = logged.open();
    late.ask("HELLO 3");
    late.ask("GET key");
    assert_eq!(late.ask("CLIENT JOURNAL ON"), "+OK\r\n");
    let told = late.told().0;
    assert!(told == shown || told == pushed, "{told}: the last write to the key's shard, in which the list may be too");
    let mut served = logged.open();
    served.ask("HELLO 3");
    served.send("BLPOP list 0");
    while !observer.ask("INFO clients").contains("blocked_clients:1\r\n") {}
    writer.ask("RPUSH list b");
    let (pushed, _) = writer.told();
    served.frame();
    assert_eq!(served.ask("CLIENT JOURNAL ON"), "+OK\r\n");
    assert!(served.told().0 >= pushed);
}

#[test]
fn there_is_one_message_for_a_wake_up() {
    let logged = Logged::new(&[(Opt::Workers, "1")]);
    let mut client = logged.follow();
    client.send(&vec!["INCR n"; 200].join("\r\n"));
    let (mut replies, mut messages) = (0, 0);
    while replies < 200 {
        match client.frame() {
            reply if reply.starts_with(':') => replies += 1,
            _ => messages += 1,
        }
    }
    client.told();
    assert!(messages < 20, "{messages} for 200 replies that came in a packet or a few");
}

#[test]
fn replies_that_wait_for_the_disk_come_together_with_their_offsets() {
    let logged = Logged::new(&[(Opt::Workers, "1"), (Opt::Appendfsync, "always")]);
    let (mut first, mut second) = (logged.follow(), logged.follow());
    logged.gate.set(Gate::Closed);
    first.send("SET a 1");
    logged.gate.wait_for_sync();
    second.send("SET b 1");
    first.send("PING\r\nCLIENT JOURNAL ON");
    logged.gate.set(Gate::Open);
    assert_eq!((first.frame().as_str(), second.frame().as_str()), ("+OK\r\n", "+OK\r\n"));
    let (shown, synced) = second.told();
    assert!(synced >= Some(shown), "{shown} {synced:?}");
    let mut frames = Vec::new();
    while frames.iter().filter(|frame: &&String| frame.starts_with('+')).count() < 2 {
        frames.push(first.frame());
    }
    let (shown, synced) = first.told();
    assert!(shown > 0 && synced >= Some(shown), "{shown} {synced:?}");
}

#[test]
fn a_message_behind_replies_that_wait_comes_behind_them_and_covers_them() {
    let logged = Logged::new(&[(Opt::Workers, "1"), (Opt::Appendfsync, "always")]);
    let (mut client, mut late, mut observer) = (logged.follow(), logged.open(), logged.open());
    late.ask("HELLO 3");
    logged.gate.set(Gate::Closed);
    let mut ends = Vec::new();
    for request in ["SET a 1", "SET b 2\r\nGET b", "SET c 3"] {
        client.send(request);
        // Once the write is in the journal, its replies are held back, and so are the messages after them.
        let end = ends.last().copied().unwrap_or_default();
        while logged.engine.journal.end() == end {
            std::thread::yield_now();
        }
        logged.gate.wait_for_sync();
        ends.extend(vec![logged.engine.journal.end(); request.lines().count()]);
    }
    // A client that turns CLIENT JOURNAL on while its replies are held back gets its message by a letter.
    late.send("SET d 4\r\nCLIENT JOURNAL ON");
    while !observer.ask("CLIENT LIST").contains(" cmd=client|journal ") {}
    observer.ask("PING");
    assert!(!client.is_answered() && !late.is_answered());
    let end = logged.engine.journal.end();
    logged.gate.set(Gate::Open);
    assert_eq!([late.frame(), late.frame()].join(""), "+OK\r\n+OK\r\n");
    let mut told = late.told();
    assert!(told.0 >= end, "{told:?} and {end}");
    while told.1 < Some(end) {
        told = late.told();
    }
    let (mut replies, mut told) = (Vec::new(), (0, None));
    while replies.len() < ends.len() || told.1 < ends.last().copied() {
        let frame = client.frame();
        if frame.starts_with('>') {
            told = crate::logged::numbers(&frame);
            let answered = replies.len().checked_sub(1).expect("a reply comes before what is told of it");
            assert!(told.0 >= ends[answered], "{told:?} behind {} of {ends:?}", replies.len());
        } else {
            replies.push(frame);
        }
    }
    assert_eq!(replies.join(""), "+OK\r\n+OK\r\n$1\r\n2\r\n+OK\r\n");
    assert_eq!(client.ask("PING"), "+PONG\r\n", "nothing else was told");
}

#[test]
fn who_does_not_read_is_told_once_when_it_reads_again() {
    const BIG_LEN: usize = 30_000_000;
    let logged = Logged::new(&[(Opt::Workers, "1")]);
    let (mut writer, mut slow) = (logged.open(), logged.follow());
    writer.ask(&format!("SETRANGE big {} x", BIG_LEN - 1));
    while logged.engine.persistence.synced_offset(&logged.engine) < Some(logged.engine.journal.end()) {
        std::thread::yield_now();
    }
    logged.gate.set(Gate::Closed);
    writer.ask("SET key value");
    slow.send("GET key\r\nGET big");
    for count in 0..5 {
        // Each of these writes gets its own fsync. A client that has not read the last message gets no further one.
        logged.gate.wait_for_sync();
        logged.gate.set(Gate::Open);
        let end = logged.engine.journal.end();
        while logged.engine.persistence.synced_offset(&logged.engine) < Some(end) {
            std::thread::yield_now();
        }
        logged.gate.set(Gate::Closed);
        if count < 4 {
            writer.ask("APPEND key more");
        }
    }
    logged.gate.set(Gate::Open);
    assert_eq!(slow.frame(), "$5\r\nvalue\r\n");
    assert_eq!(slow.frame().len(), BIG_LEN + format!("${BIG_LEN}\r\n\r\n").len());
    let (shown, synced) = slow.told();
    assert!(synced < Some(shown), "{shown} {synced:?}");
    let (again, synced) = slow.told();
    assert!(again == shown && synced >= Some(shown), "{again} {synced:?}");
}

#[test]
fn who_wants_no_replies_and_does_not_read_is_told_once_for_many_wake_ups() {
    const BIG_LEN: usize = 30_000_000;
    let logged = Logged::new(&[(Opt::Workers, "1")]);
    let (mut observer, mut silent) = (logged.open(), logged.follow());
    observer.ask(&format!("SETRANGE big {} x", BIG_LEN - 1));
    silent.send("CLIENT SETNAME silent\r\nGET big\r\nCLIENT REPLY OFF");
    let owed = |observer: &mut crate::logged::Conversation| {
        let list = observer.ask("CLIENT LIST");
        let row = list.lines().find(|line| line.contains(" name=silent ")).expect("it is there").to_owned();
        row.split(' ')
            .find_map(|field| field.strip_prefix("omem="))
            .expect("a field")
            .parse::<usize>()
            .expect("a number")
    };
    while owed(&mut observer) == 0 {}
    let before = owed(&mut observer);
    for count in 1..=500 {
        silent.send("INCR n");
        while observer.ask("GET n") != format!("${}\r\n{count}\r\n", count.to_string().len()) {}
    }
    assert!(owed(&mut observer) <= before + 1_000, "{} and {before}", owed(&mut observer));
    let end = logged.engine.journal.end();
    // The pending output consists of the reply to SETNAME, the value, and few messages.
    let (mut messages, mut told) = (0, (0, None));
    while told.0 < end || told.1 < Some(end) {
        let frame = silent.frame();
        if frame.starts_with('>') {
            messages += 1;
            told = crate::logged::numbers(&frame);
        }
    }
    assert!(messages < 20, "{messages}");
}

#[test]
fn where_nobody_knows_what_is_synced_that_is_told() {
    let logged = Logged::new(&[(Opt::Workers, "1")]);
    let (mut client, mut admin) = (logged.follow(), logged.open());
    logged.gate.set(Gate::Closed);
    client.ask("SET key value");
    let (shown, synced) = client.told();
    assert!(synced < Some(shown));
    assert_eq!(admin.ask("CONFIG SET appendfsync no"), "+OK\r\n");
    assert_eq!(client.told(), (shown, None));
    logged.gate.set(Gate::Open);
    assert_eq!(admin.ask("CONFIG SET appendfsync everysec appendonly no"), "+OK\r\n");
    while admin.ask("INFO persistence").contains("aof_enabled:1") {}
    client.ask("SET key other");
    assert_eq!(client.told().1, None);
    assert_eq!(admin.ask("CONFIG SET appendonly yes"), "+OK\r\n");
    while !admin.ask("INFO persistence").contains("aof_rewrite_in_progress:0") {}
    client.ask("SET key third");
    let (shown, mut synced) = client.told();
    while synced < Some(shown) {
        synced = client.told().1;
    }
}

#[test]
fn a_sync_that_failed_is_told_of_when_it_was_made_good() {
    let logged = Logged::new(&[(Opt::Workers, "1")]);
    let mut client = logged.follow();
    logged.gate.set(Gate::Failing);
    client.ask("SET key value");
    let (shown, synced) = client.told();
    assert!(synced < Some(shown));
    let mut admin = logged.open();
    while !admin.ask("INFO persistence").contains("aof_last_write_status:err") {}
    assert_eq!(client.ask("GET key"), "$5\r\nvalue\r\n");
    assert!(client.told().1 < Some(shown));
    let mut waiting = logged.open();
    waiting.send("DEL nothing\r\nWAITAOF 1 0 0");
    assert!(waiting.frame().starts_with("-MISCONF"));
    assert_eq!(waiting.frame(), "*2\r\n:1\r\n:0\r\n", "it has written nothing");
    client.send("WAITAOF 1 0 0");
    while !admin.ask("INFO clients").contains("blocked_clients:1\r\n") {}
    logged.gate.set(Gate::Open);
    let mut frame = client.frame();
    while frame.starts_with('>') {
        frame = client.frame();
    }
    assert_eq!(frame, "*2\r\n:1\r\n:0\r\n");
    let mut told = client.told();
    while told.1 < Some(shown) {
        told = client.told();
    }
}

#[test]
fn it_is_for_connections_that_speak_resp3_and_ends_with_that() {
    let logged = Logged::new(&[(Opt::Workers, "1")]);
    let (mut client, mut observer) = (logged.open(), logged.open());
    let refused =
        "-ERR CLIENT JOURNAL needs RESP3, in which a message cannot be taken for a reply: say HELLO 3 first\r\n";
    assert_eq!(client.ask("CLIENT JOURNAL ON"), refused);
    assert_eq!(client.ask("CLIENT JOURNAL OFF"), "+OK\r\n");
    assert_eq!(client.ask("CLIENT JOURNAL maybe"), "-ERR syntax error\r\n");
    let flags = |row: String| row.split(' ').find_map(|field| field.strip_prefix("flags=").map(str::to_owned));
    for ends in ["RESET", "HELLO 2", "CLIENT JOURNAL OFF"] {
        let mut client = logged.open();
        client.ask("HELLO 3");
        // CLIENT JOURNAL ON twice within a transaction: it takes effect after the transaction.
        client.send("MULTI\r\nCLIENT JOURNAL ON\r\nCLIENT JOURNAL ON\r\nEXEC");
        let answers = [client.frame(), client.frame(), client.frame(), client.frame()];
        assert_eq!(answers.join(""), "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n");
        client.told();
        assert_eq!(flags(client.ask("CLIENT INFO")).as_deref(), Some("J"));
        client.told();
        client.ask(ends);
        client.ask("SET key value");
        assert_eq!(client.ask("PING"), "+PONG\r\n", "{ends}");
        assert_eq!(flags(client.ask("CLIENT INFO")).as_deref(), Some("N"));
        // All requests are in one packet. At the end of it the client uses RESP2, so it gets no message.
        client.send("HELLO 3\r\nCLIENT JOURNAL ON\r\nRESET\r\nPING");
        let answers = [client.frame(), client.frame(), client.frame(), client.frame()];
        assert_eq!(answers[1..].join(""), "+OK\r\n+RESET\r\n+PONG\r\n");
        assert_eq!(client.ask("ECHO more"), "$4\r\nmore\r\n");
    }
    // A client with replies off still gets messages.
    let mut silent = logged.follow();
    silent.send("CLIENT REPLY OFF\r\nSET key quiet");
    let (shown, _) = silent.told();
    assert!(shown > 0);
    assert_eq!(observer.ask("GET key"), "$5\r\nquiet\r\n");
}

#[test]
fn who_begins_to_listen_behind_a_reply_that_is_held_misses_no_message() {
    let logged = Logged::new(&[(Opt::Workers, "1"), (Opt::Appendfsync, "always")]);
    let (mut listener, mut publisher) = (logged.open(), logged.open());
    assert_eq!(publisher.ask("PING"), "+PONG\r\n");
    logged.gate.set(Gate::Closed);
    listener.send("SET key value\r\nSUBSCRIBE c");
    while publisher.ask("PUBLISH c first") != ":1\r\n" {}
    logged.gate.set(Gate::Open);
    assert_eq!(listener.frame(), "+OK\r\n");
    assert_eq!(listener.frame(), "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    assert_eq!(listener.frame(), "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nfirst\r\n");
}

#[test]
fn a_session_in_the_same_process_is_told_to_ask_the_engine() {
    let engine = Engine::new(Config::default());
    let mut local = Local::open(&engine, || ());
    let mut replies = Vec::new();
    local.exchange(b"HELLO 3\r\nCLIENT JOURNAL ON\r\n", &mut replies).expect("the session lives");
    assert!(String::from_utf8_lossy(&replies).contains("-ERR CLIENT JOURNAL is for connections"));
}

#[test]
fn whoever_embeds_the_engine_is_called_when_the_disk_has_what_was_done() {
    let logged = Logged::new(&[(Opt::Workers, "1")]);
    let (mut local, mut replies) = (Local::open(&logged.engine, || ()), Vec::new());
    logged.gate.set(Gate::Closed);
    local.exchange(b"SET key value\r\n", &mut replies).expect("the session lives");
    let call = || {
        let (sender, receiver) = std::sync::mpsc::channel();
        logged
            .engine
            .persistence
            .when_synced(&logged.engine, move |is_synced| sender.send(is_synced).expect("somebody listens"));
        receiver
    };
    let (first, second) = (call(), call());
    logged.gate.wait_for_sync();
    assert!(first.try_recv().is_err() && second.try_recv().is_err(), "nothing is synced yet");
    logged.gate.set(Gate::Open);
    assert_eq!((first.recv(), second.recv()), (Ok(true), Ok(true)));
    assert_eq!(call().recv(), Ok(true), "what is synced already is so at once");
    logged.gate.set(Gate::Closed);
    local.exchange(b"SET key other\r\n", &mut replies).expect("the session lives");
    let waiting = call();
    local.exchange(b"CONFIG SET appendfsync no\r\n", &mut replies).expect("the session lives");
    assert_eq!(waiting.recv(), Ok(false), "nobody will ever know");
    assert_eq!(call().recv(), Ok(false));
}
