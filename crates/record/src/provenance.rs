//! Writes a record as SLSA provenance, which other tools can check and sign: an in-toto statement
//! (<https://in-toto.io/Statement/v1>) about the image, with the predicate
//! <https://slsa.dev/provenance/v1>.

use std::collections::{BTreeMap, BTreeSet};

use names::{Digest, ImageRef};
use plan::Input;
use serde::Serialize;

use crate::{BuildRecord, OutputState, Status, purl};

/// Names the form of `externalParameters` and `internalParameters`. The prefix is that of this
/// tool's labels.
const BUILD_TYPE: &str = "https://build-pipeline.github.io/slsa/track/v1";
/// Names this tool as the builder. A statement is only as trustworthy as the person who signs it.
const BUILDER: &str = "https://build-pipeline.github.io/slsa/builder/v1";

/// A statement that an image was made by a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: &'static str,
    subject: Vec<Resource>,
    predicate_type: &'static str,
    predicate: Predicate,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Predicate {
    build_definition: BuildDefinition,
    run_details: RunDetails,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct BuildDefinition {
    build_type: &'static str,
    external_parameters: ExternalParameters,
    internal_parameters: InternalParameters,
    resolved_dependencies: Vec<Resource>,
}

/// What the person who started the run chose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExternalParameters {
    track: String,
    gpu: String,
    rehearsal: bool,
    overrides: BTreeMap<String, String>,
}

/// What follows from the project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct InternalParameters {
    plan_digest: Digest,
    source_date_epoch: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct RunDetails {
    builder: Builder,
    metadata: Metadata,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Builder {
    id: &'static str,
    version: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    invocation_id: String,
    started_on: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_on: Option<String>,
}

/// A `ResourceDescriptor` of in-toto: something with a digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Resource {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    digest: BTreeMap<&'static str, String>,
}

impl Resource {
    fn new(name: &str, uri: Option<String>, algorithm: &'static str, hex: &str) -> Self {
        let digest = BTreeMap::from([(algorithm, hex.to_owned())]);
        Self { name: name.to_owned(), uri, digest }
    }

    /// Returns an input of the plan.
    pub(crate) fn input(name: &str, input: &Input) -> Self {
        match input {
            Input::Image { reference: ImageRef { repository, tag, digest }, .. } => {
                let uri = digest.as_ref().map(|one| purl::image(repository, tag.as_ref(), one));
                Self::new(name, uri, "sha256", digest.as_ref().map_or("", Digest::hex))
            }
            Input::Source { url, commit, .. } => {
                let uri = format!("git+{url}@{commit}");
                Self::new(name, Some(uri), "gitCommit", &commit.to_string())
            }
            Input::Archive { project, version, sha256, .. } => {
                let uri = purl::python(project, version);
                Self::new(name, Some(uri), "sha256", &sha256.to_string())
            }
            Input::Lock { digest } | Input::File { digest } => {
                Self::new(name, None, "sha256", digest.hex())
            }
        }
    }
}

impl BuildRecord {
    /// Returns the record as SLSA provenance; `None` if the run did not succeed or made no image.
    ///
    /// The subject is the image, named as each registry that has it, or as its track. The
    /// dependencies are the inputs of the plan, the files of the project and their commit.
    pub fn provenance(&self) -> Option<Statement> {
        let image = self.image.as_ref().filter(|_| self.status == Status::Succeeded)?;
        let mut names = self.registry_references();
        if names.is_empty() {
            names.insert(&self.plan.name);
        }
        let subject =
            |name: &&str| Resource::new(name, None, "sha256", image.manifest_digest.hex());

        let mut version =
            BTreeMap::from([("build-pipeline".to_owned(), self.tool_version.clone())]);
        if let Some(engine) = &self.engine {
            version.insert(engine.kind.to_string(), engine.version.clone());
        }
        let plan = &self.plan;
        Some(Statement {
            kind: "https://in-toto.io/Statement/v1",
            subject: names.iter().map(subject).collect(),
            predicate_type: "https://slsa.dev/provenance/v1",
            predicate: Predicate {
                build_definition: BuildDefinition {
                    build_type: BUILD_TYPE,
                    external_parameters: ExternalParameters {
                        track: plan.track.clone(),
                        gpu: plan.gpu.to_string(),
                        rehearsal: plan.rehearsal,
                        overrides: plan.overrides.clone(),
                    },
                    internal_parameters: InternalParameters {
                        plan_digest: self.plan_digest.clone(),
                        source_date_epoch: plan.source_date_epoch,
                    },
                    resolved_dependencies: self.dependencies(),
                },
                run_details: RunDetails {
                    builder: Builder { id: BUILDER, version },
                    metadata: Metadata {
                        invocation_id: self.id.clone(),
                        started_on: self.began.clone(),
                        finished_on: self.ended.clone(),
                    },
                },
            },
        })
    }

    /// Returns the names of the image on the registries that have it.
    pub(crate) fn registry_references(&self) -> BTreeSet<&str> {
        let has_image = |state| matches!(state, OutputState::Written | OutputState::UpToDate);
        let with_image = self.outputs.iter().filter(|one| has_image(one.state));
        with_image.filter_map(|one| one.output.strip_prefix("registry:")).collect()
    }

    /// Returns the inputs, the project's files, and its commit if the files are those of the commit.
    fn dependencies(&self) -> Vec<Resource> {
        let inputs = self.plan.inputs.iter().map(|(name, input)| Resource::input(name, input));
        let mut all: Vec<Resource> = inputs.collect();
        let is_input = |path: &str| self.plan.inputs.contains_key(path);
        let files = self.recipe.files.iter().filter(|(path, _)| !is_input(path));
        all.extend(files.map(|(path, digest)| Resource::new(path, None, "sha256", digest.hex())));
        if let (Some(url), Some(commit)) = (&self.recipe.url, &self.recipe.commit)
            && self.recipe.modified.is_empty()
        {
            let uri = format!("git+{url}@{commit}");
            all.push(Resource::new("project", Some(uri), "gitCommit", &commit.to_string()));
        }
        all
    }
}
