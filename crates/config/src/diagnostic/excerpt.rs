//! The line of a problem, as far as it may be shown.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{Position, Span, Text, mask, slips};
use crate::{
    schema::Document,
    tree::{self, Format, Lines},
};

/// A line, or a part of a long one, with secrets masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    pub(super) line: String,
    /// The bytes of `line` that the problem is about.
    pub(super) marked: Range<usize>,
}

/// A part of a line whose meaning is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Token {
    /// The column of its first character.
    pub(super) start: u32,
    /// The column behind its last one.
    pub(super) end: u32,
    pub(super) show: Show,
}

/// Whether a token is shown. Where two say so of the same place, the greater counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Show {
    /// It is no secret.
    Plain,
    /// It is a secret, or might be one.
    Masked,
    /// The problem is about this very name.
    Named,
}

/// The lines of one file that have problems.
pub(super) struct Excerpts<'a> {
    format: Format,
    lines: BTreeMap<u32, (&'a str, Vec<Token>)>,
}

impl<'a> Excerpts<'a> {
    /// Reads a file again for the lines of some places; each says whether it is the name of a key.
    pub(super) fn new(
        Text { text, format }: Text<'a>,
        document: Document,
        places: impl Iterator<Item = (Span, bool)> + Clone,
    ) -> Self {
        let wanted: BTreeSet<u32> = places.clone().map(|(span, _)| span.start.line).collect();
        let all = Lines::new(text);
        let mut lines: BTreeMap<u32, (&str, Vec<Token>)> =
            wanted.into_iter().map(|line| (line, (all.line(line), Vec::new()))).collect();
        let mut add = |span: Span, show: Show| {
            for (line, (_, tokens)) in lines.range_mut(span.start.line..=span.end.line) {
                let start = if *line == span.start.line { span.start.column } else { 1 };
                let end = if *line == span.end.line { span.end.column } else { u32::MAX };
                if start < end {
                    tokens.push(Token { start, end, show });
                }
            }
        };
        match tree::parse(text, format) {
            Ok(parsed) => mask::tokens(&parsed.root, document, &mut add),
            Err(_) => {
                for (line, tokens) in lines.values_mut() {
                    tokens.extend(slips::tokens(line));
                }
            }
        }
        for (span, _) in places.filter(|(_, names_key)| *names_key) {
            let name = Token { start: span.start.column, end: span.end.column, show: Show::Named };
            if let Some((_, tokens)) = lines.get_mut(&span.start.line)
                && span.start.line == span.end.line
                && name.start < name.end
            {
                tokens.push(name);
            }
        }
        for (_, tokens) in lines.values_mut() {
            // Of what starts at one place, the one that counts comes first, and the others are passed over.
            tokens.sort_unstable_by_key(|token| (token.start, std::cmp::Reverse(token.show)));
            tokens.dedup_by_key(|token| token.start);
        }
        Self { format, lines }
    }

    /// The line of a place.
    pub(super) fn of(&self, span: Span) -> Option<Excerpt> {
        /// How many characters are shown before and after the place.
        const AROUND: (u32, u32) = (80, 160);
        let (line, tokens) = self.lines.get(&span.start.line)?;
        let Position { line: number, column } = span.start;
        let first = column.saturating_sub(AROUND.0).max(1);
        let window = line.chars().skip(first as usize - 1).take((AROUND.0 + AROUND.1) as usize);
        let mut writer = Writer { masked: String::new(), ends: vec![0], hides: false };
        let mut tokens = &tokens[tokens.partition_point(|token| token.end <= first)..];
        let mut before = if first == 1 { ' ' } else { 'x' };
        // Whether the run of characters here is the name of an anchor.
        let mut anchor = false;
        for (at, c) in (first..).zip(window) {
            while let [token, rest @ ..] = tokens
                && token.end <= at
            {
                tokens = rest;
            }
            match tokens.first().filter(|token| token.start <= at) {
                Some(token) if token.show == Show::Masked => writer.hide(),
                Some(_) => writer.show(c),
                None if self.begins_comment(c, before) => break,
                // A dash within a word is a part of it.
                None if is_structure(c) && !(writer.hides && "-.".contains(c)) => {
                    let begins = before.is_whitespace() || "[{,".contains(before);
                    anchor = self.format == Format::Yaml && matches!(c, '&' | '*') && begins;
                    writer.show(c);
                }
                None if anchor && (c.is_alphanumeric() || matches!(c, '_' | '-')) => writer.show(c),
                None => writer.hide(),
            }
            before = c;
        }
        let end = if span.end.line == number { span.end.column } else { column + 1 };
        let byte = |column: u32| {
            let at = column.saturating_sub(first) as usize;
            writer.ends.get(at).or(writer.ends.last()).copied().unwrap_or_default()
        };
        let marked = byte(column)..byte(end.max(column + 1));
        let length = writer.masked.trim_end().len().max(marked.end);
        let mut masked = writer.masked;
        masked.truncate(length);
        Some(Excerpt { line: masked, marked })
    }

    fn begins_comment(&self, c: char, before: char) -> bool {
        c == '#'
            && match self.format {
                Format::Yaml => before.is_whitespace(),
                Format::Toml => true,
                Format::Json => false,
            }
    }
}

fn is_structure(c: char) -> bool {
    c.is_whitespace() || "{}[](),.:=?|<>&*!$-\"'".contains(c)
}

/// The shown form of a line.
struct Writer {
    masked: String,
    /// Where the shown form of each character ends, after that of what is before it.
    ends: Vec<usize>,
    hides: bool,
}

impl Writer {
    fn show(&mut self, c: char) {
        self.masked.push(c);
        self.hides = false;
        self.ends.push(self.masked.len());
    }

    /// One mask for all characters in a row.
    fn hide(&mut self) {
        if !self.hides {
            self.masked.push_str(crate::values::MASK);
        }
        self.hides = true;
        self.ends.push(self.masked.len());
    }
}
