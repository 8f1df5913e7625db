//! The report: one HTML file that needs nothing else, with plots, tables of medians, memory and the price of calls.

use std::fmt::Write;

use super::memory::VALUE_BYTES;
use super::plot::{Labels, Scale, Series, leads, lines, short};
use super::reads::BYTES;
use super::record::Record;
use super::samples::{Axis, PointRounds};

const HEAD: &str = "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>sleeve bench sweep</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222; background: #fff }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc }
nav a { margin-right: 1rem }
.plots { display: flex; flex-wrap: wrap; gap: 1rem }
.plots svg { max-width: 100%; height: auto }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #eee }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2), .words { text-align: left }
td.words { font-family: ui-monospace, monospace; font-size: .85em; overflow-wrap: anywhere }
</style></head><body>
";

/// The plots of a test: a figure, its title, and its spacing.
const PLOTS: [(&str, &str, Scale); 7] = [
    ("rps", "requests a second", Scale::Linear),
    ("rps", "requests a second", Scale::Logarithmic),
    ("server_cpu_us", "server CPU, us a request", Scale::Logarithmic),
    ("p50_ms", "median latency, ms", Scale::Logarithmic),
    ("p99_ms", "99th percentile, ms", Scale::Logarithmic),
    ("system_calls", "system calls a request", Scale::Logarithmic),
    ("switches", "context switches a request", Scale::Logarithmic),
];

/// The columns of the tables, with their headings.
const COLUMNS: [(&str, &str); 9] = [
    ("rps", "requests/s"),
    ("p50_ms", "p50 ms"),
    ("p90_ms", "p90 ms"),
    ("p99_ms", "p99 ms"),
    ("p999_ms", "p99.9 ms"),
    ("server_cpu_us", "server CPU us"),
    ("generator_cpu_us", "generator CPU us"),
    ("switches", "switches"),
    ("system_calls", "system calls"),
];

/// The report of a run.
#[derive(Debug)]
pub struct Page<'a>(pub &'a Record);

impl Page<'_> {
    /// Returns the whole file.
    ///
    /// # Errors
    /// The errors of the library of plots.
    pub fn html(&self) -> Result<String, String> {
        let mut out = String::from(HEAD);
        out.push_str("<h1>sleeve bench sweep</h1>\n");
        for sentence in &self.0.setting {
            let _ = writeln!(out, "<p>{}</p>", escaped(sentence));
        }
        self.servers(&mut out);
        out.push_str("<nav>");
        for test in self.tests() {
            let _ = write!(out, "<a href=\"#{0}\">{0}</a>", escaped(test));
        }
        out.push_str("<a href=\"#memory\">Memory</a><a href=\"#calls\">Calls</a><a href=\"#reads\">Reads</a></nav>\n");
        for test in self.tests() {
            let _ = writeln!(out, "<h2 id=\"{0}\">{0}</h2>", escaped(test));
            for (axis, heading) in
                [(Axis::Clients, "Clients, one request in flight each"), (Axis::Depth, "50 clients, pipelined")]
            {
                self.section(&mut out, test, axis, heading)?;
            }
        }
        self.memory(&mut out);
        self.calls(&mut out);
        self.reads(&mut out);
        out.push_str("</body></html>\n");
        Ok(out)
    }

    /// Returns the main plot: requests a second of this test over numbers of clients.
    ///
    /// # Errors
    /// As [`Page::html`].
    pub fn main_plot(&self, test: &str) -> Result<String, String> {
        // Of several variants of a program the plot shows the one that represents them. The page has all variants.
        self.plot(test, Axis::Clients, PLOTS[0], leads)
    }

    fn servers(&self, out: &mut String) {
        if self.0.servers.is_empty() {
            return;
        }
        out.push_str("<table><tr><th>server<th>version<th class=\"words\">started with\n");
        for server in &self.0.servers {
            let [name, version, words] = [&server.name, &server.version, &server.words].map(|text| escaped(text));
            let _ = writeln!(out, "<tr><td>{name}<td>{version}<td class=\"words\">{words}");
        }
        out.push_str("</table>\n");
    }

    /// Returns the tests in their order.
    fn tests(&self) -> Vec<&'static str> {
        let mut tests: Vec<&str> = Vec::new();
        for sample in &self.0.samples {
            if !tests.contains(&sample.point.test) {
                tests.push(sample.point.test);
            }
        }
        tests
    }

    fn of<'b>(&'b self, test: &'b str, axis: Axis) -> impl Iterator<Item = &'b PointRounds> {
        self.0.samples.iter().filter(move |sample| sample.point.test == test && sample.point.axis == axis)
    }

    fn section(&self, out: &mut String, test: &str, axis: Axis, heading: &str) -> Result<(), String> {
        if self.of(test, axis).next().is_none() {
            return Ok(());
        }
        let _ = writeln!(out, "<h3>{heading}</h3>\n<div class=\"plots\">");
        for plot in PLOTS {
            out.push_str(&self.plot(test, axis, plot, |_, _| true)?);
        }
        out.push_str("</div>\n<details><summary>All medians</summary><table><tr><th>server<th>at");
        for (_, heading) in COLUMNS {
            let _ = write!(out, "<th>{heading}");
        }
        out.push('\n');
        for sample in self.of(test, axis) {
            let _ = write!(out, "<tr><td>{}<td>{}", escaped(&sample.server), sample.point.place());
            for (figure, _) in COLUMNS {
                let value = sample.median(figure).map_or_else(|| "–".to_owned(), short);
                let _ = write!(out, "<td>{value}");
            }
            out.push('\n');
        }
        out.push_str("</table></details>\n");
        Ok(())
    }

    fn plot(
        &self,
        test: &str,
        axis: Axis,
        plot: (&str, &str, Scale),
        is_shown: fn(&str, &[&str]) -> bool,
    ) -> Result<String, String> {
        let (figure, values, scale) = plot;
        let mut series: Vec<Series> = Vec::new();
        for sample in self.of(test, axis) {
            let Some(value) = sample.median(figure) else { continue };
            let point = (sample.point.place(), value);
            match series.iter_mut().find(|(name, _)| *name == sample.server) {
                Some((_, points)) => points.push(point),
                None => series.push((sample.server.clone(), vec![point])),
            }
        }
        let names: Vec<String> = series.iter().map(|(name, _)| name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        series.retain(|(name, _)| is_shown(name, &names));
        series.iter_mut().for_each(|(_, points)| points.sort_unstable_by_key(|(place, _)| *place));
        let places = match axis {
            Axis::Clients => "clients",
            Axis::Depth => "requests in flight on each of 50 clients",
        };
        let suffix = if scale == Scale::Logarithmic { ", logarithmic" } else { "" };
        lines(Labels { title: &format!("{test}: {values}{suffix}"), places, values }, scale, &series)
    }

    fn memory(&self, out: &mut String) {
        out.push_str("<h2 id=\"memory\">Memory</h2>\n");
        if self.0.memory.is_empty() {
            out.push_str("<p>Not measured: no server was started here, or --memory-keys is 0.</p>\n");
            return;
        }
        let keys = self.0.memory_keys;
        let _ = writeln!(
            out,
            "<p>Resident memory: behind the start, for each of 1,000 idle connections, and for each of {keys} keys of 16 \
             bytes, with a process of its own for each size.</p>\n<table><tr><th>server<th>start, MiB<th>idle connection, KiB"
        );
        for bytes in VALUE_BYTES {
            let _ = write!(out, "<th>key with {bytes} bytes");
        }
        for memory in &self.0.memory {
            let (start, connection) = (memory.start / f64::from(1 << 20), memory.connection / 1024.0);
            let _ = write!(out, "\n<tr><td>{}<td>{start:.1}<td>{connection:.2}", escaped(&memory.server));
            for bytes in memory.key {
                let _ = match bytes {
                    Some(bytes) => write!(out, "<td>{bytes:.0}"),
                    None => write!(out, "<td>–"),
                };
            }
        }
        out.push_str("</table>\n");
    }

    fn calls(&self, out: &mut String) {
        out.push_str(
            "<h2 id=\"calls\">What a call costs</h2>\n<p>The same addition on this machine, called in the ways that a program \
             has; nothing travels.</p>\n<table><tr><th>called as<th><th>ns a call\n",
        );
        for (name, nanoseconds) in &self.0.calls {
            let _ = writeln!(out, "<tr><td>{}<td><td>{}", escaped(name), short(*nanoseconds));
        }
        out.push_str("</table>\n");
    }

    fn reads(&self, out: &mut String) {
        if self.0.reads.is_empty() {
            return;
        }
        out.push_str(
            "<h2 id=\"reads\">What a read costs</h2>\n<p>Reads from a Unix socket on this machine, by one thread: a call that may \
             block, and a task of tokio on its current-thread runtime.</p>\n<table><tr><th>read<th>",
        );
        for bytes in BYTES {
            let _ = write!(out, "<th>{bytes} bytes, ns");
        }
        for (name, nanoseconds) in &self.0.reads {
            let _ = write!(out, "\n<tr><td>{}<td>", escaped(name));
            for nanoseconds in nanoseconds {
                let _ = write!(out, "<td>{}", short(*nanoseconds));
            }
        }
        out.push_str("\n</table>\n");
    }
}

/// Returns a text as HTML shows it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sweep::memory::Memory;
    use crate::bench::sweep::record::Server;
    use crate::bench::sweep::samples::{FIGURES, Point};

    #[test]
    fn the_page_shows_every_test_and_escapes_names() {
        let sample = |server: &str, axis, clients, depth| PointRounds {
            server: server.to_owned(),
            point: Point { test: "GET", axis, clients, depth },
            rounds: vec![[Some(f64::from(clients * depth)); FIGURES.len()]],
        };
        let samples = [
            sample("a<b>", Axis::Clients, 1, 1),
            sample("a<b>", Axis::Clients, 2, 1),
            sample("a<b>", Axis::Depth, 50, 16),
            sample("c", Axis::Clients, 1, 1),
        ];
        let memory =
            Memory { server: "c".into(), start: 1_048_576.0, connection: 2048.0, key: [Some(90.0), Some(280.0), None] };
        let record = Record {
            setting: vec!["a & b".to_owned()],
            servers: vec![Server { name: "c".into(), version: "c 1.0".into(), words: "c --x '<y>'".into() }],
            samples: samples.to_vec(),
            memory: vec![memory],
            memory_keys: 7,
            calls: vec![("a function".to_owned(), 1.25)],
            reads: vec![("synchronous".to_owned(), vec![512.0; BYTES.len()])],
        };
        let page = Page(&record);
        let html = page.html().unwrap();
        assert!(!html.contains("a<b>") && html.contains("a &amp; b"));
        assert_eq!(html.matches("<svg").count(), 2 * PLOTS.len());
        assert!(html.contains("<td>1.0<td>2.00<td>90<td>280<td>–") && html.contains("<td>a function<td><td>1.25"));
        assert!(html.contains("<td>synchronous<td><td>512<td>512"));
        for line in ["<td>a&lt;b&gt;<td>16<td>800", "<td>c<td>1<td>1"] {
            assert!(html.contains(line), "{line}");
        }
        assert!(html.contains("<td>c<td>c 1.0<td class=\"words\">c --x '&lt;y&gt;'"));
        assert!(page.main_plot("GET").unwrap().starts_with("<svg"));
    }
}
