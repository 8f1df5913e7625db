//! `cargo xtask walk`: the source files that one command executes, in order, as traced and not as assumed.
//!
//! The released binary serves and the client's bench `walk` calls, both under valgrind. Its tool `lackey` writes down each
//! instruction that a process executes ([`trace`]). One command is everything between two calls. The debug information names
//! the source file of each instruction, that of an inlined function included ([`places`]). Of the last calls the middle one
//! is shown, so that neither a first call nor a timer's work stands among its instructions. The counts equal those of
//! callgrind, which counts the same instructions but does not know their order.

mod places;
mod processes;
mod samples;
mod trace;

use std::collections::BTreeMap;

use places::Place;
use processes::{SEEN, Traced};
use trace::Window;

const EXAMPLES: &str = "\
Examples:
  cargo xtask walk GET                                       a sample of what stands before and behind it
  cargo xtask walk SET key value EX 60                       with other arguments
  cargo xtask walk LLEN list --before 'RPUSH list a b c'     with what must be there first
  cargo xtask walk ZADD board 1 ann --before 'ZADD board 2 bob' --before 'EXPIRE board 1000'
";

/// The command to follow.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The command and its arguments; a command that is used often needs none
    #[arg(required = true, allow_negative_numbers = true)]
    command: Vec<String>,
    /// A command that is run once, before; may be given more than once
    #[arg(long, value_name = "COMMAND")]
    before: Vec<String>,
}

/// Builds, follows the command over a socket and through the embedded engine, and prints its way.
///
/// # Errors
/// A command that does not exist or answers an error, missing programs, code that does not compile.
pub fn run(options: &Options) -> Result<(), String> {
    let plan = samples::plan(&options.command, &options.before)?;
    processes::look_for_tools()?;
    let programs = processes::build()?;
    let shown = |words: &[String]| words.join(" ");
    println!(
        "{} after {}",
        shown(&plan.command),
        match plan.before.as_slice() {
            [] => "nothing".to_owned(),
            before => before.iter().map(|command| shown(command)).collect::<Vec<_>>().join(", "),
        }
    );
    println!("Files in the order of entry, with the instructions in each: of {SEEN} calls the middle one.");
    let [server, client] = processes::over_a_socket(&programs, &plan)?;
    show("the server", server)?;
    show("the client", client)?;
    show("client and embedded engine, one process", processes::embedded(&programs, &plan)?)
}

/// Prints one process: its files, the sum of each crate, and its system calls.
fn show(name: &str, traced: Traced) -> Result<(), String> {
    let window = traced.windows.get(traced.windows.len() / 2).ok_or_else(|| format!("no call was seen in {name}"))?;
    let [least, .., most] = traced.windows.as_slice() else { return Err(format!("one call alone was seen in {name}")) };
    let places = places::find(&traced.program, &traced.map, &window.instructions)?;
    let (least, most) = (least.instructions.len(), most.instructions.len());
    println!("\n{name}: {} instructions a call ({least} to {most})\n", window.instructions.len());
    print!("{}", describe(&summed(&places), window));
    Ok(())
}

/// A row of the table: a file, and the number of its instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    place: Place,
    instructions: usize,
}

/// Returns the places of the instructions, each once, in the order of entry.
fn summed(places: &[Place]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut index: BTreeMap<&Place, usize> = BTreeMap::new();
    for place in places {
        let at = *index.entry(place).or_insert_with(|| {
            rows.push(Row { place: place.clone(), instructions: 0 });
            rows.len() - 1
        });
        rows[at].instructions += 1;
    }
    rows
}

/// Returns the table of one process: the files of this workspace, then the sums.
fn describe(rows: &[Row], window: &Window) -> String {
    let mut text = String::new();
    let ours: Vec<&Row> = rows.iter().filter(|row| row.place.file.is_some()).collect();
    for (index, row) in ours.iter().enumerate() {
        let file = row.place.file.as_deref().unwrap_or_default();
        text += &format!("{:>4}  {:<8} {:<34} {:>6}\n", index + 1, row.place.room, file, row.instructions);
    }
    text += "\n";
    let mut rooms: Vec<&str> = Vec::new();
    for row in rows {
        if !rooms.contains(&row.place.room.as_str()) {
            rooms.push(&row.place.room);
        }
    }
    // The workspace's own crates come first; the others follow in the order of entry.
    rooms.sort_by_key(|room| !ours.iter().any(|row| row.place.room == *room));
    for room in rooms {
        let of_room = rows.iter().filter(|row| row.place.room == room);
        let instructions: usize = of_room.map(|row| row.instructions).sum();
        let files = ours.iter().filter(|row| row.place.room == room).count();
        let files = match files {
            0 => String::new(),
            1 => "1 file".to_owned(),
            _ => format!("{files} files"),
        };
        text += &format!("      {room:<34} {files:>8} {instructions:>6}\n");
    }
    text + &format!("      kernel: {}\n", kernel_calls(&window.kernel_calls))
}

/// Returns the system calls of a window, each with its number.
fn kernel_calls(calls: &[String]) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for call in calls {
        match counted.iter_mut().find(|(name, _)| name == call) {
            Some((_, count)) => *count += 1,
            None => counted.push((call, 1)),
        }
    }
    let told = counted.iter().map(|(name, count)| match *name {
        // Outside of valgrind these calls read a page that the kernel shares.
        "clock_gettime" | "gettimeofday" | "time" => format!("({name} {count}, without a kernel outside of valgrind)"),
        _ => format!("{name} {count}"),
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::places::Place;
    use super::{Row, describe, kernel_calls, summed};
    use crate::walk::trace::Window;

    fn ours(room: &str, file: &str) -> Place {
        Place { room: room.to_owned(), file: Some(file.to_owned()) }
    }

    #[test]
    fn files_are_listed_in_the_order_of_entry_with_their_sums() {
        let std = Place { room: "std".to_owned(), file: None };
        let (worker, table) = (ours("server", "worker.rs"), ours("store", "table.rs"));
        let places = [&worker, &std, &table, &worker, &std, &worker].map(Clone::clone);
        let rows = summed(&places);
        let row = |place: &Place, instructions| Row { place: place.clone(), instructions };
        assert_eq!(rows, [row(&worker, 3), row(&std, 2), row(&table, 1)]);
        let text = describe(&rows, &Window::default());
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines,
            [
                vec!["1", "server", "worker.rs", "3"],
                vec!["2", "store", "table.rs", "1"],
                vec![],
                vec!["server", "1", "file", "3"],
                vec!["store", "1", "file", "1"],
                vec!["std", "2"],
                vec!["kernel:", "none"],
            ]
        );
    }

    #[test]
    fn kernel_calls_are_counted_in_order_and_a_clock_is_no_call() {
        let calls = ["recvfrom", "clock_gettime", "sendto", "clock_gettime"].map(str::to_owned);
        let text = kernel_calls(&calls);
        assert_eq!(text, "recvfrom 1, (clock_gettime 2, without a kernel outside of valgrind), sendto 1");
    }
}
