//! The bill of materials: every package that is in the program `maitred`, in CycloneDX's form.
//!
//! It is made of the lock file and of what Cargo would build, names no time and no machine, and so is the same wherever it is made.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::project_root;

/// The program that it is about.
const PROGRAM: &str = "maitred";

/// A package by name and version.
type Name = (String, String);

/// What is known of one package.
#[derive(Debug, Default)]
struct Package {
    licence: String,
    /// Whether it comes from a registry, and not out of this repository.
    is_outside: bool,
    needs: BTreeSet<Name>,
}

/// The bill, as JSON.
///
/// # Errors
/// When Cargo cannot say what it would build, or the lock file cannot be read.
pub fn sbom() -> anyhow::Result<String> {
    let lock = project_root().join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    let bill = render(&parse_tree(&built()?), &checksums(&lock))?;
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

/// Everything that is built into the program on any target, as `cargo tree` prints it.
fn built() -> anyhow::Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["tree", "--locked", "--edges", "normal,build", "--prefix", "depth"]);
    command.args(["--format", "{p}|{l}", "--target", "all", "--package", PROGRAM]);
    let output = command.current_dir(project_root()).output()?;
    if !output.status.success() {
        bail!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Lines are the depth, name, `v` and version, perhaps a place in brackets, then `|` and the licence.
fn parse_tree(tree: &str) -> BTreeMap<Name, Package> {
    let mut packages: BTreeMap<Name, Package> = BTreeMap::new();
    let mut above: Vec<Name> = Vec::new();
    for line in tree.lines() {
        let Some((depth, name, package)) = parse_line(line) else {
            continue;
        };
        above.truncate(depth);
        if let Some(needing) = above.last().and_then(|above| packages.get_mut(above)) {
            needing.needs.insert(name.clone());
        }
        packages.entry(name.clone()).or_insert(package);
        above.push(name);
    }
    packages
}

fn parse_line(line: &str) -> Option<(usize, Name, Package)> {
    let entry = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let depth = line.strip_suffix(entry)?.parse().ok()?;
    let (place, licence) = entry.split_once('|')?;
    let mut words = place.split(' ');
    let name = words.next()?.to_owned();
    let version = words.next()?.strip_prefix('v')?.to_owned();
    let package = Package {
        // What was printed before is marked with a star, and older packages separate licences with a slash.
        licence: licence.trim_end_matches(" (*)").replace('/', " OR "),
        is_outside: !words.any(|word| word.starts_with("(/")),
        needs: BTreeSet::new(),
    };
    Some((depth, (name, version), package))
}

/// The checksums of a lock file's packages.
fn checksums(lock: &str) -> BTreeMap<Name, String> {
    let field = |package: &str, key: &str| {
        let line = package
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.map(|line| line.trim_end_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]");
    packages
        .filter_map(|package| {
            let name = (field(package, "name")?, field(package, "version")?);
            Some((name, field(package, "checksum")?))
        })
        .collect()
}

fn url((name, version): &Name) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn render(packages: &BTreeMap<Name, Package>, checksums: &BTreeMap<Name, String>) -> anyhow::Result<Value> {
    let Some((program, of_program)) = packages.iter().find(|((name, _), _)| name == PROGRAM) else {
        bail!("cargo tree says nothing of {PROGRAM}");
    };
    let others = packages.iter().filter(|(name, _)| *name != program);
    let components = others.map(|(name, package)| component("library", name, package, checksums));
    let needs = packages.iter().map(|(name, package)| {
        let needs: Vec<String> = package.needs.iter().map(url).collect();
        json!({ "ref": url(name), "dependsOn": needs })
    });
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component("application", program, of_program, checksums)? },
        "components": components.collect::<anyhow::Result<Vec<_>>>()?,
        "dependencies": needs.collect::<Vec<_>>(),
    }))
}

fn component(kind: &str, name: &Name, package: &Package, checksums: &BTreeMap<Name, String>) -> anyhow::Result<Value> {
    let mut component = json!({
        "type": kind,
        "bom-ref": url(name),
        "name": name.0,
        "version": name.1,
        "purl": url(name),
        "licenses": [{ "expression": package.licence }],
    });
    if package.is_outside {
        let checksum = checksums.get(name);
        let checksum = checksum.with_context(|| format!("the lock file has no checksum of {}", url(name)))?;
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    Ok(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "\
0maitred v0.1.0 (/src/crates/maitred)|Apache-2.0
1maitred-types v0.1.0 (/src/crates/maitred-types)|Apache-2.0
1a v1.0.0|MIT/Apache-2.0
2b v2.0.0 (proc-macro)|ISC
1b v2.0.0 (proc-macro)|ISC (*)
";

    const LOCK: &str = "\
[[package]]
name = \"a\"
version = \"1.0.0\"
checksum = \"aa\"

[[package]]
name = \"b\"
version = \"2.0.0\"
checksum = \"bb\"
";

    #[test]
    fn the_bill_names_what_is_built_and_who_needs_it() {
        let bill = render(&parse_tree(TREE), &checksums(LOCK)).expect("a whole bill");
        let names: Vec<_> = bill["components"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|component| component["purl"].to_string())
            .collect();
        assert_eq!(
            names,
            [
                "\"pkg:cargo/a@1.0.0\"",
                "\"pkg:cargo/b@2.0.0\"",
                "\"pkg:cargo/maitred-types@0.1.0\""
            ]
        );
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["components"][1]["hashes"][0]["content"], "bb");
        assert!(bill["components"][2]["hashes"].is_null());
        let of_a = json!({ "ref": "pkg:cargo/a@1.0.0", "dependsOn": ["pkg:cargo/b@2.0.0"] });
        assert_eq!(bill["dependencies"][0], of_a);
    }

    #[test]
    fn a_package_without_a_checksum_is_no_bill() {
        let missing = render(&parse_tree(TREE), &BTreeMap::new());
        assert!(missing.is_err_and(|error| error.to_string().contains("pkg:cargo/a@1.0.0")));
    }

    #[test]
    fn the_project_has_a_bill_and_it_is_the_same_each_time() {
        let first = sbom().expect("the project's bill");
        assert!(first.contains("pkg:cargo/tokio@") && first.contains("pkg:cargo/maitred-proxy@"));
        assert!(
            !first.contains("pkg:cargo/proptest@"),
            "what only tests use is not in the program"
        );
        assert!(
            !first.contains(&project_root().display().to_string()),
            "no machine is named"
        );
        assert_eq!(first, sbom().expect("the project's bill"));
    }
}
