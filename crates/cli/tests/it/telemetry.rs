//! Spans to a collector and log lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread;

use contexture_wire::Dialect;

use crate::served::{Served, says};

/// A collector that takes one request: returns its address, and what it got.
fn collector() -> (String, thread::JoinHandle<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let got = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("somebody calls");
        let mut reader = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        while reader.read_line(&mut head).expect("it is HTTP") > 2 {
            let line = head.lines().last().unwrap_or_default().to_lowercase();
            length = line.strip_prefix("content-length: ").and_then(|it| it.parse().ok()).unwrap_or(length);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the body is whole");
        reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("it listens");
        (head, body)
    });
    (url, got)
}

fn holds(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|it| it == text.as_bytes())
}

#[test]
fn spans_go_to_a_collector_without_what_is_said() {
    for record_content in [false, true] {
        let served = Served::new(Dialect::Openai, [says(Dialect::Openai, "A quiet answer.")]);
        let (url, got) = collector();
        let record = record_content.to_string();
        let variables = [
            ("CONTEXTURE_TELEMETRY_OTLP_ENDPOINT", &*url),
            ("CONTEXTURE_TELEMETRY_RECORD_CONTENT", &*record),
        ];
        let run = served.folder.run_with(&["run", "p", "--user", "A loud question."], "", &variables);
        assert_eq!(run.shown(), "A quiet answer.\n[exit 0]");
        let (head, body) = got.join().expect("spans arrive");
        assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
        for text in ["gen_ai.request.model", "m-1", "invoke_agent p", "chat m-1"] {
            assert!(holds(&body, text), "{text}: {}", String::from_utf8_lossy(&body));
        }
        assert_eq!(holds(&body, "A loud question."), record_content);
        assert_eq!(holds(&body, "A quiet answer."), record_content);
    }
}

#[test]
fn a_collector_that_is_not_there_is_warned_about() {
    let served = Served::new(Dialect::Openai, [says(Dialect::Openai, "Yes.")]);
    let variables = [("CONTEXTURE_TELEMETRY_OTLP_ENDPOINT", "http://127.0.0.1:9")];
    let run = served.folder.run_with(&["run", "p", "--user", "Is it?"], "", &variables);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "Yes.\n"));
    assert!(run.stderr.contains("warning: cannot send spans"), "{}", run.stderr);
}

#[test]
fn log_lines_go_to_standard_error() {
    let served = Served::new(Dialect::Openai, [says(Dialect::Openai, "Yes.")]);
    let run = |filter: &str| {
        let variables = [("CONTEXTURE_TELEMETRY_LOG", filter)];
        served.folder.run_with(&["run", "p", "--user", "A loud question."], "", &variables)
    };
    let wrong = run("contexture=loud");
    assert!(wrong.code == Some(2) && wrong.stderr.contains("invalid filter"), "{}", wrong.shown());
    let logged = run("contexture=info");
    assert_eq!(logged.stdout, "Yes.\n");
    assert!(logged.stderr.contains("gen_ai.request.model"), "{}", logged.stderr);
    assert!(
        !logged.stderr.contains("A loud question.") && !logged.stderr.contains('\u{1b}'),
        "{}",
        logged.stderr
    );
}

#[test]
fn the_collector_of_the_environment_is_used_unless_the_project_names_one() {
    let served = Served::new(Dialect::Openai, [says(Dialect::Openai, "Yes."), says(Dialect::Openai, "Yes.")]);
    let (url, got) = collector();
    let run =
        |variables: &[(&str, &str)]| served.folder.run_with(&["run", "p", "--user", "Is it?"], "", variables);
    assert_eq!(run(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]).shown(), "Yes.\n[exit 0]");
    let (head, body) = got.join().expect("spans arrive");
    assert!(head.starts_with("POST /v1/traces HTTP/1.1") && holds(&body, "invoke_agent p"), "{head}");

    let (own, got) = collector();
    let both = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
        ("CONTEXTURE_TELEMETRY_OTLP_ENDPOINT", &*own),
    ];
    assert_eq!(run(&both).shown(), "Yes.\n[exit 0]");
    assert!(holds(&got.join().expect("spans arrive").1, "invoke_agent p"));
}
