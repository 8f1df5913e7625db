//! HyperLogLogs: strings that count different elements approximately. The store defines their content.
//!
//! A dense HyperLogLog is changed in place; a sparse one is a few hundred bytes, which are copied, changed and put back. The
//! last estimate is kept in the string, so PFCOUNT is a write once in a while, and is then recorded as it came.

use std::ops::Range;
use std::slice;

use sleeve_store::{
    Corrupt, Deadline, EntryRef, Registers, Run, Sketch, SketchRef, Value, ValueRef, add_dense, cache_count,
    count_registers,
};
use sleeve_wire::arguments::Args;

use crate::config::Opt;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The whole string as the range that a change may touch: a dense HyperLogLog is small.
const ALL: &[Range<usize>] = slice::from_ref(&(0..usize::MAX));

const NOT_ONE: Error = Error::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");
const CORRUPT: Error = Error::fixed("INVALIDOBJ Corrupted HLL object detected");

impl From<Corrupt> for Error {
    fn from(_: Corrupt) -> Self {
        CORRUPT
    }
}

/// PFADD key \[element ...\]
pub fn pfadd(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, elements, sparse_max) = (request.key(0), request.args.from(2), sparse_max(cx));
    let old = cx.look_string(key)?.map(|entry| sketch_of(&entry).map(SketchRef::is_dense)).transpose()?;
    let raised = match old {
        Some(true) => {
            let add = |bytes: &mut [u8]| add_dense(bytes, elements.iter());
            cx.edit_seen(key).map_or(0, |mut entry| entry.with_bytes_mut(0, ALL, add))
        }
        Some(false) => {
            let mut sketch = copy_of(cx, key)?;
            let raised = add_all(&mut sketch, elements, sparse_max)?;
            if raised != 0
                && let Some(mut entry) = cx.edit_seen(key)
            {
                drop(entry.set_value(&Value::Raw(sketch.as_bytes())));
            }
            raised
        }
        None => {
            let mut sketch = Sketch::new();
            let raised = add_all(&mut sketch, elements, sparse_max)?;
            sketch.forget_count();
            cx.set(key, &Value::Raw(sketch.as_bytes()), Deadline::Clear);
            cx.changed_many(raised as u64);
            cx.notify(EventClass::String, "pfadd", key);
            cx.reply().integer(1);
            return Ok(());
        }
    };
    if raised != 0 {
        cx.changed_by(key, raised);
        cx.notify(EventClass::String, "pfadd", key);
    }
    cx.reply().integer(i64::from(raised != 0));
    Ok(())
}

/// Adds elements; returns how many of them have raised a register.
fn add_all(sketch: &mut Sketch, elements: Args<'_>, sparse_max: usize) -> Result<usize, Error> {
    let mut raised = 0;
    for element in elements.iter() {
        raised += usize::from(sketch.add(element, sparse_max)?);
    }
    Ok(raised)
}

/// PFCOUNT key \[key ...\]
pub fn pfcount(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let count = if request.len() > 2 { count_union(cx, request)? } else { count_one(cx, request.key(0))? };
    cx.reply().integer(count as i64);
    Ok(())
}

fn count_union(cx: &mut Cx<'_>, request: Request<'_>) -> Result<u64, Error> {
    let mut registers = Box::new([0; size_of::<Registers>()]);
    for key in request.keys() {
        if let Some(entry) = cx.read_string(key)? {
            sketch_of(&entry)?.merge_into(&mut registers)?;
        }
    }
    Ok(count_registers(&registers))
}

fn count_one(cx: &mut Cx<'_>, key: Key<'_>) -> Result<u64, Error> {
    let Some(entry) = cx.read_string(key)? else { return Ok(0) };
    let sketch = sketch_of(&entry)?;
    if let Some(count) = sketch.cached_count() {
        return Ok(count);
    }
    let count = sketch.count()?;
    if let Some(mut entry) = cx.edit_seen(key) {
        entry.with_bytes_mut(0, ALL, |bytes| cache_count(bytes, count));
    }
    cx.changed(key);
    Ok(count)
}

/// PFMERGE destkey \[sourcekey ...\]
pub fn pfmerge(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (mut registers, mut any_dense) = (Box::new([0; size_of::<Registers>()]), false);
    for key in request.keys() {
        if let Some(entry) = cx.read_string(key)? {
            let sketch = sketch_of(&entry)?;
            any_dense |= sketch.is_dense();
            sketch.merge_into(&mut registers)?;
        }
    }
    let key = request.key(0);
    let exists = cx.peek(key).is_some();
    let mut sketch = if exists { copy_of(cx, key)? } else { Sketch::new() };
    if any_dense {
        sketch.make_dense()?;
    }
    sketch.raise_all(&registers, sparse_max(cx))?;
    sketch.forget_count();
    if exists {
        put(cx, key, &sketch)?;
        cx.changed(key);
    } else {
        cx.set(key, &Value::Raw(sketch.as_bytes()), Deadline::Clear);
    }
    cx.notify(EventClass::String, "pfadd", key);
    cx.reply().ok();
    Ok(())
}

/// PFDEBUG subcommand key
pub fn pfdebug(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (name, key) = (request.arg(1), request.key(0));
    let Some(entry) = cx.look_string(key)? else { return Err(Error::fixed("ERR The specified key does not exist")) };
    let is_dense = sketch_of(&entry)?.is_dense();
    match name.to_ascii_lowercase().as_slice() {
        b"getreg" => show_registers(cx, key)?,
        b"decode" if is_dense => return Err(Error::fixed("ERR HLL encoding is not sparse")),
        b"decode" => {
            let runs: Vec<String> = sketch_of(&entry)?.runs().map(name_of).collect();
            cx.reply().bulk(runs.join(" ").as_bytes());
        }
        b"encoding" => cx.reply().simple(if is_dense { "dense" } else { "sparse" }),
        b"todense" => {
            let was_sparse = make_dense(cx, key)?;
            cx.reply().integer(i64::from(was_sparse));
        }
        _ => return Err(Error::naming("ERR Unknown PFDEBUG subcommand '{}'", &[name])),
    }
    Ok(())
}

fn name_of(run: Run) -> String {
    match run {
        Run::Zeros(count) => format!("z:{count}"),
        Run::ManyZeros(count) => format!("Z:{count}"),
        Run::Values(value, count) => format!("v:{value},{count}"),
    }
}

fn show_registers(cx: &mut Cx<'_>, key: Key<'_>) -> Outcome {
    make_dense(cx, key)?;
    let mut registers = Box::new([0; size_of::<Registers>()]);
    if let Some(entry) = cx.peek_string(key)? {
        sketch_of(&entry)?.merge_into(&mut registers)?;
    }
    let mut reply = cx.reply();
    reply.array(registers.len());
    registers.iter().for_each(|&register| reply.integer(i64::from(register)));
    Ok(())
}

fn make_dense(cx: &mut Cx<'_>, key: Key<'_>) -> Result<bool, Error> {
    let mut sketch = copy_of(cx, key)?;
    let was_sparse = sketch.make_dense()?;
    if was_sparse {
        if let Some(mut entry) = cx.edit_seen(key) {
            drop(entry.set_value(&Value::Raw(sketch.as_bytes())));
        }
        // The value keeps its meaning, so no client that watches the key is notified.
        cx.changed_many(1);
    }
    Ok(was_sparse)
}

/// The number of elements that the self-test counts.
const TESTED_ELEMENTS: u64 = 1_000_000;

/// The standard error of an estimate with this number of registers.
const STANDARD_ERROR: f64 = 1.04 / 128.0;

/// PFSELFTEST: counts random elements with a sparse and a dense HyperLogLog. Both must agree, and their estimates must be
/// close to the true number.
pub fn pfselftest(cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    let sparse_max = sparse_max(cx);
    let (mut one, mut other, seed) = (Sketch::new(), Sketch::new(), cx.dice.number());
    other.make_dense()?;
    let mut checkpoint = 1;
    for number in 1..=TESTED_ELEMENTS {
        let element = (number ^ seed).to_le_bytes();
        other.add(&element, sparse_max)?;
        // Once the sparse one has become dense, both are equal.
        if !one.as_ref().is_dense() && one.add(&element, sparse_max)? && one.as_ref().count() != other.as_ref().count()
        {
            return Err(Error::fixed("TESTFAILED dense/sparse disagree"));
        }
        if number == checkpoint {
            check_error(other.as_ref().count()?, checkpoint)?;
            checkpoint *= 10;
        }
    }
    cx.reply().ok();
    Ok(())
}

fn check_error(count: u64, counted: u64) -> Outcome {
    let allowed = if counted == 10 { 1 } else { (6.0 * STANDARD_ERROR * counted as f64).ceil() as u64 };
    if count.abs_diff(counted) > allowed {
        let error = count.abs_diff(counted);
        return Err(Error::new(format!("TESTFAILED Too big error. card:{counted} abserr:{error}")));
    }
    Ok(())
}

/// Returns the greatest length of the sparse form, in bytes.
fn sparse_max(cx: &Cx<'_>) -> usize {
    usize::try_from(cx.engine.config.memory(Opt::HllSparseMaxBytes)).unwrap_or(usize::MAX)
}

/// Returns the HyperLogLog in a string.
fn sketch_of<'a>(entry: &EntryRef<'a>) -> Result<SketchRef<'a>, Error> {
    match entry.value() {
        ValueRef::Bytes(bytes) => SketchRef::new(bytes).ok_or(NOT_ONE),
        ValueRef::Integer(_) => Err(NOT_ONE),
    }
}

/// Makes a copy of the HyperLogLog of a key, which exists.
fn copy_of(cx: &mut Cx<'_>, key: Key<'_>) -> Result<Sketch, Error> {
    match cx.peek_string(key)? {
        Some(entry) => Ok(Sketch::from_ref(sketch_of(&entry)?)),
        None => Ok(Sketch::new()),
    }
}

/// Replaces the HyperLogLog of a key by a changed one.
fn put(cx: &mut Cx<'_>, key: Key<'_>, sketch: &Sketch) -> Outcome {
    if let Some(mut entry) = cx.edit_string(key)? {
        drop(entry.set_value(&Value::Raw(sketch.as_bytes())));
    }
    Ok(())
}
