//! The files of `bench/results/`: a page for people and the samples for programs.

use std::fmt::Write;

use serde_json::{Value, json};
use sleeve_tests::server::workspace_root;

use super::Table;
use super::machine::{self, Machine};
use crate::bench::effort::Effort;

/// The results of a run, and the facts that the page states about it.
#[derive(Debug)]
pub struct Report<'a> {
    pub tables: &'a [Table],
    /// The programs that took part, with their versions.
    pub versions: &'a [(&'static str, String)],
    pub effort: Effort,
    /// The sentence that says on which CPUs the programs ran.
    pub placement: &'a str,
    /// The end of the files' names, such as `-waits`.
    pub suffix: &'a str,
}

impl Report<'_> {
    /// Writes both files.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write(&self) -> Result<(), String> {
        let machine = machine::describe();
        let name = format!("{}-{}{}", machine.date, machine.short_name, self.suffix);
        let folder = workspace_root().join("bench/results");
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        for (ending, text) in [("md", page(self, &machine)), ("json", figures(self, &machine))] {
            let path = folder.join(format!("{name}.{ending}"));
            std::fs::write(&path, text).map_err(|error| error.to_string())?;
            println!("wrote bench/results/{name}.{ending}");
        }
        Ok(())
    }
}

/// Returns the page with the tables, as Markdown.
fn page(report: &Report, machine: &Machine) -> String {
    let Report { tables, versions, effort, placement, .. } = report;
    let mut text = format!("# {} on {}\n\n", machine.date, machine.cpu);
    let _ = writeln!(text, "{} CPUs, {} GiB, Linux {}.", machine.cpus, machine.memory_gib, machine.kernel);
    let versions: Vec<String> = versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let _ = writeln!(text, "{}. {placement}", versions.join(", "));
    let _ =
        writeln!(text, "Medians of {} interleaved rounds; a ratio is the median of the rounds' ratios.", effort.rounds);
    if effort.divisor > 1 {
        let _ = writeln!(text, "Quick run: requests divided by {}.", effort.divisor);
    }
    for table in *tables {
        let _ = write!(text, "\n{}", table.as_markdown().replacen("###", "##", 1));
    }
    text
}

/// Returns every sample, as JSON.
fn figures(report: &Report, machine: &Machine) -> String {
    let Report { tables, versions, effort, .. } = report;
    let versions: serde_json::Map<String, Value> =
        versions.iter().map(|(name, version)| ((*name).to_owned(), json!(version))).collect();
    let figures = json!({
        "date": machine.date,
        "machine": {
            "cpu": machine.cpu, "cpus": machine.cpus, "memory_gib": machine.memory_gib, "kernel": machine.kernel,
        },
        "versions": versions,
        "rounds": effort.rounds,
        "divisor": effort.divisor,
        "tables": tables.iter().map(Table::as_json).collect::<Vec<_>>(),
    });
    format!("{figures:#}\n")
}
