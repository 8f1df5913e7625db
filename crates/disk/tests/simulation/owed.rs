//! What a server owes those whom it has told that their writes are there, and whether they are.

/// What has to be there at the next start.
#[derive(Debug, Default)]
pub struct Owed {
    /// After a power cut.
    pub durable: Vec<usize>,
    /// After the death of the process.
    pub written: Vec<usize>,
    /// All that may be there.
    pub done: Vec<usize>,
    /// Whether a sync has failed and nobody has healed. A process that begins there reads what is not on the disk, and no
    /// later sync tells: only the power's going shows it.
    pub is_hurt: bool,
}

/// What was found is what was done, as far as it goes, and goes as far as was promised.
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
