//! TOML.

use std::ops::Range;

use toml_edit::{Document, Item, TableLike};

use super::{Entries, Entry, Lines, Node, Parsed, Value, number, syntax};
use crate::diagnostic::{Diagnostic, KeyPath, Position, Span};

pub(super) fn parse(text: &str) -> Result<Parsed, Diagnostic> {
    let lines = Lines::new(text);
    // The parser bounds the depth, and refuses a key given twice.
    let document = Document::parse(text)
        .map_err(|error| syntax(error.message().to_owned()).at(error.span().map(|span| lines.span(span))))?;
    let reader = Reader { lines };
    let start = Span::point(Position::START);
    let entries = reader.table(document.as_table(), start)?;
    Ok(Parsed { root: Node::new(start, Value::Map(entries)), problems: Vec::new() })
}

struct Reader<'a> {
    lines: Lines<'a>,
}

impl Reader<'_> {
    /// Implicit tables have no place of their own: they get that of what is around them.
    fn place(&self, span: Option<Range<usize>>, around: Span) -> Span {
        span.map_or(Span::point(around.start), |span| self.lines.span(span))
    }

    fn table(&self, table: &dyn TableLike, around: Span) -> Result<Entries, Diagnostic> {
        let mut entries = Entries::default();
        for (name, item) in table.iter() {
            let key_at = self.place(table.key(name).and_then(toml_edit::Key::span), around);
            let node = self.item(item, key_at)?;
            entries
                .insert(Entry { key: name.to_owned(), key_at: Some(key_at), node })
                .map_err(|duplicate| duplicate.report(&KeyPath::root()))?;
        }
        Ok(entries)
    }

    fn item(&self, item: &Item, around: Span) -> Result<Node, Diagnostic> {
        let at = self.place(item.span(), around);
        let value = match item {
            Item::None => Value::Null,
            Item::Value(value) => return self.value(value, at),
            Item::Table(table) => Value::Map(self.table(table, at)?),
            Item::ArrayOfTables(tables) => Value::List(
                tables
                    .iter()
                    .map(|table| {
                        let at = self.place(table.span(), at);
                        Ok(Node::new(at, Value::Map(self.table(table, at)?)))
                    })
                    .collect::<Result<_, Diagnostic>>()?,
            ),
        };
        Ok(Node::new(at, value))
    }

    fn value(&self, value: &toml_edit::Value, around: Span) -> Result<Node, Diagnostic> {
        let at = self.place(value.span(), around);
        let number = |number: Option<_>| {
            number
                .map(Value::Number)
                .ok_or_else(|| syntax("this number is infinite, or no number at all").at(at))
        };
        let value = match value {
            toml_edit::Value::String(text) => Value::Text(text.value().clone()),
            toml_edit::Value::Integer(integer) => {
                number(number::from_integer(Some(i128::from(*integer.value())), ""))?
            }
            toml_edit::Value::Float(float) => number(number::from_float(*float.value()))?,
            toml_edit::Value::Boolean(boolean) => Value::Bool(*boolean.value()),
            // A point in time is a string in the schema, and an offset date-time is written as RFC 3339 has it.
            toml_edit::Value::Datetime(time) => Value::Text(time.value().to_string()),
            toml_edit::Value::Array(items) => {
                Value::List(items.iter().map(|item| self.value(item, at)).collect::<Result<_, _>>()?)
            }
            toml_edit::Value::InlineTable(table) => Value::Map(self.table(table, at)?),
        };
        Ok(Node::new(at, value))
    }
}
