//! How far a follower has got: the id of an event.
//!
//! An id is a number of the session, and what was told beyond it: `57` is everything up to item 57, `57+2` the first
//! two events of the next item as well, and `57~52.120.0` 120 bytes of text and none of thinking of the answer that
//! grows in the turn that began with item 52. A follower that continues after an id misses nothing and is told nothing twice.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// How many growing answers an id names at most: as many as a session can have turns at once, and then some.
const MAX_ANSWERS: usize = 64;

/// How far a follower has got in the events of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The number of the last item that was told whole.
    pub(crate) number: u64,
    /// How many events of the next item were told.
    pub(crate) n_events: usize,
    /// What was told of answers that are not in the log yet, by the number of the item with which their turn began.
    pub(crate) answers: BTreeMap<u64, Offsets>,
}

/// How much of an answer was told, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(crate) text: usize,
    pub(crate) thinking: usize,
}

impl Cursor {
    /// Returns the cursor behind an item.
    pub(crate) fn at(number: u64) -> Self {
        Self { number, ..Self::default() }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)?;
        if self.n_events > 0 {
            write!(f, "+{}", self.n_events)?;
        }
        for (idx, (began, Offsets { text, thinking })) in self.answers.iter().enumerate() {
            write!(f, "{}{began}.{text}.{thinking}", if idx == 0 { '~' } else { ',' })?;
        }
        Ok(())
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (place, answers) = match text.split_once('~') {
            Some((place, answers)) => {
                (place, answers.split(',').map(answer).collect::<Option<_>>().ok_or(())?)
            }
            None => (text, BTreeMap::new()),
        };
        let (at, n_events) = match place.split_once('+') {
            Some((at, n_events)) => (at, usize::try_from(number(n_events).ok_or(())?).map_err(|_| ())?),
            None => (place, 0),
        };
        let cursor = Self { number: number(at).ok_or(())?, n_events, answers };
        if cursor.answers.len() <= MAX_ANSWERS { Ok(cursor) } else { Err(()) }
    }
}

fn answer(text: &str) -> Option<(u64, Offsets)> {
    let mut numbers = text.split('.').map(number);
    let (began, text, thinking) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let offsets = Offsets { text: usize::try_from(text).ok()?, thinking: usize::try_from(thinking).ok()? };
    numbers.next().is_none().then_some((began, offsets))
}

fn number(text: &str) -> Option<u64> {
    let is_number = (1..=15).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    #[test]
    fn an_id_is_read_as_it_was_written() {
        for id in ["0", "57", "57+2", "57~52.120.0", "57+1~3.0.9,52.120.0"] {
            assert_eq!(id.parse::<Cursor>().map(|it| it.to_string()), Ok(id.to_owned()));
        }
        for wrong in [
            "",
            "x",
            "-1",
            "+1",
            "57+",
            "57~",
            "57~1",
            "57~1.2",
            "57~1.2.3.4",
            "57~1.2.3,",
            "1234567890123456",
        ] {
            assert_eq!(wrong.parse::<Cursor>(), Err(()), "{wrong}");
        }
    }
}
