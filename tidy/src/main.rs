//! Prints the breaches of the rules of the tree; with `--shrink` lowers the lines of the ratchet to today's sizes first.

fn main() {
    if std::env::args().any(|argument| argument == "--shrink") {
        let changed = sleeve_tidy::shrink_ratchet();
        println!("{changed} lines of the ratchet are lower or gone");
    }
    let broken = sleeve_tidy::breaches();
    print!("{broken}");
    std::process::exit(i32::from(!broken.is_empty()));
}
