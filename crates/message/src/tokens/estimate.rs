//! Counters for model families whose tokenisers are not public.

use std::borrow::Cow;

use super::cut::pieces;
use super::{CounterProfile, Encoding, Framing, TokenCounter, Tokens};

/// An estimate: the `o200k_base` count times a factor that depends on the kind of text.
///
/// The kind is determined for each piece of about 1 KB, so that a report with code and tables in it is not
/// classified as either. It uses integer arithmetic only: equal texts give equal numbers on every platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    name: &'static str,
    factors: Factors,
    framing: Framing,
}

/// How many tokens of another family correspond to 100 of `o200k_base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Factors {
    prose: u64,
    code: u64,
    east_asian: u64,
}

/// The predominant kind of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Prose,
    Code,
    EastAsian,
}

const PIECE: usize = 1024;

impl Estimate {
    /// Claude 3 and later.
    ///
    /// An image of the largest size that is not scaled down is about 1,600 tokens by Anthropic's documentation.
    pub const CLAUDE: Estimate = Estimate {
        name: "claude-estimate",
        factors: Factors { prose: 115, code: 120, east_asian: 130 },
        framing: Framing { request: 8, message: 4, tool: 12, image: 1600 },
    };

    /// Gemini, and Gemma, which shares its vocabulary.
    ///
    /// An image is 258 tokens for each tile of 768 × 768 pixels by Google's documentation; four tiles here.
    pub const GEMINI: Estimate = Estimate {
        name: "gemini-estimate",
        factors: Factors { prose: 110, code: 110, east_asian: 110 },
        framing: Framing { request: 4, message: 4, tool: 8, image: 1032 },
    };

    /// Any unknown model.
    pub const OTHER: Estimate = Estimate {
        name: "other-estimate",
        factors: Factors { prose: 110, code: 110, east_asian: 110 },
        framing: Framing { request: 4, message: 4, tool: 8, image: 1600 },
    };
}

impl TokenCounter for Estimate {
    fn count(&self, text: &str) -> Tokens {
        let Factors { prose, code, east_asian } = self.factors;
        if prose == code && code == east_asian {
            return scaled(Encoding::O200kBase.count(text).0.into(), prose);
        }
        let hundredths = pieces(text, PIECE).map(|piece| {
            let factor = match kind_of(piece) {
                Kind::Prose => prose,
                Kind::Code => code,
                Kind::EastAsian => east_asian,
            };
            Encoding::O200kBase.count_piece(piece).saturating_mul(factor)
        });
        scaled(hundredths.fold(0, u64::saturating_add), 1)
    }

    fn profile(&self) -> CounterProfile {
        CounterProfile { name: Cow::Borrowed(self.name), exact: false, framing: self.framing }
    }
}

/// Scales a count and rounds up: underestimating is worse than overestimating.
fn scaled(tokens: u64, factor: u64) -> Tokens {
    Tokens(u32::try_from(tokens.saturating_mul(factor).div_ceil(100)).unwrap_or(u32::MAX))
}

/// Classifies a piece by its bytes, not its characters.
fn kind_of(piece: &str) -> Kind {
    let (mut east_asian, mut signs) = (0, 0);
    for byte in piece.bytes() {
        match byte {
            // The first byte of kana, Chinese characters and Hangul; two more bytes follow.
            0xE3..=0xED => east_asian += 3,
            b'0'..=b'9'
            | b'{'
            | b'}'
            | b'['
            | b']'
            | b'('
            | b')'
            | b'<'
            | b'>'
            | b'='
            | b'"'
            | b'_'
            | b'/'
            | b'\\'
            | b'|'
            | b'&'
            | b'+'
            | b'*'
            | b'#'
            | b'$'
            | b'%'
            | b'@'
            | b':'
            | b';' => signs += 1,
            _ => {}
        }
    }
    // Prose has about one of these signs in fifty bytes, code and JSON one in five.
    if east_asian * 4 >= piece.len() {
        Kind::EastAsian
    } else if signs * 12 >= piece.len() {
        Kind::Code
    } else {
        Kind::Prose
    }
}
