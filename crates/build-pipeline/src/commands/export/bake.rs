//! A folder for `docker buildx bake`: builds on another machine, or with a builder in Kubernetes.
//!
//! Bake builds one step at a time, and only from what is in the folder. So this command first takes
//! the images that bake has built, then writes the contexts of the steps that are ready, until no
//! step is left. The language of the file is described in
//! <https://docs.docker.com/build/bake/reference/>.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use executor::{Bake, BakeTarget, BlobCache};
use failure::{Failure, Kind};
use project::environment;
use project::prepare::{Preparation, Prepared};
use project::rehearsal::Rehearsal;

use crate::cli::{Export, Global, StoreArgs};
use crate::commands::step::{StepKind, settings};
use crate::global;
use crate::output;
use crate::rebuild::carry_out;

/// The file that bake reads without being told.
const FILE: &str = "docker-bake.hcl";

/// Takes what bake has built, and writes what it can build next.
pub(super) fn run(
    global: &Global,
    args: &Export,
    command: &str,
    Preparation { plans, materials }: Preparation,
) -> Result<(), Failure> {
    let Some(folder) = &args.output else {
        return Err(Failure::new(Kind::Input, "no folder given")
            .hint("name a new folder for bake with `--output`"));
    };
    let unused = [
        ("--check", args.check),
        ("--push", args.push.is_some()),
        ("--runs-on", args.runs_on.is_some()),
        ("--install", args.install.is_some()),
    ];
    if let Some((option, _)) = unused.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::new(
            Kind::Input,
            format!("`{option}` is not an option of `export bake`"),
        )
        .hint("bake only builds steps: `build-pipeline build` writes and pushes the image"));
    }
    let _lock = lock(folder)?;
    let bake = Arc::new(Bake::new(folder));
    let stores = StoreArgs { named: args.stores.clone(), ..StoreArgs::default() };
    project::runtime::start()?.block_on(async {
        for Prepared { plan, stand_in, .. } in plans {
            let last = plan.steps.iter().rfind(|step| StepKind::of(&step.action) == StepKind::Kept);
            let Some(last) = last else { continue };
            let shared = global::shared_stores(global, &stores)?;
            let mut settings = settings(global, shared, &materials, Some(Arc::clone(&bake)))?;
            settings.last_step = Some(last.id.clone());
            let rehearsal = match stand_in {
                Some(stand_in) => Some(Rehearsal::start(&[stand_in]).await?),
                None => None,
            };
            if let Some(rehearsal) = rehearsal.as_ref().filter(|_| !plan.is_built()) {
                (settings.client, settings.cache) = (rehearsal.client.clone(), BlobCache::none());
            }
            global::take_from_stores(&plan, &settings).await;
            carry_out(global, &plan, settings, None, &environment::store_folder()?).await?;
        }
        Ok::<(), Failure>(())
    })?;
    bake.remove_taken().map_err(|error| failed(folder, &error))?;
    let (waiting, file) = (bake.waiting(), folder.join(FILE));
    if waiting.is_empty() {
        remove(&file).map_err(|error| failed(folder, &error))?;
        let tracks = args.names.iter().chain(&args.subject.tracks).cloned().collect::<Vec<_>>();
        return output::result(&format!(
            "all steps are finished: `build-pipeline build {}` writes the image without an engine\n",
            tracks.join(" ")
        ));
    }
    super::write(&file, &text(&waiting, command))?;
    let shown = folder.display();
    output::result(&format!(
        "next: run `docker buildx bake` in `{shown}`, and then this command again\n"
    ))
}

/// Locks a folder for bake, so that only one run uses it. Creates it if necessary.
fn lock(folder: &Path) -> Result<File, Failure> {
    let is_other = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some() && !is_ours(folder),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if is_other {
        let what = format!("`{}` is not a folder for bake", folder.display());
        return Err(Failure::new(Kind::Input, what)
            .hint("name a new folder, or one that `export bake` has written, with `--output`"));
    }
    let open = || {
        fs::create_dir_all(folder)?;
        fs::write(folder.join(MARK), "")?;
        File::open(folder)
    };
    let file = open().map_err(|error| failed(folder, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            let what = format!("another run uses `{}`", folder.display());
            Err(Failure::new(Kind::Busy, what).hint("wait until it has ended"))
        }
        Err(fs::TryLockError::Error(error)) => Err(failed(folder, &error)),
    }
}

/// The file that shows that a folder belongs to this command.
const MARK: &str = ".build-pipeline";

fn is_ours(folder: &Path) -> bool {
    folder.join(MARK).is_file()
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn failed(folder: &Path, error: &io::Error) -> Failure {
    let what = format!("writing into `{}` failed", folder.display());
    Failure::caused(Kind::of_write(error), what, error)
}

/// Returns the file for bake.
fn text(targets: &[BakeTarget], command: &str) -> String {
    let names: Vec<String> = targets.iter().map(|target| quoted(&target.name)).collect();
    let mut text = format!(
        "# Written by `{command}`. Do not edit it.\n\
         # Run `docker buildx bake` in this folder, and then the command again.\n\n\
         group \"default\" {{\n  targets = [{}]\n}}\n",
        names.join(", ")
    );
    for BakeTarget { name, context, base, args, network, archive } in targets {
        let mut line = |line: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        };
        line(&format!("\ntarget {} {{", quoted(name)));
        line(&format!("  context = {}", quoted(context)));
        if let Some((folder, digest)) = base {
            let layout = quoted(&format!("oci-layout://{folder}@{digest}"));
            line(&format!("  contexts = {{ base = {layout} }}"));
        }
        line("  args = {");
        for (key, value) in args {
            line(&format!("    {key} = {}", quoted(value)));
        }
        line("  }");
        line(if *network {
            "  network = \"host\"\n  entitlements = [\"network.host\"]"
        } else {
            "  network = \"none\""
        });
        line("  platforms = [\"linux/amd64\"]");
        line("  attest = [\"type=provenance,disabled=true\", \"type=sbom,disabled=true\"]");
        line(&format!("  output = [{}]", quoted(&format!("type=oci,dest={archive}"))));
        line("}");
    }
    text
}

/// Returns a string of HCL.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace("${", "$${").replace("%{", "%%{")
}
