//! `sleeve reference`: shell completions, man pages and the table of options, made of the tables that the program itself
//! reads.
//!
//! Packages install the first two; `docs/configuration.md` is the third, and a test holds it to the table.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use sleeve_disk::own;
use sleeve_server::config::size;
use sleeve_server::config::table::{Change, Kind, Path as Names, ROWS, Row};

use crate::output;

const EXAMPLES: &str = "\
Examples:
  Completions for this shell, and for all that start later:
    $ source <(sleeve reference completions bash)
    $ sleeve reference completions fish > ~/.config/fish/completions/sleeve.fish

  A man page for each sub-command:
    $ sleeve reference man /usr/local/share/man/man1

  Every option of the server, as Markdown:
    $ sleeve reference configuration
";

/// Prints shell completions, man pages or the table of the server's options
#[derive(Clone, Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub struct ReferenceOptions {
    /// The kind of reference to write.
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    /// Completions for a shell, on the standard output
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Man pages (section 1), a file for each sub-command
    Man {
        /// The folder that they are written into
        folder: PathBuf,
    },
    /// Every option of the server: its values, its default, when it may change and its purpose
    Configuration,
}

/// Prints or writes the requested reference.
pub fn run<C: CommandFactory>(options: &ReferenceOptions) -> ExitCode {
    match &options.what {
        What::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut C::command(), "sleeve", &mut script);
            output::bytes(&script);
        }
        What::Man { folder } => {
            if let Err(error) = man(C::command(), folder) {
                eprintln!("{}: {error}", folder.display());
                return ExitCode::FAILURE;
            }
        }
        What::Configuration => output::bytes(configuration().as_bytes()),
    }
    output::flush();
    ExitCode::SUCCESS
}

/// Writes `sleeve.1` and a page for each sub-command.
fn man(command: clap::Command, folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_pages(&command, folder)
}

/// Writes the page of a command, and before it those of its sub-commands.
fn write_pages(command: &clap::Command, folder: &Path) -> std::io::Result<()> {
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        write_pages(part, folder)?;
    }
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let file = folder.join(page.get_filename());
    own::replace(&file, &text, 0o644).map_err(|error| own::named(&file, error))
}

/// Returns the table of options as Markdown.
fn configuration() -> String {
    let mut out = String::from(
        "# Options of the server\n\n\
         Written by `sleeve reference configuration`, from the table that the server itself reads. An option stands in a\n\
         configuration file as `name value`, on the command line as `--name value`, and can be read by CONFIG GET; *live* ones\n\
         can be changed by CONFIG SET, *protected* ones if `enable-protected-configs` allows it. Sizes take the units b, k, kb,\n\
         m, mb, g and gb. Options of Redis that this server does not have are refused with the reason, or\n\
         passed over with a warning if they only tune it.\n\n\
         | option | value | default | change | purpose |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in &ROWS {
        let aliases: String = row.aliases.iter().map(|alias| format!(", `{alias}`")).collect();
        let default = match row.default_shown() {
            "" => "empty".to_owned(),
            shown if shown == row.default => format!("`{shown}`"),
            shown => shown.to_owned(),
        };
        let _ = writeln!(
            out,
            "| `{}`{aliases} | {} | {default} | {} | {} |",
            row.name,
            accepted(row).replace('|', "\\|"),
            change(row.change),
            row.doc.replace('|', "\\|")
        );
    }
    out
}

/// Returns the values that an option accepts.
fn accepted(row: &Row) -> String {
    let words = |words: &mut dyn Iterator<Item = &'static str>| -> String {
        words
            .map(|word| if word.is_empty() { "empty".to_owned() } else { format!("`{word}`") })
            .collect::<Vec<_>>()
            .join(", ")
    };
    match row.kind {
        Kind::Flag => "`yes`, `no`".to_owned(),
        Kind::Number { min, max, .. } => range(min, max),
        Kind::PowerOfTwo { max } => format!("0, or a power of two up to {max}"),
        Kind::Memory { min: 0, .. } => "a size".to_owned(),
        Kind::Memory { min, .. } => format!("a size from {}", size::show(min)),
        Kind::MemoryOrPercent => "a size, or a percentage".to_owned(),
        Kind::Octal { max } => format!("octal, up to {max:o}"),
        Kind::Choice(choices) | Kind::Fixed(choices) => words(&mut choices.iter().copied()),
        Kind::Named(names) => words(&mut names.iter().map(|(name, _)| *name)),
        Kind::Text(Names::None) => "text".to_owned(),
        Kind::Text(_) => "a path".to_owned(),
        Kind::Words { max, .. } => format!("up to {max} words"),
        Kind::Percentiles => "numbers from 0 to 100".to_owned(),
        Kind::FileName { .. } => "a file's name without a path".to_owned(),
        Kind::Folder => "a folder".to_owned(),
        Kind::Events => "letters of classes of events".to_owned(),
        Kind::OutputLimits => "class, hard limit, soft limit, seconds, for each class".to_owned(),
        Kind::Template => "text with variables".to_owned(),
        Kind::OomValues => "three numbers".to_owned(),
        Kind::SavePoints => "pairs of seconds and changes".to_owned(),
        Kind::Shutdown => "`default`, or of `save`, `nosave`, `now`, `force`".to_owned(),
        Kind::Master => "host and port, or `no one`".to_owned(),
        Kind::Announced(_) => "a name or an address".to_owned(),
    }
}

/// Returns a range of numbers as text. An end that is only the limit of the type is left out.
fn range(min: i64, max: i64) -> String {
    match (min, max) {
        (i64::MIN | -2_147_483_648, _) => "a number".to_owned(),
        (_, i64::MAX | 2_147_483_647 | 4_294_967_295) => format!("a number from {min}"),
        _ => format!("{min} to {max}"),
    }
}

fn change(change: Change) -> &'static str {
    match change {
        Change::Startup | Change::Own => "at start",
        Change::Live => "live",
        Change::Hidden => "live, for tests",
        Change::Protected | Change::OwnProtected => "protected",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn the_document_equals_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let written = fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == configuration(),
            "docs/configuration.md differs: cargo run -p sleeve-cli -- reference configuration > docs/configuration.md"
        );
    }

    #[test]
    fn every_sub_command_has_a_page_and_completions() {
        let folder = std::env::temp_dir().join(format!("sleeve-man-{}", std::process::id()));
        man(Arguments::command(), &folder).unwrap();
        for name in ["sleeve.1", "sleeve-serve.1", "sleeve-bench-sweep.1", "sleeve-reference-man.1"] {
            let page = fs::read_to_string(folder.join(name)).unwrap();
            assert!(page.contains(".TH") && page.contains("SYNOPSIS"), "{name}: {page}");
        }
        fs::remove_dir_all(&folder).unwrap();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "sleeve", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("migrate") && script.contains("memory-keys"), "{shell}");
        }
    }

    #[test]
    fn ends_that_only_fit_are_left_out() {
        assert_eq!(range(0, 65_535), "0 to 65535");
        assert_eq!(range(-1, i64::MAX), "a number from -1");
        assert_eq!(range(i64::MIN, 5), "a number");
    }
}
