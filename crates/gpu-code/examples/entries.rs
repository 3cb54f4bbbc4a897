//! Prints the code objects of files: file, bundle, target, offset, size and whether the object is
//! compressed, one per line. `tests/compare.sh` compares this with LLVM's list.

use std::fs::File;

use gpu_code::{Owner, Spool, scan};

#[expect(clippy::print_stdout, reason = "the purpose of the example is its output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let objects = scan(&path, &Spool::of_file(File::open(&path)?)?)?;
        for object in objects {
            let owner = match &object.owner {
                Owner::Host => "host".to_owned(),
                Owner::Gpu(target) => target.to_string(),
                Owner::Data(target) => format!("data-{target}"),
                Owner::Other(id) => id.clone(),
            };
            let bundle = object.bundle.map_or("-".to_owned(), |bundle| bundle.to_string());
            let kind = if object.is_compressed { "compressed" } else { "plain" };
            println!("{path} {bundle} {owner} {} {} {kind}", object.offset, object.size);
        }
    }
    Ok(())
}
