//! Replies in both protocols, byte for byte.

use sleeve_wire::frame::LINE_LENGTH_MAX;
use sleeve_wire::reply::{Protocol, Writer};

fn both(write: impl Fn(&mut Writer<'_>)) -> (String, String) {
    let text = |protocol| {
        let mut out = Vec::new();
        write(&mut Writer::new(&mut out, protocol));
        String::from_utf8(out).expect("text")
    };
    (text(Protocol::Resp2), text(Protocol::Resp3))
}

#[track_caller]
fn same(write: impl Fn(&mut Writer<'_>), expected: &str) {
    assert_eq!(both(write), (expected.to_string(), expected.to_string()));
}

#[track_caller]
fn differ(write: impl Fn(&mut Writer<'_>), resp2: &str, resp3: &str) {
    assert_eq!(both(write), (resp2.to_string(), resp3.to_string()));
}

#[test]
fn what_both_protocols_share() {
    same(|w| w.ok(), "+OK\r\n");
    same(|w| w.simple("PONG"), "+PONG\r\n");
    same(|w| w.error("ERR a\r\nb"), "-ERR a  b\r\n");
    same(|w| w.bulk(b""), "$0\r\n\r\n");
    same(|w| w.bulk(&[b'x'; 100]), &format!("$100\r\n{}\r\n", "x".repeat(100)));
    same(|w| w.bulk_integer(-1), "$2\r\n-1\r\n");
    same(|w| w.bulk_double(1.5), "$3\r\n1.5\r\n");
    same(|w| w.bulk_or_null(Some(b"a")), "$1\r\na\r\n");
    same(|w| w.array(0), "*0\r\n");
    same(
        |w| {
            w.bulk_header(2);
            w.out.extend_from_slice(b"ab");
            w.bulk_end();
        },
        "$2\r\nab\r\n",
    );
    for value in [0, 9, 10, 99, 100, -1, -10, 12345, i64::MAX, i64::MIN] {
        same(|w| w.integer(value), &format!(":{value}\r\n"));
    }
}

#[test]
fn what_the_protocols_say_differently() {
    differ(|w| w.null(), "$-1\r\n", "_\r\n");
    differ(|w| w.bulk_or_null(None), "$-1\r\n", "_\r\n");
    differ(|w| w.null_array(), "*-1\r\n", "_\r\n");
    differ(|w| w.map(12), "*24\r\n", "%12\r\n");
    differ(|w| w.set(3), "*3\r\n", "~3\r\n");
    differ(|w| w.push(3), "*3\r\n", ">3\r\n");
    differ(|w| w.boolean(true), ":1\r\n", "#t\r\n");
    differ(|w| w.boolean(false), ":0\r\n", "#f\r\n");
    differ(|w| w.double(2.5), "$3\r\n2.5\r\n", ",2.5\r\n");
    differ(|w| w.double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n");
    differ(|w| w.big_number("123"), "$3\r\n123\r\n", "(123\r\n");
    differ(|w| w.verbatim(b"txt", b"hello"), "$5\r\nhello\r\n", "=9\r\ntxt:hello\r\n");
    differ(|w| _ = w.attribute(1), "", "|1\r\n");
}

#[test]
fn no_line_is_longer_than_readers_of_lines_bear() {
    let long = "x".repeat(LINE_LENGTH_MAX + 1);
    same(|w| w.error(&long), &format!("-{}\r\n", "x".repeat(LINE_LENGTH_MAX)));
    same(|w| w.simple(&long), &format!("+{}\r\n", "x".repeat(LINE_LENGTH_MAX)));
}
