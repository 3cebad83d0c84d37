//! What a file means once it is loaded.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod support;

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use fairlane_config::{
    BackendUrl, Format, GatewayConfig, Loader, Tenant, Validated, discover,
    model::{Auth, KeyMaterial, TenantDimension},
};
use serde_json::json;
use support::{load_text, yaml};

const BACKEND: &str = "backends: [{ name: a, url: 'builtin:echo', models: ['*'] }]\n";

fn good(text: &str) -> Validated {
    yaml(&format!("{BACKEND}{text}")).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn a_validated_configuration_can_be_shared() {
    fn shareable<T: Clone + Send + Sync + 'static>() {}
    shareable::<Validated>();
}

#[test]
fn rate_limiting_is_on_exactly_if_limits_are_given_or_it_is_switched_on() {
    let enabled = |text: &str| good(text).rate_limiting.enabled;
    assert!(!enabled(""));
    assert!(!enabled("rate_limiting: { max_buckets: 5 }"));
    assert!(enabled("rate_limiting: { enabled: true }"));
    assert!(enabled("rate_limiting: { limits: { global: { requests_per_second: 1 } } }"));
    assert!(!enabled("rate_limiting: { enabled: false, limits: { global: { requests_per_second: 1 } } }"));
}

#[test]
fn token_and_hash_key_come_from_the_environment_unless_the_file_says_otherwise() {
    let environment = |name: &str| match name {
        "FAIRLANE_ADMIN_TOKEN" => Some("token-of-the-environment".to_owned()),
        "FAIRLANE_HASH_KEY" => Some("hash-key-of-the-environment".to_owned()),
        _ => None,
    };
    let load = |text: &str| {
        let text = format!("{BACKEND}{text}");
        Loader::new(&environment).load_bytes(text.as_bytes(), Format::Yaml, Path::new("test"))
    };
    let config = load("").unwrap();
    assert_eq!(config.admin.token.expose(), "token-of-the-environment");
    assert_eq!(config.identity.hash_key.expose(), "hash-key-of-the-environment");
    // With the token the admin plane may be reached by others.
    assert!(load("server: { admin_listen: '0.0.0.0:9090' }").is_ok());

    let config = load("admin: { token: '' }\nidentity: { hash_key: mine, tiers: {} }").unwrap();
    assert!(config.admin.token.is_empty());
    assert_eq!(config.identity.hash_key.expose(), "mine");
    assert!(good("").admin.token.is_empty());
}

#[test]
fn a_variable_is_one_string_whatever_it_holds() {
    let environment = |name: &str| match name {
        "NAME" => Some("x\", admin: { token: y }, \"a: [b]".to_owned()),
        "NUMBER" => Some("5".to_owned()),
        "NULL" => Some("null".to_owned()),
        _ => None,
    };
    for text in [
        "api_keys: { keys: [{ id: k, key: z, user: \"${NAME}\", team: \"${NUMBER}\", tier: t }] }",
        "api_keys:\n  keys:\n    - id: k\n      key: z\n      user: ${NAME}\n      team: ${NUMBER}\n      tier: t\n",
    ] {
        let text = format!("{BACKEND}identity: {{ tiers: {{ t: {{ weight: 1 }} }} }}\n{text}");
        let config =
            Loader::new(&environment).load_bytes(text.as_bytes(), Format::Yaml, Path::new("test")).unwrap();
        let key = &config.api_keys.keys[0];
        assert_eq!(key.user.as_ref().unwrap().as_str(), "x\", admin: { token: y }, \"a: [b]");
        assert_eq!(key.team.as_ref().unwrap().as_str(), "5");
        assert!(config.admin.token.is_empty());
    }
    // Not even `null` is anything but a string.
    let text = format!("{BACKEND}server:\n  admin_listen: ${{NULL}}\n");
    assert!(Loader::new(&environment).load_bytes(text.as_bytes(), Format::Yaml, Path::new("test")).is_err());
}

#[test]
fn a_limit_is_a_list_of_buckets() {
    let config = good(
        "rate_limiting: { limits: { per_user: { requests_per_day: 100, requests_per_minute: 5, burst_capacity: 7, \
         overrides: { alice: {}, bob: { requests_per_hour: 3 } } } } }",
    );
    let limit = &config.rate_limiting.limits.per_user;
    let buckets = |limit: &fairlane_config::model::Limit| -> Vec<(u64, u64, u64)> {
        limit.request_rates().map(|r| (r.amount.get(), r.period.as_secs(), r.capacity.get())).collect()
    };
    // The capacity is that of the shortest period; the others hold the amount of one.
    assert_eq!(buckets(limit), [(5, 60, 7), (100, 86_400, 100)]);
    assert!(limit.overrides["alice"].is_unlimited());
    assert_eq!(buckets(&limit.overrides["bob"]), [(3, 3600, 3)]);
    assert!(config.rate_limiting.limits.has_identity_limit());
    assert!(config.rate_limiting.limits.global.is_unlimited());
}

#[test]
fn a_limit_of_tokens_is_a_list_of_buckets_beside_that_of_requests() {
    let config = good(
        "rate_limiting: { limits: { per_team: { tokens_per_day: 5000000, tokens_per_hour: 9, token_burst_capacity: 7, \
         overrides: { research: { requests_per_second: 1 }, ops: { tokens_per_minute: 3 } } } } }",
    );
    let limits = &config.rate_limiting.limits;
    let buckets = |limit: &fairlane_config::model::IdentityLimit| -> Vec<(u64, u64, u64)> {
        limit.token_rates().map(|r| (r.amount.get(), r.period.as_secs(), r.capacity.get())).collect()
    };
    assert_eq!(buckets(&limits.per_team), [(9, 3600, 7), (5_000_000, 86_400, 5_000_000)]);
    assert_eq!(buckets(&limits.per_team.overrides["ops"]), [(3, 60, 3)]);
    assert_eq!(limits.per_team.request_rates().count(), 0);
    // An override stands in place of the whole limit, tokens included.
    let research = &limits.per_team.overrides["research"];
    assert!(research.limits_requests() && !research.limits_tokens() && !research.is_unlimited());
    assert!(limits.has_token_limit() && limits.has_identity_limit());

    let tokens =
        good("rate_limiting: { limits: { per_model: { overrides: { m: { tokens_per_day: 1 } } } } }");
    assert!(
        tokens.rate_limiting.limits.has_token_limit() && !tokens.rate_limiting.limits.has_identity_limit()
    );
    let requests = good("rate_limiting: { limits: { per_model: { requests_per_day: 1 } } }");
    assert!(
        !requests.rate_limiting.limits.has_token_limit()
            && requests.rate_limiting.limits.has_identity_limit()
    );
}

#[test]
fn values_are_parsed_once_and_for_all() {
    let text = r#"
[server]
trusted_proxies = ["10.0.0.0/8", "::1"]
drain_timeout = "1m30s"

[[backends]]
name = "a"
url = "https://API.example.com:8443/base/"
models = ["gpt-4o", "llama-*"]
auth = "x-api-key"

[[backends]]
name = "b"
url = "builtin:echo?chunk_ms=7"
models = ["*"]

[[api_keys.keys]]
id = "k"
sha256 = "2D711642B726B04401627CA9FBAC32F5C8530FB1903CC4DB02258717921A4881"
expires_at = 2027-01-31T12:00:00Z
"#;
    let config = load_text(text, Format::Toml).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(config.server.drain_timeout, Duration::from_secs(90));
    assert!(config.server.trusted_proxies[0].contains(&IpAddr::from([10, 1, 2, 3])));
    let BackendUrl::Https(server) = &config.backends[0].url else { panic!("{:?}", config.backends[0].url) };
    assert_eq!((server.host(), server.port(), server.base_path()), ("api.example.com", 8443, "/base"));
    assert_eq!(server.authority(), "api.example.com:8443");
    assert_eq!(config.backends[0].auth, Auth::XApiKey);
    assert!(
        config.backends[0].models[1].matches("llama-3")
            && !config.backends[0].models[0].matches("gpt-4o-mini")
    );
    let echo = BackendUrl::Echo { latency: Duration::ZERO, chunk_interval: Duration::from_millis(7) };
    assert_eq!(config.backends[1].url, echo);
    let key = &config.api_keys.keys[0];
    assert_eq!(key.expires_at, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_801_396_800)));
    assert!(key.enabled && key.models[0].matches("anything"));
    let Some(KeyMaterial::Sha256(digest)) = key.material() else { panic!("{key:?}") };
    assert_eq!(digest.as_bytes()[..2], [0x2d, 0x71]);
}

#[test]
fn files_are_relative_to_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ca.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    let path = folder.path().join("fairlane.yaml");
    let text = "backends: [{ name: a, url: 'https://h', models: ['*'], ca_file: ca.pem }]\napi_keys: { mode: permissive }\n";
    fs::write(&path, text).unwrap();
    let config = GatewayConfig::load(&path, &|_: &str| None).unwrap();
    assert_eq!(config.backends[0].ca_file, Some(folder.path().join("ca.pem")));
    assert_eq!(config.file(), path);
}

#[test]
fn every_key_makes_a_tenant_with_a_weight() {
    let text = |dimension: &str| {
        format!(
            "
identity: {{ tiers: {{ gold: {{ weight: 4 }}, silver: {{ weight: 2 }} }} }}
api_keys:
  keys:
    - {{ id: k1, key: a, user: alice, team: research, tier: silver }}
    - {{ id: k2, key: b, user: alice, team: research, tier: gold }}
    - {{ id: k3, key: c, team: ops, tier: gold }}
    - {{ id: k4, key: d }}
    - {{ id: k5, sha256: 3f79bb7b435b05321651daefd374cdc681dc06faa65e374e38337b88ca046dea }}
rate_limiting:
  fair_queuing:
    tenant_dimension: {dimension}
    default_weight: 7
    weights:
      - {{ tenant: ops, weight: 10 }}
      - {{ tenant: ops, weight: 11, dimension: team }}
      - {{ tenant: alice, weight: 12, dimension: team }}
      - {{ tenant: e, weight: 13 }}
"
        )
    };
    // The digest above is that of `e`.
    let weights = |dimension: &str| -> Vec<String> {
        let config = good(&text(dimension));
        let shown = config.tenant_weights().into_iter().map(|entry| {
            let name = match entry.tenant {
                Tenant::User(name) | Tenant::Team(name) => name.as_str(),
                Tenant::ApiKey(id) => id,
            };
            format!("{} {name} {}", entry.tenant.dimension().as_str(), entry.weight)
        });
        shown.collect()
    };
    // alice has no entry of her kind, so her best tier counts; the entry with a dimension goes before the one without.
    assert_eq!(weights("user"), ["user alice 4", "team ops 11", "api_key k4 7", "api_key k5 13"]);
    assert_eq!(weights("team"), ["team ops 11", "team research 4", "api_key k4 7", "api_key k5 13"]);
    assert_eq!(
        weights("api_key"),
        ["api_key k1 2", "api_key k2 4", "api_key k3 4", "api_key k4 7", "api_key k5 13"]
    );
    assert_eq!(good("").rate_limiting.fair_queuing.tenant_dimension, TenantDimension::User);
}

#[test]
fn what_is_shown_has_masks_in_place_of_secrets_and_identities() {
    let config = good(
        "
admin: { token: secret-token }
identity: { hash_key: secret-hash-key }
api_keys: { keys: [{ id: k1, key: secret-key, user: alice, team: research }, { id: k2, key: other-key, user: bob }] }
rate_limiting:
  limits:
    per_user: { tokens_per_day: 9, overrides: { alice: { requests_per_second: 1 }, bob: { tokens_per_hour: 2 } } }
    per_team: { overrides: { research: {} } }
    per_api_key: { overrides: { k1: { requests_per_second: 3 } } }
    per_model: { overrides: { gpt-4o: { requests_per_second: 4 } } }
  fair_queuing: { weights: [{ tenant: alice, weight: 2 }] }
",
    );
    let effective = config.effective();
    assert_eq!(
        effective["rate_limiting"]["limits"],
        json!({
            "per_api_key": { "overrides": { "k1": { "requests_per_second": 3 } } },
            "per_user": {
                "tokens_per_day": 9,
                "overrides": { "***1": { "requests_per_second": 1 }, "***2": { "tokens_per_hour": 2 } },
            },
            "per_team": { "overrides": { "***1": {} } },
            "per_model": { "overrides": { "gpt-4o": { "requests_per_second": 4 } } },
        })
    );
    assert_eq!(
        effective["rate_limiting"]["fair_queuing"]["weights"],
        json!([{ "tenant": "***", "weight": 2 }])
    );
    assert_eq!(effective["admin"]["token"], "***");
    for shown in
        [effective.to_string(), config.effective_yaml(), format!("{config:?}"), format!("{config:#?}")]
    {
        for word in ["secret", "other-key", "alice", "bob", "research"] {
            assert!(!shown.contains(word), "{word}: {shown}");
        }
    }
}

#[test]
fn the_configuration_file_is_looked_for_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let xdg = folder.path().join("fairlane/fairlane.yaml");
    let home = folder.path().join("home");
    let environment = |variables: &[(&str, &Path)]| {
        let variables: Vec<_> =
            variables.iter().map(|(name, path)| ((*name).to_owned(), path.display().to_string())).collect();
        move |wanted: &str| variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
    };

    let all = environment(&[("FAIRLANE_CONFIG", Path::new("/named")), ("XDG_CONFIG_HOME", folder.path())]);
    assert_eq!(discover(Some(Path::new("given")), &all), Ok(PathBuf::from("given")));
    assert_eq!(discover(None, &all), Ok(PathBuf::from("/named")));

    let usual = environment(&[("XDG_CONFIG_HOME", folder.path()), ("FAIRLANE_CONFIG", Path::new(""))]);
    let searched = discover(None, &usual).unwrap_err();
    assert_eq!(
        searched.searched,
        [PathBuf::from("./fairlane.yaml"), xdg.clone(), PathBuf::from("/etc/fairlane/fairlane.yaml")]
    );
    assert!(
        searched.to_string().starts_with("no configuration file is given, and none is at ./fairlane.yaml, /")
    );

    fs::create_dir_all(xdg.parent().unwrap()).unwrap();
    fs::write(&xdg, "").unwrap();
    assert_eq!(discover(None, &usual), Ok(xdg));

    let of_home = home.join(".config/fairlane/fairlane.yaml");
    fs::create_dir_all(of_home.parent().unwrap()).unwrap();
    fs::write(&of_home, "").unwrap();
    assert_eq!(discover(None, &environment(&[("HOME", &home)])), Ok(of_home));
}

#[test]
fn equal_configurations_are_equal_whatever_the_form() {
    let from_yaml = good("log: { format: json }\napi_keys: { mode: permissive }");
    let json = r#"{ "log": { "format": "json" }, "api_keys": { "mode": "permissive" },
        "backends": [{ "name": "a", "url": "builtin:echo", "models": ["*"] }] }"#;
    assert_eq!(from_yaml, load_text(json, Format::Json).unwrap());
    let toml = "log.format = 'json'\napi_keys.mode = 'permissive'\n[[backends]]\nname = 'a'\nurl = 'builtin:echo'\nmodels = ['*']\n";
    assert_eq!(from_yaml, load_text(toml, Format::Toml).unwrap());
    assert_ne!(from_yaml, good("log: { format: text }\napi_keys: { mode: permissive }"));
}
