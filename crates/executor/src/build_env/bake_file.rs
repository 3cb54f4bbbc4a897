//! The file from which bake builds the steps that are ready.

use std::fmt::Write as _;

use super::bake::{BakeBase, BakeTarget};

/// Returns the text of the file that lists the steps for bake. `command` is the command that writes
/// it. The syntax is in <https://docs.docker.com/build/bake/reference/>.
pub fn bake_file(targets: &[BakeTarget], command: &str) -> String {
    let names: Vec<String> = targets.iter().map(|target| quoted(&target.name)).collect();
    let mut text = format!(
        "# Written by `{command}`. Do not edit it.\n\
         # Run `docker buildx bake` in this folder, and then the command again.\n\n\
         group \"default\" {{\n  targets = [{}]\n}}\n",
        names.join(", ")
    );
    for BakeTarget { name, context, base, args, network, archive } in targets {
        let mut line = |line: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        };
        line(&format!("\ntarget {} {{", quoted(name)));
        line(&format!("  context = {}", quoted(context)));
        if let Some(BakeBase { name: image, layout, digest }) = base {
            let layout = quoted(&format!("oci-layout://{layout}@{digest}"));
            line(&format!("  contexts = {{ {} = {layout} }}", quoted(image)));
        }
        line("  args = {");
        for (key, value) in args {
            line(&format!("    {key} = {}", quoted(value)));
        }
        line("  }");
        line(if *network {
            "  network = \"host\"\n  entitlements = [\"network.host\"]"
        } else {
            "  network = \"none\""
        });
        line("  platforms = [\"linux/amd64\"]");
        line("  attest = [\"type=provenance,disabled=true\", \"type=sbom,disabled=true\"]");
        line(&format!("  output = [{}]", quoted(&format!("type=oci,dest={archive}"))));
        line("}");
    }
    text
}

/// Returns an HCL string.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace("${", "$${").replace("%{", "%%{")
}
