//! Malformed tracks.

/// Cases of `tracks.toml`, without the `schema` line, parsed with two images: `vllm-openai-rocm`
/// and `ollama`.
pub(crate) const TRACKS: &[(&str, &str)] = &[
    ("gpu missing", "[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\n"),
    ("gpu is a product", "gpu = \"Strix Halo\"\n"),
    ("gpu with a wildcard", "gpu = \"gfx115x\"\n"),
    ("track by its letter", "gpu = \"gfx1151\"\n[D]\ntitle = \"a\"\n"),
    ("track mistyped", "gpu = \"gfx1151\"\n[nightly_spoof]\ntitle = \"a\"\n"),
    ("track unknown", "gpu = \"gfx1151\"\n[sglang]\ntitle = \"a\"\n"),
    ("track is a value", "gpu = \"gfx1151\"\nofficial = \"vllm-openai-rocm\"\n"),
    ("top key mistyped", "gpus = \"gfx1151\"\ngpu = \"gfx1151\"\n"),
    ("track without settings", "gpu = \"gfx1151\"\n[ollama]\n"),
    (
        "base mistyped",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"vllm-openai-rcom\"\n",
    ),
    (
        "base does not exist",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"sglang\"\n",
    ),
    (
        "base is a source",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"vllm\"\n",
    ),
    (
        "base is a reference",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"docker.io/ollama/ollama:rocm\"\n",
    ),
    (
        "settings mistyped",
        "gpu = \"gfx1151\"\n[official]\ntitel = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\n",
    ),
    (
        "spoof as a setting",
        "gpu = \"gfx1151\"\n[locked-spoof]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nspoof = \"11.0.0\"\n",
    ),
    (
        "env sets the spoof",
        "gpu = \"gfx1151\"\n[locked-spoof]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.HSA_OVERRIDE_GFX_VERSION = \"11.0.0\"\n",
    ),
    (
        "env sets the spoof of one device",
        "gpu = \"gfx1151\"\n[locked-spoof]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.HSA_OVERRIDE_GFX_VERSION_0 = \"11.0.0\"\n",
    ),
    (
        "env for debugging",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\n[official.env]\nAMD_SERIALIZE_KERNEL = \"3\"\nHIP_LAUNCH_BLOCKING = \"1\"\nTORCH_USE_HIP_DSA = \"1\"\n",
    ),
    (
        "env with an option that never existed",
        "gpu = \"gfx1151\"\n[ollama]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.OLLAMA_GPU_MEMORY = \"96GB\"\n",
    ),
    (
        "env of Ollama mistyped",
        "gpu = \"gfx1151\"\n[ollama]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.OLLAMA_IGPU_ENABLED = \"1\"\n",
    ),
    (
        "env of Ollama unknown",
        "gpu = \"gfx1151\"\n[ollama]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.OLLAMA_TURBO_BOOST_EVERYTHING = \"1\"\n",
    ),
    (
        "env that only CMake knows",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.HIP_SUPPORTED_ARCHS = \"gfx1151\"\n",
    ),
    (
        "env that means the opposite",
        "gpu = \"gfx1151\"\n[ollama]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.GGML_CUDA_ENABLE_UNIFIED_MEMORY = \"0\"\n",
    ),
    (
        "env that makes vLLM slow",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.VLLM_LOGGING_LEVEL = \"DEBUG\"\n",
    ),
    (
        "env value is a number",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.VLLM_ROCM_USE_AITER = 0\n",
    ),
    (
        "env value over two lines",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.A = \"a\\nb\"\n",
    ),
    (
        "env value with a nul",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.A = \"a\\u0000b\"\n",
    ),
    (
        "env name with a dash",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.VLLM-X = \"1\"\n",
    ),
    (
        "env name with an equals sign",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv.\"A=B\" = \"1\"\n",
    ),
    (
        "env as an array",
        "gpu = \"gfx1151\"\n[official]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nenv = [\"A=1\"]\n",
    ),
    (
        "rehearsal is not a variant",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nvariant = \"a\"\nrehearsal = \"b\"\n[source.variants.a]\nbase = \"ollama\"\n[[source.variants.a.stage]]\nname = \"a\"\ndockerfile = \"a.Dockerfile\"\n",
    ),
    (
        "argument in lower case",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nvariant = \"a\"\n[source.variants.a]\nbase = \"ollama\"\n[[source.variants.a.stage]]\nname = \"a\"\ndockerfile = \"a.Dockerfile\"\nargs = { device = \"rocm\" }\n",
    ),
    (
        "argument that is always set",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nvariant = \"a\"\n[source.variants.a]\nbase = \"ollama\"\n[[source.variants.a.stage]]\nname = \"a\"\ndockerfile = \"a.Dockerfile\"\nargs = { BASE = \"fedora\" }\n",
    ),
    (
        "argument is a number",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nvariant = \"a\"\n[source.variants.a]\nbase = \"ollama\"\n[[source.variants.a.stage]]\nname = \"a\"\ndockerfile = \"a.Dockerfile\"\nargs = { MAX_JOBS = 4 }\n",
    ),
    (
        "slim without a GPU",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nslim = []\n",
    ),
    (
        "slim is a switch",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nslim = true\n",
    ),
    (
        "slim is not a GPU",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nslim = [\"gfx1151\", \"11.0.0\"]\n",
    ),
    (
        "slim lists a GPU twice",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\nslim = [\"gfx1151\", \"gfx1151\"]\n",
    ),
    (
        "variant of a track without stages lacks slim",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\n[source.variants.slim]\n",
    ),
    (
        "variant of a track without stages has stages",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\n[source.variants.slim]\nslim = [\"gfx1151\"]\n[[source.variants.slim.stage]]\nname = \"a\"\ndockerfile = \"a.Dockerfile\"\n",
    ),
    (
        "slim next to variants",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nvariant = \"a\"\nslim = [\"gfx1151\"]\n[source.variants.a]\nbase = \"ollama\"\n[[source.variants.a.stage]]\nname = \"a\"\ndockerfile = \"a.Dockerfile\"\n",
    ),
    (
        "disk is out of range",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\ndisk = { gb = 80000, source = \"a\" }\n",
    ),
    (
        "disk is text",
        "gpu = \"gfx1151\"\n[source]\ntitle = \"a\"\ndescription = \"a\"\nbase = \"ollama\"\ndisk = { gb = \"25\", source = \"a\" }\n",
    ),
];
