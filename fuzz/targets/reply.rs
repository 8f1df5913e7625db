//! Arbitrary bytes as replies, in pieces of any size: the end of a reply is found at the same place, and a complete reply can
//! be traversed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sleeve_wire::frame::{DEPTH_MAX, Frame, FrameError, Items, Scanner, decode, parse_double};

fuzz_target!(|data: &[u8]| {
    let [size, bytes @ ..] = data else { return };
    let whole = Scanner::new().scan(bytes);
    let cut = scan_in_pieces(bytes, usize::from(size % 32) + 1);
    // Compare only whether there is an error: of two adjacent faults the first visible one is reported, and with pieces this
    // may be the other one.
    assert_eq!(whole.map_err(drop), cut.map_err(drop), "cut every {} bytes", size % 32 + 1);
    match whole {
        Ok(Some(length)) => match decode(&bytes[..length]) {
            Ok((frame, decoded)) => {
                assert_eq!(decoded, length);
                walk(frame, 0);
            }
            Err(error) => assert_ne!(error, FrameError::Truncated, "the scanner found the end"),
        },
        Ok(None) => assert!(decode(bytes).is_err(), "the scanner asks for more"),
        Err(_) => {}
    }
});

fn scan_in_pieces(bytes: &[u8], piece: usize) -> Result<Option<usize>, FrameError> {
    let mut scanner = Scanner::new();
    let mut arrived = 0;
    while arrived < bytes.len() {
        arrived = (arrived + piece).min(bytes.len());
        if let Some(length) = scanner.scan(&bytes[..arrived])? {
            return Ok(Some(length));
        }
    }
    if bytes.is_empty() { scanner.scan(bytes) } else { Ok(None) }
}

fn walk(frame: Frame<'_>, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    match frame {
        Frame::Array(items) | Frame::Set(items) | Frame::Map(items) | Frame::Push(items) => walk_items(items, depth),
        Frame::Double(text) => drop(parse_double(text)),
        _ => {}
    }
}

fn walk_items(items: Items<'_>, depth: usize) {
    let (least, _) = items.size_hint();
    assert!(least <= 1 << 20, "a claimed length asks for memory");
    for item in items {
        let Ok(frame) = item else { return };
        walk(frame, depth + 1);
    }
}
