//! Erases what was forgotten from the logs and journals of the sessions in which a memory was shown.

use contexture_history::{Item, Seq, TurnStatus};
use contexture_session::{
    LogHead, LogKind, LogList, SessionId, Span, State, StoreError, ThreadKey, rewrite_thread,
};

use super::error::MemoryError;
use super::scrub::{LogScrub, Scrub, turns_in};
use super::space::MemorySpace;
use super::turn_reader::TurnReader;

/// So many items are read at a time.
const ITEMS: usize = 256;
/// So many logs are listed at a time.
const LOGS: usize = 256;

/// How many copies a scrub found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scrubbed {
    /// Items of threads and runs.
    pub(crate) items: usize,
    /// Records of journals.
    pub(crate) passes: usize,
    /// Whether a turn is running that may still write some.
    pub(crate) is_running: bool,
}

/// What happens to copies.
#[derive(Clone, Copy)]
enum Copies {
    Counted,
    Rewritten,
}

impl MemorySpace {
    /// Scrubs the sessions in which this memory was shown or captured. Those of other memories are not for it to change,
    /// whatever the scrub names.
    pub(crate) async fn scrub(&self, scrub: &Scrub) -> Result<Scrubbed, MemoryError> {
        if !scrub.is_empty() {
            self.memories().expect(self.tenant(), scrub);
        }
        self.copies(scrub, Copies::Rewritten).await
    }

    /// Counts what a scrub would change.
    pub(crate) async fn scrubbable(&self, scrub: &Scrub) -> Result<Scrubbed, MemoryError> {
        self.copies(scrub, Copies::Counted).await
    }

    async fn copies(&self, scrub: &Scrub, copies: Copies) -> Result<Scrubbed, MemoryError> {
        let mut total = Scrubbed::default();
        if scrub.is_empty() {
            return Ok(total);
        }
        let needles = scrub.needles();
        for session in self.sessions().await? {
            let logs = self.logs_of(&session).await?;
            let turns = turns_in(scrub, &logs);
            for head in &logs {
                let work =
                    LogScrub { scrub, needles: &needles, turns: turns.get(&head.info.thread.to_string()) };
                self.scrub_log(head, (&work, copies), &mut total).await?;
            }
        }
        Ok(total)
    }

    async fn logs_of(&self, session: &SessionId) -> Result<Vec<LogHead>, MemoryError> {
        let mut logs: Vec<LogHead> = Vec::new();
        for kind in [LogKind::Main, LogKind::Isolated, LogKind::Run, LogKind::Journal] {
            let mut after = None;
            loop {
                let (tenant, session) = (Some(self.tenant().clone()), Some(session.clone()));
                let page = self.ports().log.logs(LogList { kind, tenant, session, after, max: LOGS }).await?;
                let is_last = page.len() < LOGS;
                after = page.last().map(LogHead::key);
                logs.extend(page);
                if is_last {
                    break;
                }
            }
        }
        Ok(logs)
    }

    async fn scrub_log(
        &self,
        head: &LogHead,
        (work, copies): (&LogScrub<'_>, Copies),
        total: &mut Scrubbed,
    ) -> Result<(), MemoryError> {
        let key = head.key();
        if head.info.kind.is_thread() {
            let open = head.state::<State>()?.open;
            total.is_running |= open.is_some_and(|it| it.status == TurnStatus::InFlight);
        }
        let (mut after, mut reader) = (Seq(0), TurnReader::default());
        loop {
            let items = match self.read_log(&key, after).await {
                // It was deleted meanwhile.
                Err(MemoryError::Store(StoreError::NotFound { .. })) => return Ok(()),
                items => items?,
            };
            let Some(last) = items.last().map(|it| it.seq) else { return Ok(()) };
            let mut scrubbed = |it: Item| {
                // The turns of another user are not for this memory to empty.
                let is_own = reader.read(self.namespace(), &it).is_some();
                work.scrubbed(head, it, is_own)
            };
            let changed: Vec<Item> = items.into_iter().filter_map(&mut scrubbed).collect();
            if !changed.is_empty() {
                let store = &*self.ports().log;
                match head.info.kind {
                    LogKind::Journal => total.passes += changed.len(),
                    _ => total.items += changed.len(),
                }
                match (copies, head.info.kind.is_thread()) {
                    (Copies::Counted, _) => {}
                    (Copies::Rewritten, true) => rewrite_thread(store, &key, changed, self.now()).await?,
                    (Copies::Rewritten, false) => store.rewrite(key.clone(), changed).await?,
                }
            }
            after = last;
        }
    }

    async fn read_log(&self, key: &ThreadKey, after: Seq) -> Result<Vec<Item>, MemoryError> {
        let span = Span::After { seq: after, max: ITEMS };
        Ok(self.ports().log.read(key.clone(), span).await?)
    }
}
