//! Creates the registry client from mirror rules and the machine's files.

use executor::{ErrorKind, fetch_base};
use failure::{Failure, Kind};
use names::{ImageRef, Platform};
use oci::client::{ClientSettings, Mirror, ParseMirrorError, RegistryClient};
use oci::credentials::CredentialFiles;
use oci::registries_conf::RegistriesConf;

use crate::build_env::blob_cache;
use crate::copies;
use crate::environment;
use crate::mirrors::Mirrors;

/// Returns the `User-Agent` of all requests.
fn user_agent() -> String {
    format!("build-pipeline/{}", env!("CARGO_PKG_VERSION"))
}

/// Creates the client of a real run.
///
/// # Errors
/// A configuration file or a proxy variable is wrong, or a bundle or copy cannot be opened.
pub fn client(mirrors: &Mirrors) -> Result<RegistryClient, Failure> {
    let settings = ClientSettings {
        credentials: CredentialFiles {
            files: environment::credential_files(),
            ..CredentialFiles::default()
        },
        registries_conf: registries_conf()?,
        mirrors: mirrors.registries.clone(),
        hosts: mirrors.hosts(),
        proxies: environment::proxies(&mirrors.proxies)?,
        user_agent: user_agent(),
        inputs: copies::open(&mirrors.local_copies())?,
        ..ClientSettings::default()
    };
    Ok(RegistryClient::new(settings))
}

/// Checks that an image can be the base of another image: that it is an image for x86-64 Linux, and
/// not an artifact or an image for other machines.
///
/// # Errors
/// The image cannot be used or fetched.
pub async fn check_base(client: &RegistryClient, image: &ImageRef) -> Result<(), Failure> {
    let platform = Platform::linux_amd64();
    let fetched = fetch_base(client, &blob_cache(), image, None, &platform).await;
    let error = match fetched {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    let mut told = Failure::from(&error);
    // The user chose the image.
    if error.kind() == ErrorKind::Base {
        told.kind = Kind::Input;
    }
    Err(told)
}

/// Creates the client of a rehearsal. It reads everything from the registry inside this process,
/// and no configuration file of the machine.
///
/// # Errors
/// A base or the host is not a valid registry name.
pub fn rehearsal_client(bases: &[&str], host: &str) -> Result<RegistryClient, Failure> {
    let mirrors: Result<_, ParseMirrorError> =
        bases.iter().map(|base| Mirror::new(base, host)).collect();
    let mirrors = mirrors.map_err(|error| Failure::from_chain(Kind::Bug, &error))?;
    let settings =
        ClientSettings { mirrors, user_agent: user_agent(), ..ClientSettings::default() };
    Ok(RegistryClient::new(settings))
}

fn registries_conf() -> Result<RegistriesConf, Failure> {
    let mut texts = Vec::new();
    for file in environment::registries_conf_files() {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(&file).map_err(|e| {
            Failure::caused(Kind::Input, format!("reading `{name}` failed"), &e)
                .hint("`CONTAINERS_REGISTRIES_CONF=FILE` selects another file")
        })?;
        texts.push((name, text));
    }
    RegistriesConf::parse(texts.iter().map(|(name, text)| (name.as_str(), text.as_str()))).map_err(|e| {
        Failure::from_chain(Kind::Input, &e)
            .hint("containers-registries.conf(5) describes the format; `CONTAINERS_REGISTRIES_CONF=FILE` selects another file")
    })
}
