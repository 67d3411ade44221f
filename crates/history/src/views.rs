//! Views of a log: the client's view, and all items.
//!
//! Items keep their log order. `N` and `{turns: N}` take the newest N items of the view; `{tokens: N}` packs items
//! from the newest backward and stops at the first that does not fit. The newest item of the view is always included.
//! The third view, the history, consists of turns: [`window`](crate::window()).

use contexture_message::Tokens;

use crate::{Item, Limit};

/// Returns the items that the client sees.
///
/// ```
/// use contexture_history::{Limit, client};
///
/// assert!(client(&[], Some(Limit::Turns(50))).is_empty());
/// ```
pub fn client(items: &[Item], limit: Option<Limit>) -> Vec<&Item> {
    newest(items.iter().filter(|it| it.visibility.client), limit)
}

/// Returns all items.
///
/// ```
/// use contexture_history::{Limit, all};
///
/// assert!(all(&[], Some(Limit::Turns(50))).is_empty());
/// ```
pub fn all(items: &[Item], limit: Option<Limit>) -> Vec<&Item> {
    newest(items.iter(), limit)
}

fn newest<'a>(items: impl DoubleEndedIterator<Item = &'a Item>, limit: Option<Limit>) -> Vec<&'a Item> {
    let from_newest = items.rev();
    let mut taken: Vec<&Item> = match limit {
        None => from_newest.collect(),
        Some(Limit::Turns(count)) => from_newest.take(count).collect(),
        Some(Limit::Tokens(limit)) => {
            let (mut used, mut is_newest) = (Tokens(0), true);
            let fits = |item: &&Item| {
                used += item.cost.tokens;
                std::mem::take(&mut is_newest) || used <= limit
            };
            from_newest.take_while(fits).collect()
        }
    };
    taken.reverse();
    taken
}
