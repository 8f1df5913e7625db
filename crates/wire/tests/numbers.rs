//! Numbers and patterns against plain twins: the standard library, and a matcher that tries everything.

use proptest::prelude::*;
use sleeve_wire::long_double::LongDouble;
use sleeve_wire::{number, pattern};

fn human(text: &str) -> Option<String> {
    let mut out = Vec::new();
    LongDouble::parse(text.as_bytes())?.push_human(&mut out);
    Some(String::from_utf8(out).unwrap())
}

fn sum(a: &str, b: &str) -> String {
    let mut out = Vec::new();
    let (a, b) = (LongDouble::parse(a.as_bytes()).unwrap(), LongDouble::parse(b.as_bytes()).unwrap());
    a.checked_add(b).unwrap().push_human(&mut out);
    String::from_utf8(out).unwrap()
}

fn shown(value: f64) -> String {
    let mut out = Vec::new();
    number::push_f64(&mut out, value);
    String::from_utf8(out).unwrap()
}

/// Matches by trying every way to split the text at a star, in plain recursion.
fn naive_match(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    let eq = |a: u8, b: u8| if nocase { a.eq_ignore_ascii_case(&b) } else { a == b };
    match (pattern, text) {
        ([], _) => text.is_empty(),
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|n| naive_match(rest, &text[n..], nocase)),
        (_, []) => false,
        ([b'?', rest @ ..], [_, text @ ..]) => naive_match(rest, text, nocase),
        ([b'[', class @ ..], [byte, text @ ..]) => {
            let (hit, rest) = naive_class(class, *byte, nocase);
            hit && naive_match(rest, text, nocase)
        }
        ([b'\\', c, rest @ ..], [byte, text @ ..]) | ([c, rest @ ..], [byte, text @ ..]) => {
            eq(*c, *byte) && naive_match(rest, text, nocase)
        }
    }
}

fn naive_class(class: &[u8], byte: u8, nocase: bool) -> (bool, &[u8]) {
    let not = class.first() == Some(&b'^');
    let mut at = usize::from(not);
    let mut hit = false;
    let fold = |b: u8| (if nocase { b.to_ascii_lowercase() } else { b }) as i8;
    while at < class.len() && class[at] != b']' {
        let left = class.len() - at;
        if class[at] == b'\\' && left >= 2 {
            hit |= class[at + 1] == byte;
            at += 2;
        } else if left >= 3 && class[at + 1] == b'-' {
            let (low, high) = (class[at] as i8, class[at + 2] as i8);
            let (low, high) = (low.min(high) as u8, low.max(high) as u8);
            hit |= fold(low) <= fold(byte) && fold(byte) <= fold(high);
            at += 3;
        } else {
            hit |= fold(class[at]) == fold(byte);
            at += 1;
        }
    }
    (hit != not, class.get(at + 1..).unwrap_or_default())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn integers_read_back(value: i64, small in -1000i64..1000) {
        for value in [value, small] {
            let mut out = Vec::new();
            number::push_i64(&mut out, value);
            prop_assert_eq!(&out, &value.to_string().into_bytes());
            prop_assert!(number::Digits::new(value).as_bytes() == out);
            prop_assert_eq!(number::parse_i64(&out), Some(value));
        }
    }

    #[test]
    fn only_the_canonical_text_of_an_integer_is_one(text in "[-+ ]?0?[0-9]{0,20}") {
        let value = text.parse::<i64>().ok().filter(|value| value.to_string() == text);
        prop_assert_eq!(number::parse_i64(text.as_bytes()), value);
    }

    #[test]
    fn doubles_read_back(bits: u64) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        prop_assert_eq!(number::parse_f64(shown(value).as_bytes()), Some(value));
        prop_assert_eq!(number::parse_f64(format!("{value:e}").as_bytes()), Some(value));
    }

    #[test]
    fn long_doubles_of_two_digits_and_a_fraction_print_as_they_were(whole in -99i64..100, fraction in 1u32..999_999) {
        let text = format!("{whole}.{fraction:06}");
        let text = text.trim_end_matches('0');
        prop_assert_eq!(human(text), Some(text.to_string()));
        prop_assert_eq!(sum(text, "0"), text);
        prop_assert_eq!(sum("0", text), text);
    }

    #[test]
    fn long_double_sums_of_integers_are_exact(a in any::<i64>(), b in any::<i64>()) {
        let expected = i128::from(a) + i128::from(b);
        prop_assume!(expected.unsigned_abs() < 1 << 64);
        prop_assert_eq!(sum(&a.to_string(), &b.to_string()), expected.to_string());
        let mut out = Vec::new();
        LongDouble::from_i64(a).checked_add(LongDouble::from_i64(b)).unwrap().push_human(&mut out);
        prop_assert_eq!(out, expected.to_string().into_bytes());
    }

    #[test]
    fn patterns_match_as_the_naive_matcher_says(
        pattern in r"[ab*?\[\]^\\A-]{0,9}".prop_map(String::into_bytes),
        text in "[abAB^-]{1,7}",
        nocase: bool,
    ) {
        let expected = naive_match(&pattern, text.as_bytes(), nocase);
        prop_assert_eq!(pattern::matches(&pattern, text.as_bytes(), nocase), expected);
    }

    #[test]
    fn any_bytes_are_survived(a in proptest::collection::vec(any::<u8>(), 0..30), b in proptest::collection::vec(any::<u8>(), 0..30)) {
        let expected = if b.is_empty() { a.is_empty() } else { naive_match(&a, &b, false) };
        prop_assert_eq!(pattern::matches(&a, &b, false), expected);
        number::parse_f64(&a);
        if let Some(value) = LongDouble::parse(&a) {
            value.push_human(&mut Vec::new());
        }
    }
}

#[test]
fn long_doubles_add_as_incrbyfloat_does() {
    // Replies of redis-server 7.0 on x86-64.
    assert_eq!(sum("10.5", "0.1"), "10.6");
    assert_eq!(sum("5.0e3", "2.0e2"), "5200");
    assert_eq!(sum("3", "1.000000000000000005"), "4.00000000000000001");
    assert_eq!(sum("0.1", "0.2"), "0.3");
    assert_eq!(sum("1e18", "0.3"), "1000000000000000000.3125");
    assert_eq!(sum("1e-18", "0"), "0");
    assert_eq!(sum("-0", "-0"), "0");
    assert_eq!(sum("0x1.8p1", "1"), "4");
    assert_eq!(human("1e30").as_deref(), Some("1000000000000000000024696061952"));
    assert_eq!(human("-1e-17").as_deref(), Some("-0.00000000000000001"));
    assert!(human("1e4932").is_some_and(|text| text.len() == 4933));
    for refused in ["", " 1", "1 ", "1e", "0x", "nan", "1e5000", "1e-5000", "1.2.3", "--1", "abc", "0x1p99999", "."] {
        assert_eq!(human(refused), None, "{refused}");
    }
    assert!(LongDouble::parse(b"-inf").is_some_and(|value| !value.is_finite()));
    assert_eq!(LongDouble::parse(&[b'1'; 5120]), None);
    let largest = LongDouble::parse(b"1.18e4932").unwrap();
    assert_eq!(largest.checked_add(largest), None);
}

#[test]
fn doubles_read_and_print_as_redis_does() {
    for (value, text) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (-7.0, "-7"),
        (4611686018427389000.0, "4611686018427389000"),
        (2.75, "2.75"),
        (0.1, "0.1"),
        (100.0, "100"),
        (1e15, "1000000000000000"),
        (1e17, "100000000000000000"),
        (1e20, "1e+20"),
        (1e-5, "0.00001"),
        (1.5e-9, "1.5e-9"),
        (-1.25e300, "-1.25e+300"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
    ] {
        assert_eq!(shown(value), text);
    }
    assert_eq!(number::parse_f64(b"0x1.8p3"), Some(12.0));
    assert_eq!(number::parse_f64(b"-Infinity"), Some(f64::NEG_INFINITY));
    assert_eq!(number::parse_f64(b".5"), Some(0.5));
    assert_eq!(number::parse_f64(b"+1."), Some(1.0));
    for refused in [&b""[..], b" 1", b"1 ", b"nan", b"1e400", b"1e-400", b"1e", b"--1", b"-", b"0x", b"1_0", b"+-1"] {
        assert_eq!(number::parse_f64(refused), None, "{}", refused.escape_ascii());
    }
}

#[test]
fn hostile_patterns_end_soon() {
    let pattern = [b"a*".repeat(200), b"b".to_vec()].concat();
    assert!(!pattern::matches(&pattern, &b"a".repeat(2000), false));
    assert!(pattern::matches(b"**", b"x", false) && !pattern::matches(b"*", b"", false));
    assert!(pattern::matches(b"[^", b"x", false) && !pattern::matches(b"[", b"x", false));
    assert!(!pattern::matches(b"h[a-e]llo[", b"hallo", false));
    assert!(pattern::matches(b"[\xf0-\x10]", b"\xff", false) && !pattern::matches(b"[\xf0-\x10]", b"\x20", false));
}

#[test]
fn seventeen_digits_are_those_of_c() {
    let cases = [
        (0.1, "0.10000000000000001"),
        (3e-8, "2.9999999999999997e-08"),
        (1e300, "1.0000000000000001e+300"),
        (-1.5, "-1.5"),
        (-0.0, "-0"),
        (0.0, "0"),
        (1e16, "10000000000000000"),
        (1e20, "1e+20"),
        (123456.789, "123456.789"),
        (0.0001, "0.0001"),
        (5e-324, "4.9406564584124654e-324"),
        (f64::NEG_INFINITY, "-inf"),
    ];
    for (value, expected) in cases {
        let mut text = Vec::new();
        number::push_f64_17(&mut text, value);
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }
}

#[test]
fn a_negative_zero_keeps_its_sign() {
    let mut text = Vec::new();
    number::push_f64(&mut text, -0.0);
    assert_eq!(text, b"-0");
}
