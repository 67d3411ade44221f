//! The jobs: their names, their data, and who runs them.

pub(crate) mod answer;
pub(crate) mod api;
pub(crate) mod floors;
pub(crate) mod store;
mod turn;
mod window;

use std::error::Error;
use std::path::Path;

use crate::data::{Composition, Conversation, SessionData, StorePlace, Tree, read};
use crate::{BenchError, Runner, sample};

/// One operation of a user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Job {
    /// Count every message of a conversation once, nothing remembered.
    Tokenize,
    /// Count, drop and render contexts under a budget, nothing remembered.
    Compose,
    /// The same, the counts remembered.
    ComposeWarm,
    /// Render a tree as tagged text, escaped.
    RenderXml,
    /// Choose the newest turns that fit, no count known.
    TrimCold,
    /// The same, the counts known.
    TrimWarm,
    /// Take the newest 64 messages, calls with their results.
    WindowCount,
    /// Make four more messages of a session durable.
    StoreAppend,
    /// Make four more messages of many sessions durable, at once.
    StoreAppendMany,
    /// Read a session back.
    StoreLoad,
    /// Read the newest 64 messages of a session.
    StoreTail,
    /// Everything around a model call.
    Turn,
}

/// Who does it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// The library, through its public API.
    Contexture,
    /// The shortest straight loop that gives the same answer.
    Floor,
}

impl Side {
    /// Returns the name in results.
    pub fn name(self) -> &'static str {
        match self {
            Side::Contexture => "contexture",
            Side::Floor => "floor",
        }
    }
}

/// What a job runs on.
#[derive(Clone, Debug)]
pub enum Data {
    /// For [`Job::Tokenize`] and the windows.
    Conversation(Conversation),
    /// For [`Job::Compose`] and [`Job::ComposeWarm`].
    Composition(Composition),
    /// For [`Job::RenderXml`].
    Tree(Tree),
    /// For the jobs on a store.
    Session(SessionData),
    /// For [`Job::Turn`].
    Stored(Conversation, StorePlace),
}

impl Job {
    /// All jobs.
    pub const ALL: [Job; 12] = [
        Job::Tokenize,
        Job::Compose,
        Job::ComposeWarm,
        Job::RenderXml,
        Job::TrimCold,
        Job::TrimWarm,
        Job::WindowCount,
        Job::StoreAppend,
        Job::StoreAppendMany,
        Job::StoreLoad,
        Job::StoreTail,
        Job::Turn,
    ];

    /// Returns the job's name.
    pub fn name(self) -> &'static str {
        match self {
            Job::Tokenize => "tokenize",
            Job::Compose => "compose",
            Job::ComposeWarm => "compose.warm",
            Job::RenderXml => "render.xml",
            Job::TrimCold => "trim.cold",
            Job::TrimWarm => "trim.warm",
            Job::WindowCount => "window.count",
            Job::StoreAppend => "store.append",
            Job::StoreAppendMany => "store.append.many",
            Job::StoreLoad => "store.load",
            Job::StoreTail => "store.tail",
            Job::Turn => "turn",
        }
    }

    /// Returns the job with that name.
    pub fn parse(name: &str) -> Result<Job, BenchError> {
        let name = name.to_owned();
        let known = || format!("{}, serve, flow, waiting-runs", Job::ALL.map(Job::name).join(", "));
        let job = Job::ALL.into_iter().find(|it| it.name() == name);
        job.ok_or_else(|| BenchError::UnknownJob { name, known: known() })
    }

    /// Returns what its number counts.
    pub fn unit(self) -> &'static str {
        match self {
            Job::Tokenize | Job::TrimCold | Job::TrimWarm | Job::WindowCount | Job::Turn => "turns",
            Job::Compose | Job::ComposeWarm => "contexts",
            Job::RenderXml => "leaves",
            Job::StoreAppend | Job::StoreLoad | Job::StoreTail => "messages",
            Job::StoreAppendMany => "sessions",
        }
    }

    /// Returns the sizes that are compared.
    pub fn sizes(self) -> &'static [usize] {
        match self {
            Job::Tokenize => &[100, 1000],
            Job::Compose | Job::ComposeWarm => &[24, 240],
            Job::RenderXml => &[200, 2000],
            Job::TrimCold | Job::TrimWarm | Job::WindowCount | Job::Turn => &[100, 1000, 10_000],
            Job::StoreAppend | Job::StoreLoad => &[100, 1000, 10_000],
            Job::StoreTail => &[100, 1000, 10_000, 100_000],
            Job::StoreAppendMany => &[1, 64],
        }
    }

    /// Reads the job's data; `place` says where the jobs on a store run.
    pub fn read(self, folder: &Path, n: usize, place: &StorePlace) -> Result<Data, BenchError> {
        match self {
            Job::Tokenize | Job::TrimCold | Job::TrimWarm | Job::WindowCount => {
                read(folder, &format!("conv-{n}.json")).map(Data::Conversation)
            }
            Job::Compose | Job::ComposeWarm => {
                read(folder, &format!("compose-{n}.json")).map(Data::Composition)
            }
            Job::RenderXml => read(folder, &format!("tree-{n}.json")).map(Data::Tree),
            Job::StoreAppend | Job::StoreLoad | Job::StoreTail => {
                SessionData::read(folder, n, 1, place).map(Data::Session)
            }
            Job::StoreAppendMany => SessionData::read(folder, 100, n, place).map(Data::Session),
            Job::Turn => read(folder, &format!("conv-{n}.json")).map(|it| Data::Stored(it, place.clone())),
        }
    }

    /// Makes data of the same kind.
    pub fn sample(self, n: usize, place: &StorePlace) -> Data {
        match self {
            Job::Tokenize | Job::TrimCold | Job::TrimWarm | Job::WindowCount => {
                Data::Conversation(sample::conversation(n))
            }
            Job::Compose | Job::ComposeWarm => Data::Composition(sample::composition(n)),
            Job::RenderXml => Data::Tree(sample::tree(n)),
            Job::StoreAppend | Job::StoreLoad | Job::StoreTail => Data::Session(sample::session(n, 1, place)),
            Job::StoreAppendMany => Data::Session(sample::session(100, n, place)),
            Job::Turn => Data::Stored(sample::conversation(n), place.clone()),
        }
    }

    /// Prepares the job on `data`, without doing any of what is measured. Data of another job is an error.
    pub fn runner(self, side: Side, data: &Data) -> Result<Runner<'_>, Box<dyn Error>> {
        let ours = side == Side::Contexture;
        Ok(match (self, data) {
            (Job::Tokenize, Data::Conversation(data)) if ours => api::tokenize(data),
            (Job::Tokenize, Data::Conversation(data)) => floors::tokenize(data)?,
            (Job::TrimCold, Data::Conversation(data)) if ours => window::trim_cold(data),
            (Job::TrimCold, Data::Conversation(data)) => window::trim_cold_floor(data)?,
            (Job::TrimWarm, Data::Conversation(data)) if ours => window::trim_warm(data)?,
            (Job::TrimWarm, Data::Conversation(data)) => window::trim_warm_floor(data)?,
            (Job::WindowCount, Data::Conversation(data)) if ours => window::window_count(data)?,
            (Job::WindowCount, Data::Conversation(data)) => window::window_count_floor(data)?,
            (Job::Compose, Data::Composition(data)) if ours => api::compose(data),
            (Job::Compose, Data::Composition(data)) => floors::compose(data)?,
            (Job::ComposeWarm, Data::Composition(data)) if ours => api::compose_warm(data)?,
            (Job::ComposeWarm, Data::Composition(data)) => floors::compose_warm(data)?,
            (Job::RenderXml, Data::Tree(data)) if ours => api::render_xml(data),
            (Job::RenderXml, Data::Tree(data)) => floors::render_xml(data),
            (Job::StoreAppend, Data::Session(data)) if ours => store::append(data)?,
            (Job::StoreAppend, Data::Session(data)) => store::append_floor(data)?,
            (Job::StoreAppendMany, Data::Session(data)) if ours => store::append_many(data)?,
            (Job::StoreAppendMany, Data::Session(data)) => store::append_many_floor(data)?,
            (Job::StoreLoad, Data::Session(data)) if ours => store::load(data)?,
            (Job::StoreLoad, Data::Session(data)) => store::read_floor(data, usize::MAX)?,
            (Job::StoreTail, Data::Session(data)) if ours => store::tail(data)?,
            (Job::StoreTail, Data::Session(data)) => store::read_floor(data, store::TAIL)?,
            (Job::Turn, Data::Stored(data, place)) if ours => turn::turn(data, place)?,
            (Job::Turn, Data::Stored(data, place)) => turn::turn_floor(data, place)?,
            _ => return Err(format!("the data is not for the job {}", self.name()).into()),
        })
    }
}
