//! The options of a shutdown by a signal: the words of `shutdown-on-sigint` and `shutdown-on-sigterm`.
//!
//! The words are those of SHUTDOWN: each is kept as a bit, and they are shown in the order of the list; `default` stands for
//! none of them. Pure functions; any thread.

/// Write a snapshot first, regardless of `save`.
pub const SAVE: i64 = 1;
/// Write no snapshot, regardless of `save`.
pub const NO_SAVE: i64 = 2;
/// Do not wait for replicas.
pub const NOW: i64 = 4;
/// End even if the snapshot fails.
pub const FORCE: i64 = 8;

const WORDS: [(&str, i64); 5] = [("default", 0), ("save", SAVE), ("nosave", NO_SAVE), ("now", NOW), ("force", FORCE)];

/// Returns the bits of the words.
///
/// # Errors
/// The reason in Redis's words.
pub fn parse(words: &[&[u8]]) -> Result<i64, String> {
    let bit =
        |word: &&[u8]| WORDS.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word)).map(|(_, bit)| *bit);
    let bits: Option<Vec<i64>> = words.iter().map(bit).collect();
    let Some(bits) = bits.filter(|bits| !bits.is_empty()) else {
        let names = WORDS.map(|(name, _)| name).join(", ");
        return Err(format!("argument(s) must be one of the following: {names}"));
    };
    let bits = bits.into_iter().fold(0, |all, bit| all | bit);
    if bits & (SAVE | NO_SAVE) == SAVE | NO_SAVE {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    Ok(bits)
}

/// Returns the words of the bits.
pub fn show(bits: i64) -> String {
    let shown: Vec<_> = WORDS.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
    if shown.is_empty() { WORDS[0].0.to_owned() } else { shown.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        parse(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>()).map(show)
    }

    #[test]
    fn words_are_shown_in_the_order_of_the_list() {
        for (written, shown) in [
            ("force now", "now force"),
            ("default now", "now"),
            ("default default", "default"),
            ("NoSave", "nosave"),
            ("force save", "save force"),
        ] {
            assert_eq!(read(written).as_deref(), Ok(shown));
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let words = "argument(s) must be one of the following: default, save, nosave, now, force";
        for written in ["", "foo", " now", "now  force"] {
            assert_eq!(read(written), Err(words.into()));
        }
        assert_eq!(parse(&[]), Err(words.into()));
        assert!(read("save nosave").is_err_and(|reason| reason.contains("simultaneously")));
    }
}
