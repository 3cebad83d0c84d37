//! JSON values as YAML text.

use serde_json::Value;

use crate::diagnostic::KeyPath;

/// The column of comments, where what is before them leaves room.
const COMMENTS: usize = 48;

/// What is said of the value at a path, behind it.
type Comment<'a> = &'a dyn Fn(&KeyPath) -> Option<String>;

/// Writes a value in block style, with flow style for what is empty. Strings are quoted wherever a plain one
/// could be read as something else.
pub(crate) fn write(value: &Value, comment: Comment<'_>) -> String {
    let mut text = String::new();
    block(value, &KeyPath::root(), 0, comment, &mut text);
    text
}

fn block(value: &Value, path: &KeyPath, depth: usize, comment: Comment<'_>, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (n, (key, value)) in entries.iter().enumerate() {
                // The first entry of an item follows its dash.
                if n > 0 || !text.ends_with("- ") {
                    text.push_str(&indent);
                }
                text.push_str(&scalar(key));
                text.push(':');
                nested(value, &path.key(key), depth + 1, comment, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (n, item) in items.iter().enumerate() {
                let path = path.index(n);
                text.push_str(&indent);
                text.push('-');
                match item {
                    Value::Object(entries) if !entries.is_empty() => {
                        text.push(' ');
                        block(item, &path, depth + 1, comment, text);
                    }
                    _ => nested(item, &path, depth + 1, comment, text),
                }
            }
        }
        other => {
            text.push_str(&leaf(other));
            if let Some(comment) = comment(path) {
                let line = text.rfind('\n').map_or(0, |end| end + 1);
                let length = text[line..].chars().count();
                text.push_str(&" ".repeat(COMMENTS.saturating_sub(length).max(1)));
                text.push_str("# ");
                // The name of a file may hold anything.
                text.extend(comment.chars().map(|c| if c.is_control() { ' ' } else { c }));
            }
            text.push('\n');
        }
    }
}

fn nested(value: &Value, path: &KeyPath, depth: usize, comment: Comment<'_>, text: &mut String) {
    let is_block = match value {
        Value::Object(entries) => !entries.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    text.push(if is_block { '\n' } else { ' ' });
    block(value, path, depth, comment, text);
}

fn leaf(value: &Value) -> String {
    match value {
        Value::String(string) => scalar(string),
        other => other.to_string(),
    }
}

/// A plain scalar where no reader can take it for anything but this string, else one in double quotes.
fn scalar(string: &str) -> String {
    let plain = string.starts_with(|c: char| c.is_ascii_alphanumeric())
        && crate::tree::is_plain_text(string)
        && string.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !matches!(
            string.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    // JSON's strings are YAML's double-quoted ones.
    if plain { string.to_owned() } else { Value::from(string).to_string() }
}
