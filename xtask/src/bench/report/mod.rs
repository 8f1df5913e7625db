//! Tables of medians for people, and every sample for programs.

mod machine;
pub mod page;

use std::fmt::Write;

use serde_json::{Value, json};

/// A table of the report.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub title: String,
    pub lines: Vec<Line>,
}

/// A row: the samples of each server under one load.
#[derive(Debug)]
pub struct Line {
    pub label: String,
    pub samples: Samples,
    pub ratio: Option<Ratio>,
    pub bar: Option<Bar>,
}

/// The heading of each column, with the figure of each round.
pub type Samples = Vec<(&'static str, Vec<f64>)>;

/// A ratio: the contender of the numerator, and the contenders of the denominator, the best of which counts: the least figure,
/// or the greatest if the bar is a least ratio.
pub type Ratio = (&'static str, &'static [&'static str]);

/// A limit that the project has set itself.
#[derive(Clone, Copy, Debug)]
pub enum Bar {
    /// The ratio is at most this.
    Ratio(f64),
    /// This server's median is at most this.
    Absolute(&'static str, f64),
    /// The ratio is at least this.
    RatioMin(f64),
    /// This server's median is at least this.
    AbsoluteMin(&'static str, f64),
}

impl Bar {
    fn is_least(self) -> bool {
        matches!(self, Bar::RatioMin(_) | Bar::AbsoluteMin(..))
    }
}

impl Line {
    fn samples_of(&self, name: &str) -> &[f64] {
        self.samples.iter().find(|(column, _)| *column == name).map_or(&[], |(_, samples)| samples)
    }

    /// Returns the median of the rounds' ratios.
    fn ratio(&self) -> Option<f64> {
        let (above, below) = self.ratio?;
        let better = if self.bar.is_some_and(Bar::is_least) { f64::max } else { f64::min };
        let best =
            |round: usize| below.iter().filter_map(|name| self.samples_of(name).get(round).copied()).reduce(better);
        let rounds = self.samples_of(above).iter().enumerate();
        median(&rounds.filter_map(|(round, above)| Some(above / best(round)?)).collect::<Vec<f64>>())
    }

    /// Returns the bar as printed, and whether it is kept.
    fn verdict(&self) -> Option<(String, bool)> {
        match self.bar? {
            Bar::Ratio(bar) => Some((format!("{bar:.2}"), self.ratio()? <= bar)),
            Bar::Absolute(name, bar) => Some((format!("{name} {bar}"), median(self.samples_of(name))? <= bar)),
            Bar::RatioMin(bar) => Some((format!("{bar:.2}"), self.ratio()? >= bar)),
            Bar::AbsoluteMin(name, bar) => Some((format!("{name} {bar}"), median(self.samples_of(name))? >= bar)),
        }
    }

    /// Returns the name of the ratio's denominator.
    fn divisor(&self) -> &'static str {
        match self.ratio {
            None | Some((_, [])) => "",
            Some((_, [only])) => only,
            Some(_) => "best peer",
        }
    }

    /// Returns the median of each server, with its name.
    fn medians(&self) -> String {
        let figures = self.samples.iter().map(|(name, samples)| format!("{name} {}", shown(median(samples))));
        figures.collect::<Vec<_>>().join(", ")
    }
}

impl Table {
    /// Returns the table as Markdown; the last columns are the ratio, the bar and whether it is kept.
    pub fn as_markdown(&self) -> String {
        let mut text = format!("### {}\n\n", self.title);
        let Some(first) = self.lines.first() else { return text };
        if !self.has_same_columns() {
            self.add_lines_with_names(&mut text);
            return text;
        }
        let columns: Vec<&str> = first.samples.iter().map(|(column, _)| *column).collect();
        let (above, _) = first.ratio.unwrap_or(("", &[]));
        let _ = writeln!(text, "| | {} | {above} / {} | at most | |", columns.join(" | "), first.divisor());
        let _ = writeln!(text, "| --- |{} ---: | ---: | --- |", " ---: |".repeat(columns.len()));
        for line in &self.lines {
            let _ = write!(text, "| {} |", line.label);
            for (_, samples) in &line.samples {
                let _ = write!(text, " {} |", shown(median(samples)));
            }
            let _ = write!(text, " {} |", line.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}")));
            let _ = match line.verdict() {
                Some((bar, kept)) => writeln!(text, " {bar} | {} |", if kept { "yes" } else { "NO" }),
                None => writeln!(text, " | |"),
            };
        }
        text
    }

    /// Returns true if one heading suits all lines: the same servers, the same ratio, and bars that are upper limits.
    fn has_same_columns(&self) -> bool {
        let names = |line: &Line| line.samples.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let first = self.lines.first().map(|line| (names(line), line.ratio));
        let suits = |line: &Line| Some((names(line), line.ratio)) == first && !line.bar.is_some_and(Bar::is_least);
        self.lines.iter().all(suits)
    }

    /// Adds lines that compare different servers: each names its own.
    fn add_lines_with_names(&self, text: &mut String) {
        let _ = writeln!(text, "| | medians | ratio | bar | |\n| --- | --- | ---: | --- | --- |");
        for line in &self.lines {
            let ratio = line.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2} of {}", line.divisor()));
            let _ = write!(text, "| {} | {} | {ratio} |", line.label, line.medians());
            let _ = match line.verdict() {
                Some((bar, kept)) => {
                    let limit = if line.bar.is_some_and(Bar::is_least) { "at least" } else { "at most" };
                    writeln!(text, " {limit} {bar} | {} |", if kept { "yes" } else { "NO" })
                }
                None => writeln!(text, " | |"),
            };
        }
    }

    fn as_json(&self) -> Value {
        let line = |line: &Line| {
            let samples: serde_json::Map<String, Value> =
                line.samples.iter().map(|(name, samples)| ((*name).to_owned(), json!(samples))).collect();
            let verdict = line.verdict();
            json!({
                "label": line.label,
                "samples": samples,
                "ratio": line.ratio(),
                "bar": verdict.as_ref().map(|(bar, _)| bar),
                "kept": verdict.as_ref().map(|(_, kept)| kept),
            })
        };
        json!({ "name": self.name, "title": self.title, "lines": self.lines.iter().map(line).collect::<Vec<_>>() })
    }
}

/// Returns the middle sample, or the mean of the two in the middle.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

fn shown(value: Option<f64>) -> String {
    match value {
        Some(value) if value >= 20.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Bar, Line, Table, median};

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let samples = vec![("sleeve", vec![1.0, 2.0, 4.0]), ("valkey", vec![2.0, 8.0, 8.0])];
        let line = Line {
            label: "GET".to_owned(),
            samples,
            ratio: Some(("sleeve", &["valkey"])),
            bar: Some(Bar::Ratio(0.49)),
        };
        let table = Table { name: "depth", title: "Title".to_owned(), lines: vec![line] };
        let text = table.as_markdown();
        assert!(text.contains("| | sleeve | valkey | sleeve / valkey | at most | |"), "{text}");
        assert!(text.contains("| GET | 2.00 | 8.00 | 0.50 | 0.49 | NO |"), "{text}");
        assert_eq!(table.as_json()["lines"][0]["kept"], false);
    }

    #[test]
    fn the_best_peer_of_each_round_counts() {
        let samples = vec![("sleeve", vec![1.0, 1.0]), ("redis", vec![2.0, 4.0]), ("valkey", vec![4.0, 2.0])];
        let ratio = Some(("sleeve", ["redis", "valkey"].as_slice()));
        let line = Line { label: "SPOP".to_owned(), samples, ratio, bar: Some(Bar::Ratio(0.5)) };
        let table = Table { name: "types", title: "Title".to_owned(), lines: vec![line] };
        let text = table.as_markdown();
        assert!(text.contains("| sleeve / best peer |") && text.contains("| 0.50 | 0.50 | yes |"), "{text}");
    }

    #[test]
    fn a_line_among_others_names_its_servers_and_its_limit() {
        let line = |samples, ratio, bar| Line { label: "Row".to_owned(), samples, ratio: Some(ratio), bar: Some(bar) };
        let rates = vec![("sleeve", vec![6.0]), ("redis-rs", vec![5.0]), ("rustis", vec![4.0])];
        let lines = vec![
            line(rates, ("sleeve", &["redis-rs", "rustis"]), Bar::RatioMin(1.25)),
            line(
                vec![("sleeve", vec![0.8]), ("valkey", vec![0.5])],
                ("sleeve", &["valkey"]),
                Bar::AbsoluteMin("sleeve", 0.75),
            ),
        ];
        let text = Table { name: "waits", title: "Title".to_owned(), lines }.as_markdown();
        assert!(
            text.contains("| sleeve 6.00, redis-rs 5.00, rustis 4.00 | 1.20 of best peer | at least 1.25 | NO |"),
            "{text}"
        );
        assert!(text.contains("| sleeve 0.80, valkey 0.50 | 1.60 of valkey | at least sleeve 0.75 | yes |"), "{text}");
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
