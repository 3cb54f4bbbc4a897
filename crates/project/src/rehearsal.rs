//! Rehearsals: plans are made and executed as in a real run, but on small stand-in bases.

use failure::{Failure, Kind};
use gpu_code::{sample_bundle, sample_object};
use names::GpuTarget;
use oci::client::RegistryClient;
use oci::loopback::LoopbackRegistry;
use oci::stand_in::StandIn;
use planner::{BuildRequest, PlanningInput};

use crate::registry;

/// Creates the stand-in for the track's base, and names it in the request. Does not serve it yet. A
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
    // An image that is slimmed needs something to remove.
    let code = if planner::is_slimmed(request, input) { gpu_code(input) } else { Vec::new() };
    let made = StandIn::new(&pin.repository, kind, &code);
    request.stand_in = Some(planner::StandIn { digest: made.digest.clone(), kind });
    Some(made)
}

/// Returns files with code for all GPUs in `gpus.toml`: a bundle for all, and a file for each.
fn gpu_code(input: &PlanningInput) -> Vec<(String, Vec<u8>)> {
    let gpus: Vec<GpuTarget> = input.gpus.gpus.keys().cloned().collect();
    let file = |gpu: &GpuTarget| Some((format!("opt/rocm/lib/{gpu}.co"), sample_object(gpu)?));
    let mut files: Vec<_> = gpus.iter().filter_map(file).collect();
    files.push(("opt/rocm/lib/kernels.bundle".to_owned(), sample_bundle(&gpus)));
    files
}

/// The registry that serves the stand-ins, until the value is dropped.
#[derive(Debug)]
pub struct Rehearsal {
    /// The client that reads the stand-ins from it.
    pub client: RegistryClient,
    _registry: LoopbackRegistry,
}

impl Rehearsal {
    /// Starts a registry that serves the stand-ins.
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
