//! What answers say: causes and advice that fit the log, and lines of it.

use pins::Known;

use crate::failures::{FAILING, catalogue, logs, names};

/// Windows has no /dev/kfd, and llama.cpp uses neither MIOpen nor amdsmi.
#[test]
fn causes_and_advice_fit_the_program_and_the_system() {
    let failures = catalogue();
    for (name, foreign) in [
        ("no-hip-gpu-windows", &["/dev/", "amdsmi", "group"][..]),
        ("no-hip-gpu", &["amdsmi"]),
        ("packet-rejected", &["MIOpen", "topk_softmax"]),
        ("llama-launch-failure", &["MIOpen", "topk_softmax"]),
        // Older releases print the same message.
        ("ollama-discovery", &["0.18"]),
        // The program has no Python packages.
        ("gpu-code-rejected", &["kpack", "torch"]),
        // The model is not too large.
        ("gpu-stream-failed", &["smaller", "limit"]),
        ("llama-invalid-argument", &["torch", "OVERRIDE"]),
        ("zluda-dll-failed", &["/dev/", "export"]),
        ("directml-suspended", &["/dev/", "export"]),
        ("windows-driver-timeout", &["dmesg", "export"]),
        // Another ROCm release does not help against these.
        ("gpu-hardware-error", &["ROCm", "linux-firmware"]),
        ("display-frozen", &["ROCm"]),
        // These libraries are in another folder.
        ("rocm-sysdeps-missing", &["core-X.Y"]),
    ] {
        let (_, log) = *logs(FAILING).iter().find(|(one, _)| *one == name).unwrap();
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        let text = format!("{} {}", found[0].cause, found[0].fix.join(" "));
        for word in foreign {
            assert!(!text.contains(word), "{name}: {text}");
        }
    }
}

/// Only Strix Halo has the firmware and the registers that these failures name, and only RX 9000
/// has the bug in hipBLASLt. Some advice is for one program or one kind of log.
#[test]
fn advice_for_one_gpu_says_for_which() {
    let failures = catalogue();
    for (name, advice, gpu) in [
        ("page-fault-in-kernel-log", "linux-firmware 20260110", "if the GPU is a Strix Halo: "),
        ("page-fault-in-kernel-log", "TORCH_BLAS_PREFER_HIPBLASLT=0", "if the GPU is a Radeon RX "),
        ("memory-access-fault", "TORCH_BLAS_PREFER_HIPBLASLT=0", "if the GPU is a Radeon RX "),
        ("gpu-init-failed", "mem_encrypt=off", "if the log says `SME is active`: "),
        ("miopen-invalid-time", "WINOGRAD_FURY", "if the GPU is a Strix Halo: "),
        ("gpu-resume-failed", "amdgpu.runpm=0", "if only the GPU was suspended "),
        ("kfd-missing", "CONFIG_HSA_AMD", "Kubernetes: "),
        ("no-such-wheel", "which also have wheels for Windows", "Windows: "),
        ("hip-unclear-error", "dmesg", "Linux: "),
        ("hip-unclear-error", "Adrenalin", "Windows: "),
        ("driver-for-another-kernel", "linux-modules-extra", "install all updates "),
    ] {
        let (_, log) = *logs(FAILING).iter().find(|(one, _)| *one == name).unwrap();
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        let line = found[0].fix.iter().find(|line| line.contains(advice));
        assert!(line.is_some_and(|line| line.starts_with(gpu)), "{name}: {line:?}");
    }
}

/// What is said of a list, a group or an image needs a log that has it.
#[test]
fn nothing_is_said_of_what_the_log_lacks() {
    let failures = catalogue();
    let rocblas = "rocBLAS error: Cannot read /a/TensileLibrary.dat: No such file or directory for \
                   GPU arch : gfx906\n";
    let list = format!("{rocblas} List of available TensileLibrary Files : \n");
    let library = "llama-run: error while loading shared libraries: libhipblas.so.2: cannot open \
                   shared object file: No such file or directory\n";
    let container = format!("exec_cmd: podman run --rm a llama-run\n{library}");
    let dkms = "Loading new amdgpu-6.10 DKMS files...\nError! Bad return status for module build \
                on kernel: 6.14\n";
    let image = dkms.replace("Loading", "64.38 Loading");
    let kernel = "ROCm error: invalid device function\n".to_owned();
    for (log, text, is_said) in [
        (rocblas, "if the list", false),
        (&list, "if the list", true),
        (rocblas, "gfx906: ", true),
        (library, "In a container: ", false),
        (&container, "In a container: ", true),
        (dkms, "sudo apt purge", true),
        (&image, "sudo apt purge", false),
        (&kernel, "gfx1200 and gfx1201: ", false),
        (&format!("gfx1201\n{kernel}"), "gfx1200 and gfx1201: ", true),
        (&format!("C:/actions-runner/llmster/a.cu\n{kernel}"), "LM Studio: ", true),
        (&kernel, "LM Studio: ", false),
    ] {
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        let says = found[0].fix.iter().any(|line| line.starts_with(text));
        assert_eq!(says, is_said, "{text} in {log}");
    }
}

/// The log shows a GPU, a program or a system: advice and reasons for others are left out.
#[test]
fn advice_and_reasons_are_for_the_log() {
    let failures = catalogue();
    let told = |log: &str| {
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        format!("{} {}", found[0].cause, found[0].fix.join(" "))
    };
    let fault = "Memory access fault by GPU node-1 (Agent handle: 0x5)";
    for (log, with, without) in [
        (fault, &["R9700: ", "wrong HSA"][..], &["Strix Halo: "][..]),
        ("gfx1151 : 0\n", &[". Strix Halo: "], &["R9700: ", "the GPU is a Strix"]),
        ("Device 0: AMD Radeon RX 7900 XT, gfx1100\n", &[], &["Strix Halo: ", "R9700: "]),
        ("Device 0: AMD Radeon RX 9070 XT\n", &["R9700: "], &["Strix Halo: "]),
        // A list of targets does not show the GPU.
        ("PYTORCH_ROCM_ARCH=gfx1030;gfx1100\n", &["R9700: "], &["Strix Halo: "]),
    ] {
        let log = if log == fault { log.to_owned() } else { format!("{log}{fault}") };
        let text = told(&log);
        assert!(with.iter().all(|word| text.contains(word)), "{log}: {text}");
        assert!(!without.iter().any(|word| text.contains(word)), "{log}: {text}");
    }
    let failed = "gfx1100 \nHIP error: invalid device function";
    assert!(!told(failed).contains("bitsandbytes"));
    assert!(told(&format!("{failed} at bitsandbytes/csrc/ops.hip:89")).contains("bitsandbytes: "));
    // What helps only in the build of an image.
    let empty =
        "CMake Error: The source directory \"/app\" does not appear to contain CMakeLists.txt.\n";
    let step =
        "ERROR: failed to solve: process \"cmake .\" did not complete successfully: exit code: 1";
    assert!(!told(empty).contains("Image builds: "));
    assert!(told(&format!("{empty}{step}")).contains("Image builds: "));
}

/// A log in which nothing names a GPU shows a failure only on a machine with an AMD GPU.
#[test]
fn a_log_that_names_no_gpu_has_a_possible_failure() {
    let failures = catalogue();
    let names = |log: &str| {
        let told = failures.diagnose(log.as_bytes()).unwrap();
        let names = |all: &[host::failures::Diagnosis<'_>]| -> Vec<String> {
            all.iter().map(|one| one.failure.name.clone()).collect()
        };
        (names(&told.found), names(&told.possible))
    };
    let name = vec!["torch-finds-no-cuda-gpu".to_owned()];
    let excerpt = "RuntimeError: No CUDA GPUs are available\n";
    assert_eq!(names(excerpt), (Vec::new(), name));
    assert_eq!(names(&format!("NVIDIA GeForce RTX 4090\n{excerpt}")), (Vec::new(), Vec::new()));
    // Another failure that is certain comes first.
    let (found, possible) = names(&format!("{excerpt}no space left on device\n/opt/rocm\n"));
    assert!(!found.is_empty() && possible.is_empty(), "{found:?} {possible:?}");
}

/// A line that a possible failure explains is not shown again as an error without a cause.
#[test]
fn a_line_of_a_possible_failure_is_not_quoted_again() {
    let failures = catalogue();
    let quoted = |log: &str| {
        let told = failures.diagnose(log.as_bytes()).unwrap();
        assert_eq!(told.possible.len(), 1, "{log}");
        let lines: Vec<u64> = told.errors.lines.iter().map(|line| line.number).collect();
        (told.errors.count, lines)
    };
    let driver = "Error response from daemon: could not select device driver \"nvidia\" with capabilities: [[gpu]]\n";
    let other = "ERROR: the service did not start\n";
    assert_eq!(quoted(driver), (0, vec![]));
    assert_eq!(quoted(&format!("{driver}{other}")), (1, vec![2]));
    assert_eq!(quoted(&format!("{other}{driver}")), (1, vec![1]));
}

/// A full disk is a full disk on every machine, and the names of pip's packages show no GPU.
#[test]
fn a_failure_that_has_nothing_to_do_with_the_gpu_is_found_in_every_log() {
    let failures = catalogue();
    for (line, name) in [
        ("OSError: [Errno 28] No space left on device: '/root/blob'", "disk-full"),
        ("x.c:1:10: fatal error: Python.h: No such file or directory", "python-headers-missing"),
        (
            "ImportError: libGL.so.1: cannot open shared object file: No such file",
            "opencv-library-missing",
        ),
        (
            "RuntimeError: DataLoader worker (pid 1) is killed by signal: Bus error.",
            "shared-memory-too-small",
        ),
        (
            "permission denied while trying to connect to the Docker daemon socket",
            "docker-not-reached",
        ),
        (
            "fatal: unable to access 'https://x.org/nvidia/a.git/': Could not resolve host: x.org",
            "download-server-not-reached",
        ),
    ] {
        for gpu in ["", "NVIDIA GeForce RTX 4070\n", "gfx1151 \n", "nvidia-cublas-cu12==12.1\n"] {
            assert_eq!(names(&failures, format!("{gpu}{line}").as_bytes()), [name], "{gpu}{line}");
        }
    }
    let lost = "terminate called after throwing an instance of 'vk::DeviceLostError'";
    assert_eq!(names(&failures, lost.as_bytes()), ["vulkan-device-lost"]);
    let foreign = format!("ggml_vulkan: 0 = NVIDIA GeForce RTX 4070\n{lost}");
    assert_eq!(names(&failures, foreign.as_bytes()), [""; 0]);
}

/// A terminal cuts a line anywhere; PowerShell prefers a space, and leaves it there.
#[test]
fn a_log_that_a_terminal_wrapped_is_joined() {
    let failures = catalogue();
    let log = "building the application now\nfailed to connect to the \ndocker API at npipe:////./pip\n\
        e/dockerDesktopLinuxEngine; \ncheck if the path is correct \nand if the daemon is runnings\n\
        now: ab";
    let told = failures.diagnose(log.as_bytes()).unwrap();
    let found: Vec<_> =
        told.found.iter().map(|one| (&*one.failure.name, one.lines[0].number)).collect();
    assert_eq!((found, told.lines), (vec![("docker-not-reached", 2)], 7));
    // These lines are not wrapped: each has another length.
    let log =
        "failed to connect to the\ndocker API at npipe:////./pip\ne/dockerDesktopLinuxEngine;";
    assert_eq!(names(&failures, log.as_bytes()), [""; 0]);
}

/// What the log says about itself: the fault of the power controller, a reset that failed, a driver
/// that is no longer developed, the name of the kernel.
#[test]
fn an_answer_uses_what_the_log_tells() {
    let failures = catalogue();
    let gpu = "amdgpu 0000:03:00.0: amdgpu: ";
    let smu = format!("{gpu}SMU: I'm not done with your previous command: SMN_C2PMSG_66:0x1\n");
    let ring = format!("{gpu}ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3\n");
    let mes = format!("{gpu}MES failed to respond to msg=RESET\n");
    let reset = format!("{gpu}GPU reset end with ret = -110\n");
    let fault = |vmid| format!("{gpu}[gfxhub] page fault (src_id:0 ring:40 vmid:{vmid} pasid:0)\n");
    let (driver, program) = (fault(0), fault(5));
    let process = format!("{gpu} Process my-game pid 12 thread my-game:cs0 pid 13\n");
    let lost = "terminate called after throwing an instance of 'vk::DeviceLostError'\n";
    let fit = "llama_params_fit_impl: projected to use 900 MiB of device memory\n\
        llama_params_fit: failed to fit params to free device memory: n_gpu_layers already set by user\n";
    let trap = "aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation failed\n";
    for (log, name, with, without, lines) in [
        (format!("{smu}{mes}"), "mes-timeout", "SMU", "no text", &[2, 1][..]),
        (mes.clone(), "mes-timeout", "firmware", "SMU", &[1]),
        (format!("{mes}{driver}"), "mes-timeout", "fault with vmid:0", "no text", &[1]),
        (format!("{driver}{mes}"), "page-fault-of-driver", "no program was", "`Process`", &[1]),
        (format!("{driver}{ring}"), "page-fault-of-driver", "no program was", "`Process`", &[1]),
        (format!("{ring}{driver}"), "ring-timeout", "in time", "`Process`", &[1]),
        (program.clone(), "page-fault-in-kernel-log", "a program", "`Process`", &[1]),
        (
            format!("{program}{process}"),
            "page-fault-in-kernel-log",
            "`Process`",
            "no text",
            &[1, 2],
        ),
        (driver.clone(), "page-fault-of-driver", "no program was the reason", "`Process`", &[1]),
        (format!("{ring}{process}"), "ring-timeout", "`Process` names", "-ub 256", &[1, 2]),
        (format!("{ring}{reset}"), "ring-timeout", "The reset failed: ", "Only a queue", &[1, 2]),
        (
            format!("{ring}{gpu}Ring gfx_0.0.0 reset succeeded\n"),
            "ring-timeout",
            "Only a queue",
            "The reset",
            &[1],
        ),
        (
            format!("ggml_vulkan: 0 = AMD (AMD open-source driver)\n{lost}"),
            "vulkan-device-lost",
            "RADV",
            "Mesa: ",
            &[2],
        ),
        (
            format!("ggml_vulkan: 0 = AMD (RADV GFX1151)\n{lost}"),
            "vulkan-device-lost",
            "Mesa: ",
            "AMDVLK",
            &[2],
        ),
        (
            format!("{fit}radv/amdgpu: Not enough memory for command submission.\n"),
            "vulkan-out-of-memory",
            "smaller",
            "-ngl 9",
            &[3, 1],
        ),
        (
            format!("Kernel Name: flash_attn_tile\n{trap}"),
            "gpu-kernel-trapped",
            "-fa off",
            "does not say",
            &[2, 1],
        ),
    ] {
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        let text = format!("{} {}", found[0].cause, found[0].fix.join(" "));
        let numbers: Vec<u64> = found[0].lines.iter().map(|line| line.number).collect();
        assert_eq!((found.len(), &*found[0].failure.name, &*numbers), (1, name, lines), "{log}");
        assert!(text.contains(with) && !text.contains(without), "{log}: {text}");
    }
}

/// Whatever a log shows, some advice is left.
#[test]
fn every_failure_has_advice_for_every_log() {
    let failures = catalogue();
    let leftover = "/var/lib/dkms/amdgpu/6.1/source/dkms.conf does not exist\nWinError 3\n";
    assert_eq!(failures.diagnose(leftover.as_bytes()).unwrap().found[0].fix.len(), 2);
    for other in ["podman", "docker run", "ollama", "paravirtualized kernel on bare hardware"] {
        for (name, log) in logs(FAILING) {
            let foreign = "\n".repeat(400) + "WinError .exe\n/opt/rocm\nRadeon RX 7900 gfx1100 \n";
            let foreign = foreign + other + "\n";
            let found = failures.diagnose(format!("{log}{foreign}").as_bytes()).unwrap().found;
            let one = found.iter().find(|one| one.failure.name == name);
            // The first line continues no other one.
            let first = one.map(|one| one.fix.first().map_or("or nothing", String::as_str));
            assert!(first.is_none_or(|line| !line.starts_with("or ")), "{name} {other}");
        }
    }
}

/// Excerpts of kernel logs rarely show that they come from a virtual machine.
#[test]
fn advice_stays_if_the_log_does_not_rule_it_out() {
    let failures = catalogue();
    let log = "amdgpu 0000:01:00.0: amdgpu: PSP create ring failed!\n\
        amdgpu 0000:01:00.0: amdgpu: PSP firmware loading failed\n";
    for (start, is_shown) in [
        ("", true),
        ("Hypervisor detected: KVM\n", true),
        ("Booting paravirtualized kernel on KVM\n", true),
        ("Booting paravirtualized kernel on bare hardware\n", false),
        ("DMI: Framework Desktop (AMD Ryzen AI Max 300 Series)/FRANMFCP06\n", false),
    ] {
        let log = format!("{start}{log}");
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        assert_eq!(found[0].failure.name, "gpu-firmware-not-started");
        let is_told = found[0].fix.iter().any(|line| line.starts_with("virtual machine: "));
        assert_eq!(is_told, is_shown, "{start}");
    }
}

/// Of a page fault, a ring that hangs and a scheduler that does not answer, the first is the cause.
#[test]
fn the_first_event_of_the_kernel_is_the_cause() {
    let failures = catalogue();
    let events = [
        ("page-fault-in-kernel-log", "[gfxhub] page fault (src_id:0 ring:24 vmid:7 pasid:9)"),
        ("ring-timeout", "ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3"),
        ("mes-timeout", "MES(1) failed to respond to msg=REMOVE_QUEUE"),
    ];
    for (name, first) in events {
        for (other, second) in events.iter().filter(|(other, _)| *other != name) {
            let log = |lines: usize| {
                let gap = "\n".repeat(lines);
                format!("amdgpu 0000:08:00.0: {first}{gap}amdgpu 0000:08:00.0: {second}")
            };
            assert_eq!(names(&failures, log(100).as_bytes()), [name], "{second}");
            assert_eq!(names(&failures, log(301).as_bytes()), [name, *other], "{second}");
        }
        let all = events.iter().cycle().skip_while(|(one, _)| *one != name).take(3);
        let log: String = all.map(|(_, text)| format!("amdgpu 0000:08:00.0: {text}\n")).collect();
        assert_eq!(names(&failures, log.as_bytes()), [name], "{log}");
    }
}

/// Users have no files of this project's source, a sentence does not point at another one, and what
/// is not known is not confirmed.
#[test]
fn every_sentence_stands_alone() {
    let failures = catalogue();
    let mut wrong = Vec::new();
    for (name, log) in logs(FAILING) {
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        for failure in found.iter().map(|one| one.failure).filter(|one| one.name == name) {
            let texts = || failure.fix.iter().chain(&failure.reasons).chain([&failure.cause]);
            let is_wrong = |text: &&String| {
                text.contains("versions/")
                    || text.contains("is shown above")
                    || text.starts_with("Other GPUs: ")
                    || text.contains("; docker: ") && text.starts_with("podman: ")
                    || text.contains("; podman: ") && text.starts_with("docker: ")
                    || text.contains("eval \"$(") && !text.starts_with("eval ")
            };
            wrong.extend(texts().find(is_wrong).map(|text| format!("{name}: {text}")));
            let is_confirmed = matches!(failure.known, Known::Vendor | Known::Maintainer);
            let is_open = texts().any(|text| text.to_lowercase().contains("no single cause"));
            wrong.extend((is_confirmed && is_open).then(|| format!("{name}: known")));
        }
    }
    wrong.sort();
    wrong.dedup();
    assert_eq!(wrong, [""; 0]);
}

/// Options and commands of one program, engine or system are of no use in the log of another one.
#[test]
fn advice_is_for_the_program_of_the_log() {
    let failures = catalogue();
    let buffer = "ggml_vulkan: Requested buffer size exceeds device buffer size limit: Error\n";
    let trap = "HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception";
    let image = "ROCm error: device kernel image is invalid\n";
    let full =
        "writing blob: write /var/tmp/container_images_storage1/5: no space left on device\n";
    for (log, with, without) in [
        (format!("{buffer}llama-server\n"), "--n-cpu-moe", "num_ctx"),
        (format!("{buffer}level=INFO source=runner.go:1 msg=load\n"), "num_ctx", "--n-cpu-moe"),
        (format!("{trap}\naten/src/ATen/hip/impl.h: HIP warning: a\n"), "Assertion", "llama.cpp"),
        (format!("{trap}\nggml_cuda_compute_forward\n"), "llama.cpp: ", "no text"),
        (format!("{image}D:/a/llama.cpp/ggml-cuda.cu:106\n"), "Vulkan", "eval "),
        (format!("{image}/opt/rocm/lib\n"), "eval ", "Windows: "),
        (format!("podman build\n{full}"), "image_copy_tmp_dir", "docker"),
        ("docker run a\nno space left on device\n".to_owned(), "data-root", "podman"),
        (
            "torch 2.10.0+rocm7.1\noperator torchvision::nms does not exist".to_owned(),
            "0.25",
            "c.toml",
        ),
    ] {
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        let text = found[0].fix.join("\n");
        assert!(text.contains(with) && !text.contains(without), "{log}: {text}");
    }
}

/// The same message has another answer if its own numbers, or a second line, say so.
#[test]
fn the_numbers_of_a_message_decide() {
    let failures = catalogue();
    let memory = |wanted: &str, free: &str| {
        format!(
            "torch.OutOfMemoryError: HIP out of memory.\nTried to allocate {wanted}. GPU 0 has a \
             total capacity of 96.00 GiB of which {free} is free.\nThe rest is allocated by PyTorch."
        )
    };
    let dkms = "Setting up amdgpu-dkms (1:6.1)\n\
        Error! Bad return status for module build on kernel: 6.12.1 (x86_64)\n";
    let hsa = ":1:rocdevice.cpp :478 : 1 us: hsa_init failed with ";
    let full =
        "Call returned HSA_STATUS_ERROR_OUT_OF_RESOURCES: failed to allocate the resources\n";
    let operator = "worker.go:76] \"kmm-worker\"\ncmdlog.go:70] \"modprobe: ERROR: amd-gpu ";
    let xla = "xla_rocm: Could not load RepeatBufferKernel: hipError_t(98)\n";
    let tensile = "rocBLAS error: Cannot read C:\\Program Files\\AMD\\TensileLibrary.dat: No such file \
        or directory for GPU arch : gfx1036";
    let blas = "rocblaslt error: Cannot read \"TensileLibrary_lazy_gfx1101.dat\": No error\n\
        RuntimeError: HIPBLAS_STATUS_INVALID_VALUE\n";
    for (log, name, with, without) in [
        (memory("26.00 MiB", "13.60 GiB"), "gpu-memory-refused", "not full", "smaller"),
        (memory("66.00 GiB", "10.60 GiB"), "gpu-out-of-memory", "efficient attention", "llama.cpp"),
        (memory("2.00 GiB", "1.60 GiB"), "gpu-out-of-memory", "smaller", "efficient attention"),
        (dkms.to_owned(), "dkms-build", "if you need AMD's driver", "build of an image: "),
        (
            format!("{dkms}It is likely that 6.1.12 belongs to a chroot's host\n"),
            "dkms-build",
            "build of an image: ",
            "if you need AMD's driver",
        ),
        (format!("$ rocminfo\n{full}"), "hsa-out-of-resources", "device nodes", "no text"),
        (
            format!("ggml_cuda_init: found 1 ROCm devices\n{full}"),
            "hsa-out-of-resources",
            "restart",
            "device nodes",
        ),
        (format!("{hsa}1008"), "hsa-init-failed", "OUT_OF_RESOURCES", "compose"),
        (format!("docker compose up\n{hsa}1000"), "hsa-init-failed", "compose: ", "1008"),
        (
            format!("{operator}path=/a.ko.zst error=No such file or directory\""),
            "gpu-operator-driver-not-loaded",
            "`No such file`",
            "`Key was rejected`",
        ),
        (
            "netavark: iptables failed: Table does not exist (do you need to insmod?)".to_owned(),
            "container-network-rules",
            "`Table does not exist`",
            "`No chain",
        ),
        (xla.to_owned(), "xla-autotuning", "has no code", "several processes"),
        (tensile.to_owned(), "rocblas-on-small-igpu", "Device Manager", "eval"),
        (blas.to_owned(), "hipblaslt-no-library", "set DISABLE_ADDMM_CUDA_LT=1", "export"),
    ] {
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        let names: Vec<&str> = found.iter().map(|one| one.failure.name.as_str()).collect();
        assert_eq!(names, [name], "{log}");
        let text = format!("{} {}", found[0].cause, found[0].fix.join(" "));
        assert!(text.contains(with) && !text.contains(without), "{log}: {text}");
    }
}

/// An answer that says what to ignore is no failure.
#[test]
fn what_a_working_system_writes_is_harmless() {
    let failures = catalogue();
    let wait =
        "amdgpu 0000:03:00.0: [drm] REG_WAIT timeout 1us * 150000 tries - optc401_disable_crtc";
    let told = failures.diagnose(wait.as_bytes()).unwrap();
    assert!(!told.has_failure() && told.found.len() == 1);
    for (name, log) in logs(FAILING) {
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        let Some(one) = found.iter().find(|one| one.failure.name == name) else { continue };
        let first = one.fix[0].split(':').next().unwrap_or_default();
        let is_ignored = one.fix[0].starts_with("ignore it") || first == "if everything works";
        assert!(one.failure.is_harmless || !is_ignored, "{name}");
    }
}

/// Advice for another kind of message is left out; advice for the program of the log comes first.
#[test]
fn what_the_lines_and_the_program_confirm_comes_first() {
    let failures = catalogue();
    let dockerfile = "dockerfile parse error on line 3: unknown instruction: EOF\n";
    let fault = "Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x2. \
        Reason: Page not present or supervisor privilege.\n";
    let device = "HIP error: invalid device function\n";
    for (log, first, without) in [
        (dockerfile.to_owned(), "`unknown instruction` ", "`no FROM statement`"),
        (format!("{fault}SGLang of a Radeon gfx1100\n"), "SGLang: ", "vLLM: "),
        (format!("{device}SGLang of an AMD Instinct MI300X\n"), "build-pipeline ", "SGLang: "),
        (format!("{fault}AMD Instinct MI300X\n"), "build-pipeline ", "Strix"),
        (format!("{fault}HSA_OVERRIDE_GFX_VERSION=10.3.0\n"), "unset HSA", "SGLang: "),
        (format!("{device}llama.cpp\n"), "build-pipeline ", "gfx90c"),
        (format!("{device}Name: gfx803 \n"), "Polaris", "Strix"),
        (
            "Cannot connect to the Docker daemon at unix:///run/docker.sock\n".to_owned(),
            "`Docker daemon at unix`",
            "`permission",
        ),
        (
            "failed to connect to the docker API at npipe:////./pipe/dockerDesktopLinuxEngine\n"
                .to_owned(),
            "`docker_engine`",
            "sudo",
        ),
    ] {
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        let fix = &found[0].fix;
        assert!(fix[0].starts_with(first), "{log}: {fix:?}");
        assert!(!fix.iter().any(|line| line.starts_with(without)), "{log}: {fix:?}");
    }
    // Nothing is left out if the lines contain no quote.
    let log = "failed to solve: dockerfile parse error on line 3: FROM requires one argument\n";
    let found = failures.diagnose(log.as_bytes()).unwrap().found;
    let all = found.iter().filter(|one| one.failure.name == "dockerfile-refused");
    assert!(all.clone().all(|one| one.fix.len() == one.failure.fix.len()), "{found:?}");
}

/// Windows has neither `export` nor the commands of Linux.
#[test]
fn windows_gets_no_commands_of_linux() {
    let failures = catalogue();
    let commands = ["export ", "ls -", "ls /", "sudo ", "cat /", "ldd ", "rm -", "grep ", "apt"];
    let windows = "C:\\Users\\a\\venv\\Scripts\\python.exe main.py\r\n";
    let mut wrong = Vec::new();
    for (name, log) in logs(FAILING) {
        let found = failures.diagnose(format!("{windows}{log}").as_bytes()).unwrap().found;
        for one in found.iter().filter(|one| one.failure.name == name) {
            // Where nothing else is known, the advice for Linux is better than none.
            let is_command = |line: &String| commands.iter().any(|one| line.starts_with(one));
            let is_for_both = one.failure.fix.iter().any(|line| !is_command(line));
            let linux = [
                "/opt/", "/dev/", "/usr/", "/home/", "amdgpu", "kfd", "ROCk", "WSL", "gfxhub",
                "render",
            ];
            let is_linux = linux.iter().any(|sign| log.contains(sign));
            let shown = one.fix.iter().find(|line| is_command(line));
            let shown = shown.filter(|_| is_for_both && !is_linux);
            wrong.extend(shown.map(|line| format!("{name}: {line}")));
        }
    }
    assert_eq!(wrong, [""; 0]);
}
