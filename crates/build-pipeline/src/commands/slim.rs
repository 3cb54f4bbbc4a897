//! `build-pipeline slim`: writes an image without code for other GPUs.

use failure::{Failure, Kind};
use gpu_code::CodeTarget;
use launch::machine;
use names::GpuTarget;
use project::input::Input;
use project::locks::Locks;
use project::slim::{SlimImage, SlimRequest, slim_image};
use schemars::JsonSchema;
use serde::Serialize;
use slim::{ChangedFile, WholeFile};

use crate::cli::{Format, Global, Slim};
use crate::global;
use crate::outputs::parse_output;
use terminal::output;
use text::sanitise::sanitise_line;
use text::{Page, counted, shell_line, size};

/// The maximum number of changed files that the text lists.
const MOST_FILES: usize = 20;

/// The result of `slim`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SlimmedImage {
    /// The version of this JSON format.
    pub(crate) schema: u32,
    /// The input, as it was named.
    pub(crate) input: String,
    /// Where the new image is.
    pub(crate) output: String,
    /// The digest of its manifest.
    pub(crate) digest: String,
    /// The contract (versioned specification) that determines its bytes.
    pub(crate) contract: &'static str,
    /// The GPU targets whose code stays.
    pub(crate) gpus: Vec<String>,
    /// The number of layers that changed.
    pub(crate) layers_changed: usize,
    /// The size of the layers as they were stored before, in bytes.
    pub(crate) layer_bytes_before: u64,
    /// The size of the layers as they are stored now, in bytes.
    pub(crate) layer_bytes_after: u64,
    /// The files that changed or were removed, in the order of the layers.
    pub(crate) changed: Vec<ChangedFile>,
    /// The files that were not changed, although they contain code for other GPUs or cannot be
    /// read.
    pub(crate) whole: Vec<WholeFile>,
}

/// Writes the image, and shows what was removed.
pub(crate) fn run(global: &Global, args: &Slim) -> Result<(), Failure> {
    let folder = global::working_folder()?;
    let client = global::registry(global)?;
    let output = parse_output(&args.output, "slim", true).map_err(|error| {
        let hints = vec!["use `oci:DIR` or `oci-archive:FILE`".to_owned()];
        Failure { hints, ..error }
    })?;
    let slimmed = project::runtime::start()?.block_on(async {
        let input = Input::find(&args.input, &folder, &client).await?;
        let (gpus, forced) = (gpus(args, &input)?, input.forced()?);
        let Input::Image(image) = input else {
            let what = format!("`{}` is not an image", args.input);
            return Err(Failure::new(Kind::Input, what).hint(
                "pass a track, a folder such as `dist/official`, an archive, or `HOST/NAME:TAG`",
            ));
        };
        let command = shell_line(&global.words);
        let _locks = Locks::take(&[&output], None, &command, &output::waiting).await?;
        let request = SlimRequest { image: &image, forced, gpus: &gpus, output: &output };
        let SlimImage { digest, layer_bytes, layers_changed, report } =
            slim_image(&request, &client, &output::fetching).await?;
        Ok(SlimmedImage {
            schema: 1,
            input: args.input.clone(),
            output: output.to_string(),
            digest: digest.to_string(),
            contract: slim::CONTRACT,
            gpus: gpus.iter().map(ToString::to_string).collect(),
            layers_changed,
            layer_bytes_before: image.layers.iter().map(|layer| layer.size).sum(),
            layer_bytes_after: layer_bytes,
            changed: report.changed,
            whole: report.whole,
        })
    })?;
    match args.format {
        Format::Json => output::large_json(&slimmed),
        Format::Text => output::sanitised_result(&text(&slimmed)),
    }
}

/// Returns the GPUs whose code stays.
fn gpus(args: &Slim, input: &Input) -> Result<Vec<GpuTarget>, Failure> {
    let mut gpus: Vec<GpuTarget> = Vec::new();
    for gpu in &args.gpu {
        let gpu = Some(failure::gpu_target(gpu)?).filter(CodeTarget::knows).ok_or_else(|| {
            Failure::new(
                Kind::Input,
                format!("`{gpu}` is not a GPU target that the compiler supports"),
            )
            .hint("write targets as the compiler does: `--gpu gfx1151` or `--gpu gfx1151,gfx1100`")
        })?;
        if !gpus.contains(&gpu) {
            gpus.push(gpu);
        }
    }
    if gpus.is_empty() {
        let labelled = input.gpu().and_then(|gpu| gpu.parse::<GpuTarget>().ok());
        gpus.push(match labelled.filter(CodeTarget::knows) {
            Some(gpu) => gpu,
            None => {
                let data = global::data()?;
                let root = machine::root(&global::working_folder()?, None)?;
                let found = host::gpus(&root);
                machine::choose_gpu(None, &data.gpus()?, &found, &data, &output::notice)?.0
            }
        });
    }
    gpus.sort();
    Ok(gpus)
}

fn text(slimmed: &SlimmedImage) -> String {
    let mut page = Page::default();
    let gpus = slimmed.gpus.join(", ");
    page.line(format_args!("{}: only code for {gpus} is left", slimmed.output));
    page.line(format_args!("  digest    {}", slimmed.digest));
    let (before, after) = (slimmed.layer_bytes_before, slimmed.layer_bytes_after);
    page.line(format_args!(
        "  layers    {} before, {} after ({}); {} changed",
        size(before),
        size(after),
        change(before, after),
        slimmed.layers_changed
    ));
    let removed: Vec<&ChangedFile> =
        slimmed.changed.iter().filter(|file| file.after.is_none()).collect();
    let bytes: u64 = removed.iter().map(|file| file.before).sum();
    let files = counted(removed.len(), "file");
    page.line(format_args!("  removed   {files}, {}", size(bytes)));
    let mut smaller: Vec<&ChangedFile> =
        slimmed.changed.iter().filter(|file| file.after.is_some()).collect();
    smaller.sort_by_key(|file| std::cmp::Reverse(file.before));
    if !smaller.is_empty() {
        page.line(format_args!("\n       before       after  file"));
    }
    for file in smaller.iter().take(MOST_FILES) {
        let remaining = size(file.after.unwrap_or_default());
        let path = sanitise_line(&file.path);
        page.line(format_args!("  {:>11} {remaining:>11}  {path}", size(file.before)));
    }
    if smaller.len() > MOST_FILES {
        let more = smaller.len() - MOST_FILES;
        page.line(format_args!("  and {more} more; `--format json` lists all"));
    }
    for file in &slimmed.whole {
        let (path, why) = (sanitise_line(&file.path), sanitise_line(&file.why));
        page.line(format_args!("\n  unchanged  {path}: {why}"));
    }
    let from = &slimmed.input;
    let place = slimmed.output.split_once(':').map_or("", |(_, place)| place);
    page.line(format_args!(
        "\n  next: `build-pipeline audit {place}`, `build-pipeline diff {from} {place}`"
    ));
    page.into_text()
}

/// Returns the relative change of a size.
fn change(before: u64, after: u64) -> String {
    let percent = |part: u64| (part * 100).checked_div(before).unwrap_or_default();
    if after > before {
        format!("{} % more", percent(after - before))
    } else {
        format!("{} % less", percent(before - after))
    }
}
