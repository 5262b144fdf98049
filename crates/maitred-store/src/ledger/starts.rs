//! Which starts of a gateway have used a spool: they are what tells its own calls apart in a database that several gateways fill.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The file in the spool's folder: a number of 16 hexadecimal digits in each line, oldest first.
const NAME: &str = "starts";
/// With more lines than this the older half is forgotten.
const STARTS_MAX: usize = 8_192;

/// Notes a start, and says which came before it. A line that was not written to its end is passed over.
pub(super) fn note(folder: &Path, start: u64) -> io::Result<Vec<u64>> {
    let path = folder.join(NAME);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let number = |line: &str| (line.len() == 16).then(|| u64::from_str_radix(line, 16).ok())?;
    let mut before: Vec<u64> = text.lines().filter_map(number).collect();
    if before.len() > STARTS_MAX {
        before.drain(..before.len() / 2);
        let kept: String = before.iter().map(|start| format!("{start:016x}\n")).collect();
        let next = folder.join(format!("{NAME}-{start:016x}"));
        std::fs::write(&next, kept)?;
        std::fs::rename(next, &path)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    // After one that was cut a line begins anew.
    let gap = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    file.write_all(format!("{gap}{start:016x}\n").as_bytes())?;
    file.sync_all()?;
    Ok(before)
}

#[cfg(test)]
mod tests {
    use maitred_test::Folder;

    use super::*;

    #[test]
    fn starts_are_known_in_their_order_and_not_without_end() {
        let folder = Folder::new();
        let path = folder.path();
        assert!(note(path, 7).unwrap().is_empty());
        assert_eq!(note(path, u64::MAX).unwrap(), [7]);
        let text = std::fs::read_to_string(path.join(NAME)).unwrap();
        std::fs::write(path.join(NAME), format!("{text}00ab")).unwrap();
        assert_eq!(note(path, 9).unwrap(), [7, u64::MAX]);
        assert_eq!(note(path, 10).unwrap(), [7, u64::MAX, 9]);
        let many: String = (0..=STARTS_MAX).map(|start| format!("{start:016x}\n")).collect();
        std::fs::write(path.join(NAME), many).unwrap();
        let kept = note(path, 1 << 40).unwrap();
        assert_eq!(
            (kept.len(), kept.last()),
            (STARTS_MAX / 2 + 1, Some(&(STARTS_MAX as u64)))
        );
        assert_eq!(note(path, 1 << 41).unwrap().len(), kept.len() + 1);
    }
}
