//! The priority of an entry under a budget.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A priority from 0 to 100, by default 50. The lowest is dropped first; the output order never depends on it.
///
/// Up to three decimals are kept, for callers that rank by a score.
///
/// ```
/// use contexture_compose::Priority;
///
/// assert!(Priority::new(80.0)? > Priority::DEFAULT);
/// assert!(Priority::new(101.0).is_err());
/// # Ok::<(), contexture_compose::PriorityOutOfRange>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Priority(u32);

impl Priority {
    /// The priority of everything that does not set one.
    pub const DEFAULT: Priority = Priority::whole(50);
    /// The priority of the index of skills.
    pub const SKILL_INDEX: Priority = Priority::whole(90);
    /// The priority of a loaded skill.
    pub const LOADED_SKILL: Priority = Priority::whole(85);
    /// The priority of turns in the history.
    pub const HISTORY: Priority = Priority::whole(60);

    /// Returns the priority, or an error if it is out of range.
    pub fn new(value: f64) -> Result<Self, PriorityOutOfRange> {
        if (0.0..=100.0).contains(&value) {
            // The value is in range, so the cast loses nothing beyond the third decimal.
            Ok(Priority((value * 1000.0).round() as u32))
        } else {
            Err(PriorityOutOfRange { value })
        }
    }

    const fn whole(value: u32) -> Priority {
        Priority(value * 1000)
    }

    /// Returns the number.
    pub fn value(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

/// A priority below 0 or above 100.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("priority {value} is outside 0 to 100")]
pub struct PriorityOutOfRange {
    /// The rejected value.
    pub value: f64,
}

impl Default for Priority {
    fn default() -> Self {
        Priority::DEFAULT
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

impl Serialize for Priority {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 % 1000 {
            0 => serializer.serialize_u32(self.0 / 1000),
            _ => serializer.serialize_f64(self.value()),
        }
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Priority::new(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
