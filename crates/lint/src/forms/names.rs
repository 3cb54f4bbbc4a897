//! The forms of lists of names, and the keys that decide which findings are duplicates.

use pins::form::{Form, Key, Kind};

use super::EVIDENCE;

/// The parts of a file for which one finding can be enough.
pub const PARTS: &[&str] = &["line", "kind", "file"];

/// The keys of a rule that decide which of its findings are one defect.
pub const DUPLICATES: &[Key] = &[
    Key::optional(
        "once",
        Kind::OneOf(PARTS),
        "What one finding of the rule is enough for: `file`, or `kind`, all messages that differ only \
         in names and addresses; `line` is the same, and also means that the worst finding of a line \
         is enough. The finding names the other lines.",
        "one finding for each message",
        "once = \"file\"",
    ),
    Key::optional(
        "except-tests",
        Kind::Flag,
        "Whether the rule does not apply to scripts and lists in folders with tests, which may use \
         what is newest.",
        "`false`",
        "except-tests = true",
    ),
    Key::optional(
        "yields-to",
        Kind::Texts,
        "Patterns of other rules. If one of them reports the same line, this rule does not.",
        "none",
        "yields-to = [\"image-*\"]",
    ),
];

/// The GPUs that a row does not apply to.
pub const EXCEPT_GPUS: Key = Key::optional(
    "except-gpus",
    Kind::Texts,
    "GPU targets on which this is harmless.",
    "none",
    "except-gpus = [\"gfx803\"]",
);

/// What to do in files of some kinds, which have other words for the options of `docker run`.
pub const ADVICE_IN: &[Key] = &[
    Key::optional(
        "advice-compose",
        Kind::Text,
        "What to do in compose files.",
        "`advice`",
        "advice-compose = \"use `shm_size`\"",
    ),
    Key::optional(
        "advice-manifest",
        Kind::Text,
        "What to do in Kubernetes manifests.",
        "`advice`",
        "advice-manifest = \"mount an `emptyDir`\"",
    ),
    Key::optional(
        "advice-quadlet",
        Kind::Text,
        "What to do in quadlets.",
        "`advice`",
        "advice-quadlet = \"write `ShmSize=16g`\"",
    ),
    Key::optional(
        "advice-script",
        Kind::Text,
        "What to do in shell scripts.",
        "`advice`",
        "advice-script = \"write `export`\"",
    ),
];

/// Variables that programs read.
pub const KNOWN_NAMES: Form = Form::of(
    "Variables that programs read.",
    &[
        &[Key::optional(
            "names",
            Kind::Texts,
            "The variables.",
            "none",
            "names = [\"HSA_ENABLE_SDMA\"]",
        )],
        EVIDENCE,
    ],
);

/// A complete list of names.
pub const READER: Form = Form::of(
    "All variables or build options of a program that start with some prefixes. A name that starts with \
     one of them, and is not in the list, is reported.",
    &[
        &[
            Key::required("program", Kind::Text, "The program.", "program = \"ROCm\""),
            Key::optional(
                "names",
                Kind::Texts,
                "The names, in all releases.",
                "none",
                "names = [\"HSA_ENABLE_SDMA\"]",
            ),
            Key::optional(
                "prefixes",
                Kind::Texts,
                "The prefixes.",
                "none",
                "prefixes = [\"HSA_\"]",
            ),
            Key::optional(
                "except",
                Kind::Texts,
                "Patterns of names that are not reported.",
                "none",
                "except = [\"HSA_TOOLS_*\"]",
            ),
            Key::optional(
                "options",
                Kind::Flag,
                "Whether the names are options for CMake.",
                "`false`",
                "options = true",
            ),
            Key::optional(
                "needs",
                Kind::Texts,
                "Texts, in lower case: the row applies only to files that contain one of them.",
                "none",
                "needs = [\"ggml-org/llama.cpp\"]",
            ),
            Key::optional(
                "unless",
                Kind::Texts,
                "Texts, in lower case: the row does not apply to files that contain one of them.",
                "none",
                "unless = [\".patch\"]",
            ),
            Key::optional(
                "until",
                Kind::Text,
                "The month of the newest source that was read; shown in messages.",
                "nothing is shown",
                "until = \"June 2026\"",
            ),
        ],
        EVIDENCE,
    ],
);

/// The keys of a section.
pub const SECTION: Form = Form::of(
    "The keys that a section can have.",
    &[&[
        Key::required("section", Kind::Text, "The section.", "section = \"Container\""),
        Key::optional("keys", Kind::Texts, "The keys.", "none", "keys = [\"AddDevice\"]"),
        Key::optional(
            "texts",
            Kind::Texts,
            "Those whose values are text.",
            "none",
            "texts = [\"restart\"]",
        ),
        Key::optional(
            "lists",
            Kind::Texts,
            "Those whose values are lists.",
            "none",
            "lists = [\"ports\"]",
        ),
        Key::optional(
            "numbers",
            Kind::Texts,
            "Those whose values are numbers.",
            "none",
            "numbers = [\"cpus\"]",
        ),
        Key::optional(
            "booleans",
            Kind::Texts,
            "Those that are true or false.",
            "none",
            "booleans = [\"tty\"]",
        ),
        Key::optional(
            "durations",
            Kind::Texts,
            "Those with a time, such as `30s`.",
            "none",
            "durations = [\"interval\"]",
        ),
        Key::optional(
            "sizes",
            Kind::Texts,
            "Those with a size, such as `8g`.",
            "none",
            "sizes = [\"shm_size\"]",
        ),
        Key::optional(
            "choices",
            Kind::Texts,
            "A key and the values that it can have; `*` at the end of a value stands for any text.",
            "none",
            "choices = [\"cgroup host private\"]",
        ),
    ]],
);

/// Names that look like variables of Ollama.
pub const OLLAMA: Form = Form::of(
    "Names that look like variables of Ollama.",
    &[&[
        Key::optional("names", Kind::Texts, "The names.", "none", "names = [\"OLLAMA_TMPDIR\"]"),
        Key::optional("help", Kind::Text, "What to do.", "none", "help = \"remove it\""),
    ]],
);

/// A list of images.
pub const BASE: Form = Form::of(
    "A list of images.",
    &[&[Key::optional(
        "repositories",
        Kind::Texts,
        "The repositories.",
        "none",
        "repositories = [\"debian\"]",
    )]],
);

/// Words about a GPU.
pub const GPU: Form = Form::of(
    "Words that show that a file targets this GPU.",
    &[&[Key::optional(
        "words",
        Kind::Texts,
        "The words, in lower case.",
        "none",
        "words = [\"strix halo\"]",
    )]],
);
