//! Rehearsals: the same plan, client and outputs as in earnest, on small stand-in bases.

use oci::client::RegistryClient;
use oci::loopback::LoopbackRegistry;
use oci::stand_in::StandIn;
use pins::{Pinned, Track};
use planner::PlanningInput;

use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::registry;

/// Puts the digest of the stand-in in the place of that of the track's base. Nothing is served yet.
/// A track that an engine builds has a variant for rehearsals, and no stand-in.
pub(crate) fn stand_in(
    track: Track,
    input: &mut PlanningInput,
) -> Result<Option<StandIn>, CommandError> {
    if track.is_built() {
        return Ok(None);
    }
    let (name, pin) = planner::base_pin(track, input)?;
    let (name, kind) = (name.clone(), pin.kind.unwrap_or(pins::ManifestKind::Index));
    let made = StandIn::new(
        &pin.repository,
        match kind {
            pins::ManifestKind::Index => plan::ManifestKind::Index,
            pins::ManifestKind::Manifest => plan::ManifestKind::Manifest,
        },
    );
    if let Some(pin) = input.pins.images.get_mut(&name) {
        pin.digest = Pinned::Resolved(made.digest.clone());
        pin.kind = Some(kind);
    }
    Ok(Some(made))
}

/// The registry that serves the stand-ins, for as long as the value lives.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    pub(crate) client: RegistryClient,
    _registry: LoopbackRegistry,
}

impl Rehearsal {
    /// Begins to serve stand-ins.
    pub(crate) async fn start(stand_ins: &[StandIn]) -> Result<Self, CommandError> {
        let registry = LoopbackRegistry::start().await.map_err(|e| {
            CommandError::caused(
                ExitCode::Machine,
                "no port on 127.0.0.1 can be had for the rehearsal's registry",
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
