//! Formats dates with a format string such as `%Y-%m-%d`.
//!
//! The directives are those of Ruby's `strftime`, with its flags (`-` no padding, `_` spaces, `0` zeros, `^` upper
//! case) and widths. An unknown directive is printed unchanged.

use jiff::civil::{DateTime, date};

use crate::{error::Fault, limits::Builder};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const MAX_WIDTH: usize = 1_000;

/// A date and time with its UTC offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) civil: DateTime,
    /// Seconds east of UTC.
    pub(super) offset: i32,
}

impl Moment {
    /// Returns the seconds since 1970.
    fn seconds(&self) -> i64 {
        self.civil.duration_since(date(1970, 1, 1).to_datetime(jiff::civil::Time::midnight())).as_secs()
            - i64::from(self.offset)
    }

    /// Returns the day of the week; Sunday is 0.
    fn weekday(&self) -> i64 {
        self.civil.weekday().to_sunday_zero_offset().into()
    }

    fn day_of_year(&self) -> i64 {
        self.civil.day_of_year().into()
    }
}

/// The flags and width between `%` and the letter.
#[derive(Clone, Copy, Debug, Default)]
struct Style {
    pad: Option<char>,
    bare: bool,
    upper: bool,
    swap: bool,
    colons: usize,
    width: Option<usize>,
}

/// Writes `moment` in the given format.
pub(super) fn format(moment: &Moment, format: &str, out: &mut Builder<'_>) -> Result<(), Fault> {
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        out.push(before)?;
        let (style, letter, tail) = directive(after)?;
        match letter.and_then(|it| field(moment, it, style)) {
            Some(text) => out.push(&text)?,
            None => {
                out.push("%")?;
                out.push(after.strip_suffix(tail).unwrap_or(""))?;
            }
        }
        rest = tail;
    }
    out.push(rest)
}

fn directive(text: &str) -> Result<(Style, Option<char>, &str), Fault> {
    let mut style = Style::default();
    let mut chars = text.chars();
    loop {
        let letter = chars.next();
        match letter {
            Some('-') => style.bare = true,
            Some('_') => style.pad = Some(' '),
            Some('0') if style.width.is_none() => style.pad = Some('0'),
            Some('^') => style.upper = true,
            Some('#') => style.swap = true,
            Some(':') => style.colons += 1,
            Some(digit @ '0'..='9') => {
                let digit = digit.to_digit(10).unwrap_or(0) as usize;
                let width = style.width.unwrap_or(0) * 10 + digit;
                if width > MAX_WIDTH {
                    return Err(Fault::limit("the width in a date format", MAX_WIDTH));
                }
                style.width = Some(width);
            }
            _ => return Ok((style, letter, chars.as_str())),
        }
    }
}

fn field(moment: &Moment, letter: char, style: Style) -> Option<String> {
    numeric(moment, letter, style)
        .or_else(|| word(moment, letter, style))
        .or_else(|| compound(moment, letter, style))
}

/// Formats the directives that print a number.
fn numeric(moment: &Moment, letter: char, style: Style) -> Option<String> {
    let civil = moment.civil;
    let year = i64::from(civil.year());
    let week = civil.date().iso_week_date();
    let hour12 = (i64::from(civil.hour()) + 11) % 12 + 1;
    let (value, width, pad) = match letter {
        'Y' => (year, 0, '0'),
        'C' => (year.div_euclid(100), 2, '0'),
        'y' => (year.rem_euclid(100), 2, '0'),
        'm' => (civil.month().into(), 2, '0'),
        'd' => (civil.day().into(), 2, '0'),
        'e' => (civil.day().into(), 2, ' '),
        'j' => (moment.day_of_year(), 3, '0'),
        'H' => (civil.hour().into(), 2, '0'),
        'k' => (civil.hour().into(), 2, ' '),
        'I' => (hour12, 2, '0'),
        'l' => (hour12, 2, ' '),
        'M' => (civil.minute().into(), 2, '0'),
        'S' => (civil.second().into(), 2, '0'),
        's' => (moment.seconds(), 0, '0'),
        'u' => ((moment.weekday() + 6) % 7 + 1, 1, '0'),
        'w' => (moment.weekday(), 1, '0'),
        'U' => ((moment.day_of_year() + 6 - moment.weekday()) / 7, 2, '0'),
        'W' => ((moment.day_of_year() + 6 - (moment.weekday() + 6) % 7) / 7, 2, '0'),
        'G' => (week.year().into(), 4, '0'),
        'g' => (i64::from(week.year()).rem_euclid(100), 2, '0'),
        'V' => (week.week().into(), 2, '0'),
        _ => return None,
    };
    Some(padded(&value.to_string(), style, width, pad))
}

/// Formats the directives that print words, signs and fractions.
fn word(moment: &Moment, letter: char, style: Style) -> Option<String> {
    let day = usize::try_from(moment.weekday()).ok().and_then(|it| DAYS.get(it)).copied().unwrap_or("");
    let month =
        usize::try_from(moment.civil.month() - 1).ok().and_then(|it| MONTHS.get(it)).copied().unwrap_or("");
    let noon = if moment.civil.hour() < 12 { "AM" } else { "PM" };
    let text = match letter {
        'A' => day.to_owned(),
        'a' => day.chars().take(3).collect(),
        'B' => month.to_owned(),
        'b' | 'h' => month.chars().take(3).collect(),
        'p' if style.swap => noon.to_lowercase(),
        'p' => noon.to_owned(),
        'P' => noon.to_lowercase(),
        'n' => "\n".to_owned(),
        't' => "\t".to_owned(),
        '%' => "%".to_owned(),
        'L' => fraction(moment, style.width.unwrap_or(3)),
        'N' => fraction(moment, style.width.unwrap_or(9)),
        'z' => zone(moment, style.colons),
        'Z' if moment.offset == 0 => "UTC".to_owned(),
        'Z' => String::new(),
        _ => return None,
    };
    let upper = style.upper || (style.swap && letter != 'p');
    let text = if upper { text.to_uppercase() } else { text };
    let style = if matches!(letter, 'L' | 'N') { Style { width: None, ..style } } else { style };
    Some(padded(&text, style, 0, ' '))
}

/// Formats the directives that are shorthand for several others.
fn compound(moment: &Moment, letter: char, style: Style) -> Option<String> {
    let parts: &[(char, &str)] = match letter {
        'c' => &[('a', " "), ('b', " "), ('e', " "), ('H', ":"), ('M', ":"), ('S', " "), ('Y', "")],
        'D' | 'x' => &[('m', "/"), ('d', "/"), ('y', "")],
        'F' => &[('Y', "-"), ('m', "-"), ('d', "")],
        'R' => &[('H', ":"), ('M', "")],
        'r' => &[('I', ":"), ('M', ":"), ('S', " "), ('p', "")],
        'T' | 'X' => &[('H', ":"), ('M', ":"), ('S', "")],
        'v' => &[('e', "-"), ('b', "-"), ('Y', "")],
        _ => return None,
    };
    let mut text = String::new();
    for (letter, separator) in parts {
        let plain = Style { upper: *letter == 'b' && parts.len() == 3, ..Style::default() };
        text += &numeric(moment, *letter, plain).or_else(|| word(moment, *letter, plain))?;
        text += separator;
    }
    let text = if style.upper { text.to_uppercase() } else { text };
    Some(padded(&text, style, 0, ' '))
}

fn padded(text: &str, style: Style, width: usize, pad: char) -> String {
    if style.bare {
        return text.to_owned();
    }
    let (width, pad) = (style.width.unwrap_or(width), style.pad.unwrap_or(pad));
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) if pad == '0' => ("-", digits),
        _ => ("", text),
    };
    let missing = width.saturating_sub(text.chars().count());
    format!("{sign}{}{digits}", pad.to_string().repeat(missing))
}

fn fraction(moment: &Moment, digits: usize) -> String {
    let nanos = format!("{:09}", moment.civil.subsec_nanosecond());
    nanos.chars().chain(std::iter::repeat('0')).take(digits).collect()
}

fn zone(moment: &Moment, colons: usize) -> String {
    let sign = if moment.offset < 0 { '-' } else { '+' };
    let offset = moment.offset.unsigned_abs();
    let (hours, minutes, seconds) = (offset / 3_600, offset / 60 % 60, offset % 60);
    match colons {
        0 => format!("{sign}{hours:02}{minutes:02}"),
        1 => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}
