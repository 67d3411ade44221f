//! The jobs: their names, their data, and who runs them.

use std::error::Error;
use std::path::Path;

use contexture_compose::Pass;

use crate::data::{Composition, Conversation, Tree, read};
use crate::{BenchError, floors, jobs, sample};

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
}

impl Answer {
    /// Returns the number of tokens, if that is the answer.
    pub fn tokens(&self) -> Option<u64> {
        match self {
            Answer::Tokens(tokens) => Some(*tokens),
            Answer::Text(_) | Answer::Pass(_) => None,
        }
    }

    /// Returns the text, if there is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Answer::Tokens(_) => None,
            Answer::Text(text) => Some(text),
            Answer::Pass(pass) => pass.request().messages.first()?.as_text(),
        }
    }
}

/// One run of a job. Each call does everything again.
pub type Runner<'a> = Box<dyn FnMut() -> Result<Answer, Box<dyn Error>> + 'a>;

/// What a job runs on.
#[derive(Clone, Debug)]
pub enum Data {
    /// For [`Job::Tokenize`].
    Conversation(Conversation),
    /// For [`Job::Compose`] and [`Job::ComposeWarm`].
    Composition(Composition),
    /// For [`Job::RenderXml`].
    Tree(Tree),
}

/// Jobs of the list that need what is not built yet.
const LATER: [&str; 9] = [
    "trim.cold",
    "trim.warm",
    "window.count",
    "store.append",
    "store.append.many",
    "store.load",
    "store.tail",
    "turn",
    "serve",
];

impl Job {
    /// All jobs.
    pub const ALL: [Job; 4] = [Job::Tokenize, Job::Compose, Job::ComposeWarm, Job::RenderXml];

    /// Returns the job's name.
    pub fn name(self) -> &'static str {
        match self {
            Job::Tokenize => "tokenize",
            Job::Compose => "compose",
            Job::ComposeWarm => "compose.warm",
            Job::RenderXml => "render.xml",
        }
    }

    /// Returns the job with that name.
    pub fn parse(name: &str) -> Result<Job, BenchError> {
        let name = name.to_owned();
        let known = || Job::ALL.map(Job::name).join(", ");
        match Job::ALL.into_iter().find(|it| it.name() == name) {
            Some(job) => Ok(job),
            None if LATER.contains(&name.as_str()) => Err(BenchError::LaterJob { name, known: known() }),
            None => Err(BenchError::UnknownJob { name, known: known() }),
        }
    }

    /// Returns what its number counts.
    pub fn unit(self) -> &'static str {
        match self {
            Job::Tokenize => "turns",
            Job::Compose | Job::ComposeWarm => "contexts",
            Job::RenderXml => "leaves",
        }
    }

    /// Returns the sizes that are compared.
    pub fn sizes(self) -> &'static [usize] {
        match self {
            Job::Tokenize => &[100, 1000],
            Job::Compose | Job::ComposeWarm => &[24, 240],
            Job::RenderXml => &[200, 2000],
        }
    }

    /// Reads the job's data.
    pub fn read(self, folder: &Path, n: usize) -> Result<Data, BenchError> {
        match self {
            Job::Tokenize => read(folder, &format!("conv-{n}.json")).map(Data::Conversation),
            Job::Compose | Job::ComposeWarm => {
                read(folder, &format!("compose-{n}.json")).map(Data::Composition)
            }
            Job::RenderXml => read(folder, &format!("tree-{n}.json")).map(Data::Tree),
        }
    }

    /// Makes data of the same kind.
    pub fn sample(self, n: usize) -> Data {
        match self {
            Job::Tokenize => Data::Conversation(sample::conversation(n)),
            Job::Compose | Job::ComposeWarm => Data::Composition(sample::composition(n)),
            Job::RenderXml => Data::Tree(sample::tree(n)),
        }
    }

    /// Prepares the job on `data`, without doing any of what is measured.
    ///
    /// Data of another job gives that data's job: what there is to do is known by the data, and only cold and
    /// warm are told apart by the job.
    pub fn runner(self, side: Side, data: &Data) -> Result<Runner<'_>, Box<dyn Error>> {
        let warm = self == Job::ComposeWarm;
        Ok(match (data, side) {
            (Data::Conversation(data), Side::Contexture) => jobs::tokenize(data),
            (Data::Conversation(data), Side::Floor) => floors::tokenize(data)?,
            (Data::Composition(data), Side::Contexture) if warm => jobs::compose_warm(data)?,
            (Data::Composition(data), Side::Contexture) => jobs::compose(data),
            (Data::Composition(data), Side::Floor) if warm => floors::compose_warm(data)?,
            (Data::Composition(data), Side::Floor) => floors::compose(data)?,
            (Data::Tree(data), Side::Contexture) => jobs::render_xml(data),
            (Data::Tree(data), Side::Floor) => floors::render_xml(data),
        })
    }
}
