//! The admin plane: health, metrics, the lanes, and the configuration in effect.

mod queues;

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use axum::{
    Json, Router,
    extract::{Request as AxumRequest, State},
    middleware::{self, Next},
    response::{IntoResponse, Response as AxumResponse},
    routing::get,
};
use fairlane_config::{Secret, Validated};
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;
use tower::ServiceExt as _;

use crate::{body::Body, edge::Activity, stack::Stack, telemetry::Exporter};

/// What the admin plane shows.
#[derive(Debug)]
pub struct AdminState {
    stack: Stack,
    activity: Activity,
    exporter: Exporter,
    shown: ArcSwap<Shown>,
    draining: AtomicBool,
}

/// What a reload changes of it.
#[derive(Debug)]
struct Shown {
    token: Secret,
    /// The configuration in effect, secrets and identities masked.
    effective: Value,
}

impl Shown {
    fn of(config: &Validated) -> Self {
        Self { token: config.admin.token.clone(), effective: config.effective() }
    }
}

impl AdminState {
    /// Shows a stack, what goes on at the edge before it, its metrics and its configuration.
    #[must_use]
    pub fn new(stack: Stack, activity: Activity, exporter: Exporter, config: &Validated) -> Self {
        Self {
            stack,
            activity,
            exporter,
            shown: ArcSwap::from_pointee(Shown::of(config)),
            draining: AtomicBool::new(false),
        }
    }

    /// Shows another configuration, and goes by its token.
    pub fn show(&self, config: &Validated) {
        self.shown.store(Arc::new(Shown::of(config)));
    }

    /// From here on the gateway is not ready.
    pub fn draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Refreshes what is measured rather than counted.
    pub fn upkeep(&self) {
        let parts = self.stack.parts();
        parts.limiter.upkeep();
        parts.telemetry.connections(self.activity.connections(), self.activity.refused());
        self.exporter.run_upkeep();
    }
}

/// The admin plane's service, for the same accept loop that serves requests.
#[derive(Clone, Debug)]
pub struct Admin(Router);

impl Admin {
    /// Serves a state.
    #[must_use]
    pub fn new(state: Arc<AdminState>) -> Self {
        let guarded = Router::new()
            .route("/metrics", get(metrics))
            .route("/admin/queues", get(queues))
            .route("/admin/config", get(config))
            .layer(middleware::from_fn_with_state(Arc::clone(&state), demand_token));
        let open = Router::new().route("/healthz", get(alive)).route("/readyz", get(ready));
        Self(open.merge(guarded).fallback(nothing).with_state(state))
    }
}

impl hyper::service::Service<Request<Incoming>> for Admin {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let router = self.0.clone();
        Box::pin(async move {
            let response = router.oneshot(request).await?;
            Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }
}

/// Once a token is set, everything but health needs it.
async fn demand_token(
    State(state): State<Arc<AdminState>>,
    request: AxumRequest,
    next: Next,
) -> AxumResponse {
    let may = {
        let shown = state.shown.load();
        let token = shown.token.expose();
        token.is_empty() || presented(&request).is_some_and(|given| same(given, token))
    };
    if may {
        return next.run(request).await;
    }
    let refusal = json!({"error": {"message": "The admin token is missing or not valid.", "code": "invalid_admin_token"}});
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], Json(refusal)).into_response()
}

fn presented(request: &AxumRequest) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// Compares digests, so that time tells neither the content nor the length.
fn same(given: &str, token: &str) -> bool {
    let digest = |text: &str| *blake3::hash(text.as_bytes()).as_bytes();
    digest(given).ct_eq(&digest(token)).into()
}

async fn alive() -> &'static str {
    "alive\n"
}

async fn ready(State(state): State<Arc<AdminState>>) -> AxumResponse {
    let unready = |why: String| (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response();
    if state.draining.load(Ordering::Relaxed) {
        return unready("draining".to_owned());
    }
    let parts = state.stack.parts();
    if let Some(why) = parts.limiter.refuses() {
        return unready(why);
    }
    // Taken out of service by everybody who asks, a fleet would make a whole outage of one in part.
    match parts.limiter.refuses_some() {
        None => "ready\n".into_response(),
        Some(what) => format!("ready, but {what}\n").into_response(),
    }
}

async fn metrics(State(state): State<Arc<AdminState>>) -> AxumResponse {
    state.upkeep();
    let text = state.exporter.render();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn queues(State(state): State<Arc<AdminState>>) -> Json<Value> {
    let parts = state.stack.parts();
    Json(queues::render(parts.admission.snapshot(), &parts.limits.gates()))
}

async fn config(State(state): State<Arc<AdminState>>) -> Json<Value> {
    Json(state.shown.load().effective.clone())
}

async fn nothing() -> AxumResponse {
    let refusal = json!({"error": {"message": "There is nothing at this path.", "code": "not_found"}});
    (StatusCode::NOT_FOUND, Json(refusal)).into_response()
}
