//! Values of every type in the format, by hand: as they should be, empty, and with each fault that one can have.

use std::iter;

use sleeve_store::Pack;
use sleeve_store::rdb::push_len;

/// A value under test.
pub struct Case {
    /// The names of its type and of its oddity.
    pub name: String,
    /// The version of the format that the case needs.
    pub magic: &'static str,
    /// The number of its type.
    pub number: u8,
    /// The bytes of the value behind the type's number.
    pub bytes: Vec<u8>,
}

impl Case {
    /// Returns the version as a dump has it.
    pub fn version(&self) -> u16 {
        self.magic.trim_start_matches(|letter: char| letter.is_ascii_uppercase()).parse().expect("digits")
    }
}

fn length(length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_len(&mut bytes, length);
    bytes
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [length(bytes.len() as u64), bytes.to_vec()].concat()
}

/// Returns a count, and then these strings.
fn counted(count: u64, strings: &[&str]) -> Vec<u8> {
    iter::once(length(count)).chain(strings.iter().map(|text| string(text.as_bytes()))).collect::<Vec<_>>().concat()
}

/// Returns a count, and then members with scores, each in this form.
fn scored(count: u64, members: &[(&str, f64)], score: impl Fn(f64) -> Vec<u8>) -> Vec<u8> {
    let members = members.iter().map(|(member, number)| [string(member.as_bytes()), score(*number)].concat());
    iter::once(length(count)).chain(members).collect::<Vec<_>>().concat()
}

fn score_text(score: f64) -> Vec<u8> {
    if score.is_nan() { vec![253] } else { string(score.to_string().as_bytes()) }
}

fn score_bytes(score: f64) -> Vec<u8> {
    score.to_le_bytes().to_vec()
}

/// Returns a ziplist of short strings.
fn ziplist(texts: &[&str]) -> Vec<u8> {
    let (mut body, mut last, mut before) = (Vec::new(), 10, 0);
    for text in texts {
        last = 10 + body.len();
        body.extend([before as u8, text.len() as u8]);
        body.extend(text.bytes());
        before = 2 + text.len();
    }
    let total = (10 + body.len() + 1) as u32;
    [&total.to_le_bytes()[..], &(last as u32).to_le_bytes(), &(texts.len() as u16).to_le_bytes(), &body, &[255]]
        .concat()
}

fn listpack(texts: &[&str]) -> Vec<u8> {
    let pack: Pack = texts.iter().map(|text| text.as_bytes()).collect();
    pack.as_packed().to_redis()
}

fn intset(width: u32, count: u32, numbers: &[i16]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
    width.to_le_bytes().into_iter().chain(count.to_le_bytes()).chain(numbers).collect()
}

/// Returns these bytes with one of them changed.
fn with(mut bytes: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    bytes[at] = byte;
    bytes
}

/// Writes a score.
type ScoreForm = fn(f64) -> Vec<u8>;

/// Makes a value of packed elements.
type Whole = fn(&[u8]) -> Vec<u8>;

/// Gathers the cases.
struct Cases(Vec<Case>);

impl Cases {
    fn add(&mut self, (magic, number): (&'static str, u8), name: &str, bytes: Vec<u8>) {
        self.0.push(Case { name: format!("{number:02}-{name}"), magic, number, bytes });
    }

    /// Adds collections that hold their elements one by one.
    fn add_plain(&mut self) {
        for (number, kind) in [(1, "list"), (2, "set")] {
            let (of, name) = (("REDIS0010", number), |odd: &str| format!("{kind}-{odd}"));
            self.add(of, &name("good"), counted(2, &["a", "b"]));
            self.add(of, &name("empty"), counted(0, &[]));
            self.add(of, &name("twice"), counted(2, &["a", "a"]));
            self.add(of, &name("short"), counted(3, &["a", "b"]));
            self.add(of, &name("long"), counted(1, &["a", "b"]));
            self.add(of, &name("huge"), counted(1 << 60, &["a"]));
        }
        let forms: [(u8, &str, ScoreForm); 2] = [(3, "zset-text", score_text), (5, "zset", score_bytes)];
        for (number, kind, form) in forms {
            let (of, name) = (("REDIS0010", number), |odd: &str| format!("{kind}-{odd}"));
            self.add(of, &name("good"), scored(2, &[("b", 1.5), ("a", -2.0)], form));
            self.add(of, &name("empty"), scored(0, &[], form));
            self.add(of, &name("twice"), scored(2, &[("a", 1.0), ("a", 2.0)], form));
            self.add(of, &name("nan"), scored(1, &[("a", f64::NAN)], form));
            self.add(of, &name("short"), scored(3, &[("a", 1.0)], form));
        }
        for (version, number) in [("REDIS0010", 4), ("VALKEY080", 4)] {
            let (of, name) = ((version, number), |odd: &str| format!("hash-{odd}-{version}"));
            self.add(of, &name("good"), counted(2, &["a", "1", "b", "2"]));
            self.add(of, &name("empty"), counted(0, &[]));
            self.add(of, &name("twice"), counted(2, &["a", "1", "a", "2"]));
            self.add(of, &name("short"), counted(2, &["a", "1", "b"]));
        }
    }

    /// Adds the values that were packed before version 7.
    fn add_ziplists(&mut self) {
        let pairs = ["a", "1", "b", "2"];
        let kinds: [(u8, &str, Whole); 4] = [
            (10, "list-ziplist", string),
            (12, "zset-ziplist", string),
            (13, "hash-ziplist", string),
            (14, "quicklist", |node| [length(1), string(node)].concat()),
        ];
        for (number, kind, whole) in kinds {
            let mut add =
                |odd: &str, bytes: Vec<u8>| self.add(("REDIS0010", number), &format!("{kind}-{odd}"), whole(&bytes));
            let good = ziplist(&pairs);
            let end = good.len();
            add("good", good.clone());
            add("empty", ziplist(&[]));
            add("no-bytes", Vec::new());
            add("twice", ziplist(&["a", "1", "a", "2"]));
            add("odd", ziplist(&["a", "1", "b"]));
            add("zlbytes-more", with(good.clone(), 0, end as u8 + 1));
            add("zlbytes-less", with(good.clone(), 0, end as u8 - 1));
            add("tail-elsewhere", with(good.clone(), 4, 10));
            add("tail-outside", with(good.clone(), 4, 200));
            add("count-more", with(good.clone(), 8, 5));
            add("count-less", with(good.clone(), 8, 3));
            add("count-unknown", with(with(good.clone(), 8, 255), 9, 255));
            add("prevlen-more", with(good.clone(), 13, 9));
            add("prevlen-less", with(good.clone(), 13, 2));
            add("first-prevlen", with(good.clone(), 10, 3));
            add("encoding", with(good.clone(), 11, 0xff));
            add("length", with(good.clone(), 11, 0x20));
            add("no-end", with(good.clone(), end - 1, 0));
            add("behind-the-end", [good.clone(), vec![1]].concat());
            add("cut-off", good[..end - 2].to_vec());
            add("score", ziplist(&["a", "one"]));
        }
        let of = ("REDIS0010", 14);
        self.add(of, "quicklist-no-nodes", length(0));
        self.add(of, "quicklist-short", [length(3), string(&ziplist(&pairs))].concat());
        self.add(of, "quicklist-one-empty", [length(2), string(&ziplist(&[])), string(&ziplist(&pairs))].concat());
        let of = ("REDIS0010", 9);
        let good = b"\x02\x01a\x01\x001\x01b\x01\x012 \xff".to_vec();
        self.add(of, "zipmap-good", string(&good));
        self.add(of, "zipmap-empty", string(b"\x00\xff"));
        self.add(of, "zipmap-count", string(&with(good.clone(), 0, 3)));
        self.add(of, "zipmap-count-unknown", string(&with(good.clone(), 0, 254)));
        self.add(of, "zipmap-twice", string(&with(good.clone(), 7, b'a')));
        self.add(of, "zipmap-length", string(&with(good.clone(), 1, 40)));
        self.add(of, "zipmap-no-end", string(&good[..good.len() - 1]));
    }

    /// Adds the values that are packed today.
    fn add_listpacks(&mut self) {
        let pairs = ["a", "1", "b", "2"];
        let kinds: [(&str, u8, &str, Whole); 4] = [
            ("REDIS0010", 16, "hash-listpack", string),
            ("REDIS0010", 17, "zset-listpack", string),
            ("REDIS0010", 18, "quicklist2", |node| [length(1), length(2), string(node)].concat()),
            ("REDIS0011", 20, "set-listpack", string),
        ];
        for (version, number, kind, whole) in kinds {
            let mut add =
                |odd: &str, bytes: Vec<u8>| self.add((version, number), &format!("{kind}-{odd}"), whole(&bytes));
            let good = listpack(&pairs);
            let end = good.len();
            add("good", good.clone());
            add("empty", listpack(&[]));
            add("no-bytes", Vec::new());
            add("twice", listpack(&["a", "1", "a", "2"]));
            add("odd", listpack(&["a", "1", "b"]));
            add("total-more", with(good.clone(), 0, end as u8 + 1));
            add("total-less", with(good.clone(), 0, end as u8 - 1));
            add("count-more", with(good.clone(), 4, 5));
            add("count-less", with(good.clone(), 4, 3));
            add("count-unknown", with(with(good.clone(), 4, 255), 5, 255));
            add("backlen", with(good.clone(), 8, 5));
            add("encoding", with(good.clone(), 6, 0xf8));
            add("length", with(good.clone(), 6, 0xbf));
            add("no-end", with(good.clone(), end - 1, 0));
            add("behind-the-end", [good.clone(), vec![1]].concat());
            add("cut-off", good[..end - 2].to_vec());
            add("order", listpack(&["b", "2", "a", "1"]));
        }
        let of = ("REDIS0010", 18);
        let node = |container: u64, bytes: &[u8]| [length(container), string(bytes)].concat();
        self.add(of, "quicklist2-no-nodes", length(0));
        self.add(of, "quicklist2-one-empty", [length(2), node(2, &listpack(&[])), node(2, &listpack(&pairs))].concat());
        self.add(of, "quicklist2-plain", [length(1), node(1, b"plain")].concat());
        self.add(of, "quicklist2-plain-empty", [length(1), node(1, b"")].concat());
        self.add(of, "quicklist2-container", [length(1), node(3, b"plain")].concat());
        let of = ("REDIS0010", 11);
        self.add(of, "intset-good", string(&intset(2, 2, &[1, 2])));
        self.add(of, "intset-empty", string(&intset(2, 0, &[])));
        self.add(of, "intset-order", string(&intset(2, 2, &[2, 1])));
        self.add(of, "intset-twice", string(&intset(2, 2, &[1, 1])));
        self.add(of, "intset-width", string(&intset(3, 2, &[1, 2])));
        self.add(of, "intset-count", string(&intset(2, 3, &[1, 2])));
    }

    /// Adds hashes that have fields with deadlines, which Redis and Valkey write differently.
    fn add_timed(&mut self) {
        const LATER_MS: i64 = 4_000_000_000_000;
        let field = |text: &str| [string(text.as_bytes()), string(b"v")].concat();
        let until = |at: i64| at.to_le_bytes().to_vec();
        let of = ("VALKEY080", 22);
        self.add(of, "hash-timed-good", [length(2), field("a"), until(-1), field("b"), until(LATER_MS)].concat());
        self.add(of, "hash-timed-empty", length(0));
        self.add(of, "hash-timed-twice", [length(2), field("a"), until(-1), field("a"), until(-1)].concat());
        self.add(of, "hash-timed-short", [length(2), field("a"), until(-1)].concat());
        let of = ("REDIS0012", 24);
        self.add(
            of,
            "hash-timed-good",
            [until(LATER_MS), length(2), length(0), field("a"), length(1), field("b")].concat(),
        );
        self.add(of, "hash-timed-empty", [until(LATER_MS), length(0)].concat());
        let twice = [until(LATER_MS), length(2), length(0), field("a"), length(0), field("a")];
        self.add(of, "hash-timed-twice", twice.concat());
        self.add(of, "hash-timed-short", [until(LATER_MS), length(2), length(0), field("a")].concat());
        let of = ("REDIS0012", 25);
        let packed = |texts: &[&str]| [until(LATER_MS), string(&listpack(texts))].concat();
        self.add(of, "hash-timed-listpack-good", packed(&["b", "2", "4000000000000", "a", "1", "0"]));
        self.add(of, "hash-timed-listpack-empty", packed(&[]));
        self.add(of, "hash-timed-listpack-twice", packed(&["a", "1", "0", "a", "1", "0"]));
        self.add(of, "hash-timed-listpack-odd", packed(&["a", "1"]));
    }

    fn add_streams(&mut self) {
        for (version, number) in [("REDIS0010", 15), ("REDIS0010", 19), ("REDIS0011", 21), ("REDIS0013", 26)] {
            let mut add = |odd: &str, stream: Stream| {
                self.add((version, number), &format!("stream-{odd}"), stream.bytes(number));
            };
            let good = Stream::default;
            add("good", good());
            add("no-blocks", Stream { blocks: Vec::new(), length: 0, ..good() });
            add("length-without-blocks", Stream { blocks: Vec::new(), ..good() });
            add("length-more", Stream { length: 5, ..good() });
            add("length-less", Stream { length: 1, ..good() });
            add("last-id-low", Stream { last_ms: 1, ..good() });
            add("block-twice", Stream { blocks: vec![block(&[0, 0], 4, 0); 2], length: 4, ..good() });
            add("block-empty", Stream { blocks: vec![listpack(&[])], ..good() });
            add("block-count-less", Stream { blocks: vec![block(&[0, 0], 4, 0)[..9].to_vec()], ..good() });
            add("block-count-more", Stream { blocks: vec![block(&[0, 0], 4, 3)], ..good() });
            add("block-all-deleted", Stream { blocks: vec![block(&[1, 1], 4, 0)], length: 0, ..good() });
            add("block-one-deleted", Stream { blocks: vec![block(&[1, 0], 4, 0)], length: 1, ..good() });
            add("entry-count", Stream { blocks: vec![block(&[0, 0], 3, 0)], ..good() });
            add("groups-short", Stream { groups: 2, ..good() });
            add("consumer-twice", Stream { consumers: vec![("c", vec![1]), ("c", vec![])], ..good() });
            add("pending-of-nobody", Stream { consumers: vec![("c", vec![])], ..good() });
            add("pending-of-two", Stream { consumers: vec![("c", vec![1]), ("d", vec![1])], ..good() });
            add("pending-twice-of-one", Stream { consumers: vec![("c", vec![1, 1])], ..good() });
            add("pending-unknown", Stream { consumers: vec![("c", vec![1, 2])], ..good() });
            add("pending-twice", Stream { pending: vec![1, 1], ..good() });
            add("no-pending", Stream { pending: Vec::new(), consumers: vec![("c", vec![])], ..good() });
        }
    }

    /// Adds strings, and type numbers that stand for no type.
    fn add_others(&mut self) {
        self.add(("REDIS0010", 0), "string-good", string(b"value"));
        self.add(("REDIS0010", 0), "string-short", [length(9), b"value".to_vec()].concat());
        self.add(("REDIS0010", 0), "string-compressed-wrongly", b"\xc3\x02\x40\x40\xe0\xff".to_vec());
        self.add(("REDIS0010", 0), "string-form", b"\xc4".to_vec());
        for number in [6, 7, 8, 30, 99, 242] {
            self.add(("REDIS0010", number), "no-type", string(b"value"));
        }
    }
}

/// Returns a block under the id 1-0 with the entries 1-0, 2-0 and so on, one for each of the flags `deleted` (1 is deleted).
/// Each entry has a field of the block and says that it has `elements` elements. The block states `more` live entries than it
/// has.
fn block(deleted: &[u8], elements: u8, more: u8) -> Vec<u8> {
    let gone = deleted.iter().filter(|&&flag| flag == 1).count() as u8;
    let live = deleted.len() as u8 - gone + more;
    let mut pack: Vec<String> = [live, gone, 1].map(|number| number.to_string()).to_vec();
    pack.extend(["name".to_owned(), "0".to_owned()]);
    for (number, flag) in deleted.iter().enumerate() {
        let numbers = [2 | flag, number as u8, 0].map(|number| number.to_string());
        pack.extend(numbers.into_iter().chain(["value".to_owned(), elements.to_string()]));
    }
    listpack(&pack.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A stream and its one group, before they are bytes.
struct Stream {
    blocks: Vec<Vec<u8>>,
    length: u64,
    last_ms: u64,
    groups: u64,
    /// The pending entries, and the entries of each consumer.
    pending: Vec<u64>,
    consumers: Vec<(&'static str, Vec<u64>)>,
}

impl Default for Stream {
    fn default() -> Self {
        let (blocks, pending, consumers) = (vec![block(&[0, 0], 4, 0)], vec![1], vec![("c", vec![1])]);
        Self { blocks, length: 2, last_ms: 2, groups: 1, pending, consumers }
    }
}

impl Stream {
    /// Returns the bytes under the number of this type.
    fn bytes(&self, number: u8) -> Vec<u8> {
        let raw_id = |ms: u64| [ms.to_be_bytes(), [0; 8]].concat();
        let lengths = |numbers: &[u64]| numbers.iter().flat_map(|&number| length(number)).collect::<Vec<_>>();
        let mut bytes = length(self.blocks.len() as u64);
        for block in &self.blocks {
            bytes.extend([string(&raw_id(1)), string(block)].concat());
        }
        bytes.extend(lengths(&[self.length, self.last_ms, 0]));
        if number != 15 {
            bytes.extend(lengths(&[1, 0, 0, 0, 2]));
        }
        bytes.extend([length(self.groups), string(b"group")].concat());
        bytes.extend(if number == 15 { lengths(&[2, 0]) } else { lengths(&[2, 0, 2]) });
        bytes.extend(length(self.pending.len() as u64));
        for &ms in &self.pending {
            bytes.extend([raw_id(ms), vec![7; 8], length(1)].concat());
        }
        bytes.extend(length(self.consumers.len() as u64));
        for (name, pending) in &self.consumers {
            let times = if number >= 21 { 16 } else { 8 };
            bytes.extend([string(name.as_bytes()), vec![7; times], length(pending.len() as u64)].concat());
            pending.iter().for_each(|&ms| bytes.extend(raw_id(ms)));
        }
        if number == 26 {
            // The limits of producers' ids, and counts of zero: no id is kept, and none was seen.
            bytes.extend(lengths(&[100, 100, 0, 0, 0]));
        }
        bytes
    }
}

/// Returns all cases.
pub fn all() -> Vec<Case> {
    let mut cases = Cases(Vec::new());
    cases.add_others();
    cases.add_plain();
    cases.add_ziplists();
    cases.add_listpacks();
    cases.add_timed();
    cases.add_streams();
    cases.0
}
