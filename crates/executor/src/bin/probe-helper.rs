//! The helper process of probes, for this crate's tests. The program `build-pipeline` contains the
//! same helper.

fn main() -> std::process::ExitCode {
    executor::run_helper(std::env::args_os()).unwrap_or(std::process::ExitCode::FAILURE)
}
