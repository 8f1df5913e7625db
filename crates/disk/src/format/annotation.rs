//! The lines that stand between requests in an AOF: `#TS:` with a time, which Redis writes too, and our own.
//!
//! Redis's loader and redis-check-aof skip every line that begins with `#`. Ours begin with `#SLV:` and a letter:
//!
//! | line | says |
//! | --- | --- |
//! | `#SLV:F salt sum` | from here on blocks are sealed with this salt and count from 0 |
//! | `#SLV:S offset sum` | this file stands for the journal up to this offset (a base in words of requests) |
//! | `#SLV:B number from covered length unsynced check sum` | a block: so many bytes follow, which stand for the journal's bytes from `from` to `from + covered`; when it was written, all but the last `unsynced` bytes of the journal before it were synced |
//! | `#SLV:E length sum` | here a base ends, and so many bytes of it are blocks and their lines |
//!
//! Numbers are decimal, salts and sums hexadecimal. A sum is a CRC-32C that begins with the salt, then the line up to the
//! sum, then, of a block, its content: so a block that was copied from another file, or that user data imitates, does not
//! pass. The check is the lower half of the sum of the line alone. So a search for blocks behind damage need not read the
//! content behind a line that is none. Pure; any thread.

use super::crc32c;

/// The most bytes that a line has, its end included; Redis takes a longer line for two.
pub const LINE_BYTES_MAX: usize = 1023;

/// The largest number in the line of a block or a base. No journal and no file gets as far, so code that counts on from there
/// does not overflow.
pub const NUMBER_MAX: u64 = i64::MAX as u64;

const PREFIX: &[u8] = b"#SLV:";

/// The part of the checksum of a block's line that is written into the line as its check.
const CHECK_MASK: u32 = 0xffff;

/// The salt that separates the blocks of one stretch of a file from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(pub u64);

impl Salt {
    fn sum(self, line: &[u8]) -> u32 {
        crc32c::update(crc32c::update(0, &self.0.to_le_bytes()), line)
    }
}

/// A run of blocks in one file: their salt, and the number of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The salt.
    pub salt: Salt,
    /// The number of the next block, from 0.
    pub next_number: u64,
}

impl Stretch {
    /// Returns a stretch without a block.
    pub fn new(salt: Salt) -> Stretch {
        Stretch { salt, next_number: 0 }
    }

    /// Appends the line with the salt, `#SLV:F`.
    pub fn write_salt(self, into: &mut Vec<u8>) {
        write_salt(into, self.salt);
    }
}

/// The line in front of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The number of the block since the last line with a salt, from 0.
    pub number: u64,
    /// The journal's offset at which the block begins.
    pub from: u64,
    /// The bytes of the journal that the block stands for. Its content may be shorter: parts of the journal are for replicas
    /// only.
    pub covered: u64,
    /// The number of bytes that follow the line.
    pub length: u64,
    /// The number of bytes of the journal before `from` that were not known to be synced when the block was written.
    pub unsynced: u64,
}

impl Block {
    /// Returns the journal's offset behind the block.
    pub fn to(&self) -> u64 {
        self.from.saturating_add(self.covered)
    }

    /// Returns the journal's offset up to which it was synced when the block was written.
    pub fn synced(&self) -> u64 {
        self.from.saturating_sub(self.unsynced)
    }
}

/// A line that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The time (`#TS:`), in seconds since 1970.
    Time(i64),
    /// The beginning of a stretch (`#SLV:F`).
    Salt(Salt),
    /// The offset that a base stands for (`#SLV:S`).
    StandsFor(u64),
    /// The line in front of a block (`#SLV:B`), with the checksum so far and the one that must result.
    Block(Block, Sums),
    /// The end of a base (`#SLV:E`), with its length.
    End(u64),
    /// A line of another program.
    Unknown,
    /// A line that begins as Sleeve's own lines do and does not parse as one.
    Damaged,
}

/// The sum of a block's line, from which the sum of its content goes on, and the sum that must result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sums {
    /// The sum of salt and line.
    pub line: u32,
    /// The checksum with the content.
    pub whole: u32,
}

/// The numbers below 100, two digits each.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

/// Appends a decimal number: five of them stand before each block.
fn decimal(into: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while number >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b'0' + number as u8;
    }
    into.extend_from_slice(&digits[at..]);
}

/// Appends the last hexadecimal digits of a number.
fn hexadecimal(into: &mut Vec<u8>, number: u32, digits: u32) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    into.extend((0..digits).rev().map(|place| DIGITS[(number >> (4 * place)) as usize & 15]));
}

/// Appends the checksum and the end of the line, for a line without a block.
fn close(into: &mut Vec<u8>, start: usize, salt: Salt) {
    let sum = salt.sum(&into[start..]);
    hexadecimal(into, sum, 8);
    into.extend_from_slice(b"\r\n");
}

/// Appends the line with the time, `#TS:`.
pub fn write_time(into: &mut Vec<u8>, seconds: i64) {
    into.extend_from_slice(format!("#TS:{seconds}\r\n").as_bytes());
}

/// Appends the line that begins a stretch, `#SLV:F`.
pub fn write_salt(into: &mut Vec<u8>, salt: Salt) {
    let start = into.len();
    into.extend_from_slice(b"#SLV:F ");
    hexadecimal(into, (salt.0 >> 32) as u32, 8);
    hexadecimal(into, salt.0 as u32, 8);
    into.push(b' ');
    close(into, start, salt);
}

/// Appends the line with the offset that a base stands for, `#SLV:S`.
pub fn write_stands_for(into: &mut Vec<u8>, salt: Salt, offset: u64) {
    write_number(into, salt, b"#SLV:S ", offset);
}

/// Appends the line that ends a base, `#SLV:E`.
pub fn write_end(into: &mut Vec<u8>, salt: Salt, length: u64) {
    write_number(into, salt, b"#SLV:E ", length);
}

/// Appends a line that says one number.
fn write_number(into: &mut Vec<u8>, salt: Salt, prefix: &[u8], number: u64) {
    let start = into.len();
    into.extend_from_slice(prefix);
    decimal(into, number);
    into.push(b' ');
    close(into, start, salt);
}

/// Appends the line in front of a block of this content, `#SLV:B`.
pub fn write_block<'a>(into: &mut Vec<u8>, salt: Salt, block: &Block, content: impl Iterator<Item = &'a [u8]>) {
    let start = into.len();
    into.extend_from_slice(b"#SLV:B ");
    for number in [block.number, block.from, block.covered, block.length, block.unsynced] {
        decimal(into, number);
        into.push(b' ');
    }
    let line = salt.sum(&into[start..]);
    hexadecimal(into, line & CHECK_MASK, 4);
    into.push(b' ');
    hexadecimal(into, content.fold(line, crc32c::update), 8);
    into.extend_from_slice(b"\r\n");
}

/// Returns the first place in these bytes at which one of Sleeve's own lines can begin, for a search behind damage.
pub fn find_own(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, PREFIX)
}

/// Reads a line, its end included; `salt` is that of the stretch. A line that depends on a salt is damaged without one.
pub fn parse(line: &[u8], salt: Option<Salt>) -> Line {
    let Some(text) = line.strip_suffix(b"\r\n") else {
        return if line.starts_with(PREFIX) { Line::Damaged } else { Line::Unknown };
    };
    if let Some(seconds) = text.strip_prefix(b"#TS:") {
        let seconds = std::str::from_utf8(seconds).ok().and_then(|text| text.parse().ok());
        return seconds.map_or(Line::Unknown, Line::Time);
    }
    if !text.starts_with(PREFIX) {
        return Line::Unknown;
    }
    own(text, salt).unwrap_or(Line::Damaged)
}

fn own(text: &[u8], salt: Option<Salt>) -> Option<Line> {
    let last = memchr::memrchr(b' ', text)?;
    let (summed, sum) = (text.get(..=last)?, hexadecimal_of(text.get(last + 1..)?, 8)?);
    let mut words = text.get(PREFIX.len()..last)?.split(|&byte| byte == b' ');
    let kind = words.next()?;
    if kind == b"F" {
        let given = Salt(hexadecimal_of(words.next()?, 16)?);
        let is_whole = words.next().is_none() && u64::from(given.sum(summed)) == sum;
        return is_whole.then_some(Line::Salt(given));
    }
    let salt = salt?;
    let mut number = || words.next().and_then(decimal_of);
    if kind == b"B" {
        let block =
            Block { number: number()?, from: number()?, covered: number()?, length: number()?, unsynced: number()? };
        let check = hexadecimal_of(words.next()?, 4)?;
        let line = salt.sum(summed.get(..last.checked_sub(4)?)?);
        let is_sound = block.number.max(block.length).max(block.to()) <= NUMBER_MAX;
        let is_whole = is_sound && words.next().is_none() && u64::from(line & CHECK_MASK) == check;
        return is_whole.then_some(Line::Block(block, Sums { line, whole: sum as u32 }));
    }
    let line = salt.sum(summed);
    let value = number()?;
    let is_whole = words.next().is_none() && u64::from(line) == sum;
    match kind {
        b"S" if is_whole && value <= NUMBER_MAX => Some(Line::StandsFor(value)),
        b"E" if is_whole => Some(Line::End(value)),
        _ => None,
    }
}

/// Reads a number as this file writes it: digits without a sign and without leading zeros.
fn decimal_of(text: &[u8]) -> Option<u64> {
    let is_plain = text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || text.first() != Some(&b'0'));
    if is_plain { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

fn hexadecimal_of(text: &[u8], digits: usize) -> Option<u64> {
    let is_plain = text.len() == digits && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_plain { u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: Salt = Salt(0x0123_4567_89ab_cdef);

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut line = Vec::new();
        write(&mut line);
        line
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let block = Block { number: 0, from: 1_000_000, covered: 35, length: 35, unsynced: 70 };
        let content = [b"con".as_slice(), b"tent"];
        let line = written(|into| write_block(into, SALT, &block, content.into_iter()));
        assert!(line.starts_with(b"#SLV:B 0 1000000 35 35 70 ") && line.ends_with(b"\r\n"));
        let Line::Block(read, sums) = parse(&line, Some(SALT)) else { panic!("{:?}", parse(&line, Some(SALT))) };
        assert_eq!(read, block);
        assert_eq!(crc32c::update(sums.line, b"content"), sums.whole);
        assert_eq!(block.synced(), 999_930);
        let salt = written(|into| write_salt(into, SALT));
        assert_eq!(parse(&salt, None), Line::Salt(SALT));
        assert_eq!(parse(&written(|into| write_stands_for(into, SALT, 7)), Some(SALT)), Line::StandsFor(7));
        assert_eq!(parse(&written(|into| write_end(into, SALT, u64::MAX)), Some(SALT)), Line::End(u64::MAX));
        assert_eq!(parse(&written(|into| write_time(into, 1_700_000_000)), None), Line::Time(1_700_000_000));
        assert_eq!(parse(b"# anything\r\n", Some(SALT)), Line::Unknown);
        assert_eq!(parse(b"#TS:never\r\n", Some(SALT)), Line::Unknown);
    }

    #[test]
    fn a_line_with_any_bit_turned_is_damaged_or_a_strangers() {
        let block = Block { number: 3, from: 10, covered: 20, length: 2, unsynced: 0 };
        let lines = [
            written(|into| write_salt(into, SALT)),
            written(|into| write_stands_for(into, SALT, 1_234)),
            written(|into| write_end(into, SALT, 1_234)),
            written(|into| write_block(into, SALT, &block, [b"ab".as_slice()].into_iter())),
        ];
        for line in lines {
            let before = parse(&line, Some(SALT));
            for bit in 0..line.len() * 8 {
                let mut turned = line.clone();
                turned[bit / 8] ^= 1 << (bit % 8);
                match parse(&turned, Some(SALT)) {
                    Line::Damaged | Line::Unknown => {}
                    Line::Block(_, sums) => assert_ne!(crc32c::update(sums.line, b"ab"), sums.whole, "bit {bit}"),
                    other => panic!("{before:?} became {other:?} with bit {bit}"),
                }
            }
        }
    }

    #[test]
    fn numbers_have_one_form() {
        for number in (0..2_000).chain([9_999, 10_000, 123_456_789, 1_234_567_890, u64::MAX - 1, u64::MAX]) {
            assert_eq!(written(|into| decimal(into, number)), number.to_string().as_bytes());
        }
        for text in [b"".as_slice(), b"01", b"+1", b"-1", b" 1", b"1x", b"18446744073709551616"] {
            assert_eq!(decimal_of(text), None, "{}", String::from_utf8_lossy(text));
        }
        assert_eq!(decimal_of(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(hexadecimal_of(b"ABCDEF01", 8), None);
    }

    #[test]
    fn numbers_with_which_nobody_can_count_on_are_damage() {
        let fine = Block { number: 3, from: 10, covered: 20, length: 2, unsynced: 0 };
        let parsed = |block: Block| {
            let line = written(|into| write_block(into, SALT, &block, std::iter::empty()));
            matches!(parse(&line, Some(SALT)), Line::Block(..))
        };
        let max = NUMBER_MAX;
        assert!(
            parsed(fine) && parsed(Block { number: max, length: max, covered: max - 10, unsynced: u64::MAX, ..fine })
        );
        for number in [max + 1, u64::MAX - 50, u64::MAX] {
            assert!(!parsed(Block { number, ..fine }), "{number}");
            assert!(!parsed(Block { length: number, ..fine }), "{number}");
            assert!(!parsed(Block { from: number, ..fine }), "{number}");
            assert!(!parsed(Block { covered: number, ..fine }), "{number}");
            assert_eq!(parse(&written(|into| write_stands_for(into, SALT, number)), Some(SALT)), Line::Damaged);
        }
        assert!(!parsed(Block { covered: max - 9, ..fine }), "from and covered together");
    }

    #[test]
    fn another_salt_makes_every_line_another() {
        let line = written(|into| write_stands_for(into, SALT, 7));
        assert_eq!(parse(&line, Some(Salt(1))), Line::Damaged);
        assert_eq!(parse(&line, None), Line::Damaged);
    }
}
