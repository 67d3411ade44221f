//! Generates secrets that cannot be guessed.

use contexture_agent::Secrets;

/// Generates secrets from the machine's random source: 244 bits in hexadecimal.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSecrets;

impl Secrets for SystemSecrets {
    fn next(&self) -> String {
        // A version 4 UUID has 122 random bits.
        format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
    }
}
