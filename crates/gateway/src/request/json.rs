//! The few fields that are read from a JSON body, without building the rest of it.
//!
//! A backend may read the same body by other rules: the last of two equal keys, or keys in any case. What two readers could
//! read differently is refused, so that the model that is charged and allowed is the one that is served, and the tokens
//! that are charged are those that may be used.

use bytes::Bytes;
use serde::de::IgnoredAny;
use smallvec::SmallVec;

use super::{
    Counting, OutputCap, PromptSize, Reading, StreamUsage, TokenAsk,
    estimator::Part,
    keys::{Field, Fields, is_variant},
    prompt,
    scan::{NotJson, Scan},
    stream_usage,
    string::Quoted,
};
use crate::answer::Fault;

pub(super) fn read(body: &Bytes, counting: Option<Counting>) -> Result<Reading, Fault> {
    let mut top = Top { fields: counting.map_or(&[], |counting| counting.api.fields()), ..Top::default() };
    top.read(&mut Scan::new(body)).map_err(|wrong| match wrong {
        Wrong::Field(fault) => fault,
        Wrong::Json(NotJson) => not_json(body),
    })?;
    let tokens = counting.map(|counting| top.tokens(body, counting)).transpose()?.map(Box::new);
    Ok(Reading { model: top.model, stream: top.stream, tokens })
}

/// What has been read at the top of a body.
#[derive(Default)]
struct Top<'a> {
    fields: Fields,
    model: Option<Box<str>>,
    stream: bool,
    prompt: PromptSize,
    parts: SmallVec<[Part<'a>; 4]>,
    /// How many prompts there are, if there may be several.
    prompts: Option<u64>,
    cap: Option<u64>,
    answers: Option<u64>,
    stream_options: Option<&'a [u8]>,
}

/// Why a body is refused.
enum Wrong {
    Json(NotJson),
    Field(Fault),
}

impl From<NotJson> for Wrong {
    fn from(error: NotJson) -> Self {
        Self::Json(error)
    }
}

impl From<Fault> for Wrong {
    fn from(fault: Fault) -> Self {
        Self::Field(fault)
    }
}

/// What is read of a member.
#[derive(Clone, Copy)]
enum Read {
    Model,
    Stream,
    Tokens(Field),
}

/// A member that is read.
struct Known {
    /// Its number among them.
    index: usize,
    name: &'static str,
    read: Read,
}

impl<'a> Top<'a> {
    fn read(&mut self, scan: &mut Scan<'a>) -> Result<(), Wrong> {
        if scan.peek() != b'{' {
            return Err(NotJson.into());
        }
        let mut seen = 0_u32;
        let mut more = scan.open(b'}');
        while more {
            let name = scan.name()?;
            if let Some(Known { index, name, read }) = self.find(&name)? {
                let bit = 1 << index;
                if seen & bit != 0 {
                    return Err(fault(name, format!("The request gives `{name}` twice.")).into());
                }
                seen |= bit;
                self.take(name, read, scan)?;
            } else {
                scan.skip()?;
            }
            more = scan.more(b'}')?;
        }
        if scan.is_at_end() { Ok(()) } else { Err(NotJson.into()) }
    }

    /// The member called `key`, if it is one that is read.
    fn find(&self, key: &Quoted<'_>) -> Result<Option<Known>, Wrong> {
        let text = key.text();
        let fields = self.fields.iter().map(|&(name, field)| (name, Read::Tokens(field)));
        let mut known =
            [("model", Read::Model), ("stream", Read::Stream)].into_iter().chain(fields).enumerate();
        let found = known.clone().find(|(_, (name, _))| name.as_bytes() == &*text);
        if let Some((index, (name, read))) = found {
            return Ok(Some(Known { index, name, read }));
        }
        // It might be a name to a reader that mends it.
        let key = std::str::from_utf8(&text).map_err(|_| NotJson)?;
        match known.find(|(_, (name, _))| is_variant(key, name)) {
            Some((_, (name, _))) => Err(fault(name, format!("`{name}` is spelt in lower case.")).into()),
            None => Ok(None),
        }
    }

    /// Takes the value of a member that is read.
    fn take(&mut self, name: &'static str, read: Read, scan: &mut Scan<'a>) -> Result<(), Wrong> {
        match read {
            Read::Model => self.model = model(name, scan.skip()?)?,
            Read::Stream => {
                self.stream = match scan.skip()? {
                    b"true" => true,
                    b"false" | b"null" => false,
                    _ => return Err(fault(name, format!("`{name}` is neither true nor false.")).into()),
                };
            }
            Read::Tokens(Field::Prompt | Field::Prompts)
                if !matches!(scan.peek(), b'"' | b'[' | b'{' | b'n') =>
            {
                scan.skip()?;
                return Err(fault(name, format!("`{name}` is neither text nor made of parts.")).into());
            }
            Read::Tokens(field @ (Field::Prompt | Field::Prompts)) => {
                let part = Part::take(scan, false, &mut self.prompt)?;
                if field == Field::Prompts {
                    self.prompts = Some(prompt::count_prompts(&mut Scan::new(part.json))?);
                }
                self.parts.push(part);
            }
            Read::Tokens(Field::Schema) => self.parts.push(Part::take(scan, true, &mut self.prompt)?),
            Read::Tokens(Field::Cap) => self.cap = self.cap.max(number(name, scan.skip()?, 0)?),
            Read::Tokens(Field::Answers) => self.answers = self.answers.max(number(name, scan.skip()?, 1)?),
            Read::Tokens(Field::StreamOptions) => self.stream_options = Some(scan.skip()?),
        }
        Ok(())
    }

    /// What the body asks for in tokens.
    fn tokens(&self, body: &Bytes, counting: Counting) -> Result<TokenAsk, Fault> {
        let Counting { api, estimator } = counting;
        let usage = if self.stream && api.streams_usage_on_demand() {
            stream_usage::read(body, self.stream_options)?
        } else {
            StreamUsage::Unasked
        };
        let output = if api.has_output() {
            OutputCap {
                per_answer: self.cap,
                answers: self.answers.unwrap_or(1).saturating_mul(self.prompts.unwrap_or(1)),
            }
        } else {
            OutputCap::NONE
        };
        let prompt = estimator.size(self.model.as_deref(), &self.parts, self.prompt);
        Ok(TokenAsk { prompt, output, usage })
    }
}

/// What is wrong with a body that is no JSON object, in the words of a reader that is slower and says where.
fn not_json(body: &[u8]) -> Fault {
    let error = match serde_json::from_slice::<std::collections::HashMap<String, IgnoredAny>>(body) {
        Err(error) => format!(": {error}"),
        Ok(_) => String::new(),
    };
    Fault::invalid(format!("The request's body cannot be read as a JSON object{error}."))
}

/// A string, or null.
fn model(name: &'static str, json: &[u8]) -> Result<Option<Box<str>>, Fault> {
    // Nearly always it has no escapes, and is read at a glance.
    if let [b'"', text @ .., b'"'] = json
        && memchr::memchr(b'\\', text).is_none()
        && let Ok(text) = std::str::from_utf8(text)
    {
        return Ok(Some(text.into()));
    }
    serde_json::from_slice(json).map_err(|_| fault(name, format!("`{name}` is not a string.")))
}

/// A whole number of at least `least`, or null.
fn number(name: &'static str, json: &[u8], least: u64) -> Result<Option<u64>, Fault> {
    if json == b"null" { Ok(None) } else { whole_number(name, json, least).map(Some) }
}

/// A whole number of at least `least`.
pub(super) fn whole_number(name: &'static str, text: &[u8], least: u64) -> Result<u64, Fault> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    // Nothing holds more than the largest number: what is beyond it is that.
    let number = text
        .iter()
        .try_fold(0_u64, |number, byte| Some(number.saturating_mul(10).saturating_add(digit(byte)?)));
    number
        .filter(|number| *number >= least && !text.is_empty())
        .ok_or_else(|| fault(name, format!("`{name}` is not a whole number of at least {least}.")))
}

/// What is wrong with the member `param`.
pub(super) const fn fault(param: &'static str, message: String) -> Fault {
    Fault::Invalid { message, param: Some(param) }
}
