//! What no schema can say: rules across values, addresses and files.
//!
//! Rules that make a configuration unusable look at the tree, so that each applies whatever else is wrong;
//! warnings look at the finished model.

mod backends;
mod certificates;
mod keys;
mod limits;
mod redis;
mod server;
mod warnings;
mod written;

use std::{collections::HashMap, path::Path};

use crate::{
    diagnostic::{Diagnostic, KeyPath, Kind},
    keys_file::Joined,
    tree::Node,
};

pub(crate) use warnings::warnings;
pub(crate) use written::Written;

/// Checks all rules. What the schema refuses is passed over: it has been told.
pub(crate) fn check(root: &Node, folder: &Path, joined: &Joined) -> Vec<Diagnostic> {
    let mut rules = Rules { root, joined, problems: Vec::new() };
    rules.server();
    rules.backends(folder);
    rules.keys();
    rules.limits();
    rules.redis(folder);
    rules.problems
}

struct Rules<'a> {
    root: &'a Node,
    joined: &'a Joined,
    problems: Vec<Diagnostic>,
}

impl<'a> Rules<'a> {
    fn find(&self, dotted: &str) -> Option<&'a Node> {
        self.root.find(&KeyPath::of(dotted))
    }

    fn text(&self, dotted: &str) -> Option<&'a str> {
        self.find(dotted)?.text()
    }

    /// The items of a list, with their paths.
    fn items(&self, dotted: &str) -> impl Iterator<Item = (KeyPath, &'a Node)> + use<'a> {
        let path = KeyPath::of(dotted);
        let items = self.root.find(&path).map_or(&[][..], Node::items);
        items.iter().enumerate().map(move |(n, item)| (path.index(n), item))
    }

    fn conflict(&mut self, path: KeyPath, message: &str, help: &str) {
        let place = self.root.place(&path);
        self.problems.push(Diagnostic::error(Kind::Conflict, path, message).help(help).at(place));
    }

    /// Reports every value that was there before, where each is given by its path and what must be unique.
    fn unique<K: Eq + std::hash::Hash>(
        &mut self,
        message: &str,
        values: impl IntoIterator<Item = (KeyPath, K)>,
    ) {
        let mut seen = HashMap::new();
        for (path, value) in values {
            if let Some(first) = seen.get(&value) {
                let help = format!("it is at {} already", self.joined.named(first));
                let (place, first) = (self.root.place(&path), self.root.place(first));
                let problem = Diagnostic::error(Kind::Conflict, path, message).help(help).at(place);
                self.problems.push(problem.related(first, "first given here"));
            } else {
                seen.insert(value, path);
            }
        }
    }
}
