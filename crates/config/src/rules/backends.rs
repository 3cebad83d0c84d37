use std::path::Path;

use super::Rules;

impl Rules<'_> {
    pub(super) fn backends(&mut self, folder: &Path) {
        let backends: Vec<_> = self.items("backends").collect();
        let names: Vec<_> = backends
            .iter()
            .filter_map(|(path, backend)| Some((path.key("name"), backend.get("name")?.text()?)))
            .collect();
        self.unique("two backends have this name", names);
        for (path, backend) in backends {
            let url = backend.get("url").and_then(|node| node.text()).unwrap_or_default();
            let is_tls = !(url.starts_with("http:") || url.starts_with("builtin:"));
            self.certificates(path.key("ca_file"), is_tls, "an `https` URL", folder);
        }
    }
}
