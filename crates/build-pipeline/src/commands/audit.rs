//! `build-pipeline audit`: finds out which GPUs an image, folder, package or file contains code
//! for.

use audit::{AuditReport, VerdictName};
use failure::{Failure, Kind};
use gpu_code::{CodeTarget, Wish};
use launch::machine;
use names::GpuTarget;
use project::input::Input;

use crate::cli::{AuditCode, Format, Global};
use crate::global;
use terminal::output;
use text::counted;

/// Audits the input, and fails if the GPU cannot run its code.
pub(crate) fn run(global: &Global, args: &AuditCode) -> Result<(), Failure> {
    let folder = global::working_folder()?;
    let client = global::registry(global)?;
    let report = project::runtime::start()?.block_on(async {
        let input = Input::find(&args.input, &folder, &client).await?;
        let wish = wish(args, &input)?;
        let found = input.read(&client, &output::fetching).await?;
        Ok::<_, Failure>(AuditReport::new(args.input.clone(), found, &wish))
    })?;
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Text => output::page(&report.page())?,
    }
    judged(&report)
}

/// Returns the GPU that the code should run on.
fn wish(args: &AuditCode, input: &Input) -> Result<Wish, Failure> {
    let data = global::data()?;
    let gpus = data.gpus()?;
    let labelled = input.gpu().and_then(|gpu| gpu.parse::<GpuTarget>().ok());
    // Code for a GPU can be recognised without further facts about that GPU.
    let asked = args.gpu.as_ref().and_then(|gpu| gpu.parse::<GpuTarget>().ok());
    let gpu = match (&args.gpu, asked.filter(CodeTarget::knows).or(labelled)) {
        (None, Some(gpu)) => gpu,
        (Some(asked), Some(gpu)) if *asked == gpu.as_str() => gpu,
        (asked, _) => {
            let root = machine::root(&global::working_folder()?, None)?;
            let found = host::gpus(&root);
            machine::choose_gpu(asked.as_deref(), &gpus, &found, &data, &output::notice)?.0
        }
    };
    let spoof = gpus.gpus.get(&gpu).and_then(|known| known.spoof);
    Ok(Wish { gpu, forced: input.forced()?, spoof })
}

/// Returns an error if a file cannot be read, or unless the GPU is known to run the code.
fn judged(report: &AuditReport) -> Result<(), Failure> {
    let gpu = &report.gpu;
    if !report.unreadable.is_empty() {
        let what = format!("{} cannot be read", counted(report.unreadable.len(), "file"));
        return Err(Failure::new(Kind::Integrity, what)
            .hint("the files are listed above; fetch or build them again"));
    }
    if report.is_usable() {
        return Ok(());
    }
    if report.verdict == VerdictName::HostOnly {
        let what = format!("`{}` has no GPU code", report.input);
        return Err(Failure::new(Kind::Failed, what)
            .hint("audit the image or package that contains the ROCm libraries"));
    }
    if report.verdict == VerdictName::Unreadable {
        let what = format!("it is not known whether {gpu} can run `{}`", report.input);
        return Err(Failure::new(Kind::Failed, what)
            .hint("audit these files together with the libraries that load them"));
    }
    let failure = Failure::new(Kind::Failed, format!("{gpu} cannot run `{}`", report.input));
    Err(match (report.verdict, &report.spoof) {
        (VerdictName::Spoof, Some(spoof)) => failure.hint(format!(
            "`HSA_OVERRIDE_GFX_VERSION={spoof}` makes ROCm use code for another GPU, but AMD does not support this"
        )),
        _ => failure.hint(format!("use an image or package that was built for {gpu}")),
    })
}
