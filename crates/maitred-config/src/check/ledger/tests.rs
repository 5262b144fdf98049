use crate::{Diagnostic, LedgerStore, Loaded, load};

const HEAD: &str = "version: 1\nauth: { anonymous: { tenant: local } }\npools:\n  - name: main\n    models: [{ name: qwen3-8b }, { name: other }]\n    endpoints: [{ address: 127.0.0.1:8000 }]\n";

fn read(rest: &str) -> Result<Loaded, Vec<Diagnostic>> {
    load("maitred.yaml", &format!("{HEAD}{rest}"), &|_| Ok("postgres://x".into()))
}

/// The one thing that is wrong: line and message.
fn wrong(rest: &str) -> (u32, String) {
    let mut found = read(rest).unwrap_err();
    assert_eq!(found.len(), 1, "{found:?}");
    let found = found.remove(0);
    (u32::try_from(found.line).unwrap(), found.message)
}

#[test]
fn a_ledger_has_one_database() {
    let settings = read("ledger: { sqlite: ledger.db }\n").unwrap().settings;
    let ledger = settings.ledger.unwrap();
    assert_eq!(ledger.store, LedgerStore::Sqlite("ledger.db".into()));
    assert!(read("").unwrap().settings.ledger.is_none());
    let check = |rest: &str, message: &str| assert_eq!(wrong(rest), (7, message.to_owned()));
    check("ledger: { policy: reject }\n", "the ledger has no database");
    check(
        "ledger: { sqlite: a, postgres: { env: X } }\n",
        "the ledger has two databases, `sqlite` and `postgres`",
    );
    check(
        "ledger: { postgres: { env: X } }\n",
        "with `postgres` the ledger needs a folder for its spool",
    );
    check(
        "ledger: { sqlite: a, spool_max: 1MiB }\n",
        "1MiB is too small to be useful",
    );
}
