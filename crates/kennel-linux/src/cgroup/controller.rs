//! The kernel's resource controllers that kennel uses, and sets of them.

use std::fmt;

/// A resource controller of the kernel, by the name it has in `/proc/cgroups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Memory and swap: limits, peak, out-of-memory kills.
    Memory,
    /// The share of processor time.
    Cpu,
    /// The number of tasks.
    Pids,
    /// Processor time used; a controller of its own on cgroup v1 only.
    Cpuacct,
    /// Stops all tasks at once; a controller of its own on cgroup v1 only.
    Freezer,
}

impl Controller {
    /// Every controller, in the order in which reports list them.
    pub const ALL: [Self; 5] = [Self::Memory, Self::Cpu, Self::Pids, Self::Cpuacct, Self::Freezer];

    /// The controllers that a limit can need, on any kind of hierarchy.
    pub const LIMITING: [Self; 3] = [Self::Memory, Self::Cpu, Self::Pids];

    /// The kernel's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
            Self::Cpuacct => "cpuacct",
            Self::Freezer => "freezer",
        }
    }

    /// What it is for, in the user's words.
    pub(super) fn purpose(self) -> &'static str {
        match self {
            Self::Memory => "limit memory",
            Self::Cpu => "limit CPU",
            Self::Pids => "limit the number of processes",
            Self::Cpuacct => "count CPU time",
            Self::Freezer => "stop all processes at once",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of controllers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerSet(u8);

impl ControllerSet {
    /// No controller.
    pub const EMPTY: Self = Self(0);

    /// The set with `controller` added.
    #[must_use]
    pub const fn with(self, controller: Controller) -> Self {
        Self(self.0 | controller.bit())
    }

    /// What is in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both sets.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in this set and not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether `controller` is in the set.
    pub fn contains(self, controller: Controller) -> bool {
        self.0 & controller.bit() != 0
    }

    /// Whether everything in `other` is in this set.
    pub fn covers(self, other: Self) -> bool {
        other.without(self).is_empty()
    }

    /// Whether nothing is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The controllers in it, in the order of [`Controller::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Controller> {
        Controller::ALL.into_iter().filter(move |c| self.contains(*c))
    }

    /// Reads names separated by spaces or commas, as the kernel lists them; other controllers are passed
    /// over.
    pub(super) fn from_names(names: &str) -> Self {
        names.split([' ', ',', '\n']).fold(Self::EMPTY, |set, name| {
            match Controller::ALL.into_iter().find(|c| c.name() == name) {
                Some(controller) => set.with(controller),
                None => set,
            }
        })
    }
}

impl FromIterator<Controller> for ControllerSet {
    fn from_iter<T: IntoIterator<Item = Controller>>(iter: T) -> Self {
        iter.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Display for ControllerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, controller) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            f.write_str(controller.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_kennel_does_not_use_are_passed_over() {
        let set = ControllerSet::from_names("cpuset cpu io memory hugetlb pids rdma misc\n");
        assert_eq!(set, ControllerSet::from_iter(Controller::LIMITING));
        assert_eq!(set.to_string(), "memory, cpu, pids");
    }

    #[test]
    fn a_set_knows_what_it_lacks() {
        let have = ControllerSet::EMPTY.with(Controller::Memory);
        let want = have.with(Controller::Cpu);
        assert!(want.covers(have) && !have.covers(want));
        assert_eq!(want.without(have).iter().collect::<Vec<_>>(), [Controller::Cpu]);
    }
}
