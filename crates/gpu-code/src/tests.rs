//! Tests parts that callers cannot test: file names, flags, and where bytes are held.

use std::io::{ErrorKind, Write as _};

use crate::file_name::{Content, named};
use crate::spool::Spool;
use crate::target::CodeTarget;

#[test]
fn the_flags_of_a_code_object_name_its_target() {
    for (flags, version, wanted) in [
        (0x4a, 4, Some("gfx1151")),
        (0x41, 4, Some("gfx1100")),
        (0x0100_0054, 4, Some("gfx11-generic")),
        (0xe3f, 4, Some("gfx90a:sramecc+:xnack-")),
        (0x74c, 4, Some("gfx942:xnack+")),
        (0x64c, 4, Some("gfx942:xnack-")),
        (0x54c, 4, Some("gfx942")),
        // Code object V3: one bit for each feature.
        (0x12f, 1, Some("gfx906:xnack+")),
        (0x33f, 1, Some("gfx90a:sramecc+:xnack+")),
        (0x2c, 1, Some("gfx900")),
        // R600, and numbers that are not in use.
        (0x01, 4, None),
        (0, 4, None),
        (0x27, 4, None),
        (0xff, 4, None),
        (0x4a00, 4, None),
    ] {
        let found = CodeTarget::of_flags(flags, version).map(|target| target.to_string());
        assert_eq!(found.as_deref(), wanted, "{flags:#x}");
    }
}

#[test]
fn names_of_kernel_files_name_their_target() {
    for (path, target, is_code) in [
        ("Kernels.so-000-gfx1151.hsaco", "gfx1151", true),
        ("rocblas/library/Kernels.so-000-gfx90a-xnack+.hsaco", "gfx90a:xnack+", true),
        ("rocblas/library/Kernels.so-000-gfx90a-xnack-.hsaco", "gfx90a:xnack-", true),
        ("TensileLibrary_Type_ZZ_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx1151.co", "gfx1151", true),
        ("TensileLibrary_Type_ZZ_Contraction_l_Ailk_fallback_gfx90c.hsaco", "gfx90c", true),
        ("TensileLibrary_lazy_gfx1151.dat", "gfx1151", false),
        (
            "TensileLibrary_HH_SS_HA_Bias_SAV_Type_HS_HPA_gfx942_fallback_gfx950.dat",
            "gfx950",
            false,
        ),
        ("hipblasltExtOpLibrary_gfx1151.dat.gz", "gfx1151", false),
        ("extop_gfx1100.co", "gfx1100", true),
        ("gfx11-generic.co", "gfx11-generic", true),
        ("share/miopen/db/gfx90a68.db", "gfx90a", false),
        ("share/miopen/db/gfx90878.kdb", "gfx908", true),
        ("share/miopen/db/gfx1100_48.HIP.3_5_0.fdb.txt", "gfx1100", false),
        ("share/miopen/db/gfx1151_20.kdb", "gfx1151", true),
        ("share/miopen/db/gfx942130.HIP.fdb.txt", "gfx942", false),
        ("share/miopen/db/gfx950100.db", "gfx950", false),
        ("aotriton.images/amd-gfx11xx/flash/attn_fwd/a.aks2", "gfx11xx", true),
        ("aotriton.images/amd-gfx120x/a.aks2", "gfx120x", true),
        ("aotriton.images/amd-gfx942/flash/attn_fwd/a.aks2", "gfx942", true),
    ] {
        let found =
            named(path).map(|named| (named.target.to_string(), named.content != Content::Data));
        assert_eq!(found, Some((target.to_owned(), is_code)), "{path}");
    }
}

#[test]
fn other_names_name_no_target() {
    for path in [
        "",
        "gfx1151",
        "gfx1151.txt",
        "gfx1151/kernel.co",
        "libgfx1151.so",
        "kernel.co",
        ".co",
        "gfx.co",
        "gfx1155.co",
        "gfx1151foo.co",
        "gfx11511111.db",
        "miopen.db",
        "TensileLibrary.dat",
        "amd-gfx11xx.aks2",
        "kernels/gfx11xx/a.aks2",
        "amd-gfx/a.aks2",
        "amd-gfx11../a.aks2",
        "amd-x/a.aks2",
    ] {
        assert_eq!(named(path), None, "{path}");
    }
}

#[test]
fn memory_and_disk_hold_the_same_bytes() {
    const HELD: usize = 64 << 20;
    let bytes: Vec<u8> = (0..=250).cycle().take(HELD + 1).collect();
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("new");
    let mut spool = Spool::new(Some(&place));
    spool.push(&bytes[..1000]).unwrap();
    spool.push(&bytes[1000..HELD]).unwrap();
    assert!(!place.exists());
    let check = |spool: &Spool, size: usize| {
        assert_eq!(spool.size(), size as u64);
        for (offset, length) in [(0, 10), (997, 7), (HELD - 8, 8), (size - 1, 1), (size, 0)] {
            let mut buffer = vec![0; length];
            spool.read_at(offset as u64, &mut buffer).unwrap();
            assert_eq!(buffer, bytes[offset..offset + length], "{offset}");
        }
        for (offset, length) in
            [(size as u64, 1), (size as u64 - 3, 4), (1 << 62, 1), (0, size + 1)]
        {
            let error = spool.read_at(offset, &mut vec![0; length]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{offset}");
        }
    };
    check(&spool, HELD);
    spool.push(&bytes[HELD..]).unwrap();
    assert!(place.exists());
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0, "the file has no name");
    check(&spool, HELD + 1);

    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes[..HELD]).unwrap();
    check(&Spool::of_file(file).unwrap(), HELD);
    assert_eq!(Spool::from(bytes[..9].to_vec()).size(), 9);
    assert!(Spool::new(None).read_at(0, &mut [0]).is_err());
}
