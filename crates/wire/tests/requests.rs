//! The request parser against a naive twin, and against itself with the bytes cut in every way.

use proptest::prelude::*;
use sleeve_wire::inline;
use sleeve_wire::request::{Args, Batch, Limits, OwnedArgs, Parser, ProtocolError, Span};

/// The requests that a connection parsed, and the error that ended it.
type Understood = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Feeds `bytes` in pieces that end at `cuts` (increasing), the way a connection does, and collects the requests.
fn understand(bytes: &[u8], cuts: impl IntoIterator<Item = usize>, limits: &Limits) -> Understood {
    let (mut parser, mut batch, mut requests) = (Parser::new(), Batch::new(), Vec::new());
    let mut consumed = 0;
    for cut in cuts.into_iter().chain([bytes.len()]) {
        loop {
            batch.clear();
            let buf = &bytes[consumed..cut];
            let result = parser.parse(buf, limits, &mut batch);
            requests.extend((0..batch.len()).map(|n| batch.get(n, buf).iter().map(<[u8]>::to_vec).collect::<Vec<_>>()));
            match result {
                Ok(n) => consumed += n,
                Err(error) => return (requests, Some(error)),
            }
            if batch.len() < limits.requests_max {
                break;
            }
        }
        assert!(!parser.is_partial() || parser.wanted() > cut - consumed, "asks for bytes that it has");
    }
    (requests, None)
}

/// Parses as a naive twin: reads everything anew, straight down the rules, and gives up at the first incomplete request.
fn naive(mut bytes: &[u8], limits: &Limits) -> Understood {
    let mut requests = Vec::new();
    loop {
        match naive_request(bytes, limits) {
            Ok(Some((request, rest))) => {
                if !request.is_empty() {
                    requests.push(request);
                }
                bytes = rest;
            }
            Ok(None) => return (requests, None),
            Err(error) => return (requests, Some(error)),
        }
    }
}

type Naive<'a> = Result<Option<(Vec<Vec<u8>>, &'a [u8])>, ProtocolError>;

fn naive_request<'a>(bytes: &'a [u8], limits: &Limits) -> Naive<'a> {
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes[0] != b'*' {
        return naive_inline(bytes);
    }
    let Some((line, mut rest)) = naive_line(bytes, ProtocolError::TooBigMultibulkCount)? else { return Ok(None) };
    let count = naive_number(&line[1..]).filter(|&count| count <= limits.args_max);
    let count = count.ok_or(ProtocolError::InvalidMultibulkLength)?;
    if count > 10 && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedMultibulkLength);
    }
    let mut args = Vec::new();
    for _ in 0..count {
        let Some((line, after)) = naive_line(rest, ProtocolError::TooBigBulkCount)? else { return Ok(None) };
        let first = line.first().copied().unwrap_or(b'\r');
        if first != b'$' {
            return Err(ProtocolError::ExpectedDollar(first));
        }
        let len = naive_number(&line[1..]).filter(|&len| len >= 0 && len <= limits.bulk_len_max);
        let len = len.ok_or(ProtocolError::InvalidBulkLength)?;
        if len > 16384 && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        if (after.len() as i64) < len + 2 {
            return Ok(None);
        }
        args.push(after[..len as usize].to_vec());
        rest = &after[len as usize + 2..];
    }
    Ok(Some((args, rest)))
}

fn naive_inline(bytes: &[u8]) -> Naive<'_> {
    if bytes.len() >= 2 && bytes[..2] == [0x16, 3] {
        return Err(ProtocolError::TlsHandshake);
    }
    let end = bytes.iter().position(|&byte| byte == b'\n' || byte == 0);
    match end.filter(|&end| bytes[end] == b'\n') {
        Some(end) if end > 65536 => Err(ProtocolError::TooBigInline),
        None if bytes.len() > 65536 => Err(ProtocolError::TooBigInline),
        None => Ok(None),
        Some(end) => {
            let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
            let args = split(line).ok_or(ProtocolError::UnbalancedQuotes)?;
            Ok(Some((args, &bytes[end + 1..])))
        }
    }
}

/// A line and the bytes behind it.
type Line<'a> = Option<(&'a [u8], &'a [u8])>;

fn naive_line(bytes: &[u8], too_long: ProtocolError) -> Result<Line<'_>, ProtocolError> {
    match bytes.iter().position(|&byte| byte == b'\r') {
        Some(end) if end > 65536 => Err(too_long),
        None if bytes.len() > 65536 => Err(too_long),
        Some(end) if bytes.len() >= end + 2 => Ok(Some((&bytes[..end], &bytes[end + 2..]))),
        _ => Ok(None),
    }
}

fn naive_number(text: &[u8]) -> Option<i64> {
    let value: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (value.to_string().as_bytes() == text).then_some(value)
}

fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    let balanced = inline::split(line, &mut bytes, &mut spans);
    balanced.then(|| Args::new(&bytes, &spans).iter().map(<[u8]>::to_vec).collect())
}

fn multibulk(args: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let arg = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..12),
        1 => proptest::collection::vec(any::<u8>(), 90..130)
    ];
    prop_oneof![
        8 => proptest::collection::vec(arg, 1..6).prop_map(|args| multibulk(&args)),
        1 => proptest::collection::vec(Just(b"x".to_vec()), 9..13).prop_map(|args| multibulk(&args)),
        2 => r#"[ a-z"'\\xn0\t]{0,12}"#.prop_map(|line| format!("{line}\r\n").into_bytes()),
        1 => "[a-z ]{0,8}\n".prop_map(String::into_bytes),
        1 => Just(b"*0\r\n".to_vec()),
        1 => Just(b"*-1\r\n".to_vec()),
    ]
}

/// Returns a stream of requests in which a few bytes may be wrong.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let wrong = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    (proptest::collection::vec(request(), 1..8), wrong).prop_map(|(requests, wrong)| {
        let mut bytes = requests.concat();
        wrong.into_iter().for_each(|(at, byte)| {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        });
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn agrees_with_the_twin_however_the_bytes_are_cut(
        bytes in stream(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        authenticated: bool,
        one_by_one: bool,
    ) {
        let requests_max = if one_by_one { 1 } else { usize::MAX };
        let limits = Limits { args_max: 11, bulk_len_max: 120, authenticated, requests_max };
        let expected = naive(&bytes, &limits);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(&understand(&bytes, cuts, &limits), &expected);
        prop_assert_eq!(&understand(&bytes, [], &limits), &expected);
        prop_assert_eq!(&understand(&bytes, 0..bytes.len(), &limits), &expected);
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let limits = Limits::default();
        prop_assert_eq!(understand(&bytes, 0..bytes.len(), &limits), naive(&bytes, &limits));
    }
}

#[test]
fn a_conversation_cut_at_every_byte_is_understood() {
    let bytes = [
        multibulk(&[b"SET".to_vec(), b"k".to_vec(), vec![b'v'; 300]]),
        b"*0\r\n*-1\r\n\r\n  \r\nset \"a\\x41 b\" 'it\\'s'\r\nPING\n".to_vec(),
        multibulk(&(0..40).map(|n| vec![b'a'; n]).collect::<Vec<_>>()),
        b"*1\r\n$4\r\nPINGxx*1\rx$4\rxPINGxx".to_vec(),
    ]
    .concat();
    let limits = Limits::default();
    let whole = understand(&bytes, [], &limits);
    assert_eq!(whole, naive(&bytes, &limits));
    assert_eq!((whole.0.len(), &whole.1), (6, &None));
    assert_eq!(whole.0[1], [b"set".to_vec(), b"aA b".to_vec(), b"it's".to_vec()]);
    for cut in 0..=bytes.len() {
        assert_eq!(understand(&bytes, [cut], &limits), whole, "cut at {cut}");
    }
}

#[test]
fn a_head_that_is_nearly_usual_is_read_byte_by_byte() {
    let usual = multibulk(&[b"GET".to_vec(), b"k".to_vec()]);
    let small = Limits { args_max: 1, ..Limits::default() };
    let short = Limits { bulk_len_max: 2, ..Limits::default() };
    let lone = Limits { authenticated: false, requests_max: 1, ..Limits::default() };
    for limits in [Limits::default(), small, short, lone] {
        for (at, byte) in (0..usual.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
            let mut bytes = usual.repeat(2);
            bytes[at] = byte;
            let twice = (understand(&bytes, [], &limits), understand(&bytes, 1..bytes.len(), &limits));
            let expected = naive(&bytes, &limits);
            assert_eq!(twice, (expected.clone(), expected), "{byte} at {at}");
        }
    }
}

#[test]
fn errors_have_the_words_of_redis() {
    let limits = Limits::default();
    let text = |bytes: &[u8], limits: &Limits| {
        let (_, error) = understand(bytes, 0..bytes.len(), limits);
        assert_eq!(understand(bytes, [], limits).1, error);
        error.map(|error| String::from_utf8(error.message().into_owned()).unwrap()).unwrap_or_default()
    };
    let repeated = |head: &str, byte: &str| [head.as_bytes(), &byte.as_bytes().repeat(65537)].concat();
    assert_eq!(text(b"*a\r\n", &limits), "Protocol error: invalid multibulk length");
    assert_eq!(text(b"*\r\n", &limits), "Protocol error: invalid multibulk length");
    assert_eq!(text(b"*01\r\n", &limits), "Protocol error: invalid multibulk length");
    assert_eq!(text(b"*2147483648\r\n", &limits), "Protocol error: invalid multibulk length");
    assert_eq!(text(b"*1\r\n$-1\r\n", &limits), "Protocol error: invalid bulk length");
    assert_eq!(text(b"*1\r\n$536870913\r\n", &limits), "Protocol error: invalid bulk length");
    assert_eq!(text(b"*1\r\nfoo\r\n", &limits), "Protocol error: expected '$', got 'f'");
    assert_eq!(text(b"*1\r\n\r\n", &limits), "Protocol error: expected '$', got ' '");
    assert_eq!(text(b"\"foo\"bar\r\n", &limits), "Protocol error: unbalanced quotes in request");
    assert_eq!(text(&repeated("", "a"), &limits), "Protocol error: too big inline request");
    assert_eq!(text(&repeated("*", "1"), &limits), "Protocol error: too big mbulk count string");
    assert_eq!(text(&repeated("*1\r\n$", "1"), &limits), "Protocol error: too big bulk count string");
    let stranger = Limits { authenticated: false, requests_max: 1, ..limits };
    assert_eq!(text(b"*11\r\n", &stranger), "Protocol error: unauthenticated multibulk length");
    assert_eq!(text(b"*1\r\n$16385\r\n", &stranger), "Protocol error: unauthenticated bulk length");
    assert_eq!(text(b"*10\r\n$16384\r\n", &stranger), "");
}

#[test]
fn requests_before_an_error_are_kept() {
    let (requests, error) = understand(b"PING\r\n*1\r\n$4\r\nECHO\r\n*1\r\n+", [], &Limits::default());
    assert_eq!((requests.len(), error), (2, None));
    let (requests, error) = understand(b"PING\r\n*1\r\n$4\r\nECHO\r\n*x\r\n", [], &Limits::default());
    assert_eq!((requests.len(), error), (2, Some(ProtocolError::InvalidMultibulkLength)));
}

#[test]
fn claimed_sizes_cost_nothing_and_slow_bytes_are_not_read_twice() {
    let mut parser = Parser::new();
    let mut batch = Batch::new();
    let limits = Limits { bulk_len_max: i64::MAX, ..Limits::default() };
    assert_eq!(parser.parse(b"*1048576\r\n$536870912\r\n", &limits, &mut batch), Ok(0));
    assert_eq!(parser.wanted(), 22 + 536_870_912 + 2);
    // Half a million arguments, byte by byte: quadratic work would not end.
    let request = b"*500000\r\n".iter().copied().chain(b"$1\r\nx\r\n".repeat(500_000)).collect::<Vec<_>>();
    let (requests, error) = understand(&request, 0..request.len(), &limits);
    assert_eq!((requests.len(), requests[0].len(), error), (1, 500_000, None));
    // Lengths beyond the range of spans are refused, whichever limits are set.
    let mut parser = Parser::new();
    for len in ["4294967295", "9223372036854775807"] {
        let result = parser.parse(format!("*1\r\n${len}\r\n").as_bytes(), &limits, &mut batch);
        assert_eq!(result, Err(ProtocolError::InvalidBulkLength));
    }
}

#[test]
fn what_is_quoted_is_split_into_the_same() {
    let every: Vec<u8> = (0..=255).collect();
    for word in [every.as_slice(), b"", b"x\"y\n", b" \\ "] {
        let (mut line, mut bytes, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        inline::quote(word, &mut line);
        assert!(line.iter().all(|byte| matches!(byte, b' '..=b'~')), "it can be printed");
        assert!(inline::split(&line, &mut bytes, &mut spans));
        assert_eq!((spans.len(), bytes.as_slice()), (1, word));
    }
    let mut line = Vec::new();
    inline::quote(b"a\"\\\n\x00\xff\x07", &mut line);
    assert_eq!(line, br#""a\"\\\n\x00\xff\a""#);
}

#[test]
fn inline_lines_split_as_sdssplitargs_does() {
    let strings = |line: &str| {
        split(line.as_bytes()).map(|args| args.iter().map(|arg| arg.escape_ascii().to_string()).collect::<Vec<_>>())
    };
    let of = |args: &[&str]| Some(args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>());
    assert_eq!(strings("set  k\tv "), of(&["set", "k", "v"]));
    assert_eq!(strings(r#"echo "\x41\n\t\q\x4""#), of(&["echo", r"A\n\tqx4"]));
    assert_eq!(strings(r#"echo a"b c""#), of(&["echo", "ab c"]));
    assert_eq!(strings(r#"a "" ''"#), of(&["a", "", ""]));
    assert_eq!(strings(r"'it\'s' '\n'"), of(&[r"it\'s", r"\\n"]));
    assert_eq!(strings("\u{b}a\u{b}b"), of(&[r"a\x0bb"]));
    assert_eq!(strings(""), of(&[]));
    for open in [r#"""#, r#"""a"#, r#""a\"#, "'", "'a'b", r#"a"b"#] {
        assert_eq!(strings(open), None, "{open}");
    }
}

#[test]
fn owned_arguments_read_like_the_borrowed_ones() {
    let owned = OwnedArgs::collect([b"a".as_slice(), b"", b"ccc"]);
    let args = owned.args();
    assert_eq!((args.len(), args.bytes_len(), &args[2], args.get(3)), (3, 4, b"ccc".as_slice(), None));
    assert_eq!(args.from(1).to_owned().args().arg(1), b"ccc");
    assert!(args.from(4).is_empty());
    let wild = [Span { start: 3, len: 9 }];
    assert_eq!(Args::new(b"abc", &wild).get(0), None);
}

#[test]
fn more_than_a_million_arguments_are_one_request() {
    const COUNT: usize = 1_100_000;
    let bytes = [format!("*{COUNT}\r\n").as_bytes(), &b"$1\r\nk\r\n".repeat(COUNT)].concat();
    let (mut batch, mut parser) = (Batch::new(), Parser::new());
    assert_eq!(parser.parse(&bytes[..5_000_000], &Limits::default(), &mut batch), Ok(0));
    assert!(parser.heap_bytes() >= 5_000_000, "what says where arguments begin counts");
    assert_eq!(parser.parse(&bytes, &Limits::default(), &mut batch), Ok(bytes.len()));
    assert_eq!((batch.len(), batch.get(0, &bytes).len()), (1, COUNT));
}

/// Returns the only request of these bytes as it came, if its arguments make exactly these bytes.
fn as_it_came(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut batch = Batch::new();
    Parser::new().parse(bytes, &Limits::default(), &mut batch).expect("a request");
    batch.get(0, bytes).as_multibulk().map(<[u8]>::to_vec)
}

#[test]
fn a_request_is_found_as_it_came_where_nothing_in_it_is_unusual() {
    for len in [0, 1, 9, 10, 99, 100, 12_345] {
        let bytes = [format!("*2\r\n$4\r\nECHO\r\n${len}\r\n").as_bytes(), &vec![b'x'; len], b"\r\n"].concat();
        assert_eq!(as_it_came(&bytes).as_deref(), Some(&bytes[..]), "{len}");
        assert_eq!(as_it_came(&[&bytes[..], b"*1\r\n"].concat()).as_deref(), Some(&bytes[..]), "{len}");
    }
    let many = [b"*120\r\n".as_slice(), &b"$1\r\nx\r\n".repeat(120)].concat();
    assert_eq!(as_it_came(&many).as_deref(), Some(&many[..]));
    for unusual in
        ["GET k\r\n", "*2\r\n$3\r\nGETxx$1\r\nk\r\n", "*2\r\n$3\r\nGET\r\n$1\r\nkxx", "*2\r\n$3\rxGET\r\n$1\r\nk\r\n"]
    {
        assert_eq!(as_it_came(unusual.as_bytes()), None, "{unusual:?}");
    }
    let packed = OwnedArgs::collect([b"GET".as_slice(), b"k"]);
    assert_eq!(packed.args().as_multibulk(), None);
    let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    let mut batch = Batch::new();
    Parser::new().parse(bytes, &Limits::default(), &mut batch).expect("a request");
    assert_eq!(batch.get(0, bytes).from(1).as_multibulk(), None, "a part of a request is none");
}
