//! Checks outputs before the first step, so that no work is lost to a wrong output.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::Poll;

use oci::archive::Content;
use oci::inputs::INPUTS;
use oci::{ArtifactFolder, LayoutError, archive, layout};
use record::{OutputOutcome, OutputState};
use rustix::fs::Access;

use crate::deliver::Target;
use crate::run::Run;
use crate::{Event, ExecuteError, Output};

/// Checks that a copy of inputs may be written to an output: a bundle into a file, or blobs into a
/// folder.
///
/// # Errors
/// Fails if there is something else at the output's path, or if the output cannot be written.
pub fn check_copy_target(output: &Output) -> Result<(), ExecuteError> {
    check(output, Content::Bundle, |path| ArtifactFolder::new(path.to_owned()).check(Some(INPUTS)))
}

/// Checks that the image of a run may be written to its outputs. Registries are checked separately.
pub(crate) fn check_outputs(run: &Run) -> Result<(), ExecuteError> {
    for output in &run.settings.outputs {
        check(output, Content::Image, |path| layout::check_target(path, &run.plan.name))
            .inspect_err(|_| failed(run, output))?;
    }
    Ok(())
}

/// Waits until a registry refuses a target. Never completes if none does.
pub(crate) async fn refused(run: &Run, targets: &mut [Target]) -> ExecuteError {
    poll_fn(|context| {
        for (target, output) in targets.iter_mut().zip(&run.settings.outputs) {
            let Target::Asked(answer) = target else { continue };
            match Pin::new(answer).poll(context) {
                Poll::Pending => {}
                Poll::Ready(Ok(Ok(digest))) => *target = Target::Found(digest),
                // The task stopped; the push reports the reason.
                Poll::Ready(Err(_)) => *target = Target::Unknown,
                Poll::Ready(Ok(Err(error))) => {
                    *target = Target::Unknown;
                    failed(run, output);
                    let what = format!("pushing to `{output}` failed");
                    return Poll::Ready(ExecuteError::registry(what, error));
                }
            }
        }
        Poll::Pending
    })
    .await
}

/// Records and reports that an output could not be written.
fn failed(run: &Run, output: &Output) {
    let (name, state) = (output.to_string(), OutputState::Failed);
    (run.on_event)(Event::OutputBegun { output: name.clone(), layer_bytes: 0 });
    (run.on_event)(Event::OutputEnded { output: name, state, layer_bytes_copied: 0 });
    run.progress().outputs.push(OutputOutcome {
        output: output.to_string(),
        state: OutputState::Failed,
        layers_copied: 0,
        layer_bytes_copied: 0,
        layers_mounted: 0,
    });
}

fn check(
    output: &Output,
    content: Content,
    check_folder: impl Fn(&Path) -> Result<(), LayoutError>,
) -> Result<(), ExecuteError> {
    let checked = match output {
        Output::Layout { path, .. } => check_folder(path).and_then(|()| check_writable(path)),
        Output::Archive { path } => {
            archive::check_target(path, content).and_then(|()| check_writable(path))
        }
        Output::Registry { .. } | Output::Engine { .. } => Ok(()),
    };
    checked.map_err(|error| ExecuteError::layout(format!("writing `{output}` failed"), error))
}

/// Checks that an output that does not exist yet can be created: in its parent folder, or in the
/// closest one that exists.
fn check_writable(path: &Path) -> Result<(), LayoutError> {
    let here = Path::new(".");
    if path.exists() {
        return Ok(());
    }
    let mut parents =
        path.ancestors().map(|one| if one.as_os_str().is_empty() { here } else { one });
    let Some(existing) = parents.find(|one| one.exists()) else { return Ok(()) };
    let checked = if existing.is_dir() {
        rustix::fs::access(existing, Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from)
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    };
    checked.map_err(|source| LayoutError::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn an_output_needs_a_folder_that_it_can_be_created_in() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "mine").unwrap();
        for name in ["", "file", "new", "new/deep/below"] {
            check_writable(&at(name)).unwrap();
        }
        check_writable(Path::new("new")).unwrap();
        for name in ["file/new", "file/new/below"] {
            let LayoutError::Write { path, source } = check_writable(&at(name)).unwrap_err() else {
                panic!("{name}");
            };
            assert_eq!((path, source.kind()), (at(name), io::ErrorKind::NotADirectory));
        }
    }

    #[test]
    fn a_copy_of_inputs_replaces_nothing_of_the_user() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("notes")).unwrap();
        fs::write(at("notes/mine.txt"), "mine").unwrap();
        let layout = |name: &str| Output::Layout { path: at(name), with_layers: true };
        let archive = |name: &str| Output::Archive { path: at(name) };
        for output in [layout("new"), archive("new.tar")] {
            check_copy_target(&output).unwrap();
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is created");
        }
        for output in [
            layout("notes"),
            layout("notes/mine.txt"),
            layout("notes/mine.txt/below"),
            archive("notes"),
            archive("notes/mine.txt"),
        ] {
            let error = check_copy_target(&output).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Target, "{output}: {error}");
            assert_eq!(error.to_string(), format!("writing `{output}` failed"));
        }
        assert_eq!(fs::read(at("notes/mine.txt")).unwrap(), b"mine");
    }
}
