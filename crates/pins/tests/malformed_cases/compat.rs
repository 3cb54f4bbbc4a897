//! Malformed compatibility tables.

/// Cases of `compat.toml`, without the `schema` line.
pub(crate) const COMPAT: &[(&str, &str)] = &[
    ("compat: unknown table", "[kernels.any]\nsince = \"6.18.4\"\n"),
    ("compat: kind is not a table", "kernel = \"6.18.4\"\n"),
    ("compat: row is not a table", "[kernel]\nany = \"6.18.4\"\n"),
    (
        "compat: name of a row",
        "[index.A_B]\nurl = \"https://a/b\"\ninstead = \"https://a/c\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    ("compat: a kernel without anything", "[kernel.any]\n"),
    (
        "compat: an invalid kernel",
        "[kernel.any]\ngpus = [\"gfx1151\"]\nsince = \"v6.18\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: no GPU",
        "[kernel.any]\ngpus = []\nsince = \"6.18.4\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: an invalid GPU",
        "[kernel.any]\ngpus = [\"11.5.1\"]\nsince = \"6.18.4\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: range in another syntax",
        "[rocm.a]\ngpus = [\"gfx1151\"]\nreleases = [\">=7.2.1\"]\nbuilds = \"amd\"\nfixed-kernel = \"supported\"\nother-kernel = \"unstable\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: range backwards",
        "[rocm.a]\ngpus = [\"gfx1151\"]\nreleases = [\"7.2.4 to 7.2.1\"]\nbuilds = \"amd\"\nfixed-kernel = \"supported\"\nother-kernel = \"unstable\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: a word that AMD's table lacks",
        "[rocm.a]\ngpus = [\"gfx1151\"]\nreleases = [\"7.2.1\"]\nbuilds = \"amd\"\nfixed-kernel = \"suported\"\nother-kernel = \"fine\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: no date and no evidence",
        "[rocm.a]\ngpus = [\"gfx1151\"]\nreleases = [\"7.2.1\"]\nbuilds = \"amd\"\nfixed-kernel = \"supported\"\nother-kernel = \"unstable\"\n",
    ),
    (
        "compat: an invalid MES version",
        "[firmware.a]\ngpus = [\"gfx1151\"]\nbad = [\"20251125\"]\ngood = [\"20251111\"]\nbad-mes = [\"83\"]\nwhy = \"a\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: a coupling with nothing",
        "[coupling.a]\npackage = \"torch\"\nreleases = [\"2.11\"]\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: a coupling with a list",
        "[coupling.a]\npackage = \"torch\"\nreleases = [\"2.11\"]\nwith = [\"torchvision\"]\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: a coupling with a number",
        "[coupling.a]\npackage = \"torch\"\nreleases = [\"2.11\"]\nwith = { torchvision = 0.26 }\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: releases without brackets",
        "[bad.a]\npackage = \"rocm\"\nreleases = \"7.1\"\nwhy = \"a\"\ninstead = \"b\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: an invalid package name",
        "[bad.a]\npackage = \"torch[rocm]\"\nreleases = [\"2.11\"]\nwhy = \"a\"\ninstead = \"b\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: an index over http",
        "[index.a]\nurl = \"http://a.b/c\"\ninstead = \"https://a.b/d\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: a fact that is known in another way",
        "[index.a]\nurl = \"https://a.b/c\"\ninstead = \"https://a.b/d\"\nchecked = 2026-11-20\nknown = \"1 reports\"\nevidence = \"a\"\n",
    ),
    (
        "compat: firmware without a bad version",
        "[firmware.a]\ngpus = [\"gfx1151\"]\ngood = [\"20251111\"]\nwhy = \"a\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: older kernels are fine",
        "[kernel.a]\ngpus = [\"gfx1151\"]\nsince = \"6.18.4\"\nolder = \"fine\"\nchecked = 2026-11-20\nevidence = \"a\"\n",
    ),
    (
        "compat: a date in quotes",
        "[index.a]\nurl = \"https://a.b/c\"\ninstead = \"https://a.b/d\"\nchecked = \"2026-11-20\"\nevidence = \"a\"\n",
    ),
];
