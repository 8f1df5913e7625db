//! The options of XTRIM, and of XADD before the entry's fields: how the stream is trimmed (MAXLEN, MINID, LIMIT), and the id.
//!
//! Reading them changes nothing; [`Trim::run`] does the trimming, with the key's shard locked.

use sleeve_store::{Keep, Stream, StreamId};
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use super::delete::{Done, References, delete};
use super::id;
use super::id::NewId;
use super::producers::Numbered;
use super::reply;
use crate::config::Opt;
use crate::context::Cx;
use crate::request::Request;
use crate::request::error::Error;

const LIMIT_WITHOUT_TILDE: Error = Error::fixed("ERR syntax error, LIMIT cannot be used without the special ~ option");

/// The way in which a stream is trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trim {
    keep: Keep,
    /// `~`: only whole blocks are removed.
    in_blocks: bool,
    /// LIMIT: the most entries that are removed at once.
    removed_max: Option<u64>,
    /// The effect of the trimming on groups.
    references: References,
}

/// The outcome of trimming.
#[derive(Debug)]
pub(super) enum Trimmed {
    /// The number of entries that were removed from the front. The second value is the exact bound to which the stream was
    /// trimmed.
    Front(u64, Keep),
    /// These entries were removed one by one, and from the pending ones of groups.
    Each(Done),
}

/// The options of XADD before its fields, or of XTRIM.
#[derive(Debug, Default)]
pub(super) struct StreamOptions<'a> {
    /// NOMKSTREAM: a missing stream is not created.
    pub no_stream: bool,
    /// The trimming of the stream, if there is one.
    pub trim: Option<Trim>,
    /// The producer and the number of the message, for XADD.
    pub numbered: Option<Numbered<'a>>,
    /// The id, for XADD.
    pub id: Option<NewId>,
    /// The index of the first field, for XADD.
    pub fields_at: usize,
}

impl Trim {
    /// Trims the stream.
    pub fn run(&self, stream: &mut Stream) -> Trimmed {
        if self.references == References::Keep {
            let removed = stream.trim(self.keep, self.in_blocks, self.removed_max);
            return Trimmed::Front(removed, self.kept(stream));
        }
        let mut done = Done::default();
        for id in self.going(stream) {
            delete(stream, id, self.references, &mut done);
        }
        Trimmed::Each(done)
    }

    /// Returns the entries that are to be removed one by one, if groups matter. As in Redis, `~` ends this before a block
    /// that has more entries than may be removed.
    fn going(&self, stream: &Stream) -> Vec<StreamId> {
        let surplus = match self.keep {
            Keep::Last(count) => stream.len().saturating_sub(count),
            Keep::From(_) => u64::MAX,
        };
        let (mut going, firsts): (_, Vec<_>) = (Vec::new(), stream.blocks().map(|(first, _)| first).collect());
        for (index, first) in firsts.iter().enumerate() {
            let end = firsts.get(index + 1).and_then(|next| next.previous()).unwrap_or(StreamId::MAX);
            let block: Vec<_> = stream.range(*first, end).map(|entry| entry.id).collect();
            if self.removed_max.is_some_and(|removed_max| (going.len() + block.len()) as u64 > removed_max) {
                break;
            }
            for id in block {
                if going.len() as u64 == surplus || matches!(self.keep, Keep::From(from) if id >= from) {
                    return going;
                }
                if self.references != References::Acknowledged || !stream.is_awaited(id) {
                    going.push(id);
                }
            }
        }
        going
    }

    /// Returns the exact bound of a trimming that was just done.
    fn kept(&self, stream: &Stream) -> Keep {
        match self.keep {
            keep if !self.in_blocks => keep,
            Keep::Last(_) => Keep::Last(stream.len()),
            // An empty stream has no first entry that could be the bound.
            Keep::From(_) if stream.is_empty() => Keep::Last(0),
            Keep::From(_) => Keep::From(stream.first_id()),
        }
    }
}

/// The number of words that [`write()`] writes.
pub(super) const WORDS: usize = 3;

/// Writes the words of a trimming for its record.
pub(super) fn write(words: &mut Writer<'_>, kept: Keep) {
    words.bulk(if matches!(kept, Keep::Last(_)) { b"MAXLEN" } else { b"MINID" });
    words.bulk(b"=");
    match kept {
        Keep::Last(count) => words.bulk_integer(i64::try_from(count).unwrap_or(i64::MAX)),
        Keep::From(id) => reply::id(words, id),
    }
}

impl<'a> StreamOptions<'a> {
    /// Reads the options. Only XADD has an id.
    pub fn parse(cx: &Cx<'_>, request: Request<'a>, is_add: bool) -> Result<Self, Error> {
        let (mut options, mut limit, mut references, mut at) = (Self::default(), None, None, 2);
        while at < request.len() {
            let (word, more) = (request.arg(at), request.len() - 1 - at);
            if is_add && word == b"*" {
                break;
            } else if (word.eq_ignore_ascii_case(b"maxlen") || word.eq_ignore_ascii_case(b"minid")) && more != 0 {
                at += options.parse_trim(request, at)?;
            } else if word.eq_ignore_ascii_case(b"limit") && more != 0 {
                let count = number::parse_i64(request.arg(at + 1)).ok_or(Error::NOT_INTEGER)?;
                let count = u64::try_from(count).map_err(|_| Error::fixed("ERR The LIMIT argument must be >= 0."))?;
                limit = Some(count);
                at += 2;
            } else if references.is_none() && References::named(word).is_some() {
                references = References::named(word);
                at += 1;
            } else if is_add && word.eq_ignore_ascii_case(b"nomkstream") {
                options.no_stream = true;
                at += 1;
            } else if is_add && let Some(numbered) = Numbered::parse(request, at)? {
                if options.numbered.is_some() {
                    return Err(Error::fixed("ERR syntax error, IDMP/IDMPAUTO specified multiple times"));
                }
                options.numbered = Some(numbered);
                at += numbered.words();
            } else if is_add {
                break;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        if is_add && let Some(text) = request.args.get(at) {
            let id = NewId::parse(text)?;
            // In an AOF and in a primary's stream the id is given.
            if options.numbered.is_some() && id != NewId::Auto && !cx.state.origin.is_replaying {
                return Err(Error::fixed("ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"));
            }
            options.id = Some(id);
            options.fields_at = at + 1;
        }
        options.set_limit(cx, limit, is_add)?;
        if let (Some(trim), Some(references)) = (&mut options.trim, references) {
            trim.references = references;
        }
        Ok(options)
    }

    /// Reads `MAXLEN|MINID [=|~] threshold` at an argument; returns how many arguments that takes.
    fn parse_trim(&mut self, request: Request<'_>, at: usize) -> Result<usize, Error> {
        if self.trim.is_some() {
            return Err(Error::fixed("ERR syntax error, MAXLEN and MINID options at the same time are not compatible"));
        }
        let has_operator = request.len() - 1 - at >= 2 && matches!(request.arg(at + 1), b"=" | b"~");
        let in_blocks = has_operator && request.arg(at + 1) == b"~";
        let threshold = request.arg(at + 1 + usize::from(has_operator));
        let keep = if request.arg(at).eq_ignore_ascii_case(b"maxlen") {
            let count = number::parse_i64(threshold).ok_or(Error::NOT_INTEGER)?;
            Keep::Last(u64::try_from(count).map_err(|_| Error::fixed("ERR The MAXLEN argument must be >= 0."))?)
        } else {
            Keep::From(id::strict(threshold, 0)?)
        };
        self.trim = Some(Trim { keep, in_blocks, removed_max: None, references: References::Keep });
        Ok(2 + usize::from(has_operator))
    }

    /// Limits the work of a trimming by whole blocks: by LIMIT, or by default to a hundred blocks.
    fn set_limit(&mut self, cx: &Cx<'_>, limit: Option<u64>, is_add: bool) -> Result<(), Error> {
        let Some(trim) = &mut self.trim else {
            if limit.is_some_and(|limit| limit != 0) {
                return Err(Error::fixed(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                ));
            }
            return match limit {
                _ if !is_add => {
                    Err(Error::fixed("ERR syntax error, XTRIM must be called with at least one trimming strategy"))
                }
                Some(_) => Err(LIMIT_WITHOUT_TILDE),
                None => Ok(()),
            };
        };
        trim.removed_max = match (limit, trim.in_blocks) {
            // Other servers record LIMIT even after they have replaced `~`.
            (_, false) if cx.state.origin.is_replaying => None,
            (Some(_), false) => return Err(LIMIT_WITHOUT_TILDE),
            (Some(0), true) | (None, false) => None,
            (limit, true) => limit.or(Some(match cx.engine.config.number(Opt::StreamNodeMaxEntries) {
                0 => 10_000,
                entries => entries.saturating_mul(100).min(1_000_000) as u64,
            })),
        };
        Ok(())
    }
}
