//! Many do everything at once to the same few runs: begin them, answer, stop, drive and forget them, and delete their sessions.

use contexture_agent::CancellationToken;
use contexture_flow::{Flow, RunError, RunId, RunList, RunStart};
use contexture_history::Timestamp;
use contexture_session::{SessionError, SessionId, StoreError, Time};
use futures::future::join_all;
use serde_json::json;

use crate::forget::{Place, ask};
use crate::scene::Scene;

const WORKERS: u64 = 6;
const ROUNDS: u64 = 60;

/// Says which number comes next, the same in every run of a test.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// One of many.
struct Worker {
    scene: Scene,
    flow: Flow,
    now: Timestamp,
    dice: Dice,
}

impl Worker {
    async fn work(mut self) {
        for _ in 0..ROUNDS {
            if let Err(err) = self.act().await {
                assert!(is_expected(&err), "{err:?}");
            }
        }
    }

    async fn act(&mut self) -> Result<(), RunError> {
        let session = SessionId::parse(format!("s{}", self.dice.roll(2)))?;
        let runtime = self.scene.runtime.clone();
        match self.dice.roll(12) {
            0..4 => {
                let key = Some(format!("k{}", self.dice.roll(2)));
                let start = RunStart { session: Some(session), input: json!({}), key, user: None };
                let run = runtime.start(&self.flow, start).await?;
                self.drive(&run).await?;
            }
            4..7 => {
                let Some(run) = self.some().await? else { return Ok(()) };
                for wait in runtime.info(&run).await?.waits {
                    runtime.answer(&run, &wait.id, json!("x")).await?;
                }
                self.drive(&run).await?;
            }
            7..9 => {
                let Some(run) = self.some().await? else { return Ok(()) };
                runtime.cancel(&run).await?;
                self.drive(&run).await?;
            }
            9..11 => _ = runtime.forget(Timestamp(self.now.0 + 1)).await?,
            _ => _ = self.scene.sessions.delete(&session).await?,
        }
        Ok(())
    }

    /// Returns some run that there is.
    async fn some(&mut self) -> Result<Option<RunId>, RunError> {
        let list = self.scene.runtime.list(&RunList { max: 100, ..RunList::default() }).await?;
        assert!(list.damaged.is_empty(), "{:?}", list.damaged);
        let which = usize::try_from(self.dice.roll(100)).unwrap();
        Ok((!list.runs.is_empty()).then(|| list.runs[which % list.runs.len()].run.clone()))
    }

    async fn drive(&self, run: &RunId) -> Result<(), RunError> {
        self.scene.runtime.drive(run, CancellationToken::new()).await.map(|_| ())
    }
}

/// Whether somebody else was faster.
fn is_expected(err: &RunError) -> bool {
    use RunError::{Answered, Driven, NoSuchWait, NotFound, Over, Session, Store};
    matches!(err, NotFound { .. } | NoSuchWait { .. } | Answered { .. } | Over { .. } | Driven { .. })
        || matches!(
            err,
            Store(StoreError::NotFound { .. }) | Session(SessionError::Store(StoreError::NotFound { .. }))
        )
}

pub(crate) async fn crowded(place: Place) {
    let now = place.dial.now();
    let worker = |n: u64| {
        let scene = place.another();
        let flow = scene.flow(ask());
        tokio::spawn(Worker { scene, flow, now, dice: Dice(n) }.work())
    };
    for worked in join_all((0..WORKERS).map(worker)).await {
        worked.unwrap();
    }
    // What is left can be brought to its end and forgotten, and then nothing is left.
    let runtime = &place.scene.runtime;
    place.scene.flow(ask());
    place.dial.pass(1);
    for info in runtime.list(&RunList { max: 100, ..RunList::default() }).await.unwrap().runs {
        runtime.cancel(&info.run).await.unwrap();
        assert!(place.scene.drive(&info.run).await.status.is_over());
    }
    for _ in 0..2 {
        place.dial.pass(1000);
        place.forget(1).await;
    }
    assert_eq!(place.holds().await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_in_memory_leaves_nothing_behind() {
    crowded(Place::memory()).await;
}
