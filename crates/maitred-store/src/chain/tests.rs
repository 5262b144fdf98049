use proptest::prelude::*;

use super::*;

fn chain(bodies: &[String]) -> (Vec<u8>, Vec<Head>) {
    let (mut out, mut head, mut heads) = (Vec::new(), Head::EMPTY, Vec::new());
    for body in bodies {
        let members = format!("\"text\":{}", serde_json::Value::from(body.as_str()));
        head = seal(&head, members.as_bytes(), &mut out);
        heads.push(head);
    }
    (out, heads)
}

fn reading(bytes: &[u8]) -> (End, Head) {
    let mut head = Head::EMPTY;
    let end = read(bytes, &mut head, |_, _| {});
    (end, head)
}

fn line_of(bytes: &[u8], at: usize) -> u64 {
    bytes[..at].iter().filter(|byte| **byte == b'\n').count() as u64 + 1
}

#[test]
fn a_line_is_json_and_names_the_one_before() {
    let (bytes, heads) = chain(&["one".into(), "two\n\"".into()]);
    let lines: Vec<serde_json::Value> = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines[0]["prev"], "0".repeat(64));
    assert_eq!(lines[1]["prev"], lines[0]["hash"]);
    assert_eq!(lines[1]["hash"], heads[1].hash.to_string());
    assert_eq!((&lines[1]["n"], &lines[1]["text"]), (&2.into(), &"two\n\"".into()));
    assert_eq!(reading(&bytes), (End::Whole, heads[1]));
    let second = bytes.split(|byte| *byte == b'\n').nth(1).unwrap();
    assert_eq!(claimed(second), Some(heads[0]));
}

proptest! {
    #[test]
    fn a_flipped_byte_is_found_where_it_is(bodies in prop::collection::vec(".{0,40}", 1..6), at: prop::sample::Index, bit in 0_u8..8) {
        let (mut bytes, _) = chain(&bodies);
        let at = at.index(bytes.len());
        let line = line_of(&bytes, at);
        bytes[at] ^= 1 << bit;
        let (end, _) = reading(&bytes);
        prop_assert!(matches!(end, End::Broken { line: found, .. } if found == line), "{end:?} in line {line}");
    }

    #[test]
    fn a_cut_is_seen_as_torn_or_leaves_whole_entries(bodies in prop::collection::vec(".{0,40}", 1..6), at: prop::sample::Index) {
        let (bytes, heads) = chain(&bodies);
        let at = at.index(bytes.len());
        let (end, head) = reading(&bytes[..at]);
        let whole = line_of(&bytes, at) - 1;
        prop_assert_eq!(head, whole.checked_sub(1).map_or(Head::EMPTY, |last| heads[usize::try_from(last).unwrap()]));
        let is_boundary = at == 0 || bytes[at - 1] == b'\n';
        prop_assert_eq!(is_boundary, end == End::Whole);
        prop_assert_eq!(!is_boundary, matches!(end, End::Torn { .. }), "{:?}", end);
    }

    #[test]
    fn an_entry_that_is_missing_or_moved_is_found(bodies in prop::collection::vec("[a-z]{0,9}", 3..7), at: prop::sample::Index) {
        let (bytes, _) = chain(&bodies);
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let at = at.index(lines.len() - 1);
        let mut without = lines.clone();
        without.remove(at);
        let line = at as u64 + 1;
        prop_assert_eq!(reading(&without.concat()).0, End::Broken { line, flaw: Flaw::Misplaced });
        let mut swapped = lines;
        swapped.swap(at, at + 1);
        prop_assert_eq!(reading(&swapped.concat()).0, End::Broken { line, flaw: Flaw::Misplaced });
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _end = reading(&bytes);
        let _head = claimed(&bytes);
    }
}

#[test]
fn zeros_of_a_dead_machine_are_torn_and_others_are_not() {
    let (bytes, heads) = chain(&["one".into()]);
    for (tail, torn) in [
        (&b"\0\0\0"[..], true),
        (b"{\"n\":2,\"prev\":\"\0\0", true),
        (b"{\"n\":3", false),
        (b"x", false),
    ] {
        let (end, head) = reading(&[&bytes, tail].concat());
        assert_eq!(matches!(end, End::Torn { .. }), torn, "{tail:?}: {end:?}");
        assert_eq!(head, heads[0]);
    }
}
