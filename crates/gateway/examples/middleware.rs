//! Admission in front of an axum application that is not Fairlane: callers are named by a header, each may make two
//! requests a second in bursts of two, and the third waits its turn.
//!
//! ```console
//! cargo run -p fairlane-gateway --example middleware
//! ```

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request, routing::get};
use fairlane_fair_queue::{Limits, Reason, TenantKey, Weight};
use fairlane_gateway::{
    admission::{Admission, AdmissionLayer, Ask, Limiter, Permit, QueueSettings, Tenant},
    clock::TokioClock,
    dimension::Dimension,
    limits::{Charges, Period, PeriodQuota},
    telemetry::Telemetry,
};
use fairlane_identity::Hasher;
use fairlane_limiter::{MemoryLimits, MemoryStore, Quota};
use tokio::time::Instant;
use tower::ServiceExt as _;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let app = Router::new().route("/", get(answer)).layer(admission()?);

    let started = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for number in 1..=4 {
        let request = Request::builder().uri("/").header("x-caller", "alice").body(Body::empty())?;
        let app = app.clone();
        callers.spawn(async move { (number, app.oneshot(request).await) });
    }
    while let Some(answered) = callers.join_next().await {
        let (number, Ok(response)) = answered?;
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("-").to_owned()
        };
        tell(&format!(
            "{number}: {} after {:4} ms, place {}, estimated {} ms, {} left",
            response.status(),
            started.elapsed().as_millis(),
            header("x-fair-queue-position"),
            header("x-fair-queue-estimated-wait-ms"),
            header("x-ratelimit-remaining-requests"),
        ));
    }
    Ok(())
}

/// The application. It keeps the charges: from here on the request counts.
async fn answer(axum::Extension(permit): axum::Extension<Permit>) -> &'static str {
    permit.keep_charges();
    "hello\n"
}

fn admission() -> Result<AdmissionLayer<impl Fn(&mut Request) -> Ask + Clone>, AnyError> {
    let clock = TokioClock::start();
    let telemetry = Arc::new(Telemetry::new("user", Reason::ALL.map(Reason::as_str), ["/"]));
    let store = MemoryStore::new(MemoryLimits::default(), clock);
    let limiter = Arc::new(Limiter::new(store, Arc::clone(&telemetry)));
    let queue = QueueSettings {
        limits: Limits::default(),
        smallest_total: Duration::from_secs(60),
        tenant_dimension: "user",
        max_body_bytes: 1 << 20,
    };
    let admission = Arc::new(Admission::new(limiter, Some(queue), clock, telemetry));

    let hasher = Hasher::new(b"any secret of yours")?;
    let quota = [PeriodQuota::new(Period::Second, Quota::per_second(2)?)];
    let classify = move |request: &mut Request| {
        let caller = request.headers().get("x-caller").and_then(|name| name.to_str().ok());
        let user = hasher.user(caller.unwrap_or("nobody"));
        Ask {
            charges: Charges::of_identity(Dimension::User, user, &quota),
            tenant: Some(Tenant {
                key: TenantKey(u128::from_be_bytes(user.to_bytes())),
                weight: Weight::default(),
            }),
            ..Ask::nothing(Instant::now())
        }
    };
    Ok(AdmissionLayer::new(admission, classify))
}

#[expect(clippy::print_stdout, reason = "an example talks")]
fn tell(text: &str) {
    println!("{text}");
}
