//! Filters for URLs and Base64.

use super::{Args, Tools};
use crate::{error::Fault, limits::Builder, value::Value};

type Out<'a> = Result<Value<'a>, Fault>;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

pub(super) fn base64_encode<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    encode(input, tools, STANDARD)
}

pub(super) fn base64_url_safe_encode<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    encode(input, tools, URL_SAFE)
}

pub(super) fn base64_decode<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    decode(input, tools, STANDARD, true)
}

pub(super) fn base64_url_safe_decode<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    decode(input, tools, URL_SAFE, false)
}

fn encode<'a>(input: Value<'a>, tools: &mut Tools<'_>, alphabet: &[u8; 64]) -> Out<'a> {
    let text = input.text(tools.meter)?;
    let mut builder = Builder::new(tools.meter);
    for chunk in text.as_bytes().chunks(3) {
        let byte = |idx: usize| u32::from(chunk.get(idx).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for idx in 0..4 {
            let digit = group >> (18 - 6 * idx) & 63;
            let char = alphabet.get(digit as usize).map_or('=', |it| char::from(*it));
            builder.push_char(if idx <= chunk.len() { char } else { '=' })?;
        }
    }
    Ok(builder.finish().into())
}

fn decode<'a>(input: Value<'a>, tools: &mut Tools<'_>, alphabet: &[u8; 64], padded: bool) -> Out<'a> {
    let invalid = || Fault::argument("the text is not valid Base64");
    let text = input.text(tools.meter)?.into_owned();
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let complete = text.len().is_multiple_of(4) && padding <= 2;
    if digits.len() % 4 == 1 || ((padded || padding > 0) && !complete) {
        return Err(invalid());
    }
    tools.meter.build(text.len())?;
    let mut values = [None; 256];
    for (value, byte) in (0_u32..).zip(alphabet) {
        values[usize::from(*byte)] = Some(value);
    }
    let mut bytes = Vec::with_capacity(text.len());
    for chunk in digits.as_bytes().chunks(4) {
        let mut group = 0;
        for idx in 0..4 {
            let value = match chunk.get(idx) {
                Some(byte) => values[usize::from(*byte)].ok_or_else(invalid)?,
                None => 0,
            };
            group = group << 6 | value;
        }
        bytes.extend(group.to_be_bytes().iter().skip(1).take(chunk.len() - 1));
    }
    String::from_utf8(bytes)
        .map(Value::from)
        .map_err(|_| Fault::argument("the decoded text is not valid UTF-8"))
}

pub(super) fn url_encode<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    if input.is_nil() {
        return Ok(Value::Nil);
    }
    let text = input.text(tools.meter)?;
    let mut builder = Builder::new(tools.meter);
    for byte in text.bytes() {
        match byte {
            b' ' => builder.push("+")?,
            b'*' | b'-' | b'.' | b'_' | b'~' => builder.push_char(char::from(byte))?,
            _ if byte.is_ascii_alphanumeric() => builder.push_char(char::from(byte))?,
            _ => builder.push(&format!("%{byte:02X}"))?,
        }
    }
    Ok(builder.finish().into())
}

pub(super) fn url_decode<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    if input.is_nil() {
        return Ok(Value::Nil);
    }
    let text = input.text(tools.meter)?.into_owned();
    tools.meter.build(text.len())?;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match (byte, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            _ => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes)
        .map(Value::from)
        .map_err(|_| Fault::argument("the decoded text is not valid UTF-8"))
}

fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).and_then(|it| u8::try_from(it).ok()).unwrap_or(0)
}
