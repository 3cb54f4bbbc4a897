//! Builds Dockerfiles in the engine, and extracts the results.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use ::sources::Tree;
use bytes::Bytes;
use engine::{
    BuildEvent, BuildRequest, ByteStream, Engine, EngineError, Network, Retries, RunFailure, RunId,
    has_health_check, portable_dockerfile, unclear_owners, without_cache_mounts,
};
use names::ImageRef;
use oci::loopback::StoredBlob;
use oci::media::{Descriptor, Document, Manifest};
use tokio::sync::mpsc;

use super::BuildEnv;
use super::bake::Bake;
use super::load::pull;
use super::offered::Offered;
use super::sink::{Origin, Sink, diff_ids};
use super::store::StoredImage;
use crate::{Event, ExecuteError, OnEvent};

/// How long the engine may be silent. Compiling a single file can take a long time.
const IDLE: Duration = Duration::from_secs(3600);
/// The time limit of a pull or push.
pub(super) const TRANSFER: Duration = Duration::from_secs(6 * 3600);
/// The name of the Dockerfile in the context.
const DOCKERFILE: &str = "Dockerfile";
/// The tag under which the engine pushes a built image.
const BUILT: &str = "built";
/// How many chunks of a context may be queued for the engine.
const PIECES_AHEAD: usize = 16;

/// The build argument that specifies the compiler launcher, by default ccache. The launcher's cache
/// is in the engine, in a cache mount of the RUN. The built image does not depend on it.
const LAUNCHER: &str = "COMPILER_LAUNCHER";

/// What to build.
pub(crate) struct Instructions<'a> {
    /// The step, for events.
    pub(crate) step: &'a str,
    /// The name of its images in the in-process registry.
    pub(crate) name: String,
    /// The path of the Dockerfile, for messages.
    pub(crate) path: &'a str,
    /// The text of the Dockerfile.
    pub(crate) dockerfile: &'a str,
    /// The image for the build argument `BASE`, if the Dockerfile has one.
    pub(crate) base: Option<&'a StoredImage>,
    /// Build arguments in addition to `BASE`.
    pub(crate) args: &'a BTreeMap<String, String>,
    /// Whether RUN may use the network.
    pub(crate) network: bool,
    /// The modification time of everything in the context.
    pub(crate) epoch: u64,
    /// Whether to ignore the engine's cache and the compilers' caches.
    pub(crate) is_fresh: bool,
}

/// What builds an image.
#[derive(Clone, Copy)]
pub(crate) enum Builder<'a> {
    /// podman or docker on this machine.
    Engine(&'a Engine),
    /// `docker buildx bake`, which is called outside this run.
    Bake(&'a Bake),
}

/// What an engine added to a base.
#[derive(Debug)]
pub(crate) struct RawBuild {
    /// The config, as the engine wrote it.
    pub(crate) config: Bytes,
    /// The layers above the base, lowest first, as the engine compressed them.
    pub(crate) layers: Vec<StoredBlob>,
}

/// The prepared input of a builder.
pub(super) struct Ready {
    /// The text of the Dockerfile, rewritten so that all builders treat it alike.
    pub(super) text: String,
    /// The build arguments, without `BASE`.
    pub(super) build_args: BTreeMap<String, String>,
    /// The base.
    pub(super) offered: Option<Offered>,
    /// The context, with the Dockerfile.
    pub(super) context: Tree,
}

impl Ready {
    fn new(
        instructions: &Instructions<'_>,
        mut context: Tree,
        has_cache_mounts: bool,
        on_event: &OnEvent,
    ) -> Result<Self, ExecuteError> {
        let mut text = instructions.dockerfile.to_owned();
        let mut build_args = instructions.args.clone();
        if !has_cache_mounts {
            text = without_cache_mounts(&text);
        }
        let offered = instructions.base.map(|base| Offered::new(base, has_health_check(&text)));
        let offered = offered.transpose()?;
        let has_user = offered.as_ref().is_some_and(|offered| offered.has_user);
        warn_of_owners(&text, has_user, instructions.path, on_event);
        let shell = offered.as_ref().and_then(|offered| offered.shell.clone());
        text = portable_dockerfile(&text, shell);
        // A fresh build proves nothing if it reuses parts of the build that it is compared with.
        if (instructions.is_fresh || !has_cache_mounts) && declares(&text, LAUNCHER) {
            build_args.insert(LAUNCHER.to_owned(), String::new());
        }
        context.put_file(DOCKERFILE, text.clone().into_bytes()).map_err(ExecuteError::source)?;
        Ok(Self { text, build_args, offered, context })
    }
}

impl BuildEnv {
    /// Builds an image, and returns the new layers. Returns `None` if bake must build it first.
    pub(crate) async fn build_image(
        &self,
        builder: Builder<'_>,
        instructions: &Instructions<'_>,
        tree: Tree,
        sink: &Sink,
        origin: Origin<'_>,
        on_event: &OnEvent,
    ) -> Result<Option<RawBuild>, ExecuteError> {
        let engine = match builder {
            Builder::Engine(engine) => engine,
            Builder::Bake(bake) => {
                let ready = Ready::new(instructions, tree, true, on_event)?;
                return self.bake_image(bake, instructions, ready, sink, origin.client).await;
            }
        };
        let step = instructions.step;
        let failed = |error| ExecuteError::engine(format!("step `{step}` failed"), error);
        let ready = Ready::new(instructions, tree, engine.has_cache_mounts(), on_event)?;
        let Ready { text, mut build_args, offered, context } = ready;

        let target = sink.reference(&instructions.name, BUILT)?;
        // From here on, the names must be removed even if the build fails.
        self.names.lock().await.push(target.to_string());
        if let Some(offered) = &offered {
            let name = sink.offer_base(&instructions.name, &offered.made, origin)?;
            self.names.lock().await.push(name.to_string());
            let layers = &offered.made.manifest.layers;
            let pulled = pull(engine, &name, layers, sink, origin).await;
            pulled.map_err(|error| error.or_else(failed))?;
            // The step no longer transfers anything.
            on_event(Event::LayersWanted { step: step.to_owned(), layer_bytes: 0 });
            build_args.insert("BASE".to_owned(), name.to_string());
        }
        let request = BuildRequest {
            run: self.run.clone(),
            dockerfile: DOCKERFILE.to_owned(),
            dockerfile_text: text,
            target: None,
            build_args,
            labels: BTreeMap::new(),
            network: if instructions.network { Network::Host } else { Network::None },
            use_cache: !instructions.is_fresh,
            idle_limit: IDLE,
        };
        let mut tell = |event| {
            let step = step.to_owned();
            on_event(match event {
                BuildEvent::Step(marker) => Event::BuildInstruction {
                    step,
                    number: marker.number,
                    total: marker.total,
                    line: marker.line,
                    instruction: marker.instruction,
                },
                BuildEvent::Line(line) => Event::BuildLine { step, text: line.text },
            });
        };
        let mut retries = Retries::default();
        let built = loop {
            let pieces = stream(context.clone(), instructions.epoch);
            match engine.build(&request, pieces, &mut tell).await {
                Err(error) if retries.follow(&error).await => {}
                end => break end,
            }
        };
        let built = match built {
            Err(EngineError::Run(failure)) if self.keeps_failed => {
                let before = Before { step, request, context, epoch: instructions.epoch };
                let command = keep_failed(engine, &failure, before).await;
                let what = format!("step `{step}` failed");
                return Err(ExecuteError::kept(what, EngineError::Run(failure), command));
            }
            built => built.map_err(failed)?,
        };
        self.names.lock().await.push(built.image.to_string());
        let pushed = engine.push(&built.image, &target, TRANSFER).await;
        pushed.map_err(|error| sink.disk_failure().unwrap_or_else(|| failed(error)))?;
        raw(instructions, sink).map(Some)
    }
}

/// The name of images that are kept for debugging. The tag is the step.
const FAILED: &str = "localhost/build-pipeline/failed";

/// A build whose RUN failed.
struct Before<'a> {
    /// The step, which becomes the image's tag.
    step: &'a str,
    request: BuildRequest,
    context: Tree,
    /// The modification time of everything in the context.
    epoch: u64,
}

/// Keeps the state before a failed RUN as an image in the engine. Returns the command that shows
/// it, or why it could not be kept.
async fn keep_failed(
    engine: &Engine,
    failure: &RunFailure,
    before: Before<'_>,
) -> Result<String, String> {
    let Before { step, request, mut context, epoch } = before;
    let number = failure.line.ok_or("the engine did not say which RUN failed")?;
    let lines = request.dockerfile_text.lines().take(number.saturating_sub(1));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    // The image gets the label of another run, so that cleaning up after this run does not remove it.
    let run = RunId::parse("failed").ok_or("its run has no valid name")?;
    let name = format!("{FAILED}:{step}");
    let name = name.parse::<ImageRef>().map_err(|_| format!("`{name}` is not a valid name"))?;
    context.put_file(DOCKERFILE, text.clone()).map_err(|error| error.to_string())?;
    let context = stream(context, epoch);
    let request = BuildRequest { run, dockerfile_text: text, use_cache: true, ..request };
    let kept = match engine.build(&request, context, &mut |_| {}).await {
        Ok(built) => engine.tag(&built.image, &name).await,
        Err(error) => Err(error),
    };
    kept.map_err(|error| error.to_string())?;
    Ok(format!("{} run --rm -it --network none {name} sh", engine.kind()))
}

/// Warns about directories whose owner depends on the engine.
fn warn_of_owners(text: &str, has_user: bool, path: &str, on_event: &OnEvent) {
    for line in unclear_owners(text, has_user) {
        let message = format!(
            "`{path}`, line {line}: WORKDIR after USER: if WORKDIR creates the directory, it belongs to the user with BuildKit, and to root with podman and docker's classic builder; move WORKDIR before USER"
        );
        on_event(Event::Note { rule: "workdir-after-user".to_owned(), message });
    }
}

/// Returns whether a Dockerfile declares a build argument with this name.
fn declares(dockerfile: &str, name: &str) -> bool {
    dockerfile.lines().any(|line| {
        let mut words = line.split_whitespace();
        let is_arg = words.next().is_some_and(|word| word.eq_ignore_ascii_case("ARG"));
        is_arg && words.any(|word| word.split('=').next() == Some(name))
    })
}

impl Instructions<'_> {
    /// Returns an error about the image that a builder made.
    pub(super) fn wrong(&self, what: &str) -> ExecuteError {
        ExecuteError::capture(format!("the image that was built for step `{}` {what}", self.step))
    }

    /// Returns the layers of a built image that the base does not have, lowest first.
    pub(super) fn new_layers<'a>(
        &self,
        config: &[u8],
        manifest: &'a Manifest,
    ) -> Result<&'a [Descriptor], ExecuteError> {
        let below = self.base.map_or(Ok(Vec::new()), |base| diff_ids(&base.config))?;
        let all = diff_ids(config)?;
        if !all.starts_with(&below) || all.len() != manifest.layers.len() {
            return Err(self.wrong("is not based on the base in the plan"));
        }
        Ok(&manifest.layers[below.len()..])
    }
}

/// Returns the config of a pushed image, and the layers that the base does not have.
fn raw(instructions: &Instructions<'_>, sink: &Sink) -> Result<RawBuild, ExecuteError> {
    let wrong = |what| instructions.wrong(what);
    let manifest =
        sink.manifest(&instructions.name, BUILT).ok_or_else(|| wrong("has no manifest"))?;
    let Ok(Document::Manifest(manifest)) = Document::parse(&manifest, None) else {
        return Err(wrong("does not have an image manifest"));
    };
    let config = match sink.blob(&manifest.config.digest) {
        Some(StoredBlob::Memory(bytes)) => bytes,
        Some(StoredBlob::File { path, .. }) => {
            std::fs::read(&path).map(Bytes::from).map_err(|error| {
                ExecuteError::disk(format!("reading `{}` failed", path.display()), error)
            })?
        }
        None => return Err(wrong("has no config")),
    };
    let new = instructions.new_layers(&config, &manifest)?;
    let layers = new.iter().map(|layer| sink.blob(&layer.digest)).collect::<Option<Vec<_>>>();
    let layers = layers.ok_or_else(|| wrong("lacks a layer"))?;
    Ok(RawBuild { config, layers })
}

/// Returns a tree as the tar stream that an engine reads.
fn stream(tree: Tree, epoch: u64) -> ByteStream {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut pipe = io::BufWriter::with_capacity(256 << 10, Pipe(sender.clone()));
        let written = tree.write_tar(epoch, &mut pipe);
        let flushed = written.map_err(io::Error::other).and_then(|_| io::Write::flush(&mut pipe));
        if let Err(error) = flushed {
            drop(sender.blocking_send(Err(error)));
        }
    });
    Box::pin(futures_util::stream::unfold(receiver, |mut receiver| async {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    }))
}

/// Forwards written data to a channel.
struct Pipe(mpsc::Sender<io::Result<Bytes>>);

impl io::Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes))) {
            Ok(()) => Ok(bytes.len()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use names::Digest;
    use serde_json::json;

    use super::*;
    use crate::tests::support::{LAYER, config, image, image_of, tar_of};

    #[test]
    fn build_arguments_are_found_in_every_form() {
        for (text, expected) in [
            ("ARG A", true),
            ("FROM x\narg A=1\n", true),
            ("  ARG B=1 A=2", true),
            ("ARG AB", false),
            ("ENV A=1", false),
            ("# ARG A", false),
        ] {
            assert_eq!(declares(text, "A"), expected, "{text}");
        }
    }

    fn instructions<'a>(
        text: &'a str,
        base: Option<&'a StoredImage>,
        args: &'a BTreeMap<String, String>,
        is_fresh: bool,
    ) -> Instructions<'a> {
        let (step, name) = ("build", "build-1".to_owned());
        let (path, network, epoch) = ("Dockerfile", false, 1);
        Instructions { step, name, path, dockerfile: text, base, args, network, epoch, is_fresh }
    }

    #[test]
    fn only_layers_above_the_planned_base_are_taken() {
        let [below, new, other] = ["below", "new", "other"].map(|name| tar_of(&[(name, "")]));
        let (base, args) = (image(&[&below]), BTreeMap::new());
        let instructions = instructions("", Some(&base), &args, false);
        let taken = |tars: &[&[u8]], layers: &[&[u8]]| {
            let made = image_of(&config(&json!({}), tars), LAYER, layers);
            let new = instructions.new_layers(&made.config, &made.manifest);
            new.map(|layers| layers.iter().map(|layer| layer.digest.clone()).collect::<Vec<_>>())
        };
        assert_eq!(taken(&[&below], &[&below]).unwrap(), []);
        assert_eq!(taken(&[&below, &new], &[&below, &new]).unwrap(), [Digest::of(&new)]);
        for (tars, layers) in [
            (&[&other[..], &new][..], &[&other[..], &new][..]),
            (&[], &[]),
            (&[&below, &new], &[&below]),
            (&[&below], &[&below, &new]),
        ] {
            let error = taken(tars, layers).unwrap_err().to_string();
            let wanted =
                "the image that was built for step `build` is not based on the base in the plan";
            assert_eq!(error, wanted);
        }
    }

    #[test]
    fn no_cache_of_compilers_serves_a_fresh_build() {
        let text = "ARG BASE\nFROM ${BASE}\nARG COMPILER_LAUNCHER=ccache\nUSER 5\nWORKDIR /w\n";
        let (args, notes) = (BTreeMap::new(), Arc::<Mutex<Vec<String>>>::default());
        let kept = Arc::clone(&notes);
        let on_event: OnEvent = Arc::new(move |event| match event {
            Event::Note { rule, message } => {
                kept.lock().unwrap().push(format!("{rule}: {message}"));
            }
            other => panic!("{other:?}"),
        });
        for (text, is_fresh, has_mounts, is_off) in [
            (text, false, true, false),
            (text, true, true, true),
            (text, false, false, true),
            ("FROM scratch\n", true, false, false),
        ] {
            let instructions = instructions(text, None, &args, is_fresh);
            let ready = Ready::new(&instructions, Tree::new(), has_mounts, &on_event).unwrap();
            let launcher = ready.build_args.get(LAUNCHER).map(String::as_str);
            assert_eq!(launcher, is_off.then_some(""), "{text} {is_fresh} {has_mounts}");
            assert_eq!(ready.context.read_file(DOCKERFILE).unwrap(), ready.text.into_bytes());
        }
        let notes = notes.lock().unwrap();
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes[0].starts_with("workdir-after-user: `Dockerfile`, line 5: "), "{notes:?}");
    }
}
