//! How a stream is cut into pieces, and how its lines end, changes nothing.

use std::path::Path;
use std::sync::OnceLock;

use contexture_mockmodel::Reply;
use contexture_model::{ClientConfig, Retries};
use contexture_wire::Dialect;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use proptest::test_runner::Config;
use tokio::runtime::Runtime;

use crate::dialects::{LOCAL, TOOLS};
use crate::{Heard, answered_by, config};

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap())
}

fn heard(dialect: Dialect, reply: Reply) -> Heard {
    let retries = Retries { max: 0, ..Retries::default() };
    let config = ClientConfig { retries, ..config() };
    runtime().block_on(async { answered_by(dialect, [reply], config).await.0 })
}

/// Our streams, and those of the crate with the dialects: `streams/DIALECT/NAME.sse`.
fn streams() -> impl Strategy<Value = (Dialect, String)> {
    let mut all: Vec<(Dialect, String)> =
        TOOLS.iter().chain(&LOCAL).map(|(dialect, it)| (*dialect, (*it).to_owned())).collect();
    for dialect in Dialect::ALL {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/streams").join(dialect.as_str());
        let files = std::fs::read_dir(folder).into_iter().flatten().map(|it| it.unwrap().path());
        let streams = files.filter(|it| it.extension().is_some_and(|it| it == "sse"));
        all.extend(streams.map(|it| (dialect, std::fs::read_to_string(it).unwrap())));
    }
    prop::sample::select(all)
}

fn line_ends() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("\n"), Just("\r\n"), Just("\r")]
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]

    #[test]
    fn pieces_and_line_ends_do_not_matter(
        (dialect, stream) in streams(),
        line_end in line_ends(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        has_mark in any::<bool>(),
        has_last_blank_line in any::<bool>(),
        until_closed in any::<bool>(),
    ) {
        let whole = heard(dialect, Reply::events(stream.as_str()));
        let mut bytes = if has_mark { "\u{feff}".to_owned() } else { String::new() };
        bytes += &stream.replace('\n', line_end);
        // Nonsense without its blank line may as well be cut sense.
        if !has_last_blank_line && whole.end.is_ok() {
            bytes.truncate(bytes.trim_end().len());
        }
        let cuts: Vec<usize> = cuts.iter().map(|it| it.index(bytes.len())).collect();
        let reply = Reply::events(bytes).cut_into(cuts);
        let reply = if until_closed { reply.until_closed() } else { reply };
        assert_eq!(heard(dialect, reply), whole);
    }
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]

    /// What is left of a stream is the beginning of the same answer, or all of it; never another one.
    #[test]
    fn a_stream_that_ends_anywhere_gives_no_other_answer(
        (dialect, stream) in streams(),
        place in any::<prop::sample::Index>(),
        until_closed in any::<bool>(),
    ) {
        let whole = heard(dialect, Reply::events(stream.as_str()));
        let rest = stream.as_bytes()[..place.index(stream.len())].to_vec();
        let reply = Reply::events(rest);
        let cut = heard(dialect, if until_closed { reply.until_closed() } else { reply });
        match (&cut.end, &whole.end) {
            (Ok(cut), Ok(whole)) => assert_eq!(cut.message, whole.message),
            (Ok(cut), Err(_)) => panic!("an answer where there is none: {cut:?}"),
            (Err(_), _) => assert!(whole.deltas.starts_with(&cut.deltas), "{cut:?}"),
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        (dialect, stream) in streams(),
        place in any::<prop::sample::Index>(),
        length in 0..40_usize,
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        kind in prop_oneof![Just("text/event-stream"), Just("application/json"), Just("")],
    ) {
        let mut broken = stream.into_bytes();
        let place = place.index(broken.len());
        let end = broken.len().min(place + length);
        broken.splice(place..end, bytes);
        let reply = Reply::status(200).header("content-type", kind).bytes(broken);
        heard(dialect, reply);
    }
}

#[test]
fn byte_by_byte() {
    for (dialect, stream) in TOOLS {
        let whole = heard(dialect, Reply::events(stream));
        assert_eq!(heard(dialect, Reply::events(stream).in_pieces_of(1)), whole);
    }
}
