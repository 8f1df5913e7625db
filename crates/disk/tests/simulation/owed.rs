//! The promises of a server to its clients about their writes, and whether they are kept.

/// The pieces that have to be there at the next start.
#[derive(Debug, Default)]
pub struct Owed {
    /// The pieces that must survive a power cut.
    pub durable: Vec<usize>,
    /// The pieces that must survive the death of the process.
    pub written: Vec<usize>,
    /// All pieces that were appended: any of them may be there.
    pub done: Vec<usize>,
    /// True if a sync has failed and the AOF was not healed. A process that begins there reads bytes that are not on the
    /// disk, and no later sync tells: only a power cut shows it.
    pub is_hurt: bool,
}

/// Checks that the pieces found are a prefix of those done, and that none of those promised is missing.
pub fn check(found: &[usize], promised: &[usize], done: &[usize]) -> Result<(), String> {
    if found.len() < promised.len() {
        return Err(format!("{} pieces were promised, {} are there", promised.len(), found.len()));
    }
    match found.iter().zip(done).position(|(found, done)| found != done) {
        Some(at) => Err(format!("piece {} stands where piece {} was written", found[at], done[at])),
        None if found.len() > done.len() => Err("more is there than was written".to_owned()),
        None => Ok(()),
    }
}
