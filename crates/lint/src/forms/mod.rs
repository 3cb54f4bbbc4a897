//! The form of `versions/lint.toml`.

mod contents;
mod names;

use pins::form::{Form, Key, Kind};

pub use contents::{BUILD, CONTENTS, GONE, INDEX, MODULE, NEEDS, PROGRAM, PYTHON, RELEASE};
pub use names::{
    ADVICE_IN, BASE, DUPLICATES, EXCEPT_GPUS, GPU, KNOWN_NAMES, OLLAMA, PARTS, READER, SECTION,
};

/// `versions/lint.toml`.
pub const LINT: Form = Form::of(
    "The data of `lint`: its rules, and the facts about versions, images, variables and words that they \
     use. The file is compiled into the program; a project does not have one. A release range is \
     written as in compat.toml.",
    &[&[
        Key::schema(),
        Key::optional("rule", Kind::TableByName(&RULE), "The rules.", "none", ""),
        Key::optional(
            "rocm",
            Kind::TableByName(&ROCM),
            "ROCm releases that cause problems.",
            "none",
            "",
        ),
        Key::optional(
            "never",
            Kind::TableByName(&NEVER),
            "Releases that never existed.",
            "none",
            "",
        ),
        Key::optional(
            "extra",
            Kind::TableByName(&EXTRA),
            "Extras that Python packages no longer have.",
            "none",
            "",
        ),
        Key::optional(
            "wheel",
            Kind::TableByName(&WHEEL),
            "Releases whose wheels exist only for one version of Python.",
            "none",
            "",
        ),
        Key::optional(
            "image",
            Kind::TableByName(&IMAGE),
            "Container images that cause problems.",
            "none",
            "",
        ),
        Key::optional(
            "container",
            Kind::TableByName(&CONTAINER),
            "Container options that cause problems.",
            "none",
            "",
        ),
        Key::optional(
            "override",
            Kind::TableByName(&OVERRIDE),
            "Values of HSA_OVERRIDE_GFX_VERSION that cause problems.",
            "none",
            "",
        ),
        Key::optional(
            "variable",
            Kind::TableByName(&VARIABLE),
            "Environment variables that cause problems.",
            "none",
            "",
        ),
        Key::optional(
            "ollama",
            Kind::TableByName(&OLLAMA),
            "Variables that look like Ollama's: those in `never` never existed, those in `other` are read by other programs or old releases, and those in `settings` are mistaken for settings of its server.",
            "none",
            "",
        ),
        Key::optional(
            "known",
            Kind::TableByName(&KNOWN_NAMES),
            "Variables that programs read; a very similar name is reported as a mistake.",
            "none",
            "",
        ),
        Key::optional(
            "reader",
            Kind::TableByName(&READER),
            "Complete lists of variables and build options that programs read.",
            "none",
            "",
        ),
        Key::optional("quadlet", Kind::TableByName(&SECTION), "The keys of quadlets.", "none", ""),
        Key::optional(
            "section",
            Kind::TableByName(&SECTION),
            "The keys of systemd units, and of the services of compose files.",
            "none",
            "",
        ),
        Key::optional(
            "base",
            Kind::TableByName(&BASE),
            "Lists of images: those in `plain` set no variables of their own, those in `official` are Docker Official Images, those in `publishers` are owners on Docker Hub that keep the tags of releases, those in `externally-managed` are patterns of images whose Python refuses pip, those in `uid-1000` are patterns of images with a user of that UID, those in `without-lists` are patterns of images without apt's package lists, and those in `without-render` are patterns of images without the group `render`.",
            "none",
            "",
        ),
        Key::optional(
            "contents",
            Kind::TableByName(&CONTENTS),
            "Programs that images lack.",
            "none",
            "",
        ),
        Key::optional(
            "program",
            Kind::TableByName(&PROGRAM),
            "The apt packages that provide a program; those in `none` provide none of these programs.",
            "none",
            "",
        ),
        Key::optional(
            "gone",
            Kind::TableByName(&GONE),
            "Packages that some releases of distributions do not have.",
            "none",
            "",
        ),
        Key::optional(
            "needs",
            Kind::TableByName(&NEEDS),
            "Python packages that need programs or libraries of the system.",
            "none",
            "",
        ),
        Key::optional("build", Kind::TableByName(&BUILD), "What builds need.", "none", ""),
        Key::optional("python", Kind::TableByName(&PYTHON), "Pythons of packages.", "none", ""),
        Key::optional(
            "module",
            Kind::TableByName(&MODULE),
            "Python packages that contain the same module.",
            "none",
            "",
        ),
        Key::optional(
            "index",
            Kind::TableByName(&INDEX),
            "PyTorch's indexes for ROCm.",
            "none",
            "",
        ),
        Key::optional(
            "release",
            Kind::TableByName(&RELEASE),
            "Releases of distributions.",
            "none",
            "",
        ),
        Key::optional(
            "coupling",
            Kind::TableByName(&COUPLING),
            "torch releases and the packages built for them, in addition to those in compat.toml.",
            "none",
            "",
        ),
        Key::optional(
            "gpu",
            Kind::TableByName(&GPU),
            "Words that show which GPU a file targets, by target.",
            "none",
            "gpu.gfx1151 = { words = [\"strix halo\"] }",
        ),
        Key::optional(
            "word",
            Kind::TableByName(&WORD),
            "Words in a line that are a problem.",
            "none",
            "",
        ),
    ]],
);

/// The source of a rule.
const EVIDENCE_OF_RULE: &[Key] = &[
    Key::required("source", Kind::Text, DOCUMENT, SOURCE),
    Key::required("known", Kind::Text, HOW, KNOWN),
    Key::required("checked", Kind::Date, WHEN, CHECKED),
];

/// The source of a row. The reader wants all three keys or none.
const EVIDENCE: &[Key] = &[
    Key::optional("source", Kind::Text, DOCUMENT, OF_RULE, SOURCE),
    Key::optional("known", Kind::Text, HOW, OF_RULE, KNOWN),
    Key::optional("checked", Kind::Date, WHEN, OF_RULE, CHECKED),
];

const OF_RULE: &str =
    "the value of the rule; with one of `source`, `known` and `checked`, a row needs all three";
const DOCUMENT: &str = "The document.";
const SOURCE: &str = "source = \"ROCm/TheRock#2991\"";
const HOW: &str = "How the fact is known: `vendor`, `maintainer`, `one source`, or a number of independent reports.";
const KNOWN: &str = "known = \"vendor\"";
const WHEN: &str = "The date on which the document was read.";
const CHECKED: &str = "checked = 2026-11-20";
const SEVERITIES: &[&str] = &["error", "warning", "information"];

const RULE_OF_ROW: Key = Key::required(
    "rule",
    Kind::Text,
    "The rule that reports the problem.",
    "rule = \"image-latest\"",
);
const SEVERITY_OF_ROW: Key = Key::optional(
    "severity",
    Kind::OneOf(SEVERITIES),
    "The severity.",
    "the value of the rule",
    "severity = \"warning\"",
);
const ADVICE_OF_ROW: Key = Key::optional(
    "advice",
    Kind::Text,
    "What to do.",
    "the advice of the rule",
    "advice = \"pin it\"",
);
const GPUS: Key = Key::optional(
    "gpus",
    Kind::Texts,
    "The GPU targets that the row applies to.",
    "all",
    "gpus = [\"gfx1151\"]",
);

/// The keys of a row about a problem.
const ROW: &[Key] = &[
    RULE_OF_ROW,
    Key::required("message", Kind::Text, "The message.", "message = \"the tag moves\""),
    SEVERITY_OF_ROW,
    ADVICE_OF_ROW,
    GPUS,
];

/// The keys of a row about a problem for which the rule's code writes the message.
const ROW_WITHOUT_MESSAGE: &[Key] = &[RULE_OF_ROW, SEVERITY_OF_ROW, ADVICE_OF_ROW, GPUS];

const PACKAGE: Key = Key::required("package", Kind::Text, "The package.", "package = \"torch\"");
const RELEASES: Key = Key::optional(
    "releases",
    Kind::Texts,
    "The releases.",
    "none",
    "releases = [\"7.2.1 to 7.2.4\"]",
);

/// A rule.
pub const RULE: Form = Form::of(
    "A rule. `build-pipeline explain RULE` prints it.",
    &[
        &[
            Key::optional(
                "catalogue",
                Kind::Texts,
                "The rule's numbers, `L1` to `L33`, in this project's original list of wrong advice.",
                "none",
                "catalogue = [\"L1\"]",
            ),
            Key::required(
                "severity",
                Kind::OneOf(SEVERITIES),
                "The severity of the rule's findings.",
                "severity = \"warning\"",
            ),
            Key::required("title", Kind::Text, "A short name.", "title = \"the tag moves\""),
            Key::required("fact", Kind::Text, "The reason.", "fact = \"A tag can be moved.\""),
            Key::required("advice", Kind::Text, "What to do.", "advice = \"pin the digest\""),
        ],
        ADVICE_IN,
        DUPLICATES,
        EVIDENCE_OF_RULE,
    ],
);

/// A row about ROCm.
pub const ROCM: Form = Form::of(
    "ROCm releases that cause problems.",
    &[
        &[
            RELEASES,
            Key::optional(
                "without-gpu",
                Kind::Flag,
                "Whether the row applies only to files that name no GPU.",
                "`false`",
                "without-gpu = true",
            ),
            Key::optional(
                "only-gpu",
                Kind::Flag,
                "Whether the row applies only to files that name no other GPUs.",
                "`false`",
                "only-gpu = true",
            ),
            Key::optional(
                "unless",
                Kind::Texts,
                "Texts, in lower case: the row does not apply to files that contain one of them.",
                "none",
                "unless = [\"tensile\"]",
            ),
        ],
        ROW_WITHOUT_MESSAGE,
        EVIDENCE,
    ],
);

/// A row about releases that never existed.
pub const NEVER: Form = Form::of(
    "Releases that never existed.",
    &[
        &[
            PACKAGE,
            RELEASES,
            Key::optional(
                "exact",
                Kind::Texts,
                "Exact versions, with local parts.",
                "none",
                "exact = [\"2.5.0+rocm6.3\"]",
            ),
            Key::required("help", Kind::Text, "What to use.", "help = \"the nearest is v0.10.2\""),
        ],
        EVIDENCE,
    ],
);

/// A row about extras.
pub const EXTRA: Form = Form::of(
    "Extras that do not exist in some releases of a package.",
    &[
        &[
            PACKAGE,
            Key::optional("extras", Kind::Texts, "The extras.", "none", "extras = [\"cli\"]"),
            RELEASES,
            Key::optional(
                "unless",
                Kind::Texts,
                "Other packages, each with the releases that require an older release of this package.",
                "none",
                "unless = [\"transformers 4 or older\"]",
            ),
        ],
        ROW_WITHOUT_MESSAGE,
        EVIDENCE,
    ],
);

/// A row about wheels.
pub const WHEEL: Form = Form::of(
    "Releases whose wheels exist only for one version of Python.",
    &[
        &[
            PACKAGE,
            RELEASES,
            Key::required("python", Kind::Text, "The version of Python.", "python = \"3.12\""),
        ],
        ROW_WITHOUT_MESSAGE,
        EVIDENCE,
    ],
);

/// A row about images.
pub const IMAGE: Form = Form::of(
    "Container images that cause problems.",
    &[
        &[
            Key::optional(
                "repositories",
                Kind::Texts,
                "The repositories.",
                "all",
                "repositories = [\"rocm/vllm-dev\"]",
            ),
            Key::optional(
                "tags",
                Kind::Texts,
                "Patterns of tags. An image without a tag has the empty tag.",
                "all",
                "tags = [\"latest\", \"\"]",
            ),
            Key::optional(
                "except",
                Kind::Texts,
                "Patterns of tags that are not a problem.",
                "none",
                "except = [\"v*\"]",
            ),
            Key::optional(
                "option",
                Kind::Text,
                "A pattern of an option of `podman run`: the row applies only to containers that have such an option.",
                "any",
                "option = \"--device=/dev/kfd*\"",
            ),
            Key::optional(
                "except-option",
                Kind::Text,
                "A pattern of an option of `podman run`: the row does not apply to containers that have such an option.",
                "none",
                "except-option = \"--env=OLLAMA_VULKAN=*\"",
            ),
            Key::optional(
                "variables",
                Kind::Texts,
                "Patterns of variables: the row applies only to stages of Dockerfiles that set a matching variable.",
                "any",
                "variables = [\"ROCR_VISIBLE_DEVICES\"]",
            ),
            Key::optional(
                "old-rocm",
                Kind::Texts,
                "The row applies only if the stage installs one of these ROCm releases from AMD.",
                "any",
                "old-rocm = [\"7.1 or older\"]",
            ),
            Key::optional(
                "commands",
                Kind::Texts,
                "Patterns of commands: the row applies only to stages that run a matching command for each pattern.",
                "any",
                "commands = [\"cmake *\"]",
            ),
            Key::optional(
                "except-commands",
                Kind::Texts,
                "Patterns of commands: the row does not apply to stages that run a matching command.",
                "none",
                "except-commands = [\"git *checkout *\"]",
            ),
        ],
        ROW,
        EVIDENCE,
    ],
);

/// A row about options of containers.
pub const CONTAINER: Form = Form::of(
    "Container options that cause problems, as patterns of `podman run` options with their values. The \
     keys of compose files and quadlets are converted to these options.",
    &[
        &[
            Key::optional(
                "options",
                Kind::Texts,
                "The options.",
                "none",
                "options = [\"--shm-size=*\"]",
            ),
            Key::optional(
                "except",
                Kind::Texts,
                "Options that are not a problem.",
                "none",
                "except = [\"--device=/dev/*\"]",
            ),
            Key::optional(
                "needs",
                Kind::Texts,
                "Options: the row applies only to containers that also have one of them.",
                "any",
                "needs = [\"--ipc=host\"]",
            ),
            Key::optional(
                "unless",
                Kind::Texts,
                "Options: the row does not apply to containers that have one of them.",
                "none",
                "unless = [\"--privileged\"]",
            ),
            Key::optional("images", Kind::Texts, "The images.", "all", "images = [\"*rocm*\"]"),
            Key::optional(
                "except-images",
                Kind::Texts,
                "Images for which the option is harmless.",
                "none",
                "except-images = [\"*vulkan*\"]",
            ),
        ],
        ROW,
        EVIDENCE,
    ],
);

/// A row about overrides.
pub const OVERRIDE: Form = Form::of(
    "Values of HSA_OVERRIDE_GFX_VERSION that cause problems.",
    &[
        &[Key::optional("values", Kind::Texts, "The values.", "all", "values = [\"11.0.0\"]")],
        ROW,
        EVIDENCE,
    ],
);

/// A row about variables.
pub const VARIABLE: Form = Form::of(
    "Environment variables that cause problems.",
    &[
        &[
            Key::optional(
                "names",
                Kind::Texts,
                "The variables.",
                "none",
                "names = [\"VLLM_USE_V1\"]",
            ),
            Key::optional(
                "values",
                Kind::Texts,
                "The values; `on` means any value except `0`, `false`, `off`, `no` and the empty string.",
                "all",
                "values = [\"on\"]",
            ),
            Key::optional(
                "except",
                Kind::Texts,
                "Patterns of values that are not a problem.",
                "none",
                "except = [\"*lib/llvm*\"]",
            ),
            EXCEPT_GPUS,
            Key::optional(
                "rocm",
                Kind::Texts,
                "ROCm releases: the row applies only to files that name one of them.",
                "any",
                "rocm = [\"6 or older\"]",
            ),
            Key::optional(
                "only-known",
                Kind::Flag,
                "Whether the row applies only if a release of the package is known.",
                "`false`",
                "only-known = true",
            ),
            Key::optional(
                "except-rocm",
                Kind::Texts,
                "ROCm releases: the row does not apply to a file that names one of them.",
                "none",
                "except-rocm = [\"6.2 or older\"]",
            ),
            Key::required(
                "where",
                Kind::OneOf(&["any", "set", "kept", "run", "image", "file", "start"]),
                "Which settings the row applies to: any, even one only for the build (`any`); one that a program can see (`set`); one for every run (`kept`); one in a service or container (`run`); one in an image (`image`); a line of an environment file or of a file that a script writes (`file`); or an `export` in a script that only starts programs that use the GPU (`start`).",
                "where = \"kept\"",
            ),
            Key::optional(
                "unless",
                Kind::Texts,
                "Variables, or variables with values: the row does not apply to files that set one of them. `NAME==0` is a package whose release starts with 0.",
                "none",
                "unless = [\"PYTORCH_TUNABLEOP_TUNING=0\"]",
            ),
            Key::optional(
                "beside",
                Kind::Texts,
                "Variables: the row applies only to files that also set one of them.",
                "any",
                "beside = [\"HIP_VISIBLE_DEVICES\"]",
            ),
            Key::optional(
                "package",
                Kind::Text,
                "The package that reads the variable. If the image's tag contains the package's release, the row applies only if `releases` contains that release.",
                "none",
                "package = \"vllm\"",
            ),
            RELEASES,
        ],
        ROW,
        EVIDENCE,
    ],
);

/// Releases of torch with other packages.
pub const COUPLING: Form = Form::of(
    "torch releases and the packages built for them.",
    &[&[
        RELEASES,
        Key::optional(
            "torchvision",
            Kind::Text,
            "The releases of torchvision.",
            "any",
            "torchvision = \"0.23\"",
        ),
        Key::optional(
            "torchaudio",
            Kind::Text,
            "The releases of torchaudio.",
            "any",
            "torchaudio = \"2.8\"",
        ),
    ]],
);

/// A row about words.
pub const WORD: Form = Form::of(
    "Words in a line that are a problem.",
    &[
        &[
            Key::required(
                "pattern",
                Kind::Text,
                "A regular expression, in lower case.",
                "pattern = 'apt-key add'",
            ),
            Key::optional(
                "except",
                Kind::Text,
                "A regular expression, in lower case: the row does not apply to lines or \
                 commands that match it.",
                "none",
                "except = '--yes'",
            ),
            Key::optional(
                "commands",
                Kind::Flag,
                "Whether the pattern is compared with whole commands, with their words on one line and known variables replaced.",
                "`false`",
                "commands = true",
            ),
            Key::optional(
                "comments",
                Kind::Flag,
                "Whether the pattern also applies to comments.",
                "`false`",
                "comments = true",
            ),
            Key::optional(
                "denied",
                Kind::Flag,
                "Whether to skip matching lines that seem to advise against the problem: those with `not`, `never`, `avoid` or a similar word.",
                "`false`",
                "denied = true",
            ),
            Key::optional(
                "needs",
                Kind::Texts,
                "Texts, in lower case: the row applies only to files that contain one of them.",
                "none",
                "needs = [\"rocm\"]",
            ),
            Key::optional(
                "unless",
                Kind::Texts,
                "Texts, in lower case: the row does not apply to files that contain one of them.",
                "none",
                "unless = [\".tar.zst\"]",
            ),
            Key::optional(
                "files",
                Kind::OneOf(&["text", "code", "dockerfile"]),
                "Only in files of this kind.",
                "all files",
                "files = \"code\"",
            ),
            Key::optional(
                "without-gpu",
                Kind::Flag,
                "Whether a row with `gpus` also applies to files that name no GPU.",
                "`false`",
                "without-gpu = true",
            ),
            EXCEPT_GPUS,
        ],
        ROW,
        EVIDENCE,
    ],
);
