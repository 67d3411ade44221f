//! Checks of streams.

use std::time::Duration;

use contexture_history::Timestamp;
use futures::future::join_all;

use super::{Fixture, OpenRecords, record, soon};
use crate::conformance::TestNames;
use crate::records::{StreamKey, Writes};
use crate::{Names as _, SessionId, SessionKey, StoreError, Tenant};

/// Numbers are 1, 2, 3, … in each stream, and reads return exactly what they are asked for.
pub async fn records_are_numbered(open: OpenRecords) {
    let fixture = Fixture::new(&open).await;
    let (stream, common) = (fixture.stream(), fixture.common());
    assert_eq!((fixture.extent(&stream).await, fixture.said(&stream).await.as_str()), ((0, 0), ""));
    assert_eq!(fixture.said_back(&stream, None, 9).await, "");
    let mixed = [(&stream, "a"), (&common, "x"), (&stream, "b"), (&stream, "c"), (&common, "y")];
    let records = mixed.iter().map(|(stream, data)| record(stream, 1, data)).collect();
    assert_eq!(fixture.write(Writes { records, ..Writes::default() }).await, [1, 1, 2, 3, 2]);
    assert_eq!(fixture.append(&stream, &[(2, "d")]).await, [4]);
    assert!(fixture.write(Writes::default()).await.is_empty(), "nothing is fine too");
    assert_eq!(fixture.said(&stream).await, "1:a 2:b 3:c 4:d");
    assert_eq!(fixture.said(&common).await, "1:x 2:y");
    assert_eq!((fixture.extent(&stream).await, fixture.extent(&common).await), ((0, 4), (0, 2)));

    assert_eq!(super::shown(&fixture.read(&stream, 1, 2).await), "2:b 3:c");
    assert_eq!(super::shown(&fixture.read(&stream, 3, 99).await), "4:d");
    for after in [4, 5, u64::MAX] {
        assert_eq!(fixture.read(&stream, after, 9).await, []);
    }
    assert_eq!(fixture.read(&stream, 0, 0).await, []);
    assert_eq!(fixture.said_back(&stream, None, 2).await, "4:d 3:c");
    assert_eq!(fixture.said_back(&stream, Some(3), 9).await, "2:b 1:a");
    assert_eq!(fixture.said_back(&stream, Some(u64::MAX), 1).await, "4:d");
    assert_eq!(fixture.said_back(&stream, Some(1), 9).await, "");
    assert_eq!(fixture.said_back(&stream, Some(0), 9).await, "");

    let large = "ä\0\"'\u{1F600}\n".repeat(20_000);
    let odd = ["", "\0", "'; DROP TABLE records; --", "{\"a\":\"\\u0000\"}", large.as_str()];
    fixture.append(&common, &odd.map(|it| (-5, it))).await;
    let found = fixture.read(&common, 2, 9).await;
    assert_eq!(found.iter().map(|it| it.data.as_str()).collect::<Vec<_>>(), odd);
    assert!(found.iter().all(|it| it.at == Timestamp(-5)));
    let many: Vec<(i64, String)> = (3..=1_002).map(|n| (n, format!("n{n}"))).collect();
    let many: Vec<(i64, &str)> = many.iter().map(|(at, data)| (*at, data.as_str())).collect();
    assert_eq!(fixture.append(&stream, &many).await, (5..=1_004).collect::<Vec<u64>>());
    assert_eq!(super::shown(&fixture.read(&stream, 1_002, 9).await), "1003:n1001 1004:n1002");
}

/// Streams whose names look alike have nothing in common.
pub async fn streams_are_kept_apart(open: OpenRecords) {
    let fixture = Fixture::new(&open).await;
    let name = TestNames.next();
    let mut streams = Vec::new();
    for tenant in ["a", "a b", "a'b", "A", "ä", "a:s"] {
        let tenant = Tenant::parse(format!("{name}{tenant}")).expect("a tenant");
        for session in ["s", "s:k", "s'k", "%", "S", "ß"] {
            let session = SessionId::parse(session).expect("a name");
            let key = SessionKey { tenant: tenant.clone(), session };
            fixture.create_session(&key).await;
            streams.extend(["", "k", ":k", "K", "'", "é"].map(|kind| {
                StreamKey::of_session(&key.tenant, &key.session, &format!("{}{kind}", fixture.kind))
            }));
        }
        streams.push(StreamKey::of_tenant(&tenant, &fixture.kind));
    }
    let said: Vec<String> = (0..streams.len()).map(|n| format!("r{n}")).collect();
    let records = streams.iter().zip(&said).map(|(stream, data)| record(stream, 1, data)).collect();
    let numbers = fixture.write(Writes { records, ..Writes::default() }).await;
    assert!(numbers.iter().all(|it| *it == 1), "{numbers:?}");
    for (stream, said) in streams.iter().zip(&said) {
        assert_eq!(fixture.said(stream).await, format!("1:{said}"), "{stream:?}");
    }
    let other = Tenant::parse(TestNames.next()).expect("a tenant");
    let forged = StreamKey { tenant: other, ..streams[0].clone() };
    assert_eq!((fixture.said(&forged).await.as_str(), fixture.extent(&forged).await), ("", (0, 0)));
    assert_eq!(fixture.append(&forged, &[(1, "x")]).await, [0], "that tenant has no such session");
    let long = StreamKey { kind: "k".repeat(201), ..streams[0].clone() };
    let refused =
        fixture.try_write(Writes { records: vec![record(&long, 1, "x")], ..Writes::default() }).await;
    assert!(matches!(refused, Err(StoreError::NameTooLong { .. })), "{refused:?}");
}

/// A stream is forgotten from its beginning only, and its numbers are never given again.
pub async fn old_records_are_forgotten(open: OpenRecords) {
    let fixture = Fixture::new(&open).await;
    let (stream, common) = (fixture.stream(), fixture.common());
    assert_eq!(fixture.prune(i64::MAX, 9).await, 0);
    fixture.append(&stream, &[(10, "a"), (20, "b"), (90, "c"), (5, "d"), (30, "e")]).await;
    fixture.append(&common, &[(40, "x")]).await;
    let other = StreamKey { kind: TestNames.next(), ..stream.clone() };
    fixture.append(&other, &[(1, "other")]).await;

    assert_eq!(fixture.prune(10, 99).await, 0, "what is as old as that stays");
    assert_eq!(fixture.prune(30, 99).await, 2, "what is behind a newer one stays");
    assert_eq!(
        (fixture.said(&stream).await.as_str(), fixture.extent(&stream).await),
        ("3:c 4:d 5:e", (2, 5))
    );
    assert_eq!(fixture.said_back(&stream, None, 9).await, "5:e 4:d 3:c");
    assert_eq!(super::shown(&fixture.read(&stream, 1, 1).await), "3:c");
    assert_eq!(fixture.prune(30, 99).await, 0);
    assert_eq!(fixture.prune(50, 99).await, 1, "the other stream of the kind");
    assert_eq!((fixture.said(&common).await.as_str(), fixture.extent(&common).await), ("", (1, 1)));

    let mut pruned = Vec::new();
    while pruned.last() != Some(&0) {
        pruned.push(fixture.prune(100, 1).await);
    }
    assert_eq!(pruned.iter().sum::<u64>(), 3, "a few at a time: {pruned:?}");
    assert_eq!((fixture.said(&stream).await.as_str(), fixture.extent(&stream).await), ("", (5, 5)));
    assert_eq!(fixture.append(&stream, &[(7, "f"), (8, "g")]).await, [6, 7]);
    assert_eq!((fixture.said(&stream).await.as_str(), fixture.extent(&stream).await), ("6:f 7:g", (5, 7)));
    assert_eq!(fixture.prune(8, 99).await, 1);
    assert_eq!((fixture.said(&stream).await.as_str(), fixture.extent(&stream).await), ("7:g", (6, 7)));
    assert_eq!(fixture.said(&other).await, "1:other");
}

/// A stream that is dropped is gone with all of it, in one commit with the rest of the write, and others stay.
pub async fn streams_are_dropped(open: OpenRecords) {
    let fixture = Fixture::new(&open).await;
    let (stream, common, key) = (fixture.stream(), fixture.common(), fixture.key("a"));
    let other = StreamKey { kind: format!("{}x", fixture.kind), ..stream.clone() };
    for it in [&stream, &common, &other] {
        fixture.append(it, &[(1, "a"), (2, "b"), (3, "c")]).await;
    }
    assert_eq!(fixture.prune(2, 1).await, 1);
    let drops = vec![common.clone(), stream.clone(), stream.clone()];
    let attempt = Writes { drops, requires: vec![key.clone()], ..Writes::default() };
    let refused = fixture.try_write(attempt.clone()).await;
    assert!(matches!(&refused, Err(StoreError::NotFound { what: "document", .. })), "{refused:?}");
    assert_eq!(fixture.extent(&stream).await.1, 3, "nothing is dropped if something is missing");

    fixture.put(&[super::document(&key, 1, "x")]).await;
    fixture.write(Writes { deletes: vec![key.clone()], ..attempt }).await;
    for it in [&stream, &common] {
        assert_eq!((fixture.said(it).await.as_str(), fixture.extent(it).await), ("", (0, 0)));
    }
    assert_eq!(fixture.texts(&[key]).await, ["-"]);
    assert_eq!(fixture.said(&other).await, "1:a 2:b 3:c");
    // What is not there is no trouble, and dropping comes last.
    let records = vec![record(&stream, 1, "x")];
    let drops = vec![stream.clone(), common.clone()];
    assert_eq!(fixture.write(Writes { records, drops, ..Writes::default() }).await, [1]);
    assert_eq!(fixture.said(&stream).await, "");
    assert_eq!(fixture.append(&stream, &[(9, "new")]).await, [1], "it begins anew");
    assert_eq!(fixture.prune(10, 9).await, 1);
}

/// Waiting ends when the stream grows, in any process, and immediately if it already has.
pub async fn growth_is_noticed(open: OpenRecords) {
    let fixture = Fixture::new(&open).await;
    let there = open().await;
    for stream in [fixture.stream(), fixture.common()] {
        for number in 0..3 {
            let waiting = fixture.open.records.grown(stream.clone(), number);
            let writing = async {
                tokio::time::sleep(Duration::from_millis(30)).await;
                let writer = if number == 1 { &fixture.open } else { &there };
                let records = vec![record(&stream, 1, "x")];
                writer.records.write(Writes { records, ..Writes::default() }).await.expect("a write");
            };
            let (noticed, ()) = soon(async { futures::join!(waiting, writing) }).await;
            noticed.expect("the store answers");
        }
        soon(fixture.open.records.grown(stream.clone(), 2)).await.expect("at once");
        soon(there.records.grown(stream.clone(), 0)).await.expect("at once");
        // An abandoned wait must not block anything.
        drop(fixture.open.records.grown(stream.clone(), 99));
        assert_eq!(fixture.append(&stream, &[(1, "y")]).await, [4]);
    }
}

/// Many writers in two processes: no gaps, no duplicate numbers, and a follower misses nothing.
pub async fn record_writers_lose_nothing(open: OpenRecords) {
    const WRITERS: u64 = 16;
    const ROUNDS: u64 = 12;
    const TOTAL: u64 = WRITERS * ROUNDS * 2;
    let fixture = Fixture::new(&open).await;
    let stores = [open().await, open().await];
    let (stream, common) = (fixture.stream(), fixture.common());
    let writer = |n: u64| {
        let records = std::sync::Arc::clone(&stores[usize::from(n.is_multiple_of(2))].records);
        // Half of them name the streams the other way round.
        let (one, two) = if n % 4 < 2 { (&stream, &common) } else { (&common, &stream) };
        let (one, two) = (one.clone(), two.clone());
        tokio::spawn(async move {
            let mut numbers = Vec::new();
            for round in 0..ROUNDS {
                let data = format!("{n}.{round}");
                let new = vec![record(&one, 1, &data), record(&two, 1, &data), record(&one, 1, &data)];
                let new = new.into_iter().chain([record(&two, 1, &data)]).collect();
                let given = records.write(Writes { records: new, ..Writes::default() }).await;
                numbers.push(given.expect("a write"));
            }
            numbers
        })
    };
    let follow = |stream: StreamKey, idx: usize| {
        let records = std::sync::Arc::clone(&stores[idx].records);
        tokio::spawn(async move {
            let mut seen = 0;
            while seen < TOTAL {
                records.grown(stream.clone(), seen).await.expect("the store answers");
                for it in records.read(stream.clone(), seen, 7).await.expect("the store answers") {
                    assert_eq!(it.number, seen + 1, "nothing is missed");
                    seen = it.number;
                }
            }
        })
    };
    let readers = [follow(stream.clone(), 0), follow(stream.clone(), 1), follow(common.clone(), 1)];
    let written = soon(join_all((0..WRITERS).map(writer))).await;
    for given in written.into_iter().flat_map(|it| it.expect("no writer fails")) {
        assert_eq!((given[2], given[3]), (given[0] + 1, given[1] + 1), "one write is one piece");
    }
    for reader in soon(join_all(readers)).await {
        reader.expect("no reader fails");
    }
    for stream in [stream, common] {
        assert_eq!(fixture.extent(&stream).await, (0, TOTAL));
        let numbers: Vec<u64> =
            fixture.read(&stream, 0, usize::MAX).await.iter().map(|it| it.number).collect();
        assert_eq!(numbers, (1..=TOTAL).collect::<Vec<u64>>());
    }
}
