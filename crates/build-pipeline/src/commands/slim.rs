//! `build-pipeline slim`: writes an image without code for other GPUs.

use failure::{Failure, Kind};
use gpu_code::CodeTarget;
use launch::machine;
use names::GpuTarget;
use project::input::Input;
use project::locks::Locks;
use project::outputs::{check_dangling, parse_output};
use project::slim::{SlimRequest, slim_image};

use crate::cli::{Format, Global, Slim};
use crate::global;
use terminal::output;
use text::shell_line;

/// Writes the image, and shows what was removed.
pub(crate) fn run(global: &Global, args: &Slim) -> Result<(), Failure> {
    let folder = global::working_folder()?;
    let client = global::registry(global)?;
    let output = parse_output(&args.output, "slim", true).map_err(|error| {
        let hints = vec!["use `oci:DIR` or `oci-archive:FILE`".to_owned()];
        Failure { hints, ..error }
    })?;
    check_dangling(&output)?;
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
        let request =
            SlimRequest { input: &args.input, image: &image, forced, gpus: &gpus, output: &output };
        slim_image(&request, &client, &output::fetching).await
    })?;
    match args.format {
        Format::Json => output::large_json(&slimmed),
        Format::Text => output::page(&slimmed.page()),
    }
}

/// Returns the GPUs whose code is kept.
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
