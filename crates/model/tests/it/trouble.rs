//! What breaks on the way: each breakage has its name, and what had arrived is kept.

use std::time::Duration;

use contexture_message::{Delta, Message};
use contexture_mockmodel::{MockModel, Reply};
use contexture_model::{ClientConfig, Limits, Model, ModelErrorKind, ModelProvider, Retries, Timeouts};
use contexture_wire::Dialect;
use futures::StreamExt;

use crate::{answered, answered_by, asked, call, client_with, config, good, hear, provider};

/// How long a test waits for what must happen.
const LIMIT: Duration = Duration::from_secs(60);
/// Longer than any test.
const HOUR: Duration = Duration::from_secs(3600);

/// Waits as long as anything may take on a busy machine, and no longer.
fn impatient() -> ClientConfig {
    let second = Duration::from_secs(1);
    let timeouts = Timeouts { first_byte: second, idle: second, ..Timeouts::default() };
    let retries = Retries { max: 0, ..Retries::default() };
    ClientConfig { timeouts, retries, ..config() }
}

#[tokio::test]
async fn a_cut_after_the_first_piece_is_not_tried_again() {
    for dialect in Dialect::ALL {
        let whole = good(dialect);
        let place = whole.place_after("answer");
        // Byte by byte, so that the client has read what came before the cut.
        let cut = whole.in_pieces_of(50).every(Duration::from_millis(1)).then_cut(place);
        let (heard, n_requests) = answered(dialect, [cut, good(dialect)]).await;
        assert_eq!((heard.error().kind(), n_requests), (ModelErrorKind::Disconnected, 1), "{dialect:?}");
        assert_eq!(heard.text(), "The ", "{dialect:?}");
        assert_eq!(heard.error().partial(), Some(&Message::assistant("The ")), "{dialect:?}");
    }
}

#[tokio::test]
async fn an_answer_without_its_end_is_cut() {
    for dialect in Dialect::ALL {
        let pieces = [Delta::Text("The ".to_owned()), Delta::Text("answer".to_owned())];
        for reply in [Reply::deltas(dialect, &pieces), Reply::deltas(dialect, &pieces).until_closed()] {
            let (heard, n_requests) = answered(dialect, [reply]).await;
            assert_eq!((heard.error().kind(), n_requests), (ModelErrorKind::Disconnected, 1), "{dialect:?}");
            assert_eq!(heard.error().partial(), Some(&Message::assistant("The answer")), "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn half_an_event_at_the_end_is_cut_too() {
    for dialect in Dialect::ALL {
        let whole = good(dialect);
        let body = whole.body()[..whole.place_after("answer")].to_vec();
        let (heard, _) = answered(dialect, [Reply::events(body).until_closed()]).await;
        assert_eq!(heard.error().kind(), ModelErrorKind::Disconnected, "{dialect:?}");
        assert_eq!(heard.error().partial(), Some(&Message::assistant("The ")), "{dialect:?}");
    }
}

#[tokio::test]
async fn nonsense_in_the_stream_is_malformed() {
    for dialect in Dialect::ALL {
        let whole = good(dialect);
        let text = String::from_utf8(whole.body().to_vec()).unwrap();
        // The second piece loses its JSON.
        let broken = text.replacen("answer ", "answer \u{1}\"{{", 1);
        let (heard, n_requests) = answered(dialect, [Reply::events(broken), good(dialect)]).await;
        assert_eq!((heard.error().kind(), n_requests), (ModelErrorKind::Malformed, 1), "{dialect:?}");
        assert_eq!(heard.error().partial(), Some(&Message::assistant("The ")), "{dialect:?}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_malformed() {
    let (heard, _) =
        answered(Dialect::Openai, [Reply::events(b"data: \xff\xfe\n\ndata: x\n\n".to_vec())]).await;
    assert_eq!(heard.error().kind(), ModelErrorKind::Malformed);
}

#[tokio::test]
async fn a_web_page_is_not_an_answer() {
    let page = Reply::status(200).header("content-type", "text/html; charset=utf-8").text("<html>Hi</html>");
    let (heard, n_requests) = answered(Dialect::Openai, [page]).await;
    assert_eq!((heard.error().kind(), n_requests), (ModelErrorKind::Malformed, 1));
    assert!(heard.error().to_string().contains("base address"), "{}", heard.error());
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = MockModel::start([good(Dialect::Openai)]).await;
    let moved = Reply::status(307).header("location", format!("{}/v1?key=k", elsewhere.url()));
    let (heard, n_requests) = answered(Dialect::Openai, [moved]).await;
    assert_eq!((heard.error().kind(), n_requests), (ModelErrorKind::Invalid, 1));
    assert!(heard.error().to_string().contains(elsewhere.url()), "{}", heard.error());
    assert!(elsewhere.received().is_empty());
}

#[tokio::test]
async fn silence_is_not_waited_out() {
    let dialect = Dialect::Anthropic;
    let place = good(dialect).place_after("answer");
    let cases = [
        (Reply::mute(), ""),
        (good(dialect).then_silence(0), ""),
        (good(dialect).in_pieces_of(40).then_silence(place), "The "),
        (good(dialect).after(HOUR), ""),
    ];
    for (reply, text) in cases {
        let heard = answered_by(dialect, [reply], impatient());
        let (heard, _) = tokio::time::timeout(LIMIT, heard).await.unwrap();
        assert_eq!((heard.error().kind(), heard.text().as_str()), (ModelErrorKind::TimedOut, text));
    }
}

#[tokio::test]
async fn a_slow_answer_is_not_silence() {
    // Many short waits, longer together than any silence may be: a busy machine makes none of them that long.
    let slow = good(Dialect::Openai).in_pieces_of(10).every(Duration::from_millis(100));
    let mut config = impatient();
    (config.timeouts.first_byte, config.timeouts.idle) = (LIMIT, Duration::from_secs(3));
    let (heard, _) = answered_by(Dialect::Openai, [slow], config).await;
    assert_eq!(heard.text(), "The answer is 42.");
}

#[tokio::test]
async fn a_model_may_think_before_it_begins() {
    let mut config = impatient();
    config.timeouts.first_byte = LIMIT;
    // The first event says nothing yet; what follows takes longer than the pieces of an answer may.
    let dialect = Dialect::Anthropic;
    let first = good(dialect).place_after("\n\n");
    let thinking = good(dialect).cut_into([first]).every(Duration::from_millis(2500));
    let (heard, n_requests) = answered_by(dialect, [thinking], config).await;
    assert_eq!((heard.text().as_str(), n_requests), ("The answer is 42.", 1));
}

#[tokio::test]
async fn a_connection_that_is_never_made_is_not_waited_for() {
    // Nobody accepts, and there is room for one connection to wait: the others hang.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let waiting = (0..4)
        .map(|_| tokio::time::timeout(Duration::from_millis(50), tokio::net::TcpStream::connect(address)));
    let _waiting = futures::future::join_all(waiting).await;
    let mut config = impatient();
    config.timeouts = Timeouts { connect: Duration::from_millis(150), ..Timeouts::default() };
    let provider = ModelProvider::new(Dialect::Openai).at(format!("http://{address}/v1"));
    let heard = hear(&client_with(provider, config), call("hello")).await;
    assert_eq!(heard.error().kind(), ModelErrorKind::TimedOut);
}

#[tokio::test]
async fn a_call_may_take_only_so_long() {
    let mut config = impatient();
    (config.timeouts.first_byte, config.timeouts.idle) = (LIMIT, LIMIT);
    config.timeouts.total = Some(Duration::from_millis(200));
    let slow = good(Dialect::Openai).in_pieces_of(10).every(Duration::from_millis(30));
    let (heard, _) = answered_by(Dialect::Openai, [slow], config).await;
    assert_eq!(heard.error().kind(), ModelErrorKind::TimedOut);
    assert!(heard.error().to_string().contains("200ms"), "{}", heard.error());
}

#[tokio::test]
async fn timeouts_can_be_disabled() {
    let [connect, first_byte, idle] = [Duration::MAX; 3];
    let timeouts = Timeouts { connect, first_byte, idle, total: Some(Duration::MAX) };
    let (heard, _) =
        answered_by(Dialect::Openai, [good(Dialect::Openai)], ClientConfig { timeouts, ..config() }).await;
    assert_eq!(heard.text(), "The answer is 42.");
}

#[tokio::test]
async fn a_refused_connection_is_an_error() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let provider = ModelProvider::new(Dialect::Openai).at(format!("http://127.0.0.1:{port}/v1"));
    let heard = hear(&client_with(provider, config()), call("hello")).await;
    assert_eq!(heard.error().kind(), ModelErrorKind::Disconnected);
    assert!(heard.error().to_string().contains("onnection refused"), "{}", heard.error());
}

#[tokio::test]
async fn there_is_a_limit_to_everything() {
    let limits = Limits { answer: 10_000, frame: 2_000, error: 100 };
    let config = || ClientConfig { limits, ..config() };
    let long = Reply::events(vec![b'x'; 5_000]).in_pieces_of(500);
    let (heard, n_requests) = answered_by(Dialect::Openai, [long], config()).await;
    assert_eq!((heard.error().kind(), n_requests), (ModelErrorKind::TooLarge, 1));
    assert!(heard.error().to_string().contains("2000 bytes"), "{}", heard.error());

    let comments = ": nothing\n\ndata: {\"choices\":[]}\n\n".repeat(2_000);
    let (heard, _) = answered_by(Dialect::Openai, [Reply::events(comments)], config()).await;
    assert_eq!(heard.error().kind(), ModelErrorKind::TooLarge);
    assert!(heard.error().to_string().contains("10000 bytes"), "{}", heard.error());

    let json = Reply::status(200).header("content-type", "application/json").text("[0".repeat(20_000));
    let (heard, _) = answered_by(Dialect::Openai, [json], config()).await;
    assert_eq!(heard.error().kind(), ModelErrorKind::TooLarge);

    let (heard, _) =
        answered_by(Dialect::Openai, [Reply::status(400).text("x".repeat(1_000_000))], config()).await;
    assert_eq!(heard.error().kind(), ModelErrorKind::Invalid);
    assert!(heard.error().to_string().len() < 300);
}

#[tokio::test]
async fn a_dropped_stream_closes_the_connection() {
    let dialect = Dialect::Openai;
    let place = good(dialect).place_after("answer");
    let server = MockModel::start([good(dialect).in_pieces_of(20).then_silence(place)]).await;
    let client = client_with(provider(dialect, &server), config());
    let mut deltas = client.stream(call("hello"));
    assert_eq!(deltas.next().await, Some(Ok(Delta::Text("The ".to_owned()))));
    drop(deltas);
    tokio::time::timeout(LIMIT, server.client_gone()).await.unwrap();
}

#[tokio::test]
async fn nothing_is_sent_before_the_stream_is_polled() {
    let server = MockModel::start([good(Dialect::Openai)]).await;
    let client = client_with(provider(Dialect::Openai, &server), config());
    let deltas = client.stream(call("hello"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(deltas);
    assert_eq!((server.received().len(), server.n_connections()), (0, 0));
}

#[tokio::test]
async fn a_connection_serves_many_calls() {
    for dialect in Dialect::ALL {
        let server = MockModel::start((0..5).map(|_| good(dialect))).await;
        let client = client_with(provider(dialect, &server), config());
        for _ in 0..5 {
            // Whoever has the answer need not ask for more.
            let mut deltas = client.stream(call("hello"));
            while !matches!(deltas.next().await, Some(Ok(Delta::Done(_)))) {}
        }
        assert_eq!((server.received().len(), server.n_connections()), (5, 1), "{dialect:?}");
    }
}

#[tokio::test]
async fn many_calls_at_once() {
    let server = MockModel::start((0..50).map(|_| good(Dialect::Openai).in_pieces_of(20))).await;
    let client = client_with(provider(Dialect::Openai, &server), config());
    let calls = (0..50).map(|_| hear(&client, call("hello")));
    let heard = futures::future::join_all(calls).await;
    assert!(heard.iter().all(|it| it.text() == "The answer is 42."));
}

#[tokio::test]
async fn the_server_of_the_tests_says_when_its_script_is_over() {
    let server = MockModel::start([]).await;
    let heard = asked(Dialect::Openai, &server).await;
    assert_eq!(heard.error().status(), Some(410));
}
