//! The helper process of probes, for this crate's tests. The command has it built in.

fn main() -> std::process::ExitCode {
    executor::run_helper(std::env::args_os()).unwrap_or(std::process::ExitCode::FAILURE)
}
