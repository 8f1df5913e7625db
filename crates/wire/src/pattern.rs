//! Glob patterns as Redis's `stringmatchlen` reads them: `*`, `?`, `[a-z]`, `[^a]`, `\x`.
//!
//! The original recurses at each `*`, which a hostile pattern turns into exponential work. Here a mismatch goes back to the
//! last `*` only. An earlier star could not help, because the later one can skip everything that the earlier one could. So
//! the work is at most the product of the two lengths, in constant memory.
//!
//! The original's corners are kept: an unclosed class ends with the pattern, a range compares bytes as signed numbers and may
//! be given backwards, an escaped byte in a class ignores `nocase`, and an empty text is matched by the empty pattern only,
//! not even by `*`. Pure functions; any thread.

/// Returns whether the whole of `text` matches `pattern`; with `nocase`, ASCII letters are equal to their other case.
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut pattern, mut text) = (pattern, text);
    let mut resume: Option<(&[u8], &[u8])> = None;
    while let Some((&byte, rest)) = text.split_first() {
        if let Some((b'*', after)) = pattern.split_first() {
            if after.is_empty() {
                return true;
            }
            pattern = after;
            resume = Some((after, text));
            continue;
        }
        match one(pattern, byte, nocase) {
            Some(after) => (pattern, text) = (after, rest),
            None => {
                // The text of the last star grows by one byte.
                let Some((after, [_, later @ ..])) = resume else { return false };
                (pattern, text) = (after, later);
                resume = Some((after, later));
            }
        }
    }
    pattern.iter().all(|&byte| byte == b'*')
}

/// Matches one byte against the element at the head of `pattern`; gives the pattern after the element.
fn one(pattern: &[u8], byte: u8, nocase: bool) -> Option<&[u8]> {
    let (hit, after) = match pattern {
        [] => return None,
        [b'?', after @ ..] => (true, after),
        [b'[', class @ ..] => in_class(class, byte, nocase),
        [b'\\', literal, after @ ..] | [literal, after @ ..] => (equal(*literal, byte, nocase), after),
    };
    hit.then_some(after)
}

/// Returns whether `byte` is in the class that `class` begins inside, and the pattern behind the class.
fn in_class(class: &[u8], byte: u8, nocase: bool) -> (bool, &[u8]) {
    let (negated, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut hit = false;
    loop {
        rest = match rest {
            [] => return (hit != negated, rest),
            [b'\\', escaped, after @ ..] => {
                hit |= *escaped == byte;
                after
            }
            [b']', after @ ..] => return (hit != negated, after),
            [low, b'-', high, after @ ..] => {
                hit |= in_range(*low, *high, byte, nocase);
                after
            }
            [literal, after @ ..] => {
                hit |= equal(*literal, byte, nocase);
                after
            }
        };
    }
}

fn in_range(low: u8, high: u8, byte: u8, nocase: bool) -> bool {
    let (low, high) = if low as i8 > high as i8 { (high, low) } else { (low, high) };
    let fold = |byte: u8| if nocase { byte.to_ascii_lowercase() as i8 } else { byte as i8 };
    (fold(low)..=fold(high)).contains(&fold(byte))
}

fn equal(a: u8, b: u8, nocase: bool) -> bool {
    if nocase { a.eq_ignore_ascii_case(&b) } else { a == b }
}
