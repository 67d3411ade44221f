//! The location, type and base64 encoding of images and files.
//!
//! [`bytes`] turns a source as an author wrote it into what a dialect needs. A missing media type is inferred from
//! the name, the address or the first bytes; nothing is ever fetched.

use std::borrow::Cow;

use contexture_message::MediaSource;

/// Where the bytes are, with `data:` URLs decoded to inline data.
#[derive(Debug, PartialEq)]
pub(crate) enum Bytes<'a> {
    /// Inline data in base64.
    Inline(Cow<'a, str>),
    /// The URL to fetch the bytes from.
    Url(&'a str),
    /// The id of an uploaded file.
    Id(&'a str),
}

/// Returns the location of the bytes, and their media type if it is given or can be inferred.
pub(crate) fn bytes<'a>(
    source: &'a MediaSource,
    media_type: Option<&str>,
    name: Option<&str>,
) -> (Bytes<'a>, Option<String>) {
    let said = media_type.map(str::to_ascii_lowercase);
    let by_name = || name.and_then(by_extension).map(str::to_owned);
    match source {
        MediaSource::Data(data) => {
            (Bytes::Inline(data.into()), said.or_else(|| by_start(data).map(str::to_owned)).or_else(by_name))
        }
        MediaSource::Url(url) => match data_url(url) {
            Some((own, data)) => (Bytes::Inline(data), said.or(own)),
            None => {
                let path = url.split(['?', '#']).next().unwrap_or(url);
                (Bytes::Url(url), said.or_else(by_name).or_else(|| by_extension(path).map(str::to_owned)))
            }
        },
        MediaSource::Id(id) => (Bytes::Id(id), said.or_else(by_name)),
    }
}

/// Parses a `data:` URL into its media type, if given, and its data in base64. The scheme is case-insensitive, and
/// data that is not base64 is encoded.
pub(crate) fn data_url(url: &str) -> Option<(Option<String>, Cow<'_, str>)> {
    let (scheme, rest) = url.trim_start().split_once(':')?;
    if !scheme.eq_ignore_ascii_case("data") {
        return None;
    }
    let (head, data) = rest.split_once(',').unwrap_or((rest, ""));
    let own = head.split(';').next().filter(|it| it.contains('/')).map(str::to_ascii_lowercase);
    let is_base64 = head.split(';').skip(1).any(|it| it.trim().eq_ignore_ascii_case("base64"));
    match is_base64 {
        true => Some((own, data.into())),
        false => Some((own.or_else(|| Some("text/plain".to_owned())), base64(&percent_decoded(data)).into())),
    }
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let coded = after.get(..2).filter(|_| *byte == b'%').and_then(|it| std::str::from_utf8(it).ok());
        match coded.and_then(|it| u8::from_str_radix(it, 16).ok()) {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    bytes
}

/// The first characters of files in base64, by media type.
#[rustfmt::skip]
const STARTS: &[(&str, &str)] = &[
    ("iVBORw0KGgo", "image/png"),
    ("/9j/",        "image/jpeg"),
    ("R0lGOD",      "image/gif"),
    ("UklGR",       "image/webp"),
    ("JVBERi0",     "application/pdf"),
];

fn by_start(data: &str) -> Option<&'static str> {
    STARTS.iter().find(|(start, _)| data.starts_with(start)).map(|(_, it)| *it)
}

#[rustfmt::skip]
const EXTENSIONS: &[(&str, &str)] = &[
    ("png",  "image/png"),
    ("jpg",  "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif",  "image/gif"),
    ("webp", "image/webp"),
    ("pdf",  "application/pdf"),
    ("txt",  "text/plain"),
    ("md",   "text/markdown"),
    ("csv",  "text/csv"),
    ("html", "text/html"),
    ("json", "application/json"),
    ("mp3",  "audio/mpeg"),
    ("wav",  "audio/wav"),
    ("mp4",  "video/mp4"),
];

fn by_extension(path: &str) -> Option<&'static str> {
    let (_, extension) = path.rsplit_once('.')?;
    EXTENSIONS.iter().find(|(it, _)| it.eq_ignore_ascii_case(extension)).map(|(_, it)| *it)
}

/// Returns the file extension for a media type, `bin` if it is unknown.
pub(crate) fn extension(kind: &str) -> &'static str {
    EXTENSIONS.iter().find(|(_, it)| *it == kind).map_or("bin", |(end, _)| *end)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes base64 to text; returns `None` if it is not base64 or not text.
pub(crate) fn text_of(base64: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(base64.len() / 4 * 3);
    let (mut bits, mut n_bits) = (0_u32, 0);
    for letter in base64.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|it| *it == letter)?;
        bits = (bits << 6 | u32::try_from(value).ok()?) & 0x00ff_ffff;
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            bytes.push(((bits >> n_bits) & 0xff) as u8);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Encodes bytes as base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{base64, data_url, text_of};

    #[test]
    fn base64_is_written_and_read() {
        for (text, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("a,b\n1,2\n", "YSxiCjEsMgo=")]
        {
            assert_eq!(base64(text.as_bytes()), coded);
            assert_eq!(text_of(coded).as_deref(), Some(text));
        }
        assert_eq!(text_of("no base64!"), None);
    }

    #[test]
    fn data_urls_are_taken_apart() {
        let apart = |url| data_url(url).map(|(kind, data)| format!("{} {data}", kind.unwrap_or_default()));
        assert_eq!(apart("data:image/PNG;base64,iVBO").as_deref(), Some("image/png iVBO"));
        assert_eq!(apart(" DATA:;base64,iVBO").as_deref(), Some(" iVBO"));
        assert_eq!(apart("data:text/csv;charset=utf-8,a%2Cb%0").as_deref(), Some("text/csv YSxiJTA="));
        assert_eq!(apart("data:,f%6Fo").as_deref(), Some("text/plain Zm9v"));
        assert_eq!(apart("https://example.org/data:x"), None);
    }
}
