use std::{fs, path::Path};

use super::Rules;
use crate::diagnostic::{Diagnostic, KeyPath, Kind};

impl Rules<'_> {
    /// Checks a file of certificate authorities, if one is named: it must be there, and the URL be one that uses it.
    pub(super) fn certificates(&mut self, path: KeyPath, is_tls: bool, url_with_tls: &str, folder: &Path) {
        let Some(file) = self.root.find(&path).and_then(|node| node.text()) else { return };
        if !is_tls {
            let help = format!("use {url_with_tls}, or remove it");
            self.conflict(path, "`ca_file` has no effect without TLS", &help);
            return;
        }
        let file = folder.join(file);
        let message = match fs::read(&file) {
            Ok(bytes) if holds_certificate(&bytes) => return,
            Ok(_) => format!("there is no PEM certificate in {}", file.display()),
            Err(error) => format!("{} cannot be read: {error}", file.display()),
        };
        let place = self.root.place(&path);
        self.problems.push(Diagnostic::error(Kind::Unreadable, path, message).at(place));
    }
}

fn holds_certificate(pem: &[u8]) -> bool {
    let marker = b"-----BEGIN CERTIFICATE-----";
    pem.windows(marker.len()).any(|window| window == marker)
}
