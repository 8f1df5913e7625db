//! Tests of the bitmap commands and LCS against simple models, with the same seeded random operations.
//!
//! The requests go to an embedded engine. The model, called the twin, keeps a vector of bits for each key, and a full table
//! of lengths for LCS. It computes the expected replies.

use std::sync::Arc;

use sleeve_server::{Config, Engine, Local, Opt};

const SEEDS: u64 = 4;
const OPERATIONS: usize = 2_500;
const KEYS: usize = 5;

/// SplitMix64. Its numbers are random enough to choose operations, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns a length: mostly a short one, sometimes a few hundred bytes, sometimes more than the inline size of an entry.
    fn len(&mut self) -> usize {
        match self.below(40) {
            0..=25 => self.below(12),
            26..=38 => self.below(300),
            _ => 4_000 + self.below(400),
        }
    }

    /// Returns a number of any magnitude, positive or negative.
    fn any_size(&mut self) -> i64 {
        let shift = self.below(64);
        self.next() as i64 >> shift
    }

    /// Returns random bytes, or long runs of one byte, over which the commands skip by words and blocks.
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let even = [0, 0xff][self.below(2)];
        let noise = [2, 30, 100][self.below(3)];
        (0..len).map(|_| if self.chance(noise) { self.next() as u8 } else { even }).collect()
    }
}

/// An engine with one session on it.
struct Session {
    engine: Arc<Engine>,
    local: Local,
}

impl Session {
    fn new() -> Self {
        let engine = Engine::new(Config::default());
        let local = Local::open(&engine, || {});
        Self { engine, local }
    }

    fn ask_bytes(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend([format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat());
        }
        let mut reply = Vec::new();
        self.local.exchange(&request, &mut reply).expect("nothing here ends a session");
        reply
    }

    /// Sends a request of words separated by single spaces, and returns its reply as text.
    fn ask(&mut self, text: &str) -> String {
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        String::from_utf8_lossy(&self.ask_bytes(&words)).into_owned()
    }

    /// Returns the string at a key; none if the key does not exist.
    fn value(&mut self, key: &str) -> Option<Vec<u8>> {
        let reply = self.ask_bytes(&[b"GET", key.as_bytes()]);
        let header = reply.iter().position(|&byte| byte == b'\n')? + 1;
        (reply[1] != b'-').then(|| reply[header..reply.len() - 2].to_vec())
    }
}

fn bits_of(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> (7 - bit) & 1 == 1)).collect()
}

fn bytes_of(bits: &[bool]) -> Vec<u8> {
    bits.chunks(8).map(|byte| byte.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit))).collect()
}

/// The expected contents of the keys, as bits; their number is a multiple of eight.
#[derive(Default)]
struct Twin {
    keys: [Option<Vec<bool>>; KEYS],
}

impl Twin {
    fn bits(&self, key: usize) -> Vec<bool> {
        self.keys[key].clone().unwrap_or_default()
    }

    fn grown(&mut self, key: usize, bits: usize) -> &mut Vec<bool> {
        let held = self.keys[key].get_or_insert_default();
        let len = held.len().max(bits.div_ceil(8) * 8);
        held.resize(len, false);
        held
    }

    /// Returns the bits that a range of BITCOUNT or BITPOS covers.
    fn places(&self, key: usize, start: i64, end: i64, unit: usize) -> std::ops::Range<usize> {
        let total = (self.bits(key).len() / unit) as i64;
        let front = |place: i64| if place < 0 { (place + total).max(0) } else { place };
        let (first, last) = (front(start), front(end).min(total - 1));
        if first > last { 0..0 } else { first as usize * unit..(last as usize + 1) * unit }
    }
}

/// Returns one random operation: its request, and the twin's reply to it.
fn operation(random: &mut Random, twin: &mut Twin) -> (String, String) {
    let key = random.below(KEYS);
    match random.below(9) {
        0 | 1 => setbit(random, twin, key),
        2 => getbit(random, twin, key),
        3 => bitcount(random, twin, key),
        4 | 5 => bitpos(random, twin, key),
        6 => bitop(random, twin),
        _ => bitfield(random, twin, key),
    }
}

fn setbit(random: &mut Random, twin: &mut Twin, key: usize) -> (String, String) {
    let (offset, on) = (random.len() * 8 + random.below(8), random.chance(60));
    let bits = twin.grown(key, offset + 1);
    let reply = format!(":{}\r\n", u8::from(bits[offset]));
    bits[offset] = on;
    (format!("SETBIT k{key} {offset} {}", u8::from(on)), reply)
}

fn getbit(random: &mut Random, twin: &Twin, key: usize) -> (String, String) {
    let offset = random.len() * 8 + random.below(8);
    let bit = twin.bits(key).get(offset).copied().unwrap_or(false);
    (format!("GETBIT k{key} {offset}"), format!(":{}\r\n", u8::from(bit)))
}

/// Returns a random range, the name of its unit, and the unit in bits.
fn range(random: &mut Random, twin: &Twin, key: usize) -> (i64, i64, &'static str, usize) {
    let (name, unit) = [("", 8), (" BYTE", 8), (" bit", 1)][random.below(3)];
    let len = (twin.bits(key).len() / unit) as i64 + 3;
    (random.between(-len, len), random.between(-len, len), name, unit)
}

fn bitcount(random: &mut Random, twin: &Twin, key: usize) -> (String, String) {
    let bits = twin.bits(key);
    let (text, places) = if random.chance(30) {
        (format!("BITCOUNT k{key}"), 0..bits.len())
    } else {
        let (start, end, name, unit) = range(random, twin, key);
        // BITCOUNT compares the two ends before the range is clipped to the string; BITPOS does not.
        let crossed = start < 0 && end < 0 && start > end;
        let places = if crossed { 0..0 } else { twin.places(key, start, end, unit) };
        (format!("BITCOUNT k{key} {start} {end}{name}"), places)
    };
    (text, format!(":{}\r\n", bits[places].iter().filter(|&&bit| bit).count()))
}

fn bitpos(random: &mut Random, twin: &Twin, key: usize) -> (String, String) {
    let (wanted, form) = (random.chance(50), random.below(3));
    let (start, end, name, unit) = range(random, twin, key);
    let mut text = format!("BITPOS k{key} {}", u8::from(wanted));
    let places = match form {
        0 => twin.places(key, 0, -1, 8),
        1 => {
            text += &format!(" {start}");
            twin.places(key, start, -1, 8)
        }
        _ => {
            text += &format!(" {start} {end}{name}");
            twin.places(key, start, end, unit)
        }
    };
    let bits = twin.bits(key);
    let found = places.clone().find(|&place| bits[place] == wanted);
    let position = match found {
        Some(place) => place as i64,
        None if twin.keys[key].is_none() && !wanted => 0,
        None if !wanted && form < 2 && !places.is_empty() => bits.len() as i64,
        None => -1,
    };
    (text, format!(":{position}\r\n"))
}

fn bitop(random: &mut Random, twin: &mut Twin) -> (String, String) {
    let operation = ["AND", "or", "XOR", "NOT"][random.below(4)];
    let count = if operation == "NOT" { 1 } else { 1 + random.below(4) };
    let (destination, sources) = (random.below(KEYS), (0..count).map(|_| random.below(KEYS)).collect::<Vec<_>>());
    let strings: Vec<_> = sources.iter().map(|&source| twin.bits(source)).collect();
    let len = strings.iter().map(Vec::len).max().unwrap_or(0);
    let result: Vec<bool> = (0..len)
        .map(|place| {
            let mut bits = strings.iter().map(|string| string.get(place).copied().unwrap_or(false));
            match operation {
                "AND" => bits.all(|bit| bit),
                "or" => bits.any(|bit| bit),
                "XOR" => bits.filter(|&bit| bit).count() % 2 == 1,
                _ => !bits.all(|bit| bit),
            }
        })
        .collect();
    twin.keys[destination] = (len > 0).then_some(result);
    let names: String = sources.iter().map(|source| format!(" k{source}")).collect();
    (format!("BITOP {operation} k{destination}{names}"), format!(":{}\r\n", len / 8))
}

/// A field of the twin: its bits, from the highest to the lowest, read and written one by one.
#[derive(Clone, Copy)]
struct Field {
    signed: bool,
    width: usize,
    offset: usize,
}

impl Field {
    fn get(self, bits: &[bool]) -> i128 {
        let bit = |n: usize| i128::from(bits.get(self.offset + n).copied().unwrap_or(false));
        let number = (0..self.width).fold(0, |number, n| number * 2 + bit(n));
        if self.signed && bit(0) == 1 { number - (1 << self.width) } else { number }
    }

    fn set(self, bits: &mut [bool], number: i128) {
        (0..self.width).for_each(|n| bits[self.offset + n] = number >> (self.width - 1 - n) & 1 == 1);
    }

    fn fit(self, number: i128, overflow: &str) -> Option<i128> {
        let span = 1_i128 << self.width;
        let least = if self.signed { -(span / 2) } else { 0 };
        let most = least + span - 1;
        match overflow {
            _ if number >= least && number <= most => Some(number),
            "SAT" => Some(number.clamp(least, most)),
            "FAIL" => None,
            _ => Some((number - least).rem_euclid(span) + least),
        }
    }
}

fn bitfield(random: &mut Random, twin: &mut Twin, key: usize) -> (String, String) {
    let mut text = format!("BITFIELD k{key}");
    let (mut overflow, mut plan) = ("WRAP", Vec::new());
    for _ in 0..random.below(5) {
        if random.chance(40) {
            overflow = ["WRAP", "SAT", "FAIL"][random.below(3)];
            text += &format!(" OVERFLOW {overflow}");
        }
        let signed = random.chance(50);
        let width = 1 + random.below(if signed { 64 } else { 63 });
        let (by_field, place) = (random.chance(30), random.below(200));
        let offset = if by_field { place * width } else { place };
        let (action, value) = (["GET", "SET", "INCRBY"][random.below(3)], random.any_size());
        let (sign, mark) = (if signed { 'i' } else { 'u' }, if by_field { "#" } else { "" });
        text += &format!(" {action} {sign}{width} {mark}{place}");
        if action != "GET" {
            text += &format!(" {value}");
        }
        plan.push((action, Field { signed, width, offset }, value, overflow));
    }
    let writes = plan.iter().filter(|(action, ..)| *action != "GET");
    if let Some(end) = writes.map(|(_, field, ..)| field.offset + field.width).max() {
        twin.grown(key, end);
    }
    let mut reply = format!("*{}\r\n", plan.len());
    for (action, field, value, overflow) in plan {
        let old = field.get(&twin.bits(key));
        let wanted = match action {
            "GET" => Some(old),
            "SET" if field.signed => field.fit(value.into(), overflow),
            "SET" => field.fit((value as u64).into(), overflow),
            _ => field.fit(old + i128::from(value), overflow),
        };
        match wanted {
            None => reply += "$-1\r\n",
            Some(new) => {
                if action != "GET" {
                    field.set(twin.grown(key, 0), new);
                }
                reply += &format!(":{}\r\n", if action == "SET" { old } else { new });
            }
        }
    }
    (text, reply)
}

#[test]
fn random_operations_answer_and_leave_what_a_row_of_bits_does() {
    for seed in 0..SEEDS {
        let (mut random, mut session, mut twin) = (Random(seed), Session::new(), Twin::default());
        for step in 0..OPERATIONS {
            if random.chance(6) {
                renew(&mut random, &mut session, &mut twin);
            }
            let (text, expected) = operation(&mut random, &mut twin);
            assert_eq!(session.ask(&text), expected, "seed {seed}, step {step}: {text}");
            let key = random.below(KEYS);
            let held = session.value(&format!("k{key}"));
            assert_eq!(held, twin.keys[key].as_deref().map(bytes_of), "seed {seed}, step {step}: {text}, then k{key}");
        }
    }
}

/// Sets a key to a new string or an integer, or deletes it.
fn renew(random: &mut Random, session: &mut Session, twin: &mut Twin) {
    let key = random.below(KEYS);
    let name = format!("k{key}");
    let value = match random.below(4) {
        0 => random.any_size().to_string().into_bytes(),
        1 => {
            session.ask(&format!("DEL {name}"));
            twin.keys[key] = None;
            return;
        }
        _ => {
            let len = random.len();
            random.bytes(len)
        }
    };
    session.ask_bytes(&[b"SET", name.as_bytes(), &value]);
    twin.keys[key] = Some(bits_of(&value));
}

#[test]
fn random_runs_replayed_from_their_journal_give_the_same_bits() {
    let (mut random, mut session, mut twin) = (Random(77), Session::new(), Twin::default());
    let mut reader = session.engine.journal.subscribe();
    for _ in 0..OPERATIONS {
        let (text, _) = operation(&mut random, &mut twin);
        session.ask(&text);
    }
    let mut journal = Vec::new();
    reader.read(&mut journal);
    let mut replayed = Session::new();
    replayed.local.exchange(&journal, &mut Vec::new()).expect("a journal ends no session");
    for key in 0..KEYS {
        let name = format!("k{key}");
        assert_eq!(replayed.value(&name), session.value(&name), "{name}");
    }
}

#[test]
fn reading_leaves_no_key_and_no_effect() {
    let mut session = Session::new();
    let reader = session.engine.journal.subscribe();
    for text in ["BITFIELD k", "BITFIELD k GET u8 100", "BITFIELD_RO k GET i5 #3", "GETBIT k 7", "BITOP OR k other"] {
        session.ask(text);
        assert_eq!(session.ask("EXISTS k"), ":0\r\n", "{text}");
    }
    session.ask("SET n 12345");
    let before = session.engine.journal.end();
    for text in ["BITFIELD n GET u8 0 GET i64 3", "BITCOUNT n", "BITPOS n 1", "GETBIT n 3", "LCS n n"] {
        session.ask(text);
        assert_eq!(session.ask("OBJECT ENCODING n"), "$3\r\nint\r\n", "{text}");
    }
    assert_eq!(session.engine.journal.end(), before);
    drop(reader);
}

#[test]
fn what_changes_nothing_is_no_change_for_a_watcher() {
    let mut session = Session::new();
    session.ask("SET k abc");
    let unchanging = ["SETBIT k 1 1", "BITFIELD k SET u8 0 97", "BITFIELD k OVERFLOW FAIL INCRBY u8 0 300"];
    for (texts, reply) in
        [(&unchanging[..], "*1\r\n+PONG\r\n"), (&["SETBIT k 100 0", "BITFIELD k SET u8 0 1"], "*-1\r\n")]
    {
        for text in texts {
            session.ask("WATCH k");
            session.ask(text);
            session.ask("MULTI");
            session.ask("PING");
            assert_eq!(session.ask("EXEC"), reply, "{text}");
        }
    }
}

#[test]
fn offsets_end_where_the_longest_string_does() {
    let config = Config::default();
    config.assign(Opt::ProtoMaxBulkLen, &[b"1mb"]).expect("an option of the table");
    let engine = Engine::new(config);
    let local = Local::open(&engine, || {});
    let mut session = Session { engine, local };
    const LAST: usize = (1 << 23) - 1;
    let refused = "-ERR bit offset is not an integer or out of range\r\n";
    assert_eq!(session.ask(&format!("SETBIT k {LAST} 1")), ":0\r\n");
    assert_eq!(session.ask("STRLEN k"), ":1048576\r\n");
    assert_eq!(session.ask(&format!("BITPOS k 1 0 {LAST} BIT")), format!(":{LAST}\r\n"));
    assert_eq!(session.ask(&format!("SETBIT k {} 1", LAST + 1)), refused);
    assert_eq!(session.ask(&format!("BITFIELD k GET u8 {}", LAST + 1)), refused);
    assert_eq!(session.ask(&format!("BITFIELD k SET u63 {LAST} 1")), "*1\r\n:4611686018427387904\r\n");
    assert_eq!(session.ask("BITFIELD k GET u8 #9223372036854775807"), refused);
}

/// Computes the LCS as Redis does: fills the full table of lengths, and follows it back.
fn plain_lcs(a: &[u8], b: &[u8]) -> (Vec<u8>, Vec<(usize, usize)>) {
    let mut table = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            table[i][j] = match a[i - 1] == b[j - 1] {
                true => table[i - 1][j - 1] + 1,
                false => table[i - 1][j].max(table[i][j - 1]),
            };
        }
    }
    let (mut i, mut j, mut pairs) = (a.len(), b.len(), Vec::new());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            pairs.push((i, j));
        } else if table[i - 1][j] > table[i][j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    assert_eq!(pairs.len(), table[a.len()][b.len()]);
    (pairs.iter().rev().map(|&(i, _)| a[i]).collect(), pairs)
}

/// Returns the reply to LCS IDX WITHMATCHLEN MINMATCHLEN, computed from the pairs of places.
fn plain_indexes(pairs: &[(usize, usize)], len_min: usize) -> String {
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    for &(i, j) in pairs {
        match runs.last_mut() {
            Some(run) if run.0 == i + 1 && run.1 == j + 1 => *run = (i, j, run.2 + 1),
            _ => runs.push((i, j, 1)),
        }
    }
    runs.retain(|run| run.2 >= len_min);
    let text: String = runs
        .iter()
        .map(|&(i, j, len)| {
            let (i_last, j_last) = (i + len - 1, j + len - 1);
            format!("*3\r\n*2\r\n:{i}\r\n:{i_last}\r\n*2\r\n:{j}\r\n:{j_last}\r\n:{len}\r\n")
        })
        .collect();
    format!("*4\r\n$7\r\nmatches\r\n*{}\r\n{text}$3\r\nlen\r\n:{}\r\n", runs.len(), pairs.len())
}

#[test]
fn lcs_chooses_what_the_full_table_chooses() {
    let (mut random, mut session) = (Random(5), Session::new());
    for step in 0..600 {
        let letters = [1, 2, 4, 26][random.below(4)];
        let text = |random: &mut Random| -> Vec<u8> {
            let len = random.below([5, 70, 200][step % 3]);
            (0..len).map(|_| b'a' + random.below(letters) as u8).collect()
        };
        let (a, b) = (text(&mut random), text(&mut random));
        session.ask_bytes(&[b"SET", b"a", &a]);
        session.ask_bytes(&[b"SET", b"b", &b]);
        let (subsequence, pairs) = plain_lcs(&a, &b);
        let bulk = format!("${}\r\n{}\r\n", subsequence.len(), String::from_utf8_lossy(&subsequence));
        assert_eq!(session.ask("LCS a b"), bulk, "step {step}");
        assert_eq!(session.ask("LCS a b LEN"), format!(":{}\r\n", pairs.len()), "step {step}");
        let len_min = random.below(4);
        let indexes = session.ask(&format!("LCS a b IDX WITHMATCHLEN MINMATCHLEN {len_min}"));
        assert_eq!(indexes, plain_indexes(&pairs, len_min), "step {step}");
    }
}

#[test]
fn lcs_refuses_a_table_that_is_longer_than_a_string_may_be() {
    let config = Config::default();
    config.assign(Opt::ProtoMaxBulkLen, &[b"1mb"]).expect("an option of the table");
    let engine = Engine::new(config);
    let local = Local::open(&engine, || {});
    let mut session = Session { engine, local };
    let refused = "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len\r\n";
    session.ask(&format!("SET a {}", "x".repeat(511)));
    session.ask(&format!("SET b {}", "x".repeat(511)));
    assert_eq!(session.ask("LCS a b LEN"), ":511\r\n");
    session.ask("APPEND b x");
    for text in ["LCS a b", "LCS a b LEN", "LCS a b IDX"] {
        assert_eq!(session.ask(text), refused);
    }
    assert_eq!(session.ask("LCS a missing"), "$0\r\n\r\n");
}
