//! The script, what is said to it, and what it says.

use std::sync::LazyLock;

use redis::{Cmd, Value};
use smallvec::SmallVec;

use super::keys::{Keys, probe_bucket};
use super::plan::{Buckets, Line, Lines, Seen};
use crate::bucket::Bucket;
use crate::{BucketKey, Quota, Timestamp};

/// The text of the script.
pub(super) const TEXT: &str = include_str!("script.lua");

/// What the server knows the script by.
static DIGEST: LazyLock<String> = LazyLock::new(|| redis::Script::new(TEXT).get_hash().to_owned());

/// Doubles of eight bytes for each bucket of a request, and of an answer.
const REQUEST_SIZE: usize = 3 * 8;
const STATE_SIZE: usize = 5 * 8;

/// How the script is named in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By its digest: `EVALSHA`.
    Digest,
    /// By its whole text: `EVAL`, which also makes its digest known.
    Text,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Take,
    Peek,
    Settle(Terms),
}

/// What makes a settlement happen once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// Tells it from all others.
    pub(super) id: u128,
    /// The server's time after which it must not happen any more.
    pub(super) not_after: Timestamp,
    /// How long the server remembers that it has happened, in milliseconds.
    pub(super) mark_life: u64,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) lines: Lines<'a>,
    pub(super) asked: Asked,
    /// Repeated by the answer, so that the answer to another request is noticed.
    pub(super) nonce: u64,
    /// The time, in tests.
    pub(super) now: Option<Timestamp>,
}

/// What the script made of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Granted,
    Denied,
    Settled,
    /// It had been settled before.
    Repeated,
    /// It was too late to settle it, and nothing was done.
    Expired,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) verdict: Verdict,
    /// Without buckets if it was too late.
    pub(super) seen: Seen,
}

/// What an answer has that it should not have.
pub(super) type Nonsense = &'static str;

impl Request<'_> {
    pub(super) fn command(&self, form: Form, keys: &Keys) -> Cmd {
        let count = self.lines.len();
        let mark = match self.asked {
            Asked::Settle(terms) => Some(keys.mark(&self.mark_bucket(), terms.id)),
            Asked::Take | Asked::Peek => None,
        };
        let script = match form {
            Form::Digest => ("EVALSHA", DIGEST.as_str()),
            Form::Text => ("EVAL", TEXT),
        };
        let size = 192 + script.1.len() + count * (keys.longest() + REQUEST_SIZE);
        let mut command = Cmd::with_capacity(count + 8, size);
        command.arg(script.0).arg(script.1).arg(count + usize::from(mark.is_some()));
        for line in self.lines.iter() {
            command.arg(keys.bucket(&line.key).as_slice());
        }
        if let Some(mark) = mark {
            command.arg(mark.as_slice());
        }
        command.arg(self.head().as_slice());
        let mut items = SmallVec::<[u8; 8 * REQUEST_SIZE]>::new();
        for Line { quota, amount, .. } in self.lines.iter() {
            let item = [signed(amount), unsigned(quota.capacity()), unsigned(quota.refill_per_day())];
            items.extend_from_slice(item.as_flattened());
        }
        command.arg(items.as_slice());
        if let Some(now) = self.now {
            command.arg(now.as_micros());
        }
        command
    }

    pub(super) fn decode(&self, answer: Value) -> Result<Answer, Nonsense> {
        let Value::BulkString(bytes) = answer else { return Err("not a string of bytes") };
        let head = self.head();
        let (letter, rest) = bytes.split_first().ok_or("nothing")?;
        let rest = rest.strip_prefix(head.as_slice()).ok_or("the answer to another request")?;
        let verdict = match (letter, self.asked) {
            (b'g', Asked::Take | Asked::Peek) => Verdict::Granted,
            (b'd', Asked::Take | Asked::Peek) => Verdict::Denied,
            (b's', Asked::Settle(_)) => Verdict::Settled,
            (b'r', Asked::Settle(_)) => Verdict::Repeated,
            (b'x', Asked::Settle(_)) => Verdict::Expired,
            _ => return Err("an unknown verdict"),
        };
        let (now, states) = rest.split_first_chunk().ok_or("no time")?;
        let now = Timestamp::from_micros(natural(u64::from_le_bytes(*now))?);
        let expected = if verdict == Verdict::Expired { 0 } else { self.lines.len() };
        if states.len() != expected * STATE_SIZE {
            return Err("too many or too few buckets");
        }
        let states = States { from: bytes.len() - states.len(), bytes };
        Ok(Answer { verdict, seen: Seen { now, buckets: Buckets::Sent(states) } })
    }

    /// The bucket whose slot the mark is in.
    fn mark_bucket(&self) -> BucketKey {
        self.lines.iter().next().map_or(probe_bucket(0), |line| line.key)
    }

    fn head(&self) -> SmallVec<[u8; 32]> {
        let mut head = SmallVec::new();
        let letter = match self.asked {
            Asked::Take => b't',
            Asked::Peek => b'p',
            Asked::Settle(_) => b's',
        };
        head.push(letter);
        head.extend_from_slice(&self.nonce.to_le_bytes());
        if let Asked::Settle(terms) = self.asked {
            head.extend_from_slice(&unsigned(terms.not_after.as_micros()));
            head.extend_from_slice(&unsigned(terms.mark_life));
        }
        head
    }
}

/// What was stored of each bucket, as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct States {
    bytes: Vec<u8>,
    from: usize,
}

impl States {
    /// What was stored of the bucket in this place.
    #[inline]
    pub(super) fn get(&self, place: usize) -> Result<Option<Bucket>, Nonsense> {
        let begin = self.from + place * STATE_SIZE;
        state(self.bytes.get(begin..begin + STATE_SIZE).ok_or("too few buckets")?)
    }
}

#[inline]
fn state(bytes: &[u8]) -> Result<Option<Bucket>, Nonsense> {
    let mut words = [0; STATE_SIZE / 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().map_err(|_| "half a number")?);
    }
    if words == [0; STATE_SIZE / 8] {
        return Ok(None);
    }
    let [units, part, at, capacity, refill] = words;
    let quota = Quota::from_parts(natural(capacity)?, natural(refill)?).ok_or("an impossible quota")?;
    let at = Timestamp::from_micros(natural(at)?);
    let bucket = Bucket::restore(whole(units)?, natural(part)?, at, quota);
    bucket.map(Some).ok_or("an impossible content")
}

/// The integer that a double is, given by its bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "if anything is cut off, the two differ")]
fn whole(bits: u64) -> Result<i64, Nonsense> {
    const LARGEST: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
    let double = f64::from_bits(bits);
    let whole = double as i64;
    if double.abs() < LARGEST && whole as f64 == double { Ok(whole) } else { Err("not an integer") }
}

#[inline]
fn natural(bits: u64) -> Result<u64, Nonsense> {
    u64::try_from(whole(bits)?).map_err(|_| "a negative number")
}

// Everything that is sent is below 2^53, which a double holds exactly: amounts and quotas by their types, and times
// for the next two centuries.

fn signed(number: i64) -> [u8; 8] {
    (number as f64).to_le_bytes()
}

fn unsigned(number: u64) -> [u8; 8] {
    (number as f64).to_le_bytes()
}
