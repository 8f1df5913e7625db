//! Prints the lines of workloads as they become known, as a table for people or, at the end, as JSON for programs.

use super::sample::StepTimes;
use super::step::{Step, Workload};
use crate::output;

/// The output of the lines.
#[derive(Debug)]
pub struct Table {
    json: bool,
    cpu: bool,
    server: bool,
    place: &'static str,
    workload: &'static str,
    lines: Vec<String>,
}

impl Table {
    /// Returns a table on standard output; with `json` nothing is printed before the end.
    pub fn new(json: bool) -> Self {
        Self { json, cpu: true, server: false, place: "", workload: "", lines: Vec::new() }
    }

    /// Leaves the CPU column empty from now on.
    pub fn hide_cpu(&mut self) {
        self.cpu = false;
    }

    /// Adds a column for the server's CPU time.
    pub fn show_server(&mut self) {
        self.server = true;
    }

    /// Sets the place in which the following workloads run, and prints the heading that names it.
    pub fn place(&mut self, place: &'static str, heading: &str) {
        self.place = place;
        self.note(heading);
    }

    /// A remark above the next workload.
    pub fn note(&self, text: &str) {
        if !self.json && !text.is_empty() {
            output::line(format_args!("{text}"));
        }
    }

    /// The heading of a workload.
    pub fn begin(&mut self, workload: &Workload) {
        self.workload = workload.name;
        if !self.json {
            output::line(format_args!("\n{}: {}", workload.name, workload.about));
            let server = if self.server { "server's CPU" } else { "" };
            output::line(format_args!(
                "  {:<32} {:>12} {:>12} {:>12} {:>8} {server:>14}",
                "", "total", "each", "CPU each", "x raw"
            ));
        }
    }

    /// Prints a step's line, and the bare socket's beneath it.
    pub fn line(&mut self, step: &Step, sample: &StepTimes, raw: Option<&StepTimes>) {
        if self.json {
            self.lines.push(self.object(step, sample, raw));
            return;
        }
        let ratio = raw.map(|raw| format!("{:.2}", sample.each_ns() / raw.each_ns()));
        self.row(step.title, step, sample, ratio.as_deref().unwrap_or(""));
        if let Some(raw) = raw {
            self.row("  raw socket", step, raw, "");
        }
        if let Some(document) = step.document {
            output::line(format_args!("    the document: {document}"));
        }
    }

    fn row(&self, title: &str, step: &Step, sample: &StepTimes, ratio: &str) {
        // A step that was cut short stands for all its operations.
        let scaled = if sample.operations < step.operations { "~" } else { "" };
        let total = format!("{scaled}{}", time(sample.each_ns() * step.operations as f64));
        let cpu = if self.cpu { time(sample.cpu_each_ns()) } else { String::new() };
        let each = time(sample.each_ns());
        let server = sample.server_cpu_each_ns().map_or_else(String::new, time);
        output::line(format_args!("  {title:<32} {total:>12} {each:>12} {cpu:>12} {ratio:>8} {server:>14}"));
    }

    fn object(&self, step: &Step, sample: &StepTimes, raw: Option<&StepTimes>) -> String {
        let number = |value: Option<f64>| value.map_or("null".to_owned(), |value| format!("{value:.1}"));
        let (raw_each, raw_cpu) = (raw.map(StepTimes::each_ns), raw.map(StepTimes::cpu_each_ns));
        format!(
            "  {{\"place\":\"{}\",\"workload\":\"{}\",\"step\":\"{}\",\"operations\":{},\"measured\":{},\"each_ns\":{},\"cpu_each_ns\":{},\
             \"raw_each_ns\":{},\"raw_cpu_each_ns\":{},\"server_cpu_each_ns\":{},\"raw_server_cpu_each_ns\":{}}}",
            self.place,
            self.workload,
            step.title,
            step.operations,
            sample.operations,
            number(Some(sample.each_ns())),
            number(self.cpu.then(|| sample.cpu_each_ns())),
            number(raw_each),
            number(raw_cpu.filter(|_| self.cpu)),
            number(sample.server_cpu_each_ns()),
            number(raw.and_then(StepTimes::server_cpu_each_ns)),
        )
    }

    /// Prints the lines that follow the last one.
    pub fn finish(&self) {
        if self.json {
            output::line(format_args!("[\n{}\n]", self.lines.join(",\n")));
        }
    }
}

/// Returns a time with three digits and its unit.
fn time(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        small if small < 1e3 => (small, "ns"),
        small if small < 1e6 => (small / 1e3, "us"),
        small if small < 1e9 => (small / 1e6, "ms"),
        large => (large / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        assert_eq!(time(123.4), "123 ns");
        assert_eq!(time(1_234.0), "1.23 us");
        assert_eq!(time(45_600_000.0), "45.6 ms");
        assert_eq!(time(12e9), "12.0 s");
    }
}
