//! Rehearsals: the same plan, client and outputs as in a real run, on small stand-in bases.

use failure::{Failure, Kind};
use oci::client::RegistryClient;
use oci::loopback::LoopbackRegistry;
use oci::stand_in::StandIn;
use planner::{BuildRequest, PlanningInput};

use crate::registry;

/// Creates the stand-in for the track's base, and names it in the request. Serves nothing yet. A
/// track that an engine builds has a variant for rehearsals instead of a stand-in.
pub fn stand_in(request: &mut BuildRequest, input: &PlanningInput) -> Option<StandIn> {
    if !request.rehearse || planner::needs_engine(request, input) {
        return None;
    }
    let (_, pin) = planner::base_pin(request, input)?;
    let kind = match pin.kind {
        Some(pins::ManifestKind::Manifest) => plan::ManifestKind::Manifest,
        Some(pins::ManifestKind::Index) | None => plan::ManifestKind::Index,
    };
    let made = StandIn::new(&pin.repository, kind);
    request.stand_in = Some(planner::StandIn { digest: made.digest.clone(), kind });
    Some(made)
}

/// The registry that serves the stand-ins, until the value is dropped.
#[derive(Debug)]
pub struct Rehearsal {
    /// The client that reads the stand-ins from it.
    pub client: RegistryClient,
    _registry: LoopbackRegistry,
}

impl Rehearsal {
    /// Starts to serve stand-ins.
    ///
    /// # Errors
    /// No port can be opened.
    pub async fn start(stand_ins: &[StandIn]) -> Result<Self, Failure> {
        let registry = LoopbackRegistry::start().await.map_err(|e| {
            Failure::caused(
                Kind::Machine,
                "cannot open a port on 127.0.0.1 for the rehearsal's registry",
                &e,
            )
        })?;
        for stand_in in stand_ins {
            stand_in.serve_from(&registry);
        }
        let hosts: Vec<&str> =
            stand_ins.iter().map(|stand_in| stand_in.repository().registry()).collect();
        let client = registry::rehearsal_client(&hosts, &registry.host())?;
        Ok(Self { client, _registry: registry })
    }
}
