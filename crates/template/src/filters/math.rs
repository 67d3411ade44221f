//! Filters on numbers. Strings are parsed as numbers; any other value counts as zero.

use super::{Args, Tools};
use crate::{error::Fault, value::Value, value::number::Number};

type Out<'a> = Result<Value<'a>, Fault>;

pub(super) fn abs<'a>(input: Value<'a>, _: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    Ok(input.number().abs().into())
}

pub(super) fn ceil<'a>(input: Value<'a>, _: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    Ok(input.number().ceil().into())
}

pub(super) fn floor<'a>(input: Value<'a>, _: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    Ok(input.number().floor().into())
}

pub(super) fn plus<'a>(input: Value<'a>, args: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    Ok(input.number().plus(args.first().number()).into())
}

pub(super) fn minus<'a>(input: Value<'a>, args: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    Ok(input.number().minus(args.first().number()).into())
}

pub(super) fn times<'a>(input: Value<'a>, args: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    Ok(input.number().times(args.first().number()).into())
}

pub(super) fn divided_by<'a>(input: Value<'a>, args: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    by_zero(input.number().divided_by(args.first().number()))
}

pub(super) fn modulo<'a>(input: Value<'a>, args: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    by_zero(input.number().modulo(args.first().number()))
}

fn by_zero<'a>(result: Option<Number>) -> Out<'a> {
    result.map(Value::from).ok_or_else(|| Fault::argument("division by zero"))
}

pub(super) fn round<'a>(input: Value<'a>, args: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    let places = match args.first().number() {
        Number::Int(int) => int,
        Number::Float(float) => float as i128, // A cast saturates.
    };
    Ok(input.number().round(places).into())
}

pub(super) fn at_least<'a>(input: Value<'a>, args: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    let (number, bound) = (input.number(), args.first().number());
    let below = number.compare(bound).is_some_and(|it| it.is_lt());
    Ok(if below { bound.into() } else { number.into() })
}

pub(super) fn at_most<'a>(input: Value<'a>, args: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    let (number, bound) = (input.number(), args.first().number());
    let above = number.compare(bound).is_some_and(|it| it.is_gt());
    Ok(if above { bound.into() } else { number.into() })
}
