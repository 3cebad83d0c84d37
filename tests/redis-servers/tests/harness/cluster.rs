use fairlane_redis_servers::{Cluster, ClusterOptions, Server};

#[tokio::test]
async fn slots_move_with_their_keys() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.nodes().len(), 3);
    assert_eq!(cluster.url().matches("127.0.0.1:").count(), 3);
    let slot = cluster.slot("{tag}").await;
    let from = cluster.owner(slot).await;
    let to = (from + 1) % 3;
    let (old, new) = (&cluster.nodes()[from], &cluster.nodes()[to]);
    for number in 0..150 {
        old.command(&["SET", &format!("{{tag}}{number}"), "value"]).await;
    }
    let moving = cluster.begin_move(slot, to).await;
    let ask = old.try_query::<String>(&["GET", "{tag}none"]).await.unwrap_err();
    assert_eq!(ask.code(), Some("ASK"));
    assert_eq!(moving.step().await, 100);
    assert_eq!(moving.step().await, 50);
    assert_eq!(moving.step().await, 0);
    moving.finish().await;
    assert_eq!(cluster.owner(slot).await, to);
    let moved = old.try_query::<String>(&["GET", "{tag}0"]).await.unwrap_err();
    assert_eq!(moved.code(), Some("MOVED"));
    assert_eq!(new.query::<u64>(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]).await, 150);
    cluster.move_slot(slot, from).await;
    assert_eq!(old.query::<String>(&["GET", "{tag}149"]).await, "value");
}

#[tokio::test]
async fn a_killed_master_is_replaced_by_its_replica() {
    let cluster = Cluster::start_with(ClusterOptions::new().replicas().password("secret")).await;
    let took = cluster.fail_over(1, Server::stop).await;
    println!("the cluster replaced a killed master after {took:?}");
    assert_eq!(cluster.owner(8_000).await, 4);
    cluster.nodes()[1].restart_empty().await;
    cluster.whole().await;
    assert_eq!(cluster.owner(8_000).await, 4, "it came back as a replica");
}
