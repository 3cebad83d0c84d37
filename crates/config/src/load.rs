//! From a file to a validated configuration.

use std::{
    collections::HashSet,
    fmt,
    fs::File,
    hash::Hash,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{
    check, defaults,
    diagnostic::{Diagnostic, KeyPath, Kind, Report, Severity},
    interpolate::{Environment, interpolate},
    model::GatewayConfig,
    rules, schema,
    tree::{self, Format, Lines, Node, Parsed, Value},
    validated::Validated,
};

/// The largest file that is read, in bytes: far more than 100 000 keys need.
const MOST_BYTES: usize = 64 * 1024 * 1024;

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
}

impl fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("overrides", &self.overrides).finish_non_exhaustive()
    }
}

impl<'a> Loader<'a> {
    /// A loader for an environment, without flags.
    #[must_use]
    pub fn new(environment: &'a dyn Environment) -> Self {
        Self { environment, overrides: Overrides::default() }
    }

    /// Sets the flags.
    #[must_use]
    pub fn overrides(self, overrides: Overrides) -> Self {
        Self { overrides, ..self }
    }

    /// Loads a file, whose ending tells its form: `.yaml`, `.yml`, `.toml` or `.json`.
    ///
    /// # Errors
    ///
    /// All problems of the file at once; that it cannot be read is one.
    pub fn load(&self, path: &Path) -> Result<Validated, Report> {
        let refuse = |message: String| {
            let problem = Diagnostic::error(Kind::Unreadable, KeyPath::root(), message);
            Report::new(path, vec![problem])
        };
        let format = Format::of(path)
            .ok_or_else(|| refuse("a configuration file ends in .yaml, .yml, .toml or .json".to_owned()))?;
        let bytes = read(path).map_err(|error| refuse(format!("the file cannot be read: {error}")))?;
        if bytes.len() > MOST_BYTES {
            return Err(refuse(format!("the file is longer than {MOST_BYTES} bytes")));
        }
        self.load_bytes(&bytes, format, path)
    }

    /// Loads a configuration that has been read already. `path` is where it comes from: reports name it, and
    /// relative paths in it start at its folder.
    ///
    /// # Errors
    ///
    /// All problems of the configuration at once.
    pub fn load_bytes(&self, bytes: &[u8], format: Format, path: &Path) -> Result<Validated, Report> {
        let parsed = decode(bytes).and_then(|text| tree::parse(text, format));
        let Parsed { mut root, mut problems } = parsed.map_err(|problem| Report::new(path, vec![problem]))?;

        // What an editor would say of the file as it stands.
        problems.extend(check::check(&root, schema::published_validator()));
        let written_password = rules::has_written_password(&root);
        let mut unresolved = Vec::new();
        interpolate(&mut root, &KeyPath::root(), self.environment, &mut unresolved);
        let from_variables = defaults::fill(&mut root, self.environment, &mut unresolved);
        add_new(&mut problems, unresolved, |problem| problem.path.clone());

        let overridden = self.override_listeners(&mut root);
        let tell_source = |mut problem: Diagnostic| {
            if let Some((_, flag, variable)) = overridden.iter().find(|(path, ..)| *path == problem.path) {
                problem.position = None;
                problem.message = format!("{} (it comes from {flag} or {variable})", problem.message);
            } else if let Some((_, variable)) = from_variables.iter().find(|(path, _)| *path == problem.path)
            {
                problem.message = format!("{} (it comes from {variable})", problem.message);
            }
            problem
        };
        let values = check::check(&root, schema::strict_validator());
        add_new(&mut problems, values.into_iter().map(tell_source), |problem| problem.path.clone());
        let folder = path.parent().unwrap_or(Path::new(""));
        let broken = rules::check(&root, folder).into_iter().map(tell_source);
        add_new(&mut problems, broken, |problem| (problem.path.clone(), problem.kind));
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(Report::new(path, problems));
        }

        let mut config: GatewayConfig = serde_json::from_value(root.to_json()).map_err(|error| {
            let message =
                format!("the schema lets pass what the model refuses, which is a bug of Fairlane: {error}");
            Report::new(path, vec![Diagnostic::error(Kind::BadValue, KeyPath::root(), message)])
        })?;
        for backend in &mut config.backends {
            backend.ca_file = backend.ca_file.take().map(|file| folder.join(file));
        }
        let redis = &mut config.rate_limiting.redis;
        redis.ca_file = redis.ca_file.take().map(|file| folder.join(file));
        problems.extend(rules::warnings(&config, &root, written_password));
        Ok(Validated::new(config, Report::new(path, problems)))
    }

    /// Puts the flags into the tree; returns the paths that they took.
    fn override_listeners(&self, root: &mut Node) -> Vec<(KeyPath, &'static str, &'static str)> {
        let flags = [&self.overrides.listen, &self.overrides.admin_listen];
        let mut taken = Vec::new();
        for ((key, flag, variable), given) in OVERRIDES.into_iter().zip(flags) {
            let from_variable = || self.environment.get(variable).filter(|value| !value.is_empty());
            let Some(text) = given.clone().or_else(from_variable) else { continue };
            let value = match text.as_str() {
                "off" | "null" if key == "admin_listen" => Value::Null,
                _ => Value::Text(text),
            };
            root.put(&["server", key], Node::made(value));
            taken.push((KeyPath::of("server").key(key), flag, variable));
        }
        taken
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

/// Reads a file up to just beyond the bound: it may be a device without end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn decode(bytes: &[u8]) -> Result<&str, Diagnostic> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let refuse = |message: &str| Diagnostic::error(Kind::Syntax, KeyPath::root(), message);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        refuse("the file is not UTF-8").at(Lines::new(&valid).position(valid.len()))
    })?;
    match text.find(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        Some(at) => Err(refuse("here is a control character").at(Lines::new(text).position(at))),
        None => Ok(text),
    }
}

/// No configuration file was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no configuration file is given, and none is at {}", .searched.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
pub struct NotFound {
    /// Where one was looked for.
    pub searched: Vec<PathBuf>,
}

/// Finds the configuration file: the one given, that of `$FAIRLANE_CONFIG`, `./fairlane.yaml`,
/// `$XDG_CONFIG_HOME/fairlane/fairlane.yaml` (with `$HOME/.config` for an unset `$XDG_CONFIG_HOME`),
/// `/etc/fairlane/fairlane.yaml`.
///
/// The first two are returned whether or not they exist: who names a file wants that one.
///
/// # Errors
///
/// When no file is named and none of the usual ones exists.
pub fn discover(given: Option<&Path>, environment: &dyn Environment) -> Result<PathBuf, NotFound> {
    let variable = |name: &str| environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = given.map(Path::to_owned).or_else(|| variable("FAIRLANE_CONFIG")) {
        return Ok(path);
    }
    let home = variable("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| variable("HOME").map(|home| home.join(".config")));
    let searched: Vec<PathBuf> = [
        Some(PathBuf::from("./fairlane.yaml")),
        home.map(|home| home.join("fairlane/fairlane.yaml")),
        Some(PathBuf::from("/etc/fairlane/fairlane.yaml")),
    ]
    .into_iter()
    .flatten()
    .collect();
    match searched.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(NotFound { searched }),
    }
}
