//! Arguments that break programs that trust them: ends of number ranges, near-numbers, and awkward bytes.
//!
//! Each has broken some server once, or stands where a range ends. Data and choices only; one thread at a time.

use crate::random::Random;

/// Numbers at the ends of ranges, and texts that only look like numbers.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "127",
    "128",
    "255",
    "256",
    "65536",
    "1048576",
    "1048577",
    "16777216",
    "2147483646",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "4611686018427387903",
    "-4611686018427387904",
    "-4611686018427387905",
    "9007199254740993",
    "9223372036854774784",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999",
    "nan",
    "-nan",
    "inf",
    "+inf",
    "-inf",
    "infinity",
    "1e308",
    "1e309",
    "-1e309",
    "1e-400",
    "4.9e-324",
    "1.7976931348623157e308",
    "0.1",
    "0x10",
    "1e",
    " 1",
    "1 ",
    "+1",
    "01",
    "00",
    ".",
    "-",
    "+",
    "1.5.5",
];

/// Marks with a meaning in ranges, ids of entries, rules, patterns and formats.
const MARKS: &[&str] = &[
    "",
    "*",
    "$",
    ">",
    "=",
    "~",
    "#",
    "(",
    "[",
    "(1",
    "(inf",
    "(nan",
    "[a",
    "(a",
    "[^",
    "[a-",
    "\\",
    "0-0",
    "0-1",
    "1-*",
    "-1-1",
    "1-1-1",
    "18446744073709551615-18446744073709551615",
    "18446744073709551615-*",
    "18446744073709551616-0",
    "#0",
    "#-1",
    "#9223372036854775807",
    "u0",
    "u64",
    "u65",
    "i65",
    "i-1",
    "%s%n%p",
    "{a}b",
    "{}",
    "\r\n",
    "\n",
    "\0",
    "\0\0\0\0\0\0\0\0",
    "a b",
    "\"",
    "\u{feff}\u{10ffff}",
    "a*a*a*a*a*a*a*a*a*a*b",
    "?*?*?*?*?*?*?*?*?*?*b",
    "allkeys",
    "~*",
    "+@all",
    "-@all",
    "%RW~k*",
    "127.0.0.1:1",
    "__redis__:invalidate",
];

/// Lengths at which an encoding changes, and rarely a long one.
const LENGTHS: &[usize] =
    &[12, 31, 44, 45, 63, 64, 65, 127, 128, 129, 253, 254, 255, 511, 1024, 4095, 4096, 4097, 16_384];

/// The greatest length, in bytes.
const LONG: usize = 300_000;

/// Returns any of these arguments.
pub fn any(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0..=3 => number(random),
        4..=5 => random.pick(MARKS).as_bytes().to_vec(),
        _ => bytes(random),
    }
}

/// Returns a number, or a text that looks like one.
pub fn number(random: &mut Random) -> Vec<u8> {
    random.pick(NUMBERS).as_bytes().to_vec()
}

/// Returns bytes of any value, sometimes many.
pub fn bytes(random: &mut Random) -> Vec<u8> {
    let length = if random.once_in(300) { LONG } else { *random.pick(LENGTHS) };
    match random.below(3) {
        0 => vec![*random.pick(b"a0*\0\xff[{%"); length],
        1 => b"ab".repeat(length / 2),
        _ => (0..length.min(512)).map(|_| random.bits().to_le_bytes()[0]).collect(),
    }
}
