use std::collections::HashSet;

use super::Rules;
use crate::{
    diagnostic::{Diagnostic, KeyPath, Kind},
    schema::Document,
    suggest,
    tree::Node,
    values::AddressRange,
};

impl<'a> Rules<'a> {
    pub(super) fn limits(&mut self) {
        for (path, limit) in self.every_limit() {
            for (capacity, rates, example) in [
                ("burst_capacity", "requests_per_", "requests_per_second"),
                ("token_burst_capacity", "tokens_per_", "tokens_per_minute"),
            ] {
                let has_rate = limit.entries().iter().any(|entry| entry.key.starts_with(rates));
                // Where no tokens are counted, the schema has told so.
                let is_known = Document::Configuration.schema_at(&path.key(capacity)).is_some();
                if limit.get(capacity).is_some() && is_known && !has_rate {
                    self.conflict(
                        path.key(capacity),
                        "a capacity without a rate limits nothing",
                        &format!("give a rate beside it, such as `{example}`"),
                    );
                }
            }
        }
        self.client_overrides();

        let ids: HashSet<_> =
            self.items("api_keys.keys").filter_map(|(_, key)| key.get("id")?.text()).collect();
        let bypass: Vec<_> = self
            .items("rate_limiting.bypass_keys")
            .filter_map(|(path, item)| Some((path, item.text()?)))
            .collect();
        for (path, id) in &bypass {
            if !ids.contains(id) && !self.joined.incomplete {
                let help = match suggest::closest_name(id, ids.iter().copied()) {
                    Some(close) => format!("did you mean `{close}`?"),
                    None => "name the `id` of an entry of `api_keys.keys`".to_owned(),
                };
                self.conflict(path.clone(), "no key has this id", &help);
            }
        }
        self.unique("this key is named twice", bypass);

        let weights: Vec<_> = self
            .items("rate_limiting.fair_queuing.weights")
            .filter_map(|(path, weight)| {
                let dimension = weight.get("dimension").and_then(|node| node.text());
                Some((path.key("tenant"), (weight.get("tenant")?.text()?, dimension)))
            })
            .collect();
        self.unique("two entries give this tenant a weight", weights);
    }

    /// The overrides of `per_client` are ranges: what is written in two ways is still one.
    fn client_overrides(&mut self) {
        let path = KeyPath::of("rate_limiting.limits.per_client.overrides");
        let entries = self.root.find(&path).map_or(&[][..], Node::entries);
        let mut ranges = Vec::new();
        for entry in entries {
            let path = path.key(&entry.key);
            match entry.key.parse::<AddressRange>() {
                Ok(range) => ranges.push((path, range)),
                Err(error) => {
                    self.problems
                        .push(Diagnostic::error(Kind::BadValue, path, error.to_string()).at(entry.key_at));
                }
            }
        }
        self.unique("two overrides are for the same addresses", ranges);
    }

    /// Every place where a limit is given.
    fn every_limit(&self) -> Vec<(KeyPath, &'a Node)> {
        let limits = KeyPath::of("rate_limiting.limits");
        let mut found = Vec::new();
        for entry in self.root.find(&limits).map_or(&[][..], Node::entries) {
            let path = limits.key(&entry.key);
            let overrides = path.key("overrides");
            for entry in entry.node.get("overrides").map_or(&[][..], Node::entries) {
                found.push((overrides.key(&entry.key), &entry.node));
            }
            found.push((path, &entry.node));
        }
        for (path, key) in self.items("api_keys.keys") {
            if let Some(limit) = key.get("rate_limit") {
                found.push((path.key("rate_limit"), limit));
            }
        }
        found
    }
}
