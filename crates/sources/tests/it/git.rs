//! Refs, commits and submodules from `git daemon`, smart HTTP and local paths.

use std::fs;

use sources::{ErrorKind, Mode, Sources, Submodules};
use testkit::{FaultProxy, GitDaemon, GitFolder, GitHttp};

use crate::support::{Cache, fetch, listening, paths, small, source, tar};

/// One folder of repositories, with all servers and paths that give access to it.
struct Servers {
    daemon: GitDaemon,
    http: GitHttp,
    old: GitHttp,
    folder: GitFolder,
}

impl Servers {
    fn new() -> Self {
        let folder = GitFolder::new();
        let (daemon, http) = (GitDaemon::start(folder.path()), GitHttp::start(folder.path()));
        let old = GitHttp::start(folder.path());
        old.be_old();
        old.configure("uploadpack.allowReachableSHA1InWant=true");
        Self { daemon, http, old, folder }
    }

    fn urls(&self, name: &str) -> [String; 4] {
        let path = self.folder.path().join(name);
        let file = format!("file://{}", path.display());
        [self.daemon.url(name), self.http.url(name), self.old.url(name), file]
    }
}

#[tokio::test]
async fn refs_are_listed_with_what_tags_name() {
    let servers = Servers::new();
    let first = small(&servers.folder, "a");
    servers.folder.run("a", &["tag", "light"]);
    servers.folder.run("a", &["tag", "-a", "v1.0", "-m", "one"]);
    servers.folder.run("a", &["tag", "-a", "again", "-m", "a tag of a tag", "v1.0"]);
    servers.folder.write("a", "new", "x");
    let second = servers.folder.commit("a");
    servers.folder.run("a", &["branch", "v1.0"]);
    for url in servers.urls("a") {
        let sources = Cache::new().local();
        let url = url.parse().unwrap();
        let refs = sources.refs(&url).await.unwrap();
        let names: Vec<&str> = refs.iter().map(|one| one.name.as_str()).collect();
        let wanted = [
            "HEAD",
            "refs/heads/main",
            "refs/heads/v1.0",
            "refs/tags/again",
            "refs/tags/light",
            "refs/tags/v1.0",
        ];
        assert_eq!(names, wanted, "{url}");
        assert_eq!(refs.tags().collect::<Vec<_>>(), ["again", "light", "v1.0"]);
        for (name, commit, whole) in [
            ("v1.0", &first, "refs/tags/v1.0"),
            ("refs/heads/v1.0", &second, "refs/heads/v1.0"),
            ("light", &first, "refs/tags/light"),
            ("again", &first, "refs/tags/again"),
            ("main", &second, "refs/heads/main"),
            ("HEAD", &second, "HEAD"),
        ] {
            let found = sources.resolve(&url, &name.parse().unwrap()).await.unwrap();
            assert_eq!(
                (found.commit.as_str(), found.name.as_str()),
                (commit.as_str(), whole),
                "{url}"
            );
        }
        let tag = refs.iter().find(|one| one.name == "refs/tags/v1.0").unwrap();
        assert_eq!(tag.peeled.as_deref(), Some(first.as_str()));
        assert_ne!(tag.id, first);
        let commit = first.parse().unwrap();
        let leading: Vec<&str> = refs.leading_to(&commit).collect();
        assert_eq!(leading, ["refs/tags/again", "refs/tags/light", "refs/tags/v1.0"]);
        let error = sources.resolve(&url, &"v9".parse().unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(
            error.to_string(),
            format!("cannot resolve a ref of `{url}`: there is no tag or branch `v9`")
        );
    }
}

#[tokio::test]
async fn a_moved_tag_is_reported() {
    let servers = Servers::new();
    let first = small(&servers.folder, "a");
    servers.folder.run("a", &["tag", "v1"]);
    let (url, name) = (servers.http.url("a").parse().unwrap(), "v1".parse().unwrap());
    let (sources, pinned) = (Cache::new().sources(), first.parse().unwrap());
    assert!(sources.check_ref(&url, &name, &pinned).await.is_ok());
    servers.folder.write("a", "README", "changed");
    let second = servers.folder.commit("a");
    servers.folder.run("a", &["tag", "-f", "v1"]);
    let error = sources.check_ref(&url, &name, &pinned).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Moved);
    assert_eq!(
        error.to_string(),
        format!(
            "cannot trust the ref `v1 of {url}`: it was pinned to `{first}`, but is now at `{second}`"
        )
    );
}

#[tokio::test]
async fn the_tree_of_a_commit_is_the_same_however_it_comes() {
    let servers = Servers::new();
    let folder = &servers.folder;
    small(folder, "a");
    folder.write("a", ".github/w.yml", "on: push\n");
    folder.write("a", "run.sh", "#!/bin/sh\n");
    folder.write("a", "empty", "");
    folder.write("a", "ü/file with space", "x");
    std::os::unix::fs::symlink("src/main.c", folder.path().join("a/link")).unwrap();
    folder.run("a", &["add", "-A"]);
    folder.run("a", &["update-index", "--chmod=+x", "run.sh"]);
    folder.run("a", &["commit", "-q", "-m", "x"]);
    let commit = folder.run("a", &["rev-parse", "HEAD"]);
    // The fetched commit is not the tip, and has a history.
    folder.write("a", "later", "x");
    folder.commit("a");
    folder.run("a", &["tag", "-a", "v1", "-m", "x"]);
    folder.run("a", &["archive", "--prefix=a-1/", "-o", "../a.tar.gz", &commit]);
    let mut tars = Vec::new();
    for url in servers.urls("a") {
        let cache = Cache::new();
        let (sources, heard) = listening(&cache.local());
        let fetched = fetch(&sources, &url, &commit).await.unwrap();
        let wanted = [
            ".github/w.yml",
            "README",
            "empty",
            "link",
            "run.sh",
            "src/main.c",
            "ü/file with space",
        ];
        assert_eq!(paths(&fetched.tree), wanted);
        assert_eq!(fetched.tree.mode("run.sh"), Some(Mode::Executable));
        assert_eq!(fetched.tree.mode("link"), Some(Mode::Symlink));
        assert_eq!(fetched.tree.read_file("README").unwrap(), b"this is a\n");
        tars.push(tar(&fetched.tree));
        // The second time, no server is contacted. `git` can read the cache.
        let again = fetch(&cache.offline(), &url, &commit).await.unwrap();
        assert_eq!((again.received, tar(&again.tree)), (0, tars[0].clone()));
        assert_eq!(*heard.lock().unwrap(), ["fetching"]);
        let repository = fs::read_dir(cache.folder.path().join("cache/git")).unwrap();
        let repository = repository.map(|entry| entry.unwrap().path());
        let repository = repository.filter(|path| path.is_dir()).collect::<Vec<_>>();
        let name = repository[0].to_str().unwrap();
        folder.run("a", &["-C", name, "fsck", "--strict", "--no-dangling"]);
        assert_eq!(folder.run("a", &["-C", name, "rev-list", "--all"]), commit);
    }
    let sha256 = crate::archives::sha256_of(&folder.path().join("a.tar.gz"));
    let url = format!("file://{}", folder.path().join("a.tar.gz").display());
    let cache = Cache::new();
    let archive =
        cache.local().fetch_archive(&crate::archives::source(&url, &sha256)).await.unwrap();
    tars.push(tar(&archive.tree(&Default::default(), None).unwrap()));
    assert!(tars.iter().all(|one| *one == tars[0]), "all five are the same bytes");
}

#[tokio::test]
async fn the_next_commit_brings_the_difference_only() {
    let servers = Servers::new();
    let first = crate::support::large(&servers.folder, "a");
    let cache = Cache::new();
    let url = servers.http.url("a");
    let one = fetch(&cache.sources(), &url, &first).await.unwrap();
    let mut commits = vec![first];
    for number in 0..6 {
        servers.folder.write("a", "small", format!("change {number}"));
        commits.push(servers.folder.commit("a"));
    }
    let mut received = Vec::new();
    for commit in &commits[1..] {
        received.push(fetch(&cache.sources(), &url, commit).await.unwrap().received);
    }
    // A tree never depends on a long chain of packs: a fetch then builds on an older commit.
    let small = received.iter().filter(|bytes| **bytes < 2_000).count();
    assert!(one.received > 100_000 && small >= 3, "{} {received:?}", one.received);
    for commit in &commits {
        let fetched = fetch(&cache.offline(), &url, commit).await.unwrap();
        tar(&fetched.tree);
    }
}

#[tokio::test]
async fn commits_that_no_ref_leads_to() {
    let servers = Servers::new();
    let lost = small(&servers.folder, "a");
    servers.folder.run("a", &["commit", "-q", "--amend", "-m", "other"]);
    servers.folder.run("a", &["tag", "-f", "v1"]);
    let tip = servers.folder.run("a", &["rev-parse", "HEAD"]);
    // After a forced push, the server still has the old commit, and protocol 2 serves it.
    for url in [servers.daemon.url("a"), servers.http.url("a")] {
        assert!(fetch(&Cache::new().sources(), &url, &lost).await.is_ok(), "{url}");
    }
    // With protocol 0, a server that serves only reachable commits refuses.
    let error = fetch(&Cache::new().sources(), &servers.old.url("a"), &lost).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.to_string().contains(
            "does not have this commit, or it only serves commits that are reachable from a branch or tag"
        ),
        "{error}"
    );
    // Without that setting, only the tips are available.
    let stingy = GitHttp::start(servers.folder.path());
    stingy.be_old();
    assert!(fetch(&Cache::new().sources(), &stingy.url("a"), &tip).await.is_ok());
    servers.folder.write("a", "x", "y");
    servers.folder.commit("a");
    servers.folder.run("a", &["tag", "-d", "v1"]);
    let error = fetch(&Cache::new().sources(), &stingy.url("a"), &tip).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("uploadpack.allowReachableSHA1InWant"), "{error}");
    // A commit that never existed.
    let none = "0123456789012345678901234567890123456789";
    for url in servers.urls("a") {
        let cache = Cache::new();
        let error = fetch(&cache.local(), &url, none).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.to_string().starts_with(&format!("cannot fetch `{url} at {none}`: ")));
        assert!(
            cache.files().iter().all(|(name, _)| !name.contains("pack-")),
            "{:?}",
            cache.files()
        );
    }
}

#[tokio::test]
async fn hashes_of_other_things_than_commits() {
    let servers = Servers::new();
    let commit = small(&servers.folder, "a");
    servers.folder.run("a", &["tag", "-a", "v1", "-m", "one"]);
    let tag = servers.folder.run("a", &["rev-parse", "v1"]);
    let tree = servers.folder.run("a", &["rev-parse", "HEAD^{tree}"]);
    let file = servers.folder.run("a", &["rev-parse", "HEAD:README"]);
    let long = "0".repeat(64);
    for url in [servers.http.url("a"), servers.urls("a")[3].clone()] {
        for (hash, wanted) in [
            (
                &tag,
                format!(
                    "this is the hash of an annotated tag, not of a commit (it points to `{commit}`)"
                ),
            ),
            (&tree, "this is the hash of a tree, not of a commit".to_owned()),
            (&file, "this is the hash of a blob, not of a commit".to_owned()),
            (&long, "it is a SHA-256 commit, but only SHA-1 repositories are supported".to_owned()),
        ] {
            let error = fetch(&Cache::new().local(), &url, hash).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert!(error.to_string().ends_with(&wanted), "{error}");
        }
    }
}

#[tokio::test]
async fn submodules_come_by_their_recorded_commits() {
    let servers = Servers::new();
    let folder = &servers.folder;
    small(folder, "org/leaf");
    folder.init("org/middle");
    folder.run("org/middle", &["submodule", "--quiet", "add", "../leaf", "deep/leaf"]);
    folder
        .run("org/middle", &["config", "-f", ".gitmodules", "submodule.deep/leaf.url", "../leaf"]);
    folder.commit("org/middle");
    let old_leaf = folder.run("org/leaf", &["rev-parse", "HEAD"]);
    // The recorded commit is not a tip.
    folder.write("org/leaf", "later", "x");
    folder.commit("org/leaf");
    folder.init("top");
    folder.write("top", "top.txt", "top");
    let relative = |name: &str| format!("../org/{name}");
    let absolute = servers.http.url("org/leaf");
    folder.run("top", &["submodule", "--quiet", "add", &relative("middle"), "lib/middle"]);
    folder.run("top", &["submodule", "--quiet", "add", &absolute, "lib/leaf"]);
    folder
        .run("top", &["config", "-f", ".gitmodules", "submodule.lib/middle.url", "../org/middle"]);
    let commit = folder.commit("top");
    let cache = Cache::new();
    let sources = cache.sources();
    let fetched = fetch(&sources, &servers.http.url("top"), &commit).await.unwrap();
    assert_eq!(
        paths(&fetched.tree),
        [
            ".gitmodules",
            "lib/leaf/README",
            "lib/leaf/later",
            "lib/leaf/src/main.c",
            "lib/middle/.gitmodules",
            "lib/middle/deep/leaf/README",
            "lib/middle/deep/leaf/src/main.c",
            "top.txt",
        ]
    );
    let shown: Vec<String> =
        fetched.submodules.iter().map(|one| format!("{} {}", one.path, one.url)).collect();
    assert_eq!(
        shown,
        [
            format!("lib/leaf {}", servers.http.url("org/leaf")),
            format!("lib/middle {}", servers.http.url("org/middle")),
            format!("lib/middle/deep/leaf {}", servers.http.url("org/leaf")),
        ]
    );
    assert_eq!(fetched.submodules[2].commit.as_str(), old_leaf);
    let again = fetch(&cache.offline(), &servers.http.url("top"), &commit).await.unwrap();
    assert_eq!((again.received, tar(&again.tree)), (0, tar(&fetched.tree)));

    let mut partly = source(&servers.http.url("top"), &commit);
    partly.submodules = Submodules::AllBut(vec!["lib/middle/deep".parse().unwrap()]);
    assert_eq!(sources.fetch_git(&partly).await.unwrap().submodules.len(), 2);
    partly.submodules = Submodules::AllBut(vec!["lib/middle".parse().unwrap()]);
    assert_eq!(sources.fetch_git(&partly).await.unwrap().submodules.len(), 1);
    partly.submodules = Submodules::None;
    let none = sources.fetch_git(&partly).await.unwrap();
    assert_eq!(paths(&none.tree), [".gitmodules", "top.txt"]);
}

/// Creates a repository that records `commit` as a submodule at `lib`, with this `.gitmodules`.
fn with_submodule(folder: &GitFolder, name: &str, commit: &str, modules: &str) -> String {
    folder.init(name);
    if !modules.is_empty() {
        folder.write(name, ".gitmodules", modules);
    }
    folder.run(name, &["add", "-A"]);
    folder.run(name, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},lib")]);
    folder.run(name, &["commit", "-q", "-m", "x"]);
    folder.run(name, &["rev-parse", "HEAD"])
}

#[tokio::test]
async fn submodules_that_are_refused() {
    let servers = Servers::new();
    let leaf = small(&servers.folder, "leaf");
    let at = |url: &str| format!("[submodule \"l\"]\n\tpath = lib\n\turl = {url}\n");
    let file = at(&servers.urls("leaf")[3]);
    let cases = [
        (String::new(), ErrorKind::NotFound, "has no URL for the submodule `lib`"),
        (at("ssh://git@h.example/x"), ErrorKind::Refused, "a scheme other than https"),
        (at("git@h.example:x"), ErrorKind::Refused, "ssh address"),
        (at("http://h.example/x"), ErrorKind::Refused, "is not https, and not on this machine"),
        (at("ext::sh -c id"), ErrorKind::Refused, "is not a URL"),
        (at("--upload-pack=id"), ErrorKind::Refused, "is not a URL"),
        (at("/etc"), ErrorKind::Refused, "is not a URL"),
        (at("../../../leaf"), ErrorKind::Refused, "leads above the host"),
        (at("https://u:p@h.example/x"), ErrorKind::Refused, "user name or password"),
        (file, ErrorKind::Refused, "is less public than"),
        (at("../leaf").replace("lib", "../lib"), ErrorKind::Refused, "leaves its root"),
        (at("../leaf").replace("lib", ".git/hooks"), ErrorKind::Refused, "into a git repository"),
    ];
    let tried = cases.len() + 2;
    for (number, (modules, kind, wanted)) in cases.into_iter().enumerate() {
        let name = format!("top{number}");
        let commit = with_submodule(&servers.folder, &name, &leaf, &modules);
        let cache = Cache::new();
        let error = fetch(&cache.local(), &servers.http.url(&name), &commit).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(wanted), "{modules}: {error}");
    }
    // A public repository must not lead to a machine behind the user's firewall.
    let commit = with_submodule(&servers.folder, "inward", &leaf, &at(&servers.http.url("leaf")));
    let mirror = format!("https://h.example/inward={}", servers.http.url("inward"));
    let sources = Cache::new().mirrored(&[&mirror]);
    let error = fetch(&sources, "https://h.example/inward", &commit).await.unwrap_err();
    let wanted = "is less public than its parent repository";
    assert!(error.to_string().contains(wanted), "{error}");
    // `.gitmodules` as a link, and a repository that is its own submodule.
    servers.folder.init("link");
    servers.folder.write("link", "target", "x");
    let target = servers.folder.run("link", &["hash-object", "-w", "target"]);
    let commit = raw_commit(
        &servers.folder,
        "link",
        &[("120000", ".gitmodules", &target), ("160000", "lib", &leaf)],
    );
    servers.folder.run("link", &["update-ref", "HEAD", &commit]);
    let error =
        fetch(&Cache::new().sources(), &servers.http.url("link"), &commit).await.unwrap_err();
    assert!(error.to_string().contains("`.gitmodules` is a symbolic link"), "{error}");
    testkit::gate_passed(16, tried);
}

#[tokio::test]
async fn mirrors_serve_what_they_are_told_to() {
    let servers = Servers::new();
    let leaf = small(&servers.folder, "org/leaf");
    let modules = "[submodule \"l\"]\n\tpath = lib\n\turl = ../leaf.git\n";
    let commit = with_submodule(&servers.folder, "org/top", &leaf, modules);
    servers.folder.run("org", &["clone", "-q", "--bare", "leaf", "leaf.git"]);
    servers.folder.run("org", &["clone", "-q", "--bare", "top", "top.git"]);
    let to = servers.http.url("org");
    let cache = Cache::new();
    let sources = cache.mirrored(&[&format!("https://git.example/team={to}")]);
    let url = "https://git.example/team/top.git";
    let fetched = fetch(&sources, url, &commit).await.unwrap();
    // Records contain the original URL. A different spelling of it gives the same result.
    assert_eq!(fetched.submodules[0].url.as_str(), "https://git.example/team/leaf.git");
    assert!(fetch(&cache.offline(), "https://git.example/team/top", &commit).await.is_ok());
    let path = format!("https://git.example=file://{}", servers.folder.path().display());
    let sources = Cache::new().mirrored(&[&path]);
    assert!(fetch(&sources, "https://git.example/org/top", &commit).await.is_ok());
}

/// Commits a tree that `git` itself would not create.
fn raw_commit(folder: &GitFolder, name: &str, entries: &[(&str, &str, &str)]) -> String {
    let mut object = Vec::new();
    for (mode, path, id) in entries {
        object.extend_from_slice(format!("{mode} {path}\0").as_bytes());
        object.extend((0..40).step_by(2).map(|n| u8::from_str_radix(&id[n..n + 2], 16).unwrap()));
    }
    fs::write(folder.path().join(name).join("object"), object).unwrap();
    let tree = folder.run(name, &["hash-object", "-w", "--literally", "-t", "tree", "object"]);
    folder.run(name, &["commit-tree", &tree, "-m", "x"])
}

#[tokio::test]
async fn trees_that_are_refused() {
    let servers = Servers::new();
    let folder = &servers.folder;
    folder.init("a");
    small(folder, "b");
    let blob = folder.run("b", &["rev-parse", "HEAD:README"]);
    fs::write(folder.path().join("a/target"), "../../etc/passwd").unwrap();
    let link = folder.run("a", &["hash-object", "-w", "target"]);
    fs::copy(folder.path().join("b/README"), folder.path().join("a/README")).unwrap();
    folder.run("a", &["hash-object", "-w", "README"]);
    let mut commits = Vec::new();
    for (mode, id, name, wanted) in [
        ("120000", &link, "link", "the symbolic link `link` points outside the tree"),
        ("100644", &blob, "a\u{1b}[2J", "is a path with control characters"),
        ("100644", &blob, ".git", "is a path into a git repository"),
        ("100644", &blob, "..", "is a path that leaves its root"),
        ("100644", &blob, ".Git", "is a path into a git repository"),
    ] {
        let commit = raw_commit(folder, "a", &[(mode, name, id)]);
        commits.push((commit, wanted));
    }
    for (number, (commit, wanted)) in commits.iter().enumerate() {
        folder.run("a", &["update-ref", &format!("refs/heads/b{number}"), commit]);
        for url in [servers.http.url("a"), servers.urls("a")[3].clone()] {
            let error = fetch(&Cache::new().local(), &url, commit).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }
    testkit::gate_passed(16, 2 * commits.len());
}

/// A link is data: it is read as its target and written as a link, and never followed.
#[tokio::test]
async fn links_with_absolute_targets_are_kept_and_not_followed() {
    let servers = Servers::new();
    let folder = &servers.folder;
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "not ours").unwrap();
    small(folder, "a");
    let links = [
        ("passwd", "/etc/passwd"),
        ("folder", "/etc"),
        ("secret", secret.to_str().unwrap()),
        ("up", "/../../etc/passwd"),
        ("dangling", "/nowhere/at/all"),
        ("through", "folder/../README"),
    ];
    for (name, target) in links {
        std::os::unix::fs::symlink(target, folder.path().join("a").join(name)).unwrap();
    }
    folder.run("a", &["add", "-A"]);
    folder.run("a", &["commit", "-q", "-m", "x"]);
    let commit = folder.run("a", &["rev-parse", "HEAD"]);
    for url in servers.urls("a") {
        let mut tree = fetch(&Cache::new().local(), &url, &commit).await.unwrap().tree;
        for (name, target) in links {
            assert_eq!(tree.mode(name), Some(sources::Mode::Symlink), "{name}");
            assert_eq!(tree.read_file(name).unwrap(), target.as_bytes(), "{name}");
            let refused = tree.put_file(name, "patched").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
            assert!(!tree.has_directory(name), "{name}");
            let below = tree.put_file(&format!("{name}/below"), "patched");
            assert!(below.is_err(), "{name}");
        }
        let mut tar = Vec::new();
        tree.write_tar(0, &mut tar).unwrap();
        let mut found = 0;
        for entry in tar::Archive::new(&tar[..]).entries().unwrap() {
            let entry = entry.unwrap();
            let name = entry.path().unwrap().to_str().unwrap().to_owned();
            if let Some((_, target)) = links.iter().find(|(link, _)| *link == name) {
                assert!(entry.header().entry_type().is_symlink(), "{name}");
                assert_eq!(&*entry.link_name_bytes().unwrap(), target.as_bytes(), "{name}");
                found += 1;
            }
        }
        assert_eq!(found, links.len());
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "not ours");
}

#[tokio::test]
async fn places_that_are_refused_or_not_there() {
    let servers = Servers::new();
    let commit = small(&servers.folder, "a");
    let urls = servers.urls("a");
    let error = fetch(&Cache::new().sources(), &urls[3], &commit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    for url in servers.urls("nope") {
        let error = Cache::new().local().refs(&url.parse().unwrap()).await.unwrap_err();
        // `git daemon` closes the connection with or without a message.
        let is_right = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Authentication);
        assert!(is_right, "{url}: {error}");
    }
    let gone = {
        let server = GitHttp::start(servers.folder.path());
        server.url("a")
    };
    let error = fetch(&Cache::new().sources(), &gone, &commit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().ends_with("cannot connect (3 tries)"), "{error}");
    let error = fetch(&Cache::new().offline(), &urls[1], &commit).await.unwrap_err();
    let wanted = "it is not in the cache, and network access is disabled";
    assert!(error.to_string().contains(wanted), "{error}");
    // Lists of refs are never in the cache.
    let error = Cache::new().offline().refs(&urls[1].parse().unwrap()).await.unwrap_err();
    let words = error.to_string();
    assert!(words.contains("network access is disabled") && !words.contains("cache"), "{words}");

    let proxy = FaultProxy::to(&servers.http.host());
    for (fault, kind, wanted) in [
        (testkit::Fault::status(401), ErrorKind::Authentication, "asks for a password"),
        (
            testkit::Fault::status(403),
            ErrorKind::Authentication,
            "denied the request with status 403",
        ),
        (testkit::Fault::status(404), ErrorKind::NotFound, "no such repository"),
        (
            testkit::Answer::new(200).header("Content-Type", "text/html").body("<html>").into(),
            ErrorKind::Content,
            "there is no git server at this URL",
        ),
        (
            testkit::Fault::Redirect("https://new.example/a/info/refs?service=x".to_owned()),
            ErrorKind::Refused,
            "redirects to `https://new.example/a`, but redirects of repositories are not followed",
        ),
        (testkit::Fault::Garbage(b"\0\0".to_vec()), ErrorKind::Content, "not HTTP"),
    ] {
        let proxy = FaultProxy::to(&servers.http.host());
        proxy.on("GET", "info/refs").does(fault);
        let error = fetch(&Cache::new().sources(), &format!("{}/a", proxy.url()), &commit)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
    drop(proxy);
}

/// Configuration on the machine does not change what is fetched, or from where.
#[test]
fn hostile_configuration_is_not_read() {
    let servers = Servers::new();
    let commit = small(&servers.folder, "a");
    let evil = small(&servers.folder, "evil");
    assert_ne!(commit, evil);
    let home = tempfile::tempdir().unwrap();
    let rules = format!(
        "[url \"{evil}\"]\n\tinsteadOf = {good}\n[http]\n\tproxy = http://127.0.0.1:1\n[core]\n\tsshCommand = false\n[uploadpack]\n\tpackObjectsHook = false\n[transfer]\n\tfsckObjects = true\n",
        evil = servers.http.url("evil"),
        good = servers.http.url("a"),
    );
    fs::write(home.path().join(".gitconfig"), &rules).unwrap();
    fs::create_dir_all(home.path().join(".config/git")).unwrap();
    fs::write(home.path().join(".config/git/config"), &rules).unwrap();
    let cache = Cache::new();
    // The variables must be set before the process starts, so this is a separate process.
    let path = format!("file://{}", servers.folder.path().join("a").display());
    for url in [servers.http.url("a"), servers.daemon.url("a"), path] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "git::child_that_fetches", "--nocapture"])
            .env("HOME", home.path())
            .env("XDG_CONFIG_HOME", home.path().join(".config"))
            .env("GIT_CONFIG_GLOBAL", home.path().join(".gitconfig"))
            .env("GIT_CONFIG_SYSTEM", home.path().join(".gitconfig"))
            .env("GIT_DIR", servers.folder.path().join("evil/.git"))
            .env("GIT_OBJECT_DIRECTORY", servers.folder.path().join("evil/.git/objects"))
            .env("SOURCES_TEST_FETCH", format!("{url} {commit} {}", cache.folder.path().display()))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("FETCHED main HEAD README=this is a\n"), "{text}");
    }
    // Control: `git` itself is redirected by the same files.
    let witness = std::process::Command::new("git")
        .args(["ls-remote", &servers.http.url("a"), "refs/heads/main"])
        .env("HOME", home.path())
        .env("GIT_CONFIG_GLOBAL", home.path().join(".gitconfig"))
        .env("no_proxy", "*")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&witness.stdout).into_owned();
    assert!(!said.contains(&commit), "{said}");
}

/// The program that the test above starts with a hostile environment.
#[tokio::test]
#[ignore = "no test: another test starts it"]
async fn child_that_fetches() {
    let text = std::env::var("SOURCES_TEST_FETCH").unwrap();
    let [url, commit, folder] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
    let mut settings = sources::Settings::new(format!("{folder}/cache"));
    settings.allow_local = true;
    let sources = Sources::new(settings);
    let head = sources.resolve(&url.parse().unwrap(), &"main".parse().unwrap()).await.unwrap();
    assert_eq!(head.commit.as_str(), commit);
    let fetched = fetch(&sources, url, commit).await.unwrap();
    let readme = String::from_utf8(fetched.tree.read_file("README").unwrap()).unwrap();
    println!("FETCHED main HEAD README={readme}");
}

#[tokio::test]
async fn a_branch_is_asked_whether_it_still_has_a_commit() {
    use sources::Reach;
    let servers = Servers::new();
    let first = small(&servers.folder, "a");
    for _ in 0..40 {
        servers.folder.commit("a");
    }
    let lost = servers.folder.commit("a");
    servers.folder.run("a", &["reset", "-q", "--hard", "HEAD~1"]);
    servers.folder.write("a", "other", "x");
    let tip = servers.folder.commit("a");
    let nowhere = "1".repeat(40);
    for url in servers.urls("a") {
        let knows = !url.starts_with("file:") && url != servers.old.url("a");
        let sources = Cache::new().local();
        let url = url.parse().unwrap();
        for (commit, reach) in [
            (&first, Reach::Inside),
            (&tip, Reach::Inside),
            (&lost, Reach::Outside),
            (&nowhere, Reach::Missing),
        ] {
            let commit = commit.parse().unwrap();
            let found = sources.reaches(&url, &tip.parse().unwrap(), &commit).await.unwrap();
            let wanted = (knows || *commit.as_str() == tip).then_some(reach);
            assert_eq!(found, wanted, "{url} {commit}");
        }
    }
}
