//! Opens the shared stores of finished steps that a run uses.

use executor::{SharedStore, SharedStores};
use failure::{Failure, Kind, MIRROR_ONLY};
use names::Secret;
use oci::client::RegistryClient;
use sources::Hosts;

use crate::build_env::new_run;
use crate::mirrors::Mirrors;

/// An example of a store.
pub(crate) const EXAMPLE: &str = "registry:registry.example.org/steps,ro";

/// Returns the stores that the user named.
///
/// # Errors
/// A text does not name a store, a store is named twice or is on a host that must not be contacted,
/// or its folder contains other files.
pub fn parse(given: &[Secret], mirrors: &Mirrors) -> Result<Vec<SharedStore>, Failure> {
    let hosts = mirrors.hosts();
    let mut stores: Vec<SharedStore> = Vec::new();
    for text in given {
        let store: SharedStore = text.expose().parse().map_err(|error| {
            Failure::caused(Kind::Input, format!("cannot use `--store {text}`"), &error)
                .hint(format!("use `--store {EXAMPLE}` or `--store dir:/srv/steps`"))
        })?;
        if let (Hosts::Only(allowed), Some(host)) = (&hosts, store.host())
            && !allowed.contains(host)
        {
            let what = format!(
                "the store `{}` is not the target of a mirror rule, and nothing else may be contacted",
                store.name()
            );
            return Err(Failure::new(Kind::Input, what)
                .hint(format!("`--mirror {host}={host}` allows the store; a folder needs no rule"))
                .hint(MIRROR_ONLY));
        }
        store.check().map_err(|error| {
            Failure::caused(Kind::Input, format!("cannot use `--store {}`", store.name()), &error)
                .hint("specify a new or empty folder, or one that an earlier `--store` filled")
        })?;
        if stores.iter().any(|other| other.name() == store.name()) {
            let what = format!("the store `{}` is specified twice", store.name());
            return Err(Failure::new(Kind::Input, what).hint("specify each store once"));
        }
        stores.push(store);
    }
    Ok(stores)
}

/// Opens the stores of a run.
///
/// # Errors
/// No name can be generated for the run.
pub fn open(client: RegistryClient, stores: Vec<SharedStore>) -> Result<SharedStores, Failure> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let owner = format!("`{}` on {}", new_run()?.as_str(), host.trim());
    Ok(SharedStores::new(client, stores, owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_named_once_and_only_on_a_host_that_may_be_asked() {
        let parsed = |given: &[&str], rules: &[&str], only: bool| {
            let secrets = |texts: &[&str]| texts.iter().map(|one| Secret::from(*one)).collect();
            let rules: Vec<Secret> = secrets(rules);
            let given: Vec<Secret> = secrets(given);
            parse(&given, &crate::mirrors::read(&rules, only).unwrap())
        };
        let registry = "registry:127.0.0.1:5000/steps";
        assert_eq!(parsed(&[registry, "dir:/srv/steps"], &[], false).unwrap().len(), 2);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("letter.txt"), "of somebody").unwrap();
        let other = format!("dir:{}", folder.path().display());
        for (given, rules, only, why) in [
            (&[registry, registry][..], &[][..], false, "is specified twice"),
            (&[registry], &[], true, "is not the target of a mirror rule"),
            (&["steps"], &[], false, "cannot use `--store steps`"),
            (&[&other], &[], false, "contains something other than"),
        ] {
            let error = parsed(given, rules, only).unwrap_err().lines().join(": ");
            assert!(error.contains(why), "{error}");
        }
        let rule = "127.0.0.1:5000=127.0.0.1:5000";
        assert_eq!(parsed(&[registry, "dir:/srv/steps"], &[rule], true).unwrap().len(), 2);
    }
}
