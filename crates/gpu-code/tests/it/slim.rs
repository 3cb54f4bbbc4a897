//! Removing code for other GPUs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_code::{CodeTarget, Slimmed, Spool, slim};
use md5::{Digest as _, Md5};
use names::GpuTarget;

use crate::support::{bundle, fixture, list, names};

fn gpu(name: &str) -> GpuTarget {
    name.parse().unwrap()
}

/// Slims a file for one GPU.
fn slimmed(path: &str, bytes: &[u8], gpu_name: &str) -> Result<Slimmed, String> {
    let gpu = gpu(gpu_name);
    let is_kept = |target: &CodeTarget| target.may_fit(&gpu);
    slim(path, &Spool::from(bytes.to_vec()), &is_kept, None).map_err(|error| error.to_string())
}

fn bytes_of(spool: &Spool) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(spool.size()).unwrap()];
    spool.read_at(0, &mut bytes).unwrap();
    bytes
}

fn rewritten(path: &str, bytes: &[u8], gpu: &str) -> Vec<u8> {
    let found = slimmed(path, bytes, gpu);
    assert!(matches!(found, Ok(Slimmed::Rewritten(_))), "{path}: {found:?}");
    match found {
        Ok(Slimmed::Rewritten(new)) => bytes_of(&new),
        _ => Vec::new(),
    }
}

#[test]
fn each_fixture_keeps_exactly_the_code_of_the_gpu() {
    let mut text = String::new();
    for name in names() {
        let old = fixture(&name);
        match slimmed("x", &old, "gfx1151").unwrap() {
            Slimmed::Unchanged => writeln!(text, "{name}: unchanged\n").unwrap(),
            Slimmed::Removed => writeln!(text, "{name}: removed\n").unwrap(),
            Slimmed::Rewritten(new) => {
                let new = bytes_of(&new);
                writeln!(text, "{name}: {} -> {}\n{}", old.len(), new.len(), list("x", &new))
                    .unwrap();
                assert!(
                    matches!(slimmed("x", &new, "gfx1151").unwrap(), Slimmed::Unchanged),
                    "{name} changes again"
                );
                assert_eq!(new, rewritten("x", &old, "gfx1151"), "{name}");
            }
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_compressed_bundle_says_the_hash_and_the_sizes_as_clang_does() {
    let check = |file: &[u8], plain: &[u8]| {
        let version = file[4];
        let number = |at: usize, width: usize| {
            file[at..at + width].iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte))
        };
        let (total, size, hash) = match version {
            1 => (file.len(), number(8, 4), 12),
            2 => (number(8, 4), number(12, 4), 16),
            _ => (number(8, 8), number(16, 8), 24),
        };
        assert_eq!((total, size), (file.len(), plain.len()), "version {version}");
        assert_eq!(file[hash..hash + 8], Md5::digest(plain)[..8], "version {version}");
    };
    let plain = fixture("plain.hipfb");
    check(&fixture("compressed-zstd-v2.hipfb"), &plain);
    check(&fixture("compressed-zstd-v3.hipfb"), &plain);
    let plain = rewritten("x", &plain, "gfx1151");
    for name in ["zlib-v2", "zlib-v3", "zstd-v2", "zstd-v3"] {
        let new = rewritten("x", &fixture(&format!("compressed-{name}.hipfb")), "gfx1151");
        check(&new, &plain);
    }
}

#[test]
fn code_that_might_run_stays() {
    for (target, fits) in [
        ("gfx1151", true),
        ("gfx1151:xnack-", true),
        ("gfx11-generic", true),
        ("gfx14-generic", true),
        ("amdgcnspirv", true),
        ("gfx1100", false),
        ("gfx1155", false),
        ("gfx10-3-generic", false),
        ("gfx942:xnack+", false),
    ] {
        let target: CodeTarget = target.parse().unwrap();
        assert_eq!(target.may_fit(&gpu("gfx1151")), fits, "{target}");
    }
    // A family of processors, which AOTriton names in a folder.
    for (family, is_removed) in [("gfx11xx", false), ("gfx115x", false), ("gfx120x", true)] {
        let path = format!("aotriton.images/amd-{family}/flash/a.aks2");
        let found = slimmed(&path, b"anything", "gfx1151").unwrap();
        assert_eq!(matches!(found, Slimmed::Removed), is_removed, "{family}: {found:?}");
    }
}

#[test]
fn files_whose_names_say_another_gpu_are_removed_and_damaged_ones_stay() {
    for (path, bytes, wanted) in [
        ("library/TensileLibrary_lazy_gfx942.dat", b"data".as_slice(), "Ok(Removed)"),
        ("library/TensileLibrary_lazy_gfx1151.dat", b"data", "Ok(Unchanged)"),
        ("library/TensileLibrary_fallback.dat", b"data", "Ok(Unchanged)"),
        ("db/gfx90a68.kdb", b"SQLite format 3\0", "Ok(Removed)"),
        ("library/Kernels.so-000-gfx942.hsaco", b"damaged", "not a code object"),
        ("library/Kernels.so-000-gfx942.hsaco", &fixture("gfx1151.co"), "its code is for gfx1151"),
        ("lib/libgfx942.so", &fixture("libhost-only.so"), "Ok(Unchanged)"),
    ] {
        let found = format!("{:?}", slimmed(path, bytes, "gfx1151"));
        assert!(found.contains(wanted), "{path}: {found}");
    }
    let mut cut = fixture("libhost-two-bundles.so");
    cut.truncate(20_000);
    assert!(slimmed("x", &cut, "gfx1151").is_err());
}

#[test]
fn entries_of_other_vendors_and_of_the_host_stay() {
    let code = fixture("gfx942-xnack_on.co");
    let file = bundle(&[
        ("host-x86_64-unknown-linux-gnu-", b"host code"),
        ("hip-nvptx64-nvidia-cuda--sm_90", b"other code"),
        ("hipv4-amdgcn-amd-amdhsa--gfx942", &code),
    ]);
    let new = rewritten("x", &file, "gfx1151");
    let text = String::from_utf8_lossy(&new).into_owned();
    assert!(text.contains("host code") && text.contains("other code"), "{text}");
    assert!(new.len() < file.len() - code.len());
}

/// Compiles C with `cc`, which Rust uses as its linker.
fn compile(folder: &Path, arguments: &[&str]) {
    let status = Command::new("cc").args(arguments).current_dir(folder).status().unwrap();
    assert!(status.success(), "{arguments:?}");
}

/// Compiles the program that loads libraries.
fn loader(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/loader.c");
    compile(folder, &["-w", "-rdynamic", source.to_str().unwrap(), "-o", "loader", "-ldl"]);
    folder.join("loader")
}

/// Returns what the loader prints about a library.
fn loaded(loader: &Path, library: &Path) -> String {
    let output = Command::new(loader).arg(library).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {text}", library.display());
    text
}

/// Slims a library in a folder, and checks that a program that loads it finds the code for gfx1151
/// and sees the same memory as before. Returns the sizes before and after.
fn check_library(folder: &Path, name: &str) -> (usize, usize) {
    let loader = loader(folder);
    let path = folder.join(name);
    let before = loaded(&loader, &path);
    let old = std::fs::read(&path).unwrap();
    let new = rewritten(name, &old, "gfx1151");
    std::fs::write(&path, &new).unwrap();
    let after = loaded(&loader, &path);
    // The new file has one more segment, which is also readable.
    let lines = |text: &str| -> Vec<String> {
        let is_kept = |line: &&str| !line.contains("gfx1100") && !line.starts_with("readable");
        text.lines().filter(is_kept).map(str::to_owned).collect()
    };
    let readable = |text: &str| -> u64 {
        text.lines().find_map(|line| line.strip_prefix("readable ")?.parse().ok()).unwrap()
    };
    assert!(before.contains("gfx1151") || before.contains("compressed"), "{before}");
    assert_eq!(lines(&after), lines(&before));
    assert!(readable(&after) >= readable(&before));
    (old.len(), new.len())
}

#[test]
fn libraries_that_clang_made_load_as_before() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["libhost-two-bundles.so", "libhost-two-bundles-compressed.so"] {
        std::fs::write(folder.path().join(name), fixture(name)).unwrap();
        let (old, new) = check_library(folder.path(), name);
        assert!(new <= old, "{name}: {old} -> {new}");
    }
}

/// Writes the assembly of a section with bundles for two GPUs, each registered when the library is
/// loaded. The code objects have `pages` pages.
fn assembly(folder: &Path, count: usize, pages: usize) {
    let pad = |name: &str| {
        let mut code = fixture(name);
        code.resize(pages * 4096, 0x5a);
        code
    };
    let (mine, mut other) = (pad("gfx1151.co"), pad("gfx1151.co"));
    // `e_flags` of gfx1100.
    other[48] = 0x41;
    let file = bundle(&[
        ("host-x86_64-unknown-linux-gnu-", b""),
        ("hipv4-amdgcn-amd-amdhsa--gfx1100", &other),
        ("hipv4-amdgcn-amd-amdhsa--gfx1151", &mine),
        ("hipv4-amdgcn-amd-amdhsa--gfx1100:xnack-", &other),
    ]);
    std::fs::write(folder.join("bundle"), file).unwrap();
    let mut text = ".section .hip_fatbin,\"a\"\n".to_owned();
    for number in 0..count {
        writeln!(text, ".p2align 12\nb{number}: .incbin \"bundle\"").unwrap();
    }
    text += ".section .hipFatBinSegment,\"aw\"\n.p2align 3\n.globl wrappers\n.hidden wrappers\nwrappers:\n";
    for number in 0..count {
        writeln!(text, ".long 0x48495046, 1\n.quad b{number}, 0").unwrap();
    }
    text += ".section .note.GNU-stack,\"\"\n";
    std::fs::write(folder.join("fat.s"), text).unwrap();
    let code = format!(
        "struct w {{ unsigned a, b; void *c, *d; }}; extern struct w wrappers[];
         void *__hipRegisterFatBinary(void *);
         static int zeros[5000], count = 41; static __thread int local = 1;
         int answer(void) {{ return count + local + zeros[4999]; }}
         __attribute__((constructor)) static void start(void) {{
             for (int i = 0; i < {count}; i++) __hipRegisterFatBinary(&wrappers[i]);
         }}"
    );
    std::fs::write(folder.join("host.c"), code).unwrap();
}

#[test]
fn libraries_of_every_layout_shrink_and_load_as_before() {
    let folder = tempfile::tempdir().unwrap();
    for (count, pages, arguments) in [
        (1, 2, &[][..]),
        (3, 3, &["-Wl,-z,noseparate-code"]),
        (40, 2, &["-Wl,-z,max-page-size=65536"]),
        // More bundles than the maximum number of segments.
        (1100, 1, &["-g"]),
        (5, 2, &["-Wl,-z,max-page-size=2097152", "-Wl,-z,relro,-z,now"]),
        (5, 20, &["-s"]),
    ] {
        assembly(folder.path(), count, pages);
        let all = [&["-w", "-fPIC", "-shared", "-o", "libfat.so", "host.c", "fat.s"], arguments];
        compile(folder.path(), &all.concat());
        let (old, new) = check_library(folder.path(), "libfat.so");
        // Two of the three code objects in each bundle are removed; up to a page of them may
        // remain.
        let most = old - count.min(900) * (2 * pages - 1) * 4096 + 65536;
        assert!(new < most, "{count} bundles of {pages} pages: {old} -> {new}, not {most}");
    }
}

#[test]
fn a_program_keeps_its_size_and_runs_as_before() {
    let folder = tempfile::tempdir().unwrap();
    assembly(folder.path(), 3, 2);
    let main =
        "int answer(void); void *__hipRegisterFatBinary(void *wrapper) { static int n; return &n; }
                int main(void) { return answer(); }";
    std::fs::write(folder.path().join("main.c"), main).unwrap();
    for kind in ["-pie", "-no-pie"] {
        compile(folder.path(), &["-w", kind, "-o", "program", "host.c", "main.c", "fat.s"]);
        let path = folder.path().join("program");
        let old = std::fs::read(&path).unwrap();
        let new = rewritten("program", &old, "gfx1151");
        assert_eq!(new.len(), old.len(), "{kind}");
        std::fs::write(&path, &new).unwrap();
        assert_eq!(Command::new(&path).status().unwrap().code(), Some(42), "{kind}");
        let targets = list("program", &new);
        assert!(targets.contains("gfx1151") && !targets.contains("gfx1100"), "{targets}");
    }
}

#[test]
fn slimming_damaged_files_never_panics() {
    use testkit::gate_cases;
    for name in ["libhost-two-bundles.so", "two-mixed.hipfb", "libobjcopy-two-zstd-v1.so"] {
        let old = fixture(name);
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..gate_cases(400, 4000) {
            let mut bytes = old.clone();
            for _ in 0..3 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = usize::try_from(random >> 33).unwrap() % bytes.len();
                bytes[at] = random.to_le_bytes()[3];
            }
            if let Ok(Slimmed::Rewritten(new)) = slimmed("x", &bytes, "gfx1151") {
                assert!(new.size() <= bytes.len() as u64 + 4096, "{name} grew");
            }
        }
    }
}
