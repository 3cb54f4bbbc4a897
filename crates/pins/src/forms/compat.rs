//! The form of `versions/compat.toml`.

use crate::form::{Form, Key, Kind, REMOVE};

/// `versions/compat.toml`.
pub const COMPAT: Form = Form::of(
    "Which versions work together. `build`, `bump`, `doctor`, `lint` and `plan` use this file. A release range is \
     written as `7.2.1 to 7.2.4`, `7.1`, `20260110 or newer` or `0.20 or older`.",
    &[&[
        Key::schema(),
        REMOVE,
        Key::optional(
            "kernel",
            Kind::TableByName(&KERNEL),
            "Kernels with the fixes that a GPU needs.",
            "none",
            "",
        ),
        Key::optional(
            "rocm",
            Kind::TableByName(&ROCM),
            "How well ROCm releases support a GPU.",
            "none",
            "",
        ),
        Key::optional(
            "firmware",
            Kind::TableByName(&FIRMWARE),
            "Releases of linux-firmware that break a GPU.",
            "none",
            "",
        ),
        Key::optional(
            "coupling",
            Kind::TableByName(&COUPLING),
            "Packages that need certain releases of other packages.",
            "none",
            "",
        ),
        Key::optional("bad", Kind::TableByName(&BAD), "Releases that do not work.", "none", ""),
        Key::optional(
            "index",
            Kind::TableByName(&INDEX),
            "Package indexes that have moved.",
            "none",
            "",
        ),
    ]],
);

/// The source of a row, which every row has.
pub const ROW_EVIDENCE: &[Key] = &[
    Key::required("evidence", Kind::Text, "The source.", "evidence = \"ROCm/TheRock#2991\""),
    Key::required(
        "checked",
        Kind::Date,
        "The date on which the source was read.",
        "checked = 2026-11-20",
    ),
    KNOWN,
];

const KNOWN: Key = Key::optional(
    "known",
    Kind::Text,
    "How the fact is known: `vendor`, `maintainer`, `one source`, or a number of independent reports.",
    "not recorded",
    "known = \"3 reports\"",
);

const ROW_GPUS: Key = Key::required(
    "gpus",
    Kind::Texts,
    "The GPU targets that the row applies to.",
    "gpus = [\"gfx1151\"]",
);
const WHY: Key =
    Key::required("why", Kind::Text, "What goes wrong.", "why = \"it faults on memory\"");
const ROW_PACKAGE: Key =
    Key::required("package", Kind::Text, "The package, or `rocm`.", "package = \"torch\"");
const ROW_RELEASES: Key =
    Key::required("releases", Kind::Texts, "The releases.", "releases = [\"7.2.1 to 7.2.4\"]");
const TERMS: &[&str] = &["supported", "unstable", "unsupported"];

/// A row about kernels.
pub const KERNEL: Form = Form::of(
    "A row about kernels. It needs `since` or `distribution`.",
    &[
        &[
            ROW_GPUS,
            Key::optional(
                "since",
                Kind::Text,
                "The first kernel with the fixes.",
                "all kernels of the distribution have them",
                "since = \"6.18.4\"",
            ),
            Key::optional(
                "distribution",
                Kind::Text,
                "The distribution, as `ID-VERSION_ID` of os-release.",
                "all",
                "distribution = \"ubuntu-24.04\"",
            ),
            Key::optional(
                "flavour",
                Kind::Text,
                "The flavour: the text after the last dash of the kernel release.",
                "all",
                "flavour = \"oem\"",
            ),
            Key::optional(
                "older",
                Kind::OneOf(TERMS),
                "How well older kernels are supported.",
                "the rows in `rocm` decide",
                "older = \"unsupported\"",
            ),
        ],
        ROW_EVIDENCE,
    ],
);

/// A row about ROCm.
pub const ROCM: Form = Form::of(
    "A row about ROCm releases.",
    &[
        &[
            ROW_GPUS,
            ROW_RELEASES,
            Key::required("builds", Kind::Text, "The vendor of the builds.", "builds = \"amd\""),
            Key::required(
                "fixed-kernel",
                Kind::OneOf(TERMS),
                "How well these releases are supported on a kernel with the fixes.",
                "fixed-kernel = \"supported\"",
            ),
            Key::required(
                "other-kernel",
                Kind::OneOf(TERMS),
                "How well these releases are supported on any other kernel.",
                "other-kernel = \"unstable\"",
            ),
        ],
        ROW_EVIDENCE,
    ],
);

/// A row about firmware.
pub const FIRMWARE: Form = Form::of(
    "A row about firmware. It needs `bad` or `bad-mes`.",
    &[
        &[
            ROW_GPUS,
            Key::optional(
                "bad",
                Kind::Texts,
                "Bad releases of linux-firmware.",
                "none",
                "bad = [\"20251125\"]",
            ),
            Key::required("good", Kind::Texts, "Good releases.", "good = [\"20260110 or newer\"]"),
            Key::optional(
                "bad-mes",
                Kind::Texts,
                "Bad versions of the MES firmware, as the driver prints them.",
                "none",
                "bad-mes = [\"0x83\"]",
            ),
            WHY,
        ],
        ROW_EVIDENCE,
    ],
);

/// A row about packages that belong together.
pub const COUPLING: Form = Form::of(
    "Releases of packages that belong together.",
    &[
        &[
            ROW_PACKAGE,
            ROW_RELEASES,
            Key::required(
                "with",
                Kind::TextByName,
                "The matching releases of other packages.",
                "with = { torchvision = \"0.26\" }",
            ),
        ],
        ROW_EVIDENCE,
    ],
);

/// A row about releases that do not work.
pub const BAD: Form = Form::of(
    "Releases that do not work.",
    &[
        &[
            ROW_PACKAGE,
            ROW_RELEASES,
            Key::optional(
                "with",
                Kind::TextByName,
                "The releases of other packages with which these releases fail.",
                "they always fail",
                "with = { rocm = \"7.1\" }",
            ),
            WHY,
            INSTEAD,
        ],
        ROW_EVIDENCE,
    ],
);

const INSTEAD: Key =
    Key::required("instead", Kind::Text, "What to use instead.", "instead = \"7.14.0\"");

/// A row about an index.
pub const INDEX: Form = Form::of(
    "A package index that should not be used.",
    &[
        &[
            Key::required(
                "url",
                Kind::Text,
                "Its URL.",
                "url = \"https://rocm.nightlies.amd.com/v2/\"",
            ),
            Key::optional(
                "why",
                Kind::Text,
                "Why the index should not be used.",
                "`has moved`",
                "why = \"is empty\"",
            ),
            INSTEAD,
        ],
        ROW_EVIDENCE,
    ],
);
