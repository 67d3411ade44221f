//! Dates in the notations that people write.

/// A date, or the part of it that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) year: Option<u32>,
    pub(super) month: u32,
    pub(super) day: Option<u32>,
}

/// The first letters of the months in English and German.
const MONTHS: [&[&str]; 12] = [
    &["january", "jan", "januar"],
    &["february", "feb", "februar"],
    &["march", "mar", "märz", "mär"],
    &["april", "apr"],
    &["may", "mai"],
    &["june", "jun", "juni"],
    &["july", "jul", "juli"],
    &["august", "aug"],
    &["september", "sep", "sept"],
    &["october", "oct", "oktober", "okt"],
    &["november", "nov"],
    &["december", "dec", "dezember", "dez"],
];

/// Reads the date that the words begin with. Returns what it may mean, since `03/05/2024` has two meanings, and how many
/// words it has.
pub(super) fn date_at(words: &[&str]) -> Option<(Vec<Date>, usize)> {
    let first = words.first()?;
    if let Some(dates) = numeric(first) {
        return Some((dates, 1));
    }
    let second = words.get(1).copied().unwrap_or_default();
    if let Some(month) = month(first) {
        return month_first(month, second, words.get(2).copied());
    }
    let day = day(first)?;
    let of = usize::from(second.eq_ignore_ascii_case("of"));
    let month = month(words.get(1 + of)?)?;
    let year = words.get(2 + of).and_then(|it| year(it));
    Some((vec![Date { year, month, day: Some(day) }], 2 + of + usize::from(year.is_some())))
}

fn month_first(month: u32, second: &str, third: Option<&str>) -> Option<(Vec<Date>, usize)> {
    if let Some(day) = day(second) {
        let year = third.and_then(year);
        return Some((vec![Date { year, month, day: Some(day) }], 2 + usize::from(year.is_some())));
    }
    let year = year(second)?;
    Some((vec![Date { year: Some(year), month, day: None }], 2))
}

fn numeric(word: &str) -> Option<Vec<Date>> {
    let word = word.split_once('T').map_or(word, |(date, _)| date);
    let separator = word.chars().find(|it| !it.is_ascii_digit()).filter(|it| "-./".contains(*it))?;
    let fields: Vec<&str> = word.split(separator).collect();
    let [a, b, c] = fields.as_slice() else { return None };
    let number = |it: &str| it.parse::<u32>().ok().filter(|_| it.bytes().all(|it| it.is_ascii_digit()));
    let (first, second, third) = (number(a)?, number(b)?, number(c)?);
    let date = |year: u32, month: u32, day: u32| {
        let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
        is_date.then_some(Date { year: Some(year), month, day: Some(day) })
    };
    let dates: Vec<Date> = match (a.len(), c.len()) {
        (4, 1..=2) => date(first, second, third).into_iter().collect(),
        (1..=2, 2 | 4) => {
            let year = if c.len() == 2 { 2000 + third } else { third };
            let american = if separator == '.' { None } else { date(year, first, second) };
            date(year, second, first).into_iter().chain(american).collect()
        }
        _ => Vec::new(),
    };
    (!dates.is_empty()).then_some(dates)
}

fn month(word: &str) -> Option<u32> {
    let word = word.to_lowercase();
    let found = MONTHS.iter().position(|it| it.contains(&word.as_str()))?;
    u32::try_from(found + 1).ok()
}

fn day(word: &str) -> Option<u32> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|it| word.strip_suffix(it)).unwrap_or(word);
    let is_short = (1..=2).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit());
    digits.parse().ok().filter(|it| is_short && (1..=31).contains(it))
}

fn year(word: &str) -> Option<u32> {
    let is_year = word.len() == 4 && word.bytes().all(|it| it.is_ascii_digit());
    word.parse().ok().filter(|it| is_year && (1000..=2999).contains(it))
}
