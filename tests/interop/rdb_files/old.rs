//! A file as Redis wrote it before version 7: every encoding that is no longer written, made by hand.

use sleeve_store::Pack;
use sleeve_store::rdb::{crc64, push_len};

/// A time that is not reached while a test runs, in seconds since the epoch.
const LATER_S: i32 = 2_000_000_000;

fn string(bytes: &[u8]) -> Vec<u8> {
    let mut string = Vec::new();
    push_len(&mut string, bytes.len() as u64);
    [string, bytes.to_vec()].concat()
}

/// Returns an element of a ziplist without its prevlen: integers of each width, strings of each length.
fn element(text: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok()) {
        Some(number @ 0..=12) => vec![0xf1 + number as u8],
        Some(number @ -128..=127) => vec![0xfe, number as u8],
        Some(number @ -0x8000..=0x7fff) => [&[0xc0], &number.to_le_bytes()[..2]].concat(),
        Some(number @ -0x80_0000..=0x7f_ffff) => [&[0xf0], &number.to_le_bytes()[..3]].concat(),
        Some(number @ -0x8000_0000..=0x7fff_ffff) => [&[0xd0], &number.to_le_bytes()[..4]].concat(),
        Some(number) => [&[0xe0], &number.to_le_bytes()[..]].concat(),
        None => match text.len() {
            length @ 0..=63 => [&[length as u8], text].concat(),
            length @ 64..=16383 => [&[0x40 | (length >> 8) as u8, length as u8], text].concat(),
            length => [&[0x80][..], &(length as u32).to_be_bytes(), text].concat(),
        },
    }
}

fn ziplist(texts: &[&[u8]]) -> Vec<u8> {
    let (mut body, mut last, mut before) = (Vec::new(), 10, 0_usize);
    for text in texts {
        last = 10 + body.len();
        let begin = body.len();
        match before {
            0..=253 => body.push(before as u8),
            _ => body.extend([&[254][..], &(before as u32).to_le_bytes()].concat()),
        }
        body.extend(element(text));
        before = body.len() - begin;
    }
    let total = 10 + body.len() + 1;
    let count = (texts.len() as u16).to_le_bytes();
    [&(total as u32).to_le_bytes()[..], &(last as u32).to_le_bytes(), &count, &body, &[255]].concat()
}

fn zipmap(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    let length = |bytes: &[u8]| match bytes.len() {
        length @ 0..=253 => vec![length as u8],
        length => [&[254][..], &(length as u32).to_le_bytes()].concat(),
    };
    let mut map = vec![pairs.len() as u8];
    for (field, value) in pairs {
        map.extend([&length(field), *field, &length(value), &[2], *value, &[0, 0]].concat());
    }
    map.push(255);
    map
}

fn intset(width: usize, numbers: &[i64]) -> Vec<u8> {
    let numbers_bytes = numbers.iter().flat_map(|number| number.to_le_bytes()[..width].to_vec());
    let head = [(width as u32).to_le_bytes(), (numbers.len() as u32).to_le_bytes()].concat();
    head.into_iter().chain(numbers_bytes).collect()
}

/// Returns a block of a stream with two entries, and a group in which one of them is pending, as Redis 5 has it.
fn stream() -> Vec<u8> {
    let mut block = <Pack>::new();
    [2_i64, 0, 1].into_iter().for_each(|number| block.push_back(number));
    block.push_back(b"name");
    [0_i64, 2, 0, 0].into_iter().for_each(|number| block.push_back(number));
    block.push_back(b"one");
    [4_i64, 2, 3, 1].into_iter().for_each(|number| block.push_back(number));
    block.push_back(b"two");
    block.push_back(4_i64);
    let id = |ms: u64, seq: u64| [ms.to_be_bytes(), seq.to_be_bytes()].concat();
    let pending = [id(7, 0), 1_700_000_000_000_u64.to_le_bytes().to_vec(), vec![3]].concat();
    let consumer = [string(b"consumer"), 1_700_000_000_001_u64.to_le_bytes().to_vec(), vec![1], id(7, 0)].concat();
    let group = [string(b"group"), vec![7, 0, 1], pending, vec![1], consumer].concat();
    [vec![1], string(&id(7, 0)), string(&block.as_packed().to_redis()), vec![2, 10, 1, 1], group].concat()
}

/// Returns the types with their values.
fn records() -> Vec<(u8, Vec<u8>)> {
    let long = vec![b'x'; 300];
    let huge = vec![b'y'; 20_000];
    let texts: Vec<&[u8]> =
        vec![b"", b"a", b"0", b"12", b"13", b"-1", b"300", b"-40000", b"9000000", b"-3000000000", &long, &huge, b"end"];
    let pairs: Vec<&[u8]> = vec![b"field", b"value", b"other", &long, b"1", b"2"];
    let scores: Vec<&[u8]> = vec![b"a", b"-inf", b"b", b"-1.5", b"c", b"3", b"d", b"inf"];
    let text_scores = [&b"\x05"[..], b"\x01a\x031.5", b"\x01b\xff", b"\x01c\xfe", b"\x01d\x0217", b"\x01e\x08-1.25e-3"];
    let listed = |items: &[&[u8]]| {
        let mut list = vec![items.len() as u8];
        items.iter().for_each(|item| list.extend(string(item)));
        list
    };
    vec![
        (0, string(b"plain")),
        (0, vec![0xc0, 0xff]),
        (0, vec![0xc1, 0x39, 0x30]),
        (0, vec![0xc2, 0, 0, 0, 0x80]),
        (0, b"\xc3\x06\x40\x64\x01aa\xe0\x59\x00".to_vec()),
        (1, listed(&[b"one", b"2", &long])),
        (2, listed(&[b"one", b"2", &long])),
        (3, text_scores.concat()),
        (
            4,
            listed(&[b"field", b"value"])
                .into_iter()
                .enumerate()
                .map(|(at, byte)| if at == 0 { 1 } else { byte })
                .collect(),
        ),
        (9, string(&zipmap(&[(b"field", b"value"), (b"long", &long), (&long, b"")]))),
        (10, string(&ziplist(&texts))),
        (11, string(&intset(2, &[-5, 0, 300]))),
        (11, string(&intset(4, &[-70_000, 5]))),
        (11, string(&intset(8, &[i64::MIN, 5, i64::MAX]))),
        (12, string(&ziplist(&scores))),
        (13, string(&ziplist(&pairs))),
        (14, listed(&[&ziplist(&texts), &ziplist(&[b"last"])])),
        (15, stream()),
    ]
}

/// Returns a file of version 9 with all of these values; every second key has a deadline.
pub fn file() -> Vec<u8> {
    let mut file = b"REDIS0009\xfa\x09redis-ver\x055.0.3\xfe\x00".to_vec();
    for (number, (kind, value)) in records().into_iter().enumerate() {
        if number % 2 == 0 {
            file.push(253);
            file.extend(LATER_S.to_le_bytes());
        }
        file.push(kind);
        file.extend(string(format!("key:{number}").as_bytes()));
        file.extend(value);
    }
    file.push(255);
    file.extend(crc64(&file).to_le_bytes());
    file
}

/// Returns the number of keys in the file.
pub fn keys() -> usize {
    records().len()
}

/// Returns a file with hashes with deadlines as Redis 7.4 wrote them before it was finished.
pub fn file_of_a_candidate() -> Vec<u8> {
    let deadline = i64::from(LATER_S) * 1000;
    let mut table = vec![2];
    push_len(&mut table, deadline as u64);
    table.extend([string(b"timed"), string(b"value"), vec![0], string(b"other"), string(b"2")].concat());
    let mut pack = <Pack>::new();
    for (field, at_ms) in [(b"timed", deadline), (b"other", 0)] {
        pack.push_back(field);
        pack.push_back(b"value");
        pack.push_back(at_ms);
    }
    let packed = string(&pack.as_packed().to_redis());
    let mut file = [&b"REDIS0012\xfe\x00"[..], b"\x16\x05key:0", &table, b"\x17\x05key:1", &packed, b"\xff"].concat();
    file.extend(crc64(&file).to_le_bytes());
    file
}
