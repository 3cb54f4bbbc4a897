//! Tests the assessments of logs that show no known failure.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Read;

use host::failures::{Assessment, Failures, parse_failures};

use crate::failures::{CATALOGUE, catalogue, logs};

const ASSESSED: &str = include_str!("../logs/assessed.txt");

/// Returns the catalogue without its known failures: all logs are assessed, as unknown ones are.
fn without_rows() -> Failures {
    let mut text = String::new();
    let mut is_row = false;
    for line in CATALOGUE.lines() {
        is_row = if line.starts_with('[') { line.starts_with("[failure.") } else { is_row };
        if !is_row {
            writeln!(text, "{line}").unwrap();
        }
    }
    parse_failures("failures.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn assessed<'f>(failures: &'f Failures, log: &str) -> Option<Assessment<'f>> {
    failures.diagnose(log.as_bytes()).unwrap().assessment
}

#[test]
fn each_kind_of_failure_is_recognised_in_its_log() {
    let failures = without_rows();
    let (mut covered, mut wrong) = (BTreeSet::new(), String::new());
    for (name, log) in logs(ASSESSED) {
        let found = assessed(&failures, log).map(|one| one.kind.to_owned());
        if found.as_deref() != Some(name) {
            writeln!(wrong, "{name}: found {found:?} in {log}").unwrap();
        }
        covered.insert(name);
    }
    assert_eq!(wrong, "");
    let kinds = CATALOGUE.lines().filter_map(|line| line.strip_prefix("[kind.")?.strip_suffix(']'));
    assert_eq!(covered, kinds.collect(), "each kind has a log");
}

/// Advice that starts with a quote is only for lines that contain the quote.
#[test]
fn advice_fits_the_words_of_the_line() {
    let failures = without_rows();
    let fix = |log: &str| assessed(&failures, log).unwrap().fix;
    let of_mpi = fix("ld.lld: error: undefined symbol: MPI_Init\n");
    assert!(of_mpi[0].starts_with("`MPI_`:"), "{of_mpi:?}");
    assert!(!of_mpi.iter().any(|one| one.contains("fopenmp")), "{of_mpi:?}");
    let of_other = fix("ld.lld: error: undefined symbol: example_part\n");
    assert!(!of_other.iter().any(|one| one.starts_with('`')), "{of_other:?}");
    // A command in backticks is no such quote.
    let of_binary = fix("./tool: Exec format error\n");
    assert!(of_binary[0].starts_with("`file NAME` shows"), "{of_binary:?}");
}

/// The component is the one that the line that decides names, or the innermost frame.
#[test]
fn the_component_that_failed_is_named() {
    let failures = without_rows();
    for (log, kind, component, advice) in [
        (
            "INFO vllm.py: started\n!!! Segfault encountered !!!\n  ck_tile::Rmsnorm2dFwd<\n\
             [aiter] import [module_rmsnorm]\n",
            "crash",
            "composable-kernel",
            "the path without CK",
        ),
        (
            "Traceback (most recent call last):\n\
             \x20 File \"/venv/site-packages/vllm/a.py\", line 1, in run\n\
             \x20 File \"/venv/site-packages/bitsandbytes/b.py\", line 2, in load\n\
             \x20 File \"/venv/site-packages/torch/nn/c.py\", line 3, in forward\n\
             RuntimeError: no hip\n",
            "python-exception",
            "bitsandbytes",
            "needs no bitsandbytes",
        ),
        (
            "ck_tile/block.hpp:1:2: error: not a constant expression\n\
             1 error generated when compiling for gfx1100.\n",
            "gpu-code-not-compiled",
            "composable-kernel",
            "gfx1100",
        ),
        (
            "torch.OutOfMemoryError: HIP out of memory.\n  File \"/app/ComfyUI/main.py\", line 1\n",
            "gpu-memory-full",
            "pytorch",
            "--lowvram",
        ),
    ] {
        let found = assessed(&failures, log).unwrap_or_else(|| panic!("{log}"));
        assert_eq!((found.kind, found.component), (kind, Some(component)), "{log}");
        let told = format!("{} {}", found.what, found.fix.join(" "));
        assert!(told.contains(advice), "{told}");
    }
}

/// A component that is not for the GPU of the log says so.
#[test]
fn a_gpu_that_a_component_is_not_for_is_named() {
    let failures = without_rows();
    for (gpu, is_said) in [("gfx1012", true), ("gfx942", false)] {
        let log = format!("{gpu}\nTensileCreateLibrary: IndexError: list index out of range\n");
        let place = assessed(&failures, &log).unwrap().place.unwrap();
        assert_eq!(place.contains(&format!("this log names {gpu}")), is_said, "{place}");
    }
}

#[test]
fn a_log_of_a_program_that_works_or_of_another_gpu_is_not_assessed() {
    let failures = without_rows();
    for log in [
        "",
        "all is well\n",
        "WARNING: ModuleNotFoundError: No module named 'xformers'\n",
        "[    0.316575] ACPI: platform does not support [SHPCHotplug LTR]\n",
        "CUDA runtime version: Could not collect\nMIOpen runtime version: 3.3.0\n",
        "NVIDIA GeForce RTX 4090\nRuntimeError: CUDA error: no kernel image is available\n",
        "NVIDIA GeForce RTX 4090\ntorch.OutOfMemoryError: CUDA out of memory.\n",
        "test a::b ... ok\n[  OK  ] Started example.\n",
    ] {
        assert_eq!(assessed(&failures, log), None, "{log}");
    }
    // What a program says before it works did not stop it.
    let failed = "ModuleNotFoundError: No module named 'example'\n";
    assert!(assessed(&failures, failed).is_some());
    let works = format!("{failed}INFO:     Application startup complete.\n");
    assert_eq!(assessed(&failures, &works), None);
    assert!(assessed(&failures, &format!("{works}{failed}")).is_some());
    // What has nothing to do with the GPU is said on each machine.
    let found = assessed(&failures, "NVIDIA GeForce RTX 4090\nNo space left on device\n");
    assert_eq!(found.unwrap().kind, "disk-full");
}

/// A known failure with a certain cause needs no assessment; it changes no exit code.
#[test]
fn a_known_failure_is_not_assessed() {
    let failures = catalogue();
    let told = failures.diagnose(&b"OSError: [Errno 28] No space left on device: '/a'\n"[..]);
    let told = told.unwrap();
    assert!(told.has_failure() && told.assessment.is_none());
    let told = failures.diagnose(&b"example: [!!] the hipfft of rocfft is broken\n"[..]).unwrap();
    assert!(!told.has_failure() && told.assessment.is_some(), "{told:?}");
    // A line that a known failure explains is not assessed, even if the cause is not certain.
    let fault =
        "amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:3)\n";
    let told = failures.diagnose(fault.as_bytes()).unwrap();
    assert!(told.has_failure() && told.assessment.is_none(), "{told:?}");
}

/// What is near the line that decides, and what somebody typed, names no component.
#[test]
fn lines_near_the_failure_and_options_name_no_component() {
    let failures = without_rows();
    for (log, other) in [
        ("Selected GPU 0: AMD (RADV RAVEN)\nError: the picture could not be made\n", "radv"),
        ("RADV: ok\nVK_ERROR_INITIALIZATION_FAILED in vkCreateDevice\n", "radv"),
        ("amdgpu Error: cannot serve the model with --oci-runtime crun now\n", "oci-runtime"),
        ("amdgpu Error: cannot serve the model with --engine=podman now\n", "podman"),
        ("fatal: clone of 'git@a.b:ROCm/composable_kernel.git' failed\n", "composable-kernel"),
        ("ERROR: failed to read https://a.b/ROCm/composable_kernel now\n", "composable-kernel"),
        ("failed to execute:/opt/rocm/llvm/bin/clang++ -O3 -DUSE_NCCL -x hip a.hip\n", "rccl"),
        ("vllm 0.9\nvllm: hello\nRuntimeError: no hip\n", "vllm"),
    ] {
        let found = assessed(&failures, log);
        assert_ne!(found.and_then(|one| one.component), Some(other), "{log}");
    }
}

/// Programs in all languages say the same in other words.
#[test]
fn other_words_for_the_same_failure_are_recognised() {
    let failures = without_rows();
    for (kind, logs) in [
        (
            "gpu-not-found",
            &[
                "  what():  hipGetDeviceCount returned 0 devices",
                "Error: no hip device available",
                "Error: RequestAdapterError: NotFound { requested_backends: VULKAN }",
                "Unable to initialize backend 'rocm': NOT_FOUND: no GPU devices found",
                "FAILED_PRECONDITION: No visible GPU devices.",
                "Error: no OpenCL devices of type GPU found on the platform",
                "vkEnumeratePhysicalDevices reported zero accessible devices.",
                "hipGetDevice failed with error code 100",
                "Torch(\"No CUDA GPUs are available",
            ][..],
        ),
        (
            "gpu-memory-full",
            &[
                "Error: DriverError(HIP_ERROR_OUT_OF_MEMORY)",
                "ResourceExhaustedError: OOM when allocating tensor with shape[2]",
                "RuntimeException: Failed to allocate memory for requested buffer of size 8",
                "wgpu error: Out of Memory",
                "vkAllocateMemory failed -2",
                "thread 'main' panicked: vkAllocateMemory: ERROR_OUT_OF_DEVICE_MEMORY",
                "RuntimeError: Insufficient VRAM in split",
                "failed to allocate buffer for kv cache",
                "hipMalloc(&p, 4096) returned 2",
            ],
        ),
        ("gpu-hang", &["wgpu error: Device is lost", "radeon 0000:01:00.0: GPU lockup"]),
        (
            "gpu-unsupported",
            &[
                "Exception: This kernel was not compiled for gfx1151",
                "NotImplementedError: my program does not support gfx1010",
                "KeyError: 'Unknown GPU architecture: gfx1201'",
            ],
        ),
        ("shared-library-missing", &["dlopen: could not find libmy.so.1"]),
        ("gpu-code-missing", &["hipLaunchKernel: error 98", "hipModuleLoad failed: 209 in a.cpp"]),
        ("gpu-memory-fault", &["hipDeviceSynchronize() failed, status = 700"]),
        ("hip-call-failed", &["Failed to create HIP context (Invalid value)"]),
        ("host-memory-full", &["OSError: [Errno 12] no", "step: task has been OOM Killed."]),
        ("group-not-mapped", &["me is not member of \"render\" group"]),
    ] {
        for log in logs {
            let found = assessed(&failures, log).map(|one| one.kind.to_owned());
            assert_eq!(found.as_deref(), Some(kind), "{log}");
        }
    }
}

/// What a program overcomes, or only tries, did not stop it; what it does not overcome did.
#[test]
fn what_a_program_overcomes_or_only_tries_is_not_assessed() {
    let failures = without_rows();
    let missing = "ModuleNotFoundError: No module named 'my_module'\n";
    let full = "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n";
    for (log, kind) in [
        (format!("{full}buffer: retrying without parallelism\nsrv: model loaded\n"), None),
        (format!("{full}buffer: retrying without parallelism\n"), None),
        (format!("{full}Retry in 5 s\n{full}"), Some("gpu-memory-full")),
        (format!("{full}{}Retry in 5 s\n", "fine\n".repeat(6)), Some("gpu-memory-full")),
        (format!("{missing}continuing without it\n"), None),
        (format!("{missing}*** Installation is completed in 00:02:43.\n"), None),
        (format!("Traceback:\n  File \"a.py\", line 1, in _is_my_available\n{missing}"), None),
        (
            format!("Traceback:\n  File \"a.py\", line 1, in run\n{missing}"),
            Some("python-module-missing"),
        ),
        ("Performing C++ SOURCE FILE Test HAS_A failed\n a.c:1:2: error: no\n".into(), None),
        ("a.c:1:2: error: no\n-- Performing Test HAS_A - Failed\n".into(), None),
        (
            format!("-- Performing Test A - Failed\n{}a.c:1:2: error: no\n", "ok\n".repeat(10)),
            Some("compiler-error"),
        ),
        (
            "Failed to connect to bus: No such file or directory\nSetting up a (1.0) ...\n".into(),
            None,
        ),
        // Levels of loggers, prompts and answers that say no.
        ("{\"level\":\"warn\",\"msg\":\"hipErrorNoDevice\"}\n".into(), None),
        ("[W1130 12:00:00 a.cpp:7] hipErrorNoDevice\n".into(), None),
        ("a: NCCL WARN no connection\n".into(), Some("collective-failed")),
        ("level=INFO msg=\"no compatible GPUs were discovered\"\n".into(), Some("gpu-not-found")),
        ("me@host:~$ grep hipErrorNoDevice a.log\n".into(), None),
        (
            "    case miopenStatusInternalError: return \"miopenStatusInternalError\";\n".into(),
            None,
        ),
        ("\"OOMKilled\": false,\n".into(), None),
        ("\"OOMKilled\": true,\n".into(), Some("host-memory-full")),
        ("torch.backends.mps.is_available(): False\n".into(), None),
        ("torch.cuda.is_available(): False\n".into(), Some("gpu-not-found")),
    ] {
        assert_eq!(assessed(&failures, &log).map(|one| one.kind), kind, "{log}");
    }
}

#[test]
fn what_states_no_failure_is_not_assessed() {
    let failures = without_rows();
    for log in [
        // A command.
        "FAILED: a.stamp\ncd /b && /c/cmake -E env --unset=ROCM_PATH --unset=HIP_PATH -- cmake\n",
        "[3/9] /opt/rocm/bin/hipcc -DNAME=\"ROCm not found\" -c a.hip\n",
        "$ ls /opt/rocm || echo 'ROCm not found'\n",
        // A message of the kernel's driver without a consequence.
        "[    9.2] amdgpu 0000:12:00.0: [drm] *ERROR* lttpr_caps phy_repeater_cnt is 0x0\n",
        "[    9.2] amdgpu 0000:12:00.0: [drm] *ERROR* LTTPR count is nonzero\n",
        // A test of memory asks for less until it gets it.
        "radv/amdgpu: Failed to allocate a buffer:\n    1 iteration. Passed  0.04 seconds\n",
        // XLA marks a line as information.
        "1:2: I external/local_xla/xla/stream_executor/rocm/a.cc:920] there must be at least one\n",
        // A program whose name contains that of the linker.
        "dpkg-buildpackage: error: make -f debian/rules binary returned exit status 2\n",
        // Nothing was refused, or only to a debugger or a command of the shell.
        "avc:  denied  { open } for  pid=9 comm=\"a\" scontext=b:container_t:s0 permissive=1\n",
        "apparmor=\"DENIED\" operation=\"ptrace\" class=\"ptrace\" profile=\"docker-default\"\n",
        "ls: cannot open directory '/root': Permission denied\n",
        "find: '/proc/1/map_files': Permission denied\n",
        "N: Download is performed unsandboxed as root (13: Permission denied)\n",
        // The kernel tries several files, and the link corrects the errors.
        "iwlwifi 0000:01:00.0: Direct firmware load for iwlwifi-a.ucode failed with error -2\n",
        "pcieport 0000:00:03.1: PCIe Bus Error: severity=Correctable, type=Data Link Layer\n",
        // FreeBSD tries the next name.
        "a.bin: could not load binary firmware /boot/firmware/a.bin either\n",
    ] {
        assert_eq!(assessed(&failures, log), None, "{log}");
    }
    let failed =
        "[    9.2] amdgpu 0000:12:00.0: [drm] *ERROR* hw_init of IP block <psp> failed -22\n";
    assert_eq!(assessed(&failures, failed).unwrap().kind, "driver-init-failed");
}

/// Main memory is full only if the kernel or Python says so, and not for a GPU.
#[test]
fn memory_of_the_gpu_is_not_main_memory() {
    let failures = without_rows();
    let error = "MemoryError: Cannot allocate 122341986304 bytes\n";
    let kind = |log: &str| assessed(&failures, log).map(|one| one.kind.to_owned());
    assert_eq!(kind(error).as_deref(), Some("host-memory-full"));
    for frame in ["/t/runtime/ops_amd.py", "/x/cupy/cuda/memory.py", "/v/torch/a.py"] {
        let log = format!("  File \"{frame}\", line 584, in alloc\n    raise\n{error}");
        assert_ne!(kind(&log).as_deref(), Some("host-memory-full"), "{log}");
    }
    assert_ne!(kind("gfx1151 std::bad_alloc\n").as_deref(), Some("host-memory-full"));
}

/// Without a component and without a next step, the line is quoted.
#[test]
fn a_line_without_advice_is_only_quoted() {
    let failures = catalogue();
    let told = failures.diagnose(&b"a: all\nexample: [!!] the thing here is broken\n"[..]).unwrap();
    assert_eq!(told.assessment, None);
    assert_eq!((told.errors.count, told.errors.lines[0].number), (1, 2), "{told:?}");
}

/// Advice is for the system of the log.
#[test]
fn advice_fits_the_system() {
    let failures = without_rows();
    let windows = "C:\\Users\\a\\x.exe\nHIP error: unspecified launch failure\n";
    let dnf = "$ dnf install -y a\nNo match for argument: a\n";
    let apt = "E: Unable to locate package a\n";
    for (log, with, without) in [
        (windows, "overclocking", &["dmesg", "linux-firmware"][..]),
        (dnf, "dnf repolist", &["apt-get"]),
        (apt, "apt-get update", &["dnf"]),
        ("program: Segmentation fault\n", "coredumpctl", &["innermost"]),
    ] {
        let found = assessed(&failures, log).unwrap_or_else(|| panic!("{log}"));
        let told = format!("{} {}", found.fix.join("\n"), found.more.join("\n"));
        assert!(told.contains(with), "{log}: {told}");
        assert!(!without.iter().any(|other| told.contains(other)), "{log}: {told}");
    }
}

/// A message of several lines is quoted to its end.
#[test]
fn a_long_message_is_quoted_with_its_advice() {
    let failures = catalogue();
    let log = "CMake Error at a.cmake:12 (thing):\n  One line.\n  Two.\n\n  Three.\n  Use an older one.\n\
               Call Stack (most recent call first):\n  b.txt:1 (include)\n";
    let told = failures.diagnose(log.as_bytes()).unwrap();
    let text = &told.errors.lines[0].text;
    assert!(text.ends_with("Use an older one."), "{text}");
}

/// Of a log of any size, only the end is kept; the lines have the numbers of the log.
#[test]
fn the_end_of_a_large_log_is_assessed() {
    let failures = without_rows();
    let line = "x".repeat(99) + "\n";
    let count = 200_000;
    let many = line.repeat(count);
    let end = b"rocminfo: Illegal instruction (core dumped)\n";
    let told = failures.diagnose(many.as_bytes().chain(&end[..])).unwrap();
    let found = told.assessment.unwrap();
    assert_eq!(found.lines[0].number, count as u64 + 1, "{found:?}");
    assert!(found.lines[0].text.starts_with("rocminfo: "));
}

/// What an assessment puts into a command comes from the log, so it is a plain name.
#[test]
fn names_are_filled_in_and_are_plain() {
    let failures = without_rows();
    let log = "ModuleNotFoundError: No module named 'example; rm'\n";
    let found = assessed(&failures, log).unwrap();
    assert!(found.what.contains("`example`"), "{found:?}");
    let text = "schema = 1\n[kind.a]\nsigns = ['no such part']\nwhat = \"no {name}\"\n";
    let error = parse_failures("a.toml", text).unwrap_err().to_string();
    assert!(error.contains("has no group `name`"), "{error}");
}
