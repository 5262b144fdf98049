use maitred_types::TenantId;
use proptest::prelude::*;

use super::*;
use crate::{KeyHash, KeyHashError, ModelGrant, NEW_KEY_RANDOM_BYTES, NewKey, OnBehalf, UserId};

const PEPPER: &[u8] = b"a pepper of at least sixteen bytes";
const NOW: UnixMillis = UnixMillis::new(1_000_000);

/// A key whose random bytes are all `seed`.
fn key(seed: u8) -> NewKey {
    NewKey::make(&[seed; NEW_KEY_RANDOM_BYTES])
}

fn grant(key: &NewKey, hasher: &KeyHasher) -> KeyGrant {
    KeyGrant {
        hash: key.hash(hasher),
        tenant: TenantId::from("acme"),
        user: Some(UserId::from("ada")),
        on_behalf: OnBehalf::Nobody,
        is_shared: false,
        models: ModelGrant::All,
        class: None,
        not_before: None,
        expires: None,
    }
}

fn ring(keys: &[&NewKey]) -> KeyRing {
    let hasher = KeyHasher::new(Some(PEPPER));
    let grants = keys.iter().map(|key| grant(key, &hasher)).collect();
    KeyRing::new(hasher, grants).unwrap()
}

#[test]
fn a_key_has_its_documented_form() {
    let key = NewKey::make(&std::array::from_fn(|index| u8::try_from(index).unwrap()));
    assert_eq!(
        key.expose(),
        "mtr-abcdefghijkl-DA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKis"
    );
    assert_eq!(key.id().as_str(), "abcdefghijkl");
}

/// The value was computed with another implementation: `printf %s ID+SECRET | openssl dgst -sha256 -hmac PEPPER`.
#[test]
fn the_hash_is_plain_hmac_sha_256() {
    let key = NewKey::make(&std::array::from_fn(|index| u8::try_from(index).unwrap()));
    let check = |pepper: Option<&[u8]>, digest: &str| {
        let hash = key.hash(&KeyHasher::new(pepper));
        assert_eq!(hash.to_string(), format!("hmac-sha256:abcdefghijkl:{digest}"));
        assert_eq!(KeyHash::parse(&hash.to_string()), Ok(hash));
    };
    check(
        Some(PEPPER),
        "285ffcac8bb3424559e0677c8fda27edd1e296763bc202249fb27e34e2a871e7",
    );
    check(None, "662010562416add1cdadbebf921935297df53d027972dce7641c7c3ded0c717f");
}

#[test]
fn the_right_key_passes_and_brings_its_grant() {
    let (first, second) = (key(1), key(2));
    let ring = ring(&[&first, &second]);
    for key in [&first, &second] {
        let grant = ring.check(key.expose(), NOW).unwrap();
        assert_eq!(grant.id(), &key.id());
        assert_eq!(grant.tenant.as_str(), "acme");
    }
    assert_eq!(ring.len(), 2, "keys of one tenant live side by side");
}

#[test]
fn a_key_is_valid_from_its_start_until_just_before_its_end() {
    let key = key(1);
    let hasher = KeyHasher::new(Some(PEPPER));
    let grant = KeyGrant {
        not_before: Some(UnixMillis::new(100)),
        expires: Some(UnixMillis::new(200)),
        ..grant(&key, &hasher)
    };
    let ring = KeyRing::new(hasher, vec![grant]).unwrap();
    let check = |now: u64, expected: Result<(), KeyRefusal>| {
        let found = ring.check(key.expose(), UnixMillis::new(now)).map(|_| ());
        assert_eq!(found, expected, "at {now}");
    };
    check(99, Err(KeyRefusal::NotYetValid));
    check(100, Ok(()));
    check(199, Ok(()));
    check(200, Err(KeyRefusal::Expired));
    check(u64::MAX, Err(KeyRefusal::Expired));
}

#[test]
fn expiry_is_not_told_to_who_holds_only_the_id() {
    let key = key(1);
    let hasher = KeyHasher::new(None);
    let expired = KeyGrant {
        expires: Some(UnixMillis::new(1)),
        ..grant(&key, &hasher)
    };
    let ring = KeyRing::new(hasher, vec![expired]).unwrap();
    let guess = format!("mtr-{}-{}", key.id(), "A".repeat(43));
    assert_eq!(ring.check(&guess, NOW), Err(KeyRefusal::Unknown));
    assert_eq!(ring.check(key.expose(), NOW), Err(KeyRefusal::Expired));
}

#[test]
fn keys_that_share_a_beginning_are_not_confused() {
    let mut random = [7; NEW_KEY_RANDOM_BYTES];
    let first = NewKey::make(&random);
    random[NEW_KEY_RANDOM_BYTES - 1] ^= 1;
    let twin = NewKey::make(&random);
    assert_eq!(first.id(), twin.id());
    assert_eq!(first.expose().get(..50), twin.expose().get(..50));
    let ring = ring(&[&first]);
    assert!(ring.check(first.expose(), NOW).is_ok());
    assert_eq!(ring.check(twin.expose(), NOW), Err(KeyRefusal::Unknown));
}

#[test]
fn a_cut_or_lengthened_key_is_malformed() {
    let key = key(1);
    let ring = ring(&[&key]);
    let text = key.expose();
    for cut in 0..text.len() {
        let (head, tail) = text.split_at(cut);
        assert_eq!(ring.check(head, NOW), Err(KeyRefusal::Malformed), "the first {cut}");
        if cut > 0 {
            assert_eq!(
                ring.check(tail, NOW),
                Err(KeyRefusal::Malformed),
                "without the first {cut}"
            );
        }
    }
    for other in [
        format!("{text}="),
        format!(" {text}"),
        text.to_uppercase(),
        text.replace('-', "_"),
    ] {
        assert_eq!(ring.check(&other, NOW), Err(KeyRefusal::Malformed), "{other}");
    }
}

#[test]
fn another_pepper_makes_another_hash() {
    let key = key(1);
    let grants = vec![grant(&key, &KeyHasher::new(Some(PEPPER)))];
    for pepper in [None, Some(&b"some other pepper of this gateway"[..])] {
        let ring = KeyRing::new(KeyHasher::new(pepper), grants.clone()).unwrap();
        assert_eq!(ring.check(key.expose(), NOW), Err(KeyRefusal::Unknown));
    }
    assert_ne!(KeyHasher::new(None), KeyHasher::new(Some(PEPPER)));
    assert_eq!(KeyHasher::new(Some(PEPPER)), KeyHasher::new(Some(PEPPER)));
}

#[test]
fn one_id_twice_is_refused_by_name() {
    let key = key(1);
    let hasher = KeyHasher::new(None);
    let grant = grant(&key, &hasher);
    let refused = KeyRing::new(hasher, vec![grant.clone(), grant]);
    assert_eq!(refused, Err(DuplicateKey(key.id())));
}

#[test]
fn an_empty_ring_refuses_everything() {
    assert!(KeyRing::empty().is_empty());
    assert_eq!(KeyRing::empty().check(key(1).expose(), NOW), Err(KeyRefusal::Unknown));
}

#[test]
fn refusals_have_their_faults() {
    assert_eq!(KeyRefusal::Expired.fault(), FaultKind::ExpiredKey);
    for refusal in [KeyRefusal::Malformed, KeyRefusal::Unknown, KeyRefusal::NotYetValid] {
        assert_eq!(refusal.fault(), FaultKind::InvalidKey, "{}", refusal.label());
    }
}

#[test]
fn nothing_secret_is_printed_for_debugging() {
    let key = key(9);
    let secret = key.expose().get(17..).unwrap().to_owned();
    let hasher = KeyHasher::new(Some(PEPPER));
    let hash = key.hash(&hasher);
    let digest = hash.to_string().rsplit(':').next().unwrap().to_owned();
    let ring = KeyRing::new(hasher.clone(), vec![grant(&key, &hasher)]).unwrap();
    let printed = format!(
        "{key:?} {hasher:?} {hash:?} {ring:?} {:?}",
        ring.check(key.expose(), NOW)
    );
    assert!(!printed.contains(&secret), "{printed}");
    assert!(!printed.contains(&digest), "{printed}");
    assert!(!printed.contains("pepper"), "{printed}");
    assert!(printed.contains(key.id().as_str()), "the id is public: {printed}");
}

#[test]
fn a_bad_hash_is_refused_with_its_place() {
    let good = key(1).hash(&KeyHasher::new(None)).to_string();
    let check = |text: &str, expected: KeyHashError| assert_eq!(KeyHash::parse(text), Err(expected), "{text}");
    check("", KeyHashError::Form);
    check("sha256:abcdefghijkl:00", KeyHashError::Form);
    check("hmac-sha256:abcdefghijkl", KeyHashError::Form);
    check("hmac-sha256:ABCDEFGHIJKL:00", KeyHashError::Id { at: 12 });
    check("hmac-sha256:abc:00", KeyHashError::Id { at: 12 });
    check(
        "hmac-sha256:abcdefghijkl:00",
        KeyHashError::HexLength { at: 25, found: 2 },
    );
    check(&good.replace("hmac-sha256", "hmac-sha512"), KeyHashError::Form);
    check(
        &good.to_uppercase().replace("HMAC-SHA256", "hmac-sha256"),
        KeyHashError::Id { at: 12 },
    );
    let bad_digit = format!("{}g", good.get(..88).unwrap());
    check(&bad_digit, KeyHashError::Hex { at: 88 });
    check(key(1).expose(), KeyHashError::IsKey);
    assert!(KeyHashError::IsKey.to_string().contains("replace the key"));
}

proptest! {
    #[test]
    fn every_new_key_passes_its_own_ring_only(
        random in prop::array::uniform32(any::<u8>()),
        other in prop::array::uniform32(any::<u8>()),
        id in prop::array::uniform12(any::<u8>()),
    ) {
        prop_assume!(random != other);
        let make = |secret: [u8; 32]| {
            let mut bytes = [0; NEW_KEY_RANDOM_BYTES];
            bytes[..12].copy_from_slice(&id);
            bytes[12..].copy_from_slice(&secret);
            NewKey::make(&bytes)
        };
        let (key, stranger) = (make(random), make(other));
        let ring = ring(&[&key]);
        prop_assert!(ring.check(key.expose(), NOW).is_ok());
        prop_assert_eq!(ring.check(stranger.expose(), NOW), Err(KeyRefusal::Unknown));
    }

    #[test]
    fn no_single_changed_character_passes(at in 0_usize..60, replacement in any::<char>()) {
        let key = key(5);
        let mut text: Vec<char> = key.expose().chars().collect();
        prop_assume!(text[at] != replacement);
        text[at] = replacement;
        let text: String = text.into_iter().collect();
        prop_assert!(ring(&[&key]).check(&text, NOW).is_err());
    }

    #[test]
    fn no_text_panics_or_passes(text in ".{0,80}") {
        prop_assert!(ring(&[&key(5)]).check(&text, NOW).is_err());
        if let Ok(hash) = KeyHash::parse(&text) {
            prop_assert_eq!(hash.to_string(), text);
        }
    }
}
