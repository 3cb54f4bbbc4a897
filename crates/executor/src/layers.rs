//! Listing layers, wherever they lie.

use std::io::{self, BufRead as _, BufReader, Read};

use flate2::read::MultiGzDecoder;
use names::ImageRef;
use oci::client::RegistryClient;
use oci::media::Descriptor;
use seal::{Listing, TarError};

use crate::ExecuteError;

/// The piece that layers are read in, in bytes.
pub(crate) const PIECE: usize = 256 << 10;

/// Lists a layer, compressed with gzip or not at all.
///
/// # Errors
/// It cannot be read, or is no tar.
pub fn list_layer(reader: impl Read) -> Result<Listing, TarError> {
    let mut reader = BufReader::with_capacity(PIECE, reader);
    match reader.fill_buf().map(|start| start.starts_with(&[0x1f, 0x8b])) {
        Ok(true) => Listing::of_layer(MultiGzDecoder::new(reader)),
        _ => Listing::of_layer(reader),
    }
}

/// Lists a layer at a registry. The whole layer passes, and nothing of it is kept.
///
/// # Errors
/// It cannot be fetched, is not what its digest says, or is no tar.
pub async fn list_remote_layer(
    client: &RegistryClient,
    image: &ImageRef,
    layer: &Descriptor,
) -> Result<Listing, ExecuteError> {
    let stream = client.blob_stream(&image.repository, &layer.digest, layer.size).await;
    let stream = stream.map_err(|error| {
        ExecuteError::registry(format!("reading a layer of `{image}` failed"), error)
    })?;
    let stream = futures_util::TryStreamExt::map_err(stream, io::Error::other);
    let reader = tokio_util::io::StreamReader::new(Box::pin(stream));
    let reader = tokio_util::io::SyncIoBridge::new(reader);
    let listing = tokio::task::spawn_blocking(move || list_layer(reader)).await;
    let listing = listing
        .map_err(|error| ExecuteError::plan(format!("a thread of ours ended early: {error}")))?;
    listing.map_err(|error| ExecuteError::seal(error.into()))
}
