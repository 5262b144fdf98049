use super::*;
use crate::render;

fn secrets(_: &raw::SecretRef) -> Result<String, String> {
    Ok("a secret of at least sixteen bytes".to_owned().replace(' ', "-"))
}

#[test]
fn examples_load() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        match load("x.yaml", &text, &secrets) {
            Ok(l) => {
                println!("{}: ok\n{}", path.display(), render(&l.warnings, &text));
                println!("{}", l.effective());
            }
            Err(e) => println!("{}\n{}", path.display(), render(&e, &text)),
        }
    }
}

#[test]
fn bad() {
    let text = "version: 1\npools:\n  - name: a b\n    enginee: vllm\n    engine: vlm\n    models: []\n    endpoints:\n      - address: http://x:1\n      - adress: 5\n    api_key: sk-abc\n    scrape: { interval: 5 }\n    dns:\nauth:\n  keys:\n    - hash: mtr-abcdefghijkl-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n      tenant: 5\n";
    println!("{}", render(&load("maitred.yaml", text, &secrets).unwrap_err(), text));
}
