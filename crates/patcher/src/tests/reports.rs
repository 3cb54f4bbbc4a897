//! Diffs, reports and receipts: what is written for people and for other programs.

use super::*;
use crate::{FileReceipt, RevertError, Splice, Tree, Unreadable, revert};

fn path(text: &str) -> TreePath {
    text.parse().unwrap()
}

fn diff_of(name: &str, file: &str, edits: &str) -> (String, String) {
    let edits = edits.replace("[\"f\"]", &format!("[\"{name}\"]"));
    let outcome = run(&set(&[("p", &edits)]), &files(&[(name, file.as_bytes())]), None, &[]);
    assert!(outcome.ok, "{}", outcome.patches[0].explanation);
    let text = |diff: Vec<u8>| String::from_utf8(diff).unwrap();
    (text(outcome.diff()), text(outcome.reverse_diff()))
}

#[test]
fn a_diff_shows_three_lines_of_context_on_each_side() {
    let file = "1\n2\n3\n4\nlist = \"a\"\n6\n7\n8\n9\n";
    let (diff, reverse) = diff_of("f", file, APPEND);
    assert_eq!(
        diff,
        "--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-list = \"a\"\n+list = \"a;gfx1151\"\n 6\n 7\n 8\n"
    );
    assert_eq!(
        reverse,
        "--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-list = \"a;gfx1151\"\n+list = \"a\"\n 6\n 7\n 8\n"
    );
}

#[test]
fn hunks_count_lines_as_git_does() {
    let line = "list = \"a\"\n";
    let (diff, _) = diff_of("f", line, APPEND);
    assert_eq!(diff.lines().nth(2).unwrap(), "@@ -1 +1 @@");
    let after = INSERT.replace("[\"g\"]", "[\"f\"]").replace("before", "after");
    let (diff, reverse) = diff_of("f", "end\n", &after);
    assert_eq!(diff.lines().nth(2).unwrap(), "@@ -1 +1,2 @@");
    assert_eq!(reverse.lines().nth(2).unwrap(), "@@ -1,2 +1 @@");
    // Changes that share no context have hunks of their own.
    let far = |lines: usize| format!("{line}{}{line}", "x\n".repeat(lines));
    let hunks = |lines: usize| {
        let edits = APPEND.replace("expect = 1", "expect = 2");
        let (diff, _) = diff_of("f", &far(lines), &edits);
        diff.lines().filter(|line| line.starts_with("@@")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(hunks(6), ["@@ -1,8 +1,8 @@"]);
    assert_eq!(hunks(7), ["@@ -1,4 +1,4 @@", "@@ -6,4 +6,4 @@"]);
}

#[test]
fn names_with_spaces_end_with_a_tab_in_a_diff() {
    let (diff, _) = diff_of("a b", "list = \"a\"\n", APPEND);
    assert!(diff.starts_with("--- a/a b\t\n+++ b/a b\t\n@@ "), "{diff:?}");
    let (diff, _) = diff_of("a_b", "list = \"a\"\n", APPEND);
    assert!(diff.starts_with("--- a/a_b\n+++ b/a_b\n@@ "), "{diff:?}");
}

#[test]
fn a_missing_final_newline_is_told_for_the_side_that_lacks_it() {
    let after = INSERT.replace("[\"g\"]", "[\"f\"]").replace("before", "after");
    let (diff, reverse) = diff_of("f", "a\nend", &after);
    let mark = "\\ No newline at end of file";
    assert_eq!(
        diff,
        format!("--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n-end\n{mark}\n+end\n+new line\n{mark}\n")
    );
    assert_eq!(
        reverse,
        format!("--- a/f\n+++ b/f\n@@ -1,3 +1,2 @@\n a\n-end\n-new line\n{mark}\n+end\n{mark}\n")
    );
    let (diff, _) = diff_of("f", "list = \"a\"\nb", APPEND);
    assert!(diff.ends_with(&format!("\n b\n{mark}\n")), "{diff}");
}

#[test]
fn a_report_has_the_files_sorted_and_hashes_of_both_sides() {
    let edits = ["z", "b/c", "a"].map(|name| APPEND.replace("\"f\"", &format!("\"{name}\"")));
    let set = set(&[("p", &edits.concat())]);
    let file: &[u8] = b"list = \"a\"\n";
    let outcome = run(&set, &files(&[("z", file), ("b/c", file), ("a", file)]), Some("1.0"), &[]);
    let json = serde_json::to_value(&outcome).unwrap();
    let paths: Vec<&str> = json["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["a", "b/c", "z"]);
    let hash = |bytes: &[u8]| crate::hash::sha256(bytes).to_string();
    assert_eq!(json["files"][0]["before"], hash(file));
    assert_eq!(json["files"][0]["after"], hash(b"list = \"a;gfx1151\"\n"));
    assert_eq!(json["files"][0]["patches"], serde_json::json!(["p"]));
    assert_eq!(json["component"], "vllm");
    assert_eq!(json["version"], "1.0");
    assert_eq!(json["gpu"], "gfx1151");
    assert_eq!(json["ok"], true);
    assert_eq!(json["set"], set.sha256().to_string());
    assert_eq!(json["patches"][0]["sha256"], set.patches()[0].sha256().to_string());
    assert_eq!(json["patches"][0]["edits"][1]["file"], "b/c");
    // Without patches there is neither a component nor a change.
    let empty = run(&PatchSet::new(Vec::new()).unwrap(), &files(&[]), None, &[]);
    assert!(empty.ok && empty.component.is_none() && empty.receipt().is_none());
    assert!(empty.diff().is_empty() && empty.reverse_diff().is_empty());
}

/// A receipt of a file `f` that had the text `before` and now has `after`.
fn receipt(before: &str, after: &str, splices: &[(usize, &str, &str)]) -> Receipt {
    let splice = |(at, removed, inserted): &(usize, &str, &str)| Splice {
        at: *at,
        removed: (*removed).to_owned(),
        inserted: (*inserted).to_owned(),
    };
    let file = FileReceipt {
        path: path("f"),
        before: crate::hash::sha256(before.as_bytes()),
        after: crate::hash::sha256(after.as_bytes()),
        splices: splices.iter().map(splice).collect(),
    };
    Receipt {
        schema: Receipt::SCHEMA,
        component: "vllm".to_owned(),
        version: None,
        gpu: "gfx1151".to_owned(),
        patches: Vec::new(),
        files: vec![file],
    }
}

#[test]
fn splices_are_undone_from_last_to_first() {
    // "ab" becomes "aXb", then "aXYb", then "Zb".
    let steps = [(1, "", "X"), (2, "", "Y"), (0, "aXY", "Z")];
    let receipt = receipt("ab", "Zb", &steps);
    let tree = files(&[("f", b"Zb"), ("g", b"other")]);
    assert_eq!(revert(&receipt, &tree).unwrap(), files(&[("f", b"ab")]));
}

#[test]
fn a_damaged_receipt_restores_nothing() {
    let tree = files(&[("f", b"aXb")]);
    let damaged = Err(RevertError::Damaged(path("f")));
    for splice in [(1, "", "Y"), (2, "", "X"), (3, "", "X"), (4, "", ""), (usize::MAX, "", "X")] {
        let receipt = receipt("ab", "aXb", &[splice]);
        assert_eq!(revert(&receipt, &tree), damaged, "{splice:?}");
    }
    let other = receipt("another file", "aXb", &[(1, "", "X")]);
    assert_eq!(revert(&other, &tree), damaged, "undoing it does not lead to the old file");
    let good = receipt("ab", "aXb", &[(1, "", "X")]);
    assert_eq!(revert(&good, &tree).unwrap(), files(&[("f", b"ab")]));
    // One damaged file is enough to restore none.
    let mut both = good;
    both.files.push(FileReceipt { path: path("g"), ..both.files[0].clone() });
    let tree = files(&[("f", b"aXb"), ("g", b"aXb!")]);
    assert!(matches!(revert(&both, &tree), Err(RevertError::Changed { .. })));
}

#[test]
fn a_refused_revert_says_which_file_and_why() {
    struct Linked;
    impl Tree for Linked {
        fn read(&self, _: &TreePath) -> Result<Option<Vec<u8>>, Unreadable> {
            Err(Unreadable("it is a symbolic link".to_owned()))
        }
    }
    let good = receipt("ab", "aXb", &[(1, "", "X")]);
    let refused =
        |receipt: &Receipt, tree: &dyn Tree| revert(receipt, tree).unwrap_err().to_string();
    assert_eq!(refused(&good, &Linked), "`f` cannot be read: it is a symbolic link");
    assert_eq!(refused(&good, &files(&[])), "`f` no longer exists");
    let hash = |text: &str| crate::hash::sha256(text.as_bytes());
    assert_eq!(
        refused(&good, &files(&[("f", b"aYb")])),
        format!(
            "`f` was changed after the patches were applied: its hash is {}, but the receipt has {}",
            hash("aYb"),
            hash("aXb")
        )
    );
    assert_eq!(
        refused(&receipt("ab", "aXb", &[]), &files(&[("f", b"aXb")])),
        "the receipt does not restore the original `f`; the receipt was damaged or edited"
    );
    let newer = Receipt { schema: 2, ..good.clone() };
    assert_eq!(
        refused(&newer, &files(&[("f", b"aXb")])),
        "the receipt has schema 2 and was written by a newer build-pipeline; this one reads 1"
    );
    assert_eq!(good.file(&path("f")), Some(&good.files[0]));
    assert_eq!(good.file(&path("g")), None);
}

#[test]
fn a_receipt_with_unknown_keys_is_refused() {
    let json = serde_json::to_value(receipt("ab", "aXb", &[(1, "", "X")])).unwrap();
    let read = |json: &serde_json::Value| serde_json::from_value::<Receipt>(json.clone()).is_ok();
    assert!(read(&json));
    for pointer in ["", "/files/0", "/files/0/splices/0"] {
        let mut odd = json.clone();
        let table = odd.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
        table.insert("odd".to_owned(), 1.into());
        assert!(!read(&odd), "{pointer}");
    }
    let mut odd = json;
    odd["patches"] = serde_json::json!([{ "id": "p", "sha256": "short" }]);
    assert!(!read(&odd));
}

#[test]
fn the_hash_of_a_set_depends_on_every_patch_and_its_effect() {
    let hash = |patches: &[(&str, &str)]| set(patches).sha256();
    let both = hash(&[("a", APPEND), ("b", REPLACE)]);
    assert_eq!(both, hash(&[("b", REPLACE), ("a", APPEND)]), "patches are sorted");
    assert_ne!(both, hash(&[("a", APPEND)]));
    assert_ne!(both, hash(&[("a", REPLACE), ("b", APPEND)]));
    assert_ne!(both, hash(&[("a", APPEND), ("b", INSERT)]));
    let text = format!("a {}\n", patch("a", APPEND).sha256());
    assert_eq!(hash(&[("a", APPEND)]), crate::hash::sha256(text.as_bytes()));
}

#[test]
fn the_hash_of_a_patch_covers_every_part_that_has_an_effect() {
    let hash = |edits: &str| patch("p", edits).sha256();
    let base = hash(APPEND);
    for part in [
        "already = 'x'\n",
        "satisfied_by = 'x'\n",
        "guards = 'x'\n",
        "if_absent = \"skip\"\n",
        "[[assert]]\nfiles = [\"f\"]\nabsent = 'x'\n",
        "[[probe]]\nname = \"x\"\nfiles = [\"f\"]\nkind = \"python-compile\"\n",
        "[relations]\nrequires = [\"q\"]\n",
        "[relations]\nconflicts = [\"q\"]\n",
        "[relations]\norder = 1\n",
        "[relations.build_env]\nX = \"1\"\n",
    ] {
        assert_ne!(hash(&format!("{APPEND}{part}")), base, "{part}");
    }
    assert_ne!(patch("q", APPEND).sha256(), base);
    assert_eq!(
        hash(&format!("{APPEND}[[test]]\nname = \"t\"\nverdict = \"applied(1)\"\ngiven.f = ''\n")),
        base
    );
    let text = patch_text("p", APPEND);
    let of = |from: &str, to: &str| parse_patch("p", &text.replace(from, to)).unwrap().sha256();
    assert_ne!(of("\"vllm\"", "\"aiter\""), base);
    for applies in ["gpus = 'gfx.*'", "rocm = \">=7\"", "if_partial = \"apply\""] {
        let added = format!("versions = \"*\"\n{applies}");
        assert_ne!(of("versions = \"*\"", &added), base, "{applies}");
    }
}
