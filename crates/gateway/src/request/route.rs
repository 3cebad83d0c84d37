//! Which paths exist, and what each takes.

use std::collections::HashMap;

use http::Method;

use super::Api;
use crate::answer::Dialect;

/// What a path's body is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A JSON object.
    Json {
        /// Whether it must name a model.
        model_required: bool,
    },
    /// A multipart form.
    Multipart {
        /// Whether it must name a model.
        model_required: bool,
    },
    /// No body: the list of models, answered here.
    Models,
}

/// One path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The path itself; its name in metrics.
    pub path: Box<str>,
    /// The one method it takes.
    pub method: Method,
    /// What its body is read as.
    pub kind: Kind,
    /// What its tokens are counted by.
    pub api: Api,
    /// Whose error shape its callers parse.
    pub dialect: Dialect,
}

/// All paths of the data plane.
#[derive(Debug)]
pub struct Routes {
    routes: Vec<Route>,
    by_path: HashMap<Box<str>, usize>,
}

const JSON: Kind = Kind::Json { model_required: true };
/// Moderations and images default their model; what a path added by configuration takes is not known.
const JSON_MODEL_OPTIONAL: Kind = Kind::Json { model_required: false };
const FORM: Kind = Kind::Multipart { model_required: true };
const FORM_MODEL_OPTIONAL: Kind = Kind::Multipart { model_required: false };

/// The paths of OpenAI's and Anthropic's APIs that are forwarded.
const FORWARDED: [(&str, Kind, Dialect); 14] = [
    ("/v1/chat/completions", JSON, Dialect::OpenAi),
    ("/v1/completions", JSON, Dialect::OpenAi),
    ("/v1/responses", JSON, Dialect::OpenAi),
    ("/v1/embeddings", JSON, Dialect::OpenAi),
    ("/v1/moderations", JSON_MODEL_OPTIONAL, Dialect::OpenAi),
    ("/v1/rerank", JSON, Dialect::OpenAi),
    ("/v1/images/generations", JSON_MODEL_OPTIONAL, Dialect::OpenAi),
    ("/v1/audio/speech", JSON, Dialect::OpenAi),
    ("/v1/messages", JSON, Dialect::Anthropic),
    ("/v1/messages/count_tokens", JSON, Dialect::Anthropic),
    ("/v1/audio/transcriptions", FORM, Dialect::OpenAi),
    ("/v1/audio/translations", FORM, Dialect::OpenAi),
    ("/v1/images/edits", FORM_MODEL_OPTIONAL, Dialect::OpenAi),
    ("/v1/images/variations", FORM_MODEL_OPTIONAL, Dialect::OpenAi),
];

impl Routes {
    /// The built-in paths and `extra` ones, which are JSON and may leave the model out.
    #[must_use]
    pub fn new<'a>(extra: impl IntoIterator<Item = &'a str>) -> Self {
        let forwarded = |path: &str, kind, dialect| Route {
            path: path.into(),
            method: Method::POST,
            kind,
            api: Api::of(path),
            dialect,
        };
        let mut routes = vec![Route {
            path: "/v1/models".into(),
            method: Method::GET,
            kind: Kind::Models,
            api: Api::Other,
            dialect: Dialect::OpenAi,
        }];
        routes.extend(FORWARDED.map(|(path, kind, dialect)| forwarded(path, kind, dialect)));
        for path in extra {
            if routes.iter().all(|route| &*route.path != path) {
                routes.push(forwarded(path, JSON_MODEL_OPTIONAL, Dialect::OpenAi));
            }
        }
        let by_path = routes.iter().enumerate().map(|(index, route)| (route.path.clone(), index)).collect();
        Self { routes, by_path }
    }

    /// The route at `path`, which is compared exactly, and its index.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<(usize, &Route)> {
        let index = *self.by_path.get(path)?;
        Some((index, self.routes.get(index)?))
    }

    /// All of them, in the order of their indices.
    #[must_use]
    pub fn all(&self) -> &[Route] {
        &self.routes
    }
}
