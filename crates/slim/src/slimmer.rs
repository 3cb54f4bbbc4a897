//! Finds the files with code for other GPUs, and rewrites their layers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use audit::{Found, Layer, Layers};
use gpu_code::{CodeTarget, ScanError, Slimmed, Spool, slim};
use names::GpuTarget;
use seal::{
    EntryPath, Index, Kind, LayerEditor, Listing, Replacement, SealError, SealedLayer, edit_layer,
};

use crate::report::{ChangedFile, SlimReport, WholeFile};

/// The first pass over an image.
#[derive(Debug)]
pub struct Survey {
    gpus: Vec<GpuTarget>,
    code: Layers,
    layers: Vec<Surveyed>,
    linked: BTreeSet<EntryPath>,
    /// The files that cannot be read.
    whole: Vec<WholeFile>,
}

/// A layer after the first pass.
#[derive(Debug)]
struct Surveyed {
    /// The files with code for other GPUs, and whether each of them is only for other GPUs.
    affected: BTreeMap<EntryPath, bool>,
    /// Its entries, if it will not be read again.
    listing: Listing,
}

impl Survey {
    /// Creates a survey for these GPUs.
    pub fn new(gpus: Vec<GpuTarget>) -> Self {
        Self {
            gpus,
            code: Layers::default(),
            layers: Vec::new(),
            linked: BTreeSet::new(),
            whole: Vec::new(),
        }
    }

    /// Adds a layer on top of the others.
    pub fn add(&mut self, layer: Layer) {
        let is_other = |target: &CodeTarget| !is_kept(&self.gpus, target);
        let files = layer.files().filter(|(_, code)| code.has(is_other));
        let mut affected: BTreeMap<EntryPath, bool> =
            files.map(|(path, code)| (path.clone(), code.is_only_for(is_other))).collect();
        let number = self.layers.len() + 1;
        let unreadable = layer.unreadable().map(|(path, why)| WholeFile {
            layer: number,
            path: path.to_string(),
            why,
        });
        self.whole.extend(unreadable);
        let entries = &layer.listing().entries;
        let mut seen = BTreeSet::new();
        for (path, _) in entries {
            // A tar may contain a path twice, and only one of the files may be useless.
            if let Some(is_useless) = affected.get_mut(path)
                && !seen.insert(path)
            {
                *is_useless = false;
            }
        }
        let links = entries.iter().filter(|(_, entry)| entry.kind == Kind::Hardlink);
        self.linked.extend(links.filter_map(|(_, entry)| EntryPath::parse(&entry.link).ok()));
        let listing =
            if affected.is_empty() { layer.listing().clone() } else { Listing::default() };
        self.layers.push(Surveyed { affected, listing });
        self.code.add(layer);
    }

    /// Returns the GPU code in the image, and the [`Slimmer`] that rewrites its layers. `folder` is
    /// for temporary files.
    pub fn finish(self, folder: Option<PathBuf>) -> (Found, Slimmer) {
        let Self { gpus, code, layers, linked, whole } = self;
        let (view, report) = (Index::new(), SlimReport { whole, ..SlimReport::default() });
        (code.finish(), Slimmer { gpus, layers, linked, folder, view, report })
    }
}

fn is_kept(gpus: &[GpuTarget], target: &CodeTarget) -> bool {
    gpus.iter().any(|gpu| target.may_fit(gpu))
}

/// Rewrites the layers of an image, lowest first.
#[derive(Debug)]
pub struct Slimmer {
    gpus: Vec<GpuTarget>,
    layers: Vec<Surveyed>,
    /// The files with several hard links.
    linked: BTreeSet<EntryPath>,
    folder: Option<PathBuf>,
    /// The files that are visible in the layers so far.
    view: Index,
    report: SlimReport,
}

impl Slimmer {
    /// Returns whether a layer has code for other GPUs. Layers are counted from 0. A layer without
    /// such code stays as it is; [`Slimmer::skip`] must then be called for it.
    pub fn is_affected(&self, layer: usize) -> bool {
        self.layers.get(layer).is_some_and(|layer| !layer.affected.is_empty())
    }

    /// Records a layer that stays as it is.
    pub fn skip(&mut self, layer: usize) {
        if let Some(layer) = self.layers.get(layer) {
            self.view.apply(&layer.listing);
        }
    }

    /// Rewrites a layer: reads an uncompressed tar, and writes a gzip file, compressed by `threads`
    /// threads. The bytes do not depend on the number of threads.
    ///
    /// # Errors
    /// Fails if the tar is damaged, or if a file cannot be written.
    pub fn layer(
        &mut self,
        number: usize,
        tar: impl Read,
        threads: NonZeroUsize,
        out: impl Write,
    ) -> Result<SealedLayer, SealError> {
        let mut editor = Editor { slimmer: self, number, content: Content::Useless(0) };
        let sealed = edit_layer(tar, threads, out, &mut editor)?;
        self.view.apply(&sealed.listing);
        Ok(sealed)
    }

    /// Returns what was removed.
    pub fn finish(self) -> SlimReport {
        self.report
    }
}

/// Changes the files of a layer.
struct Editor<'a> {
    slimmer: &'a mut Slimmer,
    number: usize,
    content: Content,
}

/// The content of the current file.
enum Content {
    /// It is of no use to the GPUs. This is its size in bytes.
    Useless(u64),
    Kept(Spool),
}

impl Editor<'_> {
    /// Removes the current file.
    fn remove(&mut self, path: &EntryPath, size: u64) -> Replacement {
        self.note(path, size, None);
        let is_below = self.slimmer.view.get(path).is_some();
        if is_below { Replacement::Whiteout } else { Replacement::Nothing }
    }

    fn note(&mut self, path: &EntryPath, before: u64, after: Option<u64>) {
        let (layer, path) = (self.number + 1, path.to_string());
        self.slimmer.report.changed.push(ChangedFile { layer, path, before, after });
    }

    fn stays(&mut self, path: &EntryPath, why: String, content: Spool) -> Replacement {
        let (layer, path) = (self.number + 1, path.to_string());
        self.slimmer.report.whole.push(WholeFile { layer, path, why });
        replaced(content)
    }
}

fn replaced(content: Spool) -> Replacement {
    Replacement::Content(content.size(), Box::new(content.into_reader()))
}

impl LayerEditor for Editor<'_> {
    fn wants(&mut self, path: &EntryPath) -> bool {
        let layer = self.slimmer.layers.get(self.number);
        let Some(is_useless) = layer.and_then(|layer| layer.affected.get(path)) else {
            return false;
        };
        let is_removed = *is_useless && !self.slimmer.linked.contains(path);
        self.content = if is_removed {
            Content::Useless(0)
        } else {
            Content::Kept(Spool::new(self.slimmer.folder.as_deref()))
        };
        true
    }

    fn content(&mut self, part: &[u8]) -> io::Result<()> {
        match &mut self.content {
            Content::Useless(size) => {
                *size += part.len() as u64;
                Ok(())
            }
            Content::Kept(content) => content.push(part),
        }
    }

    fn replace(&mut self, path: &EntryPath) -> io::Result<Replacement> {
        let content = match std::mem::replace(&mut self.content, Content::Useless(0)) {
            Content::Useless(size) => return Ok(self.remove(path, size)),
            Content::Kept(content) => content,
        };
        let (gpus, folder) = (&self.slimmer.gpus, self.slimmer.folder.as_deref());
        let is_kept = |target: &CodeTarget| is_kept(gpus, target);
        let before = content.size();
        match slim(&path.to_string(), &content, &is_kept, folder) {
            Ok(Slimmed::Unchanged) => Ok(replaced(content)),
            Ok(Slimmed::Rewritten(new)) => {
                self.note(path, before, Some(new.size()));
                Ok(replaced(new))
            }
            Ok(Slimmed::Removed) if self.slimmer.linked.contains(path) => {
                let why = "it has several hard links".to_owned();
                Ok(self.stays(path, why, content))
            }
            Ok(Slimmed::Removed) => Ok(self.remove(path, before)),
            Err(ScanError::Read(error)) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Err(error)
            }
            Err(error) => Ok(self.stays(path, error.to_string(), content)),
        }
    }
}
