//! Differences are reported by kind.

use insta::assert_snapshot;
use seal::{Difference, Listing};
use tar_stream::Ustar;

use crate::support::{Tar, named};

fn listing(tar: Tar) -> Listing {
    Listing::of_layer(&tar.end()[..]).unwrap()
}

fn compare(left: &Listing, right: &Listing) -> Vec<Difference> {
    let mut all = Vec::new();
    let Ok(()) = seal::compare(left, right, |difference| {
        all.push(difference);
        Ok(())
    });
    all
}

#[test]
fn every_kind_of_difference_is_named() {
    let left = Tar::new()
        .file_at("time", b"1", 1)
        .file("a/__pycache__/x.cpython-313.pyc", b"1")
        .file("var/log/dpkg.log", b"1")
        .file("var/cache/ldconfig/aux-cache", b"1")
        .pax(&[("SCHILY.xattr.user.x", b"1")])
        .file("xattr", b"")
        .put(Ustar { mode: 0o600, uid: 1, ..named("owner", b'0') }, b"")
        .file("left", b"")
        .file("content", b"1")
        .symlink("link", "a")
        .file("opaque/.wh..wh..opq", b"");
    let right = Tar::new()
        .file_at("time", b"1", 2)
        .file("a/__pycache__/x.cpython-313.pyc", b"2")
        .file("var/log/dpkg.log", b"2")
        .file("var/cache/ldconfig/aux-cache", b"22")
        .file("xattr", b"")
        .put(named("owner", b'0'), b"")
        .file("right", b"")
        .file("content", b"2")
        .symlink("link", "b")
        .directory("opaque", 0o755);
    let differences = compare(&listing(left.clone()), &listing(right));
    let lines = differences.iter().map(|difference| {
        let side = |entry: &Option<seal::Entry>| if entry.is_some() { "+" } else { "-" };
        let (left, right) = (side(&difference.left), side(&difference.right));
        format!("{left}{right} {} {}\n", difference.cause, difference.path)
    });
    assert_snapshot!(lines.collect::<String>());
    assert_eq!(compare(&listing(left.clone()), &listing(left)), []);
}

#[test]
fn order_is_named_once() {
    let left = listing(Tar::new().file("a", b"").file("b", b"").file("c", b""));
    let right = listing(Tar::new().file("c", b"").file("a", b"").file("b", b""));
    let differences = compare(&left, &right);
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].cause, seal::Cause::Order);
}

#[test]
fn a_listing_can_be_read_back_and_says_where_it_cannot() {
    let text = listing(
        Tar::new()
            .pax(&[("path", "a \u{e4} -> \\b".as_bytes()), ("SCHILY.xattr.user.=", b"\x0a")])
            .symlink("x", "c -> d e=f")
            .put(Ustar { device: (5, 1), ..named("console", b'3') }, b"")
            .file("file", b"1")
            .link("hard", "file")
            .file(".wh.gone", b"")
            .file(".wh..wh..opq", b""),
    );
    assert_snapshot!(text);
    assert_eq!(text.to_string().parse::<Listing>().unwrap(), text);
    let parse = |text: &str| text.parse::<Listing>().unwrap_err().to_string();
    assert_snapshot!(parse("x"), @"the listing does not start with `#layer-listing/1`; create it again");
    let cut = text.to_string().replace(" 0:0 ", " 0 ");
    assert_snapshot!(parse(&cut), @"cannot parse line 2 of the listing; create it again");
}
