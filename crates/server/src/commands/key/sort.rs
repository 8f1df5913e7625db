//! SORT: the elements of a list, set or sorted set in another order, or the values of other keys that the elements lead to.
//!
//! A pattern names a key for each element: its first `*` stands for the element, and `->field` behind it for a field of the
//! hash there. No argument names these keys, so SORT runs with all shards locked. Text is compared byte by byte in every
//! locale. Elements are copied out first, because looking up the other keys may remove expired ones.

use std::cmp::Ordering;

use sleeve_store::{Digits, List, Map, ValueRef};
use sleeve_wire::number;

use crate::acl::may_access_all_keys;
use crate::config::Opt;
use crate::context::notifications::EventClass;
use crate::context::{Cx, ELEMENTS_MAX, permission};
use crate::engine::keyspace::limits;
use crate::engine::values;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// SORT key \[BY pattern\] \[LIMIT offset count\] \[GET pattern ...\] \[ASC | DESC\] \[ALPHA\] \[STORE destination\]
pub fn sort(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let options = options(cx, request, true)?;
    let rows = rows(cx, request, &options)?;
    match options.stores {
        true => store(cx, request.key(1), &rows),
        false => reply(cx, &rows),
    }
    Ok(())
}

/// SORT_RO key \[BY pattern\] \[LIMIT offset count\] \[GET pattern ...\] \[ASC | DESC\] \[ALPHA\]
pub fn sort_ro(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let options = options(cx, request, false)?;
    let rows = rows(cx, request, &options)?;
    reply(cx, &rows);
    Ok(())
}

struct SortOptions<'a> {
    by: Option<&'a [u8]>,
    gets: Vec<&'a [u8]>,
    start: i64,
    /// LIMIT: the most elements of the reply; a negative number stands for all.
    count: i64,
    is_descending: bool,
    is_alpha: bool,
    stores: bool,
    /// The elements keep their order: the pattern of BY has no `*`, so it names the same key for all.
    keeps_order: bool,
}

fn options<'a>(cx: &Cx<'_>, request: Request<'a>, may_store: bool) -> Result<SortOptions<'a>, Error> {
    let mut options = SortOptions {
        by: None,
        gets: Vec::new(),
        start: 0,
        count: -1,
        is_descending: false,
        is_alpha: false,
        stores: false,
        keeps_order: false,
    };
    let mut rest = request.args.from(2);
    while let Some(word) = rest.get(0) {
        let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
        let used = match (rest.get(1), rest.get(2)) {
            _ if is("asc") || is("desc") => {
                options.is_descending = is("desc");
                1
            }
            _ if is("alpha") => {
                options.is_alpha = true;
                1
            }
            (Some(start), Some(count)) if is("limit") => {
                options.start = number::parse_i64(start).ok_or(Error::NOT_INTEGER)?;
                options.count = number::parse_i64(count).ok_or(Error::NOT_INTEGER)?;
                3
            }
            (Some(_), _) if is("store") && may_store => {
                options.stores = true;
                2
            }
            (Some(pattern), _) if is("by") => {
                options.by = Some(pattern);
                options.keeps_order = !pattern.contains(&b'*');
                if !options.keeps_order {
                    refuse_in_cluster(cx, "BY")?;
                    check_access(cx, request, "BY")?;
                }
                2
            }
            (Some(pattern), _) if is("get") => {
                refuse_in_cluster(cx, "GET")?;
                check_access(cx, request, "GET")?;
                options.gets.push(pattern);
                2
            }
            _ => return Err(Error::SYNTAX),
        };
        rest = rest.from(used);
    }
    Ok(options)
}

/// Refuses patterns of other keys in a node of a cluster: the keys may be of any slot.
fn refuse_in_cluster(cx: &Cx<'_>, option: &str) -> Outcome {
    match cx.engine.cluster.get() {
        Some(_) => Err(Error::new(format!("ERR {option} option of SORT denied in Cluster mode."))),
        None => Ok(()),
    }
}

/// Refuses patterns of other keys to users that may not read all keys.
fn check_access(cx: &Cx<'_>, request: Request<'_>, option: &str) -> Outcome {
    if may_access_all_keys(&cx.state.login.user, request.row, request.args, permission::databases(cx)) {
        return Ok(());
    }
    Err(Error::new(format!("ERR {option} option of SORT denied due to insufficient ACL permissions.")))
}

/// One element of the reply; None (a null) if the key is missing or of another type.
type Row = Option<Vec<u8>>;

/// Returns the rows of the reply, in order.
fn rows(cx: &mut Cx<'_>, request: Request<'_>, options: &SortOptions<'_>) -> Result<Vec<Row>, Error> {
    let elements = elements(cx, request, options)?;
    if options.gets.is_empty() {
        return Ok(elements.into_iter().map(Some).collect());
    }
    let mut rows = Vec::with_capacity(elements.len() * options.gets.len());
    for element in elements {
        for pattern in &options.gets {
            rows.push(look_up(cx, pattern, &element));
        }
    }
    Ok(rows)
}

/// Returns the elements in the order asked for, within the limit.
fn elements(cx: &mut Cx<'_>, request: Request<'_>, options: &SortOptions<'_>) -> Result<Vec<Vec<u8>>, Error> {
    let is_kept = options.stores || cx.state.origin.denies_blocking;
    let Some(entry) = cx.read(request.key(0)) else { return Ok(Vec::new()) };
    let values = values::of(entry.kind());
    let length = values.elements_len(&entry).ok_or(Error::WRONG_TYPE)?;
    let (start, end) = limits(options, length);
    // The elements of a set have no order of their own: each server would store another list, and scripts would have other
    // effects on each. So they are sorted here.
    let is_set_to_store = options.keeps_order && is_kept && !values.is_ordered();
    if options.keeps_order && !is_set_to_store {
        return Ok(values.elements(&entry, start..end, options.is_descending));
    }
    let elements = values.elements(&entry, 0..length, false);
    let (by, is_alpha) = if is_set_to_store { (None, true) } else { (options.by, options.is_alpha) };
    let mut weighed = Vec::with_capacity(elements.len());
    for element in elements {
        let weight = weight(cx, by, is_alpha, &element)?;
        weighed.push((weight, element));
    }
    // Elements with equal weights are compared themselves if they come from a set, because a set has no order that a stable
    // sort could keep.
    let by_element = !values.is_ordered();
    weighed.sort_by(|one, other| {
        let order = one.0.compare(&other.0);
        let decides = by_element || !matches!(one.0, Weight::Text(_));
        let order = if order.is_eq() && decides { one.1.cmp(&other.1) } else { order };
        if options.is_descending { order.reverse() } else { order }
    });
    Ok(weighed.into_iter().skip(start).take(end - start).map(|(_, element)| element).collect())
}

/// Returns the range of positions within the limit: the first, and the one behind the last.
fn limits(options: &SortOptions<'_>, length: usize) -> (usize, usize) {
    let start = usize::try_from(options.start.max(0)).unwrap_or(usize::MAX).min(length);
    let end = match usize::try_from(options.count) {
        Ok(count) => start.saturating_add(count).min(length),
        Err(_) => length,
    };
    (start, end)
}

fn text(value: ValueRef<'_>) -> Vec<u8> {
    value.bytes(&mut Digits::default()).to_vec()
}

/// The value by which an element is sorted.
enum Weight {
    /// The element itself, as text.
    Own,
    Score(f64),
    /// The value of the key that the pattern names; a missing value sorts first.
    Text(Row),
}

impl Weight {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Score(one), Self::Score(other)) => one.partial_cmp(other).unwrap_or(Ordering::Equal),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            _ => Ordering::Equal,
        }
    }
}

fn weight(cx: &mut Cx<'_>, by: Option<&[u8]>, is_alpha: bool, element: &[u8]) -> Result<Weight, Error> {
    match (by, is_alpha) {
        (None, true) => Ok(Weight::Own),
        (None, false) => score(element),
        (Some(pattern), true) => Ok(Weight::Text(look_up(cx, pattern, element))),
        (Some(pattern), false) => look_up(cx, pattern, element).map_or(Ok(Weight::Score(0.0)), |text| score(&text)),
    }
}

/// Reads a score as `strtod` does: an empty text is zero, leading spaces are skipped, and a zero byte ends the text.
fn score(text: &[u8]) -> Result<Weight, Error> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r')).unwrap_or(0);
    let score = if text.is_empty() { Some(0.0) } else { text.get(start..).and_then(number::parse_f64) };
    score.map(Weight::Score).ok_or(Error::fixed("ERR One or more scores can't be converted into double"))
}

/// Returns the value of the key that a pattern names for an element; the pattern `#` stands for the element itself.
fn look_up(cx: &mut Cx<'_>, pattern: &[u8], element: &[u8]) -> Row {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let star = pattern.iter().position(|&byte| byte == b'*')?;
    let (prefix, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|pair| pair == b"->").filter(|arrow| arrow + 2 < behind.len());
    let (suffix, field) = match arrow {
        Some(arrow) => (&behind[..arrow], Some(&behind[arrow + 2..])),
        None => (behind, None),
    };
    let name = [prefix, element, suffix].concat();
    let key = cx.engine.keyspace.store.key(&name);
    let now_ms = cx.due_ms;
    let entry = cx.read(key)?;
    match field {
        Some(field) => entry.collection::<Map>()?.get(field, now_ms).map(text),
        None => entry.is_string().then(|| text(entry.value())),
    }
}

fn reply(cx: &mut Cx<'_>, rows: &[Row]) {
    let mut reply = cx.reply();
    reply.array(rows.len());
    for row in rows {
        if reply.is_full() {
            return;
        }
        reply.bulk_or_null(row.as_deref());
    }
}

/// Stores the rows as a list under a key, in place of any value there; if there are no rows, removes the key.
fn store(cx: &mut Cx<'_>, key: Key<'_>, rows: &[Row]) {
    let limit = limits::of_lists(cx.engine);
    let list: List = List::collect(rows.iter().map(|row| row.as_deref().unwrap_or_default()), limit);
    if cx.locks.recorder.is_recording() {
        // The record holds the result, because another server may sort text in another order.
        if cx.peek(key).is_some() {
            cx.record(&[b"DEL", key.name]);
        }
        for rows in rows.chunks(ELEMENTS_MAX) {
            cx.record_with(&[b"RPUSH", key.name], rows.iter().map(|row| row.as_deref().unwrap_or_default()));
        }
    }
    if rows.is_empty() {
        if cx.remove(key, Opt::LazyfreeLazyServerDel) {
            cx.notify(EventClass::Generic, "del", key);
        }
    } else {
        cx.set_collection(key, list);
        cx.changed_many(rows.len() as u64 - 1);
        cx.notify(EventClass::List, "sortstore", key);
    }
    cx.reply().integer(rows.len() as i64);
}
