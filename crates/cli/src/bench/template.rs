//! A request that was encoded once and is sent many times.
//!
//! The bytes of a whole pipeline are built before the clock starts. Between two sends only the twelve digits of each
//! random number change, in place, so that the generator's own cost per request stays below the server's.

use super::cases::RANDOM;

/// The number of digits of a number that replaces the placeholder.
const DIGITS: usize = RANDOM.len();

/// The source of the numbers of the next request.
#[derive(Clone, Debug)]
pub enum Numbers {
    /// The placeholder stays as it is: a request without numbers.
    Literal,
    /// Random numbers, uniform below a bound, from a small generator's state.
    Random {
        /// The generator's state.
        state: u64,
        /// The largest number plus one.
        bound: u64,
    },
    /// Numbers in order, so that every number is used in one request; all placeholders of a request are the same number.
    Sequence {
        /// The next number.
        next: u64,
    },
}

impl Numbers {
    /// Returns numbers of the same kind. Random ones begin elsewhere.
    pub fn started_elsewhere(self) -> Self {
        match self {
            Self::Random { state, bound } => Self::Random { state: !state, bound },
            other => other,
        }
    }

    /// Returns the number for the next placeholder; `is_first` says that it is the first of its request. Returns `None` if
    /// the placeholder stays.
    fn next(&mut self, is_first: bool) -> Option<u64> {
        match self {
            Self::Literal => None,
            Self::Random { state, bound } => {
                // SplitMix64 (Steele, Lea, Flood 2014), scaled to the bound by a multiplication.
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut mixed = *state;
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                mixed ^= mixed >> 31;
                Some(((u128::from(mixed) * u128::from(*bound)) >> 64) as u64)
            }
            Self::Sequence { next } => {
                *next += u64::from(is_first);
                Some(*next - 1)
            }
        }
    }
}

/// The bytes of `depth` equal requests and the places of their placeholders.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    /// Offsets of the placeholders of all requests, in order.
    places: Vec<usize>,
    request_length: usize,
    places_each: usize,
}

impl Template {
    /// Repeats `request` `depth` times; placeholders are looked for in its bytes.
    pub fn new(request: &[u8], depth: usize) -> Self {
        let first: Vec<usize> = memchr::memmem::find_iter(request, RANDOM.as_bytes()).collect();
        let copies = |copy: usize| first.iter().map(move |place| copy * request.len() + place);
        Self {
            bytes: request.repeat(depth),
            places: (0..depth).flat_map(copies).collect(),
            request_length: request.len(),
            places_each: first.len(),
        }
    }

    /// Returns the bytes of the first `count` requests with fresh numbers.
    pub fn next(&mut self, count: usize, numbers: &mut Numbers) -> &[u8] {
        for (index, place) in self.places.iter().take(count * self.places_each).enumerate() {
            let Some(number) = numbers.next(index % self.places_each == 0) else { break };
            if let Some(digits) = self.bytes.get_mut(*place..*place + DIGITS) {
                write_digits(number, digits);
            }
        }
        self.bytes.get(..count * self.request_length).unwrap_or_default()
    }
}

/// The pairs of decimal digits, `00` to `99`.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    pairs
};

/// Writes a number below 10^12 with leading zeros.
fn write_digits(mut number: u64, digits: &mut [u8]) {
    for pair in digits.rchunks_exact_mut(2) {
        pair.copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
}

/// Returns a key of sixteen bytes: a prefix, and a number below 10^12 with leading zeros.
pub fn numbered_key(prefix: [u8; 4], number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let (head, digits) = key.split_at_mut(prefix.len());
    head.copy_from_slice(&prefix);
    write_digits(number, digits);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_replace_every_placeholder() {
        let mut template = Template::new(b"a __rand_int__ b __rand_int__;", 2);
        let mut numbers = Numbers::Sequence { next: 9_998 };
        assert_eq!(template.next(1, &mut numbers), b"a 000000009998 b 000000009998;");
        assert_eq!(template.next(2, &mut numbers), b"a 000000009999 b 000000009999;a 000000010000 b 000000010000;");
    }

    #[test]
    fn literal_placeholders_stay() {
        let mut template = Template::new(b"__rand_int__", 1);
        assert_eq!(template.next(1, &mut Numbers::Literal), b"__rand_int__");
    }

    #[test]
    fn random_numbers_stay_below_the_bound_and_cover_it() {
        let mut numbers = Numbers::Random { state: 1, bound: 10 };
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[numbers.next(true).unwrap() as usize] = true;
        }
        assert!(seen.iter().all(|seen| *seen));
    }
}
