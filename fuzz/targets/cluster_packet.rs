//! Arbitrary bytes from a node of a cluster: packets one behind the other, each refused, or read and written back. The written
//! packet has the same content, and its first 16 bytes tell its length.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sleeve_cluster::packet::{decode, frame_length};

fuzz_target!(|bytes: &[u8]| {
    let mut stream = bytes;
    while let Ok(Some(length)) = frame_length(stream) {
        let Some((frame, rest)) = stream.split_at_checked(length) else { break };
        stream = rest;
        let Ok(packet) = decode(frame) else { break };
        let written = packet.encode();
        assert_eq!(frame_length(&written[..16]), Ok(Some(written.len())));
        assert_eq!(decode(&written).as_ref(), Ok(&packet));
    }
    // A fault or the need for more bytes shows in the beginning already.
    if let Ok(Some(length)) = frame_length(bytes) {
        assert!(length >= 24 && frame_length(&bytes[..16]) == Ok(Some(length)));
    }
});
