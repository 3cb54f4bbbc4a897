//! Which entries of a layer are changes relative to the layers below.

use std::io::Cursor;

use insta::assert_snapshot;
use seal::{Index, Sealer};
use tar_stream::Ustar;

use crate::support::{Tar, base, chain, listed, listed_over, named, rules, seal, try_seal};

/// Returns a base with various kinds of entries.
fn below() -> Vec<u8> {
    Tar::new()
        .directory("etc", 0o755)
        .file_at("etc/hosts", b"127.0.0.1 localhost\n", 1000)
        .directory("root", 0o700)
        .directory("tmp", 0o1777)
        .directory("usr", 0o755)
        .directory("usr/lib", 0o755)
        .file_at("usr/lib/a.so", b"a", 1000)
        .file_at("usr/lib/b.so", b"b", 1000)
        .directory("usr/lib/deep", 0o755)
        .file_at("usr/lib/deep/x", b"x", 1000)
        .file_at("usr/lib/deep/y", b"y", 1000)
        .symlink("lib", "usr/lib")
        .end()
}

fn over(layer: Tar) -> String {
    listed_over(&[below()], &layer.end())
}

#[test]
fn times_owners_and_modes_get_their_one_form() {
    let tar = Tar::new()
        .put(Ustar { mode: 0o104_755, uid: 7, gid: 8, mtime: 5, ..named("./setuid", b'0') }, b"")
        .put(Ustar { mode: 0o600, mtime: 5, ..named("/sym", b'2') }, b"")
        .with(157, b"target")
        .put(Ustar { mode: 0o755, mtime: 5, ..named("dir/", b'5') }, b"")
        .file("./dir//new", b"1")
        .put(Ustar { mtime: 5, ..named("./", b'5') }, b"");
    assert_snapshot!(listed(&tar.end()));
}

#[test]
fn every_directory_above_a_change_is_there_as_the_view_shows_it() {
    assert_snapshot!(over(Tar::new().file("root/y", b"1").file("tmp/new/x", b"2")));
}

#[test]
fn what_shows_the_same_below_is_no_change() {
    let same = Tar::new()
        .directory("etc", 0o755)
        .file("etc/hosts", b"127.0.0.1 localhost\n")
        .directory("run/", 0o755)
        .symlink("lib", "usr/lib");
    // Only `run` is new; engines repeat the other entries in every layer.
    assert_snapshot!(over(same));
    let nothing = Tar::new().directory("tmp", 0o1777).file("usr/lib/a.so", b"a");
    assert_eq!(over(nothing), "no layer");
    let other = Tar::new().directory("tmp", 0o777).file("usr/lib/a.so", b"A");
    assert_snapshot!(over(other));
}

#[test]
fn whiteouts_stay_where_they_hide_something() {
    let tar = Tar::new()
        .file("usr/lib/.wh.a.so", b"")
        .file("usr/lib/.wh.never", b"")
        // The parent directory is hidden with all its content.
        .file("usr/lib/.wh.deep", b"")
        .file("usr/lib/deep/.wh.x", b"")
        .put(Ustar { link: b"stray", ..named("etc/.wh.hosts", b'0') }, b"")
        .file(".wh..wh.plnk/1.2", b"")
        .file(".wh..wh.aufs", b"");
    let layer = tar.end();
    assert_snapshot!(listed_over(&[below()], &layer));
    assert_eq!(seal(&base(&[below()]), &layer).0.report.idle_whiteouts, 1);
}

#[test]
fn opaque_directories_are_taken_apart() {
    let opaque = Tar::new()
        .directory("usr/lib", 0o755)
        .file("usr/lib/.wh..wh..opq", b"")
        .file("usr/lib/b.so", b"new")
        .file("usr/lib/deep/y", b"y");
    let text = over(opaque);
    // The same with a whiteout and a new directory, in any order.
    let anew = Tar::new()
        .file("usr/lib/deep/y", b"y")
        .directory("usr/lib", 0o755)
        .file("usr/lib/b.so", b"new")
        .file("usr/.wh.lib", b"");
    assert_eq!(over(anew), text);
    assert_snapshot!(text);
    let root = Tar::new().file(".wh..wh..opq", b"").file("only", b"");
    assert_snapshot!(over(root));
}

#[test]
fn replaced_kinds_need_no_whiteouts() {
    let tar = Tar::new()
        .file("usr/lib/deep", b"was a directory")
        .directory("etc/hosts", 0o755)
        .file("etc/hosts/x", b"was a file")
        .directory("lib", 0o755)
        .file("lib/x", b"was a link");
    assert_snapshot!(over(tar));
}

#[test]
fn a_path_in_a_link_below_is_refused() {
    let tar = Tar::new().file("lib/x", b"").end();
    let error = try_seal(&base(&[below()]), &[], &tar).unwrap_err();
    assert_snapshot!(chain(&error), @"`lib/x` is in `lib`, which is not a directory in this layer or the layers below");
}

#[test]
fn the_smallest_path_of_a_file_carries_the_data() {
    let forward = Tar::new().link("z", "m").link("a", "z").file("m", b"data").end();
    let backward = Tar::new().file("z", b"data").link("m", "z").link("a", "m").end();
    let text = listed(&forward);
    assert_eq!(text, listed(&backward));
    assert_snapshot!(text);
    // If an entry occurs again, it is a different file; the link still points to the first one.
    let again = Tar::new().file("x", b"first").link("y", "x").file("x", b"second").end();
    assert_snapshot!(listed(&again));
}

#[test]
fn links_stay_whole_where_one_of_them_changes() {
    let first = Tar::new().file("a", b"1").end();
    // For `ln a b`, overlayfs copies `a` up, so both are in the layer.
    let linked = Tar::new().file("a", b"1").link("b", "a").end();
    assert_snapshot!(listed_over(std::slice::from_ref(&first), &linked));
    assert_eq!(listed_over(&[first.clone(), linked.clone()], &linked), "no layer");
    let to_below = Tar::new().link("b", "a").end();
    assert_snapshot!(listed_over(&[first], &to_below));
}

#[test]
fn a_link_in_place_of_another_file_is_a_change() {
    let layer = Tar::new().file("a", b"1").link("b", "a").end();
    let private = Ustar { mode: 0o600, size: 1, ..named("b", b'0') };
    for other in [Tar::new().file("b", b"2"), Tar::new().put(private, b"1")] {
        let below = [Tar::new().file("a", b"1").end(), other.end()];
        assert_ne!(listed_over(&below, &layer), "no layer");
    }
}

#[test]
fn a_scrubbed_link_hands_its_data_on() {
    let tar = Tar::new().file("cache/data", b"data").link("keep", "cache/data").end();
    let (sealed, _) = try_seal(&Index::new(), &["cache/*"], &tar).unwrap();
    assert_snapshot!(format!("{:#}", sealed.layer.unwrap().listing));
}

#[test]
fn the_scrub_list_drops_and_reports() {
    let tar = Tar::new()
        .file("etc/hosts", b"")
        .directory("var/log/apt", 0o755)
        .file("var/log/apt/term.log", b"x")
        .file("var/log/apt/a/b", b"x")
        .file("var/log/keep", b"x")
        .file("root/.cache/pip/x", b"x")
        .file("usr/lib/.wh.a.so", b"")
        .end();
    let scrub = ["etc/hosts", "var/log/apt", "root/.cache", "**/*.log", "usr/lib/*.so"];
    let (sealed, _) = try_seal(&base(&[below()]), &scrub, &tar).unwrap();
    assert_snapshot!(format!("{:#}{:#?}", sealed.layer.unwrap().listing, sealed.report.scrubbed));
}

#[test]
fn extended_attributes_are_dropped_and_counted() {
    let note: &[(&str, &[u8])] = &[
        ("SCHILY.xattr.user.overlay.impure", b"y"),
        ("SCHILY.xattr.security.selinux", b"x"),
        ("SCHILY.xattr.security.capability", b"c"),
    ];
    let tar = Tar::new().pax(note).file("a", b"").pax(&note[..1]).file("b", b"").end();
    let (sealed, _) = seal(&Index::new(), &tar);
    assert_snapshot!(format!("{:#}{:?}", sealed.layer.unwrap().listing, sealed.report.xattrs));
    // A different capability by itself counts as a change.
    let plain = Tar::new().file("a", b"").file("b", b"").end();
    assert_snapshot!(listed_over(&[plain], &tar));
}

#[test]
fn later_layers_are_based_on_sealed_ones() {
    let mut sealer = Sealer::new(rules(&["log"]), base(&[below()])).unwrap();
    let mut seal_next = |tar: Tar| {
        let sealed = sealer.layer(Cursor::new(tar.end()), std::io::sink()).unwrap();
        sealed.layer.map_or("no layer\n".to_owned(), |layer| format!("{:#}", layer.listing))
    };
    let texts = [
        seal_next(Tar::new().file("opt/tool", b"1").file("log", b"scrubbed")),
        seal_next(Tar::new().directory("opt", 0o644).file("opt/tool", b"1")),
        // Scrubbed paths cannot be hidden.
        seal_next(Tar::new().file(".wh.log", b"").file("opt/.wh.tool", b"")),
    ];
    assert_snapshot!(texts.concat());
}

#[test]
fn layers_fold_into_one() {
    let layers = [
        Tar::new().file("opt/a", b"1").file("opt/b", b"2").file("usr/lib/deep", b"file"),
        Tar::new().file("opt/.wh.a", b"").link("opt/c", "opt/b").file("usr/lib/.wh.a.so", b""),
        Tar::new().directory("usr/lib/deep", 0o755).file("usr/lib/deep/z", b"z"),
        Tar::new().file("usr/lib/a.so", b"again").file("opt/.wh.b", b""),
    ];
    let layers: Vec<_> = layers.into_iter().map(|tar| Cursor::new(tar.end())).collect();
    let view = base(&[below()]);
    let mut one = Sealer::new(rules(&[]), view.clone()).unwrap();
    let sealed = one.squash(layers.clone(), std::io::sink()).unwrap();
    assert_snapshot!(format!("{:#}", sealed.layer.unwrap().listing));
    // The image is the same whether layers are folded or sealed one by one.
    let mut many = Sealer::new(rules(&[]), view).unwrap();
    for layer in layers {
        many.layer(layer, std::io::sink()).unwrap();
    }
    for path in ["opt/a", "opt/b", "opt/c", "usr/lib/a.so", "usr/lib/deep/x", "usr/lib/deep/z"] {
        let path = seal::EntryPath::parse(path.as_bytes()).unwrap();
        assert_eq!(one.view().get(&path), many.view().get(&path), "{path}");
    }
    assert_eq!(one.view().len(), many.view().len());
}

#[test]
fn hard_links_that_a_later_layer_breaks_are_reported() {
    let linked = || Tar::new().file("a", b"1").link("b", "a").link("c", "a").file("d", b"2");
    for (above, wanted) in [
        (Tar::new().file("b", b"changed").file("d", b"changed"), vec!["b"]),
        // A link to a file copies the file up, without its other names.
        (Tar::new().file("a", b"1").link("new", "a"), vec!["a"]),
        (Tar::new().file("a", b"x").link("b", "a").link("c", "a"), vec![]),
        (Tar::new().file("a", b"x").file(".wh.b", b"").file(".wh.c", b""), vec![]),
        (Tar::new().file(".wh.b", b"").link("new", "a"), vec![]),
    ] {
        let layers = [linked(), above].map(|tar| Cursor::new(tar.end())).to_vec();
        let mut sealer = Sealer::new(rules(&[]), Index::new()).unwrap();
        let sealed = sealer.squash(layers, std::io::sink()).unwrap();
        let found: Vec<_> = sealed.report.broken_links.iter().map(ToString::to_string).collect();
        assert_eq!(found, wanted);
    }
}

#[test]
fn a_failed_layer_leaves_the_sealer_as_it_was() {
    let mut sealer = Sealer::new(rules(&[]), base(&[below()])).unwrap();
    let tar = Tar::new().file("new", &[1; 5000]).end();
    let count = sealer.view().len();
    assert!(sealer.layer(Cursor::new(&tar[..2000]), std::io::sink()).is_err());
    let full: &mut [u8] = &mut [0; 10];
    let error = sealer.layer(Cursor::new(&tar), full).unwrap_err();
    assert_snapshot!(chain(&error), @"cannot write the sealed layer: failed to write whole buffer");
    assert_eq!(sealer.view().len(), count);
    assert!(sealer.layer(Cursor::new(&tar), std::io::sink()).unwrap().layer.is_some());
}

#[test]
fn an_epoch_that_no_header_holds_is_refused() {
    let rules = seal::Rules { epoch: 1 << 33, ..rules(&[]) };
    let error = Sealer::new(rules, Index::new()).unwrap_err();
    assert_snapshot!(chain(&error), @"the epoch 8589934592 is after the year 2242, the latest that fits in a tar header");
}
