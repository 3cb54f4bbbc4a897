//! The differences between two images: fields of their manifests and configs, and files of their
//! layers.

use failure::{Failure, Kind};
use names::Digest;
use oci::client::RegistryClient;
use project::image::Image;
use record::verify::{Verdict, compare};
use serde::Serialize;
use text::Page;
use text::sanitise::sanitise;

use crate::files::{File, Files};

/// The version of the JSON format.
const SCHEMA: u32 = 1;

/// The output of `diff --format json`. All strings are sanitised.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Comparison {
    /// The version of this JSON format.
    schema: u32,
    /// The first image.
    left: Side,
    /// The second image.
    right: Side,
    /// Whether both are the same image, with identical manifests.
    pub is_same: bool,
    /// The fields of manifest and config that differ.
    fields: Vec<Field>,
    /// The layers that differ, lowest first.
    layers: Vec<Layer>,
}

/// One of the two images.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Side {
    name: String,
    manifest_digest: Digest,
}

/// A field of a manifest or config.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Field {
    field: String,
    left: Option<String>,
    right: Option<String>,
}

/// A layer that differs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Layer {
    /// The position of the layer; the lowest is 1.
    layer: usize,
    /// The digest of the left layer, if the left image has one.
    left: Option<Digest>,
    /// The digest of the right layer, if the right image has one.
    right: Option<Digest>,
    /// The files that differ. `None` if they could not be compared.
    #[schemars(with = "Option<Vec<File>>")]
    files: Option<Files>,
}

impl Comparison {
    /// Compares two images. Reads only layers whose digests differ.
    ///
    /// # Errors
    /// A manifest or config is not JSON, or a layer cannot be read.
    pub async fn of(left: &Image, right: &Image, client: &RegistryClient) -> Result<Self, Failure> {
        let fields = compare(left.documents(), right.documents()).map_err(|error| {
            let what = "a manifest or config is not JSON";
            Failure::caused(Kind::Differs, what, &error)
        })?;
        let fields = fields.into_iter().filter_map(|check| {
            let (expected, found) = match check.verdict {
                Verdict::Same | Verdict::Unchecked { .. } => return None,
                Verdict::Differs { expected, found } => (Some(expected), Some(found)),
                Verdict::Missing { expected } => (Some(expected), None),
                Verdict::Unexpected { found } => (None, Some(found)),
            };
            let clean = |text: Option<String>| text.map(|text| sanitise(&text));
            let field = sanitise(&check.field);
            Some(Field { field, left: clean(expected), right: clean(found) })
        });
        let fields = fields.collect();
        let mut layers = Vec::new();
        for number in 0..left.layers.len().max(right.layers.len()) {
            let (one, other) = (left.layers.get(number), right.layers.get(number));
            if one.map(|layer| &layer.digest) == other.map(|layer| &layer.digest) {
                continue;
            }
            let files =
                match (left.entries(number, client).await?, right.entries(number, client).await?) {
                    (Some(left), Some(right)) => Some(Files::of(&left, &right)?),
                    _ => None,
                };
            let digest = |layer: Option<&oci::media::Descriptor>| Some(layer?.digest.clone());
            layers.push(Layer {
                layer: number + 1,
                left: digest(one),
                right: digest(other),
                files,
            });
        }
        let side = |image: &Image| Side {
            name: sanitise(&image.name),
            manifest_digest: image.manifest_digest.clone(),
        };
        let is_same = left.manifest_digest == right.manifest_digest;
        Ok(Self { schema: SCHEMA, left: side(left), right: side(right), is_same, fields, layers })
    }

    /// Returns the positions of the layers that differ; the lowest is 1.
    pub(crate) fn layers(&self) -> impl Iterator<Item = usize> {
        self.layers.iter().map(|layer| layer.layer)
    }

    /// Adds the comparison to a page, as text for people.
    pub fn show(&self, page: &mut Page) {
        for (mark, side) in [("-", &self.left), ("+", &self.right)] {
            page.line(format_args!("{mark} {}  {}", side.name, side.manifest_digest));
        }
        if self.is_same {
            page.line(format_args!("the images are identical"));
            return;
        }
        let sides = |out: &mut Page, left: &Option<String>, right: &Option<String>| {
            for (mark, side) in [("-", left), ("+", right)] {
                if let Some(side) = side {
                    out.line(format_args!("      {mark} {side}"));
                }
            }
        };
        for Field { field, left, right } in &self.fields {
            page.line(format_args!("  {field}"));
            sides(page, left, right);
        }
        for Layer { layer, files, .. } in &self.layers {
            let Some(files) = files else {
                page.line(format_args!(
                    "  layer {layer}: not compared, because the image does not specify where its content is"
                ));
                continue;
            };
            page.line(format_args!("  layer {layer}: {}", files.summary()));
            for (cause, count, shown) in files.causes() {
                for File { path, left, right, .. } in shown {
                    page.line(format_args!("    {cause}  {path}"));
                    sides(page, left, right);
                }
                if count > shown.len() {
                    let more = count - shown.len();
                    page.line(format_args!(
                        "    {cause}  and {more} more; `--format json` lists all"
                    ));
                }
            }
        }
    }
}
