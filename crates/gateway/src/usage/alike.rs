//! Events that begin alike: most of a stream are the same but for a word of text.

use super::glance::string;

/// Longer events are read whole each time.
const LONGEST: usize = 1_024;
/// After so many beginnings in a row that were not met again, no more are learnt: some backends number their events.
const MOST_IN_VAIN: u8 = 8;

/// Where an event has its output, if that is one string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// Where the string begins, with its quote.
    pub(super) start: usize,
    /// Where the string ends, behind its quote.
    pub(super) end: usize,
    /// Where the value ends that it is in, or that it is.
    pub(super) value_end: usize,
}

/// An earlier event, to which others are compared.
#[derive(Debug, Default)]
pub(super) struct Alike {
    event: Vec<u8>,
    /// Bytes up to the output, with the opening quote.
    before: usize,
    /// From there on, what comes between the closing quote and the end of the value.
    closing: usize,
    in_vain: u8,
}

/// What of an event is known already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known<'a> {
    /// Bytes of its output text.
    pub(super) output_bytes: u64,
    /// What remains to be read. What was read before has nothing else.
    pub(super) rest: &'a [u8],
}

impl Alike {
    /// Reads an event that begins like the earlier one.
    #[inline]
    pub(super) fn read<'a>(&mut self, event: &'a [u8]) -> Option<Known<'a>> {
        let (before, behind) = self.event.split_at_checked(self.before)?;
        let quote = before.len().checked_sub(1)?;
        if !event.starts_with(before) {
            return None;
        }
        let (output_bytes, length) = string(event.get(quote..)?)?;
        let rest = event.get(quote + length..)?;
        // Once met, it is met again.
        self.in_vain = 0;
        if rest == behind {
            return Some(Known { output_bytes, rest: &[] });
        }
        let (closing, _) = behind.split_at_checked(self.closing)?;
        if !is_end_of_value(rest) {
            return None;
        }
        Some(Known { output_bytes, rest: rest.strip_prefix(closing)? })
    }

    /// Keeps an event whose only output is at `spot`, and that has no usage.
    #[cold]
    pub(super) fn learn(&mut self, event: &[u8], Spot { start, end, value_end }: Spot) {
        let (Some(before), Some(behind)) = (event.get(..=start), event.get(end..)) else { return };
        if event.len() > LONGEST || !is_end_of_value(behind) {
            return;
        }
        self.event.clear();
        if self.in_vain == MOST_IN_VAIN {
            self.event = Vec::new();
            return;
        }
        self.in_vain += 1;
        self.event.extend_from_slice(before);
        self.event.extend_from_slice(behind);
        (self.before, self.closing) = (before.len(), value_end.saturating_sub(end));
    }
}

/// Whether a string before `behind` is a value. Not even `"usage"` is a key then.
fn is_end_of_value(behind: &[u8]) -> bool {
    matches!(behind.first(), Some(b',' | b'}' | b']'))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::usage::{glance, openai};

    fn known(events: &[&str]) -> Vec<Option<u64>> {
        let mut alike = Alike::default();
        events.iter().map(|event| glance::read(&openai::DELTAS, &mut alike, event.as_bytes())).collect()
    }

    #[test]
    fn what_differs_is_the_text() {
        let mut alike = Alike::default();
        let event =
            |text: &str, rest: &str| format!("{{\"id\":7,\"delta\":{{\"content\":\"{text}\"}}{rest}}}");
        let first = event("first", "");
        assert_eq!(alike.read(first.as_bytes()), None);
        assert_eq!(glance::read(&openai::DELTAS, &mut alike, first.as_bytes()), Some(5));
        let read = |alike: &mut Alike, event: &str| {
            alike.read(event.as_bytes()).map(|known| (known.output_bytes, known.rest.len()))
        };
        assert_eq!(read(&mut alike, &event("a\\\"b", "")), Some((3, 0)));
        assert_eq!(read(&mut alike, &event("", ",\"x\":1")), Some((0, 7)));
        assert_eq!(read(&mut alike, &event("a\"b", "")), None);
        assert_eq!(read(&mut alike, &event("\\u00e9", "")), None, "left to others");
        assert_eq!(read(&mut alike, &event("a", "").replace('7', "8")), None);
    }

    #[test]
    fn events_that_never_begin_alike_are_soon_no_longer_learnt() {
        let mut alike = Alike::default();
        for number in 0..20 {
            let event = format!("{{\"number\":{number},\"delta\":\"text\"}}");
            assert_eq!(glance::read(&openai::DELTAS, &mut alike, event.as_bytes()), Some(4));
        }
        assert_eq!((alike.event.capacity(), alike.in_vain), (0, MOST_IN_VAIN));
    }

    #[test]
    fn a_usage_is_found_behind_what_is_known() {
        let before = r#"{"delta":"text","usage":null}"#;
        for (event, expected) in [
            (r#"{"delta":"usage","usage":null}"#, Some(5)),
            (r#"{"delta":"usage","delta":"ab","usage":null}"#, Some(7)),
            (r#"{"delta":"text","usage":{"total_tokens":1}}"#, None),
            (r#"{"delta":"usage":{"total_tokens":1}}"#, None),
        ] {
            assert_eq!(known(&[before, event])[1], expected, "{event}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn what_is_known_changes_nothing(
            events in vec(
                (0_usize..3, "(usage|delta|\"|\\\\|\\\\\"|\\\\u00e9|:|,|\\{|\\}|\n| |a){0,5}", 0_usize..8, any::<bool>()),
                1..12,
            ),
        ) {
            let mut alike = Alike::default();
            for (before, text, behind, is_object) in events {
                let before = [r#"{"id":1,"#, r#"{"id":2,"usage":null, "#, "data: {"][before];
                let behind = [
                    "}", ",\"usage\":null}", ",\"usage\":{\"total_tokens\":7}}", ":{}}", ",\"delta\":\"b\"}\n\n",
                    ",\"delta\":{\"content\":\"b\", \"role\":\"x\"},\"usage\":null}", "", ",\"x\":\"usage\",\"usage\":7}",
                ][behind];
                let delta = if is_object { format!("{{\"content\":\"{text}\",\"role\":null}}") } else { format!("\"{text}\"") };
                let event = format!("{before}\"delta\":{delta}{behind}");
                let expected = glance::read(&openai::DELTAS, &mut Alike::default(), event.as_bytes());
                let found = glance::read(&openai::DELTAS, &mut alike, event.as_bytes());
                prop_assert_eq!(found, expected, "{}", event);
            }
        }
    }
}
