//! The printing of a test's figures: redis-benchmark's four formats, each with the server's CPU per request, and JSON.
//!
//! Scripts read redis-benchmark's output by position and by words, so its words stay as they are. Sleeve's additions come
//! last in a line.

use std::io::{self, Write};
use std::time::Duration;

use super::generator::Outcome;
use super::meter::Reading;

/// The format in which figures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Tables of percentiles.
    Full,
    /// A line for each test.
    Quiet,
    /// Comma-separated values with a heading.
    Csv,
    /// A JSON array at the end.
    Json,
}

/// The facts that are printed about a test in addition to its outcome.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The test's title.
    pub title: String,
    /// The number of connections.
    pub clients: usize,
    /// The number of requests in a batch.
    pub pipeline: usize,
    /// The number of bytes of a value.
    pub data_size: usize,
    /// The size of the key space; `None` if all requests use fixed keys.
    pub keyspace: Option<u64>,
    /// The number of generator threads.
    pub threads: usize,
    /// True if connections are kept.
    pub keep_alive: bool,
    /// The limit on requests a second, if there is one.
    pub rate_max: Option<u32>,
}

/// Prints tests one after the other.
#[derive(Debug)]
pub struct Report<W> {
    out: W,
    format: Format,
    /// The number of digits behind the point of a latency in milliseconds.
    decimals: usize,
    tests: usize,
}

impl<W: Write> Report<W> {
    /// Returns a report to `out` that prints latencies with so many digits behind the point.
    pub fn new(out: W, format: Format, decimals: usize) -> Self {
        Self { out, format, decimals, tests: 0 }
    }

    /// Prints one test.
    pub fn test(&mut self, setting: &Setting, outcome: &Outcome) -> io::Result<()> {
        self.tests += 1;
        match self.format {
            Format::Full => self.full(setting, outcome),
            Format::Quiet => self.quiet(setting, outcome),
            Format::Csv => self.csv(setting, outcome),
            Format::Json => self.json(setting, outcome),
        }?;
        self.out.flush()
    }

    /// Prints the text that follows the last test.
    pub fn finish(&mut self) -> io::Result<()> {
        match (self.format, self.tests) {
            (Format::Json, 0) => writeln!(self.out, "[]"),
            (Format::Json, _) => writeln!(self.out, "\n]"),
            (Format::Quiet, _) => writeln!(self.out),
            _ => Ok(()),
        }
    }

    fn quiet(&mut self, setting: &Setting, outcome: &Outcome) -> io::Result<()> {
        let p50 = milliseconds(outcome.latencies.value_at_quantile(0.5));
        let rate = rate(outcome.answered, outcome.elapsed);
        write!(self.out, "{}: {rate:.2} requests per second, p50={p50:.1$} msec", setting.title, self.decimals)?;
        match outcome.server {
            Some(Reading { nanoseconds: ns, .. }) => {
                writeln!(self.out, ", server CPU {:.3} us per request", each_us(ns, outcome.answered))
            }
            None => writeln!(self.out),
        }
    }

    fn csv(&mut self, setting: &Setting, outcome: &Outcome) -> io::Result<()> {
        if self.tests == 1 {
            writeln!(
                self.out,
                "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
                 \"p99_latency_ms\",\"max_latency_ms\",\"server_cpu_us\""
            )?;
        }
        write!(self.out, "\"{}\",\"{:.2}\"", setting.title, rate(outcome.answered, outcome.elapsed))?;
        for (_, value) in summary(outcome) {
            write!(self.out, ",\"{value:.0$}\"", self.decimals)?;
        }
        match outcome.server {
            Some(Reading { nanoseconds: ns, .. }) => writeln!(self.out, ",\"{:.3}\"", each_us(ns, outcome.answered)),
            None => writeln!(self.out, ",\"\""),
        }
    }

    fn full(&mut self, setting: &Setting, outcome: &Outcome) -> io::Result<()> {
        let (out, decimals) = (&mut self.out, self.decimals);
        writeln!(out, "====== {} ======", setting.title)?;
        writeln!(out, "  {} requests completed in {:.2} seconds", outcome.answered, outcome.elapsed.as_secs_f64())?;
        writeln!(out, "  {} parallel clients", setting.clients)?;
        writeln!(out, "  {} bytes payload", setting.data_size)?;
        writeln!(out, "  keep alive: {}", u8::from(setting.keep_alive))?;
        match setting.threads {
            1 => writeln!(out, "  multi-thread: no")?,
            threads => writeln!(out, "  multi-thread: yes\n  threads: {threads}")?,
        }
        if let Some(rate_max) = setting.rate_max {
            writeln!(out, "  limit: {rate_max} requests per second")?;
        }
        writeln!(out, "\nLatency by percentile distribution:")?;
        for step in outcome.latencies.iter_quantiles(1) {
            let (percent, value) = (step.quantile_iterated_to() * 100.0, milliseconds(step.value_iterated_to()));
            let count = (step.quantile() * outcome.answered as f64).round() as u64;
            writeln!(out, "{percent:.3}% <= {value:.decimals$} milliseconds (cumulative count {count})")?;
        }
        writeln!(out, "\nSummary:")?;
        writeln!(out, "  throughput summary: {:.2} requests per second", rate(outcome.answered, outcome.elapsed))?;
        writeln!(out, "  latency summary (msec):")?;
        writeln!(out, "          avg       min       p50       p95       p99       max")?;
        for (_, value) in summary(outcome) {
            write!(out, " {value:>9.decimals$}")?;
        }
        writeln!(out)?;
        if let Some(Reading { nanoseconds: ns, .. }) = outcome.server {
            writeln!(out, "  server CPU: {:.3} us per request", each_us(ns, outcome.answered))?;
        }
        let generator = each_us(outcome.generator_ns, outcome.answered);
        writeln!(out, "  generator CPU: {generator:.3} us per request\n")
    }

    fn json(&mut self, setting: &Setting, outcome: &Outcome) -> io::Result<()> {
        let (out, decimals) = (&mut self.out, self.decimals);
        write!(out, "{}", if self.tests == 1 { "[\n" } else { ",\n" })?;
        write!(out, "  {{\"test\":{}", quoted(&setting.title))?;
        write!(out, ",\"requests\":{},\"clients\":{}", outcome.answered, setting.clients)?;
        write!(out, ",\"pipeline\":{},\"data_size\":{}", setting.pipeline, setting.data_size)?;
        match setting.keyspace {
            Some(keyspace) => write!(out, ",\"keyspace\":{keyspace}")?,
            None => write!(out, ",\"keyspace\":null")?,
        }
        write!(out, ",\"threads\":{},\"seconds\":{:.6}", setting.threads, outcome.elapsed.as_secs_f64())?;
        write!(out, ",\"rps\":{:.2},\"latency_ms\":{{", rate(outcome.answered, outcome.elapsed))?;
        for (name, value) in summary(outcome) {
            write!(out, "\"{name}\":{value:.decimals$},")?;
        }
        write!(out, "\"p999\":{:.decimals$}}}", milliseconds(outcome.latencies.value_at_quantile(0.999)))?;
        match outcome.server {
            Some(Reading { nanoseconds: ns, .. }) => {
                write!(out, ",\"server_cpu_us\":{:.4}", each_us(ns, outcome.answered))?
            }
            None => write!(out, ",\"server_cpu_us\":null")?,
        }
        write!(out, ",\"generator_cpu_us\":{:.4}}}", each_us(outcome.generator_ns, outcome.answered))
    }
}

/// Returns the six figures of redis-benchmark's summary, in milliseconds.
fn summary(outcome: &Outcome) -> [(&'static str, f64); 6] {
    let latencies = &outcome.latencies;
    [
        ("avg", latencies.mean() / 1000.0),
        ("min", milliseconds(latencies.min())),
        ("p50", milliseconds(latencies.value_at_quantile(0.5))),
        ("p95", milliseconds(latencies.value_at_quantile(0.95))),
        ("p99", milliseconds(latencies.value_at_quantile(0.99))),
        ("max", milliseconds(latencies.max())),
    ]
}

/// Returns the requests per second.
pub fn rate(requests: u64, elapsed: Duration) -> f64 {
    requests as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// Returns a time in milliseconds.
pub fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1000.0
}

/// Returns the microseconds for each of so many requests.
pub fn each_us(nanoseconds: u64, requests: u64) -> f64 {
    nanoseconds as f64 / 1000.0 / requests.max(1) as f64
}

/// Returns the text as a JSON string (RFC 8259, section 7).
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::lane::histogram;

    fn print(format: Format) -> String {
        print_with(format, 3)
    }

    fn print_with(format: Format, decimals: usize) -> String {
        let mut latencies = histogram();
        latencies.record_n(250, 1000).unwrap();
        let outcome = Outcome {
            elapsed: Duration::from_millis(500),
            answered: 1000,
            latencies,
            server: Some(Reading { nanoseconds: 1_500_000, ..Reading::default() }),
            generator_ns: 1_000_000,
        };
        let setting = Setting {
            title: "GET \"a\"".into(),
            clients: 50,
            pipeline: 1,
            data_size: 3,
            keyspace: None,
            threads: 1,
            keep_alive: true,
            rate_max: None,
        };
        let mut out = Vec::new();
        let mut report = Report::new(&mut out, format, decimals);
        report.test(&setting, &outcome).unwrap();
        report.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn quiet_lines_begin_as_redis_benchmark_prints_them() {
        let line = "GET \"a\": 2000.00 requests per second, p50=0.250 msec, server CPU 1.500 us per request\n\n";
        assert_eq!(print(Format::Quiet), line);
    }

    #[test]
    fn latencies_have_as_many_digits_as_asked_for() {
        assert!(print_with(Format::Quiet, 0).contains("p50=0 msec"));
        assert!(print_with(Format::Quiet, 1).contains("p50=0.2 msec"));
        for (format, figure) in [(Format::Csv, ",\"0.25\","), (Format::Json, "\"p50\":0.25,"), (Format::Full, " 0.25 ")]
        {
            let text = print_with(format, 2);
            assert!(text.contains(figure) && !text.contains("0.250"), "{text}");
        }
    }

    #[test]
    fn csv_has_a_heading_and_as_many_columns() {
        let text = print(Format::Csv);
        let columns: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [9, 9]);
    }

    #[test]
    fn json_quotes_the_title() {
        assert!(print(Format::Json).starts_with("[\n  {\"test\":\"GET \\\"a\\\"\",\"requests\":1000,"));
    }

    #[test]
    fn the_full_report_names_both_cpu_figures() {
        let text = print(Format::Full);
        assert!(text.contains("server CPU: 1.500 us") && text.contains("generator CPU: 1.000 us"));
    }
}
