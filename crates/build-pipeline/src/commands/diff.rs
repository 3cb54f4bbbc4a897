//! `build-pipeline diff`: compares two images file by file.

use compare::Comparison;
use failure::{Failure, Kind};
use project::image::Image;

use crate::cli::{Diff, Format, Global};
use crate::global;
use terminal::output;
use text::Page;

/// Compares the two given images.
pub(crate) fn run(global: &Global, args: &Diff) -> Result<(), Failure> {
    let folder = global::working_folder()?;
    let client = global::registry(global)?;
    let comparison = project::runtime::start()?.block_on(async {
        let left = Image::find(&args.left, &folder, &client).await?;
        let right = Image::find(&args.right, &folder, &client).await?;
        if left.layers != right.layers {
            for image in [&left, &right] {
                image.check_rehearsal("rehearse it again with `--with-layers`")?;
            }
        }
        Comparison::of(&left, &right, &client).await
    })?;
    match args.format {
        Format::Json => output::large_json(&comparison)?,
        Format::Text => {
            let mut page = Page::default();
            comparison.show(&mut page);
            output::sanitised_result(&page.into_text())?;
        }
    }
    if comparison.is_same { Ok(()) } else { Err(Failure::told(Kind::Differs)) }
}
