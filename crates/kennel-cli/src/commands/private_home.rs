//! What `kennel run` says after a failure where the home is private: that there is such a thing at all.
//!
//! Which names a command looked for in vain nobody is told by the kernel: a name that is not there is no more than that.

use kennel_policy::outcome::{Ended, Outcome};
use kennel_policy::policy::{FilePolicy, HomeMode};

use super::agents::EARLY;
use super::say;

/// Says, after a command that failed early, that the home is private.
pub fn remind(outcome: &Outcome, files: &FilePolicy) -> bool {
    let failed = matches!(outcome.ended, Ended::Exited(1..)) && outcome.wall_time <= EARLY;
    let reminds = failed && files.home == HomeMode::Private && !outcome.denials.traced;
    if reminds {
        say(
            "kennel: note: the home is private in this sandbox: `kennel plan --steps` lists what shows of it, --allow-read ~/… shows more",
        );
    }
    reminds
}
