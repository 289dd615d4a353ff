//! Rules that are laid over those of a profile. They only ever narrow them: what a profile denies stays denied.

use libc::c_long;

use super::bpf::{FilterAction, Rule, Table, Test};

/// Rules to lay over a profile's table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Additions(Vec<(c_long, Rule)>);

impl Additions {
    /// Adds a rule for a call.
    pub fn add(&mut self, call: c_long, rule: Rule) {
        self.0.push((call, rule));
    }

    /// Lays the additions over a profile's table.
    pub fn apply(&self, table: &mut Table) {
        for (call, addition) in &self.0 {
            let rule = table.rule(*call).clone();
            table.set(&[*call], narrowed(rule, addition));
        }
    }

    /// Whether there are any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What holds where `rule` allows and `addition` has its say as well.
fn narrowed(rule: Rule, addition: &Rule) -> Rule {
    match (rule, addition) {
        (Rule::Always(FilterAction::Allow), addition) => addition.clone(),
        (Rule::Always(denied), _) => Rule::Always(denied),
        (Rule::When(tests, otherwise), addition) => {
            let mut list: Vec<(Test, FilterAction)> = tests
                .into_iter()
                .map(|(test, verdict)| (test.clone(), within(&test, verdict, addition)))
                .collect();
            match (otherwise, addition) {
                (FilterAction::Allow, Rule::When(more, last)) => {
                    list.extend(more.iter().cloned());
                    Rule::When(list, *last)
                }
                (FilterAction::Allow, Rule::Always(verdict)) => Rule::When(list, *verdict),
                (denied, _) => Rule::When(list, denied),
            }
        }
    }
}

/// The verdict where `test` already holds. A rule cannot ask for two tests at once, so a case in which both might hold
/// is sent to the guard, which sees all.
fn within(test: &Test, verdict: FilterAction, addition: &Rule) -> FilterAction {
    if verdict != FilterAction::Allow {
        return verdict;
    }
    match addition {
        Rule::Always(verdict) => *verdict,
        Rule::When(more, last) => match more.iter().find(|(other, _)| !exclude_each_other(test, other)) {
            None => *last,
            Some((other, verdict)) if other == test => *verdict,
            Some(_) => FilterAction::Notify,
        },
    }
}

fn exclude_each_other(one: &Test, two: &Test) -> bool {
    match (one, two) {
        (
            Test::OneOf { argument: a, mask: m, values },
            Test::OneOf { argument: b, mask: n, values: others },
        ) => a == b && m == n && !values.iter().any(|value| others.contains(value)),
        (Test::NoBit { argument: a, bits: none }, Test::AnyBit { argument: b, bits: any }) => {
            a == b && any & none == *any
        }
        _ => false,
    }
}
