//! Decodes parts of messages and tool outputs.

use contexture_message::{File, Image, MediaSource, Part};

use crate::DecodeError;
use crate::loss::Losses;
use crate::openai::decode_parts::{detail, file_data, read_url};
use crate::read::Place;

pub(super) fn part(place: &Place<'_>, losses: &mut Losses) -> Result<Option<Part>, DecodeError> {
    let part = match place.need("type")?.str()? {
        "input_text" | "output_text" | "text" => Part::text(place.need("text")?.str()?),
        "input_image" => image(place, losses)?,
        "input_file" => Part::File(file(place)?),
        "refusal" => {
            losses.add(place.at(), "a refusal is read as text");
            Part::text(place.need("refusal")?.str()?)
        }
        other => {
            losses.add(place.at(), format!("a part of type `{other}` is not supported, left out"));
            return Ok(None);
        }
    };
    // Annotations of earlier answers name what the provider found, not what this request sends.
    place.ignore(&["annotations", "logprobs", "detail"]);
    place.report(losses);
    Ok(Some(part))
}

fn image(place: &Place<'_>, losses: &mut Losses) -> Result<Part, DecodeError> {
    detail(place, losses)?;
    if let Some(id) = place.get_str("file_id")? {
        losses.add(place.at(), "an image by its id is read as a file");
        return Ok(Part::File(File { source: MediaSource::Id(id.to_owned()), media_type: None, name: None }));
    }
    let (source, media_type) = read_url(place.need("image_url")?.str()?);
    Ok(Part::Image(Image { source, media_type }))
}

fn file(place: &Place<'_>) -> Result<File, DecodeError> {
    let name = place.get_str("filename")?.map(str::to_owned);
    let elsewhere = match (place.get_str("file_id")?, place.get_str("file_url")?) {
        (Some(id), _) => Some(MediaSource::Id(id.to_owned())),
        (None, url) => url.map(|it| MediaSource::Url(it.to_owned())),
    };
    match elsewhere {
        Some(source) => Ok(File { source, media_type: None, name }),
        None => Ok(file_data(place.need("file_data")?.str()?, name)),
    }
}
