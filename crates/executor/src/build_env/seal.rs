//! Makes the layers of an image canonical, and assembles the image.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write as _};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use names::Digest;
use oci::client::RegistryClient;
use oci::loopback::StoredBlob;
use oci::media::{Descriptor, Document, Manifest, OCI_CONFIG, OCI_MANIFEST};
use oci::{Base, NewLayer, assemble};
use plan::{ImageEdit, Platform, Seal};
use seal::{EntryPath, Glob, Index, Kind, Listing, Rules, Sealed, Sealer};
use serde_json::json;

use super::BuildEnv;
use super::build::RawBuild;
use super::store::StoredImage;
use crate::layers::{PIECE, list_layer, read_base_layer};
use crate::{BlobCache, ExecuteError};

impl BuildEnv {
    /// Seals what an engine added to a base, and assembles the image. All layers from the engine
    /// become one, because engines divide layers differently.
    pub(crate) async fn seal_image(
        &self,
        raw: &RawBuild,
        base: &StoredImage,
        seal: &Seal,
        edit: &ImageEdit,
        client: &RegistryClient,
        cache: &BlobCache,
    ) -> Result<(StoredImage, Sealed), ExecuteError> {
        let mut view = Index::new();
        for layer in &base.manifest.layers {
            view.apply(&self.listing(base, layer, client, cache).await?);
        }
        tokio::task::block_in_place(|| {
            let working_directory = working_directory(&raw.config, &view);
            let working_directory = working_directory.map(|path| self.tar_of_directory(&path));
            let layers = raw.layers.iter().map(|layer| self.unpacked(layer));
            let tars = working_directory.into_iter().chain(layers);
            let tars = tars.collect::<Result<Vec<_>, _>>()?;
            let (layer, sealed) = self.seal_layers(seal, view, tars, &edit.created_by)?;
            let below = Base { manifest: &base.manifest, config: &base.config };
            let (platform, new) = (Platform::linux_amd64(), layer.as_slice());
            let image = assemble(below, &platform, &raw.config, new, edit);
            let image = image.map_err(ExecuteError::assemble)?;
            Ok((StoredImage::new(&image, base.remote.clone())?, sealed))
        })
    }

    /// Makes an image with a single layer from an engine's build from scratch. The engine's
    /// config is discarded.
    pub(crate) fn image_of_layers(
        &self,
        raw: &RawBuild,
        seal: &Seal,
        edit: &ImageEdit,
    ) -> Result<StoredImage, ExecuteError> {
        let tars = raw.layers.iter().map(|layer| self.unpacked(layer));
        let tars = tars.collect::<Result<Vec<_>, _>>()?;
        let (layer, _) = self.seal_layers(seal, Index::new(), tars, &edit.created_by)?;
        let platform = Platform::linux_amd64();
        let (manifest, config) = scratch(&platform)?;
        let below = Base { manifest: &manifest, config: &config };
        let image = assemble(below, &platform, &config, layer.as_slice(), edit);
        StoredImage::new(&image.map_err(ExecuteError::assemble)?, None)
    }

    /// Seals layers into one layer, and stores it with its listing.
    fn seal_layers<R: Read + io::Seek>(
        &self,
        seal: &Seal,
        view: Index,
        tars: Vec<R>,
        created_by: &str,
    ) -> Result<(Option<NewLayer>, Sealed), ExecuteError> {
        let scrub = seal.scrub.iter().map(|glob| glob.parse::<Glob>());
        let scrub = scrub.collect::<Result<Vec<_>, _>>();
        let scrub = scrub.map_err(|error| ExecuteError::plan(error.to_string()))?;
        let rules = Rules { epoch: seal.epoch, scrub, threads: self.threads };
        let mut sealer = Sealer::new(rules, view).map_err(ExecuteError::seal)?;
        let mut file = self.store.begin()?;
        let mut out = BufWriter::with_capacity(PIECE, file.as_file_mut());
        let sealed = sealer.squash(tars, &mut out).map_err(ExecuteError::seal)?;
        let flushed = out.flush();
        drop(out);
        flushed.map_err(|error| ExecuteError::disk("writing a layer failed".to_owned(), error))?;
        let Some(layer) = &sealed.layer else { return Ok((None, sealed)) };
        self.store.keep(file, &layer.digest)?;
        self.store.keep_listing(&layer.digest, &layer.listing)?;
        let new = NewLayer {
            digest: layer.digest.clone(),
            size: layer.size,
            diff_id: layer.diff_id.clone(),
            created_by: created_by.to_owned(),
        };
        Ok((Some(new), sealed))
    }

    /// Returns a tar with one directory, as docker creates it for WORKDIR.
    fn tar_of_directory(&self, path: &str) -> Result<BufReader<File>, ExecuteError> {
        let failed = |error| ExecuteError::disk("writing a layer failed".to_owned(), error);
        let make = || -> io::Result<File> {
            let mut file = tempfile::tempfile_in(self.store.work().map_err(io::Error::other)?)?;
            let mut tar = tar::Builder::new(&mut file);
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(tar::EntryType::Directory);
            header.set_mode(0o755);
            header.set_size(0);
            tar.append_data(&mut header, path, io::empty())?;
            tar.into_inner()?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        };
        Ok(BufReader::new(make().map_err(failed)?))
    }

    /// Returns a layer from an engine as a tar that can be read twice.
    fn unpacked(&self, layer: &StoredBlob) -> Result<BufReader<File>, ExecuteError> {
        let failed = |error| ExecuteError::disk("unpacking a layer failed".to_owned(), error);
        let unpack = |mut packed: BufReader<Box<dyn Read>>| -> io::Result<File> {
            let mut file = tempfile::tempfile_in(self.store.work().map_err(io::Error::other)?)?;
            let start = io::BufRead::fill_buf(&mut packed)?;
            match start {
                [0x1f, 0x8b, ..] => io::copy(&mut MultiGzDecoder::new(packed), &mut file)?,
                _ => io::copy(&mut packed, &mut file)?,
            };
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        };
        let packed: Box<dyn Read> = match layer {
            StoredBlob::Memory(bytes) => Box::new(io::Cursor::new(bytes.clone())),
            StoredBlob::File { path, .. } => Box::new(File::open(path).map_err(failed)?),
        };
        let file = unpack(BufReader::with_capacity(PIECE, packed)).map_err(failed)?;
        Ok(BufReader::with_capacity(PIECE, file))
    }

    /// Returns the listing of a layer of a base. A layer in a registry is read only once.
    async fn listing(
        &self,
        base: &StoredImage,
        layer: &Descriptor,
        client: &RegistryClient,
        cache: &BlobCache,
    ) -> Result<Listing, ExecuteError> {
        if let Some(listing) = self.store.listing(&layer.digest) {
            return Ok(listing);
        }
        let listing = match (self.store.blob(&layer.digest), &base.remote) {
            (Some(path), _) => {
                let file = File::open(&path).map_err(|error| {
                    ExecuteError::disk(format!("opening `{}` failed", path.display()), error)
                })?;
                let listing = tokio::task::block_in_place(|| list_layer(file, None));
                listing.map_err(ExecuteError::layer)?
            }
            (None, Some(remote)) => {
                let read = |reader| list_layer(reader, None);
                read_base_layer(client, cache, remote, layer, read).await?
            }
            (None, None) => {
                return Err(ExecuteError::capture(format!(
                    "the layer `{}` of a base is not in the store",
                    layer.digest
                )));
            }
        };
        self.store.keep_listing(&layer.digest, &listing)?;
        Ok(listing)
    }
}

/// Returns the working directory of an image if its base does not contain it. docker's builders
/// create it for `WORKDIR`; podman does so only for a later `RUN` or `COPY`. If a layer contains
/// the directory, that entry takes precedence.
fn working_directory(config: &[u8], base: &Index) -> Option<String> {
    let config: serde_json::Value = serde_json::from_slice(config).ok()?;
    let path = config.pointer("/config/WorkingDir")?.as_str()?.trim_matches('/').to_owned();
    let entry = EntryPath::parse(path.as_bytes()).ok().filter(|entry| !entry.is_root())?;
    // If a component of the path is not a directory, the path resolves to another location.
    let is_directory =
        |above: EntryPath| base.get(&above).is_none_or(|found| found.kind == Kind::Directory);
    (base.get(&entry).is_none() && entry.ancestors().all(is_directory)).then_some(path)
}

/// Returns the empty image, which root file systems are based on.
fn scratch(platform: &Platform) -> Result<(Manifest, Bytes), ExecuteError> {
    // Without a PATH, each engine adds its own, and they differ.
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let config = json!({
        "architecture": platform.architecture,
        "os": platform.os,
        "config": { "Env": [path], "Cmd": ["/bin/bash"] },
        "rootfs": { "type": "layers", "diff_ids": [] },
    });
    let config = Bytes::from(config.to_string());
    let descriptor =
        json!({ "mediaType": OCI_CONFIG, "digest": Digest::of(&config), "size": config.len() });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": descriptor,
        "layers": [],
    });
    match Document::parse(manifest.to_string().as_bytes(), None) {
        Ok(Document::Manifest(manifest)) => Ok((manifest, config)),
        _ => Err(ExecuteError::plan("cannot read the empty image".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use plan::SealContract;

    use super::*;
    use crate::ErrorKind;
    use crate::tests::support::{EPOCH, build_env, client, config, image, keep, tar_of};

    #[test]
    fn a_working_directory_is_made_only_if_it_is_missing_and_can_be_made() {
        let tar = tar_of(&[("etc/", ""), ("etc/file", ""), ("there/", "")]);
        let mut view = Index::new();
        view.apply(&list_layer(&*tar, None).unwrap());
        for (path, wanted) in [
            (json!("/work"), Some("work")),
            (json!("/etc/a/b/"), Some("etc/a/b")),
            (json!("/there"), None),
            (json!("/etc/file"), None),
            (json!("/etc/file/below"), None),
            (json!("/"), None),
            (json!(""), None),
            (json!(null), None),
        ] {
            let config = json!({ "config": { "WorkingDir": path } }).to_string();
            assert_eq!(working_directory(config.as_bytes(), &view).as_deref(), wanted, "{path}");
        }
        assert_eq!(working_directory(b"no json", &view), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_built_becomes_one_layer_without_what_the_base_has() {
        let folder = tempfile::tempdir().unwrap();
        let build_env = build_env(folder.path());
        let below = tar_of(&[("etc/", ""), ("etc/same", "same")]);
        let base = image(&[&below]);
        let (one, two) =
            (tar_of(&[("etc/one", "1")]), tar_of(&[("etc/two", "2"), ("tmp/", ""), ("tmp/x", "")]));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&two).unwrap();
        let layers =
            [one.clone(), gzip.finish().unwrap()].map(|layer| StoredBlob::Memory(layer.into()));
        let inner = json!({ "Env": ["PATH=/bin"], "WorkingDir": "/work" });
        let config = Bytes::from(config(&inner, &[&below, &one, &two]).to_string());
        let raw = RawBuild { config, layers: layers.into() };
        let scrub = vec!["tmp/*".to_owned()];
        let seal = Seal { contract: SealContract::Seal1, scrub, epoch: EPOCH };
        let edit = ImageEdit { created: "2020-01-01T00:00:00Z".to_owned(), ..ImageEdit::default() };
        let (client, cache) = (client(), BlobCache::none());
        let sealed =
            async || build_env.seal_image(&raw, &base, &seal, &edit, &client, &cache).await;
        // The layer of the base is nowhere.
        let error = sealed().await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Capture);
        assert!(error.to_string().contains(Digest::of(&below).as_str()), "{error}");
        keep(&build_env.store, &below);
        let (made, _) = sealed().await.unwrap();
        let [first, second] = &made.manifest.layers[..] else { panic!("{:?}", made.manifest) };
        assert_eq!(first.digest, Digest::of(&below));
        assert!(build_env.store.layer(second).is_some());
        let listing = build_env.store.listing(&second.digest).unwrap();
        let paths: Vec<String> = listing.entries.iter().map(|(path, _)| path.to_string()).collect();
        for (path, is_there) in [
            ("etc/one", true),
            ("etc/two", true),
            ("work", true),
            ("etc/same", false),
            ("tmp/x", false),
        ] {
            assert_eq!(paths.contains(&path.to_owned()), is_there, "{path}: {paths:?}");
        }
        let (again, _) = sealed().await.unwrap();
        assert_eq!(again.manifest_bytes, made.manifest_bytes);
    }
}
