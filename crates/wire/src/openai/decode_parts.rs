//! Decodes parts.

use contexture_message::{File, Image, MediaSource, Part, ToolOutput};
use serde_json::Value;

use crate::DecodeError;
use crate::loss::Losses;
use crate::media::data_url;
use crate::read::Place;

/// Returns a single text as text, anything else as a list of parts.
pub(crate) fn result_output(parts: Vec<Part>) -> ToolOutput {
    match parts.as_slice() {
        [Part::Text { text, .. }] => ToolOutput::Text(text.clone()),
        _ => ToolOutput::Content(parts),
    }
}

/// Decodes one part; returns `None` if we cannot represent its kind.
pub(crate) type ReadPart = fn(&Place<'_>, &mut Losses) -> Result<Option<Part>, DecodeError>;

/// Decodes content: a string or a list of parts.
pub(crate) fn parts(
    place: &Place<'_>,
    part: ReadPart,
    losses: &mut Losses,
) -> Result<Vec<Part>, DecodeError> {
    if let Value::String(text) = place.value {
        return Ok(vec![Part::text(text)]);
    }
    let mut parts = Vec::new();
    for item in place.list()? {
        parts.extend(part(&item, losses)?);
    }
    Ok(parts)
}

pub(super) fn part(place: &Place<'_>, losses: &mut Losses) -> Result<Option<Part>, DecodeError> {
    let kind = place.need("type")?.str()?;
    let part = match kind {
        "text" => Part::text(place.need("text")?.str()?),
        "image_url" => Part::Image(image(&place.need("image_url")?, losses)?),
        "file" => Part::File(file(&place.need("file")?)?),
        "refusal" => {
            losses.add(place.at(), "a refusal is read as text");
            Part::text(place.need("refusal")?.str()?)
        }
        other => {
            losses.add(place.at(), format!("a part of type `{other}` is not supported, left out"));
            return Ok(None);
        }
    };
    place.report(losses);
    Ok(Some(part))
}

fn image(place: &Place<'_>, losses: &mut Losses) -> Result<Image, DecodeError> {
    let (source, media_type) = read_url(place.need("url")?.str()?);
    detail(place, losses)?;
    Ok(Image { source, media_type })
}

/// Reports an image's detail level as a loss, unless the model chooses it.
pub(crate) fn detail(place: &Place<'_>, losses: &mut Losses) -> Result<(), DecodeError> {
    if let Some(detail) = place.get_str("detail")?.filter(|it| *it != "auto") {
        losses.add(format!("{}.detail", place.at()), format!("`{detail}` is not supported, left out"));
    }
    Ok(())
}

fn file(place: &Place<'_>) -> Result<File, DecodeError> {
    let name = place.get_str("filename")?.map(str::to_owned);
    if let Some(id) = place.get_str("file_id")? {
        return Ok(File { source: MediaSource::Id(id.to_owned()), media_type: None, name });
    }
    Ok(file_data(place.need("file_data")?.str()?, name))
}

/// Decodes file data: a `data:` URL or plain base64.
pub(crate) fn file_data(data: &str, name: Option<String>) -> File {
    match read_url(data) {
        (MediaSource::Url(data), _) => File { source: MediaSource::Data(data), media_type: None, name },
        (source, media_type) => File { source, media_type, name },
    }
}

/// Decodes a URL: the data and media type of a `data:` URL, or the URL itself.
pub(crate) fn read_url(url: &str) -> (MediaSource, Option<String>) {
    match data_url(url) {
        Some((kind, data)) => (MediaSource::Data(data.into_owned()), kind),
        None => (MediaSource::Url(url.to_owned()), None),
    }
}
