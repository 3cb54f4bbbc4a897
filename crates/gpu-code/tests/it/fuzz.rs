//! Fuzzes all formats: no input causes a panic, and no object is outside its file.

use testkit::{Corpus, fuzz};

use crate::support::{fixture, names, objects};

/// Bytes that have a meaning in these files.
const WORDS: [&[u8]; 22] = [
    b"__CLANG_OFFLOAD_BUNDLE__",
    b"CCOB",
    b"CCOB\x01\0\x01\0",
    b"CCOB\x02\0\0\0",
    b"CCOB\x03\0\x01\0",
    b"\x7fELF\x02\x01\x01",
    b"KPAK\x01\0\0\0",
    b".hip_fatbin\0",
    b"host-x86_64-unknown-linux-gnu-",
    b"hipv4-amdgcn-amd-amdhsa--gfx1151",
    b":xnack+",
    b"gfx11-generic",
    b"\x28\xb5\x2f\xfd",
    b"\x78\xda",
    b"\xe0\0",
    b"\0\0\0\0\0\0\0\0",
    b"\x01\0\0\0\0\0\0\0",
    b"\0\x10\0\0\0\0\0\0",
    b"\0\0\0\0\0\0\0\x80",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xf0\xff\xff\xff\xff\xff\xff\xff",
];

/// Scans changed inputs. Returns the number of inputs with objects, and the number of inputs.
fn run(inputs: Vec<Vec<u8>>, seed: u64) -> (usize, usize) {
    let (mut good, mut runs) = (0, 0);
    fuzz(&Corpus { inputs, words: &WORDS, seed }, |bytes, _| {
        runs += 1;
        let Ok(objects) = objects("lib/x.so", &bytes) else { return };
        good += usize::from(!objects.is_empty());
        for object in objects.iter().filter(|object| !object.is_compressed) {
            let start = object.bundle.unwrap_or_default().checked_add(object.offset);
            let end = start.and_then(|start| start.checked_add(object.size));
            assert!(end.is_some_and(|end| end <= bytes.len() as u64), "{object:?}");
        }
    });
    (good, runs)
}

#[test]
fn fuzzed_files_are_refused_or_list_objects_inside_them() {
    let (good, runs) = run(names().iter().map(|name| fixture(name)).collect(), 0x5eed_0060);
    assert!(good * 20 > runs, "there were objects in only {good} of {runs}");
}

/// Most changes hit code, which is not read. Here, the code is short.
#[test]
fn fuzzed_heads_are_refused_or_list_objects_inside_the_file() {
    let code = |name: &str| fixture(name)[..64].to_vec();
    let (gfx1151, generic) = (code("gfx1151.co"), code("gfx11-generic.co"));
    let bundle = crate::support::bundle(&[
        ("host-x86_64-unknown-linux-gnu-", b""),
        ("hipv4-amdgcn-amd-amdhsa--gfx1151", &gfx1151),
        ("hipv4-amdgcn-amd-amdhsa--gfx11-generic", &generic),
    ]);
    let zlib = crate::support::zlib(&bundle);
    let table = b"\x83\xb2compression_scheme\xa4none\xa5blobs\x91\x82\xa6offset\x10\xa4size\x30\
        \xa3toc\x81\xa1a\x81\xa7gfx1151\x81\xa7ordinal\0";
    let kpack = [b"KPAK\x01\0\0\0\x40\0\0\0\0\0\0\0", [0; 48].as_slice(), table].concat();
    let inputs = vec![
        crate::support::ccob(0, None, bundle.len() as u64, &zlib),
        [bundle.clone(), vec![0; 40], bundle.clone()].concat(),
        bundle,
        kpack,
    ];
    assert!(inputs.iter().all(|input| objects("x", input).is_ok()));
    let (good, runs) = run(inputs, 0x5eed_0061);
    assert!(good * 50 > runs, "there were objects in only {good} of {runs}");
}
