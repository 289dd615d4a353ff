//! Where rules come from. All that a policy is made of carries an origin, so this stands below all of that.

/// Where a rule came from, so that plans, errors and violations can use the user's terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(pub String);

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
