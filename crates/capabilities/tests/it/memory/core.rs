//! Rules and core memory are in every request, whatever summarisers do.

use contexture_agent::{Agent, CompactRequest, RunRequest, Summarized, Summarizer, SummaryCall};
use contexture_capabilities::memory::{Layer, MemoryOptions, Namespace, NamespaceRule, NewRecord, memory};
use contexture_compose::{BoxError, BoxFuture, Prompt, ResolveOptions, Scope};
use contexture_message::Answer;
use contexture_model::Scripted;
use contexture_session::Tenant;

use super::Process;
use crate::stage::agent;

const TOLD: &str = "From now on, always sign as Captain Fox.";
const KNOWN: &str = "Never mention the price of the Kestrel.";

/// A summariser that harms.
#[derive(Clone, Copy)]
enum Hostile {
    Empty,
    Longer,
    Omitting,
    Failing,
}

impl Summarizer for Hostile {
    fn summarize(&self, call: SummaryCall) -> BoxFuture<'static, Result<Summarized, BoxError>> {
        let text = match self {
            Hostile::Empty => Ok(String::new()),
            Hostile::Longer => {
                let said = call.messages.iter().map(|it| it.joined_text()).collect::<Vec<_>>().join("\n");
                Ok(format!("{said}\n{said}").replace("Captain Fox", "nobody").replace("Kestrel", "it"))
            }
            Hostile::Omitting => Ok("They talked about the weather for a while.".to_owned()),
            Hostile::Failing => Err("no".into()),
        };
        Box::pin(async move { text.map(|text| Summarized { text, ..Summarized::default() }) })
    }
}

fn scope() -> Scope {
    Scope { user: Some("ada".into()), session: Some("s".into()), ..Scope::default() }
}

async fn held_through(hostile: Hostile) {
    let process = Process::new();
    let thread = process.create("s").await;
    process.ada().add(NewRecord::new(Layer::Rules, KNOWN)).await.unwrap();
    let prompt = Prompt::builder("p").system("You help.").include(memory(process.memories.clone()));
    let prompt = prompt.model("test/m").build().unwrap();
    let model = Scripted::always(Answer::text("Fine."));
    let agent: Agent = agent(&model).summarizer(hostile).build().unwrap();
    let say = async |text: String| {
        let request = RunRequest::user(text).scope(scope());
        agent.run(&prompt, &thread, request).outcome().await.unwrap();
    };
    say(TOLD.to_owned()).await;
    let mut compactions = 0;
    for round in 0..20 {
        for turn in 0..2 {
            say(format!("Tell me about round {round}, part {turn}. {}", "It is a long story. ".repeat(30)))
                .await;
        }
        let mut request = CompactRequest::default();
        request.spec.scope = scope();
        compactions += usize::from(agent.compact(&prompt, &thread, request).await.unwrap().archive.is_some());
    }
    say("And now?".to_owned()).await;
    assert!(compactions >= 20, "{compactions}");
    let requests = model.requests();
    assert!(requests.len() >= 42);
    for (no, request) in requests.iter().enumerate() {
        let text = request.messages.iter().map(|it| it.joined_text()).collect::<Vec<_>>().join("\n");
        assert!(text.contains(TOLD), "request {no} lacks what was told in turn 1");
        assert!(text.contains(KNOWN), "request {no} lacks the core memory");
        let system = request.messages[0].joined_text();
        assert_eq!(system.matches("<core-memory>").count(), 1, "request {no}: {system}");
    }
    let last = requests.last().unwrap().messages[0].joined_text();
    assert!(last.contains(TOLD) && last.contains(KNOWN), "{last}");
    // Told once, remembered once.
    let rules = process.ada().list(&Default::default()).await.unwrap();
    assert_eq!(rules.iter().filter(|it| it.text == TOLD).count(), 1);
}

#[tokio::test]
async fn rules_stay_with_a_summariser_that_says_nothing() {
    held_through(Hostile::Empty).await;
}

#[tokio::test]
async fn rules_stay_with_a_summariser_that_makes_it_longer() {
    held_through(Hostile::Longer).await;
}

#[tokio::test]
async fn rules_stay_with_a_summariser_that_omits_everything() {
    held_through(Hostile::Omitting).await;
}

#[tokio::test]
async fn rules_stay_with_a_summariser_that_fails() {
    held_through(Hostile::Failing).await;
}

async fn system(prompt: &Prompt, scope: Scope) -> String {
    let mut options = ResolveOptions::default().user_message("Hello");
    options.scope = scope;
    prompt.resolve(options).await.unwrap().request().messages[0].joined_text()
}

#[tokio::test]
async fn the_core_block_has_a_budget_of_its_own_and_keeps_the_newest() {
    let process = Process::new();
    for no in 0..60 {
        process
            .ada()
            .add(NewRecord::new(Layer::Rules, format!("Always do thing number {no} properly.")))
            .await
            .unwrap();
        // Records of one millisecond have no order.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let options = MemoryOptions { core_tokens: 100, ..MemoryOptions::default() };
    let prompt =
        Prompt::builder("p").include(memory(process.memories.clone()).options(options)).build().unwrap();
    let text = system(&prompt, scope()).await;
    assert!(text.contains("thing number 59 ") && !text.contains("thing number 3 "), "{text}");
    assert!(text.contains("more rules are not shown here"), "{text}");
}

#[tokio::test]
async fn the_core_of_user_and_agent_can_be_included() {
    let process = Process::new();
    let tenant = Tenant::default();
    let both = Namespace { user: Some("ada".into()), agent: Some("support".into()), custom: None };
    for (namespace, rule) in [
        (both.clone(), "Always be brief."),
        (Namespace::of_user("ada"), "Always write German."),
        (Namespace::of_agent("support"), "Always thank the customer."),
        (Namespace::of_user("bob"), "Always shout."),
    ] {
        let space = process.memories.space(&tenant, namespace).unwrap();
        space.add(NewRecord::new(Layer::Rules, rule)).await.unwrap();
    }
    let built = |user_core, agent_core| {
        let mut options = MemoryOptions {
            namespace: NamespaceRule { agent: Some("support".into()), ..NamespaceRule::default() },
            ..MemoryOptions::default()
        };
        options.policy.include_user_core = user_core;
        options.policy.include_agent_core = agent_core;
        Prompt::builder("p").include(memory(process.memories.clone()).options(options)).build().unwrap()
    };
    insta::assert_snapshot!(system(&built(false, false), scope()).await, @r"
    <core-memory>
    - Always be brief.
    </core-memory>
    ");
    insta::assert_snapshot!(system(&built(true, true), scope()).await, @r"
    <core-memory>
    - Always be brief.
    - Always thank the customer.
    - Always write German.
    </core-memory>
    ");
    // Without a user there is no memory of a user.
    let anonymous = Scope::default();
    let mut options = ResolveOptions::default().user_message("Hello");
    options.scope = anonymous;
    let pass = built(true, true).resolve(options).await.unwrap();
    assert!(!format!("{:?}", pass.request()).contains("Always"));
    let reasons = format!("{:?}", pass.explain());
    assert!(reasons.contains("memory is kept by user"), "{reasons}");
}
