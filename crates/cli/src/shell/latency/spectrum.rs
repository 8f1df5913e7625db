//! `sleeve cli --latency-dist`: how long PINGs take, as a spectrum: a line an interval, a column a range of times, a colour
//! for how many fell into it.

use std::io;
use std::time::{Duration, Instant};

use super::{PAUSE, sample};
use crate::interrupt::Interrupt;
use crate::output;
use crate::shell::session::Session;

/// The time of a line, unless `-i` sets it.
const TIME: Duration = Duration::from_secs(1);

/// The letter of each column and the longest time that falls into it, in microseconds. All longer times fall into the last
/// one.
const COLUMNS: [(char, u64); 31] = [
    ('.', 10),
    ('-', 125),
    ('*', 250),
    ('#', 500),
    ('1', 1_000),
    ('2', 2_000),
    ('3', 3_000),
    ('4', 4_000),
    ('5', 5_000),
    ('6', 6_000),
    ('7', 7_000),
    ('8', 8_000),
    ('9', 9_000),
    ('A', 10_000),
    ('B', 20_000),
    ('C', 30_000),
    ('D', 40_000),
    ('E', 50_000),
    ('F', 100_000),
    ('G', 200_000),
    ('H', 300_000),
    ('I', 400_000),
    ('J', 500_000),
    ('K', 1_000_000),
    ('L', 2_000_000),
    ('M', 4_000_000),
    ('N', 8_000_000),
    ('O', 16_000_000),
    ('P', 30_000_000),
    ('Q', 60_000_000),
    ('?', u64::MAX),
];

/// The colours of shares from none to all, in the numbers of a terminal's 256 colours: greys, then yellow to red.
const PALETTE: [u8; 16] = [0, 233, 235, 237, 239, 241, 243, 245, 247, 144, 142, 184, 226, 214, 208, 196];

/// Measures and paints until Ctrl-C.
pub fn run(session: &mut Session, interval: Option<Duration>, interrupt: &Interrupt) -> io::Result<()> {
    let time = interval.unwrap_or(TIME);
    let mut counts = [0; COLUMNS.len()];
    explain();
    let mut started = Instant::now();
    while let Some(taken) = sample(session, interrupt)? {
        if let Some(count) = counts.get_mut(column(taken)) {
            *count += 1;
        }
        if started.elapsed() >= time {
            output::line(format_args!("{}", paint(&counts)));
            output::flush();
            counts.fill(0);
            started = Instant::now();
        }
        if !interrupt.sleep(PAUSE) {
            break;
        }
    }
    output::line(format_args!("{}", paint(&counts)));
    Ok(())
}

fn explain() {
    let scale: String = PALETTE.iter().map(|colour| format!("\x1b[48;5;{colour}m ")).collect();
    output::line(format_args!(
        "A line holds, from left to right, the PINGs that took at most\n  \
         . - * #            0.01 0.125 0.25 0.5 ms\n  \
         1 to 9             1 to 9 ms\n  \
         A B C D E          10 20 30 40 50 ms\n  \
         F G H I J          0.1 0.2 0.3 0.4 0.5 s\n  \
         K L M N O P Q ?    1 2 4 8 16 30 60 s, and more\n\
         From none of them to all: {scale}\x1b[0m\n"
    ));
    output::flush();
}

/// Returns the column of a time.
fn column(taken: Duration) -> usize {
    let us = taken.as_micros() as u64;
    COLUMNS.partition_point(|(_, longest)| *longest < us)
}

/// Returns a line: each letter in black on the colour of its share.
fn paint(counts: &[u64; COLUMNS.len()]) -> String {
    let total = counts.iter().sum::<u64>().max(1);
    let steps = (PALETTE.len() - 1) as u64;
    let letter = |((letter, _), count): (&(char, u64), &u64)| {
        let colour = PALETTE.get((count * steps).div_ceil(total) as usize).copied().unwrap_or_default();
        format!("\x1b[48;5;{colour}m{letter}")
    };
    let line: String = COLUMNS.iter().zip(counts).map(letter).collect();
    format!("\x1b[38;5;0m{line}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_their_columns() {
        let letter = |us| COLUMNS.get(column(Duration::from_micros(us))).map(|(letter, _)| *letter);
        assert_eq!([letter(1), letter(11), letter(1_000), letter(1_001)], [Some('.'), Some('-'), Some('1'), Some('2')]);
        assert_eq!([letter(60_000_000), letter(60_000_001)], [Some('Q'), Some('?')]);
    }

    #[test]
    fn the_colour_is_the_share() {
        let mut counts = [0; COLUMNS.len()];
        counts[0] = 3;
        let line = paint(&counts);
        assert!(line.starts_with("\x1b[38;5;0m\x1b[48;5;196m.\x1b[48;5;0m-"), "{line:?}");
        counts[1] = 1_000_000;
        assert!(paint(&counts).contains("\x1b[48;5;233m."), "one of a million is seen");
    }
}
