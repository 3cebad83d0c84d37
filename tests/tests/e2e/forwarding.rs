//! What goes to a backend and what comes back.

use fairlane_tests::{Backend, Call, Config, Gateway, Reply};

#[tokio::test]
async fn a_request_reaches_the_backend_once_and_its_answer_comes_back() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;

    let answer = gateway.call(Call::chat("gpt-x")).await;

    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["model"], "gpt-x");
    assert_eq!(backend.count(), 1);
    assert_eq!(backend.seen()[0].body, Call::chat("gpt-x").content());
}

#[tokio::test]
async fn the_first_chunk_of_a_stream_comes_before_the_backend_has_made_the_last() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    let (chunks, reply) = Reply::stream();
    backend.next(reply);

    chunks.event("first");
    let mut opened = gateway.open(Call::chat_stream("gpt-x")).await;
    opened.until("first").await;
    chunks.event("last");
    chunks.done();
    opened.until("[DONE]").await;
    assert_eq!(opened.chunk().await.unwrap(), None);
}
