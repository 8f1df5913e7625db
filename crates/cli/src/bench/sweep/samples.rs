//! The measurements at each point, and medians of them; as CSV.

use std::fmt::Write;

use crate::bench::generator::Outcome;
use crate::bench::report::{each_us, milliseconds, rate};

/// The quantity that varies along a line of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The number of connections, with one request in flight on each.
    Clients,
    /// The number of requests in flight on each of 50 connections.
    Depth,
}

/// A test at a number of clients and a depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The test's title.
    pub test: &'static str,
    /// The axis on which the point lies.
    pub axis: Axis,
    /// The number of connections.
    pub clients: u32,
    /// The number of requests in flight on each.
    pub depth: u32,
}

impl Point {
    /// Returns the place of the point on its axis.
    pub fn place(&self) -> u32 {
        match self.axis {
            Axis::Clients => self.clients,
            Axis::Depth => self.depth,
        }
    }
}

/// The names of a point's figures, with the unit last.
pub const FIGURES: [&str; 9] =
    ["rps", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "server_cpu_us", "generator_cpu_us", "switches", "system_calls"];

/// The index of the system calls among the figures. They are counted in a separate run.
pub const SYSTEM_CALLS: usize = FIGURES.len() - 1;

/// The figures of [`FIGURES`], in that order; a figure that is not known is `None`.
pub type Figures = [Option<f64>; FIGURES.len()];

/// Returns the figures of one run; counts are given for each request.
pub fn figures(outcome: &Outcome) -> Figures {
    let quantile = |share: f64| Some(milliseconds(outcome.latencies.value_at_quantile(share)));
    let each = |count: u64| count as f64 / outcome.answered.max(1) as f64;
    let server = outcome.server;
    [
        Some(rate(outcome.answered, outcome.elapsed)),
        quantile(0.5),
        quantile(0.9),
        quantile(0.99),
        quantile(0.999),
        server.map(|used| each_us(used.nanoseconds, outcome.answered)),
        Some(each_us(outcome.generator_ns, outcome.answered)),
        server.map(|used| each(used.switches)),
        server.and_then(|used| used.system_calls).map(each),
    ]
}

/// The measurements of a server at a point, round by round.
#[derive(Clone, Debug)]
pub struct PointRounds {
    /// The server's name.
    pub server: String,
    /// The point of the measurements.
    pub point: Point,
    /// A row for each round.
    pub rounds: Vec<Figures>,
}

impl PointRounds {
    /// Returns the median of a figure over the rounds that have it.
    pub fn median(&self, name: &str) -> Option<f64> {
        let column = FIGURES.iter().position(|figure| *figure == name)?;
        let mut values: Vec<f64> = self.rounds.iter().filter_map(|row| row[column]).collect();
        values.sort_unstable_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() {
            0 => None,
            length if length % 2 == 1 => Some(values[middle]),
            _ => Some(f64::midpoint(values[middle - 1], values[middle])),
        }
    }
}

/// Returns the measurements as CSV: a line for each server and point, with medians.
pub fn csv(samples: &[PointRounds]) -> String {
    let mut out = format!("server,test,clients,depth,rounds,{}\n", FIGURES.join(","));
    for sample in samples {
        let Point { test, clients, depth, .. } = sample.point;
        let server = sample.server.replace('"', "\"\"");
        let _ = write!(out, "\"{server}\",\"{test}\",{clients},{depth},{}", sample.rounds.len());
        for name in FIGURES {
            let _ = match sample.median(name) {
                Some(value) => write!(out, ",{value:.4}"),
                None => write!(out, ","),
            };
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rates: &[f64]) -> PointRounds {
        let point = Point { test: "GET", axis: Axis::Clients, clients: 8, depth: 1 };
        let row = |rate: &f64| std::array::from_fn(|column| (column == 0).then_some(*rate));
        PointRounds { server: "a \"b\"".into(), point, rounds: rates.iter().map(row).collect() }
    }

    #[test]
    fn system_calls_are_where_they_are_said_to_be() {
        assert_eq!(FIGURES[SYSTEM_CALLS], "system_calls");
    }

    #[test]
    fn the_median_is_the_middle_and_unknown_samples_have_none() {
        assert_eq!(sample(&[3.0, 1.0, 2.0]).median("rps"), Some(2.0));
        assert_eq!(sample(&[3.0, 1.0]).median("rps"), Some(2.0));
        assert_eq!(sample(&[]).median("rps"), None);
        assert_eq!(sample(&[1.0]).median("server_cpu_us"), None);
    }

    #[test]
    fn a_line_holds_every_point_with_quoted_names() {
        let samples = [sample(&[1.0, 2.0]), sample(&[3.0])];
        let text = csv(&samples);
        assert_eq!(text.lines().nth(1), Some("\"a \"\"b\"\"\",\"GET\",8,1,2,1.5000,,,,,,,,"));
        assert!(text.lines().all(|line| line.split(',').count() == 5 + FIGURES.len()));
    }
}
