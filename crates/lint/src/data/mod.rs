//! The data of `lint`: `versions/lint.toml`, which is part of the program.
//!
//! Start at [`Data`] and its queries. `read` parses the file.

mod advice;
mod contents;
pub(crate) mod distribution;
pub(crate) mod options;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use names::GpuTarget;
use pins::{Known, Releases};

use crate::facts::Kind;

pub use read::parse;

/// The name of the data file in messages.
pub const FILE: &str = "versions/lint.toml";

/// The text of the data file.
pub const TEXT: &str = include_str!("../../../../versions/lint.toml");

/// The text of the compatibility table, for files outside a project.
pub const COMPAT: (&str, &str) =
    ("versions/compat.toml", include_str!("../../../../versions/compat.toml"));

/// A test proves that the file is valid.
static DATA: LazyLock<Data> = LazyLock::new(|| parse(FILE, TEXT).unwrap_or_default());

/// Returns the data of this program.
pub(crate) fn data() -> &'static Data {
    &DATA
}

/// Returns the rule of that name.
pub fn rule(id: &str) -> Option<&'static Rule> {
    rules().iter().find(|rule| rule.id == id)
}

/// Returns all rules, sorted by name.
pub fn rules() -> &'static [Rule] {
    &DATA.rules
}

/// The severity of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It fails, or does harm.
    Error,
    /// It is likely to fail, is stale, or is not reproducible.
    Warning,
    /// Good to know.
    Information,
}

impl Severity {
    /// Returns the word for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "information",
        }
    }
}

/// The source of a fact, and how far it can be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The documents, for people.
    pub source: String,
    /// How the fact is known.
    pub known: Known,
    /// The date on which the documents were read, `YYYY-MM-DD`.
    pub checked: String,
}

/// What one finding of a rule, the worst, is enough for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once {
    /// A line, and the messages that differ only in names.
    Line,
    /// The messages that differ only in names.
    Kind,
    /// A file.
    File,
}

/// A rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name, for `explain` and for comments that allow it.
    pub id: String,
    /// The IDs of the rule in the project's first list of wrong advice, `L1` to `L33`.
    pub catalogue: Vec<String>,
    /// The severity of a violation.
    pub severity: Severity,
    /// The violation, in one line.
    pub title: String,
    /// What is right, and what happens otherwise.
    pub fact: String,
    /// What to do instead.
    pub advice: String,
    /// What to do instead in files of some kinds.
    pub(crate) advice_in: Vec<(Kind, String)>,
    /// For what one finding is enough; `None` if each message is a defect of its own.
    pub once: Option<Once>,
    /// Whether the rule does not apply to scripts and lists in folders with tests.
    pub except_tests: bool,
    /// Patterns of rules: if one of them reports the same line, this rule does not.
    pub yields_to: Vec<String>,
    /// The source.
    pub evidence: Evidence,
}

/// The content of the data file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// The rules, sorted by name.
    pub(crate) rules: Vec<Rule>,
    /// ROCm releases on a GPU.
    pub(crate) rocm: Vec<RocmRow>,
    /// Releases that were never published.
    pub(crate) never: Vec<NeverRow>,
    /// Extras that a package no longer has.
    pub(crate) extras: Vec<ExtraRow>,
    /// Wheels that exist only for some Python versions.
    pub(crate) wheels: Vec<WheelRow>,
    /// Images with a known problem.
    pub(crate) images: Vec<ImageRow>,
    /// Container options with a known problem.
    pub(crate) containers: Vec<ContainerRow>,
    /// Overrides of the GPU's version.
    pub(crate) overrides: Vec<OverrideRow>,
    /// Variables with a known problem.
    pub(crate) variables: Vec<VariableRow>,
    /// Variables of Ollama that never existed.
    pub(crate) ollama_never: OllamaRow,
    /// Variables of Ollama that are not in the list of current variables.
    pub(crate) ollama_other: OllamaRow,
    /// Names that are mistaken for settings of Ollama's server.
    pub(crate) ollama_settings: OllamaRow,
    /// Variables that programs read.
    pub(crate) known: Vec<KnownRow>,
    /// Variables and build options that programs read, as complete lists.
    pub(crate) readers: Vec<ReaderRow>,
    /// The keys of the sections of quadlets.
    pub(crate) quadlets: Vec<SectionRow>,
    /// The keys of the sections of systemd units, and of the services of compose files.
    pub(crate) sections: Vec<SectionRow>,
    /// Images that set no variables.
    pub(crate) plain_bases: Vec<String>,
    /// Programs that images lack.
    pub(crate) contents: Vec<ContentsRow>,
    /// The programs that an apt package brings with its dependencies and recommendations, by its
    /// name.
    pub(crate) brings: BTreeMap<String, BTreeSet<String>>,
    /// What the options of builds need.
    pub(crate) builds: Vec<BuildRow>,
    /// Packages that some releases of distributions do not have.
    pub(crate) gone: Vec<GoneRow>,
    /// Python packages that need programs or libraries of the system.
    pub(crate) needs: Vec<NeedsRow>,
    /// The versions of Python that releases of packages are for.
    pub(crate) pythons: Vec<PythonRow>,
    /// Python packages that contain the same module.
    pub(crate) modules: Vec<ModuleRow>,
    /// PyTorch's indexes for ROCm.
    pub(crate) indexes: Vec<IndexRow>,
    /// Patterns of images whose Python refuses pip outside virtual environments.
    pub(crate) externally_managed: Vec<String>,
    /// Patterns of images that contain no package lists of apt.
    pub(crate) without_lists: Vec<String>,
    /// Patterns of images that contain hardly more than a distribution, Python or Node.js.
    pub(crate) small: Vec<String>,
    /// Patterns of images that have a user with the UID 1000.
    pub(crate) uid_1000: Vec<String>,
    /// Patterns of images without the group `render`.
    pub(crate) without_render: Vec<String>,
    /// Docker Official Images, whose names on Docker Hub have no namespace.
    pub(crate) official: BTreeSet<String>,
    /// Owners on Docker Hub that keep the tags of releases.
    pub(crate) publishers: BTreeSet<String>,
    /// Images that contain a ROCm build of torch.
    pub(crate) with_torch: Vec<String>,
    /// Python packages that require torch, those that require one release of it, and repositories of
    /// projects that do.
    pub(crate) need_torch: Vec<String>,
    pub(crate) pin_torch: Vec<String>,
    pub(crate) use_torch: Vec<String>,
    /// Those of them that accept every release of torch, torchvision and torchaudio.
    pub(crate) any_torch: Vec<String>,
    /// Python packages that require `triton` by this name.
    pub(crate) need_triton: Vec<String>,
    /// Patterns of AMD's packages whose names begin with `rocm-`.
    pub(crate) rocm_packages: Vec<String>,
    /// Patterns of packages that Ubuntu has, and no release of Debian.
    pub(crate) ubuntu_packages: Vec<String>,
    /// Releases of distributions.
    pub(crate) releases: Vec<ReleaseRow>,
    /// Releases of torch with the packages that are built for them.
    pub(crate) couplings: Vec<CouplingRow>,
    /// Names of GPUs.
    pub(crate) gpus: Vec<GpuRow>,
    /// Words in lines.
    pub(crate) words: Vec<WordRow>,
}

/// The fields that all rows about problems have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) rule: String,
    /// The message; empty if the rule's code writes it.
    pub(crate) message: String,
    pub(crate) severity: Option<Severity>,
    /// What to do, instead of the rule's advice.
    pub(crate) advice: Option<String>,
    pub(crate) gpus: Vec<GpuTarget>,
    pub(crate) evidence: Option<Evidence>,
}

/// ROCm releases on a GPU.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RocmRow {
    pub(crate) releases: Vec<Releases>,
    /// Whether the row applies only to files that name no GPU.
    pub(crate) without_gpu: bool,
    /// Whether the row applies only to files that name no other GPUs.
    pub(crate) is_certain: bool,
    /// The row does not apply to files that contain one of these texts.
    pub(crate) unless: Vec<String>,
    pub(crate) row: Row,
}

/// Releases that were never published.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NeverRow {
    pub(crate) package: String,
    pub(crate) releases: Vec<Releases>,
    pub(crate) exact: Vec<String>,
    pub(crate) help: String,
    pub(crate) evidence: Option<Evidence>,
}

/// Extras that a package no longer has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExtraRow {
    pub(crate) package: String,
    pub(crate) extras: Vec<String>,
    pub(crate) releases: Vec<Releases>,
    /// Releases of other packages that require an older release of this package.
    pub(crate) unless: Vec<(String, Releases)>,
    pub(crate) row: Row,
}

/// A release whose ROCm wheels exist only for one Python version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WheelRow {
    pub(crate) package: String,
    pub(crate) releases: Vec<Releases>,
    pub(crate) python: String,
    pub(crate) row: Row,
}

/// Images with a known problem.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ImageRow {
    pub(crate) repositories: Vec<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) except: Vec<String>,
    /// A pattern of an option: the row applies only to containers with such an option.
    pub(crate) option: Option<String>,
    /// Patterns of variables: the row applies only to stages that set a matching one.
    pub(crate) variables: Vec<String>,
    pub(crate) old_rocm: Vec<Releases>,
    /// A pattern of an option: the row does not apply to containers that have it.
    pub(crate) except_option: Option<String>,
    /// Patterns of commands: the row applies only to stages that run a matching command for each
    /// pattern.
    pub(crate) commands: Vec<String>,
    /// Patterns of commands: the row does not apply to stages that run a matching one.
    pub(crate) except_commands: Vec<String>,
    pub(crate) row: Row,
}

/// Container options with a known problem. All texts are patterns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ContainerRow {
    pub(crate) options: Vec<String>,
    /// Options that are not a problem.
    pub(crate) except: Vec<String>,
    /// Other options: the row applies only to containers that have one of them.
    pub(crate) needs: Vec<String>,
    /// Other options: the row does not apply to containers that have one of them.
    pub(crate) unless: Vec<String>,
    pub(crate) images: Vec<String>,
    pub(crate) except_images: Vec<String>,
    pub(crate) row: Row,
}

/// Overrides of the GPU's version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverrideRow {
    pub(crate) values: Vec<String>,
    pub(crate) row: Row,
}

/// The settings of a variable that a row applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Any, even one only for a build.
    Any,
    /// One that a program can see.
    Set,
    /// One for every run: an image, a service, a container, an environment file, an `export`.
    Kept,
    /// One in a service or container.
    Run,
    /// One in an image.
    Image,
    /// A line of an environment file, or one that a script writes into a file.
    File,
    /// An `export` in a script that starts a program, and compiles nothing.
    Start,
}

/// Variables with a known problem.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VariableRow {
    pub(crate) names: Vec<String>,
    pub(crate) values: Vec<String>,
    /// Values that are not a problem.
    pub(crate) except: Vec<String>,
    pub(crate) place: Place,
    /// `NAME` or `NAME=VALUE`: if the file sets it, the row does not apply. `NAME.txt`: if the file
    /// names this list, which only other releases of the package have.
    pub(crate) unless: Vec<String>,
    /// Variables: the row applies only to files that also set one of them.
    pub(crate) beside: Vec<String>,
    /// The package that reads the variable, and the releases that have the problem.
    pub(crate) package: Option<String>,
    pub(crate) releases: Vec<Releases>,
    /// Whether the row applies only if a release of the package is known.
    pub(crate) is_known: bool,
    /// ROCm releases: the row applies only to files that name one of them.
    pub(crate) rocm: Vec<Releases>,
    /// ROCm releases: the row does not apply to a file that names one of them.
    pub(crate) except_rocm: Vec<Releases>,
    /// GPUs on which the variable is harmless.
    pub(crate) except_gpus: Vec<GpuTarget>,
    pub(crate) row: Row,
}

/// Names of Ollama's variables.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OllamaRow {
    pub(crate) names: Vec<String>,
    pub(crate) help: String,
}

/// Variables that programs read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownRow {
    pub(crate) names: Vec<String>,
}

/// All variables or build options of a program that start with some prefixes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReaderRow {
    /// The program, for messages.
    pub(crate) program: String,
    pub(crate) names: Vec<String>,
    pub(crate) prefixes: Vec<String>,
    /// Patterns of names that are not reported.
    pub(crate) except: Vec<String>,
    /// Whether the names are options for CMake.
    pub(crate) is_options: bool,
    /// The row applies only to files that contain one of these texts, and none of `unless`.
    pub(crate) needs: Vec<String>,
    pub(crate) unless: Vec<String>,
    /// The month of the newest source, for messages.
    pub(crate) until: Option<String>,
    pub(crate) evidence: Option<Evidence>,
}

/// The keys of a section of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SectionRow {
    pub(crate) section: String,
    pub(crate) keys: Vec<String>,
    /// The keys whose values have a form.
    pub(crate) forms: Vec<(ValueForm, Vec<String>)>,
    /// A key and its values; a value that ends with `*` is the start of values.
    pub(crate) choices: Vec<String>,
}

/// The form of a value in a compose file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueForm {
    Text,
    List,
    Number,
    Boolean,
    Duration,
    Size,
}

/// Programs that images lack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ContentsRow {
    /// Patterns of `PATH:TAG`.
    pub(crate) images: Vec<String>,
    pub(crate) lacks: Vec<String>,
}

/// What options of a build with CMake need.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BuildRow {
    /// Patterns of names that are on, or of `name=value`.
    pub(crate) options: Vec<String>,
    /// What they need, for messages.
    pub(crate) needs: String,
    /// Patterns of the packages that bring it, by the package manager. The first one is the advice.
    pub(crate) apt: Vec<String>,
    pub(crate) dnf: Vec<String>,
    pub(crate) apk: Vec<String>,
    pub(crate) pacman: Vec<String>,
    /// The row applies only to stages that contain one of these texts, and none of `unless`.
    pub(crate) projects: Vec<String>,
    pub(crate) unless: Vec<String>,
    /// Patterns of `PATH:TAG`; empty for all known base images.
    pub(crate) images: Vec<String>,
    pub(crate) evidence: Option<Evidence>,
}

/// Packages that some releases of distributions do not have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GoneRow {
    pub(crate) packages: Vec<String>,
    /// The names of the releases.
    pub(crate) releases: Vec<String>,
    /// What to do instead.
    pub(crate) instead: Option<String>,
    /// Whether other repositories have the packages, so that the row applies only to official images.
    pub(crate) is_elsewhere: bool,
}

/// The versions of Python that releases of packages are for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PythonRow {
    pub(crate) packages: Vec<String>,
    /// The ends of the addresses of repositories.
    pub(crate) projects: Vec<String>,
    /// The releases of the packages; empty if the row is about all.
    pub(crate) releases: Vec<Releases>,
    pub(crate) python: Vec<Releases>,
    pub(crate) evidence: Option<Evidence>,
}

/// Python packages that contain the same module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ModuleRow {
    pub(crate) module: String,
    pub(crate) packages: Vec<String>,
}

/// An index of PyTorch for a release of ROCm.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IndexRow {
    pub(crate) names: Vec<String>,
    /// The releases of torch; empty if they are unknown.
    pub(crate) torch: Vec<Releases>,
    /// The versions of Python; empty if they are unknown.
    pub(crate) python: Vec<Releases>,
}

/// Python packages that need programs or libraries of the system.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NeedsRow {
    pub(crate) packages: Vec<String>,
    /// What they need, for messages.
    pub(crate) needs: String,
    /// Texts, in lower case: a file that contains one of them may install it.
    pub(crate) unless: Vec<String>,
    /// Patterns of `PATH:TAG`: more base images that do not contain it.
    pub(crate) images: Vec<String>,
    pub(crate) evidence: Option<Evidence>,
}

/// A release of a distribution.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReleaseRow {
    pub(crate) name: String,
    /// Patterns of `PATH:TAG`.
    pub(crate) images: Vec<String>,
    /// Patterns of images that are based on the release's image.
    pub(crate) based: Vec<String>,
    pub(crate) codename: Option<String>,
    /// The version of `python3`.
    pub(crate) python: Option<String>,
    /// The version of the C library.
    pub(crate) glibc: Option<String>,
    /// The last day with updates, `YYYY-MM-DD`.
    pub(crate) end: Option<String>,
}

/// Releases of torch with the packages that are built for them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CouplingRow {
    pub(crate) releases: Vec<Releases>,
    pub(crate) with: BTreeMap<String, Releases>,
}

/// Names of a GPU.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GpuRow {
    pub(crate) target: GpuTarget,
    pub(crate) words: Vec<String>,
}

/// The files that a row about words applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Files {
    /// All.
    Any,
    /// Files whose variables no other rule checks, and comments.
    Text,
    /// Dockerfiles and scripts.
    Code,
    /// Dockerfiles.
    Dockerfile,
}

/// The parts of a file that a pattern is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Lines without the comments in code.
    Lines,
    /// Lines, including the comments in code.
    Comments,
    /// Whole commands.
    Commands,
}

/// Words in a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WordRow {
    pub(crate) name: String,
    pub(crate) pattern: String,
    /// The row does not apply to lines or commands that match this pattern.
    pub(crate) except: Option<String>,
    pub(crate) part: Part,
    /// Whether lines that warn against the words are ignored.
    pub(crate) may_be_denied: bool,
    /// Texts: the row applies only to files that contain one of them.
    pub(crate) needs: Vec<String>,
    /// Texts: the row does not apply to files that contain one of them.
    pub(crate) unless: Vec<String>,
    pub(crate) files: Files,
    /// Whether a row about some GPUs also applies to files that name no GPU.
    pub(crate) without_gpu: bool,
    /// It does not apply to files that name only these GPUs.
    pub(crate) except_gpus: Vec<GpuTarget>,
    pub(crate) row: Row,
}

/// Returns whether a text matches a pattern with `*` and `?`.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[seen] => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((back, from)) = star else { return false };
                star = Some((back, from + 1));
                at = back + 1;
                seen = from + 1;
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Returns whether a text matches one of the patterns.
pub(crate) fn matches_any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_this_project_is_valid() {
        let read = parse(FILE, TEXT).map_err(|error| error.to_string());
        assert!(read.as_ref().is_ok_and(|data| data.rules.len() > 60), "{read:?}");
        pins::parse_compat(COMPAT.0, COMPAT.1).unwrap();
    }

    #[test]
    fn patterns_are_compared_as_a_shell_does_it() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*-rocm", "0.6-rocm", true),
            ("*-rocm", "rocm", false),
            ("*rc?", "0.10.2rc1", true),
            ("*rc?", "0.10.2", false),
            ("a*b*c", "axbxbc", true),
            ("a*b*c", "axbxb", false),
            ("?", "ab", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
