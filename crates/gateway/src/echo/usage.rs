//! What an answer tells of the tokens it took.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::stream::Step;
use super::text::{Reply, tokens};

/// What clients of OpenAI's API say of a stream.
#[derive(Default, Deserialize)]
pub(super) struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

/// How usage is told, where the request says that a backend of another kind is to be played (`echo_usage`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Telling {
    /// As the API does it.
    #[default]
    Usual,
    /// Never, asked or not.
    Omit,
    /// In a stream with its first event and with its last.
    Split,
    /// In a stream with every event, as far as it has come.
    Cumulative,
}

/// The tokens of a request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

/// What a chunk says about usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Told {
    /// Nothing: the field is absent.
    Nothing,
    /// That it comes later: `null`.
    Later,
    /// What it is, or has come to.
    Usage(Usage),
}

/// The usage of a stream of chunks, told in the course of it.
pub(super) struct Teller {
    usage: Usage,
    /// How, if it is asked for.
    telling: Option<Telling>,
    said: u64,
}

// === impl Telling ===

impl Telling {
    /// Takes the usage out of an answer that is to have none.
    pub(super) fn apply(self, mut answer: Value) -> Value {
        if self == Self::Omit
            && let Some(fields) = answer.as_object_mut()
        {
            fields.remove("usage");
        }
        answer
    }
}

// === impl Usage ===

impl Usage {
    /// The usage of a prompt of so many bytes that is answered `n` times.
    pub(super) fn new(prompt: usize, reply: &Reply, n: u32) -> Self {
        Self::of(tokens(prompt), reply.tokens() * u64::from(n))
    }

    fn of(prompt_tokens: u64, completion_tokens: u64) -> Self {
        Self { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    }
}

// === impl Told ===

impl Told {
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

// === impl Teller ===

impl Teller {
    pub(super) fn new(usage: Usage, options: Option<&StreamOptions>, telling: Telling) -> Self {
        let is_asked = options.is_some_and(|options| options.include_usage == Some(true));
        let telling = Some(telling).filter(|telling| is_asked && *telling != Telling::Omit);
        Self { usage, telling, said: 0 }
    }

    /// What the chunk of this step says.
    pub(super) fn tell(&mut self, step: &Step<'_>) -> Told {
        if matches!(step, Step::Say(..)) {
            self.said += 1;
        }
        // A piece is a token, but for one that a long character makes longer.
        let said = self.said.min(self.usage.completion_tokens);
        let so_far = Usage::of(self.usage.prompt_tokens, said);
        match (self.telling, step) {
            (None | Some(Telling::Omit), _) => Told::Nothing,
            (Some(_), Step::Close) => Told::Usage(self.usage),
            (Some(Telling::Cumulative), _) | (Some(Telling::Split), Step::Start(0)) => Told::Usage(so_far),
            (Some(_), _) => Told::Later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_told_as_asked() {
        const PARTIAL: fn(u64) -> Told = |said| Told::Usage(Usage::of(10, said));
        let steps = [Step::Start(0), Step::Start(1), Step::Say(0, "a"), Step::Say(1, "a"), Step::Close];
        let check = |asked, telling, expected: [Told; 5]| {
            let options = StreamOptions { include_usage: asked };
            let mut teller = Teller::new(Usage::of(10, 2), Some(&options), telling);
            assert_eq!(steps.each_ref().map(|step| teller.tell(step)), expected, "{asked:?} {telling:?}");
        };
        use Told::{Later, Nothing};
        let asked = Some(true);
        check(asked, Telling::Usual, [Later, Later, Later, Later, PARTIAL(2)]);
        check(asked, Telling::Split, [PARTIAL(0), Later, Later, Later, PARTIAL(2)]);
        check(asked, Telling::Cumulative, [0, 0, 1, 2, 2].map(PARTIAL));
        check(asked, Telling::Omit, [Nothing; 5]);
        check(Some(false), Telling::Cumulative, [Nothing; 5]);
        check(None, Telling::Usual, [Nothing; 5]);
    }
}
