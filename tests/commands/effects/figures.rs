//! The counters of a server, before and after a request, and the difference in words.
//!
//! Only counters that changed are named: `changes 2`, `stream` (replicas are sent something), `hits 1`, `misses 1`, `expired
//! 1`, `evicted 1`, `error ERR 1` (of INFO errorstats), `errors 1` (its total, where it is another number), `calls get 1`,
//! `rejected get 1`, `failed get 1`, `processed 2` (where it is not one).

use std::collections::BTreeMap;

use sleeve_tests::Connection;

/// The sections that are read. Asking for each by itself counts as a call, which is left out.
const SECTIONS: &[&str] = &["persistence", "stats", "replication", "commandstats", "errorstats"];

/// The counters of a server.
pub struct Figures(BTreeMap<String, i64>);

impl Figures {
    /// Asks a server.
    pub fn of(connection: &mut Connection) -> Figures {
        let mut figures = BTreeMap::new();
        let request = [&["INFO"], SECTIONS].concat();
        let info = connection.command(&request).expect("INFO is answered");
        let info = String::from_utf8_lossy(&info);
        for (name, value) in info.lines().filter_map(|line| line.split_once(':')) {
            if let Some(name) = name.strip_prefix("cmdstat_") {
                for (field, value) in value.split(',').filter_map(|part| part.split_once('=')) {
                    let word = match field {
                        "calls" => "calls",
                        "rejected_calls" => "rejected",
                        "failed_calls" => "failed",
                        _ => continue,
                    };
                    if name != "info" {
                        figures.insert(format!("{word} {name}"), value.parse().unwrap_or_default());
                    }
                }
            } else if let Some(code) = name.strip_prefix("errorstat_") {
                let count = value.strip_prefix("count=").unwrap_or_default();
                figures.insert(format!("error {code}"), count.parse().unwrap_or_default());
            } else {
                let word = match name {
                    "rdb_changes_since_last_save" => "changes",
                    "master_repl_offset" => "stream",
                    "keyspace_hits" => "hits",
                    "keyspace_misses" => "misses",
                    "expired_keys" => "expired",
                    "evicted_keys" => "evicted",
                    "total_error_replies" => "errors",
                    "total_commands_processed" => "processed",
                    _ => continue,
                };
                figures.insert(word.to_owned(), value.parse().unwrap_or_default());
            }
        }
        Figures(figures)
    }

    /// Names the counters that have changed since then, apart from one INFO.
    pub fn since(&self, before: &Figures) -> Vec<String> {
        let delta = |name: &str| {
            let of = |figures: &Figures| figures.0.get(name).copied().unwrap_or_default();
            of(self) - of(before)
        };
        let mut words = Vec::new();
        for name in ["changes", "stream", "hits", "misses", "expired", "evicted"] {
            match delta(name) {
                0 => {}
                _ if name == "stream" => words.push(name.to_owned()),
                count => words.push(format!("{name} {count}")),
            }
        }
        let mut errors = 0;
        for name in self.0.keys().filter(|name| name.starts_with("error ")) {
            let count = delta(name);
            errors += count;
            words.extend((count != 0).then(|| format!("{name} {count}")));
        }
        let of_calls = ["calls ", "rejected ", "failed "];
        for name in self.0.keys().filter(|name| of_calls.iter().any(|start| name.starts_with(start))) {
            let count = delta(name);
            words.extend((count != 0).then(|| format!("{name} {count}")));
        }
        if delta("errors") != errors {
            words.push(format!("errors {}", delta("errors")));
        }
        if delta("processed") != 2 {
            words.push(format!("processed {}", delta("processed") - 1));
        }
        words
    }
}
