//! Malformed GPU targets.

/// Cases of `gpus.toml`, without the `schema` line.
pub(crate) const GPUS: &[(&str, &str)] = &[
    (
        "spoof is a target name",
        "[gfx1031]\nname = \"a\"\nfamily = \"RDNA 2\"\nspoof = \"gfx1031\"\n",
    ),
    (
        "spoof is another target's name",
        "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nspoof = \"gfx1100\"\n",
    ),
    (
        "spoof is the GPU's own version",
        "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nspoof = \"11.5.1\"\n",
    ),
    ("spoof has two numbers", "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nspoof = \"11.0\"\n"),
    ("spoof is a decimal", "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nspoof = 11.0\n"),
    ("spoof is empty", "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nspoof = \"\"\n"),
    (
        "spoof is out of range",
        "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nspoof = \"64.0.0\"\n",
    ),
    ("spoof is off", "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nspoof = false\n"),
    (
        "gpu key mistyped",
        "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nnative_since = \"7.2.1\"\n",
    ),
    ("gpu unknown key", "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nkernel = \"6.18.4\"\n"),
    ("gpu name missing", "[gfx1151]\nspoof = \"11.0.0\"\n"),
    (
        "native-since with a word",
        "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nnative-since = \"ROCm 7.2.1\"\n",
    ),
    (
        "native-since with zeros",
        "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nnative-since = \"7.02.1\"\n",
    ),
    (
        "spoof-on-request is a word",
        "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nspoof-on-request = \"yes\"\n",
    ),
    (
        "not-beside has a product",
        "[gfx1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\nnot-beside = [\"Navi 4\"]\n",
    ),
    ("target without gfx", "[1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\n"),
    ("target in upper case", "[GFX1151]\nname = \"a\"\nfamily = \"RDNA 3.5\"\n"),
    ("target is a product", "[strix-halo]\nname = \"a\"\nfamily = \"RDNA 3.5\"\n"),
    ("target is a value", "gfx1151 = \"Strix Halo\"\n"),
    ("unknown key on top", "gpu = \"gfx1151\"\n"),
];
