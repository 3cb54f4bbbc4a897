//! The formats of the files under `versions/` that this crate reads. `versions.toml` has only a
//! schema.

mod compat;
mod tracks;
mod versions;

pub use compat::{BAD, COMPAT, COUPLING, FIRMWARE, INDEX, KERNEL, ROCM, ROW_EVIDENCE};
pub use tracks::{
    BASE, BUILT, DERIVED, DISK, FILE, IMAGE, SLIM_VARIANT, STAGE, TRACK, TRACK_ABOUT, TRACKS,
    VARIANT,
};
pub use versions::versions;

use crate::form::{Form, Key, Kind};

/// `versions/gpus.toml`.
pub const GPUS: Form = Form {
    about: "Facts about GPU targets, and the environment variables that programs on them need.",
    keys: &[&[
        Key::schema(),
        Key::optional(
            "variable",
            Kind::TableByName(&VARIABLE),
            "Environment variables, by name.",
            "no variables",
            "variable.HSA_ENABLE_SDMA = { value = \"0\", when = [\"debug\"], why = \"avoids SDMA\", evidence = \"ROCm/TheRock#1413\" }",
        ),
        Key::optional(
            "limit",
            Kind::TableByName(&LIMIT),
            "What GPUs cannot do with some ROCm releases, by name.",
            "no limits",
            "limit.vega = { gpus = [\"gfx906\"], rocm = [\"6.4 or newer\"], why = \"rocBLAS has no code for {gpu}\", instead = \"ROCm 6.3\", known = \"vendor\", evidence = \"ROCm/legacy-rocm-build#4625\" }",
        ),
        Key::optional(
            "rocm-releases",
            Kind::Texts,
            "AMD's ROCm releases, from the oldest to the newest. `env` warns about others.",
            "not known",
            "rocm-releases = [\"7.1\", \"7.2\"]",
        ),
    ]],
    named: Some(("a GPU target, such as `gfx1151`", &GPU)),
};

/// A GPU target.
pub const GPU: Form = Form::of(
    "A GPU target.",
    &[&[
        Key::required(
            "name",
            Kind::Text,
            "The products with this target.",
            "name = \"Strix Halo\"",
        ),
        Key::required("family", Kind::Text, "The family.", "family = \"RDNA 3.5\""),
        Key::optional(
            "integrated",
            Kind::Flag,
            "Whether the GPU is on the same chip as the CPU and shares its memory.",
            "`false`",
            "integrated = true",
        ),
        Key::optional(
            "spoof",
            Kind::Text,
            "The value of `HSA_OVERRIDE_GFX_VERSION` for a spoof on this GPU.",
            "no spoof helps",
            "spoof = \"11.0.0\"",
        ),
        Key::optional(
            "spoof-rocm",
            Kind::Texts,
            "The ROCm releases with which the spoof helps: those with code for the GPU that it names.",
            "all",
            "spoof-rocm = [\"7.0 or newer\"]",
        ),
        Key::optional(
            "spoof-risk",
            Kind::Text,
            "What can happen with the spoof. `env` warns about it.",
            "not known",
            "spoof-risk = \"programs can crash\"",
        ),
        Key::optional(
            "spoof-on-request",
            Kind::Flag,
            "Whether `env` prints the override only with `--spoof`.",
            "`false`",
            "spoof-on-request = true",
        ),
        Key::optional(
            "native-since",
            Kind::Text,
            "The first ROCm release with native code for this GPU.",
            "not known",
            "native-since = \"7.2.0\"",
        ),
        Key::optional(
            "not-beside",
            Kind::Texts,
            "Targets that AMD does not support in the same machine as this one.",
            "none",
            "not-beside = [\"gfx1201\"]",
        ),
        Key::optional(
            "products",
            Kind::Texts,
            "More products with this target. `env` and `doctor` accept them as `--gpu`, like those in `name`.",
            "none",
            "products = [\"Ryzen AI Max+ 395\"]",
        ),
        EVIDENCE_OF_FACTS,
        CHECKED,
    ]],
);

const EVIDENCE_OF_FACTS: Key = Key::optional(
    "evidence",
    Kind::Text,
    "The source of these facts.",
    "none",
    "evidence = \"ROCm/TheRock RELEASES.md\"",
);

/// The date on which a source was read.
pub const CHECKED: Key = Key::optional(
    "checked",
    Kind::Date,
    "The date on which the source was read.",
    "not known",
    "checked = 2026-11-20",
);

/// An environment variable.
pub const VARIABLE: Form = Form::of(
    "An environment variable that builds or programs read. `build-pipeline env` prints it.",
    &[&[
        Key::required("value", Kind::Text, "The value.", "value = \"1\""),
        Key::required(
            "when",
            Kind::SomeOf(&["run", "build", "debug"]),
            "What reads the variable: programs (`run`), builds (`build`), or programs that you debug (`debug`).",
            "when = [\"run\"]",
        ),
        Key::optional(
            "gpus",
            Kind::Texts,
            "The GPU targets that need the variable.",
            "all",
            "gpus = [\"gfx1151\"]",
        ),
        Key::optional(
            "rocm",
            Kind::Texts,
            "The ROCm releases that need the variable.",
            "all",
            "rocm = [\"7.2.1 or newer\"]",
        ),
        Key::optional(
            "programs",
            Kind::Texts,
            "The programs that read it, as `program` in run.toml and `env --for` name them.",
            "all",
            "programs = [\"vllm\"]",
        ),
        Key::required(
            "why",
            Kind::Text,
            "What the variable does.",
            "why = \"avoids a segmentation fault\"",
        ),
        Key::required(
            "evidence",
            Kind::Text,
            "The source.",
            "evidence = \"vllm-project/vllm#37151\"",
        ),
        CHECKED,
    ]],
);

/// What GPUs cannot do with some ROCm releases.
pub const LIMIT: Form = Form::of(
    "What GPUs cannot do with some ROCm releases. `build-pipeline env` warns about it.",
    &[&[
        Key::required("gpus", Kind::Texts, "The GPU targets.", "gpus = [\"gfx906\"]"),
        Key::optional(
            "rocm",
            Kind::Texts,
            "The ROCm releases.",
            "all",
            "rocm = [\"6.4 or newer\"]",
        ),
        Key::optional(
            "programs",
            Kind::Texts,
            "The programs, as `program` in run.toml and `env --for` name them.",
            "all",
            "programs = [\"vllm\"]",
        ),
        Key::required(
            "why",
            Kind::Text,
            "The fact. `{gpu}` is replaced with the target.",
            "why = \"rocBLAS has no code for {gpu}\"",
        ),
        Key::required(
            "instead",
            Kind::Text,
            "What to use. `{gpu}` is replaced with the target.",
            "instead = \"ROCm 6.3\"",
        ),
        Key::required(
            "known",
            Kind::Text,
            "How the fact is known: `vendor`, `maintainer`, `one source`, or a number of independent reports.",
            "known = \"vendor\"",
        ),
        Key::required(
            "evidence",
            Kind::Text,
            "The source.",
            "evidence = \"ROCm/legacy-rocm-build#4625\"",
        ),
        CHECKED,
    ]],
);

/// `versions/python.toml`.
pub const PYTHON: Form = Form {
    about: "Sets of Python packages. `build-pipeline lock NAME` resolves a set and writes \
            `versions/locks/pylock.NAME.toml` and `versions/locks/NAME.requirements.lock`.",
    keys: &[&[Key::schema()]],
    named: Some(("the name of a lock", &PYTHON_SET)),
};

/// A set of Python packages.
pub const PYTHON_SET: Form = Form::of(
    "A set of Python packages. It needs `requirements`, `source` with `files`, or `release`.",
    &[&[
        Key::required("python", Kind::Text, "The version of Python.", "python = \"3.13\""),
        Key::required(
            "platform",
            Kind::Text,
            "The platform of the wheels, as uv names it.",
            "platform = \"x86_64-manylinux_2_40\"",
        ),
        Key::optional(
            "source",
            Kind::Text,
            "A source or archive pin whose files list requirements.",
            "none",
            "source = \"vllm\"",
        ),
        Key::optional(
            "files",
            Kind::Texts,
            "The files of `source` that list requirements.",
            "none",
            "files = [\"pyproject.toml\"]",
        ),
        Key::optional(
            "release",
            Kind::Text,
            "The release pin whose packages and index the lock uses.",
            "none",
            "release = \"rocm-wheels\"",
        ),
        Key::optional(
            "requirements",
            Kind::Texts,
            "Additional requirements (PEP 508).",
            "none",
            "requirements = [\"einops\", \"setuptools<81\"]",
        ),
        Key::optional(
            "provided",
            Kind::Texts,
            "Packages that the image already contains. The lock leaves them out.",
            "none",
            "provided = [\"torch\"]",
        ),
    ]],
);

/// `versions/locks/NAME.toml`.
pub const PACKAGE_LOCK: Form = Form::of(
    "A lock of Debian packages. You write `suite`, `architecture`, `from`, and each set's `on` and \
     `wanted`; `build-pipeline lock` writes the rest.",
    &[&[
        Key::schema(),
        Key::required("suite", Kind::Text, "The Debian release.", "suite = \"trixie\""),
        Key::required(
            "architecture",
            Kind::Text,
            "Debian's name for the architecture.",
            "architecture = \"amd64\"",
        ),
        Key::required(
            "checked",
            Kind::Date,
            "The date on which the packages were looked up.",
            "checked = 2026-11-20",
        ),
        Key::optional(
            "from",
            Kind::TextsByName,
            "Packages that come from another suite, by the name of that suite. Each is a package name, or `src:NAME` for all packages built from a source package.",
            "all packages come from `suite`",
            "from.experimental = [\"src:rocblas\"]",
        ),
        Key::optional(
            "index",
            Kind::TableByName(&SUITE_INDEX),
            "The signed indexes in which `lock` found the packages, by suite.",
            "none",
            "",
        ),
        Key::required(
            "set",
            Kind::TableByName(&PACKAGE_SET),
            "Sets of packages, by name. A root file system is made from the set `base`.",
            "set.base = { wanted = [\"?essential\", \"apt\"], packages = [] }",
        ),
    ]],
);

/// The index of a suite.
pub const SUITE_INDEX: Form = Form::of(
    "The signed index of a suite, `InRelease`. `build-pipeline lock` writes it.",
    &[&[
        Key::required(
            "date",
            Kind::Text,
            "When Debian created the index.",
            "date = \"2026-11-20T08:08:01Z\"",
        ),
        Key::optional(
            "valid-until",
            Kind::Text,
            "When the index expires.",
            "never",
            "valid-until = \"2026-11-27T08:08:01Z\"",
        ),
        Key::required("sha256", Kind::Text, "Its SHA-256.", ""),
    ]],
);

/// A set of Debian packages.
pub const PACKAGE_SET: Form = Form::of(
    "A set of Debian packages.",
    &[&[
        Key::optional(
            "on",
            Kind::Texts,
            "Sets that are installed before this one.",
            "none",
            "on = [\"base\"]",
        ),
        Key::required(
            "wanted",
            Kind::Texts,
            "The packages that you want, without their dependencies. `?essential` means all essential packages.",
            "wanted = [\"libvulkan1\"]",
        ),
        Key::required(
            "packages",
            Kind::Tables(&LOCKED_PACKAGE),
            "The packages that the set adds to the sets in `on`, with their hashes.",
            "packages = []",
        ),
    ]],
);

/// A package of a lock.
pub const LOCKED_PACKAGE: Form = Form::of(
    "A package.",
    &[&[
        Key::required("name", Kind::Text, "The name.", "name = \"apt\""),
        Key::required("version", Kind::Text, "The version.", "version = \"3.0.3\""),
        Key::required(
            "architecture",
            Kind::Text,
            "The architecture, or `all`.",
            "architecture = \"amd64\"",
        ),
        Key::required(
            "file",
            Kind::Text,
            "The path on a mirror.",
            "file = \"pool/main/a/apt/apt_3.0.3_amd64.deb\"",
        ),
        Key::required("size", Kind::Number, "The size in bytes.", "size = 1453228"),
        Key::required(
            "sha256",
            Kind::Text,
            "The SHA-256 of the file.",
            "sha256 = \"15c2030e0fb46580af4f1b4cc303f4bd26da781b004e99763bc9eff7cf8e19b8\"",
        ),
    ]],
);
