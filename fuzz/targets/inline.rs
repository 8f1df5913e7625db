//! Arbitrary bytes as one inline line: the words of a split line can be quoted, and split again into the same words.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sleeve_wire::inline::split;
use sleeve_wire::request::{Batch, Limits, Parser};

fuzz_target!(|data: &[u8]| {
    let Some(words) = words(data) else { return };
    let mut line = Vec::new();
    for word in &words {
        line.extend_from_slice(b" \"");
        for byte in word {
            line.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
        line.push(b'"');
    }
    let mut bytes = line.clone();
    bytes.extend_from_slice(b"\r\n");
    assert_eq!(split_words(&line).as_ref(), Some(&words));
    let mut batch = Batch::new();
    let consumed = Parser::new().parse(&bytes, &Limits::default(), &mut batch).expect("quoted words are a request");
    assert_eq!(consumed, bytes.len());
    if words.is_empty() {
        assert_eq!(batch.len(), 0);
    } else {
        let parsed: Vec<Vec<u8>> = batch.get(0, &bytes).iter().map(<[u8]>::to_vec).collect();
        assert_eq!(parsed, words);
    }
});

/// Returns the words of the line; none if its quotes are unbalanced.
fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let words = split_words(line)?;
    let taken: usize = words.iter().map(Vec::len).sum();
    assert!(taken <= line.len(), "words are longer than their line");
    Some(words)
}

fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut out, mut spans) = (Vec::new(), Vec::new());
    if !split(line, &mut out, &mut spans) {
        return None;
    }
    Some(spans.iter().map(|span| out[span.start as usize..][..span.len as usize].to_vec()).collect())
}
