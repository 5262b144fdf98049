//! Where in the file an option stands: `pools[1].endpoints[0].address`.

use std::fmt;

/// One step down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Into the option of a map.
    Key(String),
    /// Into an element of a list.
    Index(usize),
}

/// A way from the top of the file to an option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(Vec<Step>);

impl Path {
    /// This path and `name` below it.
    pub(crate) fn key(&self, name: &str) -> Self {
        self.with(Step::Key(name.to_owned()))
    }

    /// This path and the element `index` below it.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    /// The option `name` at the top of the file.
    pub(crate) fn top(name: &str) -> Self {
        Self::default().key(name)
    }

    /// The steps from the top.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Whether one of the two leads through the other.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(one, two)| one == two)
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(name) if index == 0 => f.write_str(name)?,
                Step::Key(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_prints_as_it_is_spoken() {
        let path = Path::top("pools").index(1).key("endpoints").index(0).key("address");
        assert_eq!(path.to_string(), "pools[1].endpoints[0].address");
        assert_eq!(Path::default().to_string(), "");
    }

    #[test]
    fn paths_meet_when_one_leads_through_the_other() {
        let pool = Path::top("pools").index(1);
        assert!(pool.meets(&pool.key("name")) && pool.key("name").meets(&pool) && pool.meets(&pool));
        assert!(!pool.meets(&Path::top("pools").index(0)) && !pool.key("name").meets(&pool.key("engine")));
    }
}
