//! Budgets of tokens, and waiting: what is set up for requests that can never come to it.

use super::Watch;
use crate::{
    diagnostic::KeyPath,
    model::{IdentityLimit, TenantDimension},
    values::format_duration,
};

/// One of the two ways of waiting.
struct Waiting {
    section: KeyPath,
    enabled: bool,
    /// Whether some limit can make a request wait in this way.
    has_limit: bool,
    max_wait_ms: u64,
    nothing_waits: &'static str,
    nothing_waits_help: &'static str,
}

impl Watch<'_> {
    pub(super) fn tokens(&mut self) {
        let tokens = KeyPath::of("rate_limiting.tokens");
        if self.root.find(&tokens).is_some() && !self.limits_tokens() {
            self.warn(
                tokens,
                "no limit counts tokens, so this has no effect",
                "give a limit of tokens, such as `tokens_per_minute`, or remove it",
            );
        }
    }

    pub(super) fn waiting(&mut self) {
        let limiting = &self.config.rate_limiting;
        let (queuing, deferral) = (&limiting.fair_queuing, &limiting.deferred_admission);
        let modes = [
            Waiting {
                section: KeyPath::of("rate_limiting.fair_queuing"),
                enabled: queuing.enabled,
                has_limit: limiting.limits.has_identity_limit()
                    || self.has_own_limit(IdentityLimit::limits_requests),
                max_wait_ms: queuing.max_wait_ms.get(),
                nothing_waits: "only requests beyond an identity's limit of requests queue, and there is none",
                nothing_waits_help: "limit the requests per_api_key, per_user, per_team or per_model",
            },
            Waiting {
                section: KeyPath::of("rate_limiting.deferred_admission"),
                enabled: deferral.enabled,
                has_limit: self.limits_tokens(),
                max_wait_ms: deferral.max_wait_ms.get(),
                nothing_waits: "only requests beyond an identity's limit of tokens are deferred, and there is none",
                nothing_waits_help: "limit the tokens per_api_key, per_user, per_team or per_model",
            },
        ];
        let mut some = false;
        for mode in modes.into_iter().filter(|mode| mode.enabled) {
            some = true;
            self.waiting_in(&mode);
        }
        if some {
            self.tenants_of_nobody();
        }
    }

    /// A tenant dimension that no key has: every tenant would be made by another.
    fn tenants_of_nobody(&mut self) {
        let path = KeyPath::of("rate_limiting.fair_queuing.tenant_dimension");
        let keys = &self.config.api_keys.keys;
        let (is_there, message) = match self.config.rate_limiting.fair_queuing.tenant_dimension {
            TenantDimension::User => {
                (keys.iter().any(|key| key.user.is_some()), "no key belongs to a user, so no tenant is one")
            }
            TenantDimension::Team => {
                (keys.iter().any(|key| key.team.is_some()), "no key belongs to a team, so no tenant is one")
            }
            TenantDimension::ApiKey => (true, ""),
        };
        if self.root.find(&path).is_some() && !is_there && !keys.is_empty() {
            self.warn(
                path,
                message,
                "tenants are then made by the first of user, team and key that a key has",
            );
        }
    }

    fn waiting_in(&mut self, mode: &Waiting) {
        let enabled = mode.section.key("enabled");
        if !self.config.rate_limiting.enabled {
            self.warn(
                enabled,
                "rate limiting is off, so nothing will ever wait",
                "set `rate_limiting.enabled` to true",
            );
        } else if !mode.has_limit {
            self.warn(enabled, mode.nothing_waits, mode.nothing_waits_help);
        }
        let max_wait = mode.section.key("max_wait_ms");
        let total = self.config.timeouts.request.smallest_total();
        if self.root.find(&max_wait).is_some() && u128::from(mode.max_wait_ms) > total.as_millis() {
            let message = format!(
                "the smallest total timeout of requests, {}, ends every wait before",
                format_duration(total)
            );
            self.warn(max_wait, &message, "lower it, or raise the `total` of `timeouts.request`");
        }
    }

    fn limits_tokens(&self) -> bool {
        self.config.rate_limiting.limits.has_token_limit() || self.has_own_limit(IdentityLimit::limits_tokens)
    }

    /// Whether some key has a limit of its own of this kind.
    fn has_own_limit(&self, is_of_kind: fn(&IdentityLimit) -> bool) -> bool {
        self.config.api_keys.keys.iter().filter_map(|key| key.rate_limit.as_ref()).any(is_of_kind)
    }
}
