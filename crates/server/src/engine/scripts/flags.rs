//! The declarations of a script: the flags of a shebang line or of a registered function, and that line itself.
//!
//! `#!lua name=mylib flags=no-writes,allow-oom` is Redis 7's first line of a library, and may be that of a script. Pure
//! functions; any thread.

use sleeve_wire::arguments::{Args, OwnedArgs};
use sleeve_wire::commands::Flags;
use sleeve_wire::inline;

use crate::request::error::Error;

/// A set of flags: promises of a script, and permissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScriptFlags(u8);

impl ScriptFlags {
    /// The script changes no data.
    pub const NO_WRITES: Self = Self(1);
    /// The script may run while memory has run out.
    pub const ALLOW_OOM: Self = Self(1 << 1);
    /// The script may run on a replica with stale data.
    pub const ALLOW_STALE: Self = Self(1 << 2);
    /// The script may not run on a cluster.
    pub const NO_CLUSTER: Self = Self(1 << 3);
    /// The script may use keys of several slots.
    pub const ALLOW_CROSS_SLOT: Self = Self(1 << 4);

    const NAMES: [(&'static str, Self); 5] = [
        ("no-writes", Self::NO_WRITES),
        ("allow-oom", Self::ALLOW_OOM),
        ("allow-stale", Self::ALLOW_STALE),
        ("no-cluster", Self::NO_CLUSTER),
        ("allow-cross-slot-keys", Self::ALLOW_CROSS_SLOT),
    ];

    /// Returns whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flags of a command that runs such a script, instead of those of its row: the script's declaration decides.
    pub fn of_command(self, of_row: Flags) -> Flags {
        let decided = Flags::STALE.or(Flags::DENYOOM).or(Flags::WRITE).or(Flags::MAY_REPLICATE);
        let mut flags = of_row.without(decided);
        if !self.contains(Self::NO_WRITES) {
            flags = flags.or(Flags::WRITE);
            if !self.contains(Self::ALLOW_OOM) {
                flags = flags.or(Flags::DENYOOM);
            }
        }
        if self.contains(Self::ALLOW_STALE) { flags.or(Flags::STALE) } else { flags }
    }

    /// Adds the flag of this name; returns false if there is none.
    pub fn add(&mut self, name: &[u8]) -> bool {
        let found = Self::NAMES.iter().find(|(own, _)| own.as_bytes() == name);
        found.inspect(|(_, flag)| self.0 |= flag.0).is_some()
    }

    /// Returns the names of the flags that are set, in Redis's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        Self::NAMES.into_iter().filter(move |(_, flag)| self.contains(*flag)).map(|(name, _)| name)
    }
}

/// Returns the flags in the first line of a script for EVAL or SCRIPT LOAD. Returns None if there is no shebang, as in
/// scripts from before Redis 7: then all is allowed, and each command is checked when it runs.
///
/// # Errors
/// In Redis's words.
pub fn of_script(source: &[u8]) -> Result<Option<ScriptFlags>, Error> {
    if !source.starts_with(b"#!") {
        return Ok(None);
    }
    let end = memchr(source).ok_or(Error::fixed("ERR Invalid script shebang"))?;
    let words = words(&source[..end]).ok_or(Error::fixed("ERR Invalid engine in script shebang"))?;
    let mut words = words.args().iter();
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        let engine = String::from_utf8_lossy(engine);
        return Err(Error::new(format!("ERR Unexpected engine in script shebang: {engine}")));
    }
    let mut flags = ScriptFlags::default();
    for word in words {
        let Some(list) = word.strip_prefix(b"flags=") else {
            let word = String::from_utf8_lossy(word);
            return Err(Error::new(format!("ERR Unknown lua shebang option: {word}")));
        };
        for name in list.split(|&byte| byte == b',').filter(|name| !name.is_empty()) {
            if !flags.add(name) {
                let name = String::from_utf8_lossy(name);
                return Err(Error::new(format!("ERR Unexpected flag in script shebang: {name}")));
            }
        }
    }
    Ok(Some(flags))
}

/// Returns the name in the first line of a library.
///
/// # Errors
/// Redis's texts.
pub fn library_name(source: &[u8]) -> Result<String, Error> {
    if !source.starts_with(b"#!") {
        return Err(Error::fixed("ERR Missing library metadata"));
    }
    let end = memchr(source).ok_or(Error::fixed("ERR Invalid library metadata"))?;
    let words = words(&source[..end]).ok_or(Error::fixed("ERR Invalid library metadata"))?;
    let mut words = words.args().iter();
    let engine = words.next().and_then(|word| word.strip_prefix(b"#!")).unwrap_or_default();
    let mut name = None;
    for word in words {
        match word.strip_prefix(b"name=") {
            Some(_) if name.is_some() => {
                return Err(Error::fixed("ERR Invalid metadata value, name argument was given multiple times"));
            }
            Some(given) => name = Some(given),
            None => {
                let word = String::from_utf8_lossy(word);
                return Err(Error::new(format!("ERR Invalid metadata value given: {word}")));
            }
        }
    }
    let name = name.ok_or(Error::fixed("ERR Library name was not given"))?;
    if !is_name(name) {
        return Err(BAD_NAME);
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(Error::new(format!("ERR Engine '{}' not found", String::from_utf8_lossy(engine))));
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// The error for a name of a library or function that has other characters than allowed.
pub const BAD_NAME: Error = Error::fixed(
    "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
);

/// Returns whether a library or function may have this name.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

fn memchr(source: &[u8]) -> Option<usize> {
    source.iter().position(|&byte| byte == b'\n')
}

/// Returns the words of a line, which may be quoted; None if a quote is not closed.
fn words(line: &[u8]) -> Option<OwnedArgs> {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    let is_whole = inline::split(line, &mut bytes, &mut spans);
    is_whole.then(|| OwnedArgs::collect(Args::new(&bytes, &spans).iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_a_script_is() {
        assert_eq!(of_script(b"return 1"), Ok(None));
        assert_eq!(of_script(b"#!lua\nreturn 1"), Ok(Some(ScriptFlags::default())));
        let flags = of_script(b"#!lua flags=no-writes,allow-oom\n").expect("a line").expect("a shebang");
        assert_eq!(flags.names().collect::<Vec<_>>(), ["no-writes", "allow-oom"]);
        for bad in ["#!lua", "#!lua name=x\n", "#!lua flags=x\n", "#!python\n", "#!\n"] {
            assert!(of_script(bad.as_bytes()).is_err(), "{bad}");
        }
        for good in ["#!lua name=a_1\n", "#!LUA  name=\"a_1\" \n", "#!lua 'name=a_1'\n"] {
            assert_eq!(library_name(good.as_bytes()).as_deref(), Ok("a_1"));
        }
        for bad in
            ["", "#!lua name=a", "#!lua\n", "#!lua name=a name=b\n", "#!lua name=a-b\n", "#!js name=a\n", "#! name=a\n"]
        {
            assert!(library_name(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
