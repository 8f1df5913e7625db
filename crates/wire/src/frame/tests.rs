//! Frames whole and in pieces, and bytes that are no frame.

use super::*;

const SAMPLES: &[&[u8]] = &[
    b"+OK\r\n",
    b"-ERR no such thing\r\n",
    b":-9223372036854775808\r\n",
    b"$5\r\nhe\r\no\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n_\r\n+x\r\n",
    b"%2\r\n+a\r\n:1\r\n+b\r\n~1\r\n#t\r\n",
    b"|1\r\n+ttl\r\n:9\r\n$1\r\nv\r\n",
    b"=7\r\ntxt:abc\r\n",
    b"!5\r\nERR x\r\n",
    b",3.25\r\n",
    b",-inf\r\n",
    b"(123456789012345678901234567890\r\n",
    b">2\r\n+message\r\n+hello\r\n",
    b"#f\r\n",
];

#[test]
fn a_short_string_is_read_at_once_and_all_else_is_left_to_the_scanner() {
    for length in 0..110 {
        let frame = [format!("${length}\r\n").as_bytes(), &vec![b'x'; length], b"\r\n"].concat();
        let expected = (length < 100).then_some((frame.len() - length - 2, frame.len()));
        assert_eq!(short_bulk(&[&frame[..], b"+next\r\n"].concat()), expected);
        assert!((0..frame.len()).all(|cut| short_bulk(&frame[..cut]).is_none()), "{length}");
    }
    for sample in SAMPLES.iter().filter(|sample| !sample.starts_with(b"$")) {
        assert_eq!(short_bulk(sample), None);
    }
    for odd in [b"$-1\r\n".as_slice(), b"$1\r\nab\r\n", b"$1\nab\r\n", b"$x\r\nab\r\n", b"$1x\r\nab\r\n"] {
        assert_eq!(short_bulk(odd), None);
    }
}

#[test]
fn a_frame_ends_where_it_ends_however_it_arrives() {
    for sample in SAMPLES {
        let mut scanner = Scanner::new();
        let mut followed = sample.to_vec();
        followed.extend_from_slice(b"+next\r\n");
        assert_eq!(scanner.scan(&followed), Ok(Some(sample.len())));
        for cut in 0..sample.len() {
            assert_eq!(scanner.scan(&sample[..cut]), Ok(None), "{:?} cut at {cut}", sample.escape_ascii());
            assert_eq!(scanner.scan(sample), Ok(Some(sample.len())));
        }
        for byte in 1..sample.len() {
            assert_eq!(scanner.scan(&sample[..byte]), Ok(None));
        }
        assert_eq!(scanner.scan(sample), Ok(Some(sample.len())));
        assert_eq!(decode(&followed).map(|(_, length)| length), Ok(sample.len()));
        assert_eq!(decode_whole(sample), decode(sample).map(|(frame, _)| frame));
    }
}

#[test]
fn decoding_gives_the_parts() {
    let (frame, _) = decode(b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n_\r\n+x\r\n").unwrap();
    let Frame::Array(items) = frame else { panic!("not an array: {frame:?}") };
    let parts: Vec<_> = items.map(|item| item.unwrap()).collect();
    assert_eq!(parts[0], Frame::Integer(1));
    assert_eq!(parts[2], Frame::Simple(b"x"));
    let Frame::Array(inner) = parts[1] else { panic!("not an array") };
    assert_eq!(inner.map(|item| item.unwrap()).collect::<Vec<_>>(), [Frame::Bulk(b"a"), Frame::Null]);
    assert_eq!(decode(b"|1\r\n+ttl\r\n:9\r\n$1\r\nv\r\n").unwrap().0, Frame::Bulk(b"v"));
    assert_eq!(decode(b"=7\r\ntxt:abc\r\n").unwrap().0, Frame::Verbatim { format: b"txt", text: b"abc" });
    assert_eq!(decode(b"!5\r\nERR x\r\n").unwrap().0, Frame::Error(b"ERR x"));
    assert_eq!(decode(b":-9223372036854775808\r\n").unwrap().0, Frame::Integer(i64::MIN));
}

#[test]
fn nonsense_is_refused() {
    for bad in [
        &b"?\r\n"[..],
        b"$x\r\n",
        b"$3\r\nabcd\r\n",
        b"*-2\r\n",
        b"$99999999999999999999\r\n",
        b"+a\rb\r\n",
        b"|-1\r\n",
    ] {
        assert!(Scanner::new().scan(bad).is_err(), "{:?}", bad.escape_ascii());
    }
    assert_eq!(Scanner::new().scan(b"?x\r\n"), Err(FrameError::UnknownType(b'?')));
    assert_eq!(Scanner::new().scan(b"?1\r\n"), Err(FrameError::UnknownType(b'?')));
    assert_eq!(decode(b":12x\r\n"), Err(FrameError::BadNumber));
    assert_eq!(decode(b"#x\r\n"), Err(FrameError::BadNumber));
    assert_eq!(decode(b"=2\r\nab\r\n"), Err(FrameError::BadBulk));
    assert_eq!(decode(b"$5\r\nab"), Err(FrameError::Truncated));
}

#[test]
fn a_claim_costs_nothing_and_deep_nesting_does_not_recurse() {
    assert_eq!(Scanner::new().scan(b"*4000000000\r\n"), Ok(None));
    assert_eq!(decode(b"*4000000000\r\n"), Err(FrameError::Truncated));
    let mut deep = b"*1\r\n".repeat(100_000);
    deep.extend_from_slice(b":1\r\n");
    assert_eq!(Scanner::new().scan(&deep), Ok(Some(deep.len())));
}

#[test]
fn an_unfinished_frame_says_how_long_it_is_at_least() {
    let length_min = |bytes: &[u8]| {
        let mut scanner = Scanner::new();
        assert_eq!(scanner.scan(bytes), Ok(None), "{:?}", bytes.escape_ascii());
        scanner.length_min(bytes)
    };
    assert_eq!(length_min(b"$1000\r\nabc"), 1000 + 9);
    assert_eq!(length_min(b"+half"), 5);
    // Each element that is still to come takes at least three bytes.
    assert_eq!(length_min(b"*1000\r\n"), 7 + 999 * 3);
    assert_eq!(length_min(b"*3\r\n:1\r\n$500\r\n"), 14 + 502 + 3);
    assert_eq!(length_min(b"|1\r\n+a\r\n"), 8 + 3);
    assert_eq!(length_min(b"$1099511627776\r\n"), (1 << 40) + 18);
    // The lengths of nested frames add up, and never wrap around.
    assert_eq!(length_min(&b"*4294967295\r\n".repeat(3)), 39 + 3 * (3 * 4_294_967_295 - 3));
    assert_eq!(length_min(b""), 0);
}

#[test]
fn a_walk_meets_everything_once_and_aggregates_ahead_of_their_elements() {
    let bytes = b"*3\r\n:1\r\n%1\r\n+a\r\n|1\r\n+x\r\n*1\r\n:7\r\n~2\r\n#t\r\n_\r\n$1\r\nz\r\n";
    let (Frame::Array(items), length) = decode(bytes).unwrap() else { panic!("an array") };
    assert_eq!(length, bytes.len());
    let met: Vec<String> = items
        .walk()
        .map(|frame| match frame.unwrap() {
            Frame::Map(items) => format!("map {}", items.len()),
            Frame::Set(items) => format!("set {}", items.len()),
            other => format!("{other:?}"),
        })
        .collect();
    let named = ["Integer(1)", "map 2", "Simple([97])", "set 2", "Boolean(true)", "Null", "Bulk([122])"];
    assert_eq!(met, named);
}
