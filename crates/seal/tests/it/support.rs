//! Creates tars byte by byte, and seals them in memory.

use std::io::{Cursor, Read as _};
use std::num::NonZeroUsize;

use seal::{Index, Listing, Rules, SealError, Sealed, Sealer};
use tar_stream::{Ustar, pax_record};

/// The epoch of all tests.
pub(crate) const EPOCH: u64 = 1_700_000_000;
/// A later time, as during a build.
pub(crate) const LATER: u64 = 1_800_000_000;

/// A tar under construction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tar(pub(crate) Vec<u8>);

impl Tar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds an entry unchanged: header, content, padding.
    pub(crate) fn put(mut self, header: Ustar<'_>, content: &[u8]) -> Self {
        self.0.extend_from_slice(&header.block());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn file(self, path: &str, content: &[u8]) -> Self {
        self.file_at(path, content, LATER)
    }

    pub(crate) fn file_at(self, path: &str, content: &[u8], mtime: u64) -> Self {
        let size = content.len() as u64;
        self.put(Ustar { size, mtime, ..named(path, b'0') }, content)
    }

    pub(crate) fn directory(self, path: &str, mode: u32) -> Self {
        self.put(Ustar { mode, ..named(path, b'5') }, b"")
    }

    pub(crate) fn symlink(self, path: &str, link: &str) -> Self {
        self.put(Ustar { link: link.as_bytes(), ..named(path, b'2') }, b"")
    }

    pub(crate) fn link(self, path: &str, link: &str) -> Self {
        self.put(Ustar { link: link.as_bytes(), ..named(path, b'1') }, b"")
    }

    /// Adds a PAX header before the next entry.
    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        self.extended(b'x', records)
    }

    pub(crate) fn extended(self, kind: u8, records: &[(&str, &[u8])]) -> Self {
        let mut bytes = Vec::new();
        for (key, value) in records {
            pax_record(&mut bytes, key.as_bytes(), value);
        }
        self.put(Ustar { size: bytes.len() as u64, ..named("pax", kind) }, &bytes)
    }

    /// Returns the tar with its end marker.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }

    /// Overwrites bytes of the last header, whose entry must have no content.
    pub(crate) fn with(mut self, at: usize, bytes: &[u8]) -> Self {
        let start = self.0.len() - 512;
        self.0[start + at..start + at + bytes.len()].copy_from_slice(bytes);
        checksum(&mut self.0[start..]);
        self
    }

    /// Adds bytes unchanged.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// Corrects the checksum of a header.
pub(crate) fn checksum(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Returns the header of a path that an engine's user created during the build.
pub(crate) fn named(path: &str, kind: u8) -> Ustar<'_> {
    Ustar { name: path.as_bytes(), mode: 0o644, mtime: LATER, kind, ..Ustar::default() }
}

pub(crate) fn rules(scrub: &[&str]) -> Rules {
    let scrub = scrub.iter().map(|glob| glob.parse().unwrap()).collect();
    Rules { epoch: EPOCH, scrub, threads: NonZeroUsize::new(2).unwrap() }
}

/// Returns the view of base layers.
pub(crate) fn base(layers: &[Vec<u8>]) -> Index {
    let mut index = Index::new();
    for layer in layers {
        index.apply(&Listing::of_layer(&layer[..]).unwrap());
    }
    index
}

/// Seals a layer on a base. Returns the result and the uncompressed tar.
pub(crate) fn try_seal(
    base: &Index,
    scrub: &[&str],
    layer: &[u8],
) -> Result<(Sealed, Vec<u8>), SealError> {
    let mut sealer = Sealer::new(rules(scrub), base.clone())?;
    let mut out = Vec::new();
    let sealed = sealer.layer(Cursor::new(layer), &mut out)?;
    Ok((sealed, unzip(&out)))
}

pub(crate) fn seal(base: &Index, layer: &[u8]) -> (Sealed, Vec<u8>) {
    try_seal(base, &[], layer).unwrap()
}

/// Returns the short listing of a layer that was sealed without a base.
pub(crate) fn listed(layer: &[u8]) -> String {
    listed_over(&[], layer)
}

/// Returns the short listing of a layer that was sealed on base layers.
pub(crate) fn listed_over(layers: &[Vec<u8>], layer: &[u8]) -> String {
    let (sealed, tar) = seal(&base(layers), layer);
    let Some(layer) = sealed.layer else { return "no layer".to_owned() };
    // The listing matches the entries that a different reader finds in the bytes.
    assert_eq!(Listing::of_layer(&tar[..]).unwrap(), layer.listing);
    format!("{:#}", layer.listing)
}

pub(crate) fn unzip(bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    if bytes.is_empty() {
        return content;
    }
    flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut content).unwrap();
    content
}

/// Returns an error with all its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
