//! From bytes to lines and columns.

use std::{cell::Cell, ops::Range};

use crate::diagnostic::{Position, Span};

/// Where the lines of a text begin.
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// A byte and its place: most places are asked for in their order, and a line may be as long as the file.
    last: Cell<(usize, Position)>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        // A line ends as YAML and editors have it: `\n`, `\r\n`, or `\r` alone.
        let bytes = text.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(at, byte)| match byte {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        });
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { text, starts, last: Cell::new((0, Position::START)) }
    }

    /// The place of a byte.
    pub(crate) fn position(&self, byte: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= byte).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let (from, before) = match self.last.get() {
            (last, position) if position.line as usize == line && last <= byte => {
                (last, position.column as usize)
            }
            _ => (start, 1),
        };
        let column = before + self.text.get(from..byte).map_or(0, |between| between.chars().count());
        let position = Position::new(line, column);
        self.last.set((byte, position));
        position
    }

    /// The places of some bytes.
    pub(crate) fn span(&self, bytes: Range<usize>) -> Span {
        Span::new(self.position(bytes.start), self.position(bytes.end))
    }

    /// A line, counted from 1, without its end.
    pub(crate) fn line(&self, number: u32) -> &'a str {
        let number = number as usize;
        let start =
            |number: usize| self.starts.get(number.wrapping_sub(1)).copied().unwrap_or(self.text.len());
        self.text.get(start(number)..start(number + 1)).unwrap_or_default().trim_end_matches(['\r', '\n'])
    }
}
