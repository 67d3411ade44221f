//! How hard something holds on under a budget.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A priority from 0 to 100, by default 50. The lowest gives way first; it never reorders output.
///
/// Up to three decimals are kept, for callers who rank by a score.
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
    /// What has no priority of its own gets this one.
    pub const DEFAULT: Priority = Priority::whole(50);
    /// Turns of the history.
    pub const HISTORY: Priority = Priority::whole(60);

    /// Returns the priority, if it is within range.
    pub fn new(value: f64) -> Result<Self, PriorityOutOfRange> {
        if (0.0..=100.0).contains(&value) {
            // In range, so the cast can't lose more than the fourth decimal.
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
    /// What was given.
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
