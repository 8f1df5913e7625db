//! `string.find`, `match`, `gmatch` and `gsub`, in place of Lua's own, which recurse as deep as a pattern asks and cannot be
//! interrupted.
//!
//! Their results are those of Lua 5.1; the matching is in `pattern`. Runs on the script's thread.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

use mlua::ffi::{self, lua_State, luaL_Buffer};
use mlua::{Lua, Table};

use crate::lua::native;
use crate::lua::native::Native;
use crate::lua::native::pattern::{Caught, MatchError, Matcher, until_zero};

/// Puts the functions into the table `string`.
///
/// # Errors
/// Lua has no memory left.
pub fn add(lua: &Lua, string: &Table) -> mlua::Result<()> {
    let functions: [(&str, Native); 5] =
        [("find", find), ("match", first_match), ("gmatch", gmatch), ("gfind", gmatch), ("gsub", gsub)];
    // SAFETY: each function keeps to the rules for C functions; see its own comment.
    unsafe { native::add(lua, string, &functions) }
}

/// Raises the error that has ended a match.
///
/// # Safety
/// As [`native::fail`].
#[cold]
unsafe fn give_up(state: *mut lua_State, broken: MatchError) -> ! {
    // SAFETY: as the caller says.
    unsafe {
        match broken {
            MatchError::Pattern(why) => native::fail(state, why),
            MatchError::Ended => native::end(state),
        }
    }
}

/// Returns the result of a match, or raises the error that has ended it.
///
/// # Safety
/// As [`native::fail`].
unsafe fn settle<T>(state: *mut lua_State, outcome: Result<T, MatchError>) -> T {
    // SAFETY: as the caller says.
    outcome.unwrap_or_else(|broken| unsafe { give_up(state, broken) })
}

/// `string.find(s, pattern [, init [, plain]])`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn find(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua.
    unsafe { search(state, true) }
}

/// `string.match(s, pattern [, init])`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn first_match(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua.
    unsafe { search(state, false) }
}

/// The characters with a special meaning in a pattern. A pattern without them is a plain text.
const SPECIAL: &[u8] = b"^$*+?.([%-";

/// Searches for a pattern, and pushes its captures; if `wants_place`, pushes the position of the match before them.
///
/// # Safety
/// Called from a C function with at least the first two arguments where Lua puts them.
unsafe fn search(state: *mut lua_State, wants_place: bool) -> c_int {
    // SAFETY: both texts are arguments, which stay where they are; the pushed values fit: two places, and captures for which
    // room is made.
    unsafe {
        let (subject, pattern) = (native::bytes(state, 1), native::bytes(state, 2));
        let from = beginning(ffi::luaL_optinteger(state, 3, 1), subject.len());
        let is_plain = wants_place
            && (ffi::lua_toboolean(state, 4) != 0 || !until_zero(pattern).iter().any(|byte| SPECIAL.contains(byte)));
        if is_plain {
            native::spend(state, subject.len() / PLAIN_BYTES_A_UNIT);
            if let Some(at) = position(&subject[from..], pattern) {
                ffi::lua_pushinteger(state, (from + at + 1) as ffi::lua_Integer);
                ffi::lua_pushinteger(state, (from + at + pattern.len()) as ffi::lua_Integer);
                return 2;
            }
            ffi::lua_pushnil(state);
            return 1;
        }
        let (pattern, is_anchored) = unanchored(pattern);
        let mut matcher = Matcher::new(subject, pattern);
        for start in from..=subject.len() {
            if let Some(end) = settle(state, matcher.at(start)) {
                if !wants_place {
                    return push_captures(state, &matcher, subject, (start, end), true);
                }
                ffi::lua_pushinteger(state, (start + 1) as ffi::lua_Integer);
                ffi::lua_pushinteger(state, end as ffi::lua_Integer);
                return 2 + push_captures(state, &matcher, subject, (start, end), false);
            }
            if is_anchored {
                break;
            }
        }
        ffi::lua_pushnil(state);
        1
    }
}

/// The number of bytes that a plain search compares in the time of one step of a pattern.
const PLAIN_BYTES_A_UNIT: usize = 16;

/// Returns the position, counted from 0, at which a search begins; the argument counts from 1, or from the end if negative.
fn beginning(place: ffi::lua_Integer, len: usize) -> usize {
    let steps = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
    if place < 0 { len.saturating_sub(steps) } else { steps.saturating_sub(1).min(len) }
}

fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, wanted)
}

/// Returns a pattern without the `^` that ties it to the beginning of a search, and whether there was one.
fn unanchored(pattern: &[u8]) -> (&[u8], bool) {
    pattern.strip_prefix(b"^").map_or((pattern, false), |rest| (rest, true))
}

/// Pushes the captures of a match; if it has none and `or_all` is set, pushes the whole match. Returns the number of pushed
/// values.
///
/// # Safety
/// Called from a C function.
unsafe fn push_captures(
    state: *mut lua_State,
    matcher: &Matcher<'_>,
    subject: &[u8],
    (start, end): (usize, usize),
    or_all: bool,
) -> c_int {
    let count = if or_all { matcher.captures_len().max(1) } else { matcher.captures_len() };
    // SAFETY: room for as many values is made first.
    unsafe {
        ffi::luaL_checkstack_(state, count as c_int, c"too many captures".as_ptr());
        for index in 0..count {
            push_capture(state, matcher, subject, index, (start, end));
        }
    }
    count as c_int
}

/// Pushes capture `index` of a match.
///
/// # Safety
/// Called from a C function with a free slot.
unsafe fn push_capture(
    state: *mut lua_State,
    matcher: &Matcher<'_>,
    subject: &[u8],
    index: usize,
    (start, end): (usize, usize),
) {
    // SAFETY: the pushed bytes lie in the subject.
    unsafe {
        match settle(state, matcher.capture(index, start, end)) {
            Caught::Text(from, len) => push(state, &subject[from..from + len]),
            Caught::Place(at) | Caught::Open(at) => ffi::lua_pushinteger(state, (at + 1) as ffi::lua_Integer),
        }
    }
}

/// Pushes a text.
///
/// # Safety
/// Called from a C function with a free slot.
unsafe fn push(state: *mut lua_State, text: &[u8]) {
    // SAFETY: Lua copies the bytes.
    unsafe { ffi::lua_pushlstring_(state, text.as_ptr().cast(), text.len()) }
}

/// `string.gmatch(s, pattern)`: returns an iterator; its upvalues are both texts and the position at which to go on.
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn gmatch(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua; the three upvalues are on top of the stack.
    unsafe {
        native::bytes(state, 1);
        native::bytes(state, 2);
        ffi::lua_settop(state, 2);
        ffi::lua_pushinteger(state, 0);
        ffi::lua_pushcclosure(state, next_match, 3);
    }
    1
}

/// Pushes the captures of the next match.
///
/// # Safety
/// Called by Lua, with the upvalues of [`gmatch`].
unsafe extern "C-unwind" fn next_match(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua. The texts are upvalues of the closure, and stay alive as long as it runs.
    unsafe {
        let subject = native::bytes(state, ffi::lua_upvalueindex(1));
        let pattern = native::bytes(state, ffi::lua_upvalueindex(2));
        let from = ffi::lua_tointeger_(state, ffi::lua_upvalueindex(3)) as usize;
        let mut matcher = Matcher::new(subject, pattern);
        for start in from..=subject.len() {
            if let Some(end) = settle(state, matcher.at(start)) {
                // After an empty match the search goes on behind the next byte.
                ffi::lua_pushinteger(state, (end + usize::from(end == start)) as ffi::lua_Integer);
                ffi::lua_replace(state, ffi::lua_upvalueindex(3));
                return push_captures(state, &matcher, subject, (start, end), true);
            }
        }
    }
    0
}

/// `string.gsub(s, pattern, replacement [, n])`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn gsub(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua; the texts are arguments, which stay where they are. The buffer is used as Lua's manual
    // says: the values that it has put on the stack are below those that are pushed here.
    unsafe {
        let (subject, pattern) = (native::bytes(state, 1), native::bytes(state, 2));
        let kind = ffi::lua_type(state, 3);
        if !matches!(kind, ffi::LUA_TNUMBER | ffi::LUA_TSTRING | ffi::LUA_TFUNCTION | ffi::LUA_TTABLE) {
            ffi::luaL_argerror(state, 3, c"string/function/table expected".as_ptr());
        }
        let count_max = native::integer_or(state, 4, (subject.len() + 1) as c_int);
        let (pattern, is_anchored) = unanchored(pattern);
        let mut matcher = Matcher::new(subject, pattern);
        let mut space = MaybeUninit::<luaL_Buffer>::uninit();
        let buffer = space.as_mut_ptr();
        ffi::luaL_buffinit(state, buffer);
        let (mut at, mut count) = (0, 0);
        while count < count_max {
            let found = settle(state, matcher.at(at));
            if let Some(end) = found {
                count += 1;
                add_replacement(state, buffer, &matcher, subject, (at, end));
            }
            match (found, subject.get(at)) {
                (Some(end), _) if end > at => at = end,
                (_, Some(&byte)) => {
                    ffi::luaL_addchar(buffer, byte as c_char);
                    at += 1;
                }
                _ => break,
            }
            if is_anchored {
                break;
            }
        }
        add_bytes(buffer, &subject[at..]);
        ffi::luaL_pushresult(buffer);
        ffi::lua_pushinteger(state, count as ffi::lua_Integer);
    }
    2
}

/// Adds a text to the buffer.
///
/// # Safety
/// The buffer is one of Lua's, in use.
unsafe fn add_bytes(buffer: *mut luaL_Buffer, text: &[u8]) {
    // SAFETY: Lua copies the bytes.
    unsafe { ffi::luaL_addlstring(buffer, text.as_ptr().cast(), text.len()) }
}

/// Adds the replacement of a match.
///
/// # Safety
/// Called from [`gsub`].
unsafe fn add_replacement(
    state: *mut lua_State,
    buffer: *mut luaL_Buffer,
    matcher: &Matcher<'_>,
    subject: &[u8],
    (start, end): (usize, usize),
) {
    // SAFETY: a buffer of Lua leaves the slots that are needed here free; room for captures is made.
    unsafe {
        match ffi::lua_type(state, 3) {
            ffi::LUA_TFUNCTION => {
                ffi::lua_pushvalue(state, 3);
                let count = push_captures(state, matcher, subject, (start, end), true);
                ffi::lua_call(state, count, 1);
            }
            ffi::LUA_TTABLE => {
                push_capture(state, matcher, subject, 0, (start, end));
                ffi::lua_gettable_(state, 3);
            }
            _ => return add_template(state, buffer, matcher, subject, (start, end)),
        }
        if ffi::lua_toboolean(state, -1) == 0 {
            ffi::lua_settop(state, -2);
            push(state, &subject[start..end]);
        } else if ffi::lua_isstring(state, -1) == 0 {
            let kind = CStr::from_ptr(ffi::lua_typename(state, ffi::lua_type(state, -1)));
            ffi::luaL_error(state, c"invalid replacement value (a %s)".as_ptr(), kind.as_ptr());
        }
        ffi::luaL_addvalue(buffer);
    }
}

/// Adds a replacement that is a text, in which `%1` stands for a capture.
///
/// # Safety
/// Called from [`gsub`].
unsafe fn add_template(
    state: *mut lua_State,
    buffer: *mut luaL_Buffer,
    matcher: &Matcher<'_>,
    subject: &[u8],
    (start, end): (usize, usize),
) {
    // SAFETY: the text is an argument, which stays where it is.
    unsafe {
        let template = native::bytes(state, 3);
        native::spend(state, 1 + template.len() / PLAIN_BYTES_A_UNIT);
        let mut at = 0;
        while let Some(&byte) = template.get(at) {
            at += 1;
            if byte != b'%' {
                ffi::luaL_addchar(buffer, byte as c_char);
                continue;
            }
            let named = template.get(at).copied().unwrap_or(0);
            at += 1;
            match named {
                b'0' => add_bytes(buffer, &subject[start..end]),
                b'1'..=b'9' => {
                    push_capture(state, matcher, subject, usize::from(named - b'1'), (start, end));
                    ffi::luaL_addvalue(buffer);
                }
                other => ffi::luaL_addchar(buffer, other as c_char),
            }
        }
    }
}
