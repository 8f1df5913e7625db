//! The arguments of a request that are secret: passwords and the names that go with them, and the rules of a user.
//!
//! A server hides them where it shows requests, and a prompt keeps no line that has one. Constants and pure functions only;
//! any thread.

use crate::arguments::Args;

/// The places of a command's secrets among its arguments, the command's name being number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// The arguments from this number on.
    From(usize),
    /// The values of options that lead to passwords; options stand from this number on, each before its value.
    OptionValues(usize),
    /// The arguments behind certain words.
    Behind(SecretWords),
}

/// Words behind which secrets stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretWords {
    /// The number of the first argument that may be one of the words.
    pub from: usize,
    /// The words, each with the number of secrets that follow it.
    pub words: &'static [(&'static str, usize)],
    /// The word behind which no argument is secret.
    pub end: Option<&'static str>,
}

/// Options with values that are passwords or lead to them.
const SECRET_OPTIONS: [&str; 6] =
    ["requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass", "tls-key-file"];

impl Secrets {
    /// Returns the indexes of the arguments that are hidden from logs, ascending.
    pub fn positions(self, args: Args<'_>) -> Vec<usize> {
        match self {
            Secrets::From(first) => (first..args.len()).collect(),
            Secrets::OptionValues(first) => {
                (first + 1..args.len()).step_by(2).filter(|&at| is_secret_option(args, at - 1)).collect()
            }
            Secrets::Behind(words) => behind(args, words),
        }
    }
}

fn is_secret_option(args: Args<'_>, index: usize) -> bool {
    let name = args.get(index).unwrap_or_default();
    SECRET_OPTIONS.iter().any(|option| option.as_bytes().eq_ignore_ascii_case(name))
}

fn behind(args: Args<'_>, SecretWords { from, words, end }: SecretWords) -> Vec<usize> {
    let (mut secrets, mut at) = (Vec::new(), from);
    while let Some(argument) = args.get(at) {
        let is = |word: &str| argument.eq_ignore_ascii_case(word.as_bytes());
        if end.is_some_and(is) {
            break;
        }
        let count = words.iter().find(|(word, _)| is(word)).map_or(0, |&(_, count)| count);
        secrets.extend((at + 1..args.len()).take(count));
        at += 1 + count;
    }
    secrets
}

#[cfg(test)]
mod tests {
    use crate::arguments::OwnedArgs;
    use crate::commands::Command;

    fn shown(command: Command, line: &str) -> String {
        let owned = OwnedArgs::collect(line.split(' ').map(str::as_bytes));
        let secrets = command.row().secrets.map_or(Vec::new(), |secrets| secrets.positions(owned.args()));
        let word = |(at, word): (usize, &[u8])| match secrets.binary_search(&at) {
            Ok(_) => "*".to_owned(),
            Err(_) => String::from_utf8_lossy(word).into_owned(),
        };
        owned.args().iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn passwords_are_found_where_they_stand() {
        assert_eq!(shown(Command::Auth, "AUTH u p"), "AUTH * *");
        assert_eq!(shown(Command::AclSetUser, "ACL SETUSER u >p"), "ACL SETUSER * *");
        assert_eq!(shown(Command::ConfigSet, "CONFIG SET hz 10 Requirepass p"), "CONFIG SET hz 10 Requirepass *");
        assert_eq!(shown(Command::ConfigSet, "CONFIG SET requirepass"), "CONFIG SET requirepass");
        assert_eq!(shown(Command::Hello, "HELLO 3 SETNAME x auth u p"), "HELLO 3 SETNAME x auth * *");
        assert_eq!(shown(Command::Hello, "HELLO AUTH u p"), "HELLO AUTH * *");
        assert_eq!(shown(Command::Migrate, "MIGRATE h p k 0 1 AUTH auth COPY"), "MIGRATE h p k 0 1 AUTH * COPY");
        assert_eq!(
            shown(Command::Migrate, "MIGRATE h p k 0 1 AUTH2 u p KEYS auth k"),
            "MIGRATE h p k 0 1 AUTH2 * * KEYS auth k"
        );
        assert_eq!(shown(Command::Migrate, "MIGRATE h p k 0 1 AUTH2 u"), "MIGRATE h p k 0 1 AUTH2 *");
        assert_eq!(shown(Command::Get, "GET auth"), "GET auth");
    }
}
