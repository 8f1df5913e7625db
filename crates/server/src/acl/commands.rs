//! The commands that a list of rules allows: a bit for each row of the command table, and the rules that led there.
//!
//! Rules apply in order, so the bits are what the last rule left of the ones before. The rules themselves are kept as
//! Redis 7.2 keeps them, to be printed: a later rule about the same command, or about the container of it, takes the
//! place of the earlier. Plain data; any thread.

use std::collections::BTreeMap;

use sleeve_wire::commands::{self, Categories, Command, Row};

use super::rule::RuleError;

const WORDS: usize = commands::all().len().div_ceil(64);

/// See the file's head.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    bits: Bits,
    /// Every command is allowed, known or not, and nothing has been taken back since.
    is_all: bool,
    /// Whether the rules began with `+@all` rather than `-@all`.
    begins_with_all: bool,
    /// First arguments with which a command is allowed that is not allowed otherwise, by its row.
    first_arguments: BTreeMap<u16, Vec<Vec<u8>>>,
    /// The rules after the first, with their signs, in lower case.
    rules: Vec<Vec<u8>>,
}

#[derive(Debug, Clone)]
struct Bits([u64; WORDS]);

impl Default for Bits {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl Commands {
    /// Allows everything.
    pub fn allow_all(&mut self) {
        *self = Self { bits: Bits([u64::MAX; WORDS]), is_all: true, begins_with_all: true, ..Self::default() };
    }

    /// Allows nothing.
    pub fn allow_none(&mut self) {
        *self = Self::default();
    }

    /// Whether everything is allowed.
    pub fn is_all(&self) -> bool {
        self.is_all
    }

    /// Whether a command may run with this first argument (behind its subcommand's name, if it has one).
    #[inline]
    pub fn allows(&self, row: &Row, first_argument: Option<&[u8]>) -> bool {
        self.is_all || self.has(row.id) || self.allows_first_argument(row, first_argument)
    }

    fn allows_first_argument(&self, row: &Row, argument: Option<&[u8]>) -> bool {
        let (Some(allowed), Some(argument)) = (self.first_arguments.get(&(row.id as u16)), argument) else {
            return false;
        };
        allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(argument))
    }

    /// Applies `+name`, `-name`, `+container|name`, `+command|argument`, `+@category` or `-@category`.
    ///
    /// # Errors
    /// A name that nothing has, or a form that no rule has.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let (allow, name) = match rule {
            [b'+', name @ ..] => (true, name),
            [b'-', name @ ..] => (false, name),
            _ => return Err(RuleError::Syntax),
        };
        if let [b'@', category @ ..] = name {
            return self.apply_category(category, allow);
        }
        match name.iter().rposition(|&byte| byte == b'|') {
            Some(bar) if allow => self.allow_part(name, &name[..bar], &name[bar + 1..]),
            _ => {
                let row = commands::find_full(name).ok_or(RuleError::Unknown)?;
                self.change(row, allow);
                self.note(row.full_name.as_bytes(), allow);
                Ok(())
            }
        }
    }

    fn apply_category(&mut self, category: &[u8], allow: bool) -> Result<(), RuleError> {
        let wanted = Categories::named(category).ok_or(RuleError::Unknown)?;
        self.note(&[b"@", category].concat(), allow);
        let rows = commands::all().iter().filter(|row| row.categories.intersects(wanted));
        rows.for_each(|row| self.change(row, allow));
        Ok(())
    }

    /// `+container|subcommand`, or `+command|argument` where the command is no container.
    fn allow_part(&mut self, name: &[u8], parent: &[u8], part: &[u8]) -> Result<(), RuleError> {
        let row = commands::find_full(parent).ok_or(RuleError::Unknown)?;
        if row.parent.is_some() {
            return Err(RuleError::FirstArgument);
        }
        if part.is_empty() {
            return Err(RuleError::Syntax);
        }
        if row.is_container() {
            let row = commands::find_sub(row.id, part).ok_or(RuleError::Unknown)?;
            self.change(row, true);
        } else {
            let allowed = self.first_arguments.entry(row.id as u16).or_default();
            if !allowed.iter().any(|known| known.eq_ignore_ascii_case(part)) {
                allowed.push(part.to_vec());
            }
        }
        self.note(name, true);
        Ok(())
    }

    /// Allows or forbids a command with its subcommands.
    fn change(&mut self, row: &'static Row, allow: bool) {
        self.is_all &= allow;
        self.first_arguments.remove(&(row.id as u16));
        self.set(row.id, allow);
        if row.is_container() {
            row.subcommands().for_each(|sub| self.set(sub.id, allow));
        }
    }

    /// Keeps a rule for printing, instead of what it overrules by its name.
    fn note(&mut self, name: &[u8], allow: bool) {
        let name = name.to_ascii_lowercase();
        self.rules.retain(|rule| match rule.get(1..).and_then(|known| known.strip_prefix(name.as_slice())) {
            Some([] | [b'|', ..]) => false,
            Some(_) | None => true,
        });
        let sign = if allow { b'+' } else { b'-' };
        self.rules.push([&[sign], name.as_slice()].concat());
    }

    /// The rules that give this set when they are applied in order.
    pub fn describe(&self) -> Vec<u8> {
        let first = if self.begins_with_all { b"+@all".to_vec() } else { b"-@all".to_vec() };
        std::iter::once(&first).chain(&self.rules).map(Vec::as_slice).collect::<Vec<_>>().join(&b' ')
    }

    fn set(&mut self, id: Command, allow: bool) {
        let (word, bit) = (id as usize / 64, 1_u64 << (id as usize % 64));
        if allow {
            self.bits.0[word] |= bit;
        } else {
            self.bits.0[word] &= !bit;
        }
    }

    #[inline]
    fn has(&self, id: Command) -> bool {
        self.bits.0[id as usize / 64] >> (id as usize % 64) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rules: &str) -> Commands {
        let mut commands = Commands::default();
        for rule in rules.split(' ') {
            match rule {
                "+@all" => commands.allow_all(),
                "-@all" => commands.allow_none(),
                _ => commands.apply(rule.as_bytes()).expect(rule),
            }
        }
        commands
    }

    fn text(rules: &str) -> String {
        String::from_utf8(after(rules).describe()).expect("ASCII")
    }

    #[test]
    fn a_later_rule_takes_the_place_of_the_earlier() {
        assert_eq!(text("+get +@read -set +config|get +select|0"), "-@all +get +@read -set +config|get +select|0");
        assert_eq!(text("+@read -get +client -client|kill"), "-@all +@read -get +client -client|kill");
        assert_eq!(text("+client|id +client|kill +get -client"), "-@all +get -client");
        assert_eq!(text("+@all -get +@all +get -@read +@read"), "+@all +get +@read");
        assert_eq!(text("+GET -GetRange"), "-@all +get -getrange");
    }

    #[test]
    fn bits_follow_the_rules_in_order() {
        let commands = after("+@read -get +client -client|kill +select|0");
        let allows = |id: Command, argument: Option<&[u8]>| commands.allows(id.row(), argument);
        assert!(allows(Command::MGet, None) && !allows(Command::Get, None));
        assert!(allows(Command::ClientId, None) && !allows(Command::ClientKill, None));
        assert!(allows(Command::Select, Some(b"0")) && !allows(Command::Select, Some(b"1")));
        assert!(!after("+select|0 -select").allows(Command::Select.row(), Some(b"0")));
        assert!(after("+@all").is_all() && !after("+@all -get").is_all() && !after("+@all -get +get").is_all());
    }
}
