//! The filters and how to call them.
//!
//! A filter is a function from an input and its arguments to a value. The parser looks it up and checks the number of
//! arguments, so a template with a misspelled filter does not parse. [`apply`] counts texts before a filter reads
//! them; the filters themselves count the lists and results they build.

mod date;
mod encode;
mod html;
mod list;
mod math;
mod select;
mod strftime;
mod text;

use crate::{
    error::Fault,
    limits::{Builder, Meter},
    value::{Value, write_json},
};

/// The arguments of a call. No filter takes more than two, plus one keyword.
#[derive(Debug, Default)]
pub(crate) struct Args<'a> {
    pub(crate) first: Option<Value<'a>>,
    pub(crate) second: Option<Value<'a>>,
    pub(crate) allow_false: bool,
}

impl<'a> Args<'a> {
    /// Returns the first argument, or nil.
    fn first(&self) -> &Value<'a> {
        self.first.as_ref().unwrap_or(&Value::Nil)
    }

    /// Returns the second argument, or nil.
    fn second(&self) -> &Value<'a> {
        self.second.as_ref().unwrap_or(&Value::Nil)
    }
}

/// What filters can use besides their arguments.
#[derive(Debug)]
pub(crate) struct Tools<'t> {
    pub(crate) meter: &'t mut Meter,
    pub(crate) now: Option<&'t str>,
}

type Run = for<'a> fn(Value<'a>, &Args<'a>, &mut Tools<'_>) -> Result<Value<'a>, Fault>;

/// A filter and the arguments it accepts.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) name: &'static str,
    min: usize,
    max: usize,
    run: Run,
}

impl Filter {
    /// Checks the number of arguments and the names of keywords.
    pub(crate) fn check<'k>(
        &self,
        count: usize,
        keywords: impl Iterator<Item = &'k str>,
    ) -> Result<(), Fault> {
        let Filter { name, min, max, .. } = self;
        for keyword in keywords {
            if *name != "default" || keyword != "allow_false" {
                return Err(Fault::argument(format!("filter `{name}` has no argument `{keyword}`")));
            }
        }
        if (*min..=*max).contains(&count) {
            return Ok(());
        }
        let wanted = match (min, max) {
            (0, 0) => "no arguments".to_owned(),
            (1, 1) => "1 argument".to_owned(),
            _ if min == max => format!("{min} arguments"),
            _ => format!("{min} to {max} arguments"),
        };
        Err(Fault::argument(format!("filter `{name}` takes {wanted}, found {count}")))
    }
}

/// Returns the filter called `name`, if it exists.
pub(crate) fn find(name: &str) -> Option<&'static Filter> {
    FILTERS.binary_search_by(|it| it.name.cmp(name)).ok().and_then(|idx| FILTERS.get(idx))
}

/// Returns the names of all filters.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FILTERS.iter().map(|it| it.name)
}

/// Counts the texts that the filter will read, and runs it.
pub(crate) fn apply<'a>(
    filter: &Filter,
    input: Value<'a>,
    args: &Args<'a>,
    tools: &mut Tools<'_>,
) -> Result<Value<'a>, Fault> {
    tools.meter.steps(1)?;
    for value in [Some(&input), args.first.as_ref(), args.second.as_ref()].into_iter().flatten() {
        tools.meter.read(value.as_str().unwrap_or(""))?;
    }
    (filter.run)(input, args, tools)
}

const fn filter(name: &'static str, min: usize, max: usize, run: Run) -> Filter {
    Filter { name, min, max, run }
}

/// All filters, sorted by name: [`find`] relies on the order.
static FILTERS: [Filter; 62] = [
    filter("abs", 0, 0, math::abs),
    filter("append", 1, 1, text::append),
    filter("at_least", 1, 1, math::at_least),
    filter("at_most", 1, 1, math::at_most),
    filter("base64_decode", 0, 0, encode::base64_decode),
    filter("base64_encode", 0, 0, encode::base64_encode),
    filter("base64_url_safe_decode", 0, 0, encode::base64_url_safe_decode),
    filter("base64_url_safe_encode", 0, 0, encode::base64_url_safe_encode),
    filter("capitalize", 0, 0, text::capitalize),
    filter("ceil", 0, 0, math::ceil),
    filter("compact", 0, 1, select::compact),
    filter("concat", 1, 1, list::concat),
    filter("date", 1, 1, date::date),
    filter("default", 0, 2, default),
    filter("divided_by", 1, 1, math::divided_by),
    filter("downcase", 0, 0, text::downcase),
    filter("escape", 0, 0, html::escape),
    filter("escape_once", 0, 0, html::escape_once),
    filter("find", 1, 2, select::find),
    filter("find_index", 1, 2, select::find_index),
    filter("first", 0, 0, list::first),
    filter("floor", 0, 0, math::floor),
    filter("h", 0, 0, html::escape),
    filter("has", 1, 2, select::has),
    filter("join", 0, 1, list::join),
    filter("json", 0, 0, json),
    filter("last", 0, 0, list::last),
    filter("lstrip", 0, 0, text::lstrip),
    filter("map", 1, 1, select::map),
    filter("minus", 1, 1, math::minus),
    filter("modulo", 1, 1, math::modulo),
    filter("newline_to_br", 0, 0, html::newline_to_br),
    filter("plus", 1, 1, math::plus),
    filter("prepend", 1, 1, text::prepend),
    filter("reject", 1, 2, select::reject),
    filter("remove", 1, 1, text::replace),
    filter("remove_first", 1, 1, text::replace_first),
    filter("remove_last", 1, 1, text::replace_last),
    filter("replace", 1, 2, text::replace),
    filter("replace_first", 1, 2, text::replace_first),
    filter("replace_last", 2, 2, text::replace_last),
    filter("reverse", 0, 0, list::reverse),
    filter("round", 0, 1, math::round),
    filter("rstrip", 0, 0, text::rstrip),
    filter("size", 0, 0, list::size),
    filter("slice", 1, 2, list::slice),
    filter("sort", 0, 1, list::sort),
    filter("sort_natural", 0, 1, list::sort_natural),
    filter("split", 1, 1, text::split),
    filter("squish", 0, 0, text::squish),
    filter("strip", 0, 0, text::strip),
    filter("strip_html", 0, 0, html::strip_html),
    filter("strip_newlines", 0, 0, text::strip_newlines),
    filter("sum", 0, 1, select::sum),
    filter("times", 1, 1, math::times),
    filter("truncate", 0, 2, text::truncate),
    filter("truncatewords", 0, 2, text::truncatewords),
    filter("uniq", 0, 1, select::uniq),
    filter("upcase", 0, 0, text::upcase),
    filter("url_decode", 0, 0, encode::url_decode),
    filter("url_encode", 0, 0, encode::url_encode),
    filter("where", 1, 2, select::filter_where),
];

/// `default`: returns the argument if the input is nil, false or empty.
fn default<'a>(input: Value<'a>, args: &Args<'a>, _: &mut Tools<'_>) -> Result<Value<'a>, Fault> {
    let missing = if args.allow_false { input.is_nil() } else { !input.is_true() };
    if !missing && !input.is_empty() {
        return Ok(input);
    }
    Ok(args.first.clone().unwrap_or(Value::Str("")))
}

/// `json`: returns the input as JSON on one line.
fn json<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Result<Value<'a>, Fault> {
    let mut builder = Builder::new(tools.meter);
    let write = &mut |part: &str| {
        builder.meter().steps(1)?;
        builder.push(part)
    };
    write_json(&input, write, 0)?;
    Ok(builder.finish().into())
}

/// Returns whether whitespace control and the strip filters remove `char`.
pub(crate) fn is_space(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' | '\0')
}

#[cfg(test)]
mod tests {
    use super::{FILTERS, find};

    #[test]
    fn every_filter_is_found_by_its_name() {
        for filter in &FILTERS {
            assert_eq!(find(filter.name).map(|it| it.name), Some(filter.name));
        }
        assert!(find("nope").is_none());
    }
}
