//! The jobs: their names, their data, and who runs them.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use contexture_compose::Pass;
use contexture_message::Message;

use crate::data::{Composition, Conversation, SessionData, StorePlace, Tree, read};
use crate::{BenchError, floors, jobs, sample, store, turn, window};

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

/// What a job gives. Made inside the measured time, read outside of it.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A number of tokens.
    Tokens(u64),
    /// A text.
    Text(String),
    /// A pass, whose text is the composed system message.
    Pass(Pass),
    /// Messages, whose ids are the answer.
    Messages(Vec<Arc<Message>>),
    /// A part of a session's log.
    Log(Vec<contexture::history::Item>),
    /// So many items are durable.
    Items {
        /// How many.
        items: usize,
        /// What a turn takes on the disk, where it was looked at.
        disk_mb_per_turn: Option<f64>,
    },
    /// A turn is over.
    Turn {
        /// The medians of its phases in microseconds, where they were looked at.
        phases: Option<BTreeMap<&'static str, f64>>,
    },
}

impl Answer {
    /// Returns the medians of a turn's phases, if this run looked.
    pub fn phases(&self) -> Option<&BTreeMap<&'static str, f64>> {
        match self {
            Answer::Turn { phases } => phases.as_ref(),
            _ => None,
        }
    }

    /// Returns the number of tokens, if that is the answer.
    pub fn tokens(&self) -> Option<u64> {
        match self {
            Answer::Tokens(tokens) => Some(*tokens),
            _ => None,
        }
    }

    /// Returns the text, if there is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Answer::Text(text) => Some(text),
            Answer::Pass(pass) => pass.request().messages.first()?.as_text(),
            _ => None,
        }
    }

    /// Returns the ids of the messages, if that is the answer.
    pub fn ids(&self) -> Option<Vec<&str>> {
        match self {
            Answer::Messages(messages) => Some(messages.iter().map(message_id).collect()),
            Answer::Log(items) => {
                Some(items.iter().filter_map(|it| it.body.as_message()).map(message_id).collect())
            }
            _ => None,
        }
    }

    /// Returns what a turn takes on the disk, if this run looked.
    pub fn disk_mb_per_turn(&self) -> Option<f64> {
        match self {
            Answer::Items { disk_mb_per_turn, .. } => *disk_mb_per_turn,
            _ => None,
        }
    }

    /// Whether both say the same.
    pub fn is_same(&self, other: &Answer) -> bool {
        self.text() == other.text() && self.tokens() == other.tokens() && self.ids() == other.ids()
    }

    /// Returns how many items were written or read, if that is the answer.
    pub fn items(&self) -> Option<usize> {
        match self {
            Answer::Items { items, .. } => Some(*items),
            Answer::Log(items) => Some(items.len()),
            // The question and the answer.
            Answer::Turn { .. } => Some(2),
            _ => None,
        }
    }
}

fn message_id(message: &Arc<Message>) -> &str {
    message.id.as_deref().unwrap_or_default()
}

/// One run of a job. Each call does everything again.
pub type Runner<'a> = Box<dyn FnMut() -> Result<Answer, Box<dyn Error>> + 'a>;

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
            Job::StoreAppend | Job::StoreLoad | Job::StoreTail => {
                Data::Session(SessionData::sample(n, 1, place))
            }
            Job::StoreAppendMany => Data::Session(SessionData::sample(100, n, place)),
            Job::Turn => Data::Stored(sample::conversation(n), place.clone()),
        }
    }

    /// Prepares the job on `data`, without doing any of what is measured. Data of another job is an error.
    pub fn runner(self, side: Side, data: &Data) -> Result<Runner<'_>, Box<dyn Error>> {
        let ours = side == Side::Contexture;
        Ok(match (self, data) {
            (Job::Tokenize, Data::Conversation(data)) if ours => jobs::tokenize(data),
            (Job::Tokenize, Data::Conversation(data)) => floors::tokenize(data)?,
            (Job::TrimCold, Data::Conversation(data)) if ours => window::trim_cold(data),
            (Job::TrimCold, Data::Conversation(data)) => window::trim_cold_floor(data)?,
            (Job::TrimWarm, Data::Conversation(data)) if ours => window::trim_warm(data)?,
            (Job::TrimWarm, Data::Conversation(data)) => window::trim_warm_floor(data)?,
            (Job::WindowCount, Data::Conversation(data)) if ours => window::window_count(data)?,
            (Job::WindowCount, Data::Conversation(data)) => window::window_count_floor(data)?,
            (Job::Compose, Data::Composition(data)) if ours => jobs::compose(data),
            (Job::Compose, Data::Composition(data)) => floors::compose(data)?,
            (Job::ComposeWarm, Data::Composition(data)) if ours => jobs::compose_warm(data)?,
            (Job::ComposeWarm, Data::Composition(data)) => floors::compose_warm(data)?,
            (Job::RenderXml, Data::Tree(data)) if ours => jobs::render_xml(data),
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
