//! Estimates the cost of a regular expression before it is compiled.

use regex_syntax::hir::{Class, Hir, HirKind};

/// The maximum length of a pattern in bytes.
const MAX_BYTES: usize = 4_000;
/// The maximum cost of a pattern for each byte of text it is matched against.
const MAX_WEIGHT: u64 = 20_000;
/// The cost of a pattern that only the backtracking engine supports: lookarounds and back references.
const BACKTRACKING: u64 = 1_000;

/// Returns the approximate number of states of a matcher for `pattern`; `None` if there are too many.
pub(super) fn weight(pattern: &str) -> Option<u64> {
    if pattern.len() > MAX_BYTES {
        return None;
    }
    let weight = match regex_syntax::Parser::new().parse(pattern) {
        Ok(hir) => of(&hir),
        Err(_) => repeated(pattern).saturating_mul(BACKTRACKING),
    };
    (weight <= MAX_WEIGHT).then_some(weight)
}

fn of(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Unicode(class)) => class.ranges().len() as u64,
        HirKind::Class(Class::Bytes(class)) => class.ranges().len() as u64,
        HirKind::Repetition(it) => {
            let times = it.max.unwrap_or(it.min).max(it.min).max(1);
            of(&it.sub).saturating_mul(u64::from(times))
        }
        HirKind::Capture(it) => of(&it.sub).saturating_add(2),
        HirKind::Concat(all) | HirKind::Alternation(all) => {
            all.iter().fold(1, |sum: u64, it| sum.saturating_add(of(it)))
        }
    }
}

/// Returns 1 for a pattern without large counts: `(?=x{1000})` is not parsed, and could become as large as any other.
fn repeated(pattern: &str) -> u64 {
    let counts = pattern.split('{').skip(1).filter_map(|it| it.split(['}', ',']).next()?.parse::<u64>().ok());
    counts.fold(1, |product: u64, it| product.saturating_mul((it / 64).max(1)))
}

#[cfg(test)]
mod tests {
    use super::weight;

    #[test]
    fn usual_patterns_are_light_and_bombs_are_refused() {
        for light in ["^[a-z]{1,64}@[a-z.]{1,255}$", r"^\d{4}-\d{2}-\d{2}$", r"^(?!x)\w+$", "^[^/]+/(.|\n)+$"]
        {
            assert!(weight(light).is_some_and(|it| it < 10_000), "{light}: {:?}", weight(light));
        }
        for bomb in ["(a{1000}){1000}", "((x{100}){100}){100}", r"(?=(a{1000}){1000})b", &"a".repeat(5000)] {
            assert_eq!(weight(bomb), None, "{bomb}");
        }
    }
}
