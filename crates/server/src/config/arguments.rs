//! The command line of `serve`: `[FILE] [--option value ...] [-]`, as redis-server reads it.
//!
//! Options on the command line become lines that follow those of the file and of standard input, so the same rules hold for
//! all three, and the last line about an option counts. The file may also stand behind options, where Redis would take it for
//! one more value. A word is the file if its option has a value already and takes no second one, or if the word has a slash
//! and names an existing file. Pure functions, except for that look at the disk; any thread.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sleeve_wire::inline;

use super::file::words;
use super::table::{Kind, find};

/// The contents of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    /// Configuration lines that count less than all others: the defaults of an image or a package.
    pub defaults: Vec<u8>,
    /// The configuration file, as the command line names it.
    pub file: Option<Vec<u8>>,
    /// The argument `-`: lines are read from standard input as well.
    pub standard_input: bool,
    /// The options as configuration lines.
    pub lines: Vec<u8>,
}

/// The variable of the environment with configuration lines that count less than the file and the command line. An image sets
/// it, so that a mounted file still has the last word.
pub const DEFAULTS: &str = "SLEEVE_DEFAULTS";

/// Reads the arguments after the program's name as [`parse`] does, with the defaults of this process's environment.
pub fn of_process(arguments: &[Vec<u8>]) -> Arguments {
    let defaults = std::env::var_os(DEFAULTS).map(|text| text.as_bytes().to_vec()).unwrap_or_default();
    Arguments { defaults, ..parse(arguments) }
}

/// Reads the arguments after the program's name. All of them are accepted; faults show when the lines are loaded.
pub fn parse(arguments: &[Vec<u8>]) -> Arguments {
    let mut parsed = Arguments::default();
    let mut rest = arguments;
    if let Some((first, after)) = arguments.split_first()
        && !first.starts_with(b"-")
    {
        parsed.file = Some(first.clone());
        rest = after;
    }
    let last = arguments.len().saturating_sub(1);
    let mut may_be_name = true;
    // The option of the values that are being read, and their number.
    let (mut option, mut values): (&[u8], usize) = (b"", 0);
    for (index, argument) in rest.iter().enumerate() {
        let place = index + arguments.len() - rest.len();
        if argument == b"-" && (place == 0 || place == last) {
            parsed.standard_input = true;
        } else if may_be_name && argument.starts_with(b"--") {
            may_be_name = push_name(&mut parsed.lines, argument, rest.get(index + 1));
            let name_bytes = argument.iter().position(|&byte| byte == b' ').unwrap_or(argument.len());
            (option, values) =
                (argument.get(2..name_bytes).unwrap_or_default(), usize::from(name_bytes < argument.len()));
        } else if parsed.file.is_none() && values != 0 && is_file_behind(option, argument) {
            parsed.file = Some(argument.clone());
            may_be_name = true;
        } else {
            values += 1;
            inline::quote(argument, &mut parsed.lines);
            parsed.lines.push(b' ');
            may_be_name = true;
        }
    }
    parsed
}

/// Returns whether a word behind the values of an option is the configuration file.
fn is_file_behind(option: &[u8], word: &[u8]) -> bool {
    let takes_many = find(option).is_none_or(|(row, _)| {
        matches!(
            row.kind,
            Kind::Words { .. }
                | Kind::Percentiles
                | Kind::OutputLimits
                | Kind::OomValues
                | Kind::SavePoints
                | Kind::Shutdown
                | Kind::Master
        )
    });
    let has_slash = word.contains(&b'/');
    let is_there = Path::new(OsStr::from_bytes(word)).is_file();
    if takes_many { has_slash && is_there } else { has_slash || is_there || word.ends_with(b".conf") }
}

/// Begins a line with an option's name; returns whether the next argument may be a name again. Usually it is a value even if
/// it begins with `--`. But an argument that holds its value too (`"--port 6380"`) needs none, and `--save` without a value
/// switches automatic snapshots off.
fn push_name(lines: &mut Vec<u8>, argument: &[u8], next: Option<&Vec<u8>>) -> bool {
    if !lines.is_empty() {
        lines.push(b'\n');
    }
    lines.extend(argument.get(2..).unwrap_or_default());
    lines.push(b' ');
    if words(argument).is_none_or(|words| words.len() != 1) {
        return true;
    }
    let no_value_follows = next.is_none_or(|next| next.starts_with(b"--"));
    if no_value_follows && argument.eq_ignore_ascii_case(b"--save") {
        lines.extend(b"\"\"");
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Opt, load};

    fn read(arguments: &[&str]) -> Arguments {
        parse(&arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    fn lines(arguments: &[&str]) -> String {
        String::from_utf8(read(arguments).lines).expect("text")
    }

    #[test]
    fn options_become_lines() {
        assert_eq!(lines(&["--port", "1", "--bind", "::1", "127.0.0.1"]), "port \"1\" \nbind \"::1\" \"127.0.0.1\" ");
        assert_eq!(lines(&["--hz 5", "--port 3"]), "hz 5 \nport 3 ");
        assert_eq!(lines(&[]), "");
    }

    #[test]
    fn a_value_may_begin_with_two_hyphens() {
        assert_eq!(lines(&["--requirepass", "--hz", "--port", "1"]), "requirepass \"--hz\" \nport \"1\" ");
    }

    #[test]
    fn save_without_a_value_saves_nothing() {
        assert_eq!(lines(&["--save", "--port", "1"]), "save \"\"\nport \"1\" ");
        assert_eq!(lines(&["--port", "1", "--save"]), "port \"1\" \nsave \"\"");
    }

    #[test]
    fn a_file_may_stand_behind_the_values_of_an_option() {
        let read = read(&["--dir", "/data", "a.conf", "--bind", "::1", "127.0.0.1", "--port", "1"]);
        assert_eq!(read.file.as_deref(), Some(b"a.conf".as_slice()));
        assert_eq!(read.lines, b"dir \"/data\" \nbind \"::1\" \"127.0.0.1\" \nport \"1\" ");
        let behind = self::read(&["--bind", "::1", "127.0.0.1", "/dev/../Cargo.toml", "--hz 5", "./b.conf"]);
        assert_eq!(behind.file.as_deref(), Some(b"./b.conf".as_slice()), "the other is not there");
        // A value too many remains a value of the option.
        assert_eq!(lines(&["--maxmemory", "1", "gb"]), "maxmemory \"1\" \"gb\" ");
        assert_eq!(lines(&["--logfile", "/x/a.conf"]), "logfile \"/x/a.conf\" ");
    }

    #[test]
    fn the_file_comes_first_and_a_hyphen_first_or_last() {
        let read = read(&["a.conf", "--hz", "1", "-"]);
        assert_eq!(read.file.as_deref(), Some(b"a.conf".as_slice()));
        assert!(read.standard_input);
        assert_eq!(read.lines, b"hz \"1\" ");
        let read = parse(&[b"a.conf".to_vec(), b"-".to_vec(), b"--hz".to_vec()]);
        assert!(!read.standard_input, "neither first nor last");
        assert!(parse(&[b"-".to_vec()]).standard_input);
    }

    #[test]
    fn defaults_count_less_than_the_file_and_the_command_line() {
        let load = |more: &str, defaults: &str| {
            let own =
                Arguments { defaults: defaults.into(), lines: format!("hz 20\n{more}").into(), ..Arguments::default() };
            let config = Config::default();
            load::load(&config, &own, std::io::empty()).map(|_| config)
        };
        let defaults = "protected-mode no\nhz 30\nsave 60 1\nport 7000";
        let config = load("", defaults).expect("all lines are good");
        let numbers = [Opt::Hz, Opt::Port].map(|option| config.number(option));
        assert_eq!((numbers, config.flag(Opt::ProtectedMode)), ([20, 7000], false));
        assert_eq!(*config.text(Opt::Save), *b"60 1");
        let config = load("save 900 1\nprotected-mode yes\n", defaults).expect("all lines are good");
        assert!(config.flag(Opt::ProtectedMode) && *config.text(Opt::Save) == *b"900 1");
        load("", "prot 1").expect_err("an unknown option");
    }
}
