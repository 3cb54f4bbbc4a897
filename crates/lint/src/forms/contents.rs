//! The forms of the tables about what images, packages and releases of distributions contain.

use pins::form::{Form, Key, Kind};

use super::EVIDENCE;

/// Programs that images lack.
pub const CONTENTS: Form = Form::of(
    "Programs that images lack.",
    &[&[
        Key::optional(
            "images",
            Kind::Texts,
            "Patterns of the images, as `PATH:TAG`; the longest one that matches an image decides.",
            "none",
            "images = [\"ubuntu:*\"]",
        ),
        Key::optional("lacks", Kind::Texts, "The programs.", "none", "lacks = [\"git\"]"),
    ]],
);

/// Packages that provide a program.
pub const PROGRAM: Form = Form::of(
    "The apt packages that provide a program, with their dependencies and recommendations. A package \
     that is in none of these tables may provide any program.",
    &[&[Key::optional("packages", Kind::Texts, "The packages.", "none", "packages = [\"git\"]")]],
);

/// Packages that some releases do not have.
pub const GONE: Form = Form::of(
    "Packages that some releases of distributions do not have.",
    &[&[
        Key::optional(
            "packages",
            Kind::Texts,
            "Patterns of the packages.",
            "none",
            "packages = [\"libgl1-mesa-glx\"]",
        ),
        Key::optional(
            "releases",
            Kind::Texts,
            "The `name` of each release.",
            "none",
            "releases = [\"Debian 13\"]",
        ),
        Key::optional(
            "instead",
            Kind::Text,
            "What to do instead.",
            "nothing is shown",
            "instead = \"install `libgl1`\"",
        ),
        Key::optional(
            "elsewhere",
            Kind::Flag,
            "Whether other repositories have the packages: the row applies only to the \
                 distribution's own images. No row applies to files that add repositories.",
            "`false`",
            "elsewhere = true",
        ),
    ]],
);

/// Python packages that need something of the system.
pub const NEEDS: Form = Form::of(
    "Python packages that need programs or libraries of the system.",
    &[
        &[
            Key::optional(
                "packages",
                Kind::Texts,
                "The packages.",
                "none",
                "packages = [\"pytesseract\"]",
            ),
            Key::required("needs", Kind::Text, "What they need.", "needs = \"`tesseract-ocr`\""),
            Key::optional(
                "unless",
                Kind::Texts,
                "Texts, in lower case: the row does not apply to files that contain one of them.",
                "none",
                "unless = [\"tesseract\"]",
            ),
            Key::optional(
                "images",
                Kind::Texts,
                "Base images, besides plain distributions and Python, that certainly do not contain it.",
                "none",
                "images = [\"rocm/pytorch:*\"]",
            ),
        ],
        EVIDENCE,
    ],
);

/// The versions of Python that releases of packages are for.
pub const PYTHON: Form = Form::of(
    "The versions of Python that releases of packages are for: those that their metadata allow, or \
     those that have wheels.",
    &[
        &[
            Key::optional(
                "packages",
                Kind::Texts,
                "The packages.",
                "none",
                "packages = [\"numpy\"]",
            ),
            Key::optional(
                "projects",
                Kind::Texts,
                "The ends of the addresses of repositories with the same requirement.",
                "none",
                "projects = [\"open-webui/open-webui\"]",
            ),
            Key::optional(
                "releases",
                Kind::Texts,
                "The releases of the packages.",
                "all, also if none is given",
                "releases = [\"2.3 or newer\"]",
            ),
            Key::optional(
                "python",
                Kind::Texts,
                "The versions of Python.",
                "none",
                "python = [\"3.11 or newer\"]",
            ),
        ],
        EVIDENCE,
    ],
);

/// Python packages with the same module.
pub const MODULE: Form = Form::of(
    "Python packages that contain the same module. Its name is the table's.",
    &[&[Key::optional(
        "packages",
        Kind::Texts,
        "The packages.",
        "none",
        "packages = [\"onnxruntime\", \"onnxruntime-rocm\"]",
    )]],
);

/// An index of PyTorch.
pub const INDEX: Form = Form::of(
    "An index of PyTorch for a release of ROCm. Its name is in `names`.",
    &[&[
        Key::optional("names", Kind::Texts, "The names.", "none", "names = [\"rocm6.2.4\"]"),
        Key::optional(
            "torch",
            Kind::Texts,
            "The releases of torch that it has.",
            "any",
            "torch = [\"2.6 to 2.7\"]",
        ),
        Key::optional(
            "python",
            Kind::Texts,
            "The versions of Python that it has wheels for.",
            "any",
            "python = [\"3.9 to 3.13\"]",
        ),
    ]],
);

/// A release of a distribution.
pub const RELEASE: Form = Form::of(
    "A release of a distribution.",
    &[&[
        Key::required("name", Kind::Text, "Its name.", "name = \"Ubuntu 24.04\""),
        Key::optional(
            "images",
            Kind::Texts,
            "Patterns of images that contain this release, as `PATH:TAG`.",
            "none",
            "images = [\"ubuntu:24.04*\"]",
        ),
        Key::optional(
            "based",
            Kind::Texts,
            "Patterns of other images that are based on this release.",
            "none",
            "based = [\"python:*-trixie\"]",
        ),
        Key::optional(
            "python",
            Kind::Text,
            "The version of Python that the release calls `python3`.",
            "none",
            "python = \"3.12\"",
        ),
        Key::optional(
            "glibc",
            Kind::Text,
            "The version of its C library.",
            "none",
            "glibc = \"2.39\"",
        ),
        Key::optional(
            "codename",
            Kind::Text,
            "The release's name in package sources.",
            "none",
            "codename = \"noble\"",
        ),
        Key::optional(
            "end",
            Kind::Date,
            "The last day on which the release gets updates.",
            "the release still gets updates",
            "end = 2025-05-31",
        ),
    ]],
);

/// What an option of a build with CMake needs.
pub const BUILD: Form = Form::of(
    "What an option of a build with CMake needs. For each package manager, a list contains the \
     packages that bring it, as patterns; the first one is the advice. Without a list, nothing is \
     reported.",
    &[
        &[
            Key::required(
                "options",
                Kind::Texts,
                "The options, in lower case: patterns of names that are on, or of `NAME=VALUE`.",
                "options = [\"ggml_vulkan\"]",
            ),
            Key::required("needs", Kind::Text, "What they need.", "needs = \"Vulkan's headers\""),
            Key::optional("apt", Kind::Texts, "Packages.", "none", "apt = [\"libvulkan-dev\"]"),
            Key::optional("dnf", Kind::Texts, "Packages.", "none", "dnf = [\"vulkan-headers\"]"),
            Key::optional("apk", Kind::Texts, "Packages.", "none", "apk = [\"vulkan-headers\"]"),
            Key::optional(
                "pacman",
                Kind::Texts,
                "Packages.",
                "none",
                "pacman = [\"vulkan-headers\"]",
            ),
            Key::optional(
                "projects",
                Kind::Texts,
                "Texts, in lower case: the row applies only to stages that contain one of them.",
                "all",
                "projects = [\"/llama.cpp\"]",
            ),
            Key::optional(
                "unless",
                Kind::Texts,
                "Texts, in lower case: the row does not apply to stages that contain one of them.",
                "none",
                "unless = [\"lunarg\"]",
            ),
            Key::optional(
                "images",
                Kind::Texts,
                "Patterns of the base images that lack it, as `PATH:TAG`.",
                "distributions, images of languages, and AMD's images for developers",
                "images = [\"debian:*\"]",
            ),
        ],
        EVIDENCE,
    ],
);
