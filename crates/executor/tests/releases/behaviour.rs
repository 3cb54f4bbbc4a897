//! The behaviour of patched trees, checked with this machine's tools instead of the patches'
//! probes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use patcher::{NoProbes, Outcome, Subject, apply};

use crate::archive::{Released, open, patches, releases};

/// Compiles every Python file that patches changed.
pub(crate) fn compile_python(name: &str, outcome: &Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (number, file) in outcome.files.iter().enumerate() {
        if Path::new(file.path.as_str()).extension().is_some_and(|end| end == "py") {
            let path = folder.path().join(format!("{number}.py"));
            std::fs::write(&path, &file.new).unwrap();
            files.push(path);
        }
    }
    if files.is_empty() {
        return;
    }
    let output = Command::new("python3").args(["-m", "py_compile"]).args(&files).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}");
}

fn tree(component: &str, version: &str) -> Released {
    open(&releases(component).into_iter().find(|one| one.version == version).unwrap())
}

fn file(component: &str, version: &str, path: &str) -> Vec<u8> {
    tree(component, version).0.read_file(path).unwrap()
}

/// Returns a file of a release before and after applying this project's patches for `gpu`.
fn before_and_after(component: &str, version: &str, gpu: &str, path: &str) -> [Vec<u8>; 2] {
    let tree = tree(component, version);
    let before = tree.0.read_file(path).unwrap();
    let (gpu, version) = (gpu.parse().unwrap(), version.parse().unwrap());
    let subject = Subject {
        gpu: &gpu,
        version: Some(&version),
        build_env: None,
        is_pristine: true,
        base: &Default::default(),
        receipts: &[],
    };
    let outcome = apply(&patches(component), &subject, &tree, &NoProbes);
    assert!(outcome.ok);
    let changed = outcome.files.into_iter().find(|file| file.path.as_str() == path);
    [before, changed.unwrap().new]
}

/// Returns vLLM's own code after preprocessing, as a HIP compiler for gfx1151 would compile it.
fn preprocessed(source: &[u8]) -> String {
    // The headers of ROCm and PyTorch are not available.
    let lines = String::from_utf8(source.to_vec()).unwrap();
    let is_include = |line: &&str| line.trim_start().starts_with("#include");
    let text: String =
        lines.lines().filter(|line| !is_include(line)).flat_map(|line| [line, "\n"]).collect();
    let mut child = Command::new("g++")
        .args(["-E", "-P", "-w", "-undef", "-x", "c++", "-"])
        .args(["-D__HIPCC__", "-D__gfx1151__", "-D__GFX11__"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || pipe.write_all(text.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_compiler_sees_the_kernels_of_vllm_0_10_2_and_not_their_stubs() {
    let path = "csrc/rocm/attention.cu";
    let [before, after] =
        before_and_after("vllm", "0.10.2", "gfx1151", path).map(|text| preprocessed(&text));
    let stubs = |text: &str| text.matches("assert(false)").count();
    let kernels = |text: &str| text.matches("__builtin_amdgcn_wmma_").count();
    assert_eq!((stubs(&before), kernels(&before)), (3, 0), "before");
    // The remaining one is the MFMA kernel, which no RDNA GPU supports.
    assert_eq!((stubs(&after), kernels(&after)), (1, 2), "after");
}

#[test]
fn cmake_refuses_a_build_for_the_target_alone_until_vllm_0_10_2_is_patched() {
    let utils = file("vllm", "0.10.2", "cmake/utils.cmake");
    let lists = before_and_after("vllm", "0.10.2", "gfx1151", "CMakeLists.txt");
    let told = lists.map(|text| {
        let folder = tempfile::tempdir().unwrap();
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find(|line| line.contains("set(HIP_SUPPORTED_ARCHS")).unwrap();
        let script = format!(
            "cmake_minimum_required(VERSION 3.20)\ninclude(utils.cmake)\n{line}\n\
             override_gpu_arches(arches HIP \"${{HIP_SUPPORTED_ARCHS}}\")\n\
             message(STATUS \"arches: ${{arches}}\")\n"
        );
        std::fs::write(folder.path().join("utils.cmake"), &utils).unwrap();
        std::fs::write(folder.path().join("script.cmake"), script).unwrap();
        let output = Command::new("cmake")
            .args(["-P", "script.cmake"])
            .env("PYTORCH_ROCM_ARCH", "gfx1151")
            .current_dir(folder.path())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    });
    let [(is_built, before), (_, after)] = &told;
    assert!(!is_built && before.contains("gfx1151"), "{before}");
    assert!(after.contains("-- arches: gfx1151\n"), "{after}");
}
