//! Variables of the environment in strings: `${NAME}`, `${NAME:-default}`, and `$$` for a `$`.
//!
//! This happens to parsed values, so that what a variable holds can never become structure.

use crate::{
    diagnostic::{Diagnostic, KeyPath, Kind},
    tree::{Node, Value},
};

/// Where variables come from. Any `Fn(&str) -> Option<String>` will do.
pub trait Environment {
    /// The value of a variable, if it is set.
    fn get(&self, name: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String>> Environment for F {
    fn get(&self, name: &str) -> Option<String> {
        self(name)
    }
}

/// The environment of this process. A variable that is not UTF-8 counts as unset.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn get(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// What replacing the variables needs, and what comes of it besides the values.
pub(crate) struct Interpolated<'a> {
    pub(crate) environment: &'a dyn Environment,
    pub(crate) problems: Vec<Diagnostic>,
    /// The paths of the texts that have something from the environment, each with the names of the variables.
    pub(crate) named: Vec<(KeyPath, Vec<String>)>,
}

impl<'a> Interpolated<'a> {
    pub(crate) fn new(environment: &'a dyn Environment) -> Self {
        Self { environment, problems: Vec::new(), named: Vec::new() }
    }
}

/// Replaces the variables in every string of the tree. A string where that fails becomes
/// [`Value::Unresolved`] and a problem.
pub(crate) fn interpolate(node: &mut Node, path: &KeyPath, result: &mut Interpolated<'_>) {
    match &mut node.value {
        Value::Text(text) => {
            let mut used = Vec::new();
            if let Err(errors) = expand(text, result.environment, &mut used).map(|expanded| *text = expanded)
            {
                result.problems.extend(errors.into_iter().map(|error| error.report(path).at(node.at)));
                node.value = Value::Unresolved;
            }
            if !used.is_empty() {
                result.named.push((path.clone(), used));
            }
        }
        Value::List(items) => {
            for (n, item) in items.iter_mut().enumerate() {
                interpolate(item, &path.index(n), result);
            }
        }
        Value::Map(entries) => {
            for entry in entries.iter_mut() {
                let path = path.key(&entry.key);
                if entry.key.contains("${") {
                    // A key that came from outside would change the structure.
                    result.problems.push(
                        Diagnostic::error(
                            Kind::Variable,
                            path,
                            "variables work in values only, and this is a key",
                        )
                        .help("write the key out")
                        .at(entry.key_at),
                    );
                    continue;
                }
                interpolate(&mut entry.node, &path, result);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Unresolved => {}
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Failure {
    Unset(String),
    Malformed(&'static str),
}

impl Failure {
    fn report(&self, path: &KeyPath) -> Diagnostic {
        let error = |message: String| Diagnostic::error(Kind::Variable, path.clone(), message);
        match self {
            Self::Unset(name) => error(format!("the environment has no variable `{name}`"))
                .help(format!("set it, or give a default: `${{{name}:-…}}`")),
            Self::Malformed(reason) => error((*reason).to_owned())
                .help("write `${NAME}` or `${NAME:-default}`, or `$$` for a plain `$`"),
        }
    }
}

/// Replaces the variables of one text. A default is taken as it is, up to the first `}`.
///
/// `used` gets the names of the variables that gave something.
fn expand(text: &str, environment: &dyn Environment, used: &mut Vec<String>) -> Result<String, Vec<Failure>> {
    let mut expanded = String::with_capacity(text.len());
    let mut failures = Vec::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        expanded.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let Some((reference, after)) = after.split_once('}') else {
                failures.push(Failure::Malformed("the variable has no closing `}`"));
                return Err(failures);
            };
            match resolve(reference, environment, used) {
                Ok(value) => expanded.push_str(&value),
                Err(failure) => failures.push(failure),
            }
            rest = after;
        } else {
            // A lone `$` means itself.
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    if failures.is_empty() { Ok(expanded) } else { Err(failures) }
}

fn resolve(
    reference: &str,
    environment: &dyn Environment,
    used: &mut Vec<String>,
) -> Result<String, Failure> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts_well || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(Failure::Malformed("the name of a variable has letters, digits and `_` only"));
    }
    match (environment.get(name), default) {
        (Some(value), default) if default.is_none() || !value.is_empty() => {
            used.push(name.to_owned());
            Ok(value)
        }
        (_, Some(default)) => Ok(default.to_owned()),
        (_, None) => Err(Failure::Unset(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, Failure>) {
        let environment = |name: &str| match name {
            "NAME" => Some("value".to_owned()),
            "EMPTY" => Some(String::new()),
            "TRICKY" => Some("a: ${NAME} $$".to_owned()),
            _ => None,
        };
        let expected = expected.map(str::to_owned).map_err(|failure| vec![failure]);
        assert_eq!(expand(text, &environment, &mut Vec::new()), expected, "{text}");
    }

    #[test]
    fn variables_are_replaced() {
        check("${NAME}", Ok("value"));
        check("a ${NAME} b ${NAME}", Ok("a value b value"));
        check("${EMPTY}", Ok(""));
        check("${UNSET}", Err(Failure::Unset("UNSET".to_owned())));
    }

    #[test]
    fn a_default_stands_for_unset_and_empty() {
        check("${NAME:-other}", Ok("value"));
        check("${EMPTY:-other}", Ok("other"));
        check("${UNSET:-other}", Ok("other"));
        check("${UNSET:-}", Ok(""));
        check("${UNSET:-redis://127.0.0.1:6379}", Ok("redis://127.0.0.1:6379"));
    }

    #[test]
    fn a_value_is_not_read_again() {
        check("${TRICKY}", Ok("a: ${NAME} $$"));
        check("${UNSET:-$NAME}", Ok("$NAME"));
    }

    #[test]
    fn a_dollar_can_be_written() {
        check("$${NAME}", Ok("${NAME}"));
        check("$$$$", Ok("$$"));
        check("cost: 5$", Ok("cost: 5$"));
        check("$NAME", Ok("$NAME"));
    }

    #[test]
    fn what_is_malformed_is_told() {
        for text in ["${", "${NAME", "${}", "${1A}", "${A B}", "${NAME-x}", "${NAME:?x}", "${:-x}"] {
            let failures = expand(text, &|_: &str| Some("x".to_owned()), &mut Vec::new()).unwrap_err();
            assert!(matches!(failures[..], [Failure::Malformed(_)]), "{text}");
        }
    }
}
