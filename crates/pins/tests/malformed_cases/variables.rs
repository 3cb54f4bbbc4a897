//! Malformed variables of GPU targets.

/// Cases of `[variable.NAME]` in `gpus.toml`, without the `schema` line.
pub(crate) const VARIABLES: &[(&str, &str)] = &[
    (
        "variable: one that does nothing",
        "[variable.HIP_SUPPORTED_ARCHS]\nvalue = \"gfx1151\"\nwhen = [\"run\"]\nwhy = \"a\"\nevidence = \"a\"\n",
    ),
    (
        "variable: one for debugging at run time",
        "[variable.AMD_SERIALIZE_KERNEL]\nvalue = \"3\"\nwhen = [\"run\", \"debug\"]\nwhy = \"a\"\nevidence = \"a\"\n",
    ),
    (
        "variable: the override",
        "[variable.HSA_OVERRIDE_GFX_VERSION]\nvalue = \"11.0.0\"\nwhen = [\"run\"]\nwhy = \"a\"\nevidence = \"a\"\n",
    ),
    (
        "variable: an invalid time",
        "[variable.GPU_ARCHS]\nvalue = \"{gpu}\"\nwhen = [\"runtime\"]\nwhy = \"a\"\nevidence = \"a\"\n",
    ),
    ("variable: nothing in it", "[variable.GPU_ARCHS]\n"),
    ("variable: no table", "[variable]\nGPU_ARCHS = \"gfx1151\"\n"),
    (
        "variable: integrated in words",
        "[gfx1151]\nname = \"a\"\nfamily = \"b\"\nintegrated = \"yes\"\n",
    ),
];
