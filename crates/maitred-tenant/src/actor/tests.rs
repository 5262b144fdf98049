use super::*;
use crate::{NEW_KEY_RANDOM_BYTES, NewKey};

fn key(number: u8) -> NewKey {
    NewKey::make(&[number; NEW_KEY_RANDOM_BYTES])
}

fn grant(name: &str, role: Role, proof: ActorProof, expires: Option<u64>) -> ActorGrant {
    ActorGrant {
        actor: Actor {
            name: name.into(),
            role,
        },
        proof,
        expires: expires.map(UnixMillis::new),
    }
}

#[test]
fn roles_cover_what_they_say() {
    let covered: Vec<Vec<&str>> = Role::ALL
        .iter()
        .map(|role| {
            Role::ALL
                .iter()
                .filter(|needed| role.covers(**needed))
                .map(|needed| needed.name())
                .collect()
        })
        .collect();
    assert_eq!(
        covered,
        [
            vec!["viewer"],
            vec!["viewer", "operator"],
            vec!["viewer", "key-admin"],
            vec!["viewer", "operator", "key-admin", "admin"],
        ]
    );
}

#[test]
fn a_token_is_checked_whole_and_in_time() {
    let hasher = KeyHasher::new(Some(b"a pepper of the gateway"));
    let token = |number| ActorProof::Token(key(number).hash(&hasher));
    let ring = ActorRing::new(
        hasher.clone(),
        [
            grant("ann", Role::Admin, token(1), None),
            grant("ben", Role::Viewer, token(2), Some(1_000)),
        ],
    );
    let check = |text: &str, now| {
        ring.check(text, UnixMillis::new(now))
            .map(|actor| actor.name.as_ref().to_owned())
    };
    assert_eq!(check(key(1).expose(), 5), Ok("ann".to_owned()));
    assert_eq!(check(key(2).expose(), 999), Ok("ben".to_owned()));
    assert_eq!(check(key(2).expose(), 1_000), Err(KeyRefusal::Expired));
    assert_eq!(check(key(3).expose(), 5), Err(KeyRefusal::Unknown));
    assert_eq!(check("root", 5), Err(KeyRefusal::Malformed));
    let mut wrong = key(1).expose().to_owned();
    wrong.pop();
    wrong.push('_');
    assert_eq!(check(&wrong, 5), Err(KeyRefusal::Unknown));
    // Under another pepper the same token is another's.
    let other = ActorRing::new(KeyHasher::new(None), [grant("ann", Role::Admin, token(1), None)]);
    assert_eq!(
        other.check(key(1).expose(), UnixMillis::new(5)),
        Err(KeyRefusal::Unknown)
    );
}

#[test]
fn a_certificate_is_known_by_its_name() {
    let name = CertificateName::Dns("ops.example.com".into());
    let ring = ActorRing::new(
        KeyHasher::new(None),
        [grant(
            "ops",
            Role::Operator,
            ActorProof::Certificate(name.clone()),
            Some(10),
        )],
    );
    let names = CertificateNames::new([CertificateName::Dns("OPS.example.com".into())]);
    let of = |names: &CertificateNames, now| ring.of_certificate(names, UnixMillis::new(now)).map(|actor| actor.role);
    assert_eq!(of(&names, 9), Some(Role::Operator));
    assert_eq!(of(&names, 10), None);
    assert_eq!(
        of(
            &CertificateNames::new([CertificateName::CommonName("ops.example.com".into())]),
            9
        ),
        None
    );
    assert!(!ring.is_empty() && ActorRing::new(KeyHasher::new(None), []).is_empty());
}
