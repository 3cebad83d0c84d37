//! A configuration that has passed every check.

use std::{collections::BTreeMap, iter, ops::Deref, path::Path};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    diagnostic::Report,
    model::{GatewayConfig, IdentityLimit},
    values::{MASK, Name},
};

/// A configuration that has passed every check: the only form in which the gateway takes one.
///
/// It reads as a [`GatewayConfig`] and cannot be changed.
#[derive(Clone, Debug)]
pub struct Validated {
    config: GatewayConfig,
    warnings: Report,
}

impl Validated {
    pub(crate) fn new(config: GatewayConfig, warnings: Report) -> Self {
        Self { config, warnings }
    }

    /// The file that it comes from.
    #[must_use]
    pub fn file(&self) -> &Path {
        self.warnings.file()
    }

    /// The files whose change makes another configuration: the one that it comes from, and that of `api_keys.file` if
    /// it names one.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        iter::once(self.file()).chain(self.config.api_keys.file.as_deref())
    }

    /// What is accepted and hardly meant.
    #[must_use]
    pub fn warnings(&self) -> &Report {
        &self.warnings
    }

    /// Every key with the value in effect. Secrets are masked, and so are users, teams and tenants.
    #[must_use]
    pub fn effective(&self) -> Value {
        let mut effective = to_value(&self.config);
        let limits = &self.config.rate_limiting.limits;
        // As keys of a map the masked names would fall together: number them.
        for (dimension, overrides) in
            [("per_user", &limits.per_user.overrides), ("per_team", &limits.per_team.overrides)]
        {
            if let Some(shown) =
                effective.pointer_mut(&format!("/rate_limiting/limits/{dimension}/overrides"))
            {
                *shown = masked(overrides);
            }
        }
        effective
    }

    /// [`effective`](Self::effective) as YAML.
    #[must_use]
    pub fn effective_yaml(&self) -> String {
        crate::yaml::write(&self.effective(), &|_| None)
    }
}

impl Deref for Validated {
    type Target = GatewayConfig;

    fn deref(&self) -> &GatewayConfig {
        &self.config
    }
}

/// The configuration in effect is the same, wherever it comes from and whatever the warnings.
impl PartialEq for Validated {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
    }
}

fn masked(overrides: &BTreeMap<Name, IdentityLimit>) -> Value {
    let numbered = overrides.values().enumerate();
    numbered.map(|(n, limit)| (format!("{MASK}{}", n + 1), to_value(limit))).collect::<Map<_, _>>().into()
}

/// Every value of the model has a form in JSON; a time beyond the year 9999, which no file can give, would not.
fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}
