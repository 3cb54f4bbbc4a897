//! The formats of the files under `versions/` that this crate reads.

use pins::form::{Form, Key, Kind, REMOVE};
use pins::forms::CHECKED;

/// `versions/run.toml`.
pub const RUN: Form = Form {
    about: "What a container of each track needs to run, and how it is smoke-tested. `run`, `smoke` \
            and `run --print` use this file; nothing in it goes into an image.",
    keys: &[&[Key::schema()]],
    named: Some(("the name of a track", &ROW)),
};

/// The row of a track.
pub const ROW: Form = Form::of(
    "What a container of a track needs. A track without a row uses the row of the track that it is \
     based on.",
    &[&[
        Key::required(
            "gpu",
            Kind::OneOf(&["rocm", "vulkan"]),
            "How the container reaches the GPU: `rocm` needs /dev/kfd and /dev/dri, `vulkan` only /dev/dri.",
            "gpu = \"rocm\"",
        ),
        Key::optional(
            "program",
            Kind::Text,
            "The program in the image. The container gets only the variables that it reads, and `run` warns about what it cannot do on a GPU.",
            "not known",
            "program = \"vllm\"",
        ),
        Key::optional(
            "port",
            Kind::Number,
            "The port that the container serves on.",
            "the container serves on no port",
            "port = 8000",
        ),
        Key::optional(
            "shared-memory",
            Kind::Number,
            "The size of /dev/shm in GiB.",
            "the engine's default",
            "shared-memory = 16",
        ),
        Key::required(
            "models",
            Kind::Text,
            "The host's folder with models; `~` is your home.",
            "models = \"~/.cache/huggingface\"",
        ),
        Key::required(
            "models-at",
            Kind::Text,
            "The path of that folder in the container; `~` is the home there, /home/run.",
            "models-at = \"~/.cache/huggingface\"",
        ),
        Key::optional(
            "work",
            Kind::Flag,
            "Whether the current folder becomes the container's working directory, /work.",
            "`false`",
            "work = true",
        ),
        Key::optional(
            "smoke",
            Kind::Table(&SMOKE),
            "The levels of the track's smoke test.",
            "the track cannot be smoke-tested",
            "smoke.import = { script = \"vllm-import.py\", expect = '^vllm [0-9]' }",
        ),
    ]],
);

/// The levels of a smoke test.
pub const SMOKE: Form = Form::of(
    "The levels of a smoke test, from the lowest to the highest.",
    &[&[
        Key::optional(
            "import",
            Kind::Table(&TRIAL),
            "The image's programs start.",
            "not tested",
            "",
        ),
        Key::optional(
            "device",
            Kind::Table(&TRIAL),
            "The programs find the GPU.",
            "not tested",
            "",
        ),
        Key::optional(
            "compute",
            Kind::Table(&TRIAL),
            "The programs compute on the GPU, with correct results.",
            "not tested",
            "",
        ),
        Key::optional(
            "serve",
            Kind::Table(&TRIAL),
            "The server returns a token.",
            "not tested",
            "",
        ),
    ]],
);

/// A level of a smoke test.
pub const TRIAL: Form = Form::of(
    "A level of a smoke test: a script that runs in the container.",
    &[&[
        Key::required(
            "script",
            Kind::Text,
            "A file in versions/smoke. python3 runs `.py`, bash `.bash`, and sh everything else.",
            "script = \"torch-device.py\"",
        ),
        Key::optional(
            "needs",
            Kind::OneOf(&["gpu", "any-gpu"]),
            "What the level needs; `any-gpu` accepts a software device.",
            "nothing",
            "needs = \"gpu\"",
        ),
        Key::optional(
            "model",
            Kind::Flag,
            "Whether the level needs a model, which `--model` specifies.",
            "`false`",
            "model = true",
        ),
        Key::required(
            "expect",
            Kind::Text,
            "A regular expression that the script's output must match, because a program that \
             falls back to the CPU also exits with 0.",
            "expect = '^device 0:'",
        ),
        Key::optional(
            "software",
            Kind::Text,
            "A regular expression that matches if the script ran on a software device.",
            "there is none",
            "software = 'llvmpipe'",
        ),
    ]],
);

/// `versions/failures.toml`.
pub const FAILURES: Form = Form::of(
    "Known failures of programs on AMD GPUs, with causes and fixes. `diagnose`, `smoke`, `run` and \
     failed builds use this file. Patterns are regular expressions of Rust's crate `regex`; each \
     matches within one line.",
    &[&[
        Key::schema(),
        REMOVE,
        Key::optional(
            "about",
            Kind::TableByName(&SUBJECT),
            "Subjects: the software or hardware that a log can come from, such as a GPU or ROCm.",
            "none",
            "about.strix-halo = { signs = ['gfx1151'] }",
        ),
        Key::optional(
            "mentions",
            Kind::Texts,
            "Patterns of lines that only mention a failure, such as source code in a compiler's message. Such a line shows no failure.",
            "none",
            "mentions = ['-> cudaError']",
        ),
        Key::optional(
            "unknown-names",
            Kind::Texts,
            "Patterns of lines that say that a name is unknown, so that nothing returned the error with that name. Such a line shows no failure, but can state an error.",
            "none",
            "unknown-names = ['NameError: name .hipError']",
        ),
        Key::optional(
            "errors",
            Kind::Texts,
            "Patterns of lines that state an error. If a log shows no known failure, or only unclear ones, the first and the last such line (before the failure) are shown.",
            "none",
            "errors = ['Error: ']",
        ),
        Key::optional(
            "follow-ups",
            Kind::Texts,
            "Patterns of lines that state an error that only follows from another one. They are shown only if no other line states an error.",
            "none",
            "follow-ups = ['failed to solve:']",
        ),
        Key::optional("failure", Kind::TableByName(&FAILURE), "The failures.", "none", ""),
        Key::optional(
            "mild",
            Kind::Texts,
            "Patterns of lines that say that they state no failure, such as warnings. No assessment uses them.",
            "none",
            "mild = ['^WARNING: ']",
        ),
        Key::optional(
            "loud",
            Kind::Texts,
            "Patterns of lines that state a failure, although they match `mild`.",
            "none",
            "loud = ['NCCL WARN']",
        ),
        Key::optional(
            "goes-on",
            Kind::Texts,
            "Patterns of lines that show that the program works. An assessment uses only lines after the last of them.",
            "none",
            "goes-on = ['Application startup complete']",
        ),
        Key::optional(
            "overcome",
            Kind::Texts,
            "Patterns of lines that show that a program overcomes a failure: it tries again, or continues without what failed. No assessment uses the 6 lines before them.",
            "none",
            "overcome = ['retrying without']",
        ),
        Key::optional(
            "probes",
            Kind::Texts,
            "Patterns of lines that show that a program only tries whether something works. No assessment uses them, the 10 lines after them and the 2 before.",
            "none",
            "probes = ['Performing Test ']",
        ),
        Key::optional(
            "kind",
            Kind::TableByName(&FAILURE_KIND),
            "Kinds of failures. If a log shows no known failure, or only unclear ones, the assessment says which kind it shows, and which component failed.",
            "none",
            "",
        ),
        Key::optional(
            "component",
            Kind::TableByName(&COMPONENT),
            "Software and hardware that can fail.",
            "none",
            "",
        ),
    ]],
);

/// A subject.
pub const SUBJECT: Form = Form::of(
    "A subject: the software or hardware that a log comes from.",
    &[&[
        Key::required(
            "signs",
            Kind::Texts,
            "Patterns that show that a log comes from the subject.",
            "signs = ['gfx1151', 'Strix Halo']",
        ),
        Key::optional(
            "against",
            Kind::Texts,
            "Patterns that show that a log comes from something else.",
            "none",
            "against = ['NVIDIA GeForce']",
        ),
        Key::optional(
            "advice",
            Kind::Texts,
            "Prefixes of the lines of `fix` and `reasons` that apply only to such logs. They are left out unless one of `signs` matches or, if there is an `against`, none of its patterns matches.",
            "none",
            "advice = ['Strix Halo:']",
        ),
        Key::optional(
            "unsure",
            Kind::Text,
            "What replaces such a prefix if the log does not show whether it comes from the subject.",
            "the prefix",
            "unsure = \"if the GPU is a Strix Halo:\"",
        ),
        Key::optional(
            "first",
            Kind::Flag,
            "Whether such lines of `fix` come first if the log is certainly from the subject. The order stays if a line starts with `or`, since it continues another one.",
            "`false`",
            "first = true",
        ),
        Key::optional(
            "windows",
            Kind::Flag,
            "Whether such logs are from Windows: `export NAME=VALUE` is shown as `set NAME=VALUE`.",
            "`false`",
            "windows = true",
        ),
    ]],
);

/// A failure.
pub const FAILURE: Form = Form::of(
    "A known failure. It has either `any` or `all`.",
    &[&[
        Key::optional(
            "any",
            Kind::Texts,
            "Patterns, at least one of which must match.",
            "required unless `all` is given",
            "any = ['Memory access fault by GPU node-[0-9]+']",
        ),
        Key::optional(
            "all",
            Kind::Texts,
            "Patterns that must all match.",
            "required unless `any` is given",
            "all = ['SIGSEGV', 'rocm7\\.1']",
        ),
        Key::optional(
            "within",
            Kind::Number,
            "How many lines apart the matches may be, including those of `unless`.",
            "`30`",
            "within = 60",
        ),
        Key::optional(
            "unless",
            Kind::Texts,
            "Patterns that rule the failure out.",
            "none",
            "unless = ['InitDma']",
        ),
        Key::optional(
            "details",
            Kind::Texts,
            "Patterns of lines that tell more about the failure, such as the name of a process. The last two before the failure or, if there are fewer, the first ones after it are shown too, if they are at most 200 lines from it.",
            "none",
            "details = ['Kernel Name: ']",
        ),
        Key::optional(
            "about",
            Kind::Text,
            "The name of an `[about.NAME]` table. The failure is reported only if the log shows a sign of that subject.",
            "any",
            "about = \"strix-halo\"",
        ),
        Key::optional(
            "harmless",
            Kind::Flag,
            "Whether the program continues normally after the message.",
            "`false`",
            "harmless = true",
        ),
        Key::optional(
            "unclear",
            Kind::Flag,
            "Whether the messages do not identify a definite cause. The failure is reported only if no other failure is at most `within` lines, and at most ten minutes, from it. Of two such failures, the first is reported.",
            "`false`",
            "unclear = true",
        ),
        Key::optional(
            "presumed",
            Kind::Flag,
            "Whether the failure is also certain if the log shows neither a sign of the subject of `about` nor anything `against` it. Otherwise, it is reported as possible.",
            "`false`",
            "presumed = true",
        ),
        Key::optional(
            "follows",
            Kind::Texts,
            "The names of failures of which this one is a consequence: it is left out if one of them comes at most `within` lines before it.",
            "none",
            "follows = ['page-fault-in-kernel-log']",
        ),
        Key::required(
            "cause",
            Kind::Text,
            "What happened.",
            "cause = \"the GPU read unmapped memory\"",
        ),
        Key::optional(
            "reasons",
            Kind::Texts,
            "Sentences that continue `cause`. `advice` of a subject leaves out those for other logs.",
            "none",
            "reasons = ['Strix Halo: the firmware is faulty']",
        ),
        Key::required(
            "fix",
            Kind::Texts,
            "What to do: commands or sentences.",
            "fix = [\"use ROCm 7.2.1 or newer\"]",
        ),
        Key::required(
            "known",
            Kind::Text,
            "How the fact is known: `vendor`, `maintainer`, `one source`, or a number of independent reports.",
            "known = \"3 reports\"",
        ),
        Key::required("evidence", Kind::Text, "The source.", "evidence = \"ROCm/TheRock#5763\""),
        CHECKED,
    ]],
);

/// A kind of failure.
pub const FAILURE_KIND: Form = Form::of(
    "A kind of failure, such as a missing library. Of the lines that match, the first one of the strongest kind decides.",
    &[&[
        Key::required(
            "signs",
            Kind::Texts,
            "Patterns, one of which must match. A named group is what `{name}` in the texts stands for.",
            "signs = ['undefined symbol: (?P<name>[A-Za-z_0-9]+)']",
        ),
        Key::optional(
            "with",
            Kind::Texts,
            "Patterns of a line that is shown too: the one nearest to the line that decides.",
            "none",
            "with = ['generated when compiling for']",
        ),
        Key::optional(
            "unless",
            Kind::Texts,
            "Patterns, one of which the line or a frame of its trace contains if the failure is of another kind.",
            "none",
            "unless = ['ops_gpu']",
        ),
        Key::optional(
            "strength",
            Kind::OneOf(&["reason", "cause", "error", "general", "end"]),
            "How much it tells: exactly what is wrong (`reason`), what failed (`cause`), where (`error`), that something failed (`general`), or only how a program ended (`end`).",
            "`cause`",
            "strength = \"end\"",
        ),
        Key::required(
            "what",
            Kind::Text,
            "What the line says.",
            "what = \"a library lacks the symbol `{name}`\"",
        ),
        Key::optional(
            "fix",
            Kind::Texts,
            "What to do. A line with a `{name}` that the log does not say is left out, and so is one that starts with quotes and a colon, such as `MPI_`:, if the log's lines do not contain one of them.",
            "none",
            "fix = [\"install the release that the program was built for\"]",
        ),
        Key::optional(
            "advice",
            Kind::SomeOf(&["instead", "memory", "install", "more"]),
            "The texts of the component that are said too.",
            "none",
            "advice = [\"instead\"]",
        ),
        Key::optional(
            "about",
            Kind::Text,
            "The name of an `[about.NAME]` table. The kind is not for logs that show `against` and no sign of that subject.",
            "any",
            "about = \"rocm\"",
        ),
    ]],
);

/// A component.
pub const COMPONENT: Form = Form::of(
    "Software or hardware that can fail. The assessment names the component that the line that decides names or, if it names none, a line of the same message or the innermost frame of the trace.",
    &[&[
        Key::required(
            "signs",
            Kind::Texts,
            "Patterns of lines that name it.",
            "signs = ['/aiter/']",
        ),
        Key::required("title", Kind::Text, "Its name.", "title = \"AITER\""),
        Key::required("what", Kind::Text, "What it is.", "what = \"AMD's kernels for AI models\""),
        Key::optional(
            "gpus",
            Kind::Texts,
            "The beginnings of the names of the only GPUs that it is for. The assessment says if a log names only others.",
            "all",
            "gpus = [\"gfx942\"]",
        ),
        Key::optional(
            "instead",
            Kind::Texts,
            "How to turn it off, or what to use instead.",
            "none",
            "instead = [\"`VLLM_ROCM_USE_AITER=0` turns it off\"]",
        ),
        Key::optional(
            "memory",
            Kind::Texts,
            "How it needs less memory.",
            "none",
            "memory = [\"a smaller context: `-c 8192`\"]",
        ),
        Key::optional(
            "install",
            Kind::Texts,
            "How to install it.",
            "none",
            "install = [\"`pip install aiter`\"]",
        ),
        Key::optional(
            "more",
            Kind::Texts,
            "How to learn more.",
            "none",
            "more = [\"start it with `AMD_LOG_LEVEL=3`\"]",
        ),
        Key::optional(
            "report",
            Kind::Text,
            "Where to report failures.",
            "none",
            "report = \"https://github.com/ROCm/aiter/issues\"",
        ),
        Key::required("evidence", Kind::Text, "The source.", "evidence = \"ROCm/aiter\""),
        CHECKED,
        Key::optional(
            "caller",
            Kind::Flag,
            "Whether it usually only calls what fails. Another component near the line comes first.",
            "`false`",
            "caller = true",
        ),
        Key::optional(
            "program",
            Kind::Flag,
            "Whether people start it. It is named if no other component is near the line, and its advice is used for what the component says nothing about.",
            "`false`",
            "program = true",
        ),
    ]],
);
