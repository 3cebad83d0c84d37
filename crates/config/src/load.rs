//! From a file to a validated configuration.

use std::{collections::HashSet, fmt, hash::Hash, path::Path};

use crate::{
    check, defaults,
    diagnostic::{Diagnostic, KeyPath, Kind, Report, Severity, Source, Text},
    fixed::{self, Fixed},
    interpolate::{Environment, Interpolated, interpolate},
    keys_file::{Joined, KeysFile},
    model::GatewayConfig,
    origin::{Inspected, Notes},
    read,
    rules::{self, Written},
    schema::Document,
    tree::{self, Format, Node, Parsed, Value},
    validated::Validated,
};

/// What goes before the file: the flags of the command line.
///
/// A flag that is not given may be given by its variable, `FAIRLANE_LISTEN` or `FAIRLANE_ADMIN_LISTEN`, which
/// the loader asks the environment for; an empty variable counts as unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--listen`, in place of `server.listen`.
    pub listen: Option<String>,
    /// `--admin-listen`, in place of `server.admin_listen`; `off` is the `null` of the file.
    pub admin_listen: Option<String>,
}

/// The key, the flag and the variable of each override.
const OVERRIDES: [(&str, &str, &str); 2] =
    [("listen", "--listen", "FAIRLANE_LISTEN"), ("admin_listen", "--admin-listen", "FAIRLANE_ADMIN_LISTEN")];

impl GatewayConfig {
    /// Loads a file, with no flags given.
    ///
    /// # Errors
    ///
    /// All problems of the file at once.
    pub fn load(path: &Path, environment: &dyn Environment) -> Result<Validated, Report> {
        Loader::new(environment).load(path)
    }
}

/// Loads configurations in a given environment.
#[derive(Clone)]
pub struct Loader<'a> {
    environment: &'a dyn Environment,
    overrides: Overrides,
    fixed: Option<Fixed>,
}

impl fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("overrides", &self.overrides)
            .field("fixed", &self.fixed)
            .finish_non_exhaustive()
    }
}

impl<'a> Loader<'a> {
    /// A loader for an environment, without flags.
    #[must_use]
    pub fn new(environment: &'a dyn Environment) -> Self {
        Self { environment, overrides: Overrides::default(), fixed: None }
    }

    /// Sets the flags.
    #[must_use]
    pub fn overrides(self, overrides: Overrides) -> Self {
        Self { overrides, ..self }
    }

    /// Loads for a gateway that runs with these values: where a file has others, those of the gateway stay, and a
    /// warning of [`Kind::NeedsRestart`] tells so.
    ///
    /// A file has to be good twice: as it stands, for the next restart, and with the values that stay.
    #[must_use]
    pub fn keeping(self, fixed: Fixed) -> Self {
        Self { fixed: Some(fixed), ..self }
    }

    /// Loads a file, whose ending tells its form: `.yaml`, `.yml`, `.toml` or `.json`.
    ///
    /// # Errors
    ///
    /// All problems of the file at once; that it cannot be read is one.
    pub fn load(&self, path: &Path) -> Result<Validated, Report> {
        self.inspect(path).map(Inspected::into_config)
    }

    /// Loads a file as [`load`](Self::load) does, and keeps where each value comes from.
    ///
    /// # Errors
    ///
    /// All problems of the file at once; that it cannot be read is one.
    pub fn inspect(&self, path: &Path) -> Result<Inspected, Report> {
        let (bytes, format) =
            read::read(path, "a configuration file").map_err(|problem| Report::new(path, vec![problem]))?;
        self.inspect_bytes(&bytes, format, path)
    }

    /// Loads a configuration that has been read already. `path` is where it comes from: reports name it, and
    /// relative paths in it start at its folder.
    ///
    /// # Errors
    ///
    /// All problems of the configuration at once.
    pub fn load_bytes(&self, bytes: &[u8], format: Format, path: &Path) -> Result<Validated, Report> {
        self.inspect_bytes(bytes, format, path).map(Inspected::into_config)
    }

    /// Loads a configuration as [`load_bytes`](Self::load_bytes) does, and keeps where each value comes from.
    ///
    /// # Errors
    ///
    /// All problems of the configuration at once.
    pub fn inspect_bytes(&self, bytes: &[u8], format: Format, path: &Path) -> Result<Inspected, Report> {
        let text = read::decode(bytes).map_err(|problem| Report::new(path, vec![problem]))?;
        let text = Text { text, format };
        let parsed = tree::parse(text.text, format);
        let Parsed { mut root, mut problems } = parsed
            .map_err(|problem| Report::new(path, vec![problem]).quoting(Source::Configuration, text))?;
        let folder = path.parent().unwrap_or(Path::new(""));

        // What an editor would say of the file as it stands.
        problems.extend(check::published(&root, Document::Configuration));
        let written = Written::find(&root);
        let mut interpolated = Interpolated::new(self.environment);
        interpolate(&mut root, &KeyPath::root(), &mut interpolated);
        let mut joined = Joined::before(&root);
        let keys_path = KeysFile::path(&root, folder);
        let keys_file = match keys_path.as_deref().map(|path| KeysFile::read(path, &root)) {
            Some(Ok(file)) => {
                problems.extend(joined.join(&mut root, &file, &mut interpolated));
                Some(file)
            }
            Some(Err(problem)) => {
                joined.incomplete = true;
                problems.push(problem);
                None
            }
            None => None,
        };
        let unnamed = defaults::fill(&mut root, &mut interpolated);
        let Interpolated { problems: unresolved, named, .. } = interpolated;
        add_new(&mut problems, unresolved.into_iter().map(|problem| joined.relocate(problem)), place_and_key);
        let report = |problems| {
            let report = Report::new(path, problems).quoting(Source::Configuration, text);
            let report = keys_path.clone().into_iter().fold(report, Report::with_keys_file);
            let keys = keys_file.as_ref().and_then(KeysFile::text);
            keys.into_iter().fold(report, |report, text| report.quoting(Source::Keys, text))
        };

        let mut notes = Notes { unnamed, named, ..Notes::default() };
        let overridden = self.override_listeners(&mut root, &mut notes);
        let tell_source = |mut problem: Diagnostic| {
            if let Some((_, flag, variable)) = overridden.iter().find(|(path, ..)| *path == problem.path) {
                problem.span = None;
                problem.message = format!("{} (it comes from {flag} or {variable})", problem.message);
            } else if let Some((_, variable)) = notes.unnamed.iter().find(|(path, _)| *path == problem.path) {
                problem.message = format!("{} (it comes from {variable})", problem.message);
            }
            joined.relocate(problem)
        };
        add_new(&mut problems, check::strict(&root).into_iter().map(tell_source), place_and_key);
        let broken = rules::check(&root, folder, &joined).into_iter().map(tell_source);
        add_new(&mut problems, broken, |problem| (place_and_key(problem), problem.kind));
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(report(problems));
        }

        let mut config = model(&root).map_err(|problem| report(vec![problem]))?;
        let warnings = rules::warnings(&config, &root, &written);
        problems.extend(warnings.into_iter().map(|problem| joined.relocate(problem)));
        if let Some(fixed) = &self.fixed {
            let kept = fixed.keep(&mut root, &config);
            if !kept.is_empty() {
                notes.kept = kept.iter().map(|warning| warning.path.clone()).collect();
                problems.extend(kept);
                let broken = fixed::check(&root, folder, &joined);
                problems.extend(broken.into_iter().map(|problem| joined.relocate(problem)));
                if problems.iter().any(|problem| problem.severity == Severity::Error) {
                    return Err(report(problems));
                }
                config = model(&root).map_err(|problem| report(vec![problem]))?;
            }
        }
        let fixed = Fixed::of(&config);
        start_at(folder, &mut config);
        Ok(Inspected::new(Validated::new(config, report(problems)), root, notes, fixed))
    }

    /// Puts the flags into the tree; returns the paths that they took.
    fn override_listeners(
        &self,
        root: &mut Node,
        notes: &mut Notes,
    ) -> Vec<(KeyPath, &'static str, &'static str)> {
        let flags = [&self.overrides.listen, &self.overrides.admin_listen];
        let mut taken = Vec::new();
        for ((key, flag, variable), given) in OVERRIDES.into_iter().zip(flags) {
            let from_variable = || self.environment.get(variable).filter(|value| !value.is_empty());
            let Some(text) = given.clone().or_else(from_variable) else { continue };
            let path = KeyPath::of("server").key(key);
            match given {
                Some(_) => notes.flags.push((path.clone(), flag)),
                None => notes.unnamed.push((path.clone(), variable)),
            }
            let value = match text.as_str() {
                "off" | "null" if key == "admin_listen" => Value::Null,
                _ => Value::Text(text),
            };
            root.put(&["server", key], Node::made(value));
            taken.push((path, flag, variable));
        }
        taken
    }
}

/// The model of a tree that has passed every check.
fn model(root: &Node) -> Result<GatewayConfig, Diagnostic> {
    serde_json::from_value(root.to_json()).map_err(|error| {
        let message =
            format!("the schema lets pass what the model refuses, which is a bug of Fairlane: {error}");
        Diagnostic::error(Kind::BadValue, KeyPath::root(), message)
    })
}

/// Makes the relative paths of a configuration begin at a folder.
fn start_at(folder: &Path, config: &mut GatewayConfig) {
    let of_backends = config.backends.iter_mut().map(|backend| &mut backend.ca_file);
    let others = [&mut config.rate_limiting.redis.ca_file, &mut config.api_keys.file];
    for file in of_backends.chain(others).flatten() {
        *file = folder.join(&*file);
    }
}

/// Adds the problems that no earlier one has told already: those where `what` is new.
fn add_new<T: Eq + Hash>(
    problems: &mut Vec<Diagnostic>,
    found: impl IntoIterator<Item = Diagnostic>,
    what: impl Fn(&Diagnostic) -> T,
) {
    let told: HashSet<T> = problems.iter().map(&what).collect();
    problems.extend(found.into_iter().filter(|problem| !told.contains(&what(problem))));
}

fn place_and_key(problem: &Diagnostic) -> (Source, KeyPath) {
    (problem.source(), problem.path.clone())
}
