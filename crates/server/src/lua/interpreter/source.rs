//! From a script's text to a function.
//!
//! Lua's parser trusts its texts where it should not. It counts the signs of a long bracket in 32 bits, it does not keep the
//! name of the text alive while it parses, and for some texts its time grows with the square of their length. This module
//! prevents all three. Runs on the thread that owns the state.

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua};

use crate::lua::native::interrupt;

/// The longest text that is compiled. Nothing can interrupt Lua during that, and its time grows with the square of the number
/// of strings that its hash does not distinguish.
pub const SOURCE_BYTES_MAX: usize = 512 << 10;

/// The most words in a text that cause jumps: for each, Lua goes through all earlier jumps to the same place.
const JUMPS_MAX: usize = 20_000;

/// Compiles a text to a function. Compiled code is refused, because Lua does not check it.
///
/// # Errors
/// Lua's message about the text.
pub fn compile(lua: &Lua, text: &[u8], name: &str) -> mlua::Result<Function> {
    if text.len() > SOURCE_BYTES_MAX {
        return Err(mlua::Error::runtime(format!("a script's text may have {SOURCE_BYTES_MAX} bytes")));
    }
    if jumps(text) > JUMPS_MAX {
        return Err(mlua::Error::runtime(format!(
            "a script may have {JUMPS_MAX} of the words and, or, elseif and break"
        )));
    }
    // Lua's parser makes a string of the name, and does not protect it from the garbage collector before a function owns it.
    // Lua has only one string with a given text, so as long as this one is held, the parser's is too.
    let name = name.split('\0').next().unwrap_or_default();
    let anchor = lua.create_string(name)?;
    let compiled = lua.load(text).set_name(name).set_mode(ChunkMode::Text).into_function();
    drop(anchor);
    interrupt::spend(text.len())?;
    compiled
}

/// Returns how many words of a text would cause jumps if all of it were code.
fn jumps(text: &[u8]) -> usize {
    let words = text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    words.filter(|word| matches!(*word, b"and" | b"or" | b"elseif" | b"break")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_bounded_by_its_length_and_by_its_jumps() {
        let lua = Lua::new();
        let said = |text: String| compile(&lua, text.as_bytes(), "=x").err().map(|error| error.to_string());
        let of_jumps = |count: usize| format!("local x = nil return {}x", "x or ".repeat(count));
        assert_eq!(said(of_jumps(JUMPS_MAX)), None);
        assert!(said(of_jumps(JUMPS_MAX + 1)).is_some_and(|why| why.contains("20000 of the words")));
        assert_eq!(said(" ".repeat(SOURCE_BYTES_MAX)), None);
        assert!(said(" ".repeat(SOURCE_BYTES_MAX + 1)).is_some_and(|why| why.contains("524288 bytes")));
        assert_eq!(jumps(b"for word in color do or\nelse if else_or = 'and'break elseif(x)and[[y]]or 1 end"), 6);
    }
}
