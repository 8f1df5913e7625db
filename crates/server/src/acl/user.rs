//! A user: a name, the settings of its login, and its selectors.
//!
//! Rules change it one at a time; its state can be printed as rules again. Passwords are kept as their hexadecimal SHA-256,
//! and are compared in constant time. Plain data; any thread.

use sha2::{Digest, Sha256};
use sleeve_wire::inline;
use sleeve_wire::request::Span;

use super::rule::{Defaults, RuleError};
use super::selector::Selector;

/// A user: passwords, state, and the selectors with its permissions.
#[derive(Debug, Clone)]
pub struct User {
    /// A number that distinguishes the user from a later one with the same name.
    pub id: u64,
    /// The name, which has no spaces.
    pub name: Box<[u8]>,
    /// Clients may log in as this user. Clients that are logged in already stay so.
    pub enabled: bool,
    /// Any password is accepted.
    pub no_password: bool,
    /// The setting for the thorough check of RESTORE's payloads, as the rule gave it; payloads are checked in any case.
    pub sanitizing: Sanitizing,
    /// The SHA-256 of each password, as 64 hexadecimal digits.
    passwords: Vec<Box<[u8]>>,
    /// The selectors, the root first; there is always one.
    selectors: Vec<Selector>,
    /// Some selector forbids nothing, so that no permission has to be checked.
    unrestricted: bool,
}

/// The setting for the thorough check of RESTORE's payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sanitizing {
    /// `sanitize-payload`.
    On,
    /// `skip-sanitize-payload`.
    Skipped,
}

impl User {
    /// Makes a user that has no permissions and cannot log in.
    pub fn new(id: u64, name: &[u8], defaults: Defaults) -> Self {
        let mut user = Self {
            id,
            name: name.into(),
            enabled: false,
            no_password: false,
            sanitizing: Sanitizing::On,
            passwords: Vec::new(),
            selectors: vec![Selector::new(defaults)],
            unrestricted: false,
        };
        user.judge();
        user
    }

    /// Returns the default user before any configuration: it needs no password and has all permissions.
    pub fn everybody(id: u64) -> Self {
        let mut user = Self::new(id, b"default", Defaults { all_channels: true });
        (user.enabled, user.no_password) = (true, true);
        let root = &mut user.selectors[0];
        root.commands.allow_all();
        root.all_keys = true;
        user.judge();
        user
    }

    /// Returns whether the user has all permissions.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.unrestricted
    }

    /// Returns the selectors, the root first.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Returns whether some selector allows a channel, for any command.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors.iter().any(|selector| selector.allows_channel(channel, is_pattern))
    }

    /// Returns whether the user may use no channel.
    pub fn has_no_channel(&self) -> bool {
        self.selectors.iter().all(Selector::has_no_channel)
    }

    /// Returns the hexadecimal hashes of the passwords.
    pub fn passwords(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.passwords.iter().map(|hash| &**hash)
    }

    /// Returns whether this password lets a client log in.
    pub fn admits(&self, password: &[u8]) -> bool {
        if !self.enabled || self.no_password {
            return self.enabled;
        }
        let given = hash(password);
        // Every hash is compared, and every byte of it, no matter which one is equal.
        self.passwords.iter().fold(false, |right, known| right | same_bytes(known, &given))
    }

    /// Applies a rule.
    ///
    /// # Errors
    /// The reason why the text is no rule; the user is unchanged then.
    pub fn apply(&mut self, rule: &[u8], defaults: Defaults) -> Result<(), RuleError> {
        self.change(rule, defaults)?;
        self.judge();
        Ok(())
    }

    fn judge(&mut self) {
        self.unrestricted = self.selectors.iter().any(Selector::is_unrestricted);
    }

    fn change(&mut self, rule: &[u8], defaults: Defaults) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"nopass" => {
                self.no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.no_password = false;
                self.passwords.clear();
            }
            b"sanitize-payload" => self.sanitizing = Sanitizing::On,
            b"skip-sanitize-payload" => self.sanitizing = Sanitizing::Skipped,
            b"clearselectors" => self.selectors.truncate(1),
            b"reset" => *self = Self::new(self.id, &self.name, defaults),
            [b'>' | b'#' | b'<' | b'!', ..] => self.change_password(rule)?,
            [b'(', .., b')'] => self.selectors.push(parse_selector(rule, defaults)?),
            _ => self.selectors[0].apply(rule)?,
        }
        Ok(())
    }

    fn change_password(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let (sign, text) = rule.split_first().ok_or(RuleError::Syntax)?;
        let hash = match sign {
            b'>' | b'<' => hash(text),
            _ if is_hash(text) => text.into(),
            _ => return Err(RuleError::BadHash),
        };
        let known = self.passwords.iter().position(|known| *known == hash);
        match (sign, known) {
            (b'>' | b'#', None) => self.passwords.push(hash),
            (b'>' | b'#', Some(_)) => {}
            (_, Some(at)) => _ = self.passwords.remove(at),
            (_, None) => return Err(RuleError::NoSuchPassword),
        }
        if matches!(sign, b'>' | b'#') {
            self.no_password = false;
        }
        Ok(())
    }

    /// Returns the words for the login settings: `on`, `nopass`, ...
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        if self.no_password {
            flags.push("nopass");
        }
        flags.push(match self.sanitizing {
            Sanitizing::On => "sanitize-payload",
            Sanitizing::Skipped => "skip-sanitize-payload",
        });
        flags
    }

    /// Returns the user as a line of the configuration: `user name on ...`.
    pub fn describe(&self) -> Vec<u8> {
        let mut words = vec![b"user".to_vec(), self.name.to_vec()];
        words.extend(self.flags().into_iter().map(|flag| flag.as_bytes().to_vec()));
        words.extend(self.passwords.iter().map(|hash| [b"#", &**hash].concat()));
        for (at, selector) in self.selectors.iter().enumerate() {
            let rules = selector.describe();
            words.push(if at == 0 { rules } else { [b"(", rules.as_slice(), b")"].concat() });
        }
        words.join(&b' ')
    }
}

/// Reads a selector: `(rule rule ...)`.
fn parse_selector(rule: &[u8], defaults: Defaults) -> Result<Selector, RuleError> {
    let inside = rule.get(1..rule.len() - 1).unwrap_or_default();
    let (mut bytes, mut spans): (Vec<u8>, Vec<Span>) = (Vec::new(), Vec::new());
    if !inline::split(inside, &mut bytes, &mut spans) {
        return Err(RuleError::Syntax);
    }
    let mut selector = Selector::new(defaults);
    for span in &spans {
        let start = span.start as usize;
        selector.apply(bytes.get(start..start + span.len as usize).unwrap_or_default())?;
    }
    Ok(selector)
}

/// Returns the hexadecimal SHA-256 of a password.
fn hash(password: &[u8]) -> Box<[u8]> {
    let hex = |byte: &u8| [b"0123456789abcdef"[usize::from(byte >> 4)], b"0123456789abcdef"[usize::from(byte & 15)]];
    Sha256::digest(password).iter().flat_map(hex).collect()
}

fn is_hash(text: &[u8]) -> bool {
    text.len() == 64 && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Compares bytes in a time that does not depend on how many of them are equal.
fn same_bytes(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(rules: &[&str]) -> Result<User, RuleError> {
        let mut user = User::new(1, b"a", Defaults::default());
        rules.iter().try_for_each(|rule| user.apply(rule.as_bytes(), Defaults::default()))?;
        Ok(user)
    }

    fn line(rules: &[&str]) -> String {
        String::from_utf8(user(rules).expect("rules").describe()).expect("ASCII")
    }

    #[test]
    fn a_user_is_printed_as_rules_that_make_it_again() {
        let hash = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
        let expected = format!(
            "user a on sanitize-payload #{hash} ~k* %R~r* resetchannels &c -@all +get (%W~b resetchannels -@all +set)"
        );
        assert_eq!(line(&["on", ">x", "~k*", "%R~r*", "&c", "+get", "(%W~b +set)"]), expected);
        let rules: Vec<&str> = expected.split_once(" a ").expect("a name").1.split(" (").collect();
        let again: Vec<&str> = rules[0].split(' ').chain(["(%W~b resetchannels -@all +set)"]).collect();
        assert_eq!(line(&again), expected);
        assert_eq!(line(&["reset"]), "user a off sanitize-payload resetchannels -@all");
        assert_eq!(
            line(&["%RW~foo", "%W~foo", "%R~bar", "%W~bar"]),
            "user a off sanitize-payload ~foo ~bar resetchannels -@all"
        );
    }

    #[test]
    fn databases_are_printed_in_their_order() {
        assert_eq!(line(&["db=3,1,03"]), "user a off sanitize-payload resetchannels db=1,3 -@all");
        assert_eq!(line(&["db=1", "DB=2"]), "user a off sanitize-payload resetchannels db=2 -@all");
        assert_eq!(line(&["db=1", "resetdbs"]), "user a off sanitize-payload resetchannels resetdbs -@all");
        assert_eq!(line(&["db=1", "AllDbs"]), "user a off sanitize-payload resetchannels -@all");
        for wrong in ["db=", "db=1,", "db=,1", "db=x", "db=1 2"] {
            assert_eq!(user(&[wrong]).err(), Some(RuleError::Syntax), "{wrong}");
        }
        for wrong in ["db=-1", "db=2147483648"] {
            assert_eq!(user(&[wrong]).err(), Some(RuleError::DatabaseRange), "{wrong}");
        }
        assert!(!user(&["+@all", "~*", "&*", "db=0"]).expect("rules").is_unrestricted());
    }

    #[test]
    fn passwords_are_hashes_that_come_and_go() {
        let user = user(&["on", ">one", ">two", "<one"]).expect("rules");
        assert!(user.admits(b"two") && !user.admits(b"one") && !user.admits(b""));
        assert_eq!(self::user(&["<one"]).err(), Some(RuleError::NoSuchPassword));
        assert_eq!(self::user(&["#ABC"]).err(), Some(RuleError::BadHash));
        assert!(self::user(&["on", ">one", "nopass"]).expect("rules").admits(b"anything"));
        assert!(!self::user(&["nopass"]).expect("rules").admits(b"anything"), "it is off");
    }

    #[test]
    fn only_who_may_do_everything_is_unrestricted() {
        assert!(user(&["+@all", "~*", "&*"]).expect("rules").is_unrestricted());
        assert!(user(&["+get", "(+@all ~* &*)"]).expect("rules").is_unrestricted());
        for less in [["+@all", "~*", ""], ["+@all", "&*", ""], ["~*", "&*", ""]] {
            assert!(!user(&less).expect("rules").is_unrestricted());
        }
    }
}
