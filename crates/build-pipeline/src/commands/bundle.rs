//! `build-pipeline bundle` and `mirror`: copy everything that tracks need to the user's own files,
//! folders or registries.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use executor::{Collected, Collector, Event, Output, Transfer};
use failure::{Failure, Kind};
use names::Digest;
use oci::inputs::{InputFiles, InputKind, InputList, check_bundle};
use oci::{ArtifactPlace, ParsePlaceError, Verified};
use plan::{Action, Plan};
use project::build_env::{self, BuildOptions, blob_cache};
use project::kinds::{PathKind, refuse_others};
use project::locks::Locks;
use project::outputs::check_not_input;
use project::prepare::{Preparation, Prepared, prepare};
use project::{copies, environment, stores};
use record::OutputState;

use crate::cli::{Bundle, Global, Mirror, Subject};
use crate::global;
use crate::signals::{Signals, interrupted};
use terminal::output;
use terminal::reporter::Reporter;
use text::sanitise::sanitise_line;
use text::{Page, counted, shell_line, size};

/// The maximum number of damaged places of a bundle that are shown after the first one.
const MOST_DAMAGE: usize = 20;

/// Writes a bundle, or checks bundles.
pub(crate) fn bundle(global: &Global, args: &Bundle) -> Result<(), Failure> {
    let Some(file) = &args.output else { return check(&args.check) };
    let since = copies::open(&args.since)?;
    if file.as_os_str() == "-" {
        return Err(Failure::new(Kind::Input, "a bundle cannot be written to standard output")
            .hint("write it to a file: `--output FILE`"));
    }
    if file.to_string_lossy().contains("://") {
        let what = sanitise_line(&file.to_string_lossy());
        let what = format!("`{what}` is a URL, and a bundle is written to a file");
        return Err(Failure::new(Kind::Input, what).hint(
            "write it to a file and copy that; `build-pipeline mirror TRACK --to registry:HOST/NAME` copies to a registry",
        ));
    }
    let output = Output::Archive { path: file.clone() };
    let copies = global.mirror.local_copies();
    check_not_input(&output, args.since.iter().chain(&copies).map(PathBuf::as_path))?;
    let subject = named(&args.subject, &args.names, "bundle TRACK -o FILE")?;
    let (collected, bytes) = write(global, &subject, &output, &since)?;
    let id = Digest::of(collected.index(&since).text().as_bytes());
    let mut page = Page::default();
    page.line(format_args!("{}", file.display()));
    page.line(format_args!("  bundle    {id}"));
    for needs in since.ids() {
        page.line(format_args!("  needs     {needs}"));
    }
    show(&mut page, &collected, &since, bytes);
    output::sanitised_result(&page.into_text())?;
    let older: Vec<String> =
        args.since.iter().map(|path| format!(" --bundle {}", path.display())).collect();
    output::hint(&format!(
        "`build-pipeline build TRACK{} --bundle {}{}` builds from the bundle, without network access",
        rehearsal(&args.subject),
        file.display(),
        older.concat()
    ));
    Ok(())
}

/// Returns the subject with the tracks `names`. `usage` shows how the command is written.
fn named(subject: &Subject, names: &[String], usage: &str) -> Result<Subject, Failure> {
    let subject = global::with_names(subject, names);
    if subject.tracks.is_empty() {
        return Err(Failure::new(Kind::Input, "no track given")
            .hint(format!("write the tracks after the command: `build-pipeline {usage}`")));
    }
    Ok(subject)
}

/// Returns the option that `build` needs if the inputs of a rehearsal were copied.
fn rehearsal(subject: &Subject) -> &'static str {
    if subject.rehearse { " --rehearse" } else { "" }
}

/// Copies into folders and registries.
pub(crate) fn mirror(global: &Global, args: &Mirror) -> Result<(), Failure> {
    let subject = named(&args.subject, &args.names, "mirror TRACK --to PLACE")?;
    for to in &args.to {
        let place = place(to.expose())?;
        let output = output_at(&place)?;
        let copies = global.mirror.local_copies();
        check_not_input(&output, copies.iter().map(PathBuf::as_path)).map_err(|told| Failure {
            hints: vec!["choose another place with `--to`".to_owned()],
            ..told
        })?;
        let none = InputFiles::default();
        let (collected, bytes) = write(global, &subject, &output, &none)?;
        let mut page = Page::default();
        page.line(format_args!("{to}"));
        show(&mut page, &collected, &none, bytes);
        output::sanitised_result(&page.into_text())?;
        output::hint(&format!(
            "`build-pipeline build TRACK{} --mirror all={to} --mirror-only` builds from the copy alone",
            rehearsal(&args.subject)
        ));
    }
    Ok(())
}

/// Parses the value of `--to` or `--mirror-to`.
pub(crate) fn place(text: &str) -> Result<ArtifactPlace, Failure> {
    text.parse().map_err(|why: ParsePlaceError| {
        Failure::new(Kind::Input, format!("cannot copy to `{text}`: {why}"))
            .hint("use `dir:PATH` or `registry:HOST/NAME`, for example `registry:registry.example.org/ai/inputs`")
    })
}

/// Returns the output that writes a copy to a place.
fn output_at(place: &ArtifactPlace) -> Result<Output, Failure> {
    match place {
        ArtifactPlace::Folder(folder) => {
            Ok(Output::Layout { path: folder.path().to_owned(), with_layers: true })
        }
        ArtifactPlace::Registry(repository) => {
            let reference = repository.to_string().parse();
            let reference = reference.map_err(|error| Failure::from_chain(Kind::Bug, &error))?;
            Ok(Output::Registry { reference })
        }
    }
}

/// Collects everything that tracks need, and writes it. Returns the collected inputs, and the
/// number of bytes that were transferred from and to registries.
fn write(
    global: &Global,
    subject: &Subject,
    output: &Output,
    since: &InputFiles,
) -> Result<(Collected, u64), Failure> {
    let project = global::project()?;
    let Preparation { plans, materials } =
        prepare(&global.mirror, &project, &global::subject(subject))?;
    plans.iter().try_for_each(|one| check_network(&one.plan))?;
    for warning in plans.iter().flat_map(|one| &one.warnings) {
        output::warn(warning.rule, &warning.message);
    }
    let work = Work { global, output, since };
    work.run(
        async |collector| {
            for Prepared { plan, stand_in, .. } in &plans {
                collector.add_plan(plan, stand_in.is_some()).await?;
            }
            Ok(())
        },
        materials,
    )
}

/// Copies one input to a place, and lists it there under `name`.
pub(crate) fn copy_input(
    global: &Global,
    name: &str,
    input: &plan::Input,
    to: &ArtifactPlace,
) -> Result<(), Failure> {
    let output = output_at(to)?;
    let work = Work { global, output: &output, since: &InputFiles::default() };
    let collect = async |collector: &mut Collector<'_>| collector.add_input(name, input).await;
    work.run(collect, Arc::default()).map(drop)
}

/// Refuses a plan with a stage that has network access: the tool cannot know what the stage
/// downloads.
fn check_network(plan: &Plan) -> Result<(), Failure> {
    let has_network =
        |step: &&plan::Step| matches!(step.action, Action::BuildImage { network: true, .. });
    let Some(step) = plan.steps.iter().find(has_network) else { return Ok(()) };
    let what = format!(
        "step `{}` of `{}` has network access, so the tool cannot know what it downloads",
        step.id, plan.name
    );
    Err(Failure::new(Kind::Input, what).hint(
        "its stage has `network = true` in versions/tracks.toml; use locked packages instead (`packages = \"LOCK\"`), or another variant",
    ))
}

/// What is written, and where.
struct Work<'a> {
    global: &'a Global,
    output: &'a Output,
    since: &'a InputFiles,
}

impl Work<'_> {
    /// Collects inputs with `collect`, and writes them. Stops if a signal arrives.
    fn run(
        &self,
        collect: impl AsyncFnOnce(&mut Collector<'_>) -> Result<(), executor::ExecuteError>,
        materials: Arc<executor::Materials>,
    ) -> Result<(Collected, u64), Failure> {
        let global = self.global;
        let client = global::registry(global)?;
        let cache = blob_cache();
        let options = BuildOptions {
            is_fresh: false,
            keeps_failed: false,
            store: environment::store_folder()?,
            old_packages: global.mirror.old_packages(),
            shared: stores::open(client.clone(), Vec::new())?,
        };
        let build_env = build_env::open(global::sources(global)?, materials, options)?;
        let on_event = Arc::new(Reporter::new(global.progress)).for_image("inputs");
        let transfer = Transfer::new(self.output.to_string(), Arc::clone(&on_event));
        project::runtime::start()?.block_on(async {
            let mut signals = Signals::listen();
            let writing = async {
                let command = shell_line(&global.words);
                let _locks = Locks::take(&[self.output], None, &command, &output::waiting).await?;
                let failed = |error| Failure::from(&error);
                executor::check_copy_target(self.output).map_err(failed)?;
                let mut collector = Collector::new(&client, &cache, &build_env).map_err(failed)?;
                collect(&mut collector).await.map_err(failed)?;
                let collected = collector.finish();
                let (_, layer_bytes) = collected.size(self.since);
                let output = self.output.to_string();
                on_event(Event::OutputBegun { output: output.clone(), layer_bytes });
                let written = self.write(&collected, &client, &transfer).await;
                let state =
                    if written.is_ok() { OutputState::Written } else { OutputState::Failed };
                let layer_bytes_copied = transfer.bytes();
                on_event(Event::OutputEnded { output, state, layer_bytes_copied });
                written?;
                Ok::<_, Failure>((collected, transfer.bytes()))
            };
            tokio::select! {
                written = writing => written,
                code = signals.next() => Err(interrupted(code)),
            }
        })
    }

    async fn write(
        &self,
        collected: &Collected,
        client: &oci::client::RegistryClient,
        transfer: &Transfer,
    ) -> Result<(), Failure> {
        let written = match self.output {
            Output::Archive { path } => {
                collected.write_bundle(path, self.since, client, transfer).await
            }
            Output::Layout { path, .. } => {
                let verified = Verified::new(environment::state_folder()?.join("verified"));
                collected.copy_to_folder(path, &verified, client, transfer).await
            }
            Output::Registry { reference } => {
                collected.copy_to_registry(&reference.repository, client, transfer).await
            }
            Output::Engine { .. } => {
                return Err(Failure::new(Kind::Bug, "an engine cannot store inputs"));
            }
        };
        written.map_err(|error| Failure::from(&error))
    }
}

/// Adds a summary to a page: each track with its number of inputs by kind, and the total size.
fn show(page: &mut Page, collected: &Collected, since: &InputFiles, transferred: u64) {
    for InputList { track, blobs } in &collected.lists {
        let counts = InputKind::ALL.iter().filter_map(|kind| {
            let count = blobs.iter().filter(|blob| blob.kind == *kind).count();
            (count > 0).then(|| counted(count, kind.name()))
        });
        page.line(format_args!("  {track}: {}", counts.collect::<Vec<_>>().join(", ")));
    }
    let (count, bytes) = collected.size(since);
    let (count, transferred) = (counted(count, "blob"), size(transferred));
    page.line(format_args!("  size      {}, {count}; {transferred} transferred", size(bytes)));
}

/// Checks every byte of bundles and of folders that `mirror` wrote, and prints their IDs. Reports
/// the problems of all of them.
fn check(paths: &[PathBuf]) -> Result<(), Failure> {
    let (files, mut unopened) = copies::open_each(paths);
    let mut wrong = paths
        .iter()
        .filter_map(|path| check_one(path, &files).err().or_else(|| unopened.remove(path)));
    let Some(mut told) = wrong.next() else {
        return undamaged(paths, &files);
    };
    for other in wrong {
        told.causes.extend(other.lines());
        if other.kind == Kind::Integrity {
            told.kind = Kind::Integrity;
        }
        told.hints.extend(other.hints);
    }
    let mut seen = BTreeSet::new();
    told.hints.retain(|hint| seen.insert(hint.clone()));
    Err(told)
}

/// Prints the ID of each bundle, and what they contain.
fn undamaged(paths: &[PathBuf], files: &InputFiles) -> Result<(), Failure> {
    let mut page = Page::default();
    for (path, id) in paths.iter().zip(files.ids()) {
        page.line(format_args!("{}: undamaged, {id}", path.display()));
    }
    for list in files.lists() {
        page.line(format_args!("  {}: {}", list.track, counted(list.blobs.len(), "blob")));
    }
    output::sanitised_result(&page.into_text())
}

/// Checks every byte of one bundle or folder.
fn check_one(path: &Path, inputs: &InputFiles) -> Result<(), Failure> {
    let shown = path.display().to_string();
    refuse_others(path, &shown, "a bundle", &[PathKind::Bundle, PathKind::Copy])?;
    let damages = check_bundle(path, inputs).map_err(|error| {
        Failure::caused(Kind::Input, format!("reading `{shown}` failed"), &error)
    })?;
    let Some(first) = damages.first() else { return Ok(()) };
    // A file that is not a bundle looks the same as a bundle with a damaged first header.
    let state = if first.at == Some(0) { "is not a bundle, or is damaged" } else { "is damaged" };
    let what = sanitise_line(&format!("`{shown}` {state}: {first}"));
    let mut told = Failure::new(Kind::Integrity, what);
    for other in damages.iter().skip(1).take(MOST_DAMAGE) {
        told = told.cause(sanitise_line(&format!("`{shown}`: {other}")));
    }
    let more = damages.len().saturating_sub(MOST_DAMAGE + 1);
    if more > 0 {
        told = told.cause(format!("`{shown}`: {} more", counted(more, "damaged place")));
    }
    Err(told.hint("copy it again from the place where it was created"))
}
