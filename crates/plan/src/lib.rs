//! Holds a [`Plan`]: typed steps, final label text, canonical text and digest.
//!
//! A plan is what the planner makes and the executor carries out; the two never meet but here.
//! It leaves no choice to the executor: images stand at digests, labels in their final text, time
//! as a value. [`Plan::canonical_text`] is what `plan --format json` prints, byte for byte, and
//! its SHA-256 is the plan digest that every image carries as a label.
//!
//! This crate knows no files, no network, no environment and no clock.

pub mod labels;
mod steps;

use std::collections::BTreeMap;

use names::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use steps::{Action, ImageEdit, ManifestKind, PatchUse, Platform, Seal, Source, Step};

/// The number of the plan's JSON form. A reader refuses a larger one.
pub const SCHEMA: u32 = 1;

/// What will be done to make one image, in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The number of this JSON form, [`SCHEMA`].
    pub schema: u32,
    /// The track, for example `locked-spoof`.
    pub track: String,
    /// The name of the image: the track, with `rehearsal-` in front of a rehearsed one.
    pub name: String,
    /// The GPU target the image is made for, for example `gfx1151`.
    pub gpu: String,
    /// Whether the bases are stand-ins. Such an image can never be published as the real one.
    pub rehearsal: bool,
    /// The time that everything in the image carries, in seconds since 1970-01-01 UTC.
    pub source_date_epoch: u64,
    /// The commit of the recipe, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipe: Option<Recipe>,
    /// What this run changes against the data files, by name: pins, `variant`, `spoof`, `gpu`,
    /// `source-date-epoch`.
    pub overrides: BTreeMap<String, String>,
    /// The value of every pin that the image is made from, by name.
    pub pins: BTreeMap<String, String>,
    /// The steps. Each stands behind all that it needs.
    pub steps: Vec<Step>,
}

/// Where the recipe of an image lies and which commit of it was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The repository's `https` address, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The last commit that changed what the image is made from.
    pub commit: String,
    /// Whether what was read differs from the newest commit.
    pub modified: bool,
}

/// Why a text is not a plan.
#[derive(Debug, thiserror::Error)]
pub enum ParsePlanError {
    /// It is not JSON of this form.
    #[error("the text is not a plan of schema {SCHEMA}")]
    Json(#[source] serde_json::Error),
    /// A newer tool made it.
    #[error("the plan has schema {0}, this build-pipeline reads up to {SCHEMA}")]
    Newer(u32),
}

impl Plan {
    /// Returns the canonical text: indented JSON in the order of the fields, with a final newline.
    pub fn canonical_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("a plan holds text, numbers and maps keyed by text");
        text.push('\n');
        text
    }

    /// Returns the SHA-256 of the canonical text.
    pub fn digest(&self) -> Digest {
        Digest::of(self.canonical_text().as_bytes())
    }

    /// Reads a plan back from its text.
    ///
    /// # Errors
    /// The text is not a plan, or a newer build-pipeline made it.
    pub fn parse(text: &str) -> Result<Self, ParsePlanError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(ParsePlanError::Json)?;
        if head.schema > SCHEMA {
            return Err(ParsePlanError::Newer(head.schema));
        }
        serde_json::from_str(text).map_err(ParsePlanError::Json)
    }

    /// Returns the labels that the image will carry beside those it inherits, the plan digest among them.
    ///
    /// The plan digest cannot stand in the text it is the digest of, so it is added here.
    pub fn final_labels(&self) -> BTreeMap<String, String> {
        let mut all = self.image_edit().map(|edit| edit.labels.clone()).unwrap_or_default();
        all.insert(labels::PLAN_DIGEST.to_owned(), self.digest().to_string());
        all
    }

    /// Returns the edit that makes the image of the plan, where it has one.
    pub fn image_edit(&self) -> Option<&ImageEdit> {
        self.steps.iter().rev().find_map(|step| match &step.action {
            Action::DeriveImage { edit, .. } | Action::SealImage { edit, .. } => Some(edit),
            _ => None,
        })
    }

    /// Returns whether an engine builds the image, so that its layers lie nowhere else.
    pub fn is_built(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::SealImage { .. }))
    }

    /// Returns the key of each step by its name: the SHA-256 of what it does and of the keys of the
    /// steps it needs. Steps of equal keys make the same thing, in whichever plan they stand.
    ///
    /// The last step's labels name the plan's digest too, which stands beside the keys.
    pub fn step_keys(&self) -> BTreeMap<&str, Digest> {
        let mut keys: BTreeMap<&str, Digest> = BTreeMap::new();
        for step in &self.steps {
            let needs: Vec<Option<&Digest>> =
                step.needs.iter().map(|need| keys.get(need.as_str())).collect();
            let text = serde_json::to_string(&(&step.action, needs))
                .expect("a step holds text, numbers and maps keyed by text");
            keys.insert(&step.id, Digest::of(text.as_bytes()));
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "registry.example.org/base@sha256:1111111111111111111111111111111111111111111111111111111111111111";

    fn plan() -> Plan {
        let edit = ImageEdit {
            created: "2027-01-15T08:00:00Z".to_owned(),
            created_by: "a test".to_owned(),
            env: BTreeMap::from([("A".to_owned(), "1".to_owned())]),
            entrypoint_prefix: vec!["/bin/sh".to_owned()],
            reset: labels::RESET.map(str::to_owned).to_vec(),
            labels: BTreeMap::from([(labels::TRACK.to_owned(), "official".to_owned())]),
        };
        let fetch = Action::FetchBase {
            image: BASE.parse().unwrap(),
            kind: Some(ManifestKind::Index),
            platform: Platform::linux_amd64(),
        };
        let base = "fetch-base".to_owned();
        let derive =
            Action::DeriveImage { base: base.clone(), contract: "derive/1".to_owned(), edit };
        Plan {
            schema: SCHEMA,
            track: "official".to_owned(),
            name: "official".to_owned(),
            gpu: "gfx1151".to_owned(),
            rehearsal: false,
            source_date_epoch: 1_800_000_000,
            recipe: Some(Recipe { url: None, commit: "1".repeat(40), modified: true }),
            overrides: BTreeMap::new(),
            pins: BTreeMap::from([("base".to_owned(), BASE.to_owned())]),
            steps: vec![
                Step { id: base.clone(), needs: Vec::new(), action: fetch },
                Step { id: "derive-image".to_owned(), needs: vec![base], action: derive },
            ],
        }
    }

    #[test]
    fn a_plan_is_read_back_from_its_text() {
        for plan in [
            plan(),
            Plan { recipe: None, ..plan() },
            Plan { steps: Vec::new(), ..plan() },
            Plan { track: "\"\\\u{7f}\n\u{1f300}".to_owned(), ..plan() },
        ] {
            let text = plan.canonical_text();
            assert!(text.ends_with("}\n") && !text.contains('\r'));
            let read = Plan::parse(&text).unwrap();
            assert_eq!(read, plan);
            assert_eq!(read.canonical_text(), text);
            assert_eq!(read.digest(), Digest::of(text.as_bytes()));
        }
    }

    #[test]
    fn parse_refuses_what_is_no_plan_of_this_schema() {
        let text = plan().canonical_text();
        let changed = |from: &str, to: &str| {
            assert_eq!(text.matches(from).count(), 1, "{from}");
            text.replace(from, to)
        };
        let not_a_plan = "the text is not a plan of schema 1";
        let newer = "the plan has schema 2, this build-pipeline reads up to 1";
        for (text, message, source) in [
            (String::new(), not_a_plan, "EOF"),
            ("[]".to_owned(), not_a_plan, "invalid length 0"),
            ("{}".to_owned(), not_a_plan, "missing field `schema`"),
            (changed("\"schema\": 1,", ""), not_a_plan, "missing field `schema`"),
            (changed("\"schema\": 1", "\"schema\": -1"), not_a_plan, "invalid value"),
            (changed("\"schema\": 1", "\"schema\": 2"), newer, ""),
            // A newer plan is told from a broken one before its fields are looked at.
            ("{\"schema\": 2, \"nodes\": []}".to_owned(), newer, ""),
            (changed("\"gpu\":", "\"cpu\":"), not_a_plan, "unknown field `cpu`"),
            (changed("\"gpu\": \"gfx1151\",", ""), not_a_plan, "missing field `gpu`"),
            (changed("\"gpu\":", "\"gpu\": \"x\", \"gpu\":"), not_a_plan, "duplicate field"),
            (changed("\"needs\": [],", "\"needs\": [], \"after\": 1,"), not_a_plan, "`after`"),
            (changed("\"kind\":", "\"sort\":"), not_a_plan, "unknown field `sort`"),
            (changed("\"os\":", "\"variant\": \"v8\", \"os\":"), not_a_plan, "`variant`"),
            (changed("\"env\":", "\"user\": \"0\", \"env\":"), not_a_plan, "`user`"),
            (changed("\"commit\":", "\"branch\": \"b\", \"commit\":"), not_a_plan, "`branch`"),
            (
                changed("\"fetch-base\",\n      \"needs\"", "7, \"needs\""),
                not_a_plan,
                "integer `7`",
            ),
            (changed("\"do\": \"fetch-base\"", "\"do\": \"fetch\""), not_a_plan, "unknown variant"),
        ] {
            let error = Plan::parse(&text).unwrap_err();
            assert_eq!(error.to_string(), message, "{text}");
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            assert!(cause.unwrap_or_default().contains(source), "{error:?} for {text}");
        }
    }

    #[test]
    fn the_final_labels_are_those_of_the_edit_and_the_plan_digest() {
        let plan = plan();
        let all = plan.final_labels();
        assert_eq!(
            all,
            BTreeMap::from([
                (labels::TRACK.to_owned(), "official".to_owned()),
                (labels::PLAN_DIGEST.to_owned(), plan.digest().to_string()),
            ])
        );
        let empty = Plan { steps: Vec::new(), ..plan };
        assert_eq!(empty.image_edit(), None);
        assert_eq!(empty.final_labels().into_keys().collect::<Vec<_>>(), [labels::PLAN_DIGEST]);
    }

    #[test]
    fn every_field_changes_the_digest() {
        let plain = plan();
        let other = || "other".to_owned();
        let with_edit = |change: fn(&mut ImageEdit)| {
            let mut plan = plan();
            if let Action::DeriveImage { edit, .. } = &mut plan.steps[1].action {
                change(edit);
            }
            plan
        };
        let changed = [
            Plan { track: other(), ..plan() },
            Plan { name: other(), ..plan() },
            Plan { gpu: other(), ..plan() },
            Plan { rehearsal: true, ..plan() },
            Plan { source_date_epoch: 0, ..plan() },
            Plan { recipe: None, ..plan() },
            Plan { overrides: BTreeMap::from([(other(), other())]), ..plan() },
            Plan { pins: BTreeMap::new(), ..plan() },
            Plan { steps: Vec::new(), ..plan() },
            with_edit(|edit| edit.created.push('0')),
            with_edit(|edit| edit.created_by.push('0')),
            with_edit(|edit| edit.env.clear()),
            with_edit(|edit| edit.entrypoint_prefix.clear()),
            with_edit(|edit| edit.reset.clear()),
            with_edit(|edit| edit.labels.clear()),
        ];
        let mut digests: Vec<_> = changed.iter().map(Plan::digest).collect();
        digests.push(plain.digest());
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), changed.len() + 1);
    }

    #[test]
    fn resets_takes_whole_keys_and_prefixes() {
        let edit = |rules: &[&str]| ImageEdit {
            reset: rules.iter().map(|rule| (*rule).to_owned()).collect(),
            ..plan().image_edit().unwrap().clone()
        };
        for (rules, key, wanted) in [
            (&["name"][..], "name", true),
            (&["name"], "names", false),
            (&["name"], "nam", false),
            (&["name"], "Name", false),
            (&["name"], "org.example.name", false),
            (&["org.example.*"], "org.example.a", true),
            (&["org.example.*"], "org.example.", true),
            (&["org.example.*"], "org.example", false),
            (&["org.example.*"], "org.examples.a", false),
            (&["org.example.*"], "com.org.example.a", false),
            (&["*"], "anything", true),
            // A star inside is a star.
            (&["a*b"], "axb", false),
            (&["a*b"], "a*b", true),
            (&[], "", false),
            (&[""], "", true),
            (&["x", "y*"], "yes", true),
        ] {
            assert_eq!(edit(rules).resets(key), wanted, "{rules:?} {key}");
        }
    }

    #[test]
    fn the_labels_that_would_lie_are_reset_and_the_others_are_not() {
        let plan = plan();
        let edit = plan.image_edit().unwrap();
        for key in [
            labels::CREATED,
            labels::SOURCE,
            labels::REVISION,
            labels::VERSION,
            labels::BASE_NAME,
            labels::ARCHITECTURE,
            labels::BUILD_DATE,
            labels::VCS_REF,
            labels::VCS_TYPE,
            labels::PLAN_DIGEST,
            labels::OVERRIDES,
            "org.opencontainers.image.ref.name",
            "org.opencontainers.image.licenses",
            "org.label-schema.build-date",
            "maintainer",
            "vendor",
        ] {
            assert!(edit.resets(key), "{key}");
        }
        for key in ["com.example.kept", "com.nvidia.volumes.needed", "vendors", "License", ""] {
            assert!(!edit.resets(key), "{key}");
        }
        // All that we set is ours to reset, so that an image made from one of ours says nothing twice.
        assert!(labels::TRACK.starts_with(labels::OWN_PREFIX));
    }
}
