//! The parts of CycloneDX 1.6 that an SBOM of this tool has, as JSON.
//!
//! The crates for CycloneDX have a type for every part of the format; these few are shorter.

use std::collections::BTreeMap;

use names::Digest;
use serde::Serialize;

/// A list of what an image was made from, in the format CycloneDX 1.6.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sbom {
    #[serde(rename = "$schema")]
    schema: &'static str,
    bom_format: &'static str,
    spec_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    serial_number: Option<String>,
    version: u32,
    metadata: Metadata,
    components: Vec<Component>,
    dependencies: Vec<Dependency>,
    compositions: Vec<Composition>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Metadata {
    pub(super) timestamp: String,
    pub(super) lifecycles: [Lifecycle; 1],
    pub(super) tools: Tools,
    pub(super) component: Component,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Lifecycle {
    pub(super) phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Tools {
    pub(super) components: [Component; 1],
}

/// A part of the image, or something that it was made from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Component {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// The name in `dependencies` and `compositions`, unique in the document.
    #[serde(rename = "bom-ref", skip_serializing_if = "String::is_empty")]
    pub(super) bom_ref: String,
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hashes: Vec<Hash>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) purl: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pedigree: Option<Pedigree>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) external_references: Vec<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) evidence: Option<Evidence>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) properties: Vec<Property>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Hash {
    alg: &'static str,
    content: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Reference {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) url: String,
}

/// How a component differs from the one that its package URL names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Pedigree {
    pub(super) patches: Vec<Patch>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Patch {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) diff: Diff,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Diff {
    pub(super) url: String,
}

/// Where a component is in the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Evidence {
    pub(super) occurrences: Vec<Occurrence>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Occurrence {
    pub(super) location: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Property {
    pub(super) name: &'static str,
    pub(super) value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Dependency {
    #[serde(rename = "ref")]
    bom_ref: String,
    depends_on: Vec<String>,
}

/// Whether the parts of some components are all listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Composition {
    aggregate: &'static str,
    assemblies: Vec<String>,
}

impl Component {
    /// Adds a property.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.properties.push(Property { name, value: value.into() });
        self
    }

    /// Adds what another component says about the same thing. If its hashes differ, neither hash is
    /// certain.
    pub(super) fn merge(&mut self, other: Self) {
        if self.hashes != other.hashes {
            self.hashes.clear();
        }
        let references = other.external_references.into_iter();
        self.external_references.extend(
            references.filter(|one| !self.external_references.contains(one)).collect::<Vec<_>>(),
        );
        self.properties.extend(other.properties);
        self.properties.sort();
        self.properties.dedup();
    }
}

impl Hash {
    /// Returns a SHA-256.
    pub(super) fn sha256(hex: impl Into<String>) -> Self {
        Self { alg: "SHA-256", content: hex.into() }
    }
}

impl Sbom {
    /// Returns the document with the given components. `lists` says for some components, by
    /// `bom-ref`, whether all of their parts are listed: `complete`, `incomplete` or `unknown`.
    pub(super) fn new(
        metadata: Metadata,
        components: Vec<Component>,
        lists: BTreeMap<&'static str, Vec<String>>,
    ) -> Self {
        let depends_on = components.iter().map(|one| one.bom_ref.clone()).collect();
        let bom_ref = metadata.component.bom_ref.clone();
        let of = |(aggregate, assemblies)| Composition { aggregate, assemblies };
        let mut sbom = Self {
            schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
            bom_format: "CycloneDX",
            spec_version: "1.6",
            serial_number: None,
            version: 1,
            metadata,
            components,
            dependencies: vec![Dependency { bom_ref, depends_on }],
            compositions: lists.into_iter().map(of).collect(),
        };
        // Not random: the same content has the same number.
        let text = serde_json::to_vec(&sbom).expect("an SBOM holds text, numbers and lists");
        sbom.serial_number = Some(uuid(&Digest::of(&text)));
        sbom
    }
}

/// Returns a UUID of version 8 (RFC 9562) that is made from a digest.
fn uuid(digest: &Digest) -> String {
    let hex = digest.hex();
    let [first, second, third, fourth, fifth] =
        [&hex[..8], &hex[8..12], &hex[12..15], &hex[15..18], &hex[18..30]];
    format!("urn:uuid:{first}-{second}-8{third}-8{fourth}-{fifth}")
}
