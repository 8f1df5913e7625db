//! LPOS: the positions of an element in a list.
//!
//! RANK, COUNT and MAXLEN bound a walk from either end of the list. The list is read in place, with the key's shard locked.

use sleeve_store::{ListRef, ValueRef};
use sleeve_wire::number;

use super::{long, read};
use crate::context::Cx;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The element that is looked for, and the limits of the search.
struct Search<'a> {
    element: &'a [u8],
    from_back: bool,
    /// The number of matches that are skipped before the first one that counts.
    passed_over: u64,
    /// COUNT: the most positions; 0 for all, None for a single one that is not in an array.
    count: Option<u64>,
    /// The most comparisons; 0 sets no limit.
    compared_max: u64,
}

/// LPOS key element \[RANK rank\] \[COUNT num-matches\] \[MAXLEN len\]
pub fn lpos(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let search = search(request)?;
    let is_array = search.count.is_some();
    let found = read(cx, request.key(0), |list, _| indexes(list, &search))?;
    let mut reply = cx.reply();
    match found {
        None if is_array => reply.array(0),
        None => reply.null(),
        Some(indexes) if is_array => {
            reply.array(indexes.len());
            indexes.into_iter().for_each(|index| reply.integer(index as i64));
        }
        Some(indexes) => match indexes.first() {
            Some(&index) => reply.integer(index as i64),
            None => reply.null(),
        },
    }
    Ok(())
}

fn search(request: Request<'_>) -> Result<Search<'_>, Error> {
    let element = request.arg(2);
    let mut search = Search { element, from_back: false, passed_over: 0, count: None, compared_max: 0 };
    let mut rest = request.args.from(3);
    while let Some(option) = rest.get(0) {
        let value = rest.get(1).ok_or(Error::SYNTAX)?;
        if option.eq_ignore_ascii_case(b"rank") {
            let rank = long(value)?;
            if rank == 0 {
                return Err(Error::fixed(RANK_ZERO));
            }
            (search.from_back, search.passed_over) = (rank < 0, rank.unsigned_abs() - 1);
        } else if option.eq_ignore_ascii_case(b"count") {
            search.count = Some(positive(value, "ERR COUNT can't be negative")?);
        } else if option.eq_ignore_ascii_case(b"maxlen") {
            search.compared_max = positive(value, "ERR MAXLEN can't be negative")?;
        } else {
            return Err(Error::SYNTAX);
        }
        rest = rest.from(2);
    }
    Ok(search)
}

const RANK_ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
    negative to start from the end of the list";

fn positive(text: &[u8], refusal: &'static str) -> Result<u64, Error> {
    number::parse_i64(text).and_then(|number| u64::try_from(number).ok()).ok_or(Error::fixed(refusal))
}

fn indexes(list: ListRef<'_>, search: &Search<'_>) -> Vec<usize> {
    let length = list.len();
    if search.from_back {
        let last = length.saturating_sub(1);
        matches(list.iter_back_from(last), search, |walked| last - walked)
    } else {
        matches(list.iter(), search, |walked| walked)
    }
}

fn matches<'a>(
    elements: impl Iterator<Item = ValueRef<'a>>,
    search: &Search<'_>,
    index: impl Fn(usize) -> usize,
) -> Vec<usize> {
    let wanted = ValueRef::canonical(search.element);
    let walk = if search.compared_max == 0 { usize::MAX } else { search.compared_max as usize };
    let count = match search.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count as usize,
    };
    let places = elements.take(walk).enumerate().filter(|(_, element)| *element == wanted);
    let passed_over = usize::try_from(search.passed_over).unwrap_or(usize::MAX);
    places.skip(passed_over).take(count).map(|(walked, _)| index(walked)).collect()
}
