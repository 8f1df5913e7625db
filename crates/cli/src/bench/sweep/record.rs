//! The record of a run: the measurements, and the facts that a reader of them needs. It is written as JSON and read again, so
//! that a page can be drawn anew without a new measurement.

use std::path::Path;

use serde_json::{Map, Value, json};
use sleeve_disk::own;

use super::calls::Cost;
use super::memory::{Memory, VALUE_BYTES};
use super::reads::ReadCost;
use super::samples::{Axis, FIGURES, Figures, Point, PointRounds};
use crate::bench::cases;

/// The largest size of a record's file that is read: far more than any record has.
const BYTES_MAX: u64 = 256 << 20;

/// A run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The circumstances, as sentences: the machine, values, keys, rounds.
    pub setting: Vec<String>,
    /// The servers that took part.
    pub servers: Vec<Server>,
    /// The measurements at all points.
    pub samples: Vec<PointRounds>,
    /// The memory of the servers that the sweep started.
    pub memory: Vec<Memory>,
    /// The number of keys with which memory was measured.
    pub memory_keys: u64,
    /// The micro-benchmark of calls.
    pub calls: Vec<Cost>,
    /// The micro-benchmark of reads; empty in the records of older versions.
    pub reads: Vec<ReadCost>,
}

/// A server that took part.
#[derive(Clone, Debug)]
pub struct Server {
    /// The name in the report.
    pub name: String,
    /// The version that the server reports.
    pub version: String,
    /// The URL or command line.
    pub words: String,
}

impl Record {
    /// Returns the record as JSON, a line for each point.
    pub fn json(&self) -> String {
        let servers = self.servers.iter().map(|server| {
            let Server { name, version, words } = server;
            json!({ "name": name, "version": version, "words": words })
        });
        let memory = self.memory.iter().map(|memory| {
            let Memory { server, start, connection, key } = memory;
            json!({ "of": server, "start": start, "connection": connection, "key": key })
        });
        let head = json!({
            "setting": self.setting, "servers": servers.collect::<Value>(), "memory": memory.collect::<Value>(),
            "memory_keys": self.memory_keys, "calls": self.calls,
            "reads": self.reads,
        });
        let head = head.to_string();
        let samples: Vec<String> = self.samples.iter().map(|sample| of_sample(sample).to_string()).collect();
        format!("{},\n\"samples\":[\n{}\n]}}\n", head.trim_end_matches('}'), samples.join(",\n"))
    }

    /// Reads the output of [`Record::json`].
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn read(path: &Path) -> Result<Self, String> {
        let named = |error: String| format!("{}: {error}", path.display());
        let text = own::read_input(path, BYTES_MAX).map_err(|error| named(error.to_string()))?;
        let text = String::from_utf8(text).map_err(|error| named(error.to_string()))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| named(error.to_string()))?;
        Self::of(&value).ok_or_else(|| named("this is not the sweep.json of a sweep".to_owned()))
    }

    fn of(value: &Value) -> Option<Self> {
        let list = |name: &str| value.get(name)?.as_array();
        let text = |value: &Value, name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let server = |value: &Value| {
            Some(Server { name: text(value, "name")?, version: text(value, "version")?, words: text(value, "words")? })
        };
        let memory = |value: &Value| {
            let key = value.get("key")?.as_array()?;
            let number = |name: &str| value.get(name)?.as_f64();
            Some(Memory {
                server: text(value, "of")?,
                start: number("start")?,
                connection: number("connection")?,
                key: std::array::from_fn::<_, { VALUE_BYTES.len() }, _>(|at| key.get(at).and_then(Value::as_f64)),
            })
        };
        Some(Self {
            setting: list("setting")?.iter().map(|line| line.as_str().map(str::to_owned)).collect::<Option<_>>()?,
            servers: list("servers")?.iter().map(server).collect::<Option<_>>()?,
            samples: list("samples")?.iter().map(sample_of).collect::<Option<_>>()?,
            memory: list("memory")?.iter().map(memory).collect::<Option<_>>()?,
            memory_keys: value.get("memory_keys")?.as_u64()?,
            calls: serde_json::from_value(value.get("calls")?.clone()).ok()?,
            reads: value.get("reads").map_or(Some(Vec::new()), |reads| serde_json::from_value(reads.clone()).ok())?,
        })
    }
}

fn of_sample(sample: &PointRounds) -> Value {
    let Point { test, axis, clients, depth } = sample.point;
    let round = |row: &Figures| {
        let fields = FIGURES.iter().zip(row).map(|(name, value)| ((*name).to_owned(), json!(value)));
        Value::Object(fields.collect::<Map<String, Value>>())
    };
    let rounds: Value = sample.rounds.iter().map(round).collect();
    let is_over_depths = axis == Axis::Depth;
    json!({
        "server": sample.server, "test": test, "clients": clients, "depth": depth, "over_depths": is_over_depths, "rounds": rounds,
    })
}

fn sample_of(value: &Value) -> Option<PointRounds> {
    let number = |name: &str| value.get(name)?.as_u64().and_then(|number| u32::try_from(number).ok());
    let test = value.get("test")?.as_str()?;
    let round = |row: &Value| FIGURES.map(|name| row.get(name).and_then(Value::as_f64));
    Some(PointRounds {
        server: value.get("server")?.as_str()?.to_owned(),
        point: Point {
            test: cases::title(test)?,
            axis: if value.get("over_depths")?.as_bool()? { Axis::Depth } else { Axis::Clients },
            clients: number("clients")?,
            depth: number("depth")?,
        },
        rounds: value.get("rounds")?.as_array()?.iter().map(round).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let row: Figures = std::array::from_fn(|column| (column != 3).then_some(column as f64 + 0.25));
        let point = Point { test: "GET", axis: Axis::Depth, clients: 50, depth: 1 };
        let record = Record {
            setting: vec!["a \"b\"".to_owned()],
            servers: vec![Server { name: "a".into(), version: "a 1".into(), words: "a -b".into() }],
            samples: vec![PointRounds { server: "a".into(), point, rounds: vec![row, row] }],
            memory: vec![Memory { server: "a".into(), start: 1.0, connection: 2.0, key: [Some(3.0), None, Some(4.5)] }],
            memory_keys: 9,
            calls: vec![("a function".to_owned(), 1.5)],
            reads: vec![("synchronous".to_owned(), vec![512.0, 600.0])],
        };
        let read = Record::of(&serde_json::from_str(&record.json()).unwrap()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{record:?}"));
        assert!(Record::of(&json!([])).is_none());
    }
}
