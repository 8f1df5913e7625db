//! Tests of the link: a scripted primary sends its replies byte by byte, and in pieces of other sizes.

use super::*;
use crate::host::dice::Dice;

const ID: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba98";

fn introduction() -> Introduction {
    Introduction { port: 6_379, version: "7.2.0", ..Introduction::default() }
}

fn id(text: &str) -> Id {
    Id::parse(text.as_bytes()).expect("forty digits")
}

/// The bytes that a link sends, its events, and the bytes that it leaves, for input in pieces of one size.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    said: String,
    events: Vec<String>,
    dump: Vec<u8>,
    stream: Vec<u8>,
    broken: Option<LinkError>,
}

fn hear(introduction: Introduction, bytes: &[u8], step: usize) -> Heard {
    let (mut heard, mut out) = (Heard::default(), Vec::new());
    let mut link = Link::begin(introduction, &mut out);
    for chunk in bytes.chunks(step) {
        let mut rest = chunk;
        while heard.broken.is_none() {
            match link.receive(rest, &mut out) {
                Ok((used, event)) => {
                    rest = &rest[used..];
                    match event {
                        None if used == 0 => break,
                        None => {}
                        Some(Event::Part(part)) => heard.dump.extend_from_slice(part),
                        Some(event) => heard.events.push(format!("{event:?}")),
                    }
                }
                Err(broken) => heard.broken = Some(broken),
            }
        }
        if link.is_streaming() {
            heard.stream.extend_from_slice(rest);
        }
    }
    heard.said = String::from_utf8(out).expect("text");
    heard
}

/// Returns the words of the requests, without their protocol.
fn words(requests: &str) -> String {
    let lines = requests.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$']));
    lines.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_primary_is_greeted_introduced_to_and_asked_for_everything() {
    let answers =
        format!("+PONG\r\n+OK\r\n+OK\r\n-ERR Unrecognized REPLCONF option: version\r\n\n\n+FULLRESYNC {ID} 17\r\n");
    let bytes = [answers.as_bytes(), b"\n\n$5\r\nREDIS*1\r\n$4\r\nPING\r\n"].concat();
    for step in [1, 3, 40, 1_000] {
        let heard = hear(introduction(), &bytes, step);
        let expected = "PING REPLCONF listening-port 6379 REPLCONF capa eof capa psync2 capa rdb13 REPLCONF version 7.2.0 PSYNC ? -1";
        assert_eq!(words(&heard.said), expected);
        assert_eq!(heard.broken, None);
        let events = [
            "Note(\"MASTER does not know REPLCONF version: -ERR Unrecognized REPLCONF option: version\")".to_owned(),
            format!("Anew {{ id: {ID}, offset: 17 }}"),
            "DumpBegins(Bytes(5))".to_owned(),
            "DumpEnds".to_owned(),
        ];
        assert_eq!(heard.events, events);
        assert_eq!(
            (heard.dump.as_slice(), heard.stream.as_slice()),
            (b"REDIS".as_slice(), b"*1\r\n$4\r\nPING\r\n".as_slice())
        );
    }
}

#[test]
fn a_primary_with_a_password_is_told_who_speaks_and_what_is_had_already() {
    let own = Introduction {
        credentials: Some((Some(b"app".to_vec()), b"secret".to_vec())),
        address: Some(b"10.0.0.7".to_vec()),
        has: Some((id(ID), 99)),
        ..introduction()
    };
    let bytes =
        format!("-NOAUTH Authentication required.\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+CONTINUE {OTHER}\r\n*1\r\n");
    let heard = hear(own.clone(), bytes.as_bytes(), 7);
    let expected = format!(
        "PING AUTH app secret REPLCONF listening-port 6379 REPLCONF ip-address 10.0.0.7 REPLCONF capa eof capa psync2 \
         capa rdb13 REPLCONF version 7.2.0 PSYNC {ID} 100"
    );
    assert_eq!(words(&heard.said), expected);
    assert_eq!(heard.events, [format!("Continues(Some({OTHER}))")]);
    assert_eq!(heard.stream, b"*1\r\n");
    let refused = hear(own, b"+PONG\r\n-WRONGPASS invalid username-password pair\r\n", 100);
    assert!(refused.broken.expect("no way in").reason.starts_with("Unable to AUTH"));
}

#[test]
fn a_dump_without_a_length_ends_at_its_mark_however_it_is_split() {
    let mark = "m".repeat(20) + &"M".repeat(20);
    let head = format!("+PONG\r\n+OK\r\n+OK\r\n+OK\r\n+FULLRESYNC {ID} 0\r\n$EOF:{mark}\r\n");
    // Bytes that look like the mark's beginning belong to the dump.
    let dump = [vec![b'x'; 100], vec![b'm'; 55], vec![b'M'; 19], b"end".to_vec()].concat();
    for dump in [dump.as_slice(), b"", b"m", &[b'm'; 39]] {
        let bytes = [head.as_bytes(), dump, mark.as_bytes(), b"*1\r\n$4\r\nPING\r\n"].concat();
        for step in (1..100).chain([1_000]) {
            let heard = hear(introduction(), &bytes, step);
            assert_eq!(heard.broken, None);
            assert_eq!(
                (heard.dump.as_slice(), heard.stream.as_slice()),
                (dump, b"*1\r\n$4\r\nPING\r\n".as_slice()),
                "{step}"
            );
            assert_eq!(heard.events[1..], ["DumpBegins(Unknown)", "DumpEnds"]);
        }
    }
}

#[test]
fn what_no_primary_says_ends_the_link_with_a_reason() {
    let greeted = "+PONG\r\n+OK\r\n+OK\r\n+OK\r\n";
    let anew = format!("{greeted}+FULLRESYNC {ID} 5\r\n");
    let cases = [
        ("HTTP/1.1 400 Bad Request\r\n".to_owned(), Fault::Foreign, "no answer of a primary"),
        ("-ERR whatever\r\n".to_owned(), Fault::Passing, "answers PING with an error"),
        ("x".repeat(2_000), Fault::Foreign, "does not end"),
        (format!("{greeted}+CONTINUE {ID}\r\n"), Fault::Foreign, "no answer of a primary"),
        (format!("{greeted}+FULLRESYNC short 5\r\n"), Fault::Foreign, "no answer of a primary"),
        (format!("{greeted}+FULLRESYNC {ID} -5\r\n"), Fault::Foreign, "no answer of a primary"),
        (format!("{greeted}+FULLRESYNC {ID} 99999999999999999999\r\n"), Fault::Foreign, "no answer of a primary"),
        (format!("{greeted}-ERR unknown command 'PSYNC'\r\n"), Fault::Foreign, "does not serve replicas"),
        (
            format!("{greeted}-NOMASTERLINK Can't SYNC while not connected with my master\r\n"),
            Fault::Passing,
            "cannot serve",
        ),
        (format!("{anew}-ERR cannot fork\r\n"), Fault::Passing, "given the synchronization up"),
        (format!("{anew}$EOF:short\r\n"), Fault::Foreign, "does not have 40 bytes"),
        (format!("{anew}$-1\r\n"), Fault::Foreign, "no dump begins with"),
        (format!("{anew}REDIS0011\r\n"), Fault::Foreign, "no dump begins with"),
    ];
    for (bytes, fault, reason) in cases {
        let broken = hear(introduction(), bytes.as_bytes(), 11).broken.expect("it is over");
        assert!(broken.reason.contains(reason) && broken.fault == fault, "{broken:?} {reason}");
    }
}

#[test]
fn nothing_that_a_foreigner_says_is_kept_or_breaks_anything() {
    let dice = Dice::new(7);
    let head = format!("+PONG\r\n+OK\r\n+OK\r\n+OK\r\n+FULLRESYNC {ID} 5\r\n$9000000000000000000\r\n");
    for round in 0..2_000 {
        let mut bytes = head.as_bytes().to_vec();
        for _ in 0..dice.number() % 4 {
            let at = (dice.number() % bytes.len() as u64) as usize;
            bytes[at] = dice.number() as u8;
        }
        bytes.extend((0..dice.number() % 300).map(|_| dice.number() as u8));
        let whole = hear(introduction(), &bytes, 10_000);
        let parts = hear(introduction(), &bytes, 1 + round % 17);
        assert_eq!((whole.events, whole.broken), (parts.events, parts.broken));
        assert!(whole.dump.len() <= bytes.len());
    }
}
