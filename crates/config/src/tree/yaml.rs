//! YAML 1.2 with the core schema.

use std::{borrow::Cow, collections::HashMap};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};
use serde_json::Number;

use super::{Entries, Entry, MOST_DEPTH, Node, Parsed, Value, number, syntax, too_deep};
use crate::diagnostic::{Diagnostic, KeyPath, Position, Span, Step};

/// How many values all aliases together may stand for: a few lines of aliases to aliases can stand for billions.
const MOST_ALIASED: usize = 100_000;

pub(super) fn parse(text: &str) -> Result<Parsed, Diagnostic> {
    let mut builder = Builder::default();
    let mut parser = Parser::new_from_str(text);
    let mut cursor = Cursor { text, index: 0, byte: 0 };
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| scan_error(&error, text))?;
        let mut at = Span::new(position(&span.start), position(&span.end));
        if let Event::Scalar(_, style @ (ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted), ..) = &event
        {
            // The parser's end lies behind a comment that follows the closing quote.
            at.end = quoted_end(cursor.at(span.start.index()), *style, at.start);
        }
        builder.take(event, at).map_err(|problem| {
            let at = problem.span.unwrap_or(at);
            problem.at(at)
        })?;
    }
    let root = builder.root.unwrap_or_else(|| Node::new(Span::point(Position::START), Value::Null));
    Ok(Parsed { root, problems: builder.problems })
}

fn scan_error(error: &ScanError, text: &str) -> Diagnostic {
    let at = position(error.marker());
    let problem = syntax(error.info().to_owned()).at(Span::point(at));
    // In flow style the `{` of a variable opens a map: a slip that the bare message does not lead to.
    let before = || text.lines().nth(at.line as usize - 1)?.chars().nth((at.column as usize).checked_sub(2)?);
    if before() == Some('$') {
        problem.help("inside `{ }` and `[ ]` a string with a variable is put in quotes: \"${NAME}\"")
    } else {
        problem
    }
}

fn position(marker: &Marker) -> Position {
    Position::new(marker.line(), marker.col() + 1)
}

/// From characters, which the parser counts, to bytes; it goes forward only.
struct Cursor<'a> {
    text: &'a str,
    index: usize,
    byte: usize,
}

impl<'a> Cursor<'a> {
    /// The text from a character on.
    fn at(&mut self, index: usize) -> &'a str {
        let rest = self.text.get(self.byte..).unwrap_or_default();
        let ahead = index.saturating_sub(self.index);
        self.byte += rest.char_indices().nth(ahead).map_or(rest.len(), |(byte, _)| byte);
        self.index = self.index.max(index);
        self.text.get(self.byte..).unwrap_or_default()
    }
}

/// The place behind the closing quote of a scalar that begins at `start`, perhaps with its anchor or tag.
fn quoted_end(text: &str, style: ScalarStyle, start: Position) -> Position {
    let quote = if style == ScalarStyle::SingleQuoted { '\'' } else { '"' };
    let mut at = start;
    let mut letters = text.chars().peekable();
    let mut is_open = false;
    while let Some(c) = letters.next() {
        match c {
            '\n' => at = Position { line: at.line + 1, column: 1 },
            '\r' if letters.peek() != Some(&'\n') => at = Position { line: at.line + 1, column: 1 },
            _ => at.column += 1,
        }
        if !is_open {
            is_open = c == quote;
        } else if c == '\\' && quote == '"' {
            // What is escaped closes nothing; an escaped line end is counted like any other.
            if letters.next_if(|next| !matches!(next, '\n' | '\r')).is_some() {
                at.column += 1;
            }
        } else if c == quote {
            if quote == '\'' && letters.next_if_eq(&'\'').is_some() {
                at.column += 1;
            } else {
                break;
            }
        }
    }
    at
}

/// Puts the events together.
#[derive(Default)]
struct Builder {
    root: Option<Node>,
    documents: usize,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    aliased: usize,
    problems: Vec<Diagnostic>,
}

/// A collection whose end has not come yet.
struct Open {
    at: Span,
    /// Where the last thing in it ends.
    end: Position,
    anchor: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    /// The key is there while its value is due; it holds nothing if it cannot be a key.
    Map {
        entries: Entries,
        key: Option<Key>,
    },
}

type Key = Option<(String, Span)>;

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Span) -> Result<(), Diagnostic> {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(syntax("a configuration is one document, and here a second one begins"));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag)?;
                self.add(Node::new(at, value), anchor, Some(text));
            }
            Event::Alias(anchor) => {
                let mut node = self
                    .anchors
                    .get(&anchor)
                    .cloned()
                    .ok_or_else(|| syntax("this alias names no value that is complete here"))?;
                self.aliased += size(&node);
                if self.aliased > MOST_ALIASED {
                    return Err(syntax(format!("the aliases stand for more than {MOST_ALIASED} values")));
                }
                node.at = Some(at);
                let text = node.text().map(|text| Cow::Owned(text.to_owned()));
                self.add(node, 0, text);
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(at, anchor, tag, "seq", OpenKind::List(Vec::new()))?;
            }
            Event::MappingStart(anchor, tag) => {
                self.open(at, anchor, tag, "map", OpenKind::Map { entries: Entries::default(), key: None })?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { at: start, end, anchor, kind }) = self.open.pop() {
                    // In flow style there is a bracket at both ends; in block style the end is where the rest begins.
                    let end = if start.start == start.end { end } else { at.end };
                    let at = Span::new(start.start, end);
                    let value = match kind {
                        OpenKind::List(items) => Value::List(items),
                        OpenKind::Map { entries, .. } => Value::Map(entries),
                    };
                    self.add(Node::new(at, value), anchor, None);
                }
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn open(
        &mut self,
        at: Span,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        expected: &str,
        kind: OpenKind,
    ) -> Result<(), Diagnostic> {
        if tag.is_some_and(|tag| !tag.is_yaml_core_schema() || tag.suffix != expected) {
            return Err(unknown_tag());
        }
        if self.open.len() >= MOST_DEPTH {
            return Err(too_deep());
        }
        self.open.push(Open { at, end: at.end, anchor, kind });
        Ok(())
    }

    /// Adds a complete value where one is due; `text` is how a scalar was written.
    fn add(&mut self, node: Node, anchor: usize, text: Option<Cow<'_, str>>) {
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        if let (Some(open), Some(at)) = (self.open.last_mut(), node.at) {
            open.end = open.end.max(at.end);
        }
        let result = match self.open.last_mut().map(|open| &mut open.kind) {
            None => {
                self.root = Some(node);
                Ok(())
            }
            Some(OpenKind::List(items)) => {
                items.push(node);
                Ok(())
            }
            Some(OpenKind::Map { entries, key: due }) => match due.take() {
                None => {
                    let key = as_key(&node, text);
                    let problem = key.as_ref().err().cloned();
                    *due = Some(key.ok());
                    match problem {
                        Some(problem) => {
                            self.problems.push(problem);
                            return;
                        }
                        None => Ok(()),
                    }
                }
                Some(None) => Ok(()),
                Some(Some((key, key_at))) => entries.insert(Entry { key, key_at: Some(key_at), node }),
            },
        };
        if let Err(duplicate) = result {
            let parent = self.path();
            self.problems.push(duplicate.report(&parent));
        }
    }

    /// The path of the innermost open collection.
    fn path(&self) -> KeyPath {
        let around = self.open.len().saturating_sub(1);
        self.open[..around]
            .iter()
            .map(|open| match &open.kind {
                OpenKind::List(items) => Step::Index(items.len()),
                OpenKind::Map { key: Some(Some((key, _))), .. } => Step::Key(key.clone()),
                OpenKind::Map { .. } => Step::Key("?".to_owned()),
            })
            .collect()
    }
}

/// Takes a value as a key: any scalar, as it is written.
fn as_key(node: &Node, text: Option<Cow<'_, str>>) -> Result<(String, Span), Diagnostic> {
    let at = node.at.unwrap_or(Span::point(Position::START));
    match text {
        Some(text) if text == "<<" => Err(syntax("merge keys (`<<`) are not supported")
            .help("write the entries out, or let an alias stand for a whole value")
            .at(at)),
        Some(text) => Ok((text.into_owned(), at)),
        None => Err(syntax("a key is a plain name, not a collection").at(at)),
    }
}

fn size(node: &Node) -> usize {
    1 + node.items().iter().map(size).sum::<usize>()
        + node.entries().iter().map(|entry| size(&entry.node)).sum::<usize>()
}

fn unknown_tag() -> Diagnostic {
    syntax("this tag has no meaning in a configuration").help("remove the tag")
}

/// The value of a scalar: by its tag if it has one, else a string if quoted, else by its look.
fn scalar(text: &str, style: ScalarStyle, tag: Option<Cow<'_, Tag>>) -> Result<Value, Diagnostic> {
    let Some(tag) = tag else {
        return match style {
            ScalarStyle::Plain => plain(text),
            _ => Ok(Value::Text(text.to_owned())),
        };
    };
    if tag.handle.is_empty() && tag.suffix == "!" {
        return Ok(Value::Text(text.to_owned()));
    }
    if !tag.is_yaml_core_schema() {
        return Err(unknown_tag());
    }
    let value = match tag.suffix.as_str() {
        "str" => return Ok(Value::Text(text.to_owned())),
        "int" | "float" | "bool" | "null" => plain(text)?,
        _ => return Err(unknown_tag()),
    };
    match (tag.suffix.as_str(), &value) {
        ("int" | "float", Value::Number(_)) | ("bool", Value::Bool(_)) | ("null", Value::Null) => Ok(value),
        (kind, _) => Err(syntax(format!("the tag says `{kind}`, and the value is none"))),
    }
}

/// The core schema's reading of a plain scalar.
pub(super) fn plain(text: &str) -> Result<Value, Diagnostic> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match numeric(text) {
            None => Value::Text(text.to_owned()),
            Some(number) => Value::Number(number?),
        },
    })
}

/// A number if the text looks like one; an error if that has no finite value.
fn numeric(text: &str) -> Option<Result<Number, Diagnostic>> {
    let finite = |number: Option<Number>| {
        number.ok_or_else(|| syntax("this number is too large, infinite, or no number at all"))
    };
    let radix = |digits: &str, radix| {
        let valid = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
        let number = || number::from_integer(Some(i128::from_str_radix(digits, radix).ok()?), digits);
        valid.then(|| finite(number()))
    };
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(finite(None));
    }
    if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return Some(finite(number::from_integer(text.parse().ok(), text)));
    }
    looks_like_float(unsigned).then(|| finite(text.parse().ok().and_then(number::from_float)))
}

/// `[0-9]+(\.[0-9]*)?` or `\.[0-9]+`, then perhaps an exponent.
fn looks_like_float(unsigned: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|exponent| {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !unsigned.is_empty() && digits(unsigned)
    });
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()) && exponent_fits
}
