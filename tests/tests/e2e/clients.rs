//! Whose address a request comes from, and who cannot pretend otherwise.

use fairlane_tests::{Answer, Backend, Call, Client, Config, Gateway};

use crate::support::{Told, assert_limited};

/// Two requests an hour for each client address.
async fn two_each(configure: impl FnOnce(Config) -> Config) -> (Backend, Gateway) {
    let backend = Backend::start().await;
    let config = Config::with(&backend).permissive().limit("per_client: { requests_per_hour: 2 }");
    let gateway = Gateway::start(&configure(config)).await;
    (backend, gateway)
}

async fn forwarded(gateway: &Gateway, lines: &[&str]) -> Answer {
    let call = lines.iter().fold(Call::chat("m"), |call, line| call.header("x-forwarded-for", line));
    gateway.call(call).await
}

/// How many of `most` requests pass, the `n`th with the lines that `lines` makes.
async fn passing(gateway: &Gateway, most: usize, lines: impl Fn(usize) -> Vec<String>) -> usize {
    let mut passed = 0;
    for n in 0..most {
        let lines = lines(n);
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let answer = forwarded(gateway, &lines).await;
        match answer.status {
            200 => passed += 1,
            _ => assert_limited(&answer, "client"),
        }
    }
    passed
}

#[tokio::test]
async fn what_a_caller_says_of_its_address_is_not_believed() {
    let (backend, gateway) = two_each(|config| config).await;
    assert_eq!(passing(&gateway, 20, |n| vec![format!("203.0.113.{n}")]).await, 2);
    assert_eq!(passing(&gateway, 5, |n| vec![format!("203.0.113.{n}, 127.0.0.1")]).await, 0);
    let others = ["forwarded", "x-real-ip", "x-client-ip", "cf-connecting-ip", "true-client-ip"];
    for header in others {
        let call = Call::chat("m").set(header, "203.0.113.99");
        assert_limited(&gateway.call(call).await, "client");
    }
    assert_eq!(backend.count(), 2);
    // The control: another real address is another client.
    assert_eq!(gateway.call(Call::chat("m").from("127.0.0.2")).await.status, 200);
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_rightmost_untrusted_address_counts_over_all_lines() {
    let (_backend, gateway) =
        two_each(|config| config.server("trusted_proxies: [127.0.0.1, 10.0.0.0/8]")).await;
    // What stands left of it, the caller may have written itself.
    assert_eq!(passing(&gateway, 6, |n| vec![format!("198.51.100.{n}, 203.0.113.1")]).await, 2);
    // The same address over several lines, and behind a further trusted proxy.
    assert_eq!(passing(&gateway, 3, |n| vec![format!("198.51.100.{n}"), "203.0.113.1".into()]).await, 0);
    assert_eq!(passing(&gateway, 3, |n| vec!["203.0.113.1".into(), format!("10.1.2.{n}")]).await, 0);
    assert_eq!(passing(&gateway, 3, |n| vec![format!("203.0.113.1, 10.1.2.{n}, 10.9.9.9")]).await, 0);
    // The control: other addresses are other clients.
    assert_eq!(passing(&gateway, 3, |_| vec!["203.0.113.1, 203.0.113.2".into()]).await, 2);
    assert_eq!(passing(&gateway, 3, |_| vec!["203.0.113.1".into(), "203.0.113.3".into()]).await, 2);
}

#[tokio::test]
async fn a_chain_that_ends_in_garbage_buys_nothing() {
    let (_backend, gateway) = two_each(|config| config.server("trusted_proxies: [127.0.0.1]")).await;
    // Whatever it counts as, it is one client and not one for each piece of garbage.
    assert_eq!(passing(&gateway, 9, |n| vec![format!("203.0.113.{n}, garbage-{n}")]).await, 2);
}

#[tokio::test]
async fn an_untrusted_peer_is_not_believed_even_where_another_would_be() {
    let (_backend, gateway) = two_each(|config| config.server("trusted_proxies: [127.0.0.1]")).await;
    for n in 0..4 {
        let call = Call::chat("m").from("127.0.0.3").header("x-forwarded-for", &format!("203.0.113.{n}"));
        assert_eq!(gateway.call(call).await.status, if n < 2 { 200 } else { 429 });
    }
}

#[tokio::test]
async fn ipv6_addresses_of_one_network_are_one_client() {
    let (_backend, gateway) = two_each(|config| config.server("trusted_proxies: [127.0.0.1]")).await;
    assert_eq!(passing(&gateway, 6, |n| vec![format!("2001:db8:1:2::{n}")]).await, 2);
    assert_eq!(passing(&gateway, 3, |n| vec![format!("2001:db8:1:3::{n}")]).await, 2);
    // An IPv4 address in IPv6 clothes is that IPv4 address.
    assert_eq!(passing(&gateway, 2, |_| vec!["203.0.113.7".into()]).await, 2);
    assert_eq!(passing(&gateway, 2, |_| vec!["::ffff:203.0.113.7".into()]).await, 0);
}

#[tokio::test]
async fn the_prefixes_are_configurable() {
    let (_backend, gateway) = two_each(|config| {
        config.server("trusted_proxies: [127.0.0.1]").server("ipv4_prefix: 24").server("ipv6_prefix: 48")
    })
    .await;
    assert_eq!(passing(&gateway, 4, |n| vec![format!("203.0.113.{n}")]).await, 2);
    assert_eq!(passing(&gateway, 4, |n| vec![format!("203.0.114.{n}")]).await, 2);
    assert_eq!(passing(&gateway, 4, |n| vec![format!("2001:db8:1:{n}::1")]).await, 2);
}

#[tokio::test]
async fn client_overrides_go_by_the_narrowest_range() {
    let (_backend, gateway) = two_each(|config| {
        config.server("trusted_proxies: [127.0.0.1]").limit("per_model: { requests_per_hour: 1000 }")
    })
    .await;
    let told = Told::of(&forwarded(&gateway, &["203.0.113.1"]).await);
    assert_eq!((told.policy.as_str(), told.limit), ("per-client", 2));

    let backend = Backend::start().await;
    let config = Config::with(&backend).permissive().server("trusted_proxies: [127.0.0.1]").limit(
        "per_client: { requests_per_hour: 2, overrides: { 203.0.113.0/24: { requests_per_hour: 3 }, \
         203.0.113.9: { requests_per_hour: 4 } } }",
    );
    let gateway = Gateway::start(&config).await;
    for (address, limit) in [("198.51.100.1", 2), ("203.0.113.1", 3), ("203.0.113.9", 4)] {
        assert_eq!(passing(&gateway, 6, |_| vec![address.to_owned()]).await, limit, "{address}");
    }
}

#[tokio::test]
async fn a_whitelisted_address_bypasses_all_limits_and_cannot_be_forged() {
    let backend = Backend::start().await;
    let config = Config::with(&backend)
        .permissive()
        .rate_limiting("whitelist: [127.0.0.5, 203.0.113.0/24]")
        .limit("global: { requests_per_hour: 3 }")
        .limit("per_client: { requests_per_hour: 1 }")
        .limit("per_model: { requests_per_hour: 2 }")
        .limit("per_backend: { requests_per_hour: 2 }");
    let gateway = Gateway::start(&config).await;
    for _ in 0..10 {
        let answer = gateway.call(Call::chat("m").from("127.0.0.5")).await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, ""), "it met no bucket");
    }
    let forged = || Call::chat("m").set("x-forwarded-for", "203.0.113.1");
    assert_eq!(gateway.call(forged()).await.status, 200);
    assert_limited(&gateway.call(forged()).await, "client");
}

#[tokio::test]
async fn more_addresses_than_buckets_take_no_more_memory_and_reset_nobody() {
    let (_backend, gateway) =
        two_each(|config| config.server("trusted_proxies: [127.0.0.1]").rate_limiting("max_buckets: 50"))
            .await;
    assert_eq!(passing(&gateway, 3, |_| vec!["203.0.113.1".into()]).await, 2);
    // So many that the exhausted bucket would be thrown out if any were.
    passing(&gateway, 500, |n| vec![format!("198.51.{}.{}", n / 250, n % 250)]).await;
    assert_eq!(passing(&gateway, 3, |_| vec!["203.0.113.1".into()]).await, 0);
    let metrics = gateway.metrics().await;
    let buckets = metrics.value("rate_limit_buckets", &[]).unwrap();
    assert!(buckets <= 60.0, "{buckets} buckets, of 50 and the ones that are shared beyond them");
}

#[tokio::test]
async fn a_listener_of_both_families_takes_an_ipv4_caller_for_what_it_is() {
    let backend = Backend::start().await;
    let yaml = Config::with(&backend)
        .permissive()
        .server("trusted_proxies: [127.0.0.9]")
        .rate_limiting("whitelist: [127.0.0.8]")
        .limit("per_client: { requests_per_hour: 1, overrides: { 127.0.0.7: { requests_per_hour: 2 } } }")
        .yaml()
        .replacen("listen: 127.0.0.1:0", "listen: \"[::]:0\"", 1);
    let gateway = Gateway::start_yaml(&yaml, |_| {}).await;
    let client = Client::new(([127, 0, 0, 1], gateway.listen().port()).into());
    let passed = async |call: Call| {
        let mut passed = 0;
        for _ in 0..4 {
            passed += usize::from(client.call(call.clone()).await.status == 200);
        }
        passed
    };
    assert_eq!(passed(Call::chat("m").from("127.0.0.6")).await, 1);
    assert_eq!(passed(Call::chat("m").from("127.0.0.7")).await, 2, "its override");
    assert_eq!(passed(Call::chat("m").from("127.0.0.8")).await, 4, "whitelisted");
    let forwarded = |from: &str| Call::chat("m").from("127.0.0.9").set("x-forwarded-for", from);
    assert_eq!(passed(forwarded("203.0.113.1")).await, 1, "trusted");
    assert_eq!(passed(forwarded("127.0.0.6")).await, 0, "the same client by another way");
}

/// Buckets of configured users have places of their own, whatever unknown addresses fill the store with.
#[tokio::test]
async fn a_flood_of_addresses_pushes_no_known_user_into_a_shared_bucket() {
    let backend = Backend::start().await;
    let mut config = Config::with(&backend)
        .server("trusted_proxies: [127.0.0.1]")
        .rate_limiting("max_buckets: 50")
        .limit("per_client: { requests_per_hour: 1000 }")
        .limit("per_user: { requests_per_hour: 3 }");
    for user in ["a", "b", "c"] {
        config = config.key(user, &format!("key-of-{user}"), &format!("user: {user}"));
    }
    let gateway = Gateway::start(&config).await;
    let mut wire = gateway.client().connect(None).await;
    // Six times what the store may hold.
    for n in 0..300 {
        let address = format!("10.0.{}.{}", n / 250, n % 250 + 1);
        let stranger = Call::chat("m").key("no-such-key").header("x-forwarded-for", &address);
        assert_eq!(wire.call(stranger).await.status, 401);
    }
    for user in ["a", "b", "c"] {
        for status in [200, 200, 200, 429] {
            let answer = gateway.call(Call::chat("m").key(&format!("key-of-{user}"))).await;
            assert_eq!(answer.status, status, "{user}: {}", answer.printed());
        }
    }
}
