//! The commands that a list of rules allows: a bit for each row of the command table, and the rules that produced the bits.
//!
//! Rules apply in order: each rule changes the bits that the rules before it have set. Rules are kept so that they can be
//! printed, if they have an effect. A rule that changes nothing is not kept, and a rule replaces all earlier rules about
//! commands that it covers too. Redis 7.0 keeps only the bits and prints the categories that describe them best. For rules
//! that people write both print the same, and the kept rules are never more than the given ones. Plain data; any thread.

use std::collections::BTreeMap;

use sleeve_wire::commands::{self, Categories, Command, Row};

use super::rule::RuleError;

const WORDS: usize = commands::all().len().div_ceil(64);

/// The commands that a selector allows.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    allowed: Allowed,
    /// All commands are allowed, including unknown ones, and no rule has taken any away since.
    is_all: bool,
    /// The rules began with `+@all`; otherwise with `-@all`.
    begins_with_all: bool,
    /// The rules after the first.
    rules: Vec<Rule>,
}

/// The state after all rules: a bit for each allowed command, and the allowed first arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Allowed {
    bits: Bits,
    /// For a command that is not allowed as a whole, by its row: the first arguments with which it is allowed.
    first_arguments: BTreeMap<u16, Vec<Vec<u8>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bits([u64; WORDS]);

/// A rule as it was written.
#[derive(Debug, Clone)]
struct Rule {
    /// The sign is `+` rather than `-`.
    allow: bool,
    /// The text after the sign, as it is printed.
    name: Vec<u8>,
    /// The commands and subcommands that the rule concerns.
    scope: Bits,
    /// The first argument for which the rule holds, with the row of its command; None if the rule concerns whole commands.
    argument: Option<(u16, Vec<u8>)>,
}

impl Default for Bits {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl Commands {
    /// Allows all commands.
    pub fn allow_all(&mut self) {
        *self = Self { allowed: Allowed::of(true), is_all: true, begins_with_all: true, rules: Vec::new() };
    }

    /// Allows no command.
    pub fn allow_none(&mut self) {
        *self = Self::default();
    }

    /// Returns whether all commands are allowed.
    pub fn is_all(&self) -> bool {
        self.is_all
    }

    /// Returns whether a command may run with this first argument (behind its subcommand's name, if it has one).
    #[inline]
    pub fn allows(&self, row: &Row, first_argument: Option<&[u8]>) -> bool {
        self.is_all || self.allowed.bits.has(row.id) || self.allowed.has_argument(row.id as u16, first_argument)
    }

    /// Applies `+name`, `-name`, `+container|name`, `+command|argument`, `+@category` or `-@category`.
    ///
    /// # Errors
    /// An unknown name, or a text that is no rule about commands.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let rule = Rule::parse(rule)?;
        if !self.allowed.apply(&rule) {
            return Ok(());
        }
        let known = self.rules.len();
        if rule.argument.is_none() {
            self.rules.retain(|earlier| !earlier.scope.is_within(&rule.scope));
        }
        let has_replaced = self.rules.len() < known;
        self.rules.push(rule);
        if has_replaced {
            // Since rules between them were dropped, a remaining rule may now change nothing; then it is dropped too.
            let mut allowed = Allowed::of(self.begins_with_all);
            self.rules.retain(|rule| allowed.apply(rule));
        }
        self.is_all = self.begins_with_all && self.rules.is_empty();
        Ok(())
    }

    /// Returns the text of rules that give this set when they are applied in order.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = if self.begins_with_all { b"+@all".to_vec() } else { b"-@all".to_vec() };
        for rule in &self.rules {
            text.extend_from_slice(if rule.allow { b" +" } else { b" -" });
            text.extend_from_slice(&rule.name);
        }
        text
    }
}

impl Rule {
    fn parse(rule: &[u8]) -> Result<Self, RuleError> {
        let (allow, name) = match rule {
            [b'+', name @ ..] => (true, name),
            [b'-', name @ ..] => (false, name),
            _ => return Err(RuleError::Syntax),
        };
        if let [b'@', category @ ..] = name {
            let wanted = Categories::named(category).ok_or(RuleError::Unknown)?;
            let rows = commands::all().iter().filter(|row| row.categories.intersects(wanted));
            return Ok(Self { allow, name: name.to_ascii_lowercase(), scope: Bits::of(rows), argument: None });
        }
        match name.iter().rposition(|&byte| byte == b'|') {
            Some(bar) if allow => Self::parse_part(&name[..bar], &name[bar + 1..]),
            _ => Ok(Self::about(allow, commands::find_full(name).ok_or(RuleError::Unknown)?)),
        }
    }

    /// Parses `+container|subcommand`, or `+command|argument` if the command is no container.
    fn parse_part(parent: &[u8], part: &[u8]) -> Result<Self, RuleError> {
        let row = commands::find_full(parent).ok_or(RuleError::Unknown)?;
        if row.parent.is_some() {
            return Err(RuleError::FirstArgument);
        }
        if part.is_empty() {
            return Err(RuleError::Syntax);
        }
        if row.is_container() {
            return Ok(Self::about(true, commands::find_sub(row.id, part).ok_or(RuleError::Unknown)?));
        }
        let name = [row.full_name.as_bytes(), b"|", part].concat();
        Ok(Self { name, argument: Some((row.id as u16, part.to_vec())), ..Self::about(true, row) })
    }

    /// Makes a rule about a command with its subcommands.
    fn about(allow: bool, row: &'static Row) -> Self {
        Self { allow, name: row.full_name.as_bytes().to_vec(), scope: Bits::of([row]), argument: None }
    }
}

impl Allowed {
    /// Makes a state that allows all commands or none.
    fn of(all: bool) -> Self {
        let bits = if all { Bits::of(commands::all()) } else { Bits::default() };
        Self { bits, first_arguments: BTreeMap::new() }
    }

    /// Applies a rule; returns whether it has changed anything.
    fn apply(&mut self, rule: &Rule) -> bool {
        let bits = self.bits;
        match &rule.argument {
            Some(_) if rule.scope.is_within(&bits) => false,
            Some((row, argument)) => {
                let known = self.has_argument(*row, Some(argument));
                if !known {
                    self.first_arguments.entry(*row).or_default().push(argument.clone());
                }
                !known
            }
            None => {
                let known = self.first_arguments.len();
                self.first_arguments.retain(|&row, _| !rule.scope.has_number(row));
                self.bits = if rule.allow { bits.with(&rule.scope) } else { bits.without(&rule.scope) };
                self.bits != bits || self.first_arguments.len() < known
            }
        }
    }

    fn has_argument(&self, row: u16, argument: Option<&[u8]>) -> bool {
        let (Some(allowed), Some(argument)) = (self.first_arguments.get(&row), argument) else { return false };
        allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(argument))
    }
}

impl Bits {
    /// Sets the bits of these rows and of their subcommands.
    fn of(rows: impl IntoIterator<Item = &'static Row>) -> Self {
        let mut bits = Self::default();
        for row in rows {
            bits.set(row.id);
            if row.is_container() {
                row.subcommands().for_each(|sub| bits.set(sub.id));
            }
        }
        bits
    }

    fn set(&mut self, id: Command) {
        self.0[id as usize / 64] |= 1_u64 << (id as usize % 64);
    }

    #[inline]
    fn has(&self, id: Command) -> bool {
        self.has_number(id as u16)
    }

    #[inline]
    fn has_number(&self, id: u16) -> bool {
        self.0[usize::from(id) / 64] >> (id % 64) & 1 != 0
    }

    fn with(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    fn is_within(&self, other: &Self) -> bool {
        self.without(other) == Self::default()
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
        assert_eq!(text("+get +@read -set +config|get +select|0"), "-@all +@read +config|get +select|0");
        assert_eq!(text("+@read -get +client -client|kill"), "-@all +@read -get +client -client|kill");
        assert_eq!(text("+client|id +client|kill +get -client"), "-@all +get");
        assert_eq!(text("+@all -client +client|id"), "+@all -client +client|id");
        assert_eq!(text("+select|0 +SELECT|a +select|A -@connection"), "-@all");
        assert_eq!(text("+GET -GetRange +memory|doctor +memory"), "-@all +get +memory");
    }

    #[test]
    fn a_rule_that_changes_nothing_is_not_kept() {
        assert_eq!(text("+@all +client|id +select|0 -get +get +@read"), "+@all");
        assert_eq!(text("+@all -get -@read +@read"), "+@all");
        assert_eq!(text("-get -@write +@string -get -set +get +select|0 +Select|0"), "-@all +@string -set +select|0");
        assert_eq!(text("+config +config|get -config|set -config"), "-@all");
        assert_eq!(text("+client -client|kill +client|kill"), "-@all +client");
    }

    #[test]
    fn bits_follow_the_rules_in_order() {
        let commands = after("+@read -get +client -client|kill +select|0");
        let allows = |id: Command, argument: Option<&[u8]>| commands.allows(id.row(), argument);
        assert!(allows(Command::MGet, None) && !allows(Command::Get, None));
        assert!(allows(Command::ClientId, None) && !allows(Command::ClientKill, None));
        assert!(allows(Command::Select, Some(b"0")) && !allows(Command::Select, Some(b"1")));
        assert!(!after("+select|0 -select").allows(Command::Select.row(), Some(b"0")));
        assert!(after("+@all").is_all() && !after("+@all -get").is_all() && after("+@all -get +get").is_all());
    }
}
