//! Secrets that the configuration file gives itself, where they should come from elsewhere.

use crate::{
    diagnostic::KeyPath,
    interpolate::{Interpolated, interpolate},
    tree::Node,
};

const URL: &str = "rate_limiting.redis.url";

/// The secrets that a configuration file gives itself, by their paths.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Tokens and keys of the gateway's own.
    pub(super) own: Vec<KeyPath>,
    /// Keys of callers.
    pub(super) keys: Vec<KeyPath>,
    /// The URL with the password of Redis.
    pub(super) redis: Option<KeyPath>,
}

impl Written {
    /// Looks at the tree as it stands in the file, before variables are replaced.
    ///
    /// The file of `api_keys.file` is passed over: a file that has nothing but keys can be kept as a secret.
    pub(crate) fn find(root: &Node) -> Self {
        let single = ["admin.token", "identity.hash_key"].map(KeyPath::of);
        let of_backends = of_items(root, "backends", "api_key");
        let own = single.into_iter().chain(of_backends).filter(|path| gives_text(root, path));
        let keys = of_items(root, "api_keys.keys", "key").filter(|path| gives_text(root, path));
        Self {
            own: own.collect(),
            keys: keys.collect(),
            redis: Some(KeyPath::of(URL)).filter(|path| gives_password(root, path)),
        }
    }
}

fn of_items(root: &Node, list: &str, key: &'static str) -> impl Iterator<Item = KeyPath> {
    let path = KeyPath::of(list);
    let count = root.find(&path).map_or(0, |list| list.items().len());
    (0..count).map(move |n| path.index(n).key(key))
}

/// What is left of a text with every variable empty: what the file gives, defaults of variables included.
fn own_text(root: &Node, path: &KeyPath) -> Option<String> {
    let mut node = root.find(path)?.clone();
    let nothing = |_: &str| Some(String::new());
    interpolate(&mut node, path, &mut Interpolated::new(&nothing));
    node.text().map(str::to_owned)
}

/// Whether the file gives a secret and nothing else. A default beside a variable is what one tries things out with: the
/// place of the real secret is there.
fn gives_text(root: &Node, path: &KeyPath) -> bool {
    root.find(path).and_then(Node::text).is_some_and(|text| !text.is_empty() && !text.contains("${"))
}

fn gives_password(root: &Node, path: &KeyPath) -> bool {
    // The host may be gone with its variable, so this is no URL any more.
    let url = own_text(root, path).unwrap_or_default();
    let Some((before, _)) = url.rsplit_once('@') else { return false };
    let credentials = before.split_once("://").map_or(before, |(_, credentials)| credentials);
    credentials.split_once(':').is_some_and(|(_, password)| !password.is_empty())
}
