//! A false primary: its bytes break nothing, the log tells of them, and the replica's data is still there.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use sleeve_tests::{Kind, Server};

use super::{caught_up, follow, info, primary, replica};
use sleeve_tests::probe::{ask, digest, fill, wait_until};

pub const ID: &str = "0123456789abcdef0123456789abcdef01234567";

/// Answers the first connection with these bytes, behind a valid handshake, and does the same for each later one.
pub fn serve(listener: &TcpListener, answer: &[u8], rounds: usize) {
    for _ in 0..rounds {
        let (mut peer, _) = listener.accept().expect("a replica");
        greet(&mut peer);
        // The replica may have closed the connection in between.
        _ = peer.write_all(answer);
        _ = peer.shutdown(std::net::Shutdown::Write);
        _ = peer.read_to_end(&mut Vec::new());
    }
}

/// Answers all requests of a replica before the stream begins, and returns them.
pub fn greet(peer: &mut TcpStream) -> String {
    peer.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let (mut heard, mut bytes) = (Vec::new(), [0; 4_096]);
    let mut answered = 0;
    while !heard.windows(5).any(|word| word == b"PSYNC") {
        let count = peer.read(&mut bytes).expect("a replica speaks");
        assert_ne!(count, 0, "a replica speaks");
        heard.extend_from_slice(&bytes[..count]);
        let requests = heard.iter().filter(|byte| **byte == b'*').count();
        let replies = (answered..requests).filter(|number| *number < 4);
        let text: String = replies.map(|number| if number == 0 { "+PONG\r\n" } else { "+OK\r\n" }).collect();
        answered = requests;
        peer.write_all(text.as_bytes()).expect("a replica listens");
    }
    String::from_utf8_lossy(&heard).into_owned()
}

/// Returns the dump of an empty server.
pub fn empty_dump() -> Vec<u8> {
    let server = Server::start(Kind::Redis);
    ask(&mut server.connect(), &["SAVE"]);
    std::fs::read(server.folder().join("dump.rdb")).expect("a dump")
}

#[test]
fn invalid_replies_of_a_primary_change_no_data_and_are_logged() {
    let (good, replica) = (primary(Kind::Redis), replica(&[]));
    fill(&good);
    follow(&replica, &good);
    caught_up(&replica, &good);
    let held = digest(&replica);
    let dump = empty_dump();
    let mut damaged = dump.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    let anew = format!("+FULLRESYNC {ID} 7\r\n");
    let with = |head: String, dump: &[u8]| [head.as_bytes(), dump].concat();
    let cases = [
        (b"+WHATEVER\r\n".to_vec(), "no answer of a primary"),
        (with(format!("{anew}$1000000000000\r\n"), b"REDIS0010"), "closed the connection"),
        (with(format!("{anew}$9\r\n"), b"XXXXX0010"), "cannot be loaded"),
        (with(format!("{anew}${}\r\n", damaged.len()), &damaged), "cannot be loaded"),
        (with(format!("{anew}$40\r\n"), &dump[..40]), "cannot be loaded"),
        (with(format!("{anew}*1\r\n"), b""), "no dump begins with"),
    ];
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("it is bound").port().to_string();
    for (answer, reason) in cases {
        std::thread::scope(|threads| {
            threads.spawn(|| serve(&listener, &answer, 2));
            ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", &port]);
            wait_until(reason, || replica.log().matches(reason).count() >= 2);
            // REPLICAOF with another primary begins a new link, without the pause of the old one.
            ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", "1"]);
        });
        assert_eq!(digest(&replica), held, "{reason}");
        // So often it has to be there for the next case.
        std::fs::write(replica.folder().join("server.log"), "").expect("a log");
    }
    follow(&replica, &good);
    caught_up(&replica, &good);
    assert_eq!(digest(&replica), held);
}

#[test]
fn a_dump_that_is_cut_is_asked_for_again_soon_however_often() {
    let replica = replica(&[]);
    let dump = empty_dump();
    let answer = [format!("+FULLRESYNC {ID} 7\r\n${}\r\n", dump.len()).as_bytes(), &dump[..dump.len() / 2]].concat();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("it is bound").port().to_string();
    std::thread::scope(|threads| {
        threads.spawn(|| serve(&listener, &answer, 4));
        ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", &port]);
        wait_until("it is tried again and again", || replica.log().matches("closed the connection").count() >= 4);
        ask(&mut replica.connect(), &["REPLICAOF", "NO", "ONE"]);
    });
    let log = replica.log();
    let soon = log.lines().filter(|line| line.contains("It is tried again in") && line.ends_with(" ms"));
    assert_eq!(soon.count(), 4, "{log}");
}

#[test]
fn a_stream_that_cannot_be_applied_ends_the_link_with_a_full_sync() {
    let dump = empty_dump();
    for (stream, reason) in [
        (&b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*1\r\n$7\r\nNOTHING\r\n"[..], "NOTHING"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$5\r\nRPUSH\r\n$1\r\na\r\n", "wrong number"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\nSET a 2\r\n", "no request"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*1\r\n$x\r\n", "Protocol error"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*1\r\n$4\r\nEXEC\r\n", "MULTI and EXEC"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n", "no primary"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nSYNC\r\n", "no primary"),
    ] {
        let replica = replica(&[]);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("it is bound").port().to_string();
        let head = format!("+FULLRESYNC {ID} 7\r\n${}\r\n", dump.len());
        let answer = [head.as_bytes(), &dump, stream].concat();
        std::thread::scope(|threads| {
            threads.spawn(|| serve(&listener, &answer, 2));
            ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", &port]);
            wait_until(reason, || replica.log().matches("All data will be asked for").count() >= 2);
            ask(&mut replica.connect(), &["REPLICAOF", "NO", "ONE"]);
        });
        assert!(replica.log().contains(reason), "{reason}\n{}", replica.log());
        assert_eq!(info(&replica, "master_repl_offset"), (7 + 27).to_string(), "what was good has counted");
        assert_eq!(ask(&mut replica.connect(), &["GET", "a"]), "$1\r\n1\r\n");
    }
}

#[test]
fn a_former_primary_that_cannot_apply_a_stream_asks_for_a_full_sync() {
    let (server, follower) = (replica(&["--repl-diskless-sync-delay", "0"]), primary(Kind::Redis));
    follow(&follower, &server);
    caught_up(&follower, &server);
    let id = info(&server, "master_replid");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("it is bound").port().to_string();
    let asked = std::thread::scope(|threads| {
        let serves = threads.spawn(|| {
            [(); 2].map(|()| {
                let (mut peer, _) = listener.accept().expect("a replica");
                let asked = greet(&mut peer);
                _ = peer.write_all(b"+CONTINUE\r\n*1\r\n$7\r\nNOTHING\r\n");
                asked
            })
        });
        ask(&mut server.connect(), &["REPLICAOF", "127.0.0.1", &port]);
        serves.join().expect("it comes twice")
    });
    assert!(asked[0].contains(&format!("PSYNC\r\n$40\r\n{id}")), "{asked:?}");
    assert!(asked[1].contains("PSYNC\r\n$1\r\n?\r\n"), "{asked:?}");
}
