//! The report: the share of the possible rate, the causes that hold the program up, and the remedies; as text or as one JSON
//! object.

use serde_json::{Value, json};

use super::causes::Finding;
use super::causes::figures::{percent, size, time};
use super::evidence::Evidence;
use crate::output;

/// The largest width of lines, as in `--help`.
const WIDTH: usize = 120;

/// Prints the findings.
pub fn print(server: &str, evidence: &Evidence, findings: &[Finding]) {
    let path = &evidence.path;
    let width = path.bytes_per_second.map(|width| format!(", {} a second", size(width))).unwrap_or_default();
    output::line(format_args!(
        "{server}\nThe way: a round trip takes {} ({} at worst), a new connection {}{width}.",
        time(path.round_trip_us.p50),
        time(path.round_trip_us.max),
        time(path.connect_us),
    ));
    output::line(format_args!(
        "One connection can do {:.0} commands a second one at a time, and {:.0} without waiting: what is possible.",
        path.alone_per_second, path.together_per_second
    ));
    match evidence.traffic.commands {
        // Faults of a cluster are found without traffic too.
        0 => output::line(format_args!("Seen: no command.\n")),
        _ => output::line(format_args!(
            "Seen: {:.0} commands a second by {}, {:.1} of them a round trip: {} of the possible.\n",
            evidence.traffic.per_second(),
            match evidence.connections() {
                one if one < 1.5 => "one connection".to_owned(),
                many => format!("{many:.0} connections"),
            },
            evidence.traffic.depth(),
            percent(evidence.share_of_possible())
        )),
    }
    match findings {
        [] => output::line(format_args!(
            "Nothing wrong: round trips take {} of the connections' time{}.",
            percent(evidence.waiting_share()),
            match evidence.server.busy_share {
                Some(share) => format!(", and the server is busy for {}", percent(share)),
                None => String::new(),
            }
        )),
        [first, others @ ..] => {
            output::line(format_args!("The likely cause: {}", first.cause.name()));
            details(first);
            for finding in others {
                output::line(format_args!("\nAlso: {}", finding.cause.name()));
                details(finding);
            }
        }
    }
    for (at, text) in evidence.unread.iter().enumerate() {
        let head = if at == 0 { "\n" } else { "" };
        output::line(format_args!("{head}Could not be read: {text}"));
    }
}

fn details(finding: &Finding) {
    for number in &finding.numbers {
        wrapped("  - ", number);
    }
    wrapped("  Remedy: ", &finding.remedy);
}

/// Prints words within a width; following lines are indented to the first word.
fn wrapped(head: &str, text: &str) {
    let mut line = head.to_owned();
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            output::line(format_args!("{line}"));
            line = "   ".to_owned();
        }
        if !line.ends_with(' ') || line.trim().is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    output::line(format_args!("{line}"));
}

/// Prints the report as one JSON object, for programs.
pub fn print_json(server: &str, evidence: &Evidence, findings: &[Finding]) {
    let path = &evidence.path;
    let findings: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "cause": finding.cause.name(),
                "weight": finding.weight,
                "numbers": finding.numbers,
                "remedy": finding.remedy,
            })
        })
        .collect();
    let report = json!({
        "server": server,
        "path": {
            "round_trip_us": { "p50": path.round_trip_us.p50, "p99": path.round_trip_us.p99, "max": path.round_trip_us.max },
            "connect_us": path.connect_us,
            "alone_per_second": path.alone_per_second,
            "together_per_second": path.together_per_second,
            "bytes_per_second": path.bytes_per_second,
        },
        "seconds": evidence.traffic.seconds,
        "commands": evidence.traffic.commands,
        "per_second": evidence.traffic.per_second(),
        "share_of_possible": evidence.share_of_possible(),
        "connections": evidence.connections(),
        "commands_of_round_trip": evidence.traffic.depth(),
        "waiting_share": evidence.waiting_share(),
        "server_busy_share": evidence.server.busy_share,
        "findings": findings,
        "unread": evidence.unread,
    });
    output::line(format_args!("{report}"));
}
