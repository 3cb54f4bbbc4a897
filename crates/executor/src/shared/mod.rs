//! Stores of finished steps that several machines share: repositories of registries, and folders.
//!
//! An entry is an artifact whose tag is the key of its step (`entry`). It is read from a store,
//! checked, and copied into this machine's own store; everything else uses only that store. A step
//! that finished here is compared with the entries of the shared stores, and pushed to the writable
//! ones. While a step runs, a claim (`claim`) tells other runs to wait for it.
//!
//! The content of a store is never trusted: `docs/adr/0005-shared-steps.md` lists the checks.

mod claim;
mod entry;
mod publish;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use names::{Digest, ImageRef};
use oci::client::RegistryClient;
use oci::media::Descriptor;
use oci::{ArtifactError, ArtifactFolder, ArtifactPlace, LayoutError, ParsePlaceError, Removed};
use plan::{Action, Input, Plan, Step};

pub(crate) use claim::{Claim, Turn};
pub(crate) use publish::Finished;

use entry::Entry;

use crate::build_env::{BuildEnv, Store, StoredImage};
use crate::built::{has_image, keys};
use crate::{ExecuteError, Settings};

/// One shared store.
#[derive(Debug, Clone)]
pub struct SharedStore {
    /// Its name in messages and records, in the syntax of `--store`.
    name: String,
    place: ArtifactPlace,
    is_read_only: bool,
}

/// Why a text is not a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseStoreError {
    /// It is neither a repository nor a folder.
    #[error(transparent)]
    Place(#[from] ParsePlaceError),
    /// There is an unknown word after the comma.
    #[error("`{0}` is not an option of a store; the only option is `ro`")]
    Option(String),
}

impl FromStr for SharedStore {
    type Err = ParseStoreError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (place, option) = match text.rsplit_once(',') {
            Some((place, option)) => (place, Some(option)),
            None => (text, None),
        };
        if let Some(unknown) = option.filter(|option| *option != "ro") {
            return Err(ParseStoreError::Option(unknown.to_owned()));
        }
        let is_read_only = option.is_some();
        let place = match place.parse()? {
            // The name stays the same if a later command starts in another folder.
            ArtifactPlace::Folder(folder) => {
                let path = std::path::absolute(folder.path());
                let path = path.unwrap_or_else(|_| folder.path().to_owned());
                ArtifactPlace::Folder(ArtifactFolder::new(path))
            }
            registry @ ArtifactPlace::Registry(_) => registry,
        };
        let name = place.to_string();
        Ok(Self { name, place, is_read_only })
    }
}

impl SharedStore {
    /// Returns its name, in the syntax of `--store`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks that a folder contains nothing but artifacts. A registry is checked when it is read.
    ///
    /// # Errors
    /// Fails if the folder contains something else, or cannot be read.
    pub fn check(&self) -> Result<(), LayoutError> {
        match &self.place {
            ArtifactPlace::Folder(folder) => folder.check(None),
            ArtifactPlace::Registry(_) => Ok(()),
        }
    }

    /// Removes the steps that have not been used since a given time, if the store is a folder.
    /// Nothing is removed if `is_dry` is set. Returns `None` for a registry.
    ///
    /// # Errors
    /// Fails if the folder contains something else, or cannot be read or written.
    pub fn clean(
        &self,
        unused_since: SystemTime,
        is_dry: bool,
    ) -> Result<Option<Removed>, LayoutError> {
        match &self.place {
            ArtifactPlace::Folder(folder) => {
                folder.clean(&[entry::STEP, claim::CLAIM], unused_since, is_dry).map(Some)
            }
            ArtifactPlace::Registry(_) => Ok(None),
        }
    }

    /// Returns the store's folder, or `None` if the store is in a registry.
    pub fn folder(&self) -> Option<&Path> {
        match &self.place {
            ArtifactPlace::Folder(folder) => Some(folder.path()),
            ArtifactPlace::Registry(_) => None,
        }
    }

    /// Returns the registry's host, or `None` if the store is a folder.
    pub fn host(&self) -> Option<&str> {
        match &self.place {
            ArtifactPlace::Registry(repository) => Some(repository.registry()),
            ArtifactPlace::Folder(_) => None,
        }
    }
}

/// The stores of a run, and their state during the run.
#[derive(Debug)]
pub struct SharedStores {
    client: RegistryClient,
    stores: Vec<SharedStore>,
    /// The name of this run, for the claims that others read.
    owner: String,
    /// The share of entries that are built again and compared, in percent.
    verified_share: u8,
    /// The results that keys must have, from other jobs of the same workflow.
    results: BTreeMap<Digest, Digest>,
    /// Decides which entries are built again.
    random: RandomState,
    sampled: Mutex<BTreeSet<Digest>>,
    /// The stores that did not answer, with the reason.
    failed: Mutex<BTreeMap<String, String>>,
    /// The refused entries, by store and key.
    refused: Mutex<BTreeSet<(String, Digest)>>,
}

/// A finished step that is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) step: &'a str,
    pub(crate) key: &'a Digest,
    /// The image whose repository has the layers of its base. It comes from the plan, never from a
    /// store.
    pub(crate) remote: Option<&'a ImageRef>,
}

/// Receives the name of a rule and a message.
pub(crate) type OnNote<'a> = &'a (dyn Fn(&str, String) + Sync);

/// Why an entry is not used.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The store did not answer.
    Unreachable(ArtifactError),
    /// The entry was refused, for this reason.
    Refused(String),
    /// This machine's own store cannot be written.
    Own(ExecuteError),
}

impl From<ArtifactError> for Problem {
    fn from(error: ArtifactError) -> Self {
        if error.is_about_content() {
            Self::Refused(chain(&error))
        } else {
            Self::Unreachable(error)
        }
    }
}

impl From<ExecuteError> for Problem {
    fn from(error: ExecuteError) -> Self {
        Self::Own(error)
    }
}

impl SharedStores {
    /// Creates the set of stores of a run. They are tried in the given order. `owner` is the name of
    /// the run.
    pub fn new(client: RegistryClient, stores: Vec<SharedStore>, owner: String) -> Self {
        Self {
            client,
            stores,
            owner,
            verified_share: 0,
            results: BTreeMap::new(),
            random: RandomState::new(),
            sampled: Mutex::default(),
            failed: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Sets the share of the entries, in percent, that are built again and compared.
    #[must_use]
    pub fn verifying(self, percent: u8) -> Self {
        Self { verified_share: percent, ..self }
    }

    /// Sets the required results, by key. Entries with a different result are refused.
    #[must_use]
    pub fn with_results(self, results: BTreeMap<Digest, Digest>) -> Self {
        Self { results, ..self }
    }

    /// Returns the writable stores that did not answer, each with the reason. They lack the results
    /// of this run.
    pub fn unreached(&self) -> Vec<(String, String)> {
        let failed = lock(&self.failed);
        let writable = self.stores.iter().filter(|store| !store.is_read_only);
        writable
            .filter_map(|store| failed.get_key_value(&store.name))
            .map(|(name, why)| (name.clone(), why.clone()))
            .collect()
    }

    /// Returns whether an entry may be read from the store with this name.
    pub(crate) fn may_read(&self, name: &str) -> bool {
        self.stores.iter().any(|store| store.name == name)
    }

    /// Returns whether the step with this key is built again and compared.
    pub(crate) fn is_sampled(&self, key: &Digest) -> bool {
        lock(&self.sampled).contains(key)
    }

    /// Copies the entry of a step into this machine's store, from the first store that has a valid
    /// one.
    pub(crate) async fn pull(
        &self,
        wanted: Wanted<'_>,
        own: &Store,
        note: OnNote<'_>,
    ) -> Option<StoredImage> {
        for store in &self.stores {
            let found = match self.entry(store, wanted, note).await {
                Some(entry) => entry,
                None => continue,
            };
            match self.copy(store, &found, wanted, own).await {
                Ok(made) => return Some(made),
                Err(problem) => self.tell(store, wanted, problem, note),
            }
        }
        None
    }

    /// Returns the entry of a step in one store. Reports why an invalid entry is not used.
    async fn entry(
        &self,
        store: &SharedStore,
        wanted: Wanted<'_>,
        note: OnNote<'_>,
    ) -> Option<Entry> {
        if lock(&self.failed).contains_key(&store.name) {
            return None;
        }
        let found = Entry::read(&store.place, &self.client, wanted.key).await;
        let checked = found.and_then(|entry| match entry {
            Some(entry) => self.check(entry, wanted).map(Some),
            None => Ok(None),
        });
        checked.unwrap_or_else(|problem| {
            self.tell(store, wanted, problem, note);
            None
        })
    }

    /// Checks that an entry has the required result, and that all of its layers are available.
    fn check(&self, entry: Entry, wanted: Wanted<'_>) -> Result<Entry, Problem> {
        if let Some(result) = self.results.get(wanted.key).filter(|one| **one != entry.result) {
            let found = &entry.result;
            return Err(Problem::Refused(format!(
                "its result is `{found}`, but `{result}` is required"
            )));
        }
        if let (Some(layer), None) = (entry.missing().next(), wanted.remote) {
            let layer = &layer.digest;
            return Err(Problem::Refused(format!("it lacks the layer `{layer}`")));
        }
        Ok(entry)
    }

    async fn copy(
        &self,
        store: &SharedStore,
        entry: &Entry,
        wanted: Wanted<'_>,
        own: &Store,
    ) -> Result<StoredImage, Problem> {
        for layer in &entry.layers {
            if own.layer(layer).is_none() {
                entry::copy_layer(&store.place, &self.client, layer, own).await?;
            }
        }
        let made = entry.image(wanted.remote.cloned(), &store.name);
        if let Some(slimmed) = &entry.slim {
            own.keep_slimmed(wanted.key, slimmed)?;
        }
        own.finish(wanted.key, &made)?;
        if let ArtifactPlace::Folder(folder) = &store.place
            && !store.is_read_only
        {
            folder.note_use(&entry::tag_of(wanted.key)?);
        }
        Ok(made)
    }

    /// Reports a problem with a store. A store that did not answer is not tried again.
    fn tell(&self, store: &SharedStore, wanted: Wanted<'_>, problem: Problem, note: OnNote<'_>) {
        let Wanted { step, key, .. } = wanted;
        let name = &store.name;
        match problem {
            Problem::Refused(why) => {
                lock(&self.refused).insert((name.clone(), key.clone()));
                let key = key.hex();
                note(
                    REFUSED,
                    format!("step `{step}`: the entry `{key}` of `{name}` is not used: {why}"),
                );
            }
            Problem::Unreachable(error) => {
                let why = chain(&error);
                if lock(&self.failed).insert(name.clone(), why.clone()).is_none() {
                    note(UNREACHABLE, format!("the store `{name}` is not used in this run: {why}"));
                }
            }
            Problem::Own(error) => note(REFUSED, format!("step `{step}`: {}", chain(&error))),
        }
    }

    fn is_refused(&self, store: &SharedStore, key: &Digest) -> bool {
        lock(&self.refused).contains(&(store.name.clone(), key.clone()))
    }

    /// Decides whether the step with this key, which a store has, is built again and compared.
    fn sample(&self, key: &Digest) -> bool {
        let is_chosen = self.random.hash_one(key) % 100 < u64::from(self.verified_share);
        if is_chosen {
            lock(&self.sampled).insert(key.clone());
        }
        is_chosen
    }
}

/// The rule of notes about entries that are not used.
const REFUSED: &str = "store-refused";
/// The rule of notes about stores that did not answer.
const UNREACHABLE: &str = "store-unreachable";
/// The rule of notes about results whose store must not be used.
const NOT_ALLOWED: &str = "store-not-allowed";

/// Finds the steps that a run of a plan needs, and copies their entries from the shared stores into
/// this machine's store. Reports refused entries. Call this before you decide whether the run needs
/// an engine.
pub async fn take_from_stores(
    plan: &Plan,
    settings: &Settings,
    note: &(dyn Fn(&str, String) + Sync),
) {
    let Some(build_env) = settings.build_env.as_ref().filter(|one| !one.is_fresh) else { return };
    let (keys, remotes) = (keys(plan), remotes(plan));
    let steps: BTreeMap<&str, &Step> =
        plan.steps.iter().map(|step| (step.id.as_str(), step)).collect();
    let last = settings.last_step.as_deref().or(plan.steps.last().map(|step| step.id.as_str()));
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = last.into_iter().collect();
    while let Some(id) = open.pop() {
        let Some(step) = steps.get(id).filter(|_| seen.insert(id)) else { continue };
        if let Some(key) = keys.get(id).filter(|_| has_image(&step.action)) {
            let wanted = Wanted { step: id, key, remote: remotes.get(id) };
            if is_there(build_env, wanted, note).await {
                continue;
            }
        }
        open.extend(step.action.needs());
    }
}

/// The result of comparing the layers of an image with a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCheck {
    /// The step that made the layers.
    pub step: String,
    /// The name of the store.
    pub store: String,
    /// The digests of the first layer that differs: in the store and in the image. Either may lack
    /// the layer.
    pub difference: Option<(Option<Digest>, Option<Digest>)>,
}

/// Compares the layers of an image with the stores' entries for the last step of the plan that has
/// an entry. Each later step that adds the project's own files adds one layer. Stores without the
/// entry are left out.
pub async fn compare_with_stores(
    plan: &Plan,
    layers: &[Descriptor],
    shared: &SharedStores,
    note: &(dyn Fn(&str, String) + Sync),
) -> Vec<StoreCheck> {
    let Some(at) = plan.steps.iter().rposition(|step| has_image(&step.action)) else {
        return Vec::new();
    };
    let step = &plan.steps[at];
    let own = plan.steps[at..].iter().filter(|one| matches!(one.action, Action::AddFiles { .. }));
    let own = own.count();
    let (keys, remotes) = (keys(plan), remotes(plan));
    let Some(key) = keys.get(&step.id) else { return Vec::new() };
    let wanted = Wanted { step: &step.id, key, remote: remotes.get(&step.id) };
    let mut checks = Vec::new();
    for store in &shared.stores {
        let Some(entry) = shared.entry(store, wanted, note).await else { continue };
        let stored = entry.all_layers();
        let digest =
            |all: &[Descriptor], nth: usize| all.get(nth).map(|layer| layer.digest.clone());
        let last = stored.len().max(layers.len().saturating_sub(own));
        let mut pairs = (0..last).map(|nth| (digest(stored, nth), digest(layers, nth)));
        let difference = pairs.find(|(there, here)| there != here);
        let (step, store) = (step.id.clone(), store.name.clone());
        checks.push(StoreCheck { step, store, difference });
    }
    checks
}

/// Returns the name of the first store that has the entry with a key. The entry is not checked.
pub async fn store_with(shared: &SharedStores, key: &Digest) -> Option<String> {
    let tag = entry::tag_of(key).ok()?;
    for store in &shared.stores {
        if let Ok(Some(_)) = store.place.manifest(&shared.client, &tag).await {
            return Some(store.name.clone());
        }
    }
    None
}

/// Returns whether a step need not run. Copies its entry from a store if this machine lacks it.
async fn is_there(build_env: &BuildEnv, wanted: Wanted<'_>, note: OnNote<'_>) -> bool {
    let (shared, key) = (&build_env.shared, wanted.key);
    if shared.verified_share > 0 {
        for store in &shared.stores {
            if shared.entry(store, wanted, note).await.is_some() && shared.sample(key) {
                return false;
            }
        }
    }
    if build_env.finished(key).is_some() {
        return true;
    }
    if let Some(origin) = build_env.store.finished(key).and_then(|made| made.origin) {
        let step = wanted.step;
        note(
            NOT_ALLOWED,
            format!(
                "step `{step}` came from `{origin}`, which is not a store of this run, so it is not used; `--store {origin}` or `store` in config.toml allows it"
            ),
        );
    }
    shared.pull(wanted, &build_env.store, note).await.is_some()
}

/// Returns the image whose repository has the layers of each step's base, by the step's name. Steps
/// without a base in a registry are absent.
pub(crate) fn remotes(plan: &Plan) -> BTreeMap<String, ImageRef> {
    let mut all: BTreeMap<String, ImageRef> = BTreeMap::new();
    for step in &plan.steps {
        let remote = match &step.action {
            Action::FetchBase { .. } => match plan.input_of(step) {
                Some(Input::Image { reference, .. }) => Some(reference.clone()),
                _ => None,
            },
            Action::SealImage { base, .. } | Action::AddFiles { base, .. } => {
                all.get(base).cloned()
            }
            Action::SlimImage { image, .. } | Action::AuditImage { image, .. } => {
                all.get(image).cloned()
            }
            _ => None,
        };
        all.extend(remote.map(|remote| (step.id.clone(), remote)));
    }
    all
}

/// Returns an error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_repository_or_a_folder_with_or_without_ro() {
        for (text, name, is_read_only) in [
            ("registry:ghcr.io/me/steps", "registry:ghcr.io/me/steps", false),
            ("registry:127.0.0.1:5000/steps,ro", "registry:127.0.0.1:5000/steps", true),
            ("dir:/srv/steps", "dir:/srv/steps", false),
            ("dir:/srv/a,b,ro", "dir:/srv/a,b", true),
        ] {
            let store: SharedStore = text.parse().unwrap();
            assert_eq!((store.name(), store.is_read_only), (name, is_read_only), "{text}");
        }
        for (text, why) in [
            ("ghcr.io/me/steps", "is neither"),
            ("dir:", "is neither"),
            ("oci:steps", "is neither"),
            ("registry:ghcr.io/me/steps:latest", "has a tag"),
            ("registry:https://ghcr.io/me", "is not a repository"),
            ("dir:/srv/steps,rw", "`rw` is not an option"),
        ] {
            let error = text.parse::<SharedStore>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
