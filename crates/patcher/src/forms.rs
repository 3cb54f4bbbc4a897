//! The format of patch files, `patches/COMPONENT/ID.toml`.

use pins::form::{Form, Key, Kind};

/// `patches/COMPONENT/ID.toml`.
pub const PATCH: Form = Form::of(
    "A patch: edits of the files of one component, each anchored by a regular expression that must \
     match exactly as many times as the patch states. `{gpu}` is replaced with the GPU target.",
    &[&[
        Key::schema(),
        Key::required(
            "id",
            Kind::Text,
            "The name, which is also the name of the file.",
            "id = \"vllm-arch-list\"",
        ),
        Key::required(
            "component",
            Kind::Text,
            "The component, which is also the name of the folder.",
            "component = \"vllm\"",
        ),
        Key::required("provenance", Kind::Table(&PROVENANCE), "Where the patch comes from.", ""),
        Key::required(
            "applies",
            Kind::Table(&APPLIES),
            "The versions and GPU targets that the patch applies to.",
            "applies = { versions = \"*\" }",
        ),
        Key::required("edit", Kind::Tables(&EDIT), "The edits.", ""),
        Key::optional(
            "assert",
            Kind::Tables(&ASSERT),
            "Conditions that the patched files must meet.",
            "none",
            "assert = [{ files = [\"CMakeLists.txt\"], matches = 'gfx1151' }]",
        ),
        Key::optional(
            "probe",
            Kind::Tables(&PROBE),
            "Checks that run a program on the patched files.",
            "none",
            "",
        ),
        Key::optional(
            "relations",
            Kind::Table(&RELATIONS),
            "How the patch relates to other patches.",
            "none",
            "relations = { requires = [\"vllm-arch-list\"] }",
        ),
        Key::optional(
            "test",
            Kind::Tables(&TEST),
            "Tests of the patch on small files.",
            "none",
            "",
        ),
    ]],
);

/// Where a patch comes from.
pub const PROVENANCE: Form = Form::of(
    "Where a patch comes from, after Debian's DEP-3.",
    &[&[
        Key::required(
            "description",
            Kind::Text,
            "What the patch does and why.",
            "description = \"Adds the target to the list.\"",
        ),
        Key::required(
            "author",
            Kind::Text,
            "Who wrote the patch.",
            "author = \"build-pipeline maintainers\"",
        ),
        Key::required(
            "origin",
            Kind::Text,
            "`upstream`, `backport`, `vendor` or `other`, followed by a comma and the place.",
            "origin = \"other\"",
        ),
        Key::optional(
            "bug",
            Kind::Text,
            "A report of the problem.",
            "none",
            "bug = \"https://github.com/vllm-project/vllm/issues/1\"",
        ),
        Key::required(
            "forwarded",
            Kind::Text,
            "Where the patch was sent upstream, or `no` or `not-needed`.",
            "forwarded = \"not-needed\"",
        ),
        Key::optional(
            "applied_upstream",
            Kind::Text,
            "The upstream version or commit that includes the change.",
            "nowhere",
            "applied_upstream = \"0.11.1\"",
        ),
        Key::required(
            "last_update",
            Kind::Date,
            "The date of the last change.",
            "last_update = 2026-11-21",
        ),
        Key::optional(
            "limits",
            Kind::Text,
            "What the patch does not do.",
            "not stated",
            "limits = \"only for one GPU\"",
        ),
    ]],
);

/// The versions and GPU targets that a patch applies to.
pub const APPLIES: Form = Form::of(
    "The versions and GPU targets that a patch applies to.",
    &[&[
        Key::required(
            "versions",
            Kind::Text,
            "The versions of the component, or `*`.",
            "versions = \">=0.9.0, <0.11.1\"",
        ),
        Key::optional(
            "below",
            Kind::Table(&OUTSIDE),
            "What to do with older versions. Required if the range has a lower bound.",
            "the range has no lower bound",
            "below = { then = \"refuse\", because = \"never tried\" }",
        ),
        Key::optional(
            "above",
            Kind::Table(&OUTSIDE),
            "What to do with newer versions. Required if the range has an upper bound.",
            "the range has no upper bound",
            "above = { then = \"expect-satisfied\", because = \"upstream since 0.11.1\" }",
        ),
        Key::optional(
            "gpus",
            Kind::Text,
            "A regular expression that the GPU target must match.",
            "all",
            "gpus = \"gfx11[0-9a-f]{2}\"",
        ),
        Key::optional(
            "rocm",
            Kind::Text,
            "The versions of ROCm, for `apply --when auto`.",
            "all",
            "rocm = \">=7.2\"",
        ),
        Key::optional(
            "if_partial",
            Kind::OneOf(&["refuse", "apply"]),
            "What to do if some edits are already in the tree.",
            "`refuse`",
            "if_partial = \"apply\"",
        ),
    ]],
);

/// What happens outside a range.
pub const OUTSIDE: Form = Form::of(
    "What to do with a version outside the range.",
    &[&[
        Key::required(
            "then",
            Kind::OneOf(&["skip", "leave-alone", "expect-satisfied", "refuse"]),
            "`skip`: the tree must not contain the text that the patch edits. `leave-alone`: the tree may contain it. `expect-satisfied`: upstream must have the change. `refuse`: fail.",
            "then = \"expect-satisfied\"",
        ),
        Key::required("because", Kind::Text, "Why.", "because = \"upstream since 0.11.1\""),
    ]],
);

/// An edit.
pub const EDIT: Form = Form::of(
    "An edit of the first of `files` that exists and contains the anchor.",
    &[&[
        FILES,
        Key::optional(
            "if_absent",
            Kind::OneOf(&["fail", "skip"]),
            "What to do if no file exists, or if no file contains a match of `guards`.",
            "`fail`",
            "if_absent = \"skip\"",
        ),
        Key::optional(
            "absent_in",
            Kind::Text,
            "The versions to which `if_absent = \"skip\"` is limited. In other versions, the files must exist.",
            "all versions",
            "absent_in = \"<0.1.3\"",
        ),
        Key::required(
            "anchor",
            Kind::Text,
            "A regular expression that finds the text to edit.",
            "anchor = 'gfx1100'",
        ),
        Key::required(
            "expect",
            Kind::Numbers,
            "How often the anchor matches: a number, or a number for each range of versions.",
            "expect = 1",
        ),
        Key::required(
            "op",
            Kind::OneOf(&[
                "list-append",
                "list-prepend",
                "insert-before",
                "insert-after",
                "replace-capture",
            ]),
            "How to change the text.",
            "op = \"list-append\"",
        ),
        Key::optional(
            "item",
            Kind::Text,
            "The item. Required for `list-append` and `list-prepend`.",
            "not used by other operations",
            "item = \"{gpu}\"",
        ),
        Key::optional(
            "sep",
            Kind::Text,
            "What separates items. Required for `list-append` and `list-prepend`.",
            "not used by other operations",
            "sep = \";\"",
        ),
        Key::optional(
            "text",
            Kind::Text,
            "The lines. Required for `insert-before` and `insert-after`.",
            "not used by other operations",
            "text = \"set(X 1)\"",
        ),
        Key::optional(
            "with",
            Kind::Text,
            "The new text of the group `value`. Required for `replace-capture`.",
            "not used by other operations",
            "with = \"1\"",
        ),
        Key::optional(
            "already",
            Kind::Text,
            "A regular expression that matches if the edit has been made.",
            "required for insertions; otherwise, the new item or value itself",
            "already = '{gpu}'",
        ),
        Key::optional(
            "satisfied_by",
            Kind::Text,
            "A regular expression that matches if upstream made the change in another way.",
            "none",
            "satisfied_by = '__GFX11__'",
        ),
        Key::optional(
            "guards",
            Kind::Text,
            "A regular expression that finds the code to edit even if `anchor` does not match. If a version that the patch skips contains a match, the patch fails. With `if_absent = \"skip\"`, files without a match need no edit.",
            "none",
            "guards = 'gfx11'",
        ),
    ]],
);

const FILES: Key = Key::required(
    "files",
    Kind::Texts,
    "The names that the file has had, newest first.",
    "files = [\"CMakeLists.txt\"]",
);
const MATCHES: Key = Key::optional(
    "matches",
    Kind::Text,
    "A regular expression that must match.",
    "none",
    "matches = 'gfx1151'",
);
const COUNT: Key = Key::optional(
    "count",
    Kind::Number,
    "How often `matches` must match, 1 to 64.",
    "at least once",
    "count = 1",
);
const ABSENT: Key = Key::optional(
    "absent",
    Kind::Text,
    "A regular expression that must not match.",
    "none",
    "absent = 'gfx1100'",
);

/// A condition that a patched file must meet.
pub const ASSERT: Form = Form::of(
    "A condition that a patched file must meet. It has either `matches` or `absent`.",
    &[&[FILES, MATCHES, COUNT, ABSENT]],
);

/// A probe.
pub const PROBE: Form = Form::of(
    "A check that runs a confined program on the patched files.",
    &[&[
        Key::required(
            "name",
            Kind::Text,
            "What the probe checks.",
            "name = \"cmake keeps the target\"",
        ),
        Key::required(
            "kind",
            Kind::OneOf(&["cmake-script", "cpp-macro", "python-compile", "python-call"]),
            "What the probe runs.",
            "kind = \"python-compile\"",
        ),
        FILES,
        Key::optional(
            "script",
            Kind::Text,
            "The script. Required for `cmake-script`.",
            "not used by other kinds",
            "script = \"message(${X})\"",
        ),
        Key::optional(
            "commands",
            Kind::Text,
            "A regular expression that selects commands of the first file, for the script to include. Commands that set the variables in them are also selected. Only for `cmake-script`.",
            "none",
            "commands = '^set\\('",
        ),
        Key::optional(
            "defines",
            Kind::Texts,
            "The defined macros. Required for `cpp-macro`.",
            "not used by other kinds",
            "defines = [\"__HIPCC__\"]",
        ),
        Key::optional(
            "functions",
            Kind::Texts,
            "The functions to load from the file. Required for `python-call`.",
            "not used by other kinds",
            "functions = [\"is_rdna\"]",
        ),
        Key::optional(
            "prelude",
            Kind::Text,
            "Code that runs before the functions are defined. Only for `python-call`.",
            "none",
            "prelude = \"import re\"",
        ),
        Key::optional(
            "call",
            Kind::Text,
            "The code to run. Required for `python-call`.",
            "not used by other kinds",
            "call = \"print(is_rdna())\"",
        ),
        Key::optional(
            "outcome",
            Kind::OneOf(&["success", "failure"]),
            "Whether the program must succeed or fail.",
            "`success`",
            "outcome = \"failure\"",
        ),
        MATCHES,
        COUNT,
        ABSENT,
    ]],
);

/// How a patch relates to other patches.
pub const RELATIONS: Form = Form::of(
    "How a patch relates to other patches of its component.",
    &[&[
        Key::optional(
            "requires",
            Kind::Texts,
            "Patches that must be applied too.",
            "none",
            "requires = [\"vllm-arch-list\"]",
        ),
        Key::optional(
            "conflicts",
            Kind::Texts,
            "Patches that must not be applied together with this one.",
            "none",
            "conflicts = [\"vllm-arch-list\"]",
        ),
        Key::optional(
            "order",
            Kind::Number,
            "Patches with lower numbers are applied first, but always after the patches that they require.",
            "`0`",
            "order = 10",
        ),
        Key::optional(
            "build_env",
            Kind::TextByName,
            "Environment variables that a build of the patched tree needs.",
            "none",
            "build_env.PYTORCH_ROCM_ARCH = \"{gpu}\"",
        ),
    ]],
);

/// A test.
pub const TEST: Form = Form::of(
    "A test of the patch on small files.",
    &[&[
        Key::required("name", Kind::Text, "What the test checks.", "name = \"the list of 0.10.2\""),
        Key::optional(
            "version",
            Kind::Text,
            "The version of the component.",
            "not known",
            "version = \"0.10.2\"",
        ),
        Key::optional("gpu", Kind::Text, "The GPU target.", "`gfx1151`", "gpu = \"gfx1150\""),
        Key::required(
            "given",
            Kind::TextByName,
            "The files, by path.",
            "given.\"CMakeLists.txt\" = \"gfx1100\"",
        ),
        Key::required("verdict", Kind::Text, "The expected verdict.", "verdict = \"applied(1)\""),
        Key::optional(
            "then",
            Kind::TextByName,
            "The expected text of the files after the patch, by path.",
            "not checked",
            "then.\"CMakeLists.txt\" = \"gfx1100;gfx1151\"",
        ),
    ]],
);
