//! Copying a layer with changes to single files.

use std::io;
use std::num::NonZeroUsize;

use seal::{EntryPath, LayerEditor, Listing, Replacement, SealedLayer, edit_layer};
use tar_stream::Ustar;

use crate::support::{Tar, named, unzip};

/// Changes the files according to their names.
#[derive(Default)]
struct ByName {
    /// The content of the current file.
    seen: Vec<u8>,
    /// Whether storing content fails.
    is_full: bool,
}

impl LayerEditor for ByName {
    fn wants(&mut self, path: &EntryPath) -> bool {
        self.seen.clear();
        path.to_string().contains("change")
    }

    fn content(&mut self, part: &[u8]) -> io::Result<()> {
        if self.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.seen.extend_from_slice(part);
        Ok(())
    }

    fn replace(&mut self, path: &EntryPath) -> io::Result<Replacement> {
        let path = path.to_string();
        let new = [b"new ", &self.seen[..]].concat();
        Ok(if path.contains("remove") {
            Replacement::Nothing
        } else if path.contains("hide") {
            Replacement::Whiteout
        } else {
            let size = new.len() as u64 + u64::from(path.contains("short"));
            Replacement::Content(size, Box::new(io::Cursor::new(new)))
        })
    }
}

/// Only plain files have content to replace.
#[test]
fn entries_that_are_no_plain_files_stay() {
    let layer = Tar::new()
        .directory("change.d", 0o755)
        .symlink("change.link", "x")
        .file(".wh.change", b"")
        .end();
    let (sealed, _) = edited(&layer).unwrap();
    assert_eq!(sealed.listing.to_string(), listed(&layer));
}

fn edited(layer: &[u8]) -> Result<(SealedLayer, Vec<u8>), String> {
    edited_by(layer, &mut ByName::default())
}

fn edited_by(layer: &[u8], editor: &mut ByName) -> Result<(SealedLayer, Vec<u8>), String> {
    let mut out = Vec::new();
    let threads = NonZeroUsize::new(2).unwrap();
    let sealed = edit_layer(layer, threads, &mut out, editor).map_err(|error| error.to_string())?;
    Ok((sealed, unzip(&out)))
}

/// Returns the entries of a layer, unchanged.
fn listed(layer: &[u8]) -> String {
    Listing::of_layer(layer).unwrap().to_string()
}

/// Returns a layer with entries of all kinds, in a different order than in `seal/1`.
fn layer() -> Tar {
    let long = "d/".repeat(100) + "long";
    let device = Ustar { device: (1, 3), mode: 0o666, ..named("dev/null", b'3') };
    let owned = Ustar { uid: 1000, gid: 100, mode: 0o4755, mtime: 77, ..named("z/owned", b'0') };
    Tar::new()
        .directory("./", 0o700)
        .directory("z", 0o1777)
        .put(Ustar { size: 3, ..owned }, b"abc")
        .pax(&[
            ("SCHILY.xattr.security.capability", b"\x01\0\0\x02"),
            ("SCHILY.xattr.user.a", b"b"),
        ])
        .file("z/attributes", b"content")
        .file_at("a", &[7; 5000], 1_700_000_000)
        .link("b", "a")
        .symlink("c", "../somewhere")
        .put(device, b"")
        .file("z/.wh.gone", b"")
        .file("y/.wh..wh..opq", b"")
        .pax(&[("path", long.as_bytes())])
        .file("short", b"long name")
        .file("bytes-\u{e9}", b"")
}

#[test]
fn a_layer_without_changes_keeps_every_entry_in_its_order() {
    let bytes = layer().end();
    let (sealed, copy) = edited(&bytes).unwrap();
    assert_eq!(listed(&copy), listed(&bytes));
    assert_eq!(sealed.listing.to_string(), listed(&bytes));
    assert_eq!(sealed.tar_size, copy.len() as u64);
    assert!(listed(&copy).contains("user.a"), "{}", listed(&copy));
    // A copy of the copy has the same bytes.
    assert_eq!(edited(&copy).unwrap().1, copy);
}

#[test]
fn only_the_chosen_files_change() {
    let before = layer()
        .file("change", b"text")
        .file("change-remove", b"text")
        .file("z/change-hide", b"text")
        .end();
    let after = layer().file("change", b"new text").file_at("z/.wh.change-hide", b"", 0).end();
    assert_eq!(listed(&edited(&before).unwrap().1), listed(&after));
}

#[test]
fn a_layer_that_cannot_be_copied_is_an_error() {
    let bytes = layer().file("change-short", b"text").end();
    assert!(edited(&bytes).unwrap_err().contains("cannot write"));
    let bytes = layer().file("change", b"text").end();
    let mut full = ByName { is_full: true, ..ByName::default() };
    assert!(edited_by(&bytes, &mut full).unwrap_err().contains("cannot write"));
    for length in (0..bytes.len()).step_by(977) {
        let cut = edited(&bytes[..length]);
        assert!(cut.is_err() || length % 512 == 0, "{length}");
    }
    let impossible = Tar::new().file("a/.wh.b/c", b"").end();
    assert!(edited(&impossible).unwrap_err().contains("not valid in a layer"));
}
