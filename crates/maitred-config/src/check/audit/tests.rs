use std::time::Duration;

use maitred_types::ByteSize;

use crate::{Diagnostic, Loaded, load};

const HEAD: &str = "version: 1\nauth: { anonymous: { tenant: local } }\npools:\n  - name: main\n    models: [{ name: qwen3-8b }]\n    endpoints: [{ address: 127.0.0.1:8000 }]\n";

fn read(rest: &str) -> Result<Loaded, Vec<Diagnostic>> {
    load(
        "maitred.yaml",
        &format!("{HEAD}audit: {{ folder: audit{rest} }}\n"),
        &|_| Ok(String::new()),
    )
}

fn wrong(rest: &str) -> (String, String) {
    let mut found = read(rest).unwrap_err();
    assert_eq!(found.len(), 1, "{found:?}");
    let found = found.remove(0);
    (found.message, found.help.unwrap_or_default())
}

#[test]
fn everything_is_kept_unless_something_is_said() {
    let kept = |rest: &str| {
        let audit = read(rest).unwrap().settings.audit.unwrap();
        (audit.keep, audit.max_size)
    };
    assert_eq!(kept(""), (None, None));
    let year = Duration::from_secs(365 * 86_400);
    assert_eq!(
        kept(", keep: 8760h, max_size: 10GiB"),
        (Some(year), Some(ByteSize::mib(10 << 10)))
    );
    assert_eq!(kept(", max_size: 64MiB").1, Some(ByteSize::mib(64)));
}

#[test]
fn what_leaves_hardly_anything_is_refused() {
    assert_eq!(
        wrong(", max_size: 63MiB"),
        (
            "63MiB has no room for 4 files of 16MiB".into(),
            "write at least 64MiB, or a smaller `file_size`".into()
        )
    );
    assert_eq!(wrong(", keep: 59m").1, "write at least 1h, such as `2160h`");
}

#[test]
fn texts_are_nobodys_unless_a_tenant_is_named() {
    let texts = |rest: &str| read(rest).unwrap().settings.texts;
    assert!(texts("").is_empty());
    let kept = texts(", text: [{ tenant: local, keep: 720h }]");
    let local = kept.get(&maitred_types::TenantId::from("local")).unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(
        (local.keep, local.max_size),
        (Duration::from_secs(720 * 3600), ByteSize::mib(1024))
    );
    assert_eq!(local.max_call, ByteSize::new(256 << 10));
}

#[test]
fn texts_of_nobody_or_of_no_size_are_refused() {
    let text = |rest: &str| wrong(&format!(", text: [{{ {rest} }}]"));
    assert_eq!(
        text("tenant: locale, keep: 1h"),
        (
            "nobody can call as the tenant `locale`, so nothing is kept".into(),
            "did you mean `local`?".into()
        )
    );
    assert_eq!(text("tenant: local, keep: 5m").1, "write at least 1h, such as `720h`");
    assert_eq!(text("tenant: local, keep: 1h, max_call: 5MiB").1, "write 1KiB to 4MiB");
    assert_eq!(
        text("tenant: local, keep: 1h, max_size: 1MiB").1,
        "write at least 16MiB, or a smaller `max_call`"
    );
    let twice = wrong(", text: [{ tenant: local, keep: 1h }, { tenant: local, keep: 2h }]");
    assert!(twice.0.contains("`local`"), "{twice:?}");
}
