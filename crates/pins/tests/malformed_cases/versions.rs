//! Malformed pins.

/// Cases of `versions.toml`, without `schema` and `source-date-epoch`.
pub(crate) const VERSIONS: &[(&str, &str)] = &[
    // Tables and keys.
    (
        "kind mistyped",
        "[sources.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\ncommit = \"unresolved\"\n",
    ),
    ("kind unknown", "[package.vllm]\nversion = \"1\"\n"),
    ("key with underscores", "source_date_epoch = 1795132800\n"),
    (
        "key mistyped",
        "[source.vllm]\nulr = \"https://github.com/vllm-project/vllm\"\ncommit = \"unresolved\"\n",
    ),
    (
        "key of another kind",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\ncommit = \"unresolved\"\ndigest = \"unresolved\"\n",
    ),
    (
        "key with an escape sequence",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\ncommit = \"unresolved\"\n\"a\\u001b[2J\" = 1\n",
    ),
    ("kind is a value", "source = \"vllm\"\n"),
    ("kind is an array of tables", "[[source]]\nname = \"vllm\"\n"),
    ("pin is a value", "[source]\nvllm = \"v0.10.2\"\n"),
    (
        "pin name in upper case",
        "[source.vLLM]\nurl = \"https://github.com/vllm-project/vllm\"\ncommit = \"unresolved\"\n",
    ),
    (
        "pin name with underscore",
        "[source.flash_attention]\nurl = \"https://github.com/ROCm/flash-attention\"\ncommit = \"unresolved\"\n",
    ),
    (
        "pin name with point nests",
        "[source.vllm-0.10]\nurl = \"https://github.com/vllm-project/vllm\"\ncommit = \"unresolved\"\n",
    ),
    (
        "pin name empty",
        "[source.\"\"]\nurl = \"https://github.com/a/b\"\ncommit = \"unresolved\"\n",
    ),
    (
        "pin name starts with a digit",
        "[source.2-vllm]\nurl = \"https://github.com/a/b\"\ncommit = \"unresolved\"\n",
    ),
    (
        "pin name used by two kinds",
        "[source.ollama]\nurl = \"https://github.com/ollama/ollama\"\ncommit = \"unresolved\"\n\n[image.ollama]\nrepository = \"docker.io/ollama/ollama\"\ntag = \"rocm\"\ndigest = \"unresolved\"\n",
    ),
    ("everything missing", "[source.a]\n[archive.b]\n[image.c]\n[release.d]\n"),
    // Types.
    (
        "text is a number",
        "[source.a]\nurl = \"https://github.com/a/b\"\nversion = 0.10\ncommit = \"unresolved\"\n",
    ),
    (
        "text is an array",
        "[source.a]\nurl = [\"https://github.com/a/b\"]\ncommit = \"unresolved\"\n",
    ),
    (
        "text is empty",
        "[source.a]\nurl = \"https://github.com/a/b\"\nref = \"\"\ncommit = \"unresolved\"\n",
    ),
    (
        "text has spaces around",
        "[source.a]\nurl = \"https://github.com/a/b\"\nref = \" v1 \"\ncommit = \"unresolved\"\n",
    ),
    (
        "text has an escape sequence",
        "[source.a]\nurl = \"https://github.com/a/b\"\ncommit = \"unresolved\"\nevidence = \"a\\u001b]0;x\\u0007\"\n",
    ),
    (
        "text turns the reading direction",
        "[source.a]\nurl = \"https://github.com/a/b\"\nref = \"v1\\u202e2v\"\ncommit = \"unresolved\"\n",
    ),
    (
        "text over several lines",
        "[source.a]\nurl = \"https://github.com/a/b\"\ncommit = \"unresolved\"\nevidence = \"\"\"one\ntwo\"\"\"\n",
    ),
    (
        "evidence too long",
        "[source.a]\nurl = \"https://github.com/a/b\"\ncommit = \"unresolved\"\nevidence = \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"\n",
    ),
    (
        "follow in quotes",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\nfollow = \"true\"\n",
    ),
    (
        "gpus as one text",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\ngpus = \"gfx1151\"\n",
    ),
    (
        "gpus with a number",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\ngpus = [\"gfx1151\", 1150]\n",
    ),
    (
        "gpus twice the same",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\ngpus = [\"gfx1151\", \"gfx1151\"]\n",
    ),
    (
        "gpus in other spellings",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\ngpus = [\"1151\", \"GFX1100\", \"11.5.1\", \"Strix Halo\"]\n",
    ),
    // Dates.
    (
        "date in quotes",
        "[source.a]\nurl = \"https://github.com/a/b\"\ncommit = \"unresolved\"\nchecked = \"2026-11-20\"\n",
    ),
    (
        "date with a time",
        "[source.a]\nurl = \"https://github.com/a/b\"\ncommit = \"unresolved\"\nchecked = 2026-11-20T12:00:00Z\n",
    ),
    (
        "time alone",
        "[source.a]\nurl = \"https://github.com/a/b\"\ncommit = \"unresolved\"\nchecked = 12:00:00\n",
    ),
    (
        "date that exists only in leap years",
        "[source.a]\nurl = \"https://github.com/a/b\"\ncommit = \"unresolved\"\nchecked = 2025-02-29\n",
    ),
    (
        "expires before checked",
        "[source.a]\nurl = \"https://github.com/a/b\"\ncommit = \"unresolved\"\nchecked = 2026-11-20\nexpires = 2026-11-19\n",
    ),
    // URLs.
    ("url over http", "[source.a]\nurl = \"http://github.com/a/b\"\ncommit = \"unresolved\"\n"),
    ("url over git", "[source.a]\nurl = \"git://github.com/a/b\"\ncommit = \"unresolved\"\n"),
    ("url over ssh", "[source.a]\nurl = \"git@github.com:a/b.git\"\ncommit = \"unresolved\"\n"),
    ("url is a path", "[source.a]\nurl = \"/srv/git/a\"\ncommit = \"unresolved\"\n"),
    ("url without scheme", "[source.a]\nurl = \"github.com/a/b\"\ncommit = \"unresolved\"\n"),
    (
        "url with a password",
        "[source.a]\nurl = \"https://me:secret@github.com/a/b\"\ncommit = \"unresolved\"\n",
    ),
    (
        "url with a token over http",
        "[source.a]\nurl = \"http://secret@github.com/a/b\"\ncommit = \"unresolved\"\n",
    ),
    (
        "url with a query",
        "[release.a]\nindex = \"https://repo.amd.com/rocm/?token=1\"\npackages.torch = \"1\"\n",
    ),
    (
        "url with a fragment",
        "[source.a]\nurl = \"https://github.com/a/b#readme\"\ncommit = \"unresolved\"\n",
    ),
    (
        "url with a space",
        "[source.a]\nurl = \"https://github.com/a b/c\"\ncommit = \"unresolved\"\n",
    ),
    (
        "url with detours",
        "[source.a]\nurl = \"https://github.com/a/../b\"\ncommit = \"unresolved\"\n",
    ),
    ("url without a path", "[source.a]\nurl = \"https://github.com/\"\ncommit = \"unresolved\"\n"),
    (
        "url with a bad host",
        "[source.a]\nurl = \"https://git_hub.com/a/b\"\ncommit = \"unresolved\"\n",
    ),
    (
        "url with a bad port",
        "[source.a]\nurl = \"https://github.com:99999/a/b\"\ncommit = \"unresolved\"\n",
    ),
    // Refs and versions.
    (
        "ref with a range",
        "[source.a]\nurl = \"https://github.com/a/b\"\nref = \"v1..v2\"\ncommit = \"unresolved\"\n",
    ),
    (
        "ref of a reflog",
        "[source.a]\nurl = \"https://github.com/a/b\"\nref = \"main@{1}\"\ncommit = \"unresolved\"\n",
    ),
    (
        "ref that ends in lock",
        "[source.a]\nurl = \"https://github.com/a/b\"\nref = \"main.lock\"\ncommit = \"unresolved\"\n",
    ),
    (
        "ref that is an option",
        "[source.a]\nurl = \"https://github.com/a/b\"\nref = \"--upload-pack=x\"\ncommit = \"unresolved\"\n",
    ),
    (
        "ref with a space",
        "[source.a]\nurl = \"https://github.com/a/b\"\nref = \"v 1\"\ncommit = \"unresolved\"\n",
    ),
    (
        "ref is a commit",
        "[source.a]\nurl = \"https://github.com/a/b\"\nref = \"01efc7ef781391e744ed08c3292817a773d654e6\"\ncommit = \"unresolved\"\n",
    ),
    (
        "ref and version differ",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\nref = \"v0.10.2\"\nversion = \"0.10.3\"\ncommit = \"unresolved\"\n",
    ),
    (
        "ref is a candidate and version is not",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\nref = \"v0.10.2rc3\"\nversion = \"0.10.2\"\ncommit = \"unresolved\"\n",
    ),
    (
        "ref and version are other builds",
        "[source.llama-cpp]\nurl = \"https://github.com/ggml-org/llama.cpp\"\nref = \"b6646\"\nversion = \"b6647\"\ncommit = \"unresolved\"\n",
    ),
    (
        "version with a v",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\nversion = \"v0.10.2\"\ncommit = \"unresolved\"\n",
    ),
    (
        "version is a word",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\nversion = \"latest\"\ncommit = \"unresolved\"\n",
    ),
    // Commits.
    (
        "commit missing",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\nref = \"v0.10.2\"\n",
    ),
    (
        "commit is a tag",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\nref = \"v0.10.2\"\ncommit = \"v0.10.2\"\n",
    ),
    (
        "commit is a branch",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\ncommit = \"main\"\n",
    ),
    (
        "commit is HEAD",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\ncommit = \"HEAD\"\n",
    ),
    (
        "commit is short",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\nref = \"v0.10.2\"\ncommit = \"01efc7ef7813\"\n",
    ),
    (
        "commit is cut with dots",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\nref = \"v0.10.2\"\ncommit = \"01efc7ef7813…\"\n",
    ),
    (
        "commit lacks one digit",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\nref = \"v0.10.2\"\ncommit = \"01efc7ef781391e744ed08c3292817a773d654e\"\n",
    ),
    (
        "commit has one extra digit",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\ncommit = \"01efc7ef781391e744ed08c3292817a773d654e67\"\n",
    ),
    (
        "commit in upper case",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\ncommit = \"01EFC7EF781391E744ED08C3292817A773D654E6\"\n",
    ),
    (
        "commit as git describe prints it",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\ncommit = \"g26b999c71\"\n",
    ),
    (
        "commit is another word for unresolved",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\nref = \"v0.10.2\"\ncommit = \"TODO\"\n",
    ),
    (
        "commit unresolved in upper case",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\nref = \"v0.10.2\"\ncommit = \"Unresolved\"\n",
    ),
    (
        "commit is a number",
        "[source.vllm]\nurl = \"https://github.com/vllm-project/vllm\"\ncommit = 1234567\n",
    ),
    // Archives.
    (
        "sha256 is cut",
        "[archive.vllm]\nproject = \"vllm\"\nversion = \"0.10.2\"\nsha256 = \"57608f44cf61f5d8\"\n",
    ),
    (
        "sha256 with its algorithm",
        "[archive.vllm]\nproject = \"vllm\"\nversion = \"0.10.2\"\nsha256 = \"sha256:57608f44cf61f5d80fb182c98e06e524cb2925bb528258a7b247c8e43a52d13e\"\n",
    ),
    (
        "sha256 has another letter",
        "[archive.vllm]\nproject = \"vllm\"\nversion = \"0.10.2\"\nsha256 = \"57608f44cf61f5d80fb182c98e06e524cb2925bb528258a7b247c8e43a52d13g\"\n",
    ),
    (
        "sha256 in upper case",
        "[archive.vllm]\nproject = \"vllm\"\nversion = \"0.10.2\"\nsha256 = \"57608F44CF61F5D80FB182C98E06E524CB2925BB528258A7B247C8E43A52D13E\"\n",
    ),
    (
        "sha256 is a sha512",
        "[archive.vllm]\nproject = \"vllm\"\nversion = \"0.10.2\"\nsha256 = \"57608f44cf61f5d80fb182c98e06e524cb2925bb528258a7b247c8e43a52d13e57608f44cf61f5d80fb182c98e06e524cb2925bb528258a7b247c8e43a52d13e\"\n",
    ),
    (
        "sha256 unknown",
        "[archive.vllm]\nproject = \"vllm\"\nversion = \"0.10.2\"\nsha256 = \"unknown\"\n",
    ),
    (
        "patches leads out of its folder",
        "[archive.a]\nproject = \"a\"\nversion = \"1\"\nsha256 = \"unresolved\"\npatches = \"../vllm\"\n",
    ),
    (
        "patches of a release",
        "[release.a]\nindex = \"https://example.org/\"\npackages.torch = \"1\"\npatches = \"pytorch\"\n",
    ),
    (
        "subdirectory leads out",
        "[archive.a]\nproject = \"a\"\nversion = \"1\"\nsha256 = \"unresolved\"\nsubdirectory = \"vendor/../../etc\"\n",
    ),
    (
        "subdirectory is absolute",
        "[archive.a]\nproject = \"a\"\nversion = \"1\"\nsha256 = \"unresolved\"\nsubdirectory = \"/vendor\"\n",
    ),
    (
        "subdirectory with a drive",
        "[archive.a]\nproject = \"a\"\nversion = \"1\"\nsha256 = \"unresolved\"\nsubdirectory = \"C:vendor\"\n",
    ),
    (
        "subdirectory with backslash",
        "[archive.a]\nproject = \"a\"\nversion = \"1\"\nsha256 = \"unresolved\"\nsubdirectory = 'vendor\\llama.cpp'\n",
    ),
    (
        "subdirectory with an empty part",
        "[archive.a]\nproject = \"a\"\nversion = \"1\"\nsha256 = \"unresolved\"\nsubdirectory = \"vendor/\"\n",
    ),
    (
        "project with extras",
        "[archive.a]\nproject = \"vllm[audio]\"\nversion = \"1\"\nsha256 = \"unresolved\"\n",
    ),
    (
        "project is a path",
        "[archive.a]\nproject = \"../vllm\"\nversion = \"1\"\nsha256 = \"unresolved\"\n",
    ),
    (
        "archive version is a range",
        "[archive.a]\nproject = \"vllm\"\nversion = \">=0.10\"\nsha256 = \"unresolved\"\n",
    ),
    // Images.
    (
        "repository is a short name",
        "[image.fedora]\nrepository = \"fedora\"\ntag = \"43\"\ndigest = \"unresolved\"\n",
    ),
    (
        "repository without a host",
        "[image.a]\nrepository = \"rocm/vllm-dev\"\ntag = \"nightly\"\ndigest = \"unresolved\"\n",
    ),
    (
        "repository with a tag",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev:nightly\"\ndigest = \"unresolved\"\n",
    ),
    (
        "repository with a digest",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev@sha256:a92fa9cb915027468e85e147f4dd1c87f026d7974610280546a2a1f94a146889\"\ndigest = \"unresolved\"\n",
    ),
    (
        "repository with a scheme",
        "[image.a]\nrepository = \"docker://docker.io/rocm/vllm-dev\"\ntag = \"nightly\"\ndigest = \"unresolved\"\n",
    ),
    (
        "repository in upper case",
        "[image.a]\nrepository = \"docker.io/ROCm/vllm-dev\"\ntag = \"nightly\"\ndigest = \"unresolved\"\n",
    ),
    (
        "tag with a colon",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ntag = \":nightly\"\ndigest = \"unresolved\"\n",
    ),
    ("digest missing", "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ntag = \"nightly\"\n"),
    (
        "digest is cut",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ntag = \"nightly\"\ndigest = \"sha256:a92fa9cb9150\"\n",
    ),
    (
        "digest is cut with dots",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ntag = \"nightly\"\ndigest = \"sha256:a92fa9cb9150...\"\n",
    ),
    (
        "digest is cut in the middle",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ntag = \"nightly\"\ndigest = \"sha256:a92fa9cb9150…6889\"\n",
    ),
    (
        "digest is too long",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ntag = \"nightly\"\ndigest = \"sha256:a92fa9cb915027468e85e147f4dd1c87f026d7974610280546a2a1f94a146889a\"\n",
    ),
    (
        "digest without algorithm",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ntag = \"nightly\"\ndigest = \"a92fa9cb915027468e85e147f4dd1c87f026d7974610280546a2a1f94a146889\"\n",
    ),
    (
        "digest is a short image id",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ntag = \"nightly\"\ndigest = \"a92fa9cb9150\"\n",
    ),
    (
        "digest of sha512",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ntag = \"nightly\"\ndigest = \"sha512:a92fa9cb915027468e85e147f4dd1c87\"\n",
    ),
    (
        "digest in upper case",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ntag = \"nightly\"\ndigest = \"sha256:A92FA9CB915027468E85E147F4DD1C87F026D7974610280546A2A1F94A146889\"\n",
    ),
    (
        "digest is a reference",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ndigest = \"docker.io/rocm/vllm-dev@sha256:a92fa9cb915027468e85e147f4dd1c87f026d7974610280546a2a1f94a146889\"\n",
    ),
    (
        "digest is a tag",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ntag = \"nightly\"\ndigest = \"nightly\"\n",
    ),
    (
        "digest is latest",
        "[image.a]\nrepository = \"docker.io/rocm/vllm-dev\"\ntag = \"latest\"\ndigest = \"latest\"\n",
    ),
    (
        "kind is a list",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\nkind = \"list\"\n",
    ),
    (
        "kind is mistyped",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\nkind = \"Manifests\"\n",
    ),
    (
        "kind is something else",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\nkind = \"amd64\"\n",
    ),
    (
        "follow without a tag",
        "[image.a]\nrepository = \"docker.io/a/a\"\ndigest = \"unresolved\"\nfollow = true\n",
    ),
    (
        "no tag and no digest",
        "[image.a]\nrepository = \"docker.io/a/a\"\ndigest = \"unresolved\"\n",
    ),
    (
        "rocm with its name",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\nrocm = \"rocm7.2.1\"\n",
    ),
    (
        "rocm is a number",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\nrocm = 7.2\n",
    ),
    (
        "rocm has four parts",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\nrocm = \"7.2.1.0\"\n",
    ),
    (
        "rocm is a range",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\nrocm = \"7.x\"\n",
    ),
    (
        "discontinued is a switch",
        "[image.a]\nrepository = \"docker.io/a/a\"\ntag = \"a\"\ndigest = \"unresolved\"\ndiscontinued = true\n",
    ),
    // Releases.
    ("packages missing", "[release.a]\nindex = \"https://repo.amd.com/rocm/\"\n"),
    ("packages empty", "[release.a]\nindex = \"https://repo.amd.com/rocm/\"\npackages = {}\n"),
    (
        "packages as an array",
        "[release.a]\nindex = \"https://repo.amd.com/rocm/\"\npackages = [\"torch==2.11.0\"]\n",
    ),
    (
        "package version with an operator",
        "[release.a]\nindex = \"https://repo.amd.com/rocm/\"\npackages.torch = \"==2.11.0+rocm7.14.0\"\n",
    ),
    (
        "package version with a star",
        "[release.a]\nindex = \"https://repo.amd.com/rocm/\"\npackages.torch = \"2.11.*\"\n",
    ),
    (
        "package version is a number",
        "[release.a]\nindex = \"https://repo.amd.com/rocm/\"\npackages.torch = 2.11\n",
    ),
    (
        "package twice in two spellings",
        "[release.a]\nindex = \"https://repo.amd.com/rocm/\"\n[release.a.packages]\nrocm-sdk-devel = \"7.14.0\"\nrocm_sdk_devel = \"7.14.0\"\n",
    ),
    (
        "package name with extras",
        "[release.a]\nindex = \"https://repo.amd.com/rocm/\"\npackages.\"torch[device-gfx1151]\" = \"2.11.0\"\n",
    ),
    (
        "many mistakes at once",
        "[source.vllm]\nurl = \"http://github.com/vllm-project/vllm\"\nref = \"v0.10.2\"\nversion = \"0.10.3\"\ncommit = \"v0.10.2\"\nchecked = \"today\"\nhash = 1\n\n[image.vllm]\nrepository = \"vllm\"\ndigest = \"sha256:12\"\nfollow = 1\n",
    ),
];
