//! Arbitrary bytes as requests, in pieces of any size: the parser returns the same requests and the same error for every
//! size.
//!
//! The first byte selects the limits, and the second is the size of the pieces; the rest is the client's bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sleeve_wire::request::{Batch, Limits, Parser};

/// All requests in the bytes, and the error that ends them.
type Outcome = (Vec<Vec<Vec<u8>>>, Option<String>);

fuzz_target!(|data: &[u8]| {
    let [choice, size, bytes @ ..] = data else { return };
    let limits = Limits {
        bulk_len_max: if choice & 1 == 0 { 512 << 20 } else { 64 },
        args_max: if choice & 2 == 0 { 1 << 20 } else { 3 },
        authenticated: choice & 4 == 0,
        requests_max: if choice & 8 == 0 { usize::MAX } else { 1 },
    };
    let whole = outcome(bytes, bytes.len().max(1), &limits);
    let cut = outcome(bytes, usize::from(size % 32) + 1, &limits);
    assert_eq!(whole, cut, "cut every {} bytes", size % 32 + 1);
});

fn outcome(bytes: &[u8], piece: usize, limits: &Limits) -> Outcome {
    let (mut parser, mut batch) = (Parser::new(), Batch::new());
    let (mut waiting, mut requests) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        waiting.extend_from_slice(piece);
        loop {
            let parsed = parser.parse(&waiting, limits, &mut batch);
            for index in 0..batch.len() {
                requests.push(batch.get(index, &waiting).iter().map(<[u8]>::to_vec).collect());
            }
            let had_some = batch.len() > 0;
            batch.clear();
            match parsed {
                Ok(consumed) => {
                    assert!(consumed <= waiting.len(), "more was consumed than there is");
                    waiting.drain(..consumed);
                    if !had_some || consumed == 0 {
                        break;
                    }
                }
                Err(error) => return (requests, Some(format!("{error:?}"))),
            }
        }
    }
    (requests, None)
}
