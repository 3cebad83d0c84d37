//! `GET /v1/models`, answered from the configuration.

use http::{HeaderValue, Response, header};
use serde::Serialize;

use crate::body::{Body, full};

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Model<'a>>,
}

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

/// The models that a caller may use, in OpenAI's form.
pub(crate) fn list(models: &[Box<str>], allowed: impl Fn(&str) -> bool) -> Response<Body> {
    let data = models
        .iter()
        .filter(|model| allowed(model))
        // When a model was made is not ours to know; client libraries want a number.
        .map(|model| Model { id: model, object: "model", created: 0, owned_by: "fairlane" });
    let list = List { object: "list", data: data.collect() };
    let mut response = Response::new(full(serde_json::to_vec(&list).unwrap_or_default()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
