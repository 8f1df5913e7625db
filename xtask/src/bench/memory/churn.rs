//! Memory after long use: values that come, go and change their sizes, until most of them are deleted.
//!
//! After the churn a server holds the same data as another one that receives it afresh. The difference is memory between its
//! values that cannot be used. Options for active defragmentation stay at each server's defaults.

use super::super::builds::Builds;
use super::super::effort::Effort;
use super::super::filling::{Noise, key, write};
use super::super::fleet::Contender;
use super::super::plan::BEST_PEER;
use super::super::report::{Line, Table};
use super::resident::{NAME, at_rest, contenders};
use sleeve_tests::Server;

const KEYS: u64 = 300_000;

/// The range of the values' lengths, in bytes.
const LENGTHS: std::ops::Range<u64> = 16..512;

/// The number of rounds. In each round a third of the keys gets a value of another size, and a tenth is deleted and comes
/// back in the next.
const ROUNDS: u64 = 8;

const LABELS: [&str; 3] = [
    "300,000 values of 16 to 511 bytes after 8 rounds of other sizes: percent of the same data written afresh",
    "then 9 of 10 keys deleted, all over: percent that is left",
    "then the others deleted: percent that is left",
];

/// Writes the same keys to each server, and measures its memory.
///
/// # Errors
/// When a server fails.
pub fn measure(builds: &Builds, effort: Effort) -> Result<Table, String> {
    let title = "Memory after churn, and what is given back (percent of growth)";
    println!("\n==> {title}");
    let mut lines =
        LABELS.map(|label| Line { label: label.to_owned(), samples: Vec::new(), ratio: Some(BEST_PEER), bar: None });
    for contender in contenders(effort) {
        let figures = figures(&contender, builds)?;
        println!("    {}: {figures:.1?}", contender.name);
        for (line, figure) in lines.iter_mut().zip(figures) {
            line.samples.push((contender.name, vec![figure]));
        }
    }
    Ok(Table { name: NAME, title: title.to_owned(), lines: lines.into() })
}

fn figures(contender: &Contender, builds: &Builds) -> Result<[f64; 3], String> {
    let server = contender.start(builds)?;
    let empty = at_rest(&server)?;
    let lengths = churn(&server)?;
    let used = growth(&server, empty)?;
    delete(&server, (0..KEYS).filter(|number| number % 10 != 0).collect())?;
    let left = growth(&server, empty)?;
    delete(&server, (0..KEYS).step_by(10).collect())?;
    let rest = growth(&server, empty)?;
    drop(server);
    let server = contender.start(builds)?;
    let empty = at_rest(&server)?;
    set(&server, (0..KEYS).map(|number| (number, lengths[number as usize])).collect())?;
    let afresh = growth(&server, empty)?;
    Ok([100.0 * used / afresh, 100.0 * left / used, 100.0 * rest / used])
}

fn growth(server: &Server, empty: u64) -> Result<f64, String> {
    Ok(at_rest(server)?.saturating_sub(empty) as f64)
}

/// Writes, changes and deletes; returns the lengths of the values in the end, when every key exists.
fn churn(server: &Server) -> Result<Vec<u64>, String> {
    let mut noise = Noise(11);
    let mut lengths: Vec<u64> = (0..KEYS).map(|_| length(&mut noise)).collect();
    set(server, (0..KEYS).map(|number| (number, lengths[number as usize])).collect())?;
    let mut deleted: Vec<u64> = Vec::new();
    for round in 0..ROUNDS {
        let mut changed: Vec<u64> = deleted.drain(..).chain((0..KEYS / 3).map(|_| noise.next() % KEYS)).collect();
        changed.iter().for_each(|&number| lengths[number as usize] = length(&mut noise));
        // Where a key was drawn twice, both writes have its last length.
        set(server, changed.drain(..).map(|number| (number, lengths[number as usize])).collect())?;
        if round + 1 < ROUNDS {
            deleted = (0..KEYS / 10).map(|_| noise.next() % KEYS).collect();
            delete(server, deleted.clone())?;
        }
    }
    Ok(lengths)
}

fn length(noise: &mut Noise) -> u64 {
    LENGTHS.start + noise.next() % (LENGTHS.end - LENGTHS.start)
}

fn set(server: &Server, keys: Vec<(u64, u64)>) -> Result<(), String> {
    write(&mut server.connect(), 0..keys.len() as u64, |index| {
        let (number, length) = keys[index as usize];
        vec!["SET".to_owned(), key(number), "x".repeat(length as usize)]
    })
}

fn delete(server: &Server, keys: Vec<u64>) -> Result<(), String> {
    write(&mut server.connect(), 0..keys.len() as u64, |index| vec!["DEL".to_owned(), key(keys[index as usize])])
}
