//! Which backend a request goes to.

use std::collections::HashMap;
use std::sync::Arc;

use fairlane_gateway::echo::EchoSettings;
use fairlane_gateway::proxy::{Backend, ForwardError, Outbound, Target};
use fairlane_identity::ModelRules;

use crate::backend::{Server, answered_by, backend, dead, post, proxy, soon, text};

fn echo(name: &str, weight: u32, models: &[&str]) -> Backend {
    let models: ModelRules = models.iter().map(|model| model.parse().unwrap()).collect();
    let target = Target::Echo(EchoSettings::default());
    Backend { target, weight, models, ..backend(name, "http://unused") }
}

#[tokio::test]
async fn shares_follow_weights() {
    let proxy = proxy([echo("a", 3, &["*"]), echo("b", 2, &["*"]), echo("c", 1, &["*"])]);
    let mut counts: HashMap<Arc<str>, u32> = HashMap::new();
    for _ in 0..600 {
        *counts.entry(proxy.forward(post("{}")).await.unwrap().backend).or_default() += 1;
    }
    for (name, due) in [("a", 300_u32), ("b", 200), ("c", 100)] {
        assert!(counts[name].abs_diff(due) <= 4, "{counts:?}");
    }
}

#[tokio::test]
async fn only_those_that_serve_the_model_are_asked() {
    let proxy = proxy([echo("a", 1, &["gpt-4o"]), echo("b", 1, &["claude-*"])]);
    assert!(proxy.serves("gpt-4o") && proxy.serves("claude-3") && !proxy.serves("gpt-4o-mini"));
    for (model, backend) in [("gpt-4o", "a"), ("claude-3", "b")] {
        for _ in 0..10 {
            let outbound = Outbound { model: Some(model), ..post("{}") };
            assert_eq!(&*proxy.forward(outbound).await.unwrap().backend, backend);
        }
    }
    let outbound = Outbound { model: Some("other"), ..post("{}") };
    assert!(matches!(proxy.forward(outbound).await, Err(ForwardError::NoHealthyBackend)));
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_is_tried_elsewhere() {
    let server = Server::start().await;
    let first = Backend { weight: u32::MAX, ..dead("first").await };
    let proxy = proxy([first, dead("second").await, server.backend("third")]);
    let mut outbound = post("the body");
    outbound.headers.insert("x-kept", "yes".parse().unwrap());
    let serve = async {
        let (mut connection, seen) = server.request().await;
        connection.write(crate::backend::plain("served")).await;
        seen
    };
    let (forwarded, seen) = soon(async { tokio::join!(proxy.forward(outbound), serve) }).await;
    assert_eq!(text(forwarded.unwrap()).await, "served");
    assert_eq!((seen.body.as_slice(), &seen.headers["x-kept"]), (&b"the body"[..], &"yes".parse().unwrap()));
}

#[tokio::test]
async fn without_any_connection_the_request_has_reached_nobody() {
    let proxy = proxy([dead("a").await, dead("b").await]);
    let error = proxy.forward(post("{}")).await.unwrap_err();
    assert!(matches!(error, ForwardError::Unavailable { reached: false, .. }), "{error:?}");
    assert!(!error.reached_backend());
}

#[tokio::test]
async fn a_connection_that_the_server_closes_is_not_used_again() {
    let server = Server::start().await;
    let proxy = proxy([server.backend("a")]);
    for _ in 0..3 {
        assert!(soon(answered_by(&proxy, &server)).await.is_ok());
    }
}
