//! Threads to try something on.

use contexture_history::{Limit, Seq};
use contexture_message::Message;
use contexture_session::{NewItem, SessionConfig, Thread};
use futures::executor::block_on;
use proptest::prelude::any;
use proptest::{collection, prop_assert_eq, proptest};

use crate::resuming::{Processes, said};
use crate::threads::run;

/// Everything that can be read of a thread.
fn read(thread: &Thread) -> String {
    let limits = [None, Some(Limit::Turns(2)), Some(Limit::Turns(30))];
    let views = limits.map(|limit| {
        let all = block_on(thread.all(limit)).unwrap();
        let client = block_on(thread.client(limit)).unwrap();
        let history = block_on(thread.history(limit)).unwrap();
        format!("{all:#?} {client:#?} {history:#?}")
    });
    let pages = [0, 3, 7].map(|seq| format!("{:#?}", block_on(thread.after(Seq(seq), 5)).unwrap()));
    format!(
        "{:#?} {:#?} {}{}",
        thread.get(),
        block_on(thread.view()).unwrap(),
        views.concat(),
        pages.concat()
    )
}

#[test]
fn writes_to_it_stay_private() {
    let processes = Processes::new(SessionConfig::default());
    let main = processes.main("a");
    run(&main, "ianuac");
    let before = read(&main);
    let scratch = main.scratch();
    assert_eq!(read(&scratch), before);
    run(&scratch, "cdfrua");
    block_on(scratch.scratch().add_message(Message::user("deeper"))).unwrap();
    assert_eq!(read(&main), before);
    assert_eq!(said(&scratch), ["u4", "a5"]);
    assert_eq!(block_on(scratch.fork(None, None)).unwrap_err().code(), "store_unavailable");
}

#[test]
fn keys_of_the_thread_are_free_in_it() {
    let processes = Processes::new(SessionConfig::default());
    let main = processes.main("a");
    let add = |thread: &Thread| block_on(thread.add_once("k", vec![NewItem::event("e", "x")])).unwrap();
    assert!(add(&main));
    let scratch = main.scratch();
    assert!(add(&scratch) && !add(&scratch));
    assert!(!add(&main));
}

proptest! {
    /// A thread and its scratch go on alike, also if the thread has grown since; read anew it is what it was live.
    #[test]
    fn it_continues_as_the_thread_would(
        before in collection::vec(any::<u8>(), 0..40),
        after in collection::vec(any::<u8>(), 0..20),
        window in 1..5_usize,
    ) {
        let script = |steps: &[u8]| -> String {
            steps.iter().map(|it| char::from(b"uaerimcfsdnp"[*it as usize % 12])).collect()
        };
        let processes = Processes::new(SessionConfig { history_window: window, ..SessionConfig::default() });
        let main = processes.main("a");
        run(&main, &script(&before));
        let (scratch, early) = (main.scratch(), main.scratch());
        let seen = read(&main);
        run(&main, &script(&after));
        prop_assert_eq!(read(&early), seen);
        run(&scratch, &script(&after));
        let timeless = |thread: &Thread| -> String {
            block_on(thread.refresh()).unwrap();
            read(thread).lines().filter(|it| !it.contains("00,")).collect()
        };
        prop_assert_eq!(timeless(&scratch), timeless(&main));
    }
}
