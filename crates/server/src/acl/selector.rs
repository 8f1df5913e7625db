//! A selector: commands together with the keys, channels and databases that they may touch.
//!
//! A user's first selector is its root, which plain rules change; further ones are written in parentheses. A request is
//! allowed if a single selector allows all of it. Plain data; any thread.

use sleeve_wire::commands::KeyFlags;
use sleeve_wire::pattern;

use super::commands::Commands;
use super::databases::{self, Allowed};
use super::rule::{Defaults, RuleError};

/// A set of permissions: commands, keys, channels and databases.
#[derive(Debug, Clone, Default)]
pub struct Selector {
    /// The commands.
    pub commands: Commands,
    /// The selector allows every key.
    pub all_keys: bool,
    /// The selector allows every channel.
    pub all_channels: bool,
    /// The allowed databases; all of them if none are listed.
    pub databases: Allowed,
    keys: Vec<KeyPattern>,
    channels: Vec<Vec<u8>>,
}

/// A pattern of keys, and the permitted accesses to them.
#[derive(Debug, Clone)]
struct KeyPattern {
    pattern: Vec<u8>,
    access: Access,
}

/// The permitted accesses to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Access {
    read: bool,
    write: bool,
}

impl Access {
    /// Returns the access that these flags of a key specification need.
    fn needed(flags: KeyFlags) -> Self {
        let writes = KeyFlags::INSERT.or(KeyFlags::DELETE).or(KeyFlags::UPDATE);
        Self { read: flags.intersects(KeyFlags::ACCESS), write: flags.intersects(writes) }
    }

    fn covers(self, other: Self) -> bool {
        (self.read || !other.read) && (self.write || !other.write)
    }

    fn sign(self) -> &'static [u8] {
        match (self.read, self.write) {
            (true, true) => b"~",
            (true, false) => b"%R~",
            (false, _) => b"%W~",
        }
    }
}

impl Selector {
    /// Returns a selector that allows only the defaults.
    pub fn new(defaults: Defaults) -> Self {
        Self { all_channels: defaults.all_channels, ..Self::default() }
    }

    /// Returns whether the selector forbids nothing.
    pub fn is_unrestricted(&self) -> bool {
        self.commands.is_all() && self.all_keys && self.all_channels && self.databases.is_none()
    }

    /// Applies a rule about commands, keys, channels or databases.
    ///
    /// # Errors
    /// The reason why the text is no such rule.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => self.set_keys(true),
            b"resetkeys" => self.set_keys(false),
            b"allchannels" | b"&*" => self.set_channels(true),
            b"resetchannels" => self.set_channels(false),
            b"allcommands" | b"+@all" => self.commands.allow_all(),
            b"nocommands" | b"-@all" => self.commands.allow_none(),
            b"alldbs" => self.databases = None,
            b"resetdbs" => self.databases = Some(Default::default()),
            [b'd', b'b', b'=', ..] => {
                self.databases = Some(databases::parse(rule.get(3..).unwrap_or_default())?);
            }
            [b'~' | b'%', ..] => self.add_keys(rule)?,
            [b'&', ..] => self.add_channels(rule.get(1..).unwrap_or_default())?,
            [b'+' | b'-', ..] => self.commands.apply(rule)?,
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn set_keys(&mut self, all: bool) {
        self.all_keys = all;
        self.keys.clear();
    }

    fn set_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channels.clear();
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AllKeysAlready);
        }
        let (access, pattern) = split_access(rule).ok_or(RuleError::Syntax)?;
        if has_space(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            None => self.keys.push(KeyPattern { pattern: pattern.to_vec(), access }),
            Some(KeyPattern { access: known, .. }) => {
                *known = Access { read: known.read || access.read, write: known.write || access.write };
            }
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::AllChannelsAlready);
        }
        if has_space(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    /// Returns whether a request may access a key as the flags of its key specification say.
    pub fn allows_key(&self, key: &[u8], flags: KeyFlags) -> bool {
        let needed = Access::needed(flags);
        let covers = |known: &KeyPattern| known.access.covers(needed) && pattern::matches(&known.pattern, key, false);
        self.all_keys || self.keys.iter().any(covers)
    }

    /// Returns whether every key may be read: SORT needs this if it reads other keys by pattern.
    pub fn allows_reading_all_keys(&self) -> bool {
        self.all_keys || self.keys.iter().any(|known| known.access.read && known.pattern == b"*")
    }

    /// Returns whether a channel may be used. A pattern of PSUBSCRIBE must be equal to one of the allowed patterns.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let covers = |known: &Vec<u8>| {
            if is_pattern { known == channel } else { pattern::matches(known, channel, false) }
        };
        self.all_channels || self.channels.iter().any(covers)
    }

    /// Returns whether no channel is allowed.
    pub fn has_no_channel(&self) -> bool {
        !self.all_channels && self.channels.is_empty()
    }

    /// Returns the rules about keys: `~* %R~x`.
    pub fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let one = |known: &KeyPattern| [known.access.sign(), &known.pattern].concat();
        self.keys.iter().map(one).collect::<Vec<_>>().join(&b' ')
    }

    /// Returns the rules about channels: `&a &b*`.
    pub fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        self.channels.iter().map(|channel| [b"&", channel.as_slice()].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// Returns the rule about databases, `db=0,1`: None if all are allowed, and an empty one if none is.
    pub fn describe_databases(&self) -> Option<Vec<u8>> {
        self.databases.as_ref().map(databases::describe)
    }

    /// Returns the selector's rules in the form of a configuration line.
    pub fn describe(&self) -> Vec<u8> {
        let reset = if self.all_channels { b"".as_slice() } else { b"resetchannels" };
        let databases = match self.describe_databases() {
            Some(none) if none.is_empty() => b"resetdbs".to_vec(),
            some => some.unwrap_or_default(),
        };
        let parts =
            [self.describe_keys(), reset.to_vec(), self.describe_channels(), databases, self.commands.describe()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b' ')
    }
}

/// Splits `~pattern`, `%R~pattern`, `%W~pattern` or `%RW~pattern` into the access and the pattern.
fn split_access(rule: &[u8]) -> Option<(Access, &[u8])> {
    let (sign, mut rest) = rule.split_first()?;
    if *sign == b'~' {
        return Some((Access { read: true, write: true }, rest));
    }
    let mut access = Access { read: false, write: false };
    while let Some((letter, after)) = rest.split_first() {
        rest = after;
        match letter.to_ascii_uppercase() {
            b'R' if !access.read => access.read = true,
            b'W' if !access.write => access.write = true,
            b'~' if access.read || access.write => return Some((access, rest)),
            _ => return None,
        }
    }
    // If there is no tilde, the pattern is empty, as in Redis.
    (access.read || access.write).then_some((access, rest))
}

/// Returns whether a text contains a byte that would end a word: white space or a zero byte.
pub fn has_space(text: &[u8]) -> bool {
    text.iter().any(|&byte| byte == 0 || byte == 0x0b || byte.is_ascii_whitespace())
}
