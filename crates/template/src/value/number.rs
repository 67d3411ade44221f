//! Liquid's numbers: integers that do not wrap, and decimals without binary rounding artifacts.
//!
//! `10.1 | minus: 2.2` is `7.9`: floats are converted to their shortest decimal form, computed exactly, and converted
//! back. Where the exact result does not fit, the computation falls back to floating point.

use std::cmp::Ordering;

/// An integer or a float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
}

/// A decimal number: `digits` divided by ten to the power of `scale`.
#[derive(Clone, Copy, Debug)]
struct Decimal {
    digits: i128,
    scale: u32,
}

impl Decimal {
    fn of(number: Number) -> Option<Self> {
        let float = match number {
            Number::Int(digits) => return Some(Self { digits, scale: 0 }),
            Number::Float(float) => float,
        };
        // Beyond these bounds the digits would overflow the arithmetic below.
        if !float.is_finite() || float.abs() >= 1e18 || (float != 0.0 && float.abs() < 1e-12) {
            return None;
        }
        let text = float.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let scale = u32::try_from(fraction.len()).ok()?;
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some(Self { digits, scale })
    }

    /// Brings two decimals to the same scale.
    fn aligned(self, other: Self) -> Option<(i128, i128, u32)> {
        let scale = self.scale.max(other.scale);
        Some((self.scaled(scale)?, other.scaled(scale)?, scale))
    }

    fn scaled(self, scale: u32) -> Option<i128> {
        self.digits.checked_mul(10_i128.checked_pow(scale - self.scale)?)
    }

    fn float(digits: i128, scale: u32) -> f64 {
        // Parsing rounds correctly, which a division by a power of ten does not.
        format!("{digits}e-{scale}").parse().unwrap_or(f64::NAN)
    }
}

impl Number {
    pub(crate) fn float(self) -> f64 {
        match self {
            Number::Int(int) => int as f64,
            Number::Float(float) => float,
        }
    }

    fn is_zero(self) -> bool {
        self.float() == 0.0
    }

    pub(crate) fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Number::Int(left), Number::Int(right)) => Some(left.cmp(&right)),
            _ => self.float().partial_cmp(&other.float()),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        self.exactly(other, i128::checked_add, |a, b| a + b)
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        self.exactly(other, i128::checked_sub, |a, b| a - b)
    }

    fn exactly(self, other: Self, exact: fn(i128, i128) -> Option<i128>, float: fn(f64, f64) -> f64) -> Self {
        if let (Number::Int(left), Number::Int(right)) = (self, other) {
            return exact(left, right)
                .map_or_else(|| Number::Float(float(self.float(), other.float())), Number::Int);
        }
        let decimal = || {
            let (left, right, scale) = Decimal::of(self)?.aligned(Decimal::of(other)?)?;
            Some(Decimal::float(exact(left, right)?, scale))
        };
        Number::Float(decimal().unwrap_or_else(|| float(self.float(), other.float())))
    }

    pub(crate) fn times(self, other: Self) -> Self {
        let product = || {
            let (left, right) = (Decimal::of(self)?, Decimal::of(other)?);
            Some((left.digits.checked_mul(right.digits)?, left.scale + right.scale))
        };
        match (self, other, product()) {
            (Number::Int(_), Number::Int(_), Some((digits, _))) => Number::Int(digits),
            (_, _, Some((digits, scale))) => Number::Float(Decimal::float(digits, scale)),
            (_, _, None) => Number::Float(self.float() * other.float()),
        }
    }

    /// Divides; integer division rounds down. Returns `None` if `other` is zero.
    pub(crate) fn divided_by(self, other: Self) -> Option<Self> {
        if other.is_zero() {
            return None;
        }
        Some(match (self, other) {
            (Number::Int(left), Number::Int(right)) if left.checked_div(right).is_some() => {
                Number::Int(floor_div(left, right))
            }
            _ => Number::Float(self.float() / other.float()),
        })
    }

    /// Returns the remainder with the sign of `other`, or `None` if `other` is zero.
    pub(crate) fn modulo(self, other: Self) -> Option<Self> {
        if other.is_zero() {
            return None;
        }
        fn remainder(left: i128, right: i128) -> Option<i128> {
            let rest = left.checked_rem(right)?;
            Some(if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest })
        }
        fn float_remainder(left: f64, right: f64) -> f64 {
            let rest = left % right;
            if rest != 0.0 && (rest < 0.0) != (right < 0.0) { rest + right } else { rest }
        }
        Some(self.exactly(other, remainder, float_remainder))
    }

    pub(crate) fn abs(self) -> Self {
        match self {
            Number::Int(int) => int.checked_abs().map_or(Number::Float((int as f64).abs()), Number::Int),
            Number::Float(float) => Number::Float(float.abs()),
        }
    }

    pub(crate) fn ceil(self) -> Self {
        self.whole(f64::ceil)
    }

    pub(crate) fn floor(self) -> Self {
        self.whole(f64::floor)
    }

    fn whole(self, round: fn(f64) -> f64) -> Self {
        match self {
            Number::Int(_) => self,
            Number::Float(float) => whole_float(round(float)),
        }
    }

    /// Rounds half away from zero: to `places` decimals if positive, to powers of ten if negative.
    pub(crate) fn round(self, places: i128) -> Self {
        if let (Number::Int(_), true) = (self, places >= 0) {
            return self;
        }
        let Some(decimal) = Decimal::of(self) else {
            return if places > 0 { self } else { self.whole(f64::round) };
        };
        // No representable number has more digits than this.
        let places = places.clamp(-40, 40) as i32;
        let drop = decimal.scale as i32 - places;
        if drop <= 0 {
            return if places > 0 { self } else { self.whole(f64::round) };
        }
        let digits = match 10_i128.checked_pow(drop.unsigned_abs()) {
            Some(unit) => round_div(decimal.digits, unit),
            None => 0, // The unit is larger than twice any number there is.
        };
        if places > 0 {
            return Number::Float(Decimal::float(digits, places.unsigned_abs()));
        }
        match 10_i128.checked_pow(places.unsigned_abs()).and_then(|unit| digits.checked_mul(unit)) {
            Some(int) => Number::Int(int),
            None => Number::Int(0),
        }
    }
}

fn floor_div(left: i128, right: i128) -> i128 {
    let quotient = left / right;
    if left % right != 0 && (left < 0) != (right < 0) { quotient - 1 } else { quotient }
}

fn round_div(digits: i128, unit: i128) -> i128 {
    let (quotient, rest) = (digits / unit, digits % unit);
    if rest.unsigned_abs() >= unit.unsigned_abs().div_ceil(2) { quotient + digits.signum() } else { quotient }
}

fn whole_float(float: f64) -> Number {
    // A cast to an integer saturates, so larger floats stay floats.
    if float.abs() < 1e38 { Number::Int(float as i128) } else { Number::Float(float) }
}

/// Parses the integer at the start of a text, as in `"12 apples"`; returns 0 if there is none.
pub(crate) fn leading_int(text: &str) -> Number {
    let text = text.trim_ascii_start();
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let digits = format!("{sign}{}", rest.get(..length).unwrap_or(""));
    match digits.parse() {
        Ok(int) => Number::Int(int),
        Err(_) if length == 0 => Number::Int(0),
        Err(_) => Number::Float(digits.parse().unwrap_or(0.0)),
    }
}

/// Parses a text that consists of an integer, ignoring surrounding whitespace.
pub(crate) fn strict_int(text: &str) -> Option<i128> {
    let text = text.trim_ascii();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Parses a text as a decimal if it is one, otherwise as the integer it starts with.
pub(crate) fn parse(text: &str) -> Number {
    let trimmed = text.trim_ascii();
    let digits = trimmed.strip_prefix('-').unwrap_or(trimmed);
    let all_digits = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    match digits.split_once('.') {
        Some((whole, fraction)) if all_digits(whole) && all_digits(fraction) => {
            Number::Float(trimmed.parse().unwrap_or(0.0))
        }
        _ => leading_int(text),
    }
}

/// Formats a float with at least one decimal, or with an exponent where it would be long.
pub(crate) fn format_float(float: f64) -> String {
    if float.is_nan() {
        return "NaN".into();
    }
    if float.is_infinite() {
        return if float > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{float:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let dot = if mantissa.contains('.') { "" } else { ".0" };
        let (sign, digits) = exponent.strip_prefix('-').map_or(("+", exponent), |digits| ("-", digits));
        return format!("{mantissa}{dot}e{sign}{digits:0>2}");
    }
    let text = float.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}
