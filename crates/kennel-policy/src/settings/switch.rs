//! Settings that are on or off, and that the policy takes as they are.
//!
//! Such a setting is declared by its row in the table of keys, which says where the policy has it: what sources say of it is kept
//! here, by its name, and nothing between the row and the policy has to know it.

use std::collections::BTreeMap;

use super::{Settings, Stated};
use crate::policy::Policy;

/// A setting that is on or off.
pub struct Switch {
    name: &'static str,
    policy: fn(&mut Policy) -> &mut bool,
}

/// What a source says of switches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Switches(BTreeMap<&'static str, Stated<bool>>);

impl Switch {
    /// The one of this full name, which is here in a policy.
    pub(super) const fn new(name: &'static str, policy: fn(&mut Policy) -> &mut bool) -> Switch {
        Switch { name, policy }
    }

    /// Its full name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What these settings say of it.
    #[must_use]
    pub fn stated<'s>(&self, settings: &'s Settings) -> Option<&'s Stated<bool>> {
        settings.switches.0.get(self.name)
    }

    /// Has these settings say it.
    pub fn state(&self, settings: &mut Settings, stated: Stated<bool>) {
        settings.switches.0.insert(self.name, stated);
    }

    /// Takes what these settings say of it.
    pub(crate) fn take(&self, settings: &mut Settings) -> Option<Stated<bool>> {
        settings.switches.0.remove(self.name)
    }

    /// Where a policy has it.
    pub(crate) fn of<'p>(&self, policy: &'p mut Policy) -> &'p mut bool {
        (self.policy)(policy)
    }
}
