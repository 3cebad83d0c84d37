//! Where each value in effect comes from.

use std::{fmt, path::PathBuf};

use serde_json::{Value as Json, json};

use crate::{
    diagnostic::{KeyPath, Position, Source, Step},
    fixed::Fixed,
    tree::Node,
    validated::Validated,
};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// It is nowhere given, and so is what it is by default.
    Default,
    /// A file gives it.
    File {
        /// The file.
        file: PathBuf,
        /// Where in it.
        position: Position,
    },
    /// The environment gives it, or a part of it.
    Environment {
        /// The variables.
        variables: Vec<String>,
        /// The file that asks for them and where, unless they are asked for without being named.
        place: Option<(PathBuf, Position)>,
    },
    /// The command line gives it.
    Flag {
        /// The flag.
        name: &'static str,
    },
    /// It is what the running gateway has, whatever the file says: see
    /// [`Loader::keeping`](crate::Loader::keeping).
    Running,
}

impl Origin {
    /// The name of its kind for programs: `default`, `file`, `environment`, `flag` or `running`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File { .. } => "file",
            Self::Environment { .. } => "environment",
            Self::Flag { .. } => "flag",
            Self::Running => "running",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, position } => write!(f, "{}:{}", file.display(), position.line),
            Self::Environment { variables, place } => {
                write!(f, "environment: {}", variables.join(", "))?;
                match place {
                    Some((file, position)) => write!(f, " ({}:{})", file.display(), position.line),
                    None => Ok(()),
                }
            }
            Self::Flag { name } => write!(f, "flag: {name}"),
            Self::Running => f.write_str("running; changes only at a restart"),
        }
    }
}

/// What the loader noted on its way.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// The keys that flags gave, each with the flag.
    pub(crate) flags: Vec<(KeyPath, &'static str)>,
    /// The keys that variables gave without being named in the file.
    pub(crate) unnamed: Vec<(KeyPath, &'static str)>,
    /// The keys whose texts name variables that are set.
    pub(crate) named: Vec<(KeyPath, Vec<String>)>,
    /// The keys that have the value of the running gateway in place of the file's.
    pub(crate) kept: Vec<KeyPath>,
}

/// A configuration with the origin of each of its values, for an operator to look at.
///
/// It keeps what was read, so a gateway that runs keeps its [`config`](Self::config) alone.
#[derive(Debug)]
pub struct Inspected {
    config: Validated,
    root: Node,
    notes: Notes,
    fixed: Fixed,
}

impl Inspected {
    pub(crate) fn new(config: Validated, root: Node, mut notes: Notes, fixed: Fixed) -> Self {
        // To be looked up.
        notes.named.sort();
        Self { config, root, notes, fixed }
    }

    /// The values of this configuration that a gateway which runs with it keeps until a restart.
    #[must_use]
    pub fn fixed(&self) -> Fixed {
        self.fixed.clone()
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Validated {
        &self.config
    }

    /// The configuration alone.
    #[must_use]
    pub fn into_config(self) -> Validated {
        self.config
    }

    /// Every value in effect as YAML, masked as in [`Validated::effective`], each with its origin in a comment.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        crate::yaml::write(&self.config.effective(), &|path| Some(self.origin(path).to_string()))
    }

    /// Every value in effect for programs: a list of `path`, `value` and `origin`, masked as in
    /// [`Validated::effective`]. `docs/diagnostics.md` describes the form.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut values = Vec::new();
        self.list(&self.config.effective(), &KeyPath::root(), &mut values);
        json!({ "version": 1, "file": self.config.file().display().to_string(), "values": values })
    }

    fn list(&self, value: &Json, path: &KeyPath, found: &mut Vec<Json>) {
        match value {
            Json::Object(entries) if !entries.is_empty() => {
                entries.iter().for_each(|(key, value)| self.list(value, &path.key(key), found));
            }
            Json::Array(items) if !items.is_empty() => {
                items.iter().enumerate().for_each(|(n, item)| self.list(item, &path.index(n), found));
            }
            leaf => {
                let origin = self.origin(path);
                let (place, variables, flag) = match &origin {
                    Origin::Default | Origin::Running => (None, &[][..], None),
                    Origin::File { file, position } => (Some((file, position)), &[][..], None),
                    Origin::Environment { variables, place } => {
                        (place.as_ref().map(|(file, position)| (file, position)), &variables[..], None)
                    }
                    Origin::Flag { name } => (None, &[][..], Some(name)),
                };
                found.push(json!({
                    "path": path.to_string(),
                    "value": leaf,
                    "origin": origin.kind(),
                    "file": place.map(|(file, _)| file.display().to_string()),
                    "line": place.map(|(_, position)| position.line),
                    "column": place.map(|(_, position)| position.column),
                    "variables": variables,
                    "flag": flag,
                }));
            }
        }
    }

    /// Where a value comes from, by its path in [`Validated::effective`].
    #[must_use]
    pub fn origin(&self, shown: &KeyPath) -> Origin {
        let path = self.config.unmasked(shown);
        if self.notes.kept.contains(&path) {
            return Origin::Running;
        }
        if let Some((_, name)) = self.notes.flags.iter().find(|(flagged, _)| *flagged == path) {
            return Origin::Flag { name };
        }
        if let Some((_, name)) = self.notes.unnamed.iter().find(|(given, _)| *given == path) {
            return Origin::Environment { variables: vec![(*name).to_owned()], place: None };
        }
        let Some(span) = self.root.find(&path).and_then(|node| node.at) else { return Origin::Default };
        let file = match (span.source, &self.config.api_keys.file) {
            (Source::Keys, Some(file)) => file.clone(),
            _ => self.config.file().to_owned(),
        };
        match self.notes.named.binary_search_by(|(named, _)| named.cmp(&path)) {
            Ok(at) => {
                let variables = self.notes.named.get(at).map(|(_, names)| names.clone()).unwrap_or_default();
                Origin::Environment { variables, place: Some((file, span.start)) }
            }
            Err(_) => Origin::File { file, position: span.start },
        }
    }
}

impl Validated {
    /// The path that a value has in the file: overrides of users and teams are numbered where they are shown.
    fn unmasked(&self, shown: &KeyPath) -> KeyPath {
        let limits = &self.rate_limiting.limits;
        let mut steps = shown.steps().to_vec();
        if let [Step::Key(section), Step::Key(list), Step::Key(dimension), Step::Key(_), Step::Key(name), ..] =
            &mut steps[..]
            && (section.as_str(), list.as_str()) == ("rate_limiting", "limits")
        {
            let overrides = match dimension.as_str() {
                "per_user" => &limits.per_user.overrides,
                "per_team" => &limits.per_team.overrides,
                _ => return shown.clone(),
            };
            let number = name.strip_prefix(crate::MASK).and_then(|number| number.parse::<usize>().ok());
            let raw = number.and_then(|number| overrides.keys().nth(number.checked_sub(1)?));
            if let Some(raw) = raw {
                raw.as_str().clone_into(name);
            }
        }
        steps.into_iter().collect()
    }
}
