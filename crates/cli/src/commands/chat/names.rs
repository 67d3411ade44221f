//! Names for sessions that people can read and type.

const FIRST: [&str; 16] = [
    "amber", "brisk", "calm", "clear", "dusty", "early", "fond", "green", "hazel", "keen", "light", "mild",
    "north", "quiet", "round", "swift",
];
const SECOND: [&str; 16] = [
    "birch", "cedar", "cloud", "coast", "creek", "field", "grove", "heron", "island", "lake", "maple",
    "meadow", "otter", "river", "stone", "willow",
];

/// Returns a new name such as `amber-otter-4f2a`, made from the characters of `random`, which must be unpredictable.
pub(super) fn name(random: &str) -> String {
    let digit =
        |at: usize| random.chars().nth(at).and_then(|it| it.to_digit(16)).unwrap_or_default() as usize;
    let rest: String = random.chars().skip(2).take(4).collect();
    format!("{}-{}-{rest}", FIRST[digit(0) % 16], SECOND[digit(1) % 16])
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_can_be_read() {
        assert_eq!(super::name("0c4f2ae9"), "amber-otter-4f2a");
        assert_eq!(super::name(""), "amber-birch-");
    }
}
