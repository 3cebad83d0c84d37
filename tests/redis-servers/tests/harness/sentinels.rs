use fairlane_redis_servers::{Sentinels, SentinelsOptions, Server};

#[tokio::test]
async fn a_killed_master_is_replaced() {
    let all = Sentinels::start_with(SentinelsOptions::new().replicas(2).password("secret")).await;
    assert!(all.url().starts_with("redis+sentinel://127.0.0.1:") && all.url().ends_with("/fairlane-test"));
    assert_eq!(all.master().await.addr(), all.servers()[0].addr());
    all.master().await.command(&["SET", "key", "before"]).await;
    all.replicated().await;
    let took = all.fail_over(Server::stop).await;
    println!("sentinels replaced a killed master after {took:?}");
    let new = all.master().await;
    assert_ne!(new.addr(), all.servers()[0].addr());
    assert_eq!(new.query::<String>(&["GET", "key"]).await, "before");
    new.command(&["SET", "key", "value"]).await;
}

#[tokio::test]
async fn a_paused_master_is_replaced_and_demoted_when_it_goes_on() {
    let all = Sentinels::start().await;
    let took = all.fail_over(Server::pause).await;
    println!("sentinels replaced a paused master after {took:?}");
    let old = &all.servers()[0];
    old.resume();
    old.synced().await;
    let refused = old.try_query::<String>(&["SET", "key", "value"]).await.unwrap_err();
    assert_eq!(refused.code(), Some("READONLY"));
}
