//! A file of cases, read from text and written back.
//!
//! ```text
//! # A comment.
//! == Pushing wakes one who waits     a case: it starts with an empty database and new connections
//! @since valkey                      Redis 7.0 lacks it; or `@since redis 8.4`: only a Redis from this version on has it
//! @config appendonly no              set before the case, put back after it
//! + SET k v                          prepares; nothing is looked at
//! = AUTH name password               prepares the connection that is looked at
//! ~ 3                                lets so many milliseconds pass, so that a deadline is over
//! b> BLPOP k 0                       a client that waits while the next request is made
//! > RPUSH k a b                      a request whose effects are looked at; `;;` separates several that are sent together
//! < :2 | changes 2 | …               what a real server did, in the words of `figures` and `stage`
//! sleeve< :2 | changes 1 | …         what Sleeve does instead; the comment above the request says why
//! ```
//!
//! Keys are `k`, `s` and `d`, or one of `{k}1` to `{k}9`.

use sleeve_tests::Kind;
use sleeve_tests::transcript::play::Target;

/// A file of cases.
#[derive(Debug, Default)]
pub struct Script {
    /// The cases in order.
    pub cases: Vec<Case>,
    preamble: Vec<String>,
}

/// A group of requests that belong together.
#[derive(Debug)]
pub struct Case {
    /// The configuration that the servers get before the case.
    pub configuration: Vec<(String, String)>,
    /// The lines in order.
    pub steps: Vec<Step>,
    /// The server that knows the requests of the case, as the file has it.
    since: String,
    head: Vec<String>,
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A comment or an empty line.
    Comment,
    /// A request by another client.
    Prepare,
    /// A request on the connection that is measured.
    PrepareOwn,
    /// Time passes.
    Pass,
    /// A client begins to wait.
    Wait,
    /// A request with effects that are measured.
    Measure,
}

/// A line of a case.
#[derive(Debug)]
pub struct Step {
    /// The line of the file, from 1.
    pub line: usize,
    /// The kind of the line.
    pub mark: Mark,
    /// The text behind the mark.
    pub text: String,
    /// The effects on a real server.
    pub expected: String,
    /// The effects on Sleeve, where they differ.
    pub differing: Option<String>,
}

const MARKS: &[(&str, Mark)] =
    &[("+ ", Mark::Prepare), ("= ", Mark::PrepareOwn), ("~ ", Mark::Pass), ("b> ", Mark::Wait), ("> ", Mark::Measure)];

impl Script {
    /// Reads a file; the error names the line.
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut script = Script::default();
        for (index, line) in text.lines().enumerate() {
            script.line(line, index + 1).map_err(|fault| format!("line {}: {fault}", index + 1))?;
        }
        Ok(script)
    }

    fn line(&mut self, line: &str, number: usize) -> Result<(), String> {
        if line.starts_with("== ") {
            let (configuration, steps, since) = (Vec::new(), Vec::new(), String::new());
            self.cases.push(Case { configuration, steps, since, head: vec![line.to_owned()] });
            return Ok(());
        }
        let Some(case) = self.cases.last_mut() else {
            self.preamble.push(line.to_owned());
            return Ok(());
        };
        if let Some(since) = line.strip_prefix("@since ") {
            case.since = since.to_owned();
            case.head.push(line.to_owned());
        } else if let Some(setting) = line.strip_prefix("@config ") {
            let (name, value) = setting.split_once(' ').ok_or("an option without a value")?;
            case.configuration.push((name.to_owned(), value.to_owned()));
            case.head.push(line.to_owned());
        } else if let Some(expected) = line.strip_prefix("< ") {
            case.steps.last_mut().ok_or("effects without a request")?.expected = expected.to_owned();
        } else if let Some(differing) = line.strip_prefix("sleeve< ") {
            case.steps.last_mut().ok_or("effects without a request")?.differing = Some(differing.to_owned());
        } else {
            let marked = MARKS.iter().find_map(|&(prefix, mark)| line.strip_prefix(prefix).map(|text| (mark, text)));
            let (mark, text) = match marked {
                Some(marked) => marked,
                None if line.is_empty() || line.starts_with('#') => (Mark::Comment, line),
                None => return Err("neither a request nor effects".to_owned()),
            };
            case.steps.push(Step {
                line: number,
                mark,
                text: text.to_owned(),
                expected: String::new(),
                differing: None,
            });
        }
        Ok(())
    }

    /// Returns the text of the file, with the effects as they are now.
    pub fn render(&self) -> String {
        let mut lines = self.preamble.clone();
        for case in &self.cases {
            lines.extend(case.head.iter().cloned());
            for step in &case.steps {
                let prefix = MARKS.iter().find(|(_, mark)| *mark == step.mark).map_or("", |(prefix, _)| prefix);
                lines.push(format!("{prefix}{}", step.text));
                if step.mark == Mark::Measure {
                    lines.push(format!("< {}", step.expected));
                    lines.extend(step.differing.iter().map(|differing| format!("sleeve< {differing}")));
                }
            }
        }
        lines.join("\n") + "\n"
    }

    /// Returns the requests that are looked at, in lower case.
    pub fn requests(&self) -> Vec<String> {
        let steps = self.cases.iter().flat_map(|case| &case.steps).filter(|step| step.mark == Mark::Measure);
        steps.flat_map(|step| step.text.split(" ;; ").map(str::to_ascii_lowercase)).collect()
    }
}

impl Case {
    /// Returns whether the case is played on this server.
    pub fn is_for(&self, target: &Target) -> bool {
        let version = self.since.strip_prefix("redis ").and_then(|version| version.split_once('.'));
        let version = version.map(|(major, minor)| (major.parse().unwrap_or(u32::MAX), minor.parse().unwrap_or(0)));
        match target.kind {
            Kind::Sleeve => true,
            Kind::Redis => self.since.is_empty(),
            Kind::Valkey => self.since == "valkey",
            Kind::Redis8 => version.is_some_and(|version| version <= target.version),
        }
    }

    /// Returns the requests that are looked at.
    pub fn measured(&mut self) -> impl Iterator<Item = &mut Step> {
        self.steps.iter_mut().filter(|step| step.mark == Mark::Measure)
    }
}
