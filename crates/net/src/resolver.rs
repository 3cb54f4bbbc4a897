//! Resolves names for the connections of a client, and refuses addresses that are not public
//! enough.
//!
//! Addresses are checked when a connection is opened, not before: two lookups of the same name may
//! give different addresses.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::policy::{AddressScope, check_scope};
use crate::transport::{FixedName, lock};

/// The resolver of a client: applies fixed names first, and refuses addresses that are not public
/// enough.
pub(crate) struct Names {
    pub(crate) fixed: Vec<FixedName>,
    /// The least public scope that an address may have, if there is a limit.
    pub(crate) limit: Option<AddressScope>,
    /// The hosts that registries named. A proxy is checked only if a registry also names its host.
    pub(crate) judged: Arc<Mutex<BTreeSet<String>>>,
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let limit = self.limit.filter(|_| lock(&self.judged).contains(&name));
        if let Some(fixed) = self.fixed.iter().find(|fixed| fixed.name == name) {
            let found = vec![(SocketAddr::new(fixed.address, 0), fixed.scope)];
            return Box::pin(std::future::ready(judge(&name, found, limit)));
        }
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found = found.map(|address| (address, AddressScope::of(address.ip()))).collect();
            judge(&name, found, limit)
        })
    }
}

fn judge(
    name: &str,
    found: Vec<(SocketAddr, AddressScope)>,
    limit: Option<AddressScope>,
) -> Result<Addrs, Box<dyn std::error::Error + Send + Sync>> {
    let mut allowed = Vec::new();
    let mut refused = None;
    for (address, scope) in found {
        match limit.map_or(Ok(()), |limit| check_scope(name, scope, limit)) {
            Ok(()) => allowed.push(address),
            Err(refusal) => refused = Some(refusal),
        }
    }
    match refused {
        Some(refusal) if allowed.is_empty() => Err(Box::new(refusal)),
        _ => Ok(Box::new(allowed.into_iter())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn real_names_are_judged_by_their_addresses() {
        let judged: BTreeSet<String> = ["localhost".to_owned()].into();
        let names = |limit, judged: BTreeSet<String>| Names {
            fixed: Vec::new(),
            limit,
            judged: Arc::new(Mutex::new(judged)),
        };
        let resolve = |names: Names| names.resolve("localhost".parse().unwrap());
        let refused =
            resolve(names(Some(AddressScope::Public), judged.clone())).await.err().unwrap();
        assert_eq!(refused.to_string(), "`localhost` is this machine, but the registry is not");
        assert!(resolve(names(Some(AddressScope::Loopback), judged.clone())).await.is_ok());
        assert!(resolve(names(None, judged)).await.is_ok());
        // A name that no registry gave is the name of a proxy, which is not checked.
        assert!(resolve(names(Some(AddressScope::Public), BTreeSet::new())).await.is_ok());
    }
}
