//! Arbitrary bytes as a configuration file: the server accepts the file or refuses it with a reason, and an accepted
//! configuration can be written back.
//!
//! Lines that include other files are left out: the machine's files are not part of the input.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sleeve_server::config::arguments::Arguments;
use sleeve_server::config::load::load;
use sleeve_server::config::{Config, file, rewrite};

fuzz_target!(|data: &[u8]| {
    let lines = file::parse(data);
    for bad in lines.iter().filter_map(|line| line.as_ref().err()) {
        assert!(!bad.reason.is_empty(), "a refusal has a reason");
    }
    if lines.iter().flatten().any(|line| line.words.first().is_some_and(|word| word.eq_ignore_ascii_case(b"include"))) {
        return;
    }
    let Some(config) = loaded(data) else { return };
    let rewritten = rewrite::merge(&config, &[], data);
    let again = loaded(&rewritten).unwrap_or_else(|| panic!("refused: {}", String::from_utf8_lossy(&rewritten)));
    assert_eq!(everything(&config), everything(&again), "{}", String::from_utf8_lossy(&rewritten));
});

/// Returns the options that the text sets; none if it is refused.
fn loaded(text: &[u8]) -> Option<Config> {
    let config = Config::default();
    let arguments = Arguments { standard_input: true, ..Arguments::default() };
    match load(&config, &arguments, text) {
        Ok(_) => Some(config),
        Err(error) => {
            assert!(!error.to_string().is_empty(), "a refusal has a reason");
            None
        }
    }
}

fn everything(config: &Config) -> Vec<(Vec<u8>, Vec<u8>)> {
    config.get([b"*".as_slice()])
}
