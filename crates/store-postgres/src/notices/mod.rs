//! Notifications between the processes that use a database.
//!
//! One connection of the store listens, and announces what this store has appended. Announcements are not part of the
//! appends: PostgreSQL commits only one transaction with a `NOTIFY` at a time, so they would wait for each other's
//! disk syncs. They follow right after, batched if there are many. If one is lost because its writer died in between,
//! polling makes up for it.

mod outgoing;

use std::future::ready;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use contexture_session::{SessionKey, StoreError};
use futures::future::{Either, select};
use futures::stream::{TryStreamExt, poll_fn};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Client, Error};

use self::outgoing::Outgoing;
use crate::PostgresConfig;
use crate::database::Database;
use crate::waiters::{Topic, Waiters};

const ANNOUNCE: &str = "SELECT pg_notify($1, it) FROM unnest($2::text[]) AS it";

/// Sends and receives notifications.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    waiters: Waiters,
    outgoing: Mutex<Outgoing>,
    has_outgoing: Notify,
    is_listening: AtomicBool,
}

impl Notices {
    /// Tells everyone that something happened in a session.
    pub(crate) fn announce(&self, session: &SessionKey) {
        let topic = Topic::new(session);
        self.waiters.wake(&topic);
        self.lock().add(topic);
        self.has_outgoing.notify_one();
    }

    /// Waits until something happened in a session, unless `has_newer` finds newer items than its caller knows.
    pub(crate) async fn feed_changed(
        &self,
        config: &PostgresConfig,
        session: &SessionKey,
        has_newer: impl Future<Output = Result<Option<bool>, StoreError>>,
    ) -> Result<(), StoreError> {
        let waiter = self.waiters.wait(Topic::new(session));
        // Before looking: what is appended in between is not missed.
        let woken = waiter.woken();
        if !has_newer.await?.ok_or_else(|| StoreError::no_session(&session.session))? {
            // Without a wake it is looked again after a while.
            let is_listening = self.is_listening.load(Ordering::Acquire);
            let patience = if is_listening { config.recheck } else { config.poll };
            select(pin!(woken), pin!(sleep(patience))).await;
        }
        Ok(())
    }

    /// Listens and announces until the store is dropped.
    pub(crate) async fn serve(&self, database: &Database) {
        loop {
            // A lost connection is nothing to report: readers look by themselves until there is another one.
            let _ = self.serve_once(database).await;
            self.is_listening.store(false, Ordering::Release);
            self.waiters.wake_all();
            sleep(database.config.poll).await;
        }
    }

    async fn serve_once(&self, database: &Database) -> Result<(), Error> {
        let (client, mut connection) = database.postgres.connect(database.tls.clone()).await?;
        let messages = poll_fn(move |cx| connection.poll_message(cx));
        let incoming = messages.try_for_each(|message| {
            if let AsyncMessage::Notification(notification) = message {
                self.waiters.wake(&Topic(notification.payload().to_owned()));
            }
            ready(Ok(()))
        });
        let outgoing = self.announce_all(&client, database);
        match select(pin!(incoming), pin!(outgoing)).await {
            Either::Left((outcome, _)) | Either::Right((outcome, _)) => outcome,
        }
    }

    async fn announce_all(&self, client: &Client, database: &Database) -> Result<(), Error> {
        let channel = &database.config.schema;
        // An announcement need not survive a crash, so it waits for no disk.
        client.batch_execute(&format!("SET synchronous_commit = off; LISTEN {channel}")).await?;
        let statement = client.prepare(ANNOUNCE).await?;
        self.is_listening.store(true, Ordering::Release);
        // Announcements sent while this connection was down are found by polling.
        self.waiters.wake_all();
        loop {
            let topics = self.lock().send();
            if topics.is_empty() {
                self.has_outgoing.notified().await;
            } else {
                client.execute(&statement, &[channel, &topics]).await?;
                self.lock().arrived();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
