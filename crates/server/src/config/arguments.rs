//! The command line of `serve`: `[FILE] [--option value ...] [-]`, as redis-server reads it.
//!
//! Options on the command line become lines that follow the file's and standard input's, so the same rules hold for all
//! three and the last one said counts. Pure functions; any thread.

use sleeve_wire::inline;

use super::file::words;

/// What a command line asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The configuration file, as it was written.
    pub file: Option<Vec<u8>>,
    /// Whether `-` asks to read lines from standard input as well.
    pub standard_input: bool,
    /// The options as configuration lines.
    pub lines: Vec<u8>,
}

/// Reads the arguments after the program's name. Whatever they say is taken; what is wrong with it shows when the lines
/// are loaded.
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
    for (index, argument) in rest.iter().enumerate() {
        let place = index + arguments.len() - rest.len();
        if argument == b"-" && (place == 0 || place == last) {
            parsed.standard_input = true;
        } else if may_be_name && argument.starts_with(b"--") {
            may_be_name = push_name(&mut parsed.lines, argument, rest.get(index + 1));
        } else {
            inline::quote(argument, &mut parsed.lines);
            parsed.lines.push(b' ');
            may_be_name = true;
        }
    }
    parsed
}

/// Begins a line with an option's name; returns whether the next argument may be a name again. Usually it is a value even
/// when it begins with `--`, but an argument that holds its value too (`"--port 6380"`) needs none, and `--save` without
/// one means that nothing is to be saved.
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
    fn the_file_comes_first_and_a_hyphen_first_or_last() {
        let read = read(&["a.conf", "--hz", "1", "-"]);
        assert_eq!(read.file.as_deref(), Some(b"a.conf".as_slice()));
        assert!(read.standard_input);
        assert_eq!(read.lines, b"hz \"1\" ");
        let read = parse(&[b"a.conf".to_vec(), b"-".to_vec(), b"--hz".to_vec()]);
        assert!(!read.standard_input, "neither first nor last");
        assert!(parse(&[b"-".to_vec()]).standard_input);
    }
}
