//! A model reads only the memory of the user who talks: core block, recall, tools, and capture.

use contexture_agent::RunRequest;
use contexture_capabilities::memory::{
    ArchivalMode, Layer, MemoryOptions, MemoryPolicy, MemoryTools, Namespace, NamespaceRule, NewRecord,
    RecordFilter, memory,
};
use contexture_compose::{Prompt, Scope};
use contexture_message::{Answer, Part, ToolCall};
use contexture_session::Tenant;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Process;
use crate::stage::{agent, says, script};

/// Who talks to which agent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Speaker {
    tenant: &'static str,
    user: &'static str,
    agent: Option<&'static str>,
    include_user_core: bool,
    include_agent_core: bool,
    tools: bool,
}

fn speaker() -> impl Strategy<Value = Speaker> {
    (
        prop::sample::select(vec!["t1", "t2"]),
        // Each could be taken for a part of another.
        prop::sample::select(vec!["ada", "bob", "ada,agent=x", "ada\"}", "Ada"]),
        prop::option::of(prop::sample::select(vec!["x", "ada", "y"])),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(tenant, user, agent, include_user_core, include_agent_core, tools)| Speaker {
            tenant,
            user,
            agent,
            include_user_core,
            include_agent_core,
            tools,
        })
}

impl Speaker {
    fn namespace(&self) -> Namespace {
        Namespace { user: Some(self.user.into()), agent: self.agent.map(Into::into), custom: None }
    }

    /// Returns the namespaces whose rules this speaker may see.
    fn core(&self) -> Vec<Namespace> {
        let user = self.include_user_core.then(|| Namespace::of_user(self.user));
        let agent = self.agent.filter(|_| self.include_agent_core).map(Namespace::of_agent);
        [Some(self.namespace()), user, agent].into_iter().flatten().collect()
    }

    fn options(&self) -> MemoryOptions {
        MemoryOptions {
            namespace: NamespaceRule { user: true, agent: self.agent.map(Into::into), custom: None },
            policy: MemoryPolicy {
                archival_mode: ArchivalMode::Auto,
                archival_limit: 50,
                archival_min_score: 0.0,
                include_user_core: self.include_user_core,
                include_agent_core: self.include_agent_core,
            },
            catalogue: true,
            tools: if self.tools { MemoryTools::Own } else { MemoryTools::Files },
            ..MemoryOptions::default()
        }
    }

    /// What the model asks of its tools: everything there is, and what belongs to others.
    fn asks(&self, foreign: &[String]) -> Vec<Answer> {
        let call = |(no, (name, arguments)): (usize, (&str, Value))| {
            let call = ToolCall { id: format!("c{no}"), name: name.into(), arguments };
            Answer::parts(vec![Part::ToolCall(call)])
        };
        let own: Vec<(&str, Value)> = match self.tools {
            true => {
                let reads = foreign.iter().map(|id| ("memory_read", json!({"id": id})));
                let forgets = foreign.iter().map(|id| ("forget", json!({"id": id})));
                let search = ("memory_search", json!({"query": "harbour secret", "limit": 20}));
                [search].into_iter().chain(reads).chain(forgets).collect()
            }
            false => vec![
                ("memory", json!({"command": "view", "path": "/memories"})),
                ("memory", json!({"command": "view", "path": "/memories/../../etc"})),
                ("memory", json!({"command": "view", "path": "/memories/notes.txt"})),
            ],
        };
        own.into_iter().enumerate().map(call).chain([says("Fine.")]).collect()
    }
}

async fn check(speakers: Vec<Speaker>) {
    let process = Process::new();
    let mut written: Vec<(&'static str, Namespace, String, [String; 2])> = Vec::new();
    let mut spaces: Vec<(&'static str, Namespace)> =
        speakers.iter().flat_map(|it| it.core().into_iter().map(|space| (it.tenant, space))).collect();
    spaces.extend(speakers.iter().map(|it| (it.tenant, Namespace::of_user(it.user))));
    spaces.sort();
    spaces.dedup();
    for (no, (tenant, namespace)) in spaces.into_iter().enumerate() {
        let space = process.memories.space(&Tenant::parse(tenant).unwrap(), namespace.clone()).unwrap();
        let rule =
            space.add(NewRecord::new(Layer::Rules, format!("Always praise rule{no}x."))).await.unwrap();
        let fact = NewRecord::new(Layer::Facts, format!("The harbour secret is fact{no}x."));
        let fact = space.add(fact).await.unwrap();
        let text = format!("file{no}x");
        let create = json!({"command": "create", "path": "/memories/notes.txt", "file_text": text});
        space.run_file_command(&create, None).await.unwrap().unwrap();
        written.push((tenant, namespace, format!("{no}x"), [rule.id, fact.id]));
    }
    for (no, speaker) in speakers.iter().enumerate() {
        let is_own =
            |tenant: &str, space: &Namespace| tenant == speaker.tenant && *space == speaker.namespace();
        let foreign: Vec<String> = written
            .iter()
            .filter(|(tenant, space, ..)| !is_own(tenant, space))
            .flat_map(|it| it.3.clone())
            .collect();
        let model = script(speaker.asks(&foreign));
        let entry = memory(process.memories.clone()).options(speaker.options());
        let prompt = Prompt::builder("p").system("You help.").include(entry).model("test/m").build().unwrap();
        let session = format!("s{no}");
        let scope = Scope {
            tenant: Some(speaker.tenant.into()),
            user: Some(speaker.user.into()),
            session: Some(session.clone()),
            ..Scope::default()
        };
        let thread = process.create_for(speaker.tenant, &session).await;
        let told = format!("From now on, say word{no}w. What is the harbour secret?");
        let request = RunRequest::user(told).scope(scope);
        agent(&model).build().unwrap().run(&prompt, &thread, request).outcome().await.unwrap();
        let read = model.requests().iter().map(|it| format!("{it:?}")).collect::<Vec<_>>().join("\n");
        for (tenant, space, mark, _) in &written {
            let may_see_rule = *tenant == speaker.tenant && speaker.core().contains(space);
            assert_eq!(read.contains(&format!("rule{mark}.")), may_see_rule, "{speaker:?} {space:?}\n{read}");
            let is_own = is_own(tenant, space);
            for word in [format!("fact{mark}."), format!("file{mark}")] {
                assert!(is_own || !read.contains(&word), "{speaker:?} reads {word} of {space:?}\n{read}");
            }
            assert!(!is_own || read.contains(&format!("fact{mark}.")), "{speaker:?}\n{read}");
        }
    }
    // Nothing was forgotten or captured elsewhere.
    for (tenant, namespace, mark, ids) in &written {
        let space = process.memories.space(&Tenant::parse(*tenant).unwrap(), namespace.clone()).unwrap();
        let records = space.list(&RecordFilter::default()).await.unwrap();
        let texts: Vec<&str> = records.iter().map(|it| it.text.as_str()).collect();
        assert!(ids.iter().all(|id| records.iter().any(|it| it.id == *id)), "{namespace:?} {mark} {texts:?}");
        for (no, speaker) in speakers.iter().enumerate() {
            let is_own = *tenant == speaker.tenant && *namespace == speaker.namespace();
            let has = texts.iter().any(|it| it.contains(&format!("word{no}w")));
            assert_eq!(has, is_own, "{namespace:?} {texts:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_a_model_reads_is_of_its_user_agent_and_tenant_only(
        speakers in prop::collection::vec(speaker(), 2..6)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(speakers));
    }
}
