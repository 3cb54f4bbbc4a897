//! `build-pipeline audit`: finds out which GPUs an image, folder, package or file contains code
//! for.

use audit::{AuditReport, Part, Target, VerdictName};
use failure::{Failure, Kind};
use gpu_code::{CodeTarget, Wish};
use launch::machine;
use names::GpuTarget;
use project::input::Input;

use crate::cli::{AuditCode, Format, Global};
use crate::global;
use terminal::output;
use text::sanitise::sanitise_line;
use text::{Page, Tone, counted, size};

/// The maximum number of targets that the text lists.
const MOST_TARGETS: usize = 40;

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
        Format::Text => output::page(&text(&report))?,
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

fn text(report: &AuditReport) -> Page {
    let mut page = Page::default();
    let sentence = sentence(report);
    let (conclusion, reason) = sentence.split_once(':').unwrap_or((&sentence, ""));
    page.add(format_args!("{}: ", report.input));
    page.verdict(conclusion, tone(report.verdict));
    page.line(format_args!(":{reason}"));
    if !report.targets.is_empty() {
        page.line(format_args!("\n  target            objects        size"));
    }
    for Target { target, objects, bytes } in report.targets.iter().take(MOST_TARGETS) {
        page.line(format_args!("  {target:16} {objects:8} {:>11}", size(*bytes)));
    }
    if report.targets.len() > MOST_TARGETS {
        let more = report.targets.len() - MOST_TARGETS;
        page.line(format_args!("  and {more} more; `--format json` lists all"));
    }
    if !report.parts.is_empty() {
        page.line(format_args!("\n  verdict    code for {:10} all code  part", report.gpu));
    }
    for part in &report.parts {
        let Part { path, files, verdict, targets, .. } = part;
        let own = targets.iter().filter(|one| is_for(&one.target, &report.gpu));
        let own: u64 = own.map(|one| one.bytes).sum();
        let all: u64 = targets.iter().map(|one| one.bytes).sum();
        let files = if *files > 1 { format!(" ({files} files)") } else { String::new() };
        let path = sanitise_line(path);
        let (own, all) = (size(own), size(all));
        page.add(format_args!("  "));
        page.column(word(*verdict), tone(*verdict), 10);
        page.line(format_args!(" {own:>19} {all:>9}  {path}{files}"));
    }
    for one in &report.unreadable {
        let (path, why) = (sanitise_line(&one.path), sanitise_line(&one.why));
        page.line(format_args!("  unreadable  {path}: {why}"));
    }
    if report.archives > 0 {
        let (count, verb) = match report.archives {
            1 => ("1 archive".to_owned(), "was"),
            more => (format!("{more} archives"), "were"),
        };
        page.line(format_args!("\n  {count} inside the input {verb} not read"));
    }
    page
}

/// Returns whether a target is for the GPU, regardless of the target's features.
fn is_for(target: &str, gpu: &str) -> bool {
    target.split(':').next() == Some(gpu)
}

fn sentence(report: &AuditReport) -> String {
    let gpu = &report.gpu;
    let spoof = report.spoof.as_deref().unwrap_or_default();
    match (report.verdict, &report.forced) {
        (VerdictName::Native, _) => format!("native: there is code for {gpu}"),
        (VerdictName::Generic, _) => {
            format!("generic: there is portable code, or code for a family that includes {gpu}")
        }
        (VerdictName::Spoof, Some(_)) => {
            format!(
                "spoof: the image makes {gpu} imitate {spoof}, and there is code for the imitated GPU"
            )
        }
        (VerdictName::Spoof, None) => {
            format!("only with spoof: there is code for {spoof}, which {gpu} can imitate")
        }
        (VerdictName::None, Some(forced)) => {
            format!(
                "none: the image makes {gpu} imitate {forced}, and {gpu} cannot run any of its code that way"
            )
        }
        (VerdictName::None, None) => format!("none: there is no code for {gpu}"),
        (VerdictName::HostOnly, _) if report.parts.is_empty() => {
            format!("host only: there is no GPU code in {}", counted(report.files, "file"))
        }
        (VerdictName::HostOnly, _) => {
            "host only: there is no GPU code, only data about GPU code".to_owned()
        }
        (VerdictName::Unreadable, _) if report.unreadable.is_empty() => format!(
            "not known: there is code for a family of GPUs that {gpu} belongs to, but the files do not name the GPUs"
        ),
        (VerdictName::Unreadable, _) => {
            format!("not known: {} cannot be read", counted(report.unreadable.len(), "file"))
        }
    }
}

fn tone(verdict: VerdictName) -> Tone {
    match verdict {
        VerdictName::Native | VerdictName::Generic => Tone::Good,
        VerdictName::Spoof | VerdictName::HostOnly | VerdictName::Unreadable => Tone::Doubtful,
        VerdictName::None => Tone::Bad,
    }
}

fn word(verdict: VerdictName) -> &'static str {
    match verdict {
        VerdictName::Native => "native",
        VerdictName::Generic => "generic",
        VerdictName::Spoof => "spoof",
        VerdictName::None => "none",
        VerdictName::HostOnly => "data only",
        VerdictName::Unreadable => "not known",
    }
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
