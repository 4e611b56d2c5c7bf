//! Checks the exact counts of a journal against a budget, and zones in which a program must neither
//! allocate nor free.
//!
//! | module | contents |
//! | --- | --- |
//! | `amount` | a number of the budget file: a count, or bytes with a unit |
//! | `pattern` | names with `*` and `?`, and names of functions |
//! | `metric` | what is counted |
//! | `budget` | the budget file: limits, zones and suppressions |
//! | `scope` | the part of a program that a limit or a zone concerns |
//! | `selection` | the rows of a scope in one journal |
//! | `names` | the named call stacks of a journal |
//! | `totals` | the counts of a selection |
//! | `measure` | the counts of several scopes, in one pass over the journal |
//! | `shares` | which call sites make up a count, also compared with another journal |
//! | `violations` | the calls in zones, grouped by call site |
//! | `check` | the whole check |
//! | `learn` | a budget that the given runs keep |

mod amount;
mod budget;
mod check;
mod learn;
mod measure;
mod metric;
mod names;
mod pattern;
mod scope;
mod selection;
mod shares;
mod totals;
mod violations;

pub use budget::{Budget, BudgetError, Gate, Limited, Replay, Suppression, Zone};
pub use check::{Checked, GateResult, Input, LimitResult, Outcome, ZoneResult, check};
pub use learn::{Learned, Learning};
pub use measure::{Measured, measure};
pub use metric::{Kernel, METRICS, Metric};
pub use scope::{CallKind, Class, Scope, ZonePlace};
pub use shares::Share;
pub use violations::{Cost, Deed, Group, Violation};
