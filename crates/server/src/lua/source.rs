//! From a script's text to a function.
//!
//! Lua's parser trusts its texts in two places where it should not: it counts the signs of a long bracket in 32 bits, and it
//! does not hold on to the name of what it parses. Both are seen to here. Runs on the thread that owns the state.

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua};

use super::pulse;

/// The longest text that is compiled. Nothing can interrupt Lua meanwhile.
pub const SOURCE_BYTES_MAX: usize = 16 << 20;

/// A function of this text. Text only: Lua believes whatever compiled code says.
///
/// # Errors
/// What Lua says of the text.
pub fn compile(lua: &Lua, text: &[u8], name: &str) -> mlua::Result<Function> {
    if text.len() > SOURCE_BYTES_MAX {
        return Err(mlua::Error::runtime("the text of a script is too long"));
    }
    // Lua's parser makes a string of the name and leaves it to chance that nobody collects that before a function owns
    // it. There is one string for each text: as long as this one is held, the parser's is.
    let name = name.split('\0').next().unwrap_or_default();
    let anchor = lua.create_string(name)?;
    let compiled = lua.load(text).set_name(name).set_mode(ChunkMode::Text).into_function();
    drop(anchor);
    pulse::spend(text.len())?;
    compiled
}
