//! A transcript file as cases and requests, read from text and written back.
//!
//! Lines that the recorder does not own (comments, directives, requests) are kept as they were written. The form is
//! described in `transcript.rs`. Nothing here talks to a server; any thread may call it.

use super::escape::{escape, unescape, words};
use super::pattern::Pattern;

/// A transcript file.
#[derive(Debug, Default)]
pub struct Script {
    /// The cases in order.
    pub cases: Vec<Case>,
    /// Lines before the first case.
    preamble: Vec<String>,
    /// Lines after the last request.
    tail: Vec<String>,
}

/// The server with the replies that are the reference for a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// Redis 7.0, and every newer Redis answers as it does.
    Redis7,
    /// Valkey, because Redis 7.0 lacks the feature that the case shows.
    Valkey,
    /// A Redis from this version on, because older ones and Valkey lack it.
    Redis(u32, u32),
}

/// The settings of a whole case.
#[derive(Debug, Clone)]
pub struct Options {
    /// The protocols in which the case is played.
    pub protocols: Vec<u8>,
    /// Options to set before the case, or only to put back after it.
    pub configuration: Vec<(String, Option<String>)>,
    /// The server with the replies that are the reference.
    pub reference: Reference,
    /// True if clients of earlier cases must have left.
    pub alone: bool,
}

/// A group of requests that belong together.
#[derive(Debug)]
pub struct Case {
    /// Its title.
    pub name: String,
    /// Its options.
    pub options: Options,
    /// The requests in order.
    pub steps: Vec<Step>,
    lead: Vec<String>,
}

/// The action of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sends a request of words.
    Request(String),
    /// Sends bytes as they stand.
    Raw(String),
    /// Sends nothing and reads.
    Read,
}

/// The replies that belong to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replies {
    /// So many replies.
    Count(usize),
    /// Everything until the server hangs up.
    UntilClosed,
}

/// The parts of a reply with an order that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The order as it came.
    Exact,
    /// None.
    Open,
    /// None, but two neighbours at the top level belong together.
    OpenPairs,
}

/// A request and the replies that it should get.
#[derive(Debug)]
pub struct Step {
    /// The line of the file, from 1.
    pub line: usize,
    /// The name of the connection.
    pub connection: String,
    /// The request, or the bytes, to send.
    pub action: Action,
    /// The number and kind of the replies.
    pub replies: Replies,
    /// The order that matters.
    pub order: Order,
    /// The pattern that the reply must fit if it is not compared.
    pub pattern: Option<Pattern>,
    /// The name under which the reply's text is kept.
    pub capture: Option<String>,
    /// The recorded replies in RESP2 and in RESP3, one escaped line each.
    pub expected: [Vec<String>; 2],
    source: String,
    lead: Vec<String>,
}

/// The part of a step that its directives decide.
#[derive(Debug)]
struct Directives {
    replies: Replies,
    order: Order,
    pattern: Option<Pattern>,
    capture: Option<String>,
}

impl Default for Directives {
    fn default() -> Self {
        Directives { replies: Replies::Count(1), order: Order::Exact, pattern: None, capture: None }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options { protocols: vec![2, 3], configuration: Vec::new(), reference: Reference::Redis7, alone: false }
    }
}

/// The reader's state between two lines.
#[derive(Default)]
struct Reader {
    script: Script,
    shared: Options,
    pending: Vec<String>,
    directives: Directives,
}

impl Script {
    /// Reads a transcript; the error names the line.
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut reader = Reader::default();
        for (index, line) in text.lines().enumerate() {
            reader.line(line, index + 1).map_err(|fault| format!("line {}: {fault}", index + 1))?;
        }
        reader.script.tail = reader.pending;
        Ok(reader.script)
    }

    /// Returns the text of the transcript, with the recorded replies as they are now.
    pub fn render(&self) -> String {
        let mut lines: Vec<String> = self.preamble.clone();
        for case in &self.cases {
            lines.extend(case.lead.iter().cloned());
            for step in &case.steps {
                lines.extend(step.lead.iter().cloned());
                lines.push(step.source.clone());
                step.render_expected(&mut lines);
            }
        }
        lines.extend(self.tail.iter().cloned());
        lines.join("\n") + "\n"
    }
}

impl Step {
    /// Returns the bytes that should come back in `protocol`.
    pub fn expected_bytes(&self, protocol: u8) -> Result<Vec<u8>, String> {
        let lines = &self.expected[usize::from(protocol == 3)];
        lines.iter().map(|line| unescape(line)).collect::<Result<Vec<_>, _>>().map(|parts| parts.concat())
    }

    /// Keeps the replies in `protocol`.
    pub fn set_expected(&mut self, protocol: u8, replies: &[Vec<u8>]) {
        self.expected[usize::from(protocol == 3)] = replies.iter().map(|reply| escape(reply)).collect();
    }

    /// Returns the request as the file has it.
    pub fn source(&self) -> &str {
        &self.source
    }

    fn render_expected(&self, lines: &mut Vec<String>) {
        let [two, three] = &self.expected;
        let mut push = |mark: &str, replies: &[String]| {
            lines.extend(replies.iter().map(|reply| format!("{mark} {reply}")));
        };
        if two == three {
            push("<", two);
        } else {
            push("2<", two);
            push("3<", three);
        }
    }
}

impl Reader {
    fn line(&mut self, line: &str, number: usize) -> Result<(), String> {
        if let Some((protocols, reply)) = split_expected(line) {
            return self.expected(protocols, reply);
        }
        if let Some(name) = line.strip_prefix("== ") {
            self.begin_case(name, line);
            return Ok(());
        }
        if let Some(directive) = line.strip_prefix('@') {
            let (name, value) = directive.split_once(' ').unwrap_or((directive, ""));
            self.directive(name, value.trim())?;
            self.pending.push(line.to_owned());
            return Ok(());
        }
        if line.is_empty() || line.starts_with('#') {
            self.pending.push(line.to_owned());
            return Ok(());
        }
        self.step(line, number)
    }

    fn expected(&mut self, protocols: &[usize], reply: &str) -> Result<(), String> {
        let step = self.script.cases.last_mut().and_then(|case| case.steps.last_mut());
        let step = step.ok_or("a reply without a request")?;
        for protocol in protocols {
            step.expected[*protocol].push(reply.to_owned());
        }
        Ok(())
    }

    fn begin_case(&mut self, name: &str, line: &str) {
        let mut lead = std::mem::take(&mut self.pending);
        if self.script.cases.is_empty() {
            // The lines right above the first case belong to it; the rest is about the file.
            let begin = lead.iter().rposition(String::is_empty).map_or(0, |blank| blank + 1);
            self.script.preamble = lead.drain(..begin).collect();
        }
        lead.push(line.to_owned());
        let options = self.shared.clone();
        self.script.cases.push(Case { name: name.to_owned(), options, steps: Vec::new(), lead });
    }

    fn directive(&mut self, name: &str, value: &str) -> Result<(), String> {
        let case = self.script.cases.last_mut();
        let options = case.map_or(&mut self.shared, |case| &mut case.options);
        match (name, value) {
            ("protocol", "2") => options.protocols = vec![2],
            ("protocol", "3") => options.protocols = vec![3],
            ("since", "valkey") => options.reference = Reference::Valkey,
            ("since", version) => options.reference = parse_version(version)?,
            ("alone", "") => options.alone = true,
            ("restore", option) => options.configuration.push((option.to_owned(), None)),
            ("config", setting) => options.configuration.push(parse_setting(setting)?),
            ("match", pattern) => self.directives.pattern = Some(Pattern::parse(pattern)?),
            ("capture", name) => self.directives.capture = Some(name.to_owned()),
            ("unordered", "") => self.directives.order = Order::Open,
            ("unordered", "pairs") => self.directives.order = Order::OpenPairs,
            ("closed", "") => self.directives.replies = Replies::UntilClosed,
            ("replies", count) => {
                self.directives.replies = Replies::Count(count.parse().map_err(|_| "a number of replies")?);
            }
            _ => return Err(format!("unknown directive @{name} {value}")),
        }
        Ok(())
    }

    fn step(&mut self, line: &str, number: usize) -> Result<(), String> {
        let mark = line.find(|letter: char| !letter.is_ascii_lowercase()).ok_or("no request")?;
        let (connection, rest) = line.split_at(mark);
        let body = rest[1..].strip_prefix(' ').unwrap_or(&rest[1..]).to_owned();
        let action = match rest.as_bytes()[0] {
            b'>' => Action::Request(body),
            b'!' => Action::Raw(body),
            b'?' => Action::Read,
            _ => return Err("neither a request nor a reply".to_owned()),
        };
        let case = self.script.cases.last_mut().ok_or("a request before the first case")?;
        let Directives { replies, order, pattern, capture } = std::mem::take(&mut self.directives);
        let connection = if connection.is_empty() { "a" } else { connection }.to_owned();
        let (lead, source) = (std::mem::take(&mut self.pending), line.to_owned());
        let expected = [Vec::new(), Vec::new()];
        let line = number;
        case.steps.push(Step { line, connection, action, replies, order, pattern, capture, expected, source, lead });
        Ok(())
    }
}

fn parse_setting(setting: &str) -> Result<(String, Option<String>), String> {
    let words = words(setting)?;
    let mut words = words.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned());
    words.next().map(|name| (name, Some(words.next().unwrap_or_default()))).ok_or_else(|| "no option".to_owned())
}

/// Reads `redis 8.4`.
fn parse_version(text: &str) -> Result<Reference, String> {
    let version = text.strip_prefix("redis ").and_then(|version| version.split_once('.'));
    let version = version.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    version.map(|(major, minor)| Reference::Redis(major, minor)).ok_or_else(|| format!("no server has version {text}"))
}

/// Splits a line that holds a reply into the protocols' indexes and the reply.
fn split_expected(line: &str) -> Option<(&'static [usize], &str)> {
    let (protocols, rest): (&[usize], _) = match line.split_once('<')? {
        ("", rest) => (&[0, 1], rest),
        ("2", rest) => (&[0], rest),
        ("3", rest) => (&[1], rest),
        _ => return None,
    };
    Some((protocols, rest.strip_prefix(' ').unwrap_or(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# About.\n\n# A case.\n== one\n@alone\n> GET k\n2< $-1\\r\\n\n3< _\\r\\n\n\n@replies 2\nb! PING\\r\\n\n\
                        < +PONG\\r\\n\n< +PONG\\r\\n\n";

    #[test]
    fn a_script_is_written_as_it_was_read() {
        let script = Script::parse(TEXT).unwrap();
        assert_eq!(script.render(), TEXT);
        let case = &script.cases[0];
        assert!(case.options.alone);
        assert_eq!(case.steps[0].expected_bytes(3).unwrap(), b"_\r\n");
        assert_eq!(case.steps[1].replies, Replies::Count(2));
        assert_eq!(case.steps[1].expected_bytes(2).unwrap(), b"+PONG\r\n+PONG\r\n");
    }

    #[test]
    fn a_fault_names_its_line() {
        assert!(Script::parse("== one\n@nonsense\n").unwrap_err().starts_with("line 2"));
        assert!(Script::parse("== one\n@since redis x.4\n").unwrap_err().starts_with("line 2"));
    }

    #[test]
    fn a_case_names_its_reference() {
        let script = Script::parse("== one\n@since redis 8.4\n> PING\n== two\n@since valkey\n== three\n").unwrap();
        let references: Vec<_> = script.cases.iter().map(|case| case.options.reference).collect();
        assert_eq!(references, [Reference::Redis(8, 4), Reference::Valkey, Reference::Redis7]);
    }
}
