//! Pushes finished images, and replaces placeholders in the names of outputs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atomic_write_file::AtomicWriteFile;
use executor::{Event, LayerSource, LayerTarget, OnEvent, Placed, Transfer};
use failure::{Failure, Kind, nearest, registry_hints, registry_kind};
use names::{Digest, ImageRef, Repository};
use oci::client::{RegistryClient, RegistryError};
use plan::labels;
use record::{OutputOutcome, OutputState};
use schemars::JsonSchema;
use serde::Serialize;
use text::Page;

use crate::build_env::blob_cache;
use crate::clock::today;
use crate::folder::read_text;
use crate::image::Image;
use crate::outputs::moved;

/// The result of `push` and `tag`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PushReport {
    /// The version of this JSON format.
    schema: u32,
    /// The image, as it was named.
    image: String,
    /// The digest of its manifest.
    pub digest: Digest,
    /// Where it is now.
    pushed: Vec<Pushed>,
    /// The place to which it could not be pushed. The places after it were not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<FailedPush>,
}

/// A push that failed.
#[derive(Debug, Serialize, JsonSchema)]
struct FailedPush {
    /// The place, as in `output` of a successful push.
    output: String,
    /// Why it failed.
    message: String,
}

/// An image on a registry.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Pushed {
    /// The name that always refers to these bytes: `HOST/NAME@sha256:…`.
    reference: String,
    /// The result of the push.
    #[serde(flatten)]
    outcome: OutputOutcome,
}

impl PushReport {
    /// Creates the report about an image, which the user named `name`.
    pub fn new(name: &str, image: &Image, pushed: Vec<Pushed>) -> Self {
        let digest = image.manifest_digest.clone();
        Self { schema: 1, image: name.to_owned(), digest, pushed, failed: None }
    }

    /// Adds the push that failed.
    #[must_use]
    pub fn with_failure(self, target: &ImageRef, failure: &Failure) -> Self {
        let (output, message) = (format!("registry:{target}"), failure.lines().join("; "));
        Self { failed: Some(FailedPush { output, message }), ..self }
    }

    /// Returns the report as text.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        page.line(format_args!("{}", self.image));
        page.line(format_args!("  digest    {}", self.digest));
        for Pushed { reference, outcome } in &self.pushed {
            let place = outcome.output.trim_start_matches("registry:");
            page.line(format_args!("  pushed    {place} ({}; {})", outcome.state, moved(outcome)));
            page.line(format_args!("  pull      {reference}"));
        }
        page
    }
}

/// Pushes an image to a tag, or by its own digest if `target` has no tag. Layers are transferred
/// only if the registry neither has them nor can mount them; `copies` are repositories that have
/// all of them.
///
/// # Errors
/// A layer cannot be found or read, or the registry rejects something.
pub async fn push_image(
    image: &Image,
    target: &ImageRef,
    copies: Vec<Repository>,
    client: &RegistryClient,
    on_event: OnEvent,
) -> Result<Pushed, Failure> {
    let output = format!("registry:{target}");
    let layer_bytes = image.distinct_layer_bytes();
    on_event(Event::OutputBegun { output: output.clone(), layer_bytes });
    let transfer = Transfer::new(output.clone(), Arc::clone(&on_event));
    let mut placed = Placed::default();
    let source = LayerSource { copies, cache: blob_cache(), ..image.layer_source() };
    let pushed = push(image, target, &source, client, &transfer, &mut placed).await;
    let state = *pushed.as_ref().unwrap_or(&OutputState::Failed);
    let layer_bytes_copied = transfer.bytes();
    on_event(Event::OutputEnded { output: output.clone(), state, layer_bytes_copied });
    pushed.map(|_| Pushed {
        reference: target.repository.at(&image.manifest_digest).to_string(),
        outcome: OutputOutcome {
            output,
            state,
            layers_copied: placed.copied,
            layer_bytes_copied,
            layers_mounted: placed.mounted,
        },
    })
}

async fn push(
    image: &Image,
    target: &ImageRef,
    source: &LayerSource,
    client: &RegistryClient,
    transfer: &Transfer,
    placed: &mut Placed,
) -> Result<OutputState, Failure> {
    let failed = |error: RegistryError| {
        let told = Failure::caused(
            registry_kind(error.kind()),
            format!("pushing to `{target}` failed"),
            &error,
        );
        registry_hints(told, &error)
    };
    let named = match &target.tag {
        Some(_) => target.clone(),
        None => target.repository.at(&image.manifest_digest),
    };
    if client.target_digest(&named).await.map_err(failed)? == Some(image.manifest_digest.clone()) {
        return Ok(OutputState::UpToDate);
    }
    if !image.absent_layers().is_empty() && source.repository.is_none() {
        let what =
            format!("`{}` lacks layers, and does not name the base that has them", image.name);
        return Err(Failure::new(Kind::Input, what)
            .hint("use an image that contains its layers, or one in a registry"));
    }
    let repository = &target.repository;
    let layers = LayerTarget { client, repository, transfer };
    layers.place(&image.layers, source, placed).await.map_err(|error| Failure::from(&error))?;
    let config = Digest::of(&image.config);
    client.push_blob(repository, &config, image.config.clone()).await.map_err(failed)?;
    let manifest = client.push_manifest(&named, &image.media_type, image.manifest.clone());
    manifest.await.map_err(failed)?;
    Ok(OutputState::Written)
}

/// The values of the placeholders in the name of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameFacts {
    /// The track, for `{track}`.
    pub track: Option<String>,
    /// The GPU target, for `{gpu}`.
    pub gpu: Option<String>,
    /// The version of the main software, for `{version}`.
    pub version: Option<String>,
}

impl NameFacts {
    /// Returns the facts about an image, from its labels.
    pub fn of_image(image: &Image) -> Self {
        Self {
            track: image.label(labels::TRACK),
            gpu: image.label(labels::GPU),
            version: image.label(labels::VERSION),
        }
    }

    /// Returns the facts about the image of a plan.
    pub fn of_plan(plan: &plan::Plan) -> Self {
        Self {
            track: Some(plan.track.clone()),
            gpu: Some(plan.gpu.to_string()),
            version: plan.final_labels().get(labels::VERSION).cloned(),
        }
    }

    /// Replaces `{track}`, `{gpu}`, `{version}` and `{date}` in the name of an output. The date is
    /// today's in UTC. `_` replaces the characters of a version that a tag must not contain
    /// (distribution specification, "Pulling manifests").
    ///
    /// # Errors
    /// A placeholder is unknown, or the image has no value for it.
    pub fn fill_in(&self, name: &str) -> Result<String, Failure> {
        let mut filled = name.to_owned();
        check_placeholders(name)?;
        let known = [
            ("{track}", &self.track, labels::TRACK),
            ("{gpu}", &self.gpu, labels::GPU),
            ("{version}", &self.version, labels::VERSION),
        ];
        for (placeholder, value, label) in known {
            if !filled.contains(placeholder) {
                continue;
            }
            let Some(value) = value else {
                let what = format!(
                    "`{name}` contains `{placeholder}`, but the image has no label `{label}`"
                );
                return Err(Failure::new(Kind::Input, what).hint("write the name out"));
            };
            let is_kept = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
            let value: String = value.chars().map(|c| if is_kept(c) { c } else { '_' }).collect();
            filled = filled.replace(placeholder, &value);
        }
        if filled.contains("{date}") {
            filled = filled.replace("{date}", &today()?.1);
        }
        Ok(filled)
    }
}

/// The placeholders in the names of outputs.
const PLACEHOLDERS: [&str; 4] = ["track", "gpu", "version", "date"];

/// Refuses placeholders that do not exist.
fn check_placeholders(name: &str) -> Result<(), Failure> {
    let inner = name.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    let Some(unknown) = inner.into_iter().find(|inner| !PLACEHOLDERS.contains(inner)) else {
        return Ok(());
    };
    let shown = name.strip_prefix("registry:").unwrap_or(name);
    let what = format!("`{shown}` contains `{{{unknown}}}`, which is not a placeholder");
    let told = Failure::new(Kind::Input, what);
    let all = PLACEHOLDERS.map(|one| format!("`{{{one}}}`")).join(", ");
    Err(match nearest(unknown, PLACEHOLDERS) {
        Some(near) => told.hint(format!("did you mean `{{{near}}}`? The placeholders are {all}")),
        None => told.hint(format!("the placeholders are {all}")),
    })
}

/// Checks that the file for an image's digest can be written, before the work starts.
///
/// # Errors
/// Its folder does not exist, or the path names something other than a file with a digest.
pub fn check_digest_file(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        let what = format!("`--digest-file {}` is in a folder that does not exist", path.display());
        return Err(Failure::new(Kind::Input, what).hint("create the folder first"));
    }
    // Renaming onto a device or a folder would replace it or fail.
    if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        let what = format!("`--digest-file {}` is not a regular file", path.display());
        return Err(Failure::new(Kind::Input, what).hint("choose a new file"));
    }
    let is_digest = |text: &str| text.trim().is_empty() || text.trim().parse::<Digest>().is_ok();
    match read_text(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(text) if is_digest(&text) => Ok(()),
        Ok(_) | Err(_) => {
            let what = format!(
                "`--digest-file {}` exists, and contains something other than a digest",
                path.display()
            );
            Err(Failure::new(Kind::Input, what).hint("choose a new file"))
        }
    }
}

/// Refuses a file for the digest that is also an image in `places`, or is inside one: one would
/// replace or damage the other.
///
/// # Errors
/// The file is one of the layouts and archives, or is in one of them.
pub fn check_digest_apart<'a>(
    path: &Path,
    places: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let file = real_path(path);
    let Some(image) = places.into_iter().find(|place| file.starts_with(real_path(place))) else {
        return Ok(());
    };
    let what = format!("`--digest-file {}` is in the image `{}`", path.display(), image.display());
    Err(Failure::new(Kind::Input, what).hint("choose a file outside of the image"))
}

/// Returns the absolute path without links. Its last folders may not exist yet.
fn real_path(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    match there {
        Some((part, real)) => match path.strip_prefix(part) {
            Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
            _ => real,
        },
        None => path,
    }
}

/// Writes the digest of an image to a file, without a line feed, as `podman push --digestfile`
/// does.
///
/// # Errors
/// The file cannot be written.
pub fn write_digest(path: &Path, digest: &Digest) -> Result<(), Failure> {
    let written = AtomicWriteFile::open(path).and_then(|mut file| {
        file.write_all(digest.as_str().as_bytes())?;
        file.commit()
    });
    written.map_err(|error| {
        let what = format!("the image is complete, but writing `{}` failed", path.display());
        Failure::caused(Kind::Machine, what, &error).hint(format!("its digest is `{digest}`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_parts_of_a_reference() {
        let version = Some("0.27.1+rocm 7".to_owned());
        let facts = NameFacts { track: Some("official".into()), gpu: None, version };
        let filled = facts.fill_in("host/{track}/{track}:{version}").unwrap();
        assert_eq!(filled, "host/official/official:0.27.1_rocm_7");
        let error = facts.fill_in("host/{trak}:1").unwrap_err();
        assert!(error.lines()[0].contains("`{trak}`, which is not a placeholder"), "{error:?}");
        assert!(facts.fill_in("host/a:{date}").unwrap().starts_with("host/a:20"));
        let error = facts.fill_in("host/a:{gpu}").unwrap_err();
        assert!(error.lines()[0].contains("no label `io.github.build-pipeline.gpu`"), "{error:?}");
    }
}
