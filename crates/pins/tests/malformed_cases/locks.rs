//! Malformed package locks.

/// Cases without the lines `schema`, `suite`, `architecture` and `checked`.
pub(crate) const LOCKS: &[(&str, &str)] = &[
    ("no set", ""),
    ("a set that is not a table", "set.base = \"apt\"\n"),
    ("a key of a set mistyped", "[set.base]\nwants = [\"apt\"]\npackages = []\n"),
    ("nothing wanted", "[set.base]\npackages = []\n"),
    ("a set without packages", "[set.base]\nwanted = [\"?essential\"]\n"),
    (
        "packages as a table",
        "[set.base]\nwanted = [\"?essential\"]\npackages = { apt = \"3.0.3\" }\n",
    ),
    ("a package as a text", "[set.base]\nwanted = [\"?essential\"]\npackages = [\"apt\"]\n"),
    ("an unknown pattern", "[set.base]\nwanted = [\"?required\"]\npackages = []\n"),
    (
        "a package with nothing",
        "[set.base]\nwanted = [\"?essential\"]\npackages = [{ name = \"apt\" }]\n",
    ),
    (
        "wrong values, all of them",
        "[set.base]\nwanted = [\"?essential\"]\npackages = [\n  { name = \"Apt\", version = \"3.0_3\", architecture = \"arm64\", file = \"http://a/apt.deb\", size = \"1452192\", sha256 = \"d41d8cd98f00b204e9800998ecf8427e\" },\n]\n",
    ),
    (
        "a path that leaves the pool",
        "[set.base]\nwanted = [\"?essential\"]\npackages = [\n  { name = \"apt\", version = \"3.0.3\", architecture = \"amd64\", file = \"pool/../../etc/apt_3.0.3_amd64.deb\", size = 1, sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\" },\n]\n",
    ),
    (
        "the file of another version",
        "[set.base]\nwanted = [\"?essential\"]\npackages = [\n  { name = \"g++\", version = \"4:14.2.0-1\", architecture = \"amd64\", file = \"pool/main/g/gcc-defaults/g++_13.2.0-7_amd64.deb\", size = 1, sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\" },\n]\n",
    ),
    (
        "sizes out of range",
        "[set.base]\nwanted = [\"?essential\"]\npackages = [\n  { name = \"apt\", version = \"3.0.3\", architecture = \"amd64\", file = \"pool/main/a/apt/apt_3.0.3_amd64.deb\", size = 0, sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\" },\n  { name = \"bash\", version = \"1\", architecture = \"amd64\", file = \"pool/main/b/bash/bash_1_amd64.deb\", size = 99999999999, sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\" },\n]\n",
    ),
    (
        "a package twice in a set",
        "[set.base]\nwanted = [\"bash\"]\npackages = [\n  { name = \"bash\", version = \"1\", architecture = \"amd64\", file = \"pool/main/b/bash/bash_1_amd64.deb\", size = 1, sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\" },\n  { name = \"bash\", version = \"2\", architecture = \"amd64\", file = \"pool/main/b/bash/bash_2_amd64.deb\", size = 1, sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\" },\n]\n",
    ),
    (
        "a package in a set and in one that it depends on",
        "[set.base]\nwanted = [\"bash\"]\npackages = [\n  { name = \"bash\", version = \"1\", architecture = \"amd64\", file = \"pool/main/b/bash/bash_1_amd64.deb\", size = 1, sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\" },\n]\n[set.more]\non = [\"base\"]\nwanted = [\"bash\"]\npackages = [\n  { name = \"bash\", version = \"1\", architecture = \"amd64\", file = \"pool/main/b/bash/bash_1_amd64.deb\", size = 1, sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\" },\n]\n",
    ),
    ("wanted and not locked", "[set.base]\nwanted = [\"bash\"]\npackages = []\n"),
    (
        "a set that depends on a missing one",
        "[set.base]\nwanted = [\"?essential\"]\npackages = []\n[set.build]\non = [\"bose\"]\nwanted = [\"?essential\"]\npackages = []\n",
    ),
    (
        "sets in a circle",
        "[set.a]\non = [\"b\"]\nwanted = [\"?essential\"]\npackages = []\n[set.b]\non = [\"a\"]\nwanted = [\"?essential\"]\npackages = []\n",
    ),
];
