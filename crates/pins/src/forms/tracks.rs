//! The form of `versions/tracks.toml`.

use crate::form::{Form, Key, Kind};

/// `versions/tracks.toml`.
pub const TRACKS: Form = Form {
    about: "Tracks: named recipes for images. A project's own file adds tracks to build-pipeline's own \
            tracks; a table with the name of such a track replaces that track.",
    keys: &[&[
        Key::schema(),
        Key::optional(
            "gpu",
            Kind::Text,
            "The GPU target that images are built for, unless `--gpu` selects another one.",
            "the target of build-pipeline's own tracks; required without them",
            "gpu = \"gfx1151\"",
        ),
    ]],
    named: Some(("the name of a track", &TRACK)),
};

/// A track.
pub const TRACK: Form = Form::of(
    "A track. `base`, `track` or `packages` specifies what its image is based on. A track with \
     stages is built by an engine; any other track changes its base without an engine.",
    &[TRACK_ABOUT, BASE, IMAGE, &[SPOOF], BUILT],
);

/// The keys that every track may have.
pub const TRACK_ABOUT: &[Key] = &[
    Key::required(
        "title",
        Kind::Text,
        "The title, for the image's label `org.opencontainers.image.title`.",
        "title = \"vLLM for gfx1151\"",
    ),
    Key::required(
        "description",
        Kind::Text,
        "One sentence, for the image's label `org.opencontainers.image.description`.",
        "description = \"The vendor's image with this project's labels.\"",
    ),
    Key::optional(
        "letter",
        Kind::Text,
        "A short name: one upper-case letter.",
        "none",
        "letter = \"A\"",
    ),
    Key::optional(
        "disk",
        Kind::Table(&DISK),
        "The disk space that the image needs, for `doctor`.",
        "not known",
        "disk = { gb = 25, source = \"measured with podman 5.4\" }",
    ),
];

/// The space that an image needs.
pub const DISK: Form = Form::of(
    "The disk space that an image needs in an engine's store.",
    &[&[
        Key::required("gb", Kind::Number, "The space in GB (10^9 bytes).", "gb = 25"),
        Key::required("source", Kind::Text, "The source of the number.", "source = \"measured\""),
    ]],
);

/// The base of an image.
pub const BASE: &[Key] = &[
    Key::optional(
        "base",
        Kind::Text,
        "The name of an image pin in versions.toml.",
        "required unless `track` or `packages` is given, or each variant has its own base",
        "base = \"vllm-openai-rocm\"",
    ),
    Key::optional(
        "track",
        Kind::Text,
        "The name of another track, whose image is the base.",
        "required unless `base` or `packages` is given, or each variant has its own base",
        "track = \"official\"",
    ),
];

/// The settings of an image.
pub const IMAGE: &[Key] = &[
    Key::optional(
        "env",
        Kind::TextByName,
        "Environment variables.",
        "the base's variables",
        "env.VLLM_ROCM_USE_AITER = \"0\"",
    ),
    Key::optional(
        "labels",
        Kind::TextByName,
        "Labels, except those that build-pipeline sets itself.",
        "the base's labels",
        "labels.\"org.example.team\" = \"inference\"",
    ),
    Key::optional(
        "entrypoint",
        Kind::Texts,
        "The program that a container starts, with its first arguments. Setting it drops the base's `cmd`.",
        "the base's entrypoint",
        "entrypoint = [\"/bin/serve\", \"--port\", \"8000\"]",
    ),
    Key::optional(
        "cmd",
        Kind::Texts,
        "The default arguments.",
        "the base's arguments",
        "cmd = [\"--all\"]",
    ),
    Key::optional(
        "user",
        Kind::Text,
        "The user, as a name or number, optionally with a group.",
        "the base's user",
        "user = \"1000:44\"",
    ),
    Key::optional(
        "workdir",
        Kind::Text,
        "The working directory, as an absolute path.",
        "the base's working directory",
        "workdir = \"/srv\"",
    ),
    Key::optional(
        "files",
        Kind::Tables(&FILE),
        "Project files and folders to add to the image, as a separate layer.",
        "none",
        "files = [{ from = \"files/start\", to = \"/usr/local/bin/start\", mode = \"0755\" }]",
    ),
];

/// A project file or folder in the image.
pub const FILE: Form = Form::of(
    "A project file, or a folder with everything in it.",
    &[&[
        Key::required(
            "from",
            Kind::Text,
            "The file or folder, as a path from the root of the project.",
            "from = \"files/start\"",
        ),
        Key::required(
            "to",
            Kind::Text,
            "The absolute path in the image.",
            "to = \"/usr/local/bin/start\"",
        ),
        Key::optional(
            "mode",
            Kind::Text,
            "The permissions of the files, in octal digits.",
            "0755 for folders and executable files; 0644 for other files",
            "mode = \"0755\"",
        ),
        Key::optional(
            "owner",
            Kind::Text,
            "The owner, as numbers: `UID` or `UID:GID`.",
            "0:0",
            "owner = \"1000:1000\"",
        ),
    ]],
);

/// The keys of tracks without stages.
pub const DERIVED: &[Key] = &[
    SPOOF,
    SLIM,
    Key::optional(
        "variants",
        Kind::TableByName(&SLIM_VARIANT),
        "Variants, which `--variant` selects. In a track without stages, a variant has only `slim`.",
        "none",
        "variants.slim = { slim = [\"gfx1151\"] }",
    ),
];

const SPOOF: Key = Key::optional(
    "spoof",
    Kind::Flag,
    "Whether the image sets `HSA_OVERRIDE_GFX_VERSION` to the value in gpus.toml. Only for tracks without stages.",
    "as in the track that this one is based on, else `false`",
    "spoof = true",
);

/// A variant of a track without stages.
pub const SLIM_VARIANT: Form = Form::of(
    "A variant of a track without stages.",
    &[&[Key::required(
        "slim",
        Kind::Texts,
        "The GPU targets whose code is kept in the image.",
        "slim = [\"gfx1151\"]",
    )]],
);

/// The keys of tracks that an engine builds.
pub const BUILT: &[Key] = &[
    PACKAGES,
    GPU_CODE,
    SLIM,
    STAGES,
    Key::optional(
        "variant",
        Kind::Text,
        "The default variant.",
        "required if the stages are in `variants`",
        "variant = \"debian\"",
    ),
    Key::optional(
        "variants",
        Kind::TableByName(&VARIANT),
        "Several ways to build the track. Each has its own base and stages. In a track without stages, a variant has only `slim`.",
        "none; the stages are in `stage`",
        "variants.debian = { packages = \"debian\", stage = [{ name = \"tool\", dockerfile = \"dockerfiles/tool.Dockerfile\" }] }",
    ),
    Key::optional(
        "rehearsal",
        Kind::Text,
        "The variant that a rehearsal builds.",
        "the track cannot be rehearsed",
        "rehearsal = \"rehearsal\"",
    ),
];

const PACKAGES: Key = Key::optional(
    "packages",
    Kind::Text,
    "The name of a package lock, `versions/locks/NAME.toml`. The base is a root file system made from the packages in its set `base`. Only for tracks with stages.",
    "required unless `base` or `track` is given, or each variant has its own base",
    "packages = \"debian\"",
);
const GPU_CODE: Key = Key::optional(
    "gpu-code",
    Kind::Flag,
    "Whether the image must contain code for its GPU. A build fails if it does not.",
    "`false`",
    "gpu-code = true",
);
const SLIM: Key = Key::optional(
    "slim",
    Kind::Texts,
    "The GPU targets whose code is kept in the image. Code for all other GPUs is removed.",
    "all code is kept",
    "slim = [\"gfx1151\"]",
);
const STAGES: Key = stages("no stages: the track needs no engine, or its stages are in `variants`");
const VARIANT_STAGES: Key = stages("none; required if the track has stages");

/// Returns the key for stages, whose absence means `default`.
const fn stages(default: &'static str) -> Key {
    Key::optional(
        "stage",
        Kind::Tables(&STAGE),
        "The stages, in order. The first starts from the base, and each later one from the image of the stage before it.",
        default,
        "stage = [{ name = \"tool\", dockerfile = \"dockerfiles/tool.Dockerfile\" }]",
    )
}

/// A variant of a track that an engine builds. The schema also accepts the variants of other tracks,
/// which have only `slim`.
pub const VARIANT: Form =
    Form::of("One way to build a track.", &[BASE, &[PACKAGES, GPU_CODE, SLIM, VARIANT_STAGES]]);

/// A stage.
pub const STAGE: Form = Form::of(
    "One Dockerfile and the content of its build context. The Dockerfile declares `ARG BASE` and \
     starts from `${BASE}`; the arguments `GPU_TARGET` and `SOURCE_DATE_EPOCH` are set too. It takes \
     files only from this base, its own stages and its build context.",
    &[&[
        Key::required(
            "name",
            Kind::Text,
            "The name, unique in the variant.",
            "name = \"llama-cpp\"",
        ),
        Key::required(
            "dockerfile",
            Kind::Text,
            "The Dockerfile, as a path from the root of the project.",
            "dockerfile = \"dockerfiles/tool.Dockerfile\"",
        ),
        Key::optional(
            "sources",
            Kind::TextByName,
            "Source and archive pins, by the folder of the context that contains their patched trees.",
            "no sources",
            "sources = { \"vllm\" = \"vllm\" }",
        ),
        Key::optional(
            "packages",
            Kind::Texts,
            "Sets of the variant's package lock. Their packages are put into the folder `packages` of the context.",
            "no packages",
            "packages = [\"vulkan-build\"]",
        ),
        Key::optional(
            "python",
            Kind::Text,
            "A Python lock. Its wheels are put into the folder `python` of the context.",
            "no wheels",
            "python = \"vllm\"",
        ),
        Key::optional(
            "files",
            Kind::Texts,
            "Project files and folders. They have the same path in the context.",
            "none",
            "files = [\"files/start\", \"src\"]",
        ),
        Key::optional(
            "args",
            Kind::TextByName,
            "Additional build arguments.",
            "none",
            "args.VLLM_TARGET_DEVICE = \"rocm\"",
        ),
        Key::optional(
            "network",
            Kind::Flag,
            "Whether RUN instructions may use the network. Such a stage is not reproducible, and `--mirror-only` refuses it unless its result is cached.",
            "`false`",
            "network = true",
        ),
    ]],
);
