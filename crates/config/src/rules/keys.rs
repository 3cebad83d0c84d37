use super::Rules;
use crate::{suggest, tenants::digest, tree::Value, values::KeyDigest};

impl Rules<'_> {
    pub(super) fn keys(&mut self) {
        let keys: Vec<_> = self.items("api_keys.keys").collect();
        let ids: Vec<_> =
            keys.iter().filter_map(|(path, key)| Some((path.key("id"), key.get("id")?.text()?))).collect();
        self.unique("two keys have this id", ids);

        let secrets: Vec<_> = keys
            .iter()
            .filter_map(|(path, key)| {
                if let Some(raw) = key.get("key").and_then(|node| node.text()).filter(|raw| !raw.is_empty()) {
                    return Some((path.key("key"), *digest(raw).as_bytes()));
                }
                let digest: KeyDigest = key.get("sha256")?.text()?.parse().ok()?;
                Some((path.key("sha256"), *digest.as_bytes()))
            })
            .collect();
        self.unique("two entries give the same key", secrets);

        for (path, key) in &keys {
            match (key.get("key"), key.get("sha256")) {
                (Some(_), Some(_)) => {
                    self.conflict(
                        path.key("sha256"),
                        "the key is given twice",
                        "give either `key` or `sha256`",
                    );
                }
                (None, None) if matches!(key.value, Value::Map(_)) => {
                    self.conflict(
                        path.clone(),
                        "the key itself is missing",
                        "give `key`, or `sha256` with its digest",
                    );
                }
                _ => {}
            }
            let tiers = self.find("identity.tiers").map_or(&[][..], |tiers| tiers.entries());
            if let Some(tier) = key.get("tier").and_then(|node| node.text())
                && !tiers.iter().any(|entry| entry.key == tier)
            {
                let known: Vec<_> = tiers.iter().map(|entry| entry.key.as_str()).collect();
                let help = match (&known[..], suggest::closest_name(tier, known.iter().copied())) {
                    ([], _) => "name it in `identity.tiers` first".to_owned(),
                    (_, Some(close)) => format!("did you mean `{close}`?"),
                    (known, None) => format!("`identity.tiers` has {}", known.join(", ")),
                };
                self.conflict(path.key("tier"), "there is no such tier", &help);
            }
        }
    }
}
