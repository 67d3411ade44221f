//! Suggests the name that an author probably meant.

/// Names longer than this are not compared: they may be untrusted input.
const MAX_LENGTH: usize = 64;

/// Returns the known name closest to `name`, if it is close enough for `name` to be a typo of it.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name: Vec<char> = name.chars().flat_map(char::to_lowercase).take(MAX_LENGTH + 1).collect();
    if name.len() > MAX_LENGTH {
        return None;
    }
    // Any two one-letter names are one edit apart, so a suggestion would be useless.
    let allowed = (name.len() / 3 + 1).min(name.len().saturating_sub(1));
    let with_distance = known.into_iter().filter_map(|it| {
        let other: Vec<char> = it.chars().flat_map(char::to_lowercase).take(MAX_LENGTH + 1).collect();
        if name.len() >= 3 && other.starts_with(&name) {
            return Some((1, it));
        }
        let far_off = other.len().abs_diff(name.len()) > allowed;
        (!far_off).then(|| (distance(&name, &other), it))
    });
    with_distance.filter(|(distance, _)| *distance <= allowed).min().map(|(_, it)| it)
}

/// Returns a hint with the closest known name, if `name` looks like a typo of it.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(|it| format!("did you mean `{it}`?"))
}

/// Returns the edit distance.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (idx, a) in one.iter().enumerate() {
        let mut diagonal = idx;
        let mut left = idx + 1;
        for (b, cell) in other.iter().zip(row.iter_mut().skip(1)) {
            let above = *cell;
            left = (above + 1).min(left + 1).min(diagonal + usize::from(a != b));
            diagonal = above;
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = idx + 1;
        }
    }
    row.last().copied().unwrap_or(one.len())
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_pen_is_found_and_a_different_word_is_not() {
        let known = ["temperature", "tools", "use"];
        assert_eq!(nearest("temprature", known), Some("temperature"));
        assert_eq!(nearest("Tool", known), Some("tools"));
        assert_eq!(nearest("temp", known), Some("temperature"));
        assert_eq!(nearest("weather", known), None);
        assert_eq!(nearest("x", ["a", "b"]), None);
        assert_eq!(nearest(&"x".repeat(100_000), known), None);
    }
}
