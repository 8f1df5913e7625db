//! Which arguments of a request are secret: what MONITOR and the slow log show as `(redacted)`.
//!
//! Passwords and the names that go with them, and all that is said about a user. Pure functions; any thread.

use sleeve_wire::commands::Command;
use sleeve_wire::request::Args;

/// What is shown instead.
pub const REDACTED: &[u8] = b"(redacted)";

/// Options whose values are passwords or lead to them.
const SECRET_OPTIONS: [&str; 6] =
    ["requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass", "tls-key-file"];

/// The indexes of the arguments that nobody is to see, ascending.
pub fn of(command: Command, args: Args<'_>) -> Vec<usize> {
    match command {
        Command::Auth => (1..args.len()).collect(),
        Command::AclSetUser => (2..args.len()).collect(),
        Command::ConfigSet => (3..args.len()).step_by(2).filter(|&at| is_secret_option(args, at - 1)).collect(),
        Command::Hello => behind_words(args, 2, &[("auth", 2)], ""),
        Command::Migrate => behind_words(args, 6, &[("auth", 1), ("auth2", 2)], "keys"),
        _ => Vec::new(),
    }
}

fn is_secret_option(args: Args<'_>, index: usize) -> bool {
    let name = args.get(index).unwrap_or_default();
    SECRET_OPTIONS.iter().any(|option| option.as_bytes().eq_ignore_ascii_case(name))
}

/// As many arguments behind each of these words as stand with it, from an argument on until the word that ends it.
fn behind_words(args: Args<'_>, from: usize, words: &[(&str, usize)], end: &str) -> Vec<usize> {
    let (mut secrets, mut at) = (Vec::new(), from);
    while let Some(argument) = args.get(at) {
        let is = |word: &str| argument.eq_ignore_ascii_case(word.as_bytes());
        if !end.is_empty() && is(end) {
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
    use sleeve_wire::request::OwnedArgs;

    use super::*;

    fn shown(command: Command, line: &str) -> String {
        let owned = OwnedArgs::collect(line.split(' ').map(str::as_bytes));
        let secrets = of(command, owned.args());
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
        assert_eq!(shown(Command::Migrate, "MIGRATE h p k 0 1 AUTH auth COPY"), "MIGRATE h p k 0 1 AUTH * COPY");
        assert_eq!(
            shown(Command::Migrate, "MIGRATE h p k 0 1 AUTH2 u p KEYS auth k"),
            "MIGRATE h p k 0 1 AUTH2 * * KEYS auth k"
        );
        assert_eq!(shown(Command::Migrate, "MIGRATE h p k 0 1 AUTH2 u"), "MIGRATE h p k 0 1 AUTH2 *");
        assert_eq!(shown(Command::Get, "GET auth"), "GET auth");
    }
}
