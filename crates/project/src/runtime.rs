//! The async runtime for work that waits for a network or an engine.

use failure::{Failure, Kind};

/// Creates the runtime for work that uses a network or an engine.
///
/// # Errors
/// The machine cannot start threads.
pub fn start() -> Result<tokio::runtime::Runtime, Failure> {
    let failed = |error: std::io::Error| {
        Failure::caused(Kind::Machine, "cannot start threads", &error)
            .hint("allow this user more processes; `ulimit -u` shows the limit")
    };
    check_threads().map_err(failed)?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)
}

/// If the process limit is higher than this, thread creation is not tested.
const MANY_PROCESSES: u64 = 1024;

/// Checks that a runtime can start its threads, because it panics if it cannot.
fn check_threads() -> std::io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nproc).current;
    if limit.is_none_or(|limit| limit > MANY_PROCESSES) {
        return Ok(());
    }
    // One thread per CPU, and one for blocking file access.
    let count = std::thread::available_parallelism().map_or(1, usize::from) + 1;
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let mut threads = Vec::new();
    let mut started = Ok(());
    for _ in 0..count {
        let wait = std::sync::Arc::clone(&wait);
        // Every thread stays alive until the last one has started.
        let body = move || drop(wait.lock().map(|wait| wait.recv()));
        match std::thread::Builder::new().spawn(body) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                started = Err(error);
                break;
            }
        }
    }
    drop(end);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    started
}
