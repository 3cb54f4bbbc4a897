//! `build-pipeline env`: prints a GPU's environment variables for a shell, a container or a
//! program.

use failure::Failure;
use launch::machine;
use launch::variables::{Asked, EnvReport};
use pins::When;
use terminal::output;

use crate::cli::{Env, EnvFormat};
use crate::global;

/// Prints the environment.
pub(crate) fn run(args: &Env) -> Result<(), Failure> {
    let mut when = vec![When::Run];
    when.extend(args.build.then_some(When::Build));
    when.extend(args.debug.then_some(When::Debug));
    let (gpu, rocm) = (args.gpu.as_deref(), args.rocm.as_deref());
    let program = args.program.as_deref();
    let asked = Asked { gpu, rocm, program, when: &when, spoof: args.spoof };
    let root = || machine::root(&global::working_folder()?, args.host_root.as_deref());
    let report = EnvReport::new(root, &global::data()?, asked, &output::notice)?;
    match args.format {
        EnvFormat::Shell => output::result(&report.shell().into_text()),
        EnvFormat::Dotenv => output::result(&report.dotenv().into_text()),
        EnvFormat::Json => output::json(&report),
    }
}
