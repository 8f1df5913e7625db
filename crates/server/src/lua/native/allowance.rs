//! The allowance of a conversion between a value of Lua and text, in either direction: time until the pulse is checked, and
//! memory.
//!
//! Text that is being written is not Lua's yet, but counts as if it were: together with the state's memory it may reach
//! `lua-memory-max`. Runs on the script's thread.

use mlua::Lua;

use super::interrupt;

/// The units of work for a value.
const VALUE_UNITS: usize = 16;
/// The number of bytes of a text that are converted in the time of one unit of work.
const BYTES_A_UNIT: usize = 64;
/// The least number of bytes by which a text grows between two checks of the state's memory; a long text grows by an eighth.
const STEP_BYTES: usize = 64 << 10;

/// The allowance that one conversion has left: memory, and time until the pulse is checked.
pub struct Allowance<'a> {
    lua: &'a Lua,
    seen_bytes: usize,
    next_bytes: usize,
}

impl<'a> Allowance<'a> {
    /// Begins the allowance of one conversion.
    pub fn new(lua: &'a Lua) -> Self {
        Self { lua, seen_bytes: 0, next_bytes: STEP_BYTES }
    }

    /// Counts a value that is written to a text, which has `len` bytes so far.
    ///
    /// # Errors
    /// The script has to end, or the text is too long.
    #[inline]
    pub fn write(&mut self, len: usize) -> mlua::Result<()> {
        interrupt::spend(VALUE_UNITS)?;
        if len >= self.next_bytes { self.look(len) } else { Ok(()) }
    }

    /// Counts a value of `len` bytes that is read.
    ///
    /// # Errors
    /// The script has to end.
    #[inline]
    pub fn read(&self, len: usize) -> mlua::Result<()> {
        Ok(interrupt::spend(VALUE_UNITS + len / BYTES_A_UNIT)?)
    }

    #[cold]
    fn look(&mut self, len: usize) -> mlua::Result<()> {
        if self.lua.used_memory().saturating_add(len) > interrupt::bytes_max() {
            return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
        }
        interrupt::spend(len.saturating_sub(self.seen_bytes) / BYTES_A_UNIT)?;
        self.seen_bytes = len;
        self.next_bytes = len + (len / 8).max(STEP_BYTES);
        Ok(())
    }
}
