//! `build-pipeline push` and `tag`: copy a finished image to registries.

use std::sync::Arc;

use executor::Output;
use failure::{Failure, Kind};
use names::ImageRef;
use oci::client::RegistryClient;
use project::image::Image;
use project::locks::Locks;
use project::outputs::check_push;
use project::push::{
    NameFacts, PushReport, check_digest_apart, check_digest_file, push_image, write_digest,
};

use crate::cli::{Format, Global, Push, Tag};
use crate::global;
use crate::signals::{Signals, interrupted};
use terminal::output;
use terminal::reporter::Reporter;
use text::shell_line;

/// Pushes an image to all given places.
pub(crate) fn push(global: &Global, args: &Push) -> Result<(), Failure> {
    let folder = global::working_folder()?;
    let client = global::registry(global)?;
    if let Some(file) = &args.digest_file {
        check_digest_file(&folder.join(file))?;
    }
    let report = project::runtime::start()?.block_on(async {
        let image = Image::of_platform(&args.image, &folder, &client).await?;
        if let Some(file) = &args.digest_file {
            check_digest_apart(&folder.join(file), image.path())?;
        }
        let is_rehearsal = image.is_rehearsal();
        let facts = NameFacts::of_image(&image);
        let mut targets = Vec::new();
        for target in &args.targets {
            let text = facts.fill_in(target.expose())?;
            let reference = without_kind(&text).parse().map_err(|error| {
                let what = format!("`{text}` is not the name of an image on a registry");
                Failure::caused(Kind::Input, what, &error).hint(
                    "use `HOST/NAME:TAG`, which may contain `{track}`, `{gpu}`, `{version}` and `{date}`",
                )
            })?;
            check_push(is_rehearsal, &reference)?;
            targets.push(reference);
        }
        image.check_rehearsal(
            "rehearse it again with `--with-layers`, or push in the same run: `--rehearse --push REF`",
        )?;
        all(global, &args.image, &image, &targets, &client, args.format).await
    })?;
    if let Some(file) = &args.digest_file {
        write_digest(&folder.join(file), &report.digest)?;
    }
    show(&report, args.format)
}

/// Returns a reference without the prefix `registry:` of `--output`. A host may also be called
/// `registry`.
fn without_kind(text: &str) -> &str {
    let reference = text.strip_prefix("registry:");
    reference.filter(|rest| rest.parse::<ImageRef>().is_ok()).unwrap_or(text)
}

/// Adds tags to an image on a registry.
pub(crate) fn tag(global: &Global, args: &Tag) -> Result<(), Failure> {
    let folder = global::working_folder()?;
    let client = global::registry(global)?;
    let wrong = |what: String| {
        Failure::new(Kind::Input, what)
            .hint("use `build-pipeline tag HOST/NAME:TAG NEW`, for example `tag registry.example.org/ai/vllm:nightly stable`")
    };
    let source: ImageRef = without_kind(args.image.expose()).parse().map_err(|error| {
        let what = format!("`{}` is not an image on a registry", args.image);
        Failure::caused(Kind::Input, what, &error).hint(
            "`build-pipeline push IMAGE HOST/NAME:TAG` pushes a track, a layout or an archive",
        )
    })?;
    let mut targets = Vec::new();
    for tag in &args.tags {
        let named = format!("{}:{tag}", source.repository);
        let target: ImageRef = named
            .parse()
            .ok()
            .filter(|target: &ImageRef| target.digest.is_none() && target.tag.is_some())
            .ok_or_else(|| wrong(format!("`{tag}` is not a tag")))?;
        targets.push(target);
    }
    let report = project::runtime::start()?.block_on(async {
        let image = Image::of_platform(args.image.expose(), &folder, &client).await?;
        all(global, &args.image.to_string(), &image, &targets, &client, args.format).await
    })?;
    show(&report, args.format)
}

/// Pushes an image to several places, one after another. If a push fails, this prints the pushes
/// before it.
async fn all(
    global: &Global,
    name: &str,
    image: &Image,
    targets: &[ImageRef],
    client: &RegistryClient,
    format: Format,
) -> Result<PushReport, Failure> {
    let mut signals = Signals::listen();
    let outputs: Vec<Output> =
        targets.iter().map(|one| Output::Registry { reference: one.clone() }).collect();
    let outputs: Vec<&Output> = outputs.iter().collect();
    let command = shell_line(&global.words);
    let reporter = Arc::new(Reporter::new(global.progress));
    let pushing = async {
        let _locks = Locks::take(&outputs, None, &command, &output::waiting).await?;
        let mut pushed = Vec::new();
        let mut copies = Vec::new();
        for target in targets {
            let on_event = reporter.for_image(name);
            match push_image(image, target, copies.clone(), client, on_event).await {
                Ok(one) => pushed.push(one),
                Err(failure) => {
                    let report = PushReport::new(name, image, pushed);
                    if format == Format::Json || !copies.is_empty() {
                        show(&report.with_failure(target, &failure), format)?;
                    }
                    return Err(failure);
                }
            }
            copies.push(target.repository.clone());
        }
        Ok::<_, Failure>(pushed)
    };
    let pushed = tokio::select! {
        pushed = pushing => pushed?,
        code = signals.next() => return Err(interrupted(code)),
    };
    Ok(PushReport::new(name, image, pushed))
}

fn show(report: &PushReport, format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => output::json(report),
        Format::Text => output::page(&report.page()),
    }
}
