//! A model of layers, as simple as the specification: the content of an image after each layer.

use std::collections::BTreeMap;

use crate::support::{LATER, Tar, named};
use tar_stream::Ustar;

/// An entry of a layer in a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Directory(u32),
    File(u32, Vec<u8>),
    Symlink(String),
    Link(String),
    Whiteout,
    Opaque,
}

/// A layer in a test, in the order of its tar.
pub(crate) type Layer = Vec<(String, Item)>;

/// The content of an image, by path: mode and content, or the target of a link.
pub(crate) type Image = BTreeMap<String, Item>;

/// Returns the parent directories of a path, the nearest first.
pub(crate) fn above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(path.rsplit_once('/'), |(parent, _)| parent.rsplit_once('/'))
        .map(|(parent, _)| parent)
}

/// Applies a layer to an image, as described in image-spec's layer.md: removes hidden paths, then
/// adds entries. Missing directories are created.
pub(crate) fn apply(image: &mut Image, layer: &Layer) {
    for (path, item) in layer {
        let inside = format!("{path}/");
        match item {
            Item::Whiteout => image.retain(|old, _| old != path && !old.starts_with(&inside)),
            Item::Opaque => image.retain(|old, _| !old.starts_with(&inside)),
            _ => {}
        }
    }
    let is_link = |item: &Item| matches!(item, Item::Link(_));
    for (path, item) in layer.iter().filter(|(_, item)| !is_link(item)) {
        if !matches!(item, Item::Whiteout | Item::Opaque) {
            put(image, path, item.clone());
        }
    }
    for (path, item) in layer {
        if let Item::Link(target) = item {
            let target = image[target].clone();
            put(image, path, target);
        }
    }
}

fn put(image: &mut Image, path: &str, item: Item) {
    for parent in above(path) {
        if !matches!(image.get(parent), Some(Item::Directory(_))) {
            image.insert(parent.to_owned(), Item::Directory(0o755));
        }
    }
    if !matches!(item, Item::Directory(_)) {
        let inside = format!("{path}/");
        image.retain(|old, _| !old.starts_with(&inside));
    }
    image.insert(path.to_owned(), item);
}

/// Drops entries that engines never create: paths whose parent is not a directory, links without a
/// target, and repeated paths.
pub(crate) fn sensible(image: &Image, layer: Layer) -> Layer {
    let mut layer = layer;
    let mut seen = std::collections::BTreeSet::new();
    layer.reverse();
    layer.retain(|(path, item)| {
        let mark = matches!(item, Item::Whiteout | Item::Opaque);
        mark || seen.insert(path.clone())
    });
    layer.reverse();
    loop {
        let whole = layer.clone();
        let set = |path: &str| {
            let mut items = whole.iter().filter(|(set, _)| set == path).map(|(_, item)| item);
            items.rfind(|item| !matches!(item, Item::Whiteout | Item::Opaque))
        };
        let is_directory = |path: &str| match set(path) {
            Some(item) => matches!(item, Item::Directory(_)),
            None => image.get(path).is_none_or(|item| matches!(item, Item::Directory(_))),
        };
        layer.retain(|(path, item)| {
            let is_linked = match item {
                Item::Link(target) => {
                    matches!(set(target), Some(Item::File(..) | Item::Symlink(_)))
                }
                _ => true,
            };
            is_linked && above(path).all(is_directory)
        });
        if layer.len() == whole.len() {
            return layer;
        }
    }
}

/// Returns the layer as a tar.
pub(crate) fn tar(layer: &Layer) -> Tar {
    layer.iter().fold(Tar::new(), |tar, (path, item)| {
        let (parent, name) = path.rsplit_once('/').map_or(("", &path[..]), |(p, n)| (p, n));
        match item {
            Item::Directory(mode) => tar.directory(path, *mode),
            Item::File(mode, content) => {
                let size = content.len() as u64;
                tar.put(Ustar { mode: *mode, size, mtime: LATER, ..named(path, b'0') }, content)
            }
            Item::Symlink(target) => tar.symlink(path, target),
            Item::Link(target) => tar.link(path, target),
            Item::Whiteout => tar.file(&format!("{parent}/.wh.{name}"), b""),
            Item::Opaque => tar.file(&format!("{path}/.wh..wh..opq"), b""),
        }
    })
}

/// Parses a sealed layer into a layer of the model. Contents come from the tar itself.
pub(crate) fn from_tar(bytes: &[u8]) -> Layer {
    let mut archive = tar::Archive::new(bytes);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().trim_end_matches('/').to_owned();
        let mode = entry.header().mode().unwrap();
        let link = entry.link_name().unwrap().map(|link| link.to_str().unwrap().to_owned());
        let item = match entry.header().entry_type() {
            tar::EntryType::Directory => Item::Directory(mode),
            tar::EntryType::Symlink => Item::Symlink(link.unwrap()),
            tar::EntryType::Link => Item::Link(link.unwrap()),
            _ => {
                let mut content = Vec::new();
                std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
                Item::File(mode, content)
            }
        };
        let (parent, name) = path.rsplit_once('/').map_or(("", &path[..]), |(p, n)| (p, n));
        match name.strip_prefix(".wh.") {
            Some(hidden) => {
                let path = format!("{parent}/{hidden}").trim_start_matches('/').to_owned();
                (path, Item::Whiteout)
            }
            None => (path, item),
        }
    });
    entries.collect()
}
