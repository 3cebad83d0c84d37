//! The few fields that are read from a JSON body, without building the rest of it.
//!
//! A backend may read the same body by other rules: the last of two equal keys, or keys in any case. What two readers could
//! read differently is refused, so that the model that is charged and allowed is the one that is served, and the tokens
//! that are charged are those that may be used.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::{
    Counting, OutputCap, Reading, StreamUsage, TokenAsk,
    estimator::Part,
    keys::{Field, Fields, is_variant},
    prompt, stream_usage,
};
use crate::answer::Fault;

pub(super) fn read(body: &Bytes, counting: Option<Counting>) -> Result<Reading, Fault> {
    let mut top = Top { fields: counting.map_or(&[], |counting| counting.api.fields()), ..Top::default() };
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = top.deserialize(&mut json).and_then(|()| json.end());
    if let Err(error) = read {
        return Err(top.fault.take().unwrap_or_else(|| {
            Fault::invalid(format!("The request's body cannot be read as a JSON object: {error}."))
        }));
    }
    let tokens = counting.map(|counting| top.tokens(body, counting)).transpose()?.map(Box::new);
    Ok(Reading { model: top.model.map(Into::into), stream: top.stream, tokens })
}

/// What has been read at the top of a body.
#[derive(Default)]
struct Top<'a> {
    fields: Fields,
    model: Option<Cow<'a, str>>,
    stream: bool,
    parts: SmallVec<[Part<'a>; 4]>,
    /// How many prompts there are, if there may be several.
    prompts: Option<u64>,
    cap: Option<u64>,
    answers: Option<u64>,
    stream_options: Option<&'a str>,
    /// What is wrong, where more can be said of it than where it stands.
    fault: Option<Fault>,
}

/// A member that is read.
struct Known {
    /// Its number among them.
    index: usize,
    name: &'static str,
    /// What it says of tokens, if it does.
    field: Option<Field>,
}

/// The members that are read of every body.
const MODEL: &str = "model";
const STREAM: &str = "stream";

impl<'de> DeserializeSeed<'de> for &mut Top<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Top<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let mut seen = 0_u32;
        while let Some(Text(key)) = map.next_key()? {
            let Some(Known { index, name, field }) = self.find(&key).map_err(|fault| self.fail(fault))?
            else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let bit = 1 << index;
            if seen & bit != 0 {
                return Err(self.fail(fault(name, format!("The request gives `{name}` twice."))));
            }
            seen |= bit;
            match field {
                None if name == MODEL => {
                    self.model = map.next_value::<Option<Text<'de>>>()?.map(|Text(model)| model);
                }
                None => self.stream = map.next_value::<Option<bool>>()?.unwrap_or(false),
                Some(field) => {
                    let value: &'de RawValue = map.next_value()?;
                    self.take(name, field, value.get()).map_err(|fault| self.fail(fault))?;
                }
            }
        }
        Ok(())
    }
}

impl<'a> Top<'a> {
    /// The member called `key`, if it is one that is read.
    fn find(&self, key: &str) -> Result<Option<Known>, Fault> {
        let fields = self.fields.iter().map(|&(name, field)| (name, Some(field)));
        let mut known = [(MODEL, None), (STREAM, None)].into_iter().chain(fields).enumerate();
        let found = known.clone().find(|(_, (name, _))| *name == key);
        if let Some((index, (name, field))) = found {
            return Ok(Some(Known { index, name, field }));
        }
        match known.find(|(_, (name, _))| is_variant(key, name)) {
            Some((_, (name, _))) => Err(fault(name, format!("`{name}` is spelt in lower case."))),
            None => Ok(None),
        }
    }

    /// Keeps what a member says of tokens.
    fn take(&mut self, name: &'static str, field: Field, json: &'a str) -> Result<(), Fault> {
        match field {
            Field::StreamOptions => self.stream_options = Some(json),
            // As good as absent.
            _ if json == "null" => {}
            Field::Prompt | Field::Prompts => {
                if !json.starts_with(['"', '[', '{']) {
                    return Err(fault(name, format!("`{name}` is neither text nor made of parts.")));
                }
                self.parts.push(Part::Content(json));
                if field == Field::Prompts {
                    self.prompts = Some(prompt::prompts(json));
                }
            }
            Field::Schema => self.parts.push(Part::Schema(json)),
            Field::Cap => self.cap = self.cap.max(Some(whole_number(name, json, 0)?)),
            Field::Answers => self.answers = self.answers.max(Some(whole_number(name, json, 1)?)),
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
        Ok(TokenAsk { prompt: estimator.size(self.model.as_deref(), &self.parts), output, usage })
    }

    /// Keeps `fault`, for it says more than an error of the reader can.
    fn fail<E: serde::de::Error>(&mut self, fault: Fault) -> E {
        self.fault = Some(fault);
        E::custom("refused")
    }
}

/// A whole number of at least `least`.
pub(super) fn whole_number(name: &'static str, json: &str, least: u64) -> Result<u64, Fault> {
    let is_whole = !json.is_empty() && json.bytes().all(|byte| byte.is_ascii_digit());
    // Nothing holds more than the largest number: what is beyond it is that.
    let number = is_whole.then(|| json.parse().unwrap_or(u64::MAX));
    number
        .filter(|number| *number >= least)
        .ok_or_else(|| fault(name, format!("`{name}` is not a whole number of at least {least}.")))
}

/// What is wrong with the member `param`.
pub(super) const fn fault(param: &'static str, message: String) -> Fault {
    Fault::Invalid { message, param: Some(param) }
}

/// A string that is borrowed where it has no escapes.
#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);
