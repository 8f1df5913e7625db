//! Any bytes as the manifest of an AOF: refused, or read, and then written so that it is read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sleeve_disk::format::manifest::Manifest;

fuzz_target!(|bytes: &[u8]| {
    let Ok((manifest, _)) = Manifest::parse(bytes) else { return };
    let written = manifest.to_bytes();
    let fits = written.split(|&byte| byte == b'\n').all(|line| line.len() < 1024);
    if written.is_empty() || !fits {
        // Only comments, or names that no line holds once they are quoted.
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
