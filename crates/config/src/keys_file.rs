//! The file of `api_keys.file`: further keys, which join those of the configuration.

use std::path::{Path, PathBuf};

use crate::{
    check,
    diagnostic::{Diagnostic, KeyPath, Kind, Source, Step, Text},
    interpolate::{Interpolated, interpolate},
    read,
    schema::Document,
    tree::{self, Format, Node, Parsed},
};

/// The file of keys as it was read.
#[derive(Debug)]
pub(crate) struct KeysFile {
    pub(crate) path: PathBuf,
    bytes: Vec<u8>,
    format: Format,
}

/// Which of the keys come from the file of keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joined {
    /// How many keys the configuration itself has.
    own: usize,
    /// The file of the others.
    file: Option<PathBuf>,
    /// Whether a file is named whose keys are not known, so that rules that look for a key would miss it.
    pub(crate) incomplete: bool,
}

const FILE: &str = "api_keys.file";

impl KeysFile {
    /// Where the file is that a configuration names, if it names one.
    pub(crate) fn path(root: &Node, folder: &Path) -> Option<PathBuf> {
        let name = root.find(&KeyPath::of(FILE))?.text().filter(|name| !name.is_empty())?;
        Some(folder.join(name))
    }

    /// Reads the file that a configuration names.
    pub(crate) fn read(path: &Path, root: &Node) -> Result<Self, Diagnostic> {
        match read::read(path, "a file of keys") {
            Ok((bytes, format)) => Ok(Self { path: path.to_owned(), bytes, format }),
            Err(problem) => {
                let at = KeyPath::of(FILE);
                let place = root.find(&at).and_then(|node| node.at);
                let message = format!("{}: {}", path.display(), problem.message);
                Err(Diagnostic::error(Kind::Unreadable, at, message).at(place))
            }
        }
    }

    pub(crate) fn text(&self) -> Option<Text<'_>> {
        read::decode(&self.bytes).ok().map(|text| Text { text, format: self.format })
    }

    fn parse(&self) -> Result<Parsed, Diagnostic> {
        read::decode(&self.bytes).and_then(|text| tree::parse(text, self.format))
    }
}

impl Joined {
    /// Notes how many keys a configuration has, before others join them.
    pub(crate) fn before(root: &Node) -> Self {
        let own = root.find(&Document::Configuration.keys()).map_or(0, |keys| keys.items().len());
        Self { own, ..Self::default() }
    }

    /// Puts the keys of a file behind those of the configuration. Returns what is wrong with the file by itself.
    pub(crate) fn join(
        &mut self,
        root: &mut Node,
        file: &KeysFile,
        interpolated: &mut Interpolated<'_>,
    ) -> Vec<Diagnostic> {
        self.file = Some(file.path.clone());
        let (mut keys, mut problems) = match file.parse() {
            Ok(Parsed { mut root, mut problems }) => {
                problems.extend(check::published(&root, Document::Keys));
                root.move_to(Source::Keys);
                (root.take_items("keys"), problems)
            }
            Err(problem) => {
                self.incomplete = true;
                (Vec::new(), vec![problem])
            }
        };
        for problem in &mut problems {
            problem.move_to(Source::Keys);
        }
        let path = Document::Configuration.keys();
        for (n, key) in keys.iter_mut().enumerate() {
            interpolate(key, &path.index(self.own + n), interpolated);
        }
        root.append(&["api_keys", "keys"], keys);
        problems
    }

    /// A path in its own file, and that file if it is the one of keys.
    pub(crate) fn own_path(&self, path: &KeyPath) -> (KeyPath, Option<&Path>) {
        if let [Step::Key(section), Step::Key(list), Step::Index(n), rest @ ..] = path.steps()
            && (section.as_str(), list.as_str()) == ("api_keys", "keys")
            && *n >= self.own
            && let Some(file) = &self.file
        {
            let steps = [Step::Key(list.clone()), Step::Index(n - self.own)];
            return (steps.into_iter().chain(rest.iter().cloned()).collect(), Some(file));
        }
        (path.clone(), None)
    }

    /// A path as a message names it.
    pub(crate) fn named(&self, path: &KeyPath) -> String {
        match self.own_path(path) {
            (path, Some(file)) => format!("`{path}` of {}", file.display()),
            (path, None) => format!("`{path}`"),
        }
    }

    /// A problem under the path that it has in its own file.
    pub(crate) fn relocate(&self, mut problem: Diagnostic) -> Diagnostic {
        problem.path = self.own_path(&problem.path).0;
        problem
    }
}
