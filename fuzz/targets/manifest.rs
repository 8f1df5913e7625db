//! Arbitrary bytes as the manifest of an AOF: it is refused, or read and written back. The written manifest has the same
//! content.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sleeve_disk::format::manifest::Manifest;

fuzz_target!(|bytes: &[u8]| {
    let Ok((manifest, _)) = Manifest::parse(bytes) else { return };
    let written = manifest.to_bytes();
    let fits = written.split(|&byte| byte == b'\n').all(|line| line.len() < 1024);
    if written.is_empty() || !fits {
        // The manifest has only comments, or names that are too long for a line after they are quoted.
        return;
    }
    let (again, told) = Manifest::parse(&written).expect("our own manifest is one");
    assert_eq!(
        (&again.base, &again.increments, &again.history),
        (&manifest.base, &manifest.increments, &manifest.history)
    );
    let own = |sentence: &String| sentence.contains("as a server writes it");
    assert!(!told.iter().any(own), "{told:?}");
});
