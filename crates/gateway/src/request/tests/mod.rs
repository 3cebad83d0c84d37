mod random;
mod reservations;
mod sizes;
mod stream_usage;

use http::{HeaderValue, Method};

use super::*;
use futures_util::FutureExt;

const JSON: Kind = Kind::Json { model_required: true };
const FORM: Kind = Kind::Multipart { model_required: true };

async fn read_json(body: &str) -> Result<Reading, Fault> {
    read(JSON, &HeaderMap::new(), &Bytes::copy_from_slice(body.as_bytes()), None).await
}

/// Reads a body for its tokens. Nothing in it takes time.
fn count(api: Api, estimator: Estimator, body: &Bytes) -> Result<TokenAsk, Fault> {
    let kind = Kind::Json { model_required: false };
    let headers = HeaderMap::new();
    let reading = read(kind, &headers, body, Some(Counting { api, estimator })).now_or_never();
    let reading = reading.expect("a JSON body is read at once")?;
    Ok(*reading.tokens.expect("tokens were asked for"))
}

fn count_bytes(api: Api, body: &str) -> Result<TokenAsk, Fault> {
    count(api, Estimator::Bytes, &Bytes::copy_from_slice(body.as_bytes()))
}

/// The field that a body is refused for.
fn refused_for(api: Api, body: &str) -> Option<&'static str> {
    match count_bytes(api, body) {
        Err(Fault::Invalid { param, .. }) => Some(param.unwrap_or("")),
        Err(fault) => panic!("{fault:?}"),
        Ok(_) => None,
    }
}

#[tokio::test]
async fn a_chat_request_is_read() {
    let reading = read_json(
        r#" {"messages": [{"role": "user", "content": "hi"}], "model": "a\u002db", "stream": true} "#,
    );
    assert_eq!(reading.await.unwrap(), Reading { model: Some("a-b".into()), stream: true, tokens: None });
    let reading = read_json(r#"{"model": "m", "stream": null}"#).await.unwrap();
    assert!(!reading.stream);
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    for body in [
        "",
        "null",
        "[\"m\", true]",
        "{\"model\": \"m\"",
        "{\"model\": \"m\"} x",
        "{\"model\": 7}",
        "{\"model\": \"m\", \"stream\": \"yes\"}",
        "{\"model\": \"cheap\", \"model\": \"dear\"}",
        "{\"model\": \"cheap\", \"mod\\u0065l\": \"dear\"}",
        "{\"model\": \"cheap\", \"MODEL\": \"dear\"}",
        "{\"Model\": \"dear\"}",
        "{\"messages\": []}",
        "\u{feff}{}",
    ] {
        let refused = read_json(body).await;
        assert!(matches!(refused, Err(Fault::Invalid { .. })), "{body}: {refused:?}");
    }
}

#[tokio::test]
async fn depth_is_the_backends_business() {
    // Skipped without recursion, so that it costs no stack.
    let deep = format!("{{\"model\": \"m\", \"x\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(read_json(&deep).await.is_ok());
}

#[tokio::test]
async fn a_path_may_leave_the_model_out() {
    let optional = Kind::Json { model_required: false };
    let reading =
        read(optional, &HeaderMap::new(), &Bytes::from_static(b"{\"input\": \"x\"}"), None).await.unwrap();
    assert_eq!(reading, Reading::default());
}

fn form(fields: &[(&str, &str)]) -> (HeaderMap, Bytes) {
    let mut body = String::new();
    for (name, value) in fields {
        body += &format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }
    body += "--edge--\r\n";
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("multipart/form-data; boundary=edge"));
    (headers, body.into())
}

#[tokio::test]
async fn a_forms_model_is_read_wherever_it_stands() {
    let (headers, body) = form(&[("file", "RIFF\r\n--edg\r\n"), ("stream", "true"), ("model", "whisper-1")]);
    let reading = read(FORM, &headers, &body, None).await.unwrap();
    assert_eq!(reading, Reading { model: Some("whisper-1".into()), stream: true, tokens: None });
}

#[tokio::test]
async fn forms_that_are_none_are_refused() {
    let (headers, body) = form(&[("model", "a"), ("model", "b")]);
    assert!(read(FORM, &headers, &body, None).await.is_err(), "two models");
    let (headers, body) = form(&[("file", "x")]);
    assert!(read(FORM, &headers, &body, None).await.is_err(), "no model");
    let (headers, body) = form(&[("model", "m")]);
    assert!(read(FORM, &headers, &body.slice(..20), None).await.is_err(), "cut short");
    assert!(read(FORM, &HeaderMap::new(), &body, None).await.is_err(), "no boundary");
}

#[tokio::test]
async fn forms_that_two_readers_could_read_differently_are_refused() {
    let part = |disposition: &str, value: &str| {
        format!("--edge\r\nContent-Disposition: {disposition}\r\n\r\n{value}\r\n")
    };
    let (headers, _) = form(&[]);
    let cheap = part("form-data; name=\"model\"", "cheap");
    let with = async |more: &str, end: &str| {
        read(FORM, &headers, &Bytes::from(format!("{cheap}{more}--edge--{end}")), None).await
    };
    assert!(with("", "\r\n").await.is_ok());
    assert!(with(&part("form-data; name=\"file\"; filename=\"a;name=b.wav\"", "x"), "").await.is_ok());
    for odd in [
        "form-data; NAME=\"model\"",
        "form-data; name=\"zzz\"; name=\"model\"",
        "form-data; name*=utf-8''model",
        "form-data; name=\"mod\\el\"",
        "form-data",
    ] {
        let read = with(&part(odd, "dear"), "\r\n").await;
        let refused =
            read.is_err() || read.as_ref().is_ok_and(|reading| reading.model.as_deref() != Some("cheap"));
        assert!(refused, "{odd}: {read:?}");
    }
    assert!(with("", &format!("\r\n{}--edge--", part("form-data; name=\"model\"", "dear"))).await.is_err());
    let many = part("form-data; name=\"x\"", "y").repeat(300);
    assert!(with(&many, "").await.is_err());

    let (mut twice, body) = form(&[("model", "m")]);
    twice.append(header::CONTENT_TYPE, HeaderValue::from_static("multipart/form-data; boundary=other"));
    assert!(read(FORM, &twice, &body, None).await.is_err());
    let two = HeaderValue::from_static("multipart/form-data; boundary=edge; boundary=other");
    twice.insert(header::CONTENT_TYPE, two);
    assert!(read(FORM, &twice, &body, None).await.is_err());
}

#[test]
fn compressed_bodies_are_refused() {
    let mut headers = HeaderMap::new();
    assert!(refuse_encoded(&headers).is_ok());
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("Identity"));
    assert!(refuse_encoded(&headers).is_ok());
    headers.append(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    assert!(matches!(refuse_encoded(&headers), Err(Fault::UnsupportedEncoding)));
}

#[test]
fn paths_are_exact_and_take_one_method() {
    let routes = Routes::new(["/v1/fine_tune", "/v1/embeddings"]);
    let method = |path: &str| routes.find(path).map(|(_, route)| &route.method);
    assert_eq!(method("/v1/chat/completions"), Some(&Method::POST));
    assert_eq!(method("/v1/models"), Some(&Method::GET));
    assert_eq!(method("/v1/fine_tune"), Some(&Method::POST));
    for path in ["/v1/chat/completions/", "/v1//chat/completions", "/V1/chat/completions", "/", "/v1/files"] {
        assert_eq!(method(path), None, "{path}");
    }
    assert_eq!(routes.all().len(), 16, "a path given twice stands once");
}
