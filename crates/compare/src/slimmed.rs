//! Verifies an image that the command `slim` wrote: slims its base again, and compares the result.

use std::path::Path;

use failure::{Failure, Kind};
use names::GpuTarget;
use oci::client::RegistryClient;
use plan::labels;
use project::image::Image;
use project::input::Input;
use project::slim::{SlimRequest, slim_image, temporary_folder};
use text::{Page, Tone};

use crate::comparison::Comparison;

/// Slims the image `base` again, and compares the result with the image `target`. Paths are
/// relative to `folder`, and `tell` gets progress messages.
///
/// # Errors
/// An image cannot be read, or `target` was not slimmed from `base`.
pub async fn compare(
    target: &str,
    base: &str,
    folder: &Path,
    client: &RegistryClient,
    tell: &dyn Fn(&str),
) -> Result<Comparison, Failure> {
    let found = Image::of_platform(target, folder, client).await?;
    let gpus = gpus(&found)?;
    let input = Input::find(base, folder, client).await?;
    let forced = input.forced()?;
    let Input::Image(image) = input else {
        return Err(Failure::new(Kind::Input, format!("`{base}` is not an image"))
            .hint("specify the image that was slimmed"));
    };
    let wanted = found.label(labels::SLIM_BASE).unwrap_or_default();
    if wanted != image.manifest_digest.as_str() {
        let what = format!(
            "`{}` was slimmed from `{wanted}`, but `{base}` is `{}`",
            found.name, image.manifest_digest
        );
        return Err(Failure::new(Kind::Differs, what).hint("specify the image with that digest"));
    }
    let again = temporary_folder()?;
    let path = again.path().join("image");
    let output = executor::Output::Layout { path: path.clone(), with_layers: true };
    let request = SlimRequest { input: base, image: &image, forced, gpus: &gpus, output: &output };
    slim_image(&request, client, tell).await?;
    let mut made = Image::at(&path)?;
    made.name = format!("{base}, slimmed again");
    Comparison::of(&found, &made, client).await
}

/// Returns the comparison as text, with the verdict.
pub fn page(comparison: &Comparison) -> Page {
    let mut page = Page::default();
    comparison.show(&mut page);
    let (word, tone, why) = if comparison.is_same {
        ("proven", Tone::Good, "slimming the base again produced the same bytes")
    } else {
        ("differs", Tone::Bad, "slimming the base again produced different bytes")
    };
    page.verdict(word, tone);
    page.line(format_args!(": {why}"));
    page
}

/// Returns the GPUs whose code is in the image, according to its label.
fn gpus(found: &Image) -> Result<Vec<GpuTarget>, Failure> {
    let label = found.label(labels::SLIM).unwrap_or_default();
    let mut words = label.split(' ');
    let is_known = words.next() == Some(slim::CONTRACT) && found.label(labels::SLIM_BASE).is_some();
    let gpus: Result<Vec<GpuTarget>, _> = words.map(str::parse).collect();
    gpus.ok().filter(|gpus| is_known && !gpus.is_empty()).ok_or_else(|| {
        let what = format!(
            "the labels of `{}` do not say that `slim` wrote it with `{}`",
            found.name,
            slim::CONTRACT
        );
        Failure::new(Kind::Differs, what)
            .hint("without `--slimmed-from`, `verify` compares an image with its plan")
    })
}
