//! `math.random` and `math.randomseed`: the same numbers in every process, as in Redis.
//!
//! The generator is that of POSIX's `lrand48`: 48 bits, with a multiplication and an addition for each step. Redis never
//! seeds it, and scripts that rely on its sequence find the same one here. Runs on the script's thread.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use crate::lua::native::errors::{bad_argument, complain};

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
/// The initial state, without a seed.
const BEGINNING: u64 = 0x1234_ABCD_330E;
/// The bits that POSIX puts below the seed.
const LOW: u64 = 0x330E;

/// Puts both functions into `math`.
///
/// # Errors
/// Lua has no memory left.
pub fn add(lua: &Lua, math: &Table) -> mlua::Result<()> {
    let state = Rc::new(Cell::new(BEGINNING));
    let seeded = Rc::clone(&state);
    let random = lua.create_function(move |lua, args: MultiValue| random(lua, &state, &args))?;
    let seed = lua.create_function(move |lua, args: MultiValue| {
        let seed = integer(lua, &args, 1, "randomseed")?;
        seeded.set(u64::from(seed as u32) << 16 | LOW);
        Ok(())
    })?;
    math.raw_set("random", random)?;
    math.raw_set("randomseed", seed)
}

/// Returns the next 31 bits.
fn step(state: &Cell<u64>) -> u32 {
    let next = state.get().wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
    state.set(next);
    (next >> 17) as u32
}

fn random(lua: &Lua, state: &Cell<u64>, args: &MultiValue) -> mlua::Result<f64> {
    let fraction = f64::from(step(state) % 0x7FFF_FFFF) / f64::from(0x7FFF_FFFF);
    let (low, high) = match args.len() {
        0 => return Ok(fraction),
        1 => (1, integer(lua, args, 1, "random")?),
        2 => (integer(lua, args, 1, "random")?, integer(lua, args, 2, "random")?),
        _ => return Err(complain(lua, "wrong number of arguments")),
    };
    if low > high {
        return Err(bad_argument(lua, args.len(), "random", "interval is empty"));
    }
    Ok((fraction * (high as f64 - low as f64 + 1.0)).floor() + low as f64)
}

fn integer(lua: &Lua, args: &MultiValue, number: usize, function: &str) -> mlua::Result<i64> {
    let value = match args.get(number - 1) {
        Some(Value::Integer(value)) => return Ok(*value),
        Some(Value::Number(value)) => Some(*value),
        Some(value @ Value::String(_)) => lua.coerce_number(value.clone())?,
        _ => None,
    };
    let found = args.get(number - 1).map_or("no value", super::bit::type_name);
    value
        .map(|value| value as i64)
        .ok_or_else(|| bad_argument(lua, number, function, format_args!("number expected, got {found}")))
}
