use std::{fs, path::Path};

use super::Rules;
use crate::diagnostic::{Diagnostic, Kind};

impl Rules<'_> {
    pub(super) fn backends(&mut self, folder: &Path) {
        let backends: Vec<_> = self.items("backends").collect();
        let names: Vec<_> = backends
            .iter()
            .filter_map(|(path, backend)| Some((path.key("name"), backend.get("name")?.text()?)))
            .collect();
        self.unique("two backends have this name", names);
        for (path, backend) in backends {
            let Some(file) = backend.get("ca_file").and_then(|node| node.text()) else { continue };
            let path = path.key("ca_file");
            let url = backend.get("url").and_then(|node| node.text()).unwrap_or_default();
            if url.starts_with("http:") || url.starts_with("builtin:") {
                self.conflict(
                    path,
                    "`ca_file` has no effect without TLS",
                    "use an `https` URL, or remove it",
                );
                continue;
            }
            let file = folder.join(file);
            let message = match fs::read(&file) {
                Ok(bytes) if holds_certificate(&bytes) => continue,
                Ok(_) => format!("there is no PEM certificate in {}", file.display()),
                Err(error) => format!("{} cannot be read: {error}", file.display()),
            };
            let place = self.root.place(&path);
            self.problems.push(Diagnostic::error(Kind::Unreadable, path, message).at(place));
        }
    }
}

fn holds_certificate(pem: &[u8]) -> bool {
    let marker = b"-----BEGIN CERTIFICATE-----";
    pem.windows(marker.len()).any(|window| window == marker)
}
