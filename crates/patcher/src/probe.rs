//! Probes, as data: programs that check whether a patch works. The caller runs them.
//!
//! A [`ProbeJob`] contains a tool, its arguments, its standard input and the files in its working
//! directory; a [`ProbeRun`] contains the result. Nothing else is needed to run a probe. Probes
//! execute unreviewed code from the tree, so a runner must confine them.

use std::collections::{BTreeMap, BTreeSet};

use names::GpuTarget;

use crate::TreePath;
use crate::cmake;
use crate::gpu::fill;
use crate::pattern::Pattern;
use crate::prepared::check_condition;
use crate::spec::{Probe, ProbeKind};

/// A program that runs probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// `cmake`
    Cmake,
    /// The C++ preprocessor: `g++` or `clang++`, with the arguments of a [`ProbeJob`].
    Cpp,
    /// `python3`
    Python,
}

/// Everything that is needed to run a probe. The working directory contains `files` and nothing
/// else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeJob {
    /// The patch.
    pub patch: String,
    /// The probe.
    pub probe: String,
    /// The program to run.
    pub tool: Tool,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its standard input.
    pub stdin: Vec<u8>,
    /// The files in its working directory.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The result of running a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeRun {
    /// It exited.
    Ended {
        /// Whether its exit code was 0.
        success: bool,
        /// Its standard output.
        stdout: Vec<u8>,
        /// Its standard error.
        stderr: Vec<u8>,
    },
    /// It was not run, for example because the tool is not installed. The probe counts as skipped.
    NotRun {
        /// The reason.
        reason: String,
    },
    /// It was stopped, for example because it took too long. The probe counts as failed.
    Stopped {
        /// The reason.
        reason: String,
    },
}

/// Runs probes.
pub trait Probes {
    /// Runs a probe.
    fn run(&self, job: &ProbeJob) -> ProbeRun;
}

/// Skips every probe.
#[derive(Debug, Clone, Copy)]
pub struct NoProbes;

impl Probes for NoProbes {
    fn run(&self, _: &ProbeJob) -> ProbeRun {
        ProbeRun::NotRun { reason: "probes were not requested".to_owned() }
    }
}

/// The script of a CMake probe, next to the files that it checks.
const CMAKE_SCRIPT: &str = "build-pipeline-probe.cmake";

/// The file with the selected commands, which the script includes.
const CMAKE_COMMANDS: &str = "build-pipeline-commands.cmake";

/// Compiles the files in its arguments, and writes nothing.
const PYTHON_COMPILE: &str = "\
for name in sys.argv[1:]:
    compiled(name)
";

/// The start of Python probes. Before Python 3.12, an f-string could not contain its own quotes
/// (PEP 701), so an older Python cannot judge files that use this.
const PYTHON_START: &str = "\
import ast, builtins, sys
def compiled(name, flags=0):
    with open(name, 'rb') as file:
        text = file.read()
    try:
        return compile(text, name, 'exec', flags, dont_inherit=True)
    except SyntaxError as error:
        if sys.version_info < (3, 12) and 'f-string' in str(error.msg):
            sys.exit('NEWER_PYTHON' + ' %d.%d' % sys.version_info[:2])
        raise
";

/// The words before the version in the error output of a Python that is too old.
const NEWER_PYTHON: &str = "the file may need Python 3.12, but this machine has";

/// Extracts functions from a file without running the rest of it, and calls them. Names that they
/// use are looked up in the file when they are needed: its imports, assignments, functions and
/// classes.
const PYTHON_CALL: &str = "\
name, *wanted = sys.argv[1:]
tree = compiled(name, ast.PyCF_ONLY_AST)
found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in wanted]
missing = set(wanted) - {n.name for n in found}
if missing:
    sys.exit('no function ' + ', '.join(sorted(missing)))
def names(node):
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).split('.')[0] for alias in node.names]
    if isinstance(node, ast.Assign):
        return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return [getattr(node, 'name', None)]
class Names(dict):
    def __missing__(self, key):
        for node in tree.body:
            if key in names(node):
                exec(compile(ast.Module([node], []), name, 'exec'), space)
        return space[key]
space = {'__name__': 'probe', '__builtins__': Names(vars(builtins))}
with open('build-pipeline-prelude.py', 'rb') as file:
    exec(compile(file.read(), 'prelude', 'exec'), space)
for function in found:
    function.decorator_list = []
    exec(compile(ast.Module([function], []), name, 'exec'), space)
with open('build-pipeline-call.py', 'rb') as file:
    exec(compile(file.read(), 'call', 'exec'), space)
";

/// Creates the job of a probe from file contents.
///
/// A probe of one file uses the first of `settled` (the files that the patch's edits matched), or
/// else the first that exists.
///
/// # Errors
/// Returns the reason if the probe cannot judge these files, for example because none of them
/// exist.
pub fn probe_job(
    patch: &str,
    probe: &Probe,
    gpu: &GpuTarget,
    settled: &BTreeSet<&TreePath>,
    mut read: impl FnMut(&TreePath) -> Option<Vec<u8>>,
) -> Result<ProbeJob, String> {
    let files: BTreeMap<String, Vec<u8>> = probe
        .files
        .iter()
        .filter_map(|path| Some((path.as_str().to_owned(), read(path)?)))
        .collect();
    let mut existing = probe.files.iter().filter(|path| files.contains_key(path.as_str()));
    let first = existing.clone().find(|path| settled.contains(path)).or_else(|| existing.next());
    let first = first.ok_or("the tree contains none of its files")?.as_str().to_owned();
    let mut job = ProbeJob {
        patch: patch.to_owned(),
        probe: probe.name.clone(),
        tool: Tool::Python,
        arguments: ["-I", "-B", "-"].map(str::to_owned).to_vec(),
        stdin: Vec::new(),
        files,
    };
    match &probe.kind {
        ProbeKind::CmakeScript { script, commands } => {
            job.tool = Tool::Cmake;
            if let Some(pattern) = commands {
                // The parser has compiled the pattern, so it is valid.
                let pattern = Pattern::new(&fill(pattern, gpu))?;
                let text = String::from_utf8_lossy(&job.files[&first]);
                let is_wanted = |command: &str| pattern.is_in(command.as_bytes());
                let included = |path: &str| {
                    let path = TreePath::try_from(path.to_owned()).ok()?;
                    if probe.files.contains(&path) {
                        return None;
                    }
                    Some(String::from_utf8_lossy(&read(&path)?).into_owned())
                };
                let evaluated = cmake::selection(&text, is_wanted, included)
                    .map_err(|why| format!("{first}, {why}"))?;
                job.files.insert(CMAKE_COMMANDS.to_owned(), evaluated.into_bytes());
            }
            job.arguments = vec!["-P".to_owned(), CMAKE_SCRIPT.to_owned()];
            job.files.insert(CMAKE_SCRIPT.to_owned(), fill(script, gpu).into_bytes());
        }
        ProbeKind::CppMacro { defines } => {
            job.tool = Tool::Cpp;
            // `-undef` removes the macros of the machine that runs the probe; `-dD` keeps the
            // definitions that the conditions in the file leave active.
            job.arguments =
                ["-E", "-P", "-dD", "-w", "-undef", "-x", "c++"].map(str::to_owned).to_vec();
            job.arguments.extend(defines.iter().map(|define| format!("-D{}", fill(define, gpu))));
            job.stdin = without_includes(&job.files.remove(&first).unwrap_or_default());
            let text = String::from_utf8_lossy(&job.stdin);
            let called = macros_of_headers(&text);
            job.arguments.extend(called.iter().map(|name| format!("-D{name}(...)=0")));
            job.arguments.push("-".to_owned());
            job.files.clear();
        }
        ProbeKind::PythonCompile => {
            job.arguments.extend(job.files.keys().cloned());
            job.stdin = python(PYTHON_COMPILE);
        }
        ProbeKind::PythonCall { functions, prelude, call } => {
            job.arguments.push(first);
            job.arguments.extend(functions.iter().cloned());
            job.stdin = python(PYTHON_CALL);
            for (name, text) in
                [("build-pipeline-prelude.py", prelude), ("build-pipeline-call.py", call)]
            {
                job.files.insert(name.to_owned(), fill(text, gpu).into_bytes());
            }
        }
    }
    Ok(job)
}

/// Returns the standard input of a Python probe.
fn python(script: &str) -> Vec<u8> {
    format!("{}{script}", PYTHON_START.replace("NEWER_PYTHON", NEWER_PYTHON)).into_bytes()
}

/// Returns the reason if a probe says that the machine's Python is too old to judge the file.
pub(crate) fn too_old(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    text.lines().find(|line| line.starts_with(NEWER_PYTHON)).map(str::to_owned)
}

/// What looks like a call of a macro in a condition, but is part of the preprocessor.
const OF_PREPROCESSOR: [&str; 8] = [
    "defined",
    "__has_attribute",
    "__has_builtin",
    "__has_cpp_attribute",
    "__has_extension",
    "__has_feature",
    "__has_include",
    "__has_include_next",
];

/// Returns the macros that conditions call and only headers define, such as `AT_MKL_ENABLED` in
/// `#if AT_MKL_ENABLED()`. Without a definition, the preprocessor refuses the file.
fn macros_of_headers(source: &str) -> BTreeSet<&str> {
    let mut called = BTreeSet::new();
    let mut defined = BTreeSet::new();
    let mut continues = false;
    for line in source.lines() {
        let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
        let is_condition =
            directive.is_some_and(|text| text.starts_with("if") || text.starts_with("elif"));
        if let Some(definition) = directive.and_then(|text| text.strip_prefix("define")) {
            defined.extend(definition.trim_start().split(|c| !is_of_name(c)).next());
        }
        if is_condition || continues {
            called.extend(calls(directive.unwrap_or(line)));
        }
        continues = (is_condition || continues) && line.trim_end().ends_with('\\');
    }
    let is_known = |name: &&str| defined.contains(name) || OF_PREPROCESSOR.contains(name);
    called.retain(|name| !is_known(name));
    called
}

fn is_of_name(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}

/// Returns the names in `text` that are followed by a parenthesis.
fn calls(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('(').filter_map(|(at, _)| {
        let before = text[..at].trim_end();
        let name = &before[before.trim_end_matches(is_of_name).len()..];
        let is_name = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
        (is_name && !matches!(name, "if" | "elif")).then_some(name)
    })
}

/// Replaces `#include` lines with empty lines: the headers of ROCm and PyTorch are not available.
fn without_includes(source: &[u8]) -> Vec<u8> {
    let is_include = |line: &[u8]| {
        let line = line.trim_ascii_start();
        line.strip_prefix(b"#").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"include"))
    };
    let lines = source.split_inclusive(|byte| *byte == b'\n');
    lines.flat_map(|line| if is_include(line) { b"\n".as_slice() } else { line }).copied().collect()
}

/// Checks whether the result of a run is the one that the probe expects.
///
/// # Errors
/// Returns the reason if the exit code or the output differs.
pub fn judge_probe(
    probe: &Probe,
    gpu: &GpuTarget,
    success: bool,
    stdout: &[u8],
    stderr: &[u8],
) -> Result<(), String> {
    if success != probe.success {
        let ended = if success { "succeeded" } else { "failed" };
        let wanted = if probe.success { "succeed" } else { "fail" };
        return Err(format!("it {ended}, but should {wanted}{}", last_line(stderr)));
    }
    for condition in &probe.conditions {
        check_condition(condition, gpu, stdout)
            .map_err(|reason| format!("in its output, {reason}"))?;
    }
    Ok(())
}

fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(&stderr[stderr.len().saturating_sub(2000)..]).into_owned();
    match text.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => {
            format!("; last line of its error output: {}", crate::reader::quote(line.trim()))
        }
        None => String::new(),
    }
}
