//! Reminders of one turn, in a hidden envelope of their own.

use contexture_history::EnvelopeTag;
use contexture_session::NewItem;

use crate::outcome::Remark;

const MOST: usize = 16;
const MOST_CHARS: usize = 2_000;

/// Returns the envelope with the reminders, if there are any, and remarks on what did not fit into it.
pub(crate) fn envelope(reminders: &[String], remarks: &mut Vec<Remark>) -> Option<NewItem> {
    let said: Vec<&str> = reminders.iter().map(|it| it.trim()).filter(|it| !it.is_empty()).collect();
    if said.len() > MOST {
        remarks.push(remark(format!("{} reminders are left out, {MOST} are allowed", said.len() - MOST)));
    }
    let lines: Vec<String> = said.iter().take(MOST).map(|it| clipped(it, remarks)).collect();
    (!lines.is_empty()).then(|| NewItem::envelope(EnvelopeTag::SystemReminders, lines.join("\n")))
}

fn clipped(text: &str, remarks: &mut Vec<Remark>) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => {
            remarks.push(remark(format!("a reminder is cut: {MOST_CHARS} characters are allowed")));
            format!("{}…", &text[..end])
        }
    }
}

fn remark(message: String) -> Remark {
    Remark { source: "reminders".to_owned(), message }
}
