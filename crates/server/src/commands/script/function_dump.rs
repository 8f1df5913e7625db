//! FUNCTION DUMP and RESTORE: all libraries as one value, in Redis's form.
//!
//! The form is that of its snapshot files: for each library the byte 245 and its text as a string, which may be compressed
//! (LZF); then version and CRC-64 as behind a dumped value. A payload that is restored is not trusted: no memory is reserved
//! for the lengths that it claims, and all libraries are loaded before any of them replaces another.

use std::sync::Arc;

use sleeve_store::rdb::{self, Input, Source, Version};

use super::function::publish;
use crate::commands::key::dump::{self, checked, skips_sum, version_of};
use crate::context::Cx;
use crate::engine::scripts::Libraries;
use crate::engine::scripts::flags::library_name;
use crate::lua::evaluate;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The byte before each library.
const LIBRARY: u8 = 245;
/// FUNCTION DUMP
pub fn dump(cx: &mut Cx<'_>) -> Outcome {
    let mut payload = Vec::new();
    for library in cx.engine.scripts.libraries().iter() {
        payload.push(LIBRARY);
        rdb::push_len(&mut payload, library.code.len() as u64);
        payload.extend_from_slice(&library.code);
    }
    // The version is the oldest one that has libraries, so that Redis 7.0 can restore the payload.
    dump::finish(&mut payload, Version::Ten.number());
    cx.reply().bulk(&payload);
    Ok(())
}

/// The treatment of libraries that exist already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Flush,
    Append,
    Replace,
}

/// FUNCTION RESTORE serialized-value \[FLUSH | APPEND | REPLACE\]
pub fn restore(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if request.len() > 4 {
        return Err(Error::subcommand_syntax("FUNCTION", request.arg(1)));
    }
    let policy = match request.args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"append") => Policy::Append,
        Some(b"replace") => Policy::Replace,
        Some(b"flush") => Policy::Flush,
        Some(_) => {
            return Err(Error::fixed(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    let codes = codes_of(checked(request.arg(2), skips_sum(cx))?)?;
    let mut libraries = if policy == Policy::Flush { Libraries::default() } else { cx.engine.scripts.libraries() };
    let mut restored = Libraries::default();
    for code in codes {
        let name = library_name(&code)?;
        let is_taken = policy == Policy::Append && libraries.get(&name).is_some();
        if is_taken || restored.get(&name).is_some() {
            return Err(Error::new(format!("ERR Library {name} already exists")));
        }
        let library = evaluate::load_library(cx, &code)?;
        if let Some(function) = restored.collision(&library) {
            return Err(Error::new(format!("ERR Function {function} already exists")));
        }
        restored.insert(library);
    }
    for library in restored.iter() {
        libraries.remove(&library.name);
    }
    for library in restored.iter() {
        if let Some(function) = libraries.collision(library) {
            return Err(Error::new(format!("ERR Function {function} already exists")));
        }
    }
    restored.iter().for_each(|library| libraries.insert(Arc::clone(library)));
    publish(cx, libraries);
    if version_of(request.arg(2)) > Version::Ten.number() {
        // The form of libraries has not changed in later versions, but older servers check the version number.
        let mut payload = checked(request.arg(2), skips_sum(cx))?.to_vec();
        dump::finish(&mut payload, Version::Ten.number());
        let head: [&[u8]; 3] = [b"FUNCTION", b"RESTORE", &payload];
        cx.record_with(&head, request.args.from(3).iter());
    }
    cx.reply().ok();
    Ok(())
}

/// Reads the texts of the libraries.
fn codes_of(body: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let mut input = Input::new(body);
    let mut codes = Vec::new();
    while let Ok(kind) = input.byte() {
        if kind != LIBRARY {
            return Err(Error::fixed("ERR given type is not a function"));
        }
        codes.push(input.owned().map_err(|_| Error::fixed("ERR Failed loading library data"))?);
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_libraries_are_a_payload_too() {
        assert!(checked(b"\n\x00]\x9b\\@\x0f\x7f\xa2\xda", false).is_ok_and(<[u8]>::is_empty));
    }

    #[test]
    fn what_is_no_library_is_refused() {
        assert_eq!(codes_of(b"\xf5\x03abc\xf5\x00"), Ok(vec![b"abc".to_vec(), Vec::new()]));
        assert!(codes_of(b"\xf5\x04abc").is_err_and(|error| error.text() == b"ERR Failed loading library data"));
        assert!(codes_of(b"\x00\x03abc").is_err_and(|error| error.text() == b"ERR given type is not a function"));
    }
}
