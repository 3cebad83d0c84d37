//! The reference of the configuration, from its schema.

use std::fmt::Write as _;

use serde_json::{Value, json};

const INTRODUCTION: &str = "\
<!-- Made by `cargo xtask gen` from the schema: do not edit. -->

# Configuration

Fairlane reads one file, in YAML, TOML or JSON (by its ending: `.yaml`, `.yml`, `.toml`, `.json`). It is the one given by
`--config`, else that of `$FAIRLANE_CONFIG`, else the first of `./fairlane.yaml`,
`$XDG_CONFIG_HOME/fairlane/fairlane.yaml` (`$HOME/.config` where that is unset) and `/etc/fairlane/fairlane.yaml` that
exists. The flags `--listen` and
`--admin-listen`, and after them the variables `FAIRLANE_LISTEN` and `FAIRLANE_ADMIN_LISTEN`, go before the file;
`off` switches the admin plane off there.

- `fairlane init` writes a file to begin with.
- `fairlane check` tells everything that is wrong with a file, with its place and what would be right;
  [what it tells](diagnostics.md), also to programs, has a page of its own.
- `fairlane config` shows every value in effect and where it comes from, with secrets and identities masked.
- `fairlane explain <key>` tells what a key means.
- An editor completes, explains and checks a file while you type: see [in the editor](#in-the-editor).
- [`examples/quickstart.yaml`](../examples/quickstart.yaml) is a small file to begin with,
  [`examples/tokens.yaml`](../examples/tokens.yaml) one with budgets of tokens;
  [`examples/full.yaml`](../examples/full.yaml) has every key.

## In the editor

[`schemas/fairlane.schema.json`](../schemas/fairlane.schema.json) is the JSON schema (draft-07) of the file. `fairlane
schema` prints the one of the gateway at hand, and its `$id` names the version. It comes to the same verdict as the loader,
which adds only what no schema can say: whether values go together, and whether addresses, files and variables exist. A file
names its schema in its first line, by a path from its own folder or by an address:

| file | first line | for |
|---|---|---|
| YAML | `# yaml-language-server: $schema=fairlane.schema.json` | yaml-language-server: VS Code with its YAML extension, Neovim, Helix, Emacs and others |
| TOML | `#:schema ./fairlane.schema.json` | taplo: VS Code with Even Better TOML, Neovim, Helix and others |

A file of keys ([`api_keys.file`](#api_keys)) has a schema of its own,
[`schemas/fairlane-keys.schema.json`](../schemas/fairlane-keys.schema.json).

For JSON, tell the editor in its own settings which schema belongs to which files. The tests ask both programs, in the versions
of [`tests/editor/package.json`](../tests/editor/package.json): of yaml-language-server its completion, its help and what it
finds wrong, of taplo what it finds wrong.

## Values

**Variables.** In every string (not in keys) `${NAME}` stands for a variable of the environment, and
`${NAME:-default}` for the variable or, if it is unset or empty, the default, which ends at the first `}`. `$$` is a
plain `$`. An unset variable without a default is an error. What a variable holds is always one string and never
changes the structure, so a number or `true` cannot come from one. Inside `{ }` and `[ ]` YAML wants a string with `${…}` in quotes.

**Durations** are strings of positive whole numbers with their units: `200ms`, `30s`, `5m`, `2h`, `1m30s`. Keys that end
in `_ms` are plain numbers of milliseconds.

**Absent keys** have the default that is shown. `null` is accepted where the type says so, and nowhere else. A key that
is not known is an error.

**YAML** is version 1.2: `yes` and `on` are strings. Anchors and aliases work, merge keys (`<<`) do not.
";

const LIMITS: &str = "
## Limits

Every limit has these keys. All the rates that are given must hold, each in a bucket of its own; a rate that is absent
does not limit.
";

const TOKENS: &str = "
The limits per key, user, team and model, and the `rate_limit` of a key, count tokens too; [token budgets](tokens.md)
tells how:
";

const OVERRIDES: &str = "
The limits per client, backend, key, user, team and model have one key more:
";

/// Writes the reference.
pub(super) fn write(schema: &Value) -> String {
    let kinds = Kinds::new(schema);
    let mut writer = Writer { text: INTRODUCTION.to_owned(), kinds };
    writer.section("", schema);
    if let Some(limits) = schema.pointer("/properties/rate_limiting/properties/limits/properties") {
        writer.text.push_str(LIMITS);
        writer.table(&limits["global"], |_| true);
        writer.text.push_str(TOKENS);
        writer.table(&limits["per_user"], |key| key.starts_with("token"));
        writer.text.push_str(OVERRIDES);
        writer.table(&limits["per_user"], |key| key == "overrides");
    }
    writer.text
}

struct Writer<'a> {
    text: String,
    kinds: Kinds<'a>,
}

impl<'a> Writer<'a> {
    /// A section: a table of its keys, then the sections within it. Limits have a place of their own.
    fn section(&mut self, path: &str, schema: &'a Value) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        if is_limit(schema) {
            return;
        }
        self.heading(path, schema);
        self.table(schema, |_| true);
        for (key, property) in properties {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.section(&path, property);
            self.section(&format!("{path}[]"), &property["items"]);
            self.section(&format!("{path}.<name>"), &property["additionalProperties"]);
        }
    }

    fn table(&mut self, schema: &'a Value, wanted: impl Fn(&str) -> bool) {
        let required: Vec<_> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().collect();
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        self.text.push_str("\n| key | type | default | meaning |\n|---|---|---|---|\n");
        for (key, property) in properties.filter(|(key, _)| wanted(key)) {
            let default = match property.get("default") {
                Some(default) if default == "" => "empty".to_owned(),
                Some(default) => format!("`{}`", plain(default)),
                None if required.iter().any(|name| *name == key) => "required".to_owned(),
                None if nullable(property) => "`null`".to_owned(),
                None if property.get("type").is_some_and(|kind| kind == "object") => String::new(),
                None => "none".to_owned(),
            };
            let _ok = writeln!(
                self.text,
                "| `{key}` | {} | {default} | {} |",
                self.kinds.describe(key, property),
                meaning(property).replace('|', "\\|"),
            );
        }
    }

    fn heading(&mut self, path: &str, schema: &Value) {
        if path.is_empty() {
            self.text.push_str("\n## Sections\n");
            return;
        }
        let level = if path.contains('.') { "###" } else { "##" };
        let _ok = writeln!(self.text, "\n{level} `{path}`\n\n{}", described(schema));
    }
}

fn is_limit(schema: &Value) -> bool {
    schema.pointer("/properties/burst_capacity").is_some()
}

/// The kinds of strings, known by their patterns from keys that have them.
struct Kinds<'a>(Vec<(&'a Value, &'static str)>);

impl<'a> Kinds<'a> {
    fn new(schema: &'a Value) -> Self {
        let examples = [
            ("/properties/server/properties/drain_timeout", "duration"),
            ("/properties/server/properties/listen", "address and port"),
            ("/properties/server/properties/trusted_proxies/items", "address or CIDR"),
            ("/properties/backends/items/properties/models/items", "name of a model"),
            ("/properties/backends/items/properties/url", "URL"),
            ("/properties/api_keys/properties/keys/items/properties/expires_at", "RFC 3339 time"),
            ("/properties/api_keys/properties/keys/items/properties/sha256", "64 hexadecimal digits"),
        ];
        Self(
            examples
                .into_iter()
                .filter_map(|(pointer, name)| Some((schema.pointer(pointer)?.get("pattern")?, name)))
                .collect(),
        )
    }

    fn describe(&self, key: &str, schema: &Value) -> String {
        let choices: Vec<_> = choices(schema).map(|(value, _)| format!("`{value}`")).collect();
        if !choices.is_empty() {
            return choices.join(", ");
        }
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => {
                kinds.iter().find_map(|kind| kind.as_str().filter(|kind| *kind != "null"))
            }
            kind => kind.and_then(Value::as_str),
        };
        let of_this_kind = |(pattern, _): &&(&Value, &str)| schema.get("pattern") == Some(*pattern);
        let described = match kind {
            Some("integer") => whole_number(key, schema),
            Some("boolean") => "`true` or `false`".to_owned(),
            Some("array") => format!("list of: {}", self.describe("", &schema["items"])),
            Some("object") if is_limit(schema) && schema.pointer("/properties/overrides").is_some() => {
                "[limit](#limits) with overrides".to_owned()
            }
            Some("object") if is_limit(schema) => "[limit](#limits)".to_owned(),
            Some("object") if schema.get("properties").is_some() => "section".to_owned(),
            Some("object") if key == "overrides" => "[limits](#limits) by identity".to_owned(),
            Some("object") => "sections by name".to_owned(),
            _ => self.0.iter().find(of_this_kind).map_or("string", |(_, name)| name).to_owned(),
        };
        if nullable(schema) { format!("{described}, or `null`") } else { described }
    }
}

fn whole_number(key: &str, schema: &Value) -> String {
    let unit = match key.rsplit('_').next() {
        Some("bytes") => " of bytes",
        Some("ms") => " of milliseconds",
        Some("prefix") => " of bits",
        _ => "",
    };
    let bound =
        |keyword: &str| schema.get(keyword).map(|bound| grouped(&bound.to_string())).unwrap_or_default();
    format!("whole number{unit}, {} to {}", bound("minimum"), bound("maximum"))
}

/// Long numbers in groups of three digits.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What a description says of the meaning. Its second paragraph has the default and the range, which are columns here.
fn described(schema: &Value) -> &str {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    description.split_once("\n\n").map_or(description, |(meaning, _)| meaning)
}

/// The description, what each choice means, and an example where the default is none.
fn meaning(schema: &Value) -> String {
    let is_deprecated = schema.get("deprecated").is_some_and(|deprecated| *deprecated == true);
    let mut text = if is_deprecated { "**Deprecated.** ".to_owned() } else { String::new() };
    text.push_str(described(schema));
    for (value, meaning) in choices(schema) {
        let _ok = write!(text, " `{value}`: {}", lower_first(meaning));
    }
    let example = schema.get("examples").and_then(Value::as_array).and_then(|examples| examples.first());
    // A default is an example too, unless it is nothing.
    let telling = schema.get("default").is_none_or(|default| *default == json!([]) || *default == "")
        // What has a table of its own shows its examples there.
        && schema.get("properties").is_none()
        && schema.pointer("/items/properties").is_none();
    if let Some(example) = example.filter(|_| telling) {
        let _ok = write!(text, " Example: `{}`.", plain(example));
    }
    text
}

fn choices(schema: &Value) -> impl Iterator<Item = (&str, &str)> {
    let variants = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    variants.filter_map(|variant| Some((variant.get("const")?.as_str()?, described(variant))))
}

fn nullable(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_array).is_some_and(|kinds| kinds.iter().any(|kind| kind == "null"))
}

/// A value as one would write it: strings without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
