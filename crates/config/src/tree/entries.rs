//! The entries of a map, in the order of the file and to be looked up by key.

use std::collections::HashMap;

use super::Node;
use crate::diagnostic::{Diagnostic, KeyPath, Kind, Span};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_at: Option<Span>,
    pub(crate) node: Node,
}

/// Entries with distinct keys. (There may be a hundred thousand, so that no look-up may scan them.)
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entries {
    list: Vec<Entry>,
    index: HashMap<String, usize>,
}

/// An entry whose key was there already.
pub(super) struct Duplicate {
    key: String,
    at: Option<Span>,
    first: Option<Span>,
}

impl Entries {
    pub(crate) fn as_slice(&self) -> &[Entry] {
        &self.list
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.list.iter_mut()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.list.get(*self.index.get(key)?)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.list.get_mut(*self.index.get(key)?).map(|entry| &mut entry.node)
    }

    /// The value of a key, made if it is not there.
    pub(super) fn get_or_insert_with(&mut self, key: &str, make: impl FnOnce() -> Node) -> &mut Node {
        let place = *self.index.entry(key.to_owned()).or_insert_with(|| {
            self.list.push(Entry { key: key.to_owned(), key_at: None, node: make() });
            self.list.len() - 1
        });
        &mut self.list[place].node
    }

    /// Adds an entry. Of a key that is given twice the first entry stays.
    pub(super) fn insert(&mut self, entry: Entry) -> Result<(), Duplicate> {
        if let Some(first) = self.get(&entry.key) {
            return Err(Duplicate { at: entry.key_at, first: first.key_at, key: entry.key });
        }
        self.index.insert(entry.key.clone(), self.list.len());
        self.list.push(entry);
        Ok(())
    }
}

impl Duplicate {
    pub(super) fn report(self, parent: &KeyPath) -> Diagnostic {
        let line =
            self.first.map(|first| format!("the first is on line {}; keep one of them", first.start.line));
        Diagnostic {
            help: line,
            ..Diagnostic::error(Kind::DuplicateKey, parent.key(&self.key), "this key is given twice")
                .at(self.at)
                .related(self.first, "first given here")
        }
    }
}
