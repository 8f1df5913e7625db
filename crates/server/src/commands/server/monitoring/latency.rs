//! LATENCY: the slow events, and the distribution of the execution times of commands.
//!
//! The figures are kept in `engine/observe`; this module turns them into replies, and for LATENCY DOCTOR into text. It measures
//! nothing.

use hdrhistogram::Histogram;
use sleeve_wire::commands::{self, Row};

use crate::config::Opt;
use crate::context::Cx;
use crate::engine::observe::latency::{Sample, Series};
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// LATENCY LATEST
pub fn latest(cx: &mut Cx<'_>) -> Outcome {
    let events = cx.engine.observe.latency.events();
    let mut reply = cx.reply();
    reply.array(events.len());
    for (name, series) in &events {
        let last = series.samples.back().copied().unwrap_or(Sample { time_s: 0, latency_ms: 0 });
        reply.array(4);
        reply.bulk(name.as_bytes());
        reply.integer(last.time_s);
        reply.integer(last.latency_ms as i64);
        reply.integer(series.latency_ms_max as i64);
    }
    Ok(())
}

/// LATENCY HISTORY event
pub fn history(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let series = cx.engine.observe.latency.series(request.arg(2)).unwrap_or_default();
    let mut reply = cx.reply();
    reply.array(series.samples.len());
    for sample in &series.samples {
        reply.array(2);
        reply.integer(sample.time_s);
        reply.integer(sample.latency_ms as i64);
    }
    Ok(())
}

/// LATENCY RESET \[event ...\]
pub fn reset(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let names = request.args.from(2);
    let is_meant = |event: &str| names.is_empty() || names.iter().any(|name| name == event.as_bytes());
    let count = cx.engine.observe.latency.reset(is_meant);
    cx.reply().integer(count as i64);
    Ok(())
}

/// LATENCY HISTOGRAM \[command ...\]
pub fn histogram(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let names = request.args.from(2);
    let rows: Vec<&'static Row> = if names.is_empty() {
        commands::all().iter().collect()
    } else {
        let named = names.iter().filter_map(|name| cx.engine.names.find_full(name));
        // A container stands for its subcommands, which are the commands that are measured.
        named.flat_map(|row| std::iter::once(row).chain(row.subcommands())).collect()
    };
    let measured: Vec<_> =
        rows.into_iter().filter_map(|row| Some((row, cx.engine.observe.stats.latency(row)?))).collect();
    let mut reply = cx.reply();
    reply.map(measured.len());
    for (row, histogram) in measured {
        reply.bulk(row.full_name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(histogram.len() as i64);
        reply.bulk(b"histogram_usec");
        let steps = doublings(&histogram);
        reply.map(steps.len());
        for (upper_us, count) in steps {
            reply.integer(upper_us as i64);
            reply.integer(count as i64);
        }
    }
    Ok(())
}

/// Returns a cumulative distribution: for each bound, in microseconds, the number of execution times up to it. The bounds
/// double from 1,024 nanoseconds on; those at which the number has not grown are left out.
fn doublings(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let (mut steps, mut below) = (Vec::new(), 0);
    for step in histogram.iter_log(1_024, 2.0) {
        if step.count_since_last_iteration() > 0 {
            below += step.count_since_last_iteration();
            steps.push((histogram.highest_equivalent(step.value_iterated_to()) / 1_000, below));
        }
    }
    steps
}

/// LATENCY DOCTOR
pub fn doctor(cx: &mut Cx<'_>) -> Outcome {
    let threshold_ms = cx.engine.config.number(Opt::LatencyMonitorThreshold);
    let events = cx.engine.observe.latency.events();
    let text = if threshold_ms == 0 && events.is_empty() {
        "The latency monitor is off, so there is nothing to tell. CONFIG SET latency-monitor-threshold <milliseconds> \
         turns it on; choose the shortest time that would bother your application.\n"
            .to_owned()
    } else if events.is_empty() {
        format!("Nothing has taken {threshold_ms} ms or longer since the monitor was turned on or reset.\n")
    } else {
        let lines = events.iter().map(|(name, series)| diagnosis(name, series));
        lines.chain([ADVICE.to_owned()]).collect()
    };
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

const ADVICE: &str = "\nWhat usually helps: SLOWLOG GET names the slow commands themselves; large keys are found with \
--bigkeys and better removed with UNLINK; a machine that is short of processors or memory is slow everywhere at once.\n";

/// Returns the advice about one event.
fn diagnosis(name: &str, series: &Series) -> String {
    let count = series.samples.len() as u64;
    let sum_ms: u64 = series.samples.iter().map(|sample| sample.latency_ms).sum();
    format!(
        "{name}: {count} slow seconds, {} ms on average, {} ms at worst. {}\n",
        sum_ms / count.max(1),
        series.latency_ms_max,
        match name {
            "command" => "Commands whose time depends on their data: look at SLOWLOG GET.",
            "fast-command" => "Commands that are never slow by themselves: the machine or its memory was busy.",
            "expire-cycle" => "Many keys expired together: spread their deadlines.",
            "eviction-del" => "Large values were evicted: set lazyfree-lazy-eviction, or keep values smaller.",
            "eviction-cycle" => "Much had to be evicted at once: raise maxmemory, or write less at a time.",
            _ => "",
        }
    )
}

/// LATENCY GRAPH event
pub fn graph(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let event = String::from_utf8_lossy(request.arg(2)).into_owned();
    let Some(series) = cx.engine.observe.latency.series(request.arg(2)) else {
        return Err(Error::naming("ERR No samples available for event '{}'", &[request.arg(2)]));
    };
    let text = drawing(&event, &series, cx.now.wall_ms() / 1_000);
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// The number of columns of the drawing, which shows the latest samples.
const COLUMNS: usize = 80;

/// The number of lines of the drawing.
const LINES: u64 = 4;

/// Draws latencies as columns of characters, each with its age written downwards beneath it.
fn drawing(event: &str, series: &Series, now_s: i64) -> String {
    let skipped = series.samples.len().saturating_sub(COLUMNS);
    let samples: Vec<Sample> = series.samples.iter().skip(skipped).copied().collect();
    let high = samples.iter().map(|sample| sample.latency_ms).max().unwrap_or(0);
    let low = samples.iter().map(|sample| sample.latency_ms).min().unwrap_or(0);
    let mut text = format!(
        "{event} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        series.latency_ms_max,
        "-".repeat(COLUMNS)
    );
    for line in (0..LINES).rev() {
        // Each line has two steps: a low mark and a high one.
        let mark = |sample: &Sample| match (sample.latency_ms - low) * (2 * LINES - 1) / (high - low).max(1) {
            steps if steps > 2 * line => '#',
            steps if steps == 2 * line => '_',
            _ => ' ',
        };
        text.push_str(samples.iter().map(mark).collect::<String>().trim_end());
        text.push('\n');
    }
    let ages: Vec<Vec<char>> = samples.iter().map(|sample| age(now_s - sample.time_s).chars().collect()).collect();
    for line in 0..ages.iter().map(Vec::len).max().unwrap_or(0) {
        let letters: String = ages.iter().map(|age| age.get(line).copied().unwrap_or(' ')).collect();
        text.push('\n');
        text.push_str(letters.trim_end());
    }
    text.push('\n');
    text
}

/// Returns a duration in its largest unit.
fn age(seconds: i64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
