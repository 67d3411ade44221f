//! Bars that show shares of a whole.

use crate::terminal::Screen;

/// Eighths of a column, from one to seven.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Returns a bar for `part` of `whole`, at most `columns` wide: blocks in steps of an eighth on a terminal, `#` in a
/// pipe. Any non-zero part is visible.
pub(crate) fn bar(screen: Screen, part: u32, whole: u32, columns: usize) -> String {
    if screen.terminal {
        let eighths = scaled(part, whole, columns * 8);
        let mut out = "█".repeat(eighths / 8);
        out.extend((eighths % 8).checked_sub(1).and_then(|it| EIGHTHS.get(it)));
        out
    } else {
        "#".repeat(scaled(part, whole, columns))
    }
}

/// Returns a bar of exactly `columns`, as its filled and its empty part.
pub(crate) fn gauge(screen: Screen, part: u32, whole: u32, columns: usize) -> (String, String) {
    let (full, empty) = if screen.terminal { ("█", "░") } else { ("#", ".") };
    let filled = scaled(part, whole, columns);
    (full.repeat(filled), empty.repeat(columns - filled))
}

/// Returns `part` of `whole` in percent with one decimal.
pub(crate) fn percent(part: u32, whole: u32) -> String {
    let share = if whole == 0 { 0.0 } else { f64::from(part) * 100.0 / f64::from(whole) };
    match part {
        1.. if whole > 0 && share < 0.1 => "<0.1%".to_owned(),
        _ => format!("{share:.1}%"),
    }
}

fn scaled(part: u32, whole: u32, steps: usize) -> usize {
    if part == 0 || whole == 0 {
        return 0;
    }
    let steps = steps as u64;
    let scaled = (u64::from(part) * steps + u64::from(whole) / 2) / u64::from(whole);
    usize::try_from(scaled.clamp(1, steps.max(1))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{bar, gauge, percent};
    use crate::terminal::Screen;

    const TERMINAL: Screen = Screen { width: 80, terminal: true };

    #[test]
    fn a_bar_is_drawn_in_eighths_on_a_terminal_and_in_ascii_in_a_pipe() {
        assert_eq!(bar(TERMINAL, 1, 4, 10), "██▌");
        assert_eq!(bar(TERMINAL, 4, 4, 10), "██████████");
        assert_eq!(bar(TERMINAL, 1, 1_000_000, 10), "▏");
        assert_eq!(bar(Screen::PIPE, 1, 4, 10), "###");
        assert_eq!(bar(Screen::PIPE, 0, 4, 10), "");
        assert_eq!(bar(Screen::PIPE, 3, 0, 10), "");
    }

    #[test]
    fn a_gauge_never_overflows() {
        assert_eq!(gauge(Screen::PIPE, 9, 4, 4), ("####".to_owned(), String::new()));
        assert_eq!(gauge(Screen::PIPE, u32::MAX, u32::MAX, 4).0, "####");
        assert_eq!(percent(1, 3), "33.3%");
        assert_eq!(percent(1, 0), "0.0%");
        assert_eq!(percent(1, 5000), "<0.1%");
    }
}
