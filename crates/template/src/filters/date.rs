//! The `date` filter: parses dates in common formats. Formatting is in `strftime`.
//!
//! There is no clock and no time zone database: `now` comes from the caller, times without an offset are UTC, and an
//! offset in the text is kept. Input that is not a date is returned unchanged.

use jiff::{Timestamp, civil::DateTime, tz::Offset};

use super::strftime::{self, Moment};
use super::{Args, Tools};
use crate::{
    error::Fault,
    limits::Builder,
    value::Value,
    value::number::{self, Number},
};

/// Longer texts are not parsed as dates.
const MAX_LENGTH: usize = 100;

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

/// Returns the moment `seconds` after 1970, in UTC.
fn moment_at(seconds: i128) -> Option<Moment> {
    let timestamp = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    Some(Moment { civil: Offset::UTC.to_datetime(timestamp), offset: 0 })
}

fn moment_of(input: &Value<'_>, now: Option<&str>) -> Result<Option<Moment>, Fault> {
    if let Value::Int(seconds) = input {
        return Ok(moment_at(*seconds));
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
            Number::Int(seconds) => moment_at(seconds),
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
        let year = self.year.or(now.and_then(|it| it.civil.year().try_into().ok()))?;
        let month = self.month.or(if today { now.map(|it| it.civil.month() as u32) } else { Some(1) })?;
        let day = self.day.or(if today { now.map(|it| it.civil.day() as u32) } else { Some(1) })?;
        let [hour, minute, second, nanos] = self.time.unwrap_or_default();
        let small = |it: u32| i8::try_from(it).ok();
        let civil = DateTime::new(
            i16::try_from(year).ok()?,
            small(month)?,
            small(day)?,
            small(hour)?,
            small(minute)?,
            small(second)?,
            i32::try_from(nanos).ok()?,
        );
        Some(Moment { civil: civil.ok()?, offset: self.offset.unwrap_or(0) })
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
