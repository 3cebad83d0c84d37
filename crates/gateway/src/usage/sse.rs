//! Server-sent events in chunks that may break anywhere.
//!
//! What is read is what the [event stream format](https://html.spec.whatwg.org/multipage/server-sent-events.html) calls an
//! event's data, and where events end. Names, ids and comments are passed over: the JSON of every API that is watched says
//! by itself what it is. Nothing is kept of what was read, so that an event may be as long as it likes.

use memchr::memchr2;

/// What may stand once at the beginning of a stream.
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];
const DATA: &[u8; 4] = b"data";

/// Takes the data of events. Line breaks within data are given as a line feed; there may be one more at the end.
pub(super) trait EventData {
    /// Events with all there is between them. `false` if they are to be given one by one instead.
    fn events(&mut self, chunk: &[u8]) -> bool;

    /// All data of one event, which has no line break in it.
    fn whole(&mut self, data: &[u8]);

    /// The next piece of an event's data.
    fn piece(&mut self, piece: &[u8]);
}

/// How far one reading came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Bytes that belong to the present event.
    pub(super) len: usize,
    /// Whether the event ends with them. Otherwise they were the last of the chunk.
    pub(super) ended: bool,
}

/// Reads events one after another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventParser {
    place: Place,
    /// The last byte was a carriage return that ended a line: a line feed now belongs to it.
    after_return: bool,
    /// The present event has data.
    has_data: bool,
    /// Bytes of the byte order mark that were met; all of them also where there is none.
    mark: u8,
}

/// Where in a line the next byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    LineStart,
    /// In a field's name, which so far is as many bytes of `data`.
    Name(u8),
    /// Behind `data:`, where a space may follow.
    Colon,
    /// In the value of `data`.
    Value,
    /// In what does not matter.
    Rest,
}

// === impl EventParser ===

impl EventParser {
    /// Reads to the end of the present event, or of the chunk.
    ///
    /// An empty line that has no event before it counts as an event without data.
    pub(super) fn read(&mut self, chunk: &[u8], data: &mut impl EventData) -> Step {
        let mut at = self.skip_mark(chunk);
        while let Some(&byte) = chunk.get(at) {
            if std::mem::take(&mut self.after_return) && byte == b'\n' {
                at += 1;
                continue;
            }
            match self.place {
                Place::LineStart => {
                    if is_line_end(byte) {
                        let len = self.end_line(chunk, at);
                        self.has_data = false;
                        return Step { len, ended: true };
                    }
                    if chunk.get(at..).is_some_and(|rest| rest.starts_with(b"data:")) {
                        (self.place, at) = (Place::Colon, at + DATA.len() + 1);
                    } else {
                        self.place = Place::Name(0);
                    }
                }
                Place::Name(met) => at = self.read_name(chunk, at, met, data),
                Place::Colon => {
                    at += usize::from(byte == b' ');
                    at = self.read_value(chunk, at, true, data);
                }
                Place::Value => at = self.read_value(chunk, at, false, data),
                Place::Rest => {
                    at = match memchr2(b'\n', b'\r', &chunk[at..]) {
                        Some(offset) => self.end_line(chunk, at + offset),
                        None => chunk.len(),
                    };
                }
            }
        }
        Step { len: at, ended: false }
    }

    /// Reads a chunk of nothing but whole events at once, without a look at its lines. `false` if it is none, or if they have
    /// to be looked at, and nothing was read.
    pub(super) fn read_whole(&mut self, chunk: &[u8], data: &mut impl EventData) -> bool {
        let in_mark = matches!(self.mark, 1 | 2);
        let is_fresh = self.place == Place::LineStart && !self.has_data && !self.after_return && !in_mark;
        // Two line feeds end a line and then an event, whatever there is before them.
        let read = is_fresh && chunk.ends_with(b"\n\n") && data.events(chunk);
        if read {
            self.mark = 3;
        }
        read
    }

    /// Whether a line feed at the beginning of `chunk` still belongs to the event that has ended. Asked at the beginning of
    /// an event only.
    pub(super) fn ends_late(&mut self, chunk: &[u8]) -> bool {
        let late = self.after_return && chunk.first() == Some(&b'\n');
        self.after_return &= !late;
        late
    }

    fn skip_mark(&mut self, chunk: &[u8]) -> usize {
        let mut at = 0;
        while let Some(&due) = BYTE_ORDER_MARK.get(usize::from(self.mark)) {
            match chunk.get(at) {
                Some(&byte) if byte == due => (self.mark, at) = (self.mark + 1, at + 1),
                Some(_) => {
                    // A part of it is the beginning of some name.
                    if self.mark > 0 {
                        self.place = Place::Rest;
                    }
                    self.mark = 3;
                }
                None => break,
            }
        }
        at
    }

    /// Goes on with a field's name byte by byte: it is rare, or broken by the end of a chunk.
    fn read_name(&mut self, chunk: &[u8], at: usize, met: u8, data: &mut impl EventData) -> usize {
        let (Some(&byte), all) = (chunk.get(at), usize::from(met) == DATA.len()) else { return at };
        if DATA.get(usize::from(met)) == Some(&byte) {
            self.place = Place::Name(met + 1);
        } else if all && byte == b':' {
            self.place = Place::Colon;
        } else if is_line_end(byte) {
            if all {
                // A name alone is a field with an empty value.
                self.has_data = true;
                data.piece(b"\n");
            }
            return self.end_line(chunk, at);
        } else {
            self.place = Place::Rest;
        }
        at + 1
    }

    fn read_value(
        &mut self,
        chunk: &[u8],
        at: usize,
        from_its_beginning: bool,
        data: &mut impl EventData,
    ) -> usize {
        let rest = chunk.get(at..).unwrap_or_default();
        let Some(length) = memchr2(b'\n', b'\r', rest) else {
            self.place = Place::Value;
            self.has_data = true;
            data.piece(rest);
            return chunk.len();
        };
        let value = &rest[..length];
        let next = self.end_line(chunk, at + length);
        let alone = from_its_beginning && !self.has_data;
        self.has_data = true;
        if alone && chunk.get(next).is_some_and(|&byte| is_line_end(byte)) {
            data.whole(value);
        } else {
            data.piece(value);
            data.piece(b"\n");
        }
        next
    }

    /// Passes over the line end at `at`, as far as the chunk has it.
    fn end_line(&mut self, chunk: &[u8], at: usize) -> usize {
        self.place = Place::LineStart;
        if chunk.get(at) != Some(&b'\r') {
            return at + 1;
        }
        match chunk.get(at + 1) {
            Some(b'\n') => at + 2,
            Some(_) => at + 1,
            None => {
                self.after_return = true;
                at + 1
            }
        }
    }
}

const fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The data of the events that have ended, and the bytes of each.
    #[derive(Debug, Default, PartialEq)]
    struct Log {
        open: Vec<u8>,
        events: Vec<(String, String)>,
        wholes: usize,
    }

    impl EventData for Log {
        fn events(&mut self, _: &[u8]) -> bool {
            true
        }

        fn whole(&mut self, data: &[u8]) {
            self.wholes += 1;
            self.open.extend_from_slice(data);
        }

        fn piece(&mut self, piece: &[u8]) {
            self.open.extend_from_slice(piece);
        }
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Reads a stream in chunks.
    fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Log {
        let (mut parser, mut log, mut bytes) = (EventParser::default(), Log::default(), Vec::new());
        for mut chunk in chunks {
            while !chunk.is_empty() {
                if bytes.is_empty() && parser.ends_late(chunk) {
                    log.events.last_mut().unwrap().1.push('\n');
                    chunk = &chunk[1..];
                    continue;
                }
                let step = parser.read(chunk, &mut log);
                assert!(step.len > 0 && (step.ended || step.len == chunk.len()));
                bytes.extend_from_slice(&chunk[..step.len]);
                chunk = &chunk[step.len..];
                if step.ended {
                    let data = text(&std::mem::take(&mut log.open));
                    log.events.push((data.trim_end_matches('\n').into(), text(&std::mem::take(&mut bytes))));
                }
            }
        }
        log
    }

    fn check(stream: &str, events: &[(&str, &str)]) {
        let expected: Vec<_> = events.iter().map(|&(data, bytes)| (data.into(), bytes.into())).collect();
        for cut in 0..=stream.len() {
            let (one, two) = stream.as_bytes().split_at(cut);
            assert_eq!(read([one, two]).events, expected, "cut at {cut} of {stream:?}");
        }
        assert_eq!(read(stream.as_bytes().chunks(1)).events, expected, "byte by byte");
    }

    #[test]
    fn events_end_with_an_empty_line_of_any_kind() {
        check("data: a\n\ndata: b\n\n", &[("a", "data: a\n\n"), ("b", "data: b\n\n")]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &[("a", "data: a\r\n\r\n"), ("b", "data: b\r\n\r\n")]);
        check("data: a\r\rdata: b\r\r", &[("a", "data: a\r\r"), ("b", "data: b\r\r")]);
        check("data: a\n\r\ndata: b\r\n\n", &[("a", "data: a\n\r\n"), ("b", "data: b\r\n\n")]);
    }

    #[test]
    fn a_space_behind_the_colon_is_no_data() {
        check("data:a\n\ndata:  b\n\n", &[("a", "data:a\n\n"), (" b", "data:  b\n\n")]);
    }

    #[test]
    fn lines_of_data_are_joined() {
        check("data: a\ndata\ndata: é\n\n", &[("a\n\né", "data: a\ndata\ndata: é\n\n")]);
    }

    #[test]
    fn other_fields_and_comments_are_passed_over() {
        let stream =
            ": hello\n\nevent: data\nid: 7\ndata: a\nretry: 5\n:\n\ndatum: b\ndat\ndataset: c\ndata: d\n\n";
        check(
            stream,
            &[
                ("", ": hello\n\n"),
                ("a", "event: data\nid: 7\ndata: a\nretry: 5\n:\n\n"),
                ("d", "datum: b\ndat\ndataset: c\ndata: d\n\n"),
            ],
        );
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_at_the_beginning_only() {
        check("\u{FEFF}data: a\n\n", &[("a", "\u{FEFF}data: a\n\n")]);
        check("\u{FEFF}\u{FEFF}data: a\n\n", &[("", "\u{FEFF}\u{FEFF}data: a\n\n")]);
        check("data: a\n\n\u{FEFF}data: b\n\n", &[("a", "data: a\n\n"), ("", "\u{FEFF}data: b\n\n")]);
        check("\u{FB01}x\ndata: a\n\n", &[("a", "\u{FB01}x\ndata: a\n\n")]);
    }

    #[test]
    fn an_event_without_its_end_stays_open() {
        let log = read([b"data: a\n\ndata: b\ndata: c".as_slice()]);
        assert_eq!((log.events.len(), text(&log.open).as_str()), (1, "b\nc"));
    }

    #[test]
    fn what_lies_in_one_chunk_is_given_whole() {
        assert_eq!(read([b"event: x\ndata: a\n\ndata: b\r\n\r\n".as_slice()]).wholes, 2);
        assert_eq!(read([b"data: a\nid: 1\n\n".as_slice()]).wholes, 0, "another line might go on");
        assert_eq!(read([b"data: a\n".as_slice(), b"\n"]).wholes, 0);
    }

    #[test]
    fn whole_events_are_read_at_once() {
        let check = |before: &str, chunk: &str, whole: bool| {
            let (mut parser, mut log) = (EventParser::default(), Log::default());
            let mut rest = before.as_bytes();
            while !rest.is_empty() {
                rest = &rest[parser.read(rest, &mut log).len..];
            }
            assert_eq!(parser.read_whole(chunk.as_bytes(), &mut log), whole, "{chunk:?} after {before:?}");
        };
        check("", "data: a\n\n: b\n\ndata: c\n\n", true);
        check("", "\u{FEFF}data: a\n\n", true);
        check("data: a\n\n", "data: b\r\n\n", true);
        check("event: a\n", "data: b\n\n", true);
        check("", "data: a\n", false);
        check("data: a\n", "data: b\n\n", false);
        check("event: a", "\n\n", false);
        check("data: a\n\r", "\n\n", false);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn chunks_make_no_difference(
            stream in "(data|da|: |:|x|é|\u{FEFF}|\r|\n|\r\n){0,40}",
            sizes in prop::collection::vec(1_usize..6, 0..60),
        ) {
            let (whole, mut rest) = (read([stream.as_bytes()]), stream.as_bytes());
            let mut chunks = Vec::new();
            for size in sizes {
                let (chunk, left) = rest.split_at(size.min(rest.len()));
                chunks.push(chunk);
                rest = left;
            }
            chunks.push(rest);
            let cut = read(chunks);
            prop_assert_eq!((cut.events, text(&cut.open)), (whole.events, text(&whole.open)));
        }
    }
}
