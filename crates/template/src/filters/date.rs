//! The `date` filter: parses dates in common formats. Formatting is in `strftime`.
//!
//! There is no clock and no time zone database: `now` comes from the caller, times without an offset are UTC, and an
//! offset in the text is kept. Input that is not a date is returned unchanged.

use super::{Args, Tools, strftime};
use crate::{
    error::Fault,
    limits::Builder,
    number::{self, Number},
    value::Value,
};

/// A point in time with its UTC offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) year: i64,
    pub(super) month: u32,
    pub(super) day: u32,
    pub(super) hour: u32,
    pub(super) minute: u32,
    pub(super) second: u32,
    pub(super) nanos: u32,
    /// Seconds east of UTC.
    pub(super) offset: i32,
}

/// Longer texts are not parsed as dates.
const MAX_LENGTH: usize = 100;
/// Far beyond any practical date, and small enough that no arithmetic overflows.
const MAX_SECONDS: i128 = 8_000_000_000_000;

impl Moment {
    /// Returns the moment `seconds` after 1970, in UTC.
    fn at(seconds: i128) -> Option<Self> {
        if seconds.abs() > MAX_SECONDS {
            return None;
        }
        let seconds = i64::try_from(seconds).ok()?;
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) as u32);
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
        Some(Self { year, month, day, hour, minute, second, nanos: 0, offset: 0 })
    }

    /// Returns the days since 1970-01-01.
    pub(super) fn days(&self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let month = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
    }

    /// Returns the seconds since 1970.
    pub(super) fn seconds(&self) -> i64 {
        let time = self.hour * 3_600 + self.minute * 60 + self.second;
        self.days() * 86_400 + i64::from(time) - i64::from(self.offset)
    }

    /// Returns the day of the week; Sunday is 0.
    pub(super) fn weekday(&self) -> i64 {
        (self.days() + 4).rem_euclid(7)
    }

    /// Returns the day of the year, starting at 1.
    pub(super) fn day_of_year(&self) -> i64 {
        self.days() - Self { month: 1, day: 1, ..*self }.days() + 1
    }
}

/// Converts days since 1970 to year, month and day.
fn civil(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day as u32)
}

pub(super) fn date<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Result<Value<'a>, Fault> {
    let format = args.first().text(tools.meter)?.into_owned();
    if format.is_empty() {
        return Ok(input);
    }
    let Some(moment) = moment_of(&input, tools.now)? else { return Ok(input) };
    let mut builder = Builder::new(tools.meter);
    strftime::format(&moment, &format, &mut builder)?;
    Ok(builder.finish().into())
}

fn moment_of(input: &Value<'_>, now: Option<&str>) -> Result<Option<Moment>, Fault> {
    if let Value::Int(seconds) = input {
        return Ok(Moment::at(*seconds));
    }
    let Some(text) = input.as_str().map(str::trim_ascii) else { return Ok(None) };
    let now = now.and_then(|it| read(it, None));
    if text.eq_ignore_ascii_case("now") || text.eq_ignore_ascii_case("today") {
        return now.map(Some).ok_or_else(|| Fault::argument("the current time is not known here"));
    }
    Ok(read(text, now))
}

/// Parses a date; parts missing from the text are taken from `now`.
fn read(text: &str, now: Option<Moment>) -> Option<Moment> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    if !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit()) && text.len() != 8 {
        return match number::leading_int(text) {
            Number::Int(seconds) => Moment::at(seconds),
            Number::Float(_) => None,
        };
    }
    let lower = text.to_ascii_lowercase();
    let mut reader = Reader { rest: &lower, parts: Parts::default() };
    while !reader.rest.is_empty() {
        reader.step()?;
    }
    reader.parts.moment(now)
}

/// The parts of a date found so far.
#[derive(Debug, Default)]
struct Parts {
    year: Option<u32>,
    month: Option<u32>,
    day: Option<u32>,
    time: Option<[u32; 4]>,
    offset: Option<i32>,
}

impl Parts {
    fn moment(self, now: Option<Moment>) -> Option<Moment> {
        if self.month.is_none() && self.year.is_none() && (self.day.is_some() || self.time.is_none()) {
            return None; // A number alone is not a date.
        }
        let today = self.month.is_none() && self.year.is_none();
        let year = self.year.map(i64::from).or(now.map(|it| it.year))?;
        let month = self.month.or(if today { now.map(|it| it.month) } else { Some(1) })?;
        let day = self.day.or(if today { now.map(|it| it.day) } else { Some(1) })?;
        let [hour, minute, second, nanos] = self.time.unwrap_or_default();
        let valid = (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        let offset = self.offset.unwrap_or(0);
        valid.then_some(Moment { year, month, day, hour, minute, second, nanos, offset })
    }
}

fn days_in(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Time zone names and their offsets in hours.
const ZONES: [(&str, i32); 13] = [
    ("z", 0),
    ("utc", 0),
    ("gmt", 0),
    ("est", -5),
    ("edt", -4),
    ("cst", -6),
    ("cdt", -5),
    ("mst", -7),
    ("mdt", -6),
    ("pst", -8),
    ("pdt", -7),
    ("cet", 1),
    ("cest", 2),
];

struct Reader<'t> {
    rest: &'t str,
    parts: Parts,
}

impl<'t> Reader<'t> {
    /// Consumes the next number, word or sign. Returns `None` if the text contradicts itself.
    fn step(&mut self) -> Option<()> {
        let first = self.rest.chars().next()?;
        if first.is_ascii_digit() {
            return self.numbers();
        }
        if first.is_ascii_alphabetic() {
            self.word();
            return Some(());
        }
        let after_time = self.parts.time.is_some() && self.parts.offset.is_none();
        self.rest = self.rest.get(first.len_utf8()..)?;
        if matches!(first, '+' | '-') && after_time && self.rest.starts_with(|it: char| it.is_ascii_digit()) {
            return self.offset(if first == '-' { -1 } else { 1 });
        }
        Some(())
    }

    fn digits(&mut self) -> &'t str {
        let length = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at_checked(length).unwrap_or(("", self.rest));
        self.rest = rest;
        digits
    }

    /// Consumes `sign` and the digits after it.
    fn digits_after(&mut self, sign: char) -> Option<&'t str> {
        let rest = self.rest.strip_prefix(sign)?;
        if !rest.starts_with(|it: char| it.is_ascii_digit()) {
            return None;
        }
        self.rest = rest;
        Some(self.digits())
    }

    fn numbers(&mut self) -> Option<()> {
        let first = self.digits();
        if let Some(minute) = self.digits_after(':') {
            return self.time(first, minute);
        }
        for sign in ['-', '/', '.'] {
            let before = self.rest;
            let second = self.digits_after(sign);
            let third = second.and_then(|_| self.digits_after(sign));
            if let (Some(second), Some(third)) = (second, third) {
                return self.date([first, second, third]);
            }
            self.rest = before;
        }
        self.number(first)
    }

    fn date(&mut self, [first, second, third]: [&str; 3]) -> Option<()> {
        let (year, day) = if first.len() > 2 { (first, third) } else { (third, first) };
        self.parts.year = Some(year.parse().ok().filter(|it| *it <= 9_999)?);
        self.parts.month = Some(second.parse().ok()?);
        self.parts.day = Some(day.parse().ok()?);
        Some(())
    }

    fn number(&mut self, digits: &str) -> Option<()> {
        let value: u32 = digits.parse().ok()?;
        let hour = self.rest.trim_ascii_start();
        if hour.starts_with("am") || hour.starts_with("pm") {
            self.parts.time = Some([value, 0, 0, 0]);
            return Some(());
        }
        match digits.len() {
            8 => {
                self.parts.year = Some(value / 10_000);
                self.parts.month = Some(value / 100 % 100);
                self.parts.day = Some(value % 100);
            }
            4 => self.parts.year = Some(value),
            1 | 2 if self.parts.day.is_none() => self.parts.day = Some(value),
            2 if self.parts.year.is_none() => {
                self.parts.year = Some(value + if value < 69 { 2000 } else { 1900 })
            }
            _ => return None,
        }
        Some(())
    }

    fn time(&mut self, hour: &str, minute: &str) -> Option<()> {
        let second = self.digits_after(':').unwrap_or("0");
        let fraction: String =
            self.digits_after('.').unwrap_or("0").chars().chain("000000000".chars()).take(9).collect();
        let read = |digits: &str| digits.parse::<u32>().ok();
        self.parts.time = Some([read(hour)?, read(minute)?, read(second)?, read(&fraction)?]);
        Some(())
    }

    fn offset(&mut self, sign: i32) -> Option<()> {
        let digits = self.digits();
        let (hours, minutes) = match self.digits_after(':') {
            Some(minutes) => (digits, minutes),
            None => digits.split_at_checked(2).unwrap_or((digits, "")),
        };
        let read = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i32>().ok() };
        let (hours, minutes) = (read(hours)?, read(minutes)?);
        if hours > 23 || minutes > 59 {
            return None;
        }
        self.parts.offset = Some(sign * (hours * 3_600 + minutes * 60));
        Some(())
    }

    fn word(&mut self) {
        let length = self.rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (word, rest) = self.rest.split_at_checked(length).unwrap_or(("", ""));
        self.rest = rest;
        let month = word.get(..3).and_then(|start| MONTHS.iter().position(|it| *it == start));
        if let (Some(month), None) = (month, self.parts.month) {
            self.parts.month = u32::try_from(month + 1).ok();
        } else if let (Some([hour, ..]), "am" | "pm") = (&mut self.parts.time, word) {
            // On a 12-hour clock, 12 comes before 1.
            *hour = *hour % 12 + if word == "pm" { 12 } else { 0 };
        } else if let (Some((_, hours)), Some(_)) =
            (ZONES.iter().find(|(name, _)| *name == word), self.parts.time)
        {
            self.parts.offset = Some(hours * 3_600);
        }
    }
}
