//! Who calls, and what the caller may use.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fairlane_identity::{Credential, Identity};
use http::{Request, Response};

use super::{Entered, Shared};
use crate::{
    answer::{Fault, Quotas},
    body::Body,
    models,
};

impl Shared {
    /// A key that is there must be good; none at all is a matter of the mode.
    pub(super) fn identify<B>(&self, request: &Request<B>) -> Result<Option<Arc<Identity>>, Fault> {
        let credential = Credential::from_headers(request.headers()).map_err(|_| Fault::InvalidApiKey)?;
        match credential {
            Some(credential) => {
                let identity = self.parts.directory.authenticate(&credential, unix_now());
                identity.map(|identity| Some(Arc::clone(identity))).map_err(|_| Fault::InvalidApiKey)
            }
            None if self.parts.permissive => Ok(None),
            None => Err(Fault::InvalidApiKey),
        }
    }

    /// Whether the key may use the model, and somebody serves it.
    pub(super) fn may_use(&self, identity: Option<&Identity>, model: Option<&str>) -> Result<(), Fault> {
        // A request that names no model may mean any: only a key for every model may send it.
        if !identity.is_none_or(|identity| identity.allows_model(model.unwrap_or_default())) {
            return Err(Fault::ModelNotAllowed);
        }
        if !model.is_none_or(|model| self.parts.proxy.serves(model)) {
            return Err(Fault::ModelNotFound);
        }
        Ok(())
    }

    pub(super) fn list_models(&self, entered: &Entered) -> Response<Body> {
        let allowed =
            |model: &str| entered.identity.as_ref().is_none_or(|identity| identity.allows_model(model));
        let mut response = models::list(&self.parts.models, allowed);
        Quotas::from(entered.passed.quota).write(response.headers_mut(), None);
        response
    }
}

#[expect(clippy::disallowed_methods, reason = "keys expire by the calendar, which only the wall clock knows")]
fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
