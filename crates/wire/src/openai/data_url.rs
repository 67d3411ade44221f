//! Base64 data as an address: `data:image/png;base64,…`.

use contexture_message::MediaSource;

/// The media type of an image that does not say its own.
pub(crate) const IMAGE: &str = "image/png";

/// The media type of a file that does not say its own: the one that every model that reads files can read.
pub(crate) const FILE: &str = "application/pdf";

/// Returns the address that holds `data`.
pub(crate) fn write(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}

/// Returns what an address points at: the data that it holds, with its media type, or what is behind it.
pub(crate) fn read(url: &str) -> (MediaSource, Option<String>) {
    match parse(url) {
        Some((media_type, data)) => (MediaSource::Data(data.to_owned()), Some(media_type.to_owned())),
        None => (MediaSource::Url(url.to_owned()), None),
    }
}

fn parse(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let media_type = head.strip_suffix(";base64")?;
    Some((media_type.split(';').next().unwrap_or(media_type), data))
}
