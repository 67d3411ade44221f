//! Short stable digests of texts.

/// Returns eight characters that depend on `text` alone and are the same on every machine: FNV-1a, folded to 32 bits.
pub(crate) fn digest(text: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{:08x}", (hash >> 32) as u32 ^ hash as u32)
}
