//! What models saw.
