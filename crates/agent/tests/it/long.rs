//! Long random conversations against a simulated provider, whose real window may be smaller than the configured one.
//!
//! What must hold after every turn: it did not fail for its size, the results of the newest round were readable, every
//! standing instruction was in every request, nothing was larger than the real window but what was refused first, and
//! there were at most three compactions.

mod check;
mod play;
mod provider;

use play::play;
use provider::{Mode, World};

/// The default for all worlds: an exact model, a true window, a summariser that copies what it is told to.
fn world(window: u32, seed: u64) -> World {
    World {
        seed,
        turns: 300,
        window,
        real: window,
        factor: 1.0,
        numbers: true,
        model: "test/gpt-4o",
        mode: Mode::Faithful,
        port: false,
    }
}

/// A provider whose window has 60 % of what is configured.
fn smaller(window: u32, seed: u64) -> World {
    World { real: window * 60 / 100, ..world(window, seed) }
}

#[tokio::test(start_paused = true)]
async fn a_window_that_holds_everything() {
    for seed in 0..3 {
        play(World { turns: 20, ..world(2_000_000, 1_000 + seed) }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_small_window_with_a_faithful_summariser() {
    play(world(4_096, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_small_window_that_is_smaller_than_it_says() {
    play(World { turns: 150, ..smaller(4_096, 2) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_small_window_with_summarisers_of_every_kind() {
    play(World { turns: 150, mode: Mode::Any, ..world(4_096, 3) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_small_window_that_is_smaller_and_summarisers_of_every_kind() {
    play(World { mode: Mode::Any, numbers: false, ..smaller(4_096, 4) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_middle_window_with_a_faithful_summariser() {
    play(World { turns: 150, ..world(8_192, 5) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_middle_window_that_is_smaller_than_it_says() {
    play(smaller(8_192, 6)).await;
}

#[tokio::test(start_paused = true)]
async fn a_middle_window_that_refuses_without_numbers() {
    play(World { turns: 150, numbers: false, ..smaller(8_192, 7) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_middle_window_with_summarisers_of_every_kind() {
    play(World { mode: Mode::Any, ..world(8_192, 8) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_middle_window_that_is_smaller_and_summarisers_of_every_kind() {
    play(World { turns: 150, mode: Mode::Any, ..smaller(8_192, 9) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_large_window_with_summarisers_of_every_kind() {
    play(World { turns: 120, mode: Mode::Any, ..world(32_768, 10) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_large_window_that_is_smaller_and_summarisers_of_every_kind() {
    play(World { mode: Mode::Any, ..smaller(32_768, 11) }).await;
}

/// Each way in which a summariser is bad, for some turns.
async fn one_kind_of_summariser(mode: Mode, seed: u64) {
    for (number, port) in (0..).zip([false, true]) {
        play(World { turns: 70, mode, port, ..world(8_192, seed + number) }).await;
        play(World { turns: 50, mode, port, ..smaller(4_096, seed + 10 + number) }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_summariser_that_fails() {
    one_kind_of_summariser(Mode::Failing, 100).await;
}

#[tokio::test(start_paused = true)]
async fn a_summariser_that_says_nothing() {
    one_kind_of_summariser(Mode::Empty, 200).await;
}

#[tokio::test(start_paused = true)]
async fn a_summariser_that_says_more_than_it_read() {
    one_kind_of_summariser(Mode::Longer, 300).await;
}

#[tokio::test(start_paused = true)]
async fn a_summariser_that_leaves_everything_out() {
    one_kind_of_summariser(Mode::Omitting, 400).await;
}

#[tokio::test(start_paused = true)]
async fn a_summariser_that_is_too_slow() {
    one_kind_of_summariser(Mode::Slow, 500).await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_counts_more_tokens() {
    play(World { turns: 100, factor: 1.3, mode: Mode::Any, ..world(8_192, 600) }).await;
    play(World { turns: 100, factor: 1.3, mode: Mode::Any, ..world(4_096, 601) }).await;
    play(World { turns: 60, factor: 1.3, mode: Mode::Any, ..smaller(32_768, 602) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_counts_fewer_tokens() {
    play(World { turns: 100, factor: 0.8, mode: Mode::Any, ..smaller(8_192, 700) }).await;
    play(World { turns: 60, factor: 0.8, mode: Mode::Any, ..world(4_096, 701) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_model_whose_tokens_are_estimated() {
    let model = "test/model";
    play(World { turns: 100, model, mode: Mode::Any, ..world(8_192, 800) }).await;
    play(World { turns: 100, model, mode: Mode::Any, ..smaller(4_096, 801) }).await;
    play(World { turns: 60, model, factor: 1.3, ..smaller(8_192, 802) }).await;
}

#[tokio::test(start_paused = true)]
async fn many_short_conversations() {
    for seed in 900..924 {
        let window = [4_096, 8_192, 32_768][usize::try_from(seed % 3).unwrap()];
        let world = if seed % 2 == 0 { world(window, seed) } else { smaller(window, seed) };
        play(World { turns: 12, mode: Mode::Any, numbers: seed % 4 < 2, ..world }).await;
    }
}
