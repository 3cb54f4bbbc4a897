//! Archives: the same bytes from the same image, read by the real `tar` and by this crate.

use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use names::Digest;
use tempfile::tempdir;

use super::layout::chain;
use super::support::{Base, layers};
use crate::archive::{ArchiveWriter, header_of, holds, remove_unfinished};
use crate::layout::MARKER;
use crate::{DerivedImage, LayoutError, LayoutImage, Verified, open_part, part_of};

const NAME: &str = "locked-spoof";

/// Writes a complete archive of an image with the fixed layers.
fn write_archive(path: &Path, image: &DerivedImage) -> Result<(), LayoutError> {
    write_archive_of(path, image, &layers()[..2])
}

/// Writes a complete archive, with its layers in chunks.
pub(super) fn write_archive_of(
    path: &Path,
    image: &DerivedImage,
    layers: &[impl AsRef<[u8]>],
) -> Result<(), LayoutError> {
    let mut archive = ArchiveWriter::begin(path, image, NAME)?;
    for (descriptor, bytes) in image.layers.iter().zip(layers) {
        archive.begin_layer(descriptor)?;
        for piece in bytes.as_ref().chunks(1000) {
            archive.write(piece)?;
        }
        archive.end_layer(descriptor)?;
    }
    archive.finish()
}

fn tar(arguments: &[&str]) -> String {
    let output = Command::new("tar").args(arguments).env("TZ", "UTC").output().expect("tar runs");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_archive_is_a_function_of_the_image_alone() {
    let folder = tempdir().unwrap();
    let paths = ["one.tar", "a/b/two.tar"].map(|name| folder.path().join(name));
    let image = Base::docker().derived();
    for path in &paths {
        write_archive(path, &image).unwrap();
    }
    let [one, two] = paths.each_ref().map(|path| fs::read(path).unwrap());
    assert!(one == two);
    assert_eq!(one.len() % 512, 0);
    // A golden digest: users compare the bytes of archives.
    assert_eq!(
        Digest::of(&one).hex(),
        "d4574015d99df38f31ae4436dc69bd4043d45a56b62c1754ce2460bf5206ddab"
    );
    insta::assert_snapshot!(tar(&["--numeric-owner", "-tvf", paths[0].to_str().unwrap()]));
}

#[test]
fn real_tar_unpacks_the_layout_that_was_packed() {
    let folder = tempdir().unwrap();
    let (file, unpacked) = (folder.path().join("x.tar"), folder.path().join("unpacked"));
    let image = Base::oci().derived();
    write_archive(&file, &image).unwrap();
    fs::create_dir(&unpacked).unwrap();
    tar(&["-xf", file.to_str().unwrap(), "-C", unpacked.to_str().unwrap()]);
    let (packed, folder) =
        (LayoutImage::read(&file).unwrap(), LayoutImage::read(&unpacked).unwrap());
    for read in [packed, folder] {
        assert_eq!(read.name.as_deref(), Some(NAME));
        assert_eq!(read.manifest_digest, image.manifest_digest);
        assert_eq!((&read.manifest, &read.config), (&image.manifest, &image.config));
        assert_eq!((read.present_layers.len(), read.absent_layers.len()), (3, 0));
    }
}

#[test]
fn archives_of_other_tools_are_read() {
    let folder = tempdir().unwrap();
    let layout = folder.path().join("layout");
    let image = Base::docker().derived();
    super::support::put_layers(&layout, &Base::docker());
    crate::layout::write(&layout, &image, NAME).unwrap();
    for format in ["ustar", "gnu", "pax"] {
        let file = folder.path().join(format);
        let arguments = ["--format", format, "-cf", file.to_str().unwrap(), "-C"];
        tar(&[&arguments[..], &[layout.to_str().unwrap(), "."]].concat());
        let read = LayoutImage::read(&file).unwrap();
        assert_eq!(read.manifest_digest, image.manifest_digest, "{format}");
        assert_eq!(read.present_layers.len(), 3, "{format}");
    }
}

/// From 8 GiB on, Go's writer puts sizes into a pax record, and 0 into the header.
#[test]
fn a_size_in_a_pax_record_counts() {
    let folder = tempdir().unwrap();
    let (plain, pax) = (folder.path().join("plain"), folder.path().join("pax"));
    let image = Base::docker().derived();
    write_archive(&plain, &image).unwrap();
    let mut archive = tar::Archive::new(File::open(&plain).unwrap());
    let mut builder = tar::Builder::new(File::create(&pax).unwrap());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let size = entry.size().to_string();
        builder.append_pax_extensions([("size", size.as_bytes())]).unwrap();
        let mut header = entry.header().clone();
        header.set_size(0);
        header.set_cksum();
        let file = builder.get_mut();
        file.write_all(header.as_bytes()).unwrap();
        let written = std::io::copy(&mut entry, file).unwrap();
        file.write_all(&vec![0; (512 - written as usize % 512) % 512]).unwrap();
    }
    builder.finish().unwrap();
    assert_eq!(LayoutImage::read(&pax).unwrap().present_layers.len(), 3);
}

#[test]
fn nothing_is_at_the_path_before_the_end_and_what_was_there_stays() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("x.tar");
    let image = Base::docker().derived();
    let header = header_of("oci-layout", MARKER.len() as u64).unwrap();
    let before = [header.as_bytes().as_slice(), MARKER.as_bytes()].concat();
    fs::write(&path, &before).unwrap();
    let mut archive = ArchiveWriter::begin(&path, &image, NAME).unwrap();
    archive.begin_layer(&image.layers[0]).unwrap();
    archive.write(b"some").unwrap();
    assert_eq!(fs::read(&path).unwrap(), before);
    drop(archive);
    assert_eq!(fs::read(&path).unwrap(), before);
    // The layers written so far are kept for the next run.
    fs::remove_file(part_of(&path)).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    let below = path.join("below.tar");
    let error = ArchiveWriter::begin(&below, &image, NAME).unwrap_err();
    assert!(matches!(&error, LayoutError::Write { path, .. } if *path == below), "{error:?}");
    let error = ArchiveWriter::begin(folder.path(), &image, NAME).unwrap_err();
    assert!(matches!(error, LayoutError::Write { .. }), "{error:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read(&path).unwrap(), before);

    let other = folder.path().join("notes.txt");
    fs::write(&other, "what was there").unwrap();
    let error = ArchiveWriter::begin(&other, &image, NAME).unwrap_err();
    assert!(matches!(&error, LayoutError::NotAnArchive(path) if *path == other), "{error:?}");
    assert_eq!(fs::read(&other).unwrap(), b"what was there");

    // Other tools write archives with the time of the run.
    let foreign = folder.path().join("foreign.tar");
    let mut header = header_of("oci-layout", MARKER.len() as u64).unwrap();
    header.set_mtime(1_795_132_800);
    header.set_cksum();
    fs::write(&foreign, [header.as_bytes().as_slice(), MARKER.as_bytes()].concat()).unwrap();
    let error = ArchiveWriter::begin(&foreign, &image, NAME).unwrap_err();
    assert!(matches!(&error, LayoutError::ForeignArchive(path) if *path == foreign), "{error:?}");
}

/// Returns the offset and length of an entry's data.
fn place_of(path: &Path, digest: &Digest) -> (u64, u64) {
    let mut archive = tar::Archive::new(File::open(path).unwrap());
    let mut entries = archive.entries().unwrap().map(Result::unwrap);
    let found = entries.find(|entry| entry.path_bytes().ends_with(digest.hex().as_bytes()));
    let found = found.expect("the entry is there");
    (found.raw_file_position(), found.size())
}

#[test]
fn damage_is_named_with_the_archive_and_the_blob() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("x.tar");
    let image = Base::docker().derived();
    let layer = Digest::of(&layers()[1]);
    for digest in [&image.manifest_digest, &image.config_digest, &layer] {
        write_archive(&path, &image).unwrap();
        let (begin, size) = place_of(&path, digest);
        let mut bytes = fs::read(&path).unwrap();
        bytes[usize::try_from(begin + size / 2).unwrap()] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = LayoutImage::read(&path).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, LayoutError::Integrity { .. }), "{text}");
        assert!(text.contains(digest.as_str()) && text.contains(path.to_str().unwrap()), "{text}");
    }
    // Wherever the archive is truncated, reading it gives an error that names the file, or an image
    // whose last layers are missing.
    write_archive(&path, &image).unwrap();
    let whole = fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(509) {
        fs::write(&path, &whole[..length]).unwrap();
        match LayoutImage::read(&path) {
            Ok(read) => assert!(read.manifest == image.manifest && read.config == image.config),
            Err(error) => assert!(error.to_string().contains(path.to_str().unwrap()), "{error}"),
        }
    }
    for garbage in [&b"<html>"[..], &[0; 4096], &[0xff; 4096]] {
        fs::write(&path, garbage).unwrap();
        assert!(matches!(LayoutImage::read(&path), Err(LayoutError::Read { .. })));
    }
}

/// Starts an archive with one entry that declares a size but has little data.
fn with_stated_size(path: &PathBuf, name: &str, kind: tar::EntryType, size: u64) -> File {
    let mut file = File::create(path).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_path(name).unwrap();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_cksum();
    file.write_all(header.as_bytes()).unwrap();
    file.write_all(b"{}").unwrap();
    file
}

#[test]
fn absurd_sizes_take_no_memory() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("x.tar");
    let blob = format!("blobs/sha256/{}", "0".repeat(64));
    for name in ["index.json", "oci-layout", &blob] {
        for size in [5 << 20, 1 << 40, u64::MAX / 2, u64::MAX] {
            with_stated_size(&path, name, tar::EntryType::Regular, size);
            let error = LayoutImage::read(&path).unwrap_err();
            assert!(matches!(error, LayoutError::Read { .. }), "{error:?}");
        }
    }
    for kind in [tar::EntryType::GNULongName, tar::EntryType::XHeader, tar::EntryType::GNUSparse] {
        with_stated_size(&path, "x", kind, 1 << 50);
        assert!(LayoutImage::read(&path).is_err(), "{kind:?}");
    }
    // An index that really has the declared size: a hole, so it takes no space here.
    let mut file = with_stated_size(&path, "index.json", tar::EntryType::Regular, 100 << 20);
    file.seek(std::io::SeekFrom::Start(512 + (100 << 20))).unwrap();
    file.write_all(&[0; 1024]).unwrap();
    drop(file);
    let message = chain(&LayoutImage::read(&path).unwrap_err());
    assert!(message.contains("larger than 4 MiB"), "{message}");
}

#[test]
fn many_entries_are_refused_at_a_limit() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("x.tar");
    let mut builder = tar::Builder::new(File::create(&path).unwrap());
    for number in 0..10_001 {
        let mut header = tar::Header::new_ustar();
        header.set_size(0);
        builder.append_data(&mut header, format!("{number}"), &b""[..]).unwrap();
    }
    builder.finish().unwrap();
    let message = chain(&LayoutImage::read(&path).unwrap_err());
    assert!(message.contains("more than 10000 entries"), "{message}");
}

#[test]
fn an_archive_of_more_than_8_gib_has_a_header_that_tar_reads() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("x.tar");
    let image = Base::docker().derived();
    let mut large = image.layers[0].clone();
    large.size = 20 << 30;
    let mut archive = ArchiveWriter::begin(&path, &image, NAME).unwrap();
    archive.begin_layer(&large).unwrap();
    archive.finish().unwrap();
    let mut read = tar::Archive::new(File::open(&path).unwrap());
    let sizes = read.entries().unwrap().map_while(Result::ok).map(|entry| entry.size());
    assert_eq!(sizes.last(), Some(20 << 30));
    let listed = Command::new("tar").arg("-tvf").arg(&path).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains(" 21474836480 "), "{listed}");
}

/// Begins an archive and writes its layers up to a number of bytes of the second one.
fn interrupted(path: &Path, image: &DerivedImage, bytes: usize) {
    let mut archive = ArchiveWriter::begin(path, image, NAME).unwrap();
    let layers = layers();
    archive.begin_layer(&image.layers[0]).unwrap();
    archive.write(&layers[0]).unwrap();
    archive.end_layer(&image.layers[0]).unwrap();
    archive.begin_layer(&image.layers[1]).unwrap();
    archive.write(&layers[1][..bytes]).unwrap();
}

#[test]
fn an_unfinished_archive_is_continued() {
    let folder = tempdir().unwrap();
    let (path, whole) = (folder.path().join("x.tar"), folder.path().join("whole.tar"));
    let image = Base::docker().derived();
    write_archive(&whole, &image).unwrap();
    let part = part_of(&path);
    interrupted(&path, &image, 10);
    assert!(part.exists() && !path.exists());
    let layers = layers();

    let mut archive = ArchiveWriter::begin(&path, &image, NAME).unwrap();
    archive.begin_layer(&image.layers[0]).unwrap();
    let kept = archive.keep_beginning(&image.layers[0]).unwrap();
    assert_eq!(kept.length(), image.layers[0].size);
    archive.end_layer(&image.layers[0]).unwrap();
    archive.begin_layer(&image.layers[1]).unwrap();
    assert_eq!(archive.keep_beginning(&image.layers[1]).unwrap().length(), 10);
    // The caller finds that the beginning is damaged.
    archive.restart_layer().unwrap();
    assert_eq!(archive.keep_beginning(&image.layers[1]).unwrap().length(), 0);
    archive.write(&layers[1]).unwrap();
    archive.end_layer(&image.layers[1]).unwrap();
    archive.finish().unwrap();
    assert!(fs::read(&path).unwrap() == fs::read(&whole).unwrap());
    assert!(!part.exists());
}

#[test]
fn an_unfinished_archive_of_another_image_is_no_beginning() {
    let folder = tempdir().unwrap();
    let (path, whole) = (folder.path().join("x.tar"), folder.path().join("whole.tar"));
    interrupted(&path, &Base::docker().derived(), 10);
    let image = Base::oci().derived();
    write_archive(&whole, &image).unwrap();
    write_archive(&path, &image).unwrap();
    assert!(fs::read(&path).unwrap() == fs::read(&whole).unwrap());
    // Nothing useful is left of an archive without layers.
    drop(ArchiveWriter::begin(&folder.path().join("y.tar"), &image, NAME).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn an_archive_has_one_writer_by_whatever_name() {
    let folder = tempdir().unwrap();
    let (path, link) = (folder.path().join("x.tar"), folder.path().join("link.tar"));
    let image = Base::docker().derived();
    write_archive(&path, &Base::oci().derived()).unwrap();
    std::os::unix::fs::symlink("x.tar", &link).unwrap();
    let first = ArchiveWriter::begin(&path, &image, NAME).unwrap();
    for name in [&path, &link] {
        let second = ArchiveWriter::begin(name, &image, NAME);
        assert!(matches!(&second, Err(LayoutError::Busy(part)) if *part == part_of(&path)));
        remove_unfinished(name);
        assert!(part_of(&path).exists());
    }
    drop(first);
    write_archive(&link, &image).unwrap();
    assert_eq!(LayoutImage::read(&path).unwrap().manifest_digest, image.manifest_digest);

    // Once the archive is complete, the unfinished file of another image is removed.
    interrupted(&path, &image, 10);
    remove_unfinished(&link);
    assert!(!part_of(&path).exists() && path.exists());
}

#[test]
fn a_file_that_was_renamed_before_it_was_locked_is_not_written() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("x");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let is_stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    let mut written = 0;
    std::thread::scope(|scope| {
        // Each writer finishes immediately, and replaces the file that the other one may have
        // opened.
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_stopped() {
                    let Ok(mut file) = open_part(&path) else { continue };
                    assert_eq!(file.metadata().unwrap().len(), 0, "a finished file was opened");
                    file.write_all(b"whole").unwrap();
                    fs::rename(part_of(&path), &path).unwrap();
                }
            });
        }
        while written < 2000 {
            written += usize::from(fs::read(&path).is_ok_and(|found| found == b"whole"));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_link_to_an_archive_stays_a_link() {
    let folder = tempdir().unwrap();
    let (path, link) = (folder.path().join("x.tar"), folder.path().join("link.tar"));
    let image = Base::oci().derived();
    write_archive(&path, &Base::docker().derived()).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("x.tar", &link).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    write_archive(&link, &image).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(LayoutImage::read(&path).unwrap().manifest_digest, image.manifest_digest);
    assert_eq!(mode(&path), 0o640);
    // The next run can continue an archive without write permission.
    fs::set_permissions(&path, PermissionsExt::from_mode(0o440)).unwrap();
    interrupted(&link, &image, 10);
    assert_eq!(mode(&part_of(&path)), 0o640);
    write_archive(&link, &image).unwrap();
    assert_eq!(mode(&path), 0o440);
    // A dangling link, and a link in place of the unfinished archive.
    fs::remove_file(&path).unwrap();
    assert!(matches!(write_archive(&link, &image), Err(LayoutError::Write { .. })));
    std::os::unix::fs::symlink("/dev/null", part_of(&path)).unwrap();
    assert!(matches!(write_archive(&path, &image), Err(LayoutError::Write { .. })));
}

#[test]
fn an_archive_is_up_to_date_only_if_every_byte_is_right() {
    let folder = tempdir().unwrap();
    let (path, verified) =
        (folder.path().join("x.tar"), Verified::new(folder.path().join("records")));
    let [image, other] = [Base::docker().derived(), Base::oci().derived()];
    assert!(!holds(&path, &image, NAME, &verified));
    write_archive(&path, &image).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(150));
    for _ in 0..2 {
        assert!(holds(&path, &image, NAME, &verified));
        assert!(!holds(&path, &image, "another", &verified));
        assert!(!holds(&path, &other, NAME, &verified));
    }
    assert_eq!(fs::read_dir(folder.path().join("records")).unwrap().count(), 1);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 1024 - 520;
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(!holds(&path, &image, NAME, &verified));
}

#[test]
fn the_layers_of_an_archive_are_found_without_reading_it() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("x.tar");
    let image = Base::docker().derived();
    write_archive(&path, &image).unwrap();
    let found = crate::archive::blobs_of(&path).unwrap();
    for layer in &image.layers {
        let place = found.get(&layer.digest).unwrap();
        assert_eq!((place.begin, place.size), place_of(&path, &layer.digest));
    }
}
