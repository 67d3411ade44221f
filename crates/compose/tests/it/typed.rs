//! Prompts with the types of their input and answer.

use contexture_compose::{
    Context, Contribution, Error, Prompt, PromptTree, Prompts, ResolveOptions, Scope, TagValue, Text,
    contributor, injectable, prompt_tree,
};
use contexture_message::Message;
use contexture_testkit::{failure, request, resolve, resolve_input};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Ticket {
    plan: String,
    locale: String,
    question: String,
}

#[derive(Deserialize, JsonSchema)]
struct Reply {
    #[allow(dead_code)]
    text: String,
}

fn ticket(plan: &str, locale: &str) -> Value {
    json!({"plan": plan, "locale": locale, "question": "Where is it?"})
}

fn sent<In, Out>(prompt: &Prompt<In, Out>, input: Value) -> String {
    resolve_input(prompt, input).map_or_else(|err| failure(&err), |it| request(&it))
}

#[test]
fn closures_read_the_input_without_annotations() {
    let prompt = Prompt::builder("support")
        .input::<Ticket>()
        .output::<Reply>()
        .system_with(|it| format!("The plan is {}.", it.plan))
        .include_when(|it| it.plan != "free", Context::text("phone", "Offer a call."))
        .include_match(
            |it| it.locale.clone(),
            |cases| {
                let english = Context::text("english", "Answer in English.");
                cases.case("de", Context::text("german", "Antworte auf Deutsch.")).default_case(english)
            },
        )
        .context_with(|it| json!({"customer": {"plan": it.plan}}))
        .user_with(|it| it.question.clone())
        .build()
        .unwrap();
    insta::assert_snapshot!(sent(&prompt, ticket("free", "de")), @"
    [system]
    The plan is free.

    Antworte auf Deutsch.

    <customer>
    <plan>
    free
    </plan>
    </customer>
    [user]
    Where is it?
    ");
    insta::assert_snapshot!(sent(&prompt, ticket("pro", "fr")), @"
    [system]
    The plan is pro.

    Offer a call.

    Answer in English.

    <customer>
    <plan>
    pro
    </plan>
    </customer>
    [user]
    Where is it?
    ");
}

#[test]
fn messages_may_be_a_function() {
    let prompt = Prompt::builder("p")
        .input::<Ticket>()
        .messages(|it| [Message::system("Be brief."), Message::user(&it.question)])
        .build()
        .unwrap();
    insta::assert_snapshot!(sent(&prompt, ticket("free", "en")), @"
    [system]
    Be brief.
    [user]
    Where is it?
    ");
}

#[test]
fn contexts_and_closures_have_an_input_of_their_own() {
    #[derive(Deserialize, JsonSchema)]
    struct Place {
        city: String,
    }
    let weather = injectable("weather", |call| async move {
        let place = call.input.get::<Place>()?;
        Ok(Contribution::text(format!("It rains in {}.", place.city))
            .and_metadata("city", place.city.clone()))
    })
    .input::<Place>()
    .when(|it| it.city != "Dubai")
    .family("weather");
    let nested = contributor("nested", |_| async { Ok(Contribution::text("Bring an umbrella.")) })
        .input::<Place>()
        .when(|it| it.city == "Bergen")
        .include(Context::new("coat").input::<Place>().text_with(|it| format!("{} is cold.", it.city)));
    let prompt = Prompt::builder("p").include(weather).include(nested).build().unwrap();
    insta::assert_snapshot!(sent(&prompt, json!({"city": "Bergen"})), @"
    [system]
    It rains in Bergen.

    Bergen is cold.

    Bring an umbrella.
    ");
    insta::assert_snapshot!(sent(&prompt, json!({"city": "Dubai"})), @"");
    insta::assert_snapshot!(sent(&prompt, json!({})), @"contributor_failed at p: injectable:weather: the gate failed: missing field `city`");
    let pass = resolve_input(&prompt, json!({"city": "Bergen"})).unwrap();
    assert_eq!(pass.metadata()["injectable:weather"]["city"], "Bergen");
}

#[test]
fn functions_may_read_who_the_pass_is_for() {
    let prompt = Prompt::builder("p")
        .system(Text::of_scoped(|_: &Value, ctx| format!("You talk to {}.", ctx.user.as_deref().unwrap())))
        .context(TagValue::of_scoped(|_: &Value, ctx| json!({"tenant": ctx.tenant})))
        .build()
        .unwrap();
    let scope = Scope { user: Some("ada".into()), tenant: Some("acme".into()), ..Scope::default() };
    let pass = resolve(&prompt, ResolveOptions::default().scope(scope)).unwrap();
    insta::assert_snapshot!(request(&pass), @"
    [system]
    You talk to ada.

    <tenant>
    acme
    </tenant>
    ");
    assert_eq!(pass.system().map(|it| it.starts_with("You talk to ada.")), Some(true));
}

prompt_tree! {
    struct Billing {
        refund: Prompt<Ticket, Reply>,
    }
}

prompt_tree! {
    struct Tree {
        billing: Billing,
        greet: Prompt,
    }
}

fn tree(second: &str) -> Result<Tree, Error> {
    let refund = Prompt::builder("refund").input::<Ticket>().output::<Reply>().build()?;
    let greet = Prompt::builder(second).system("Greet.").build()?;
    Ok(Tree { billing: Billing { refund }, greet })
}

#[test]
fn a_typed_tree_is_a_registry_too() {
    let typed = tree("greet").unwrap();
    let prompts = Prompts::of_tree(&typed).unwrap();
    let paths: Vec<&str> = prompts.iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["billing/refund", "greet"]);
    assert!(prompts.get("billing/refund").unwrap().is_same(&typed.billing.refund));
    let twice = Prompts::of_tree(&tree("refund").unwrap()).unwrap_err();
    insta::assert_snapshot!(failure(&twice), @"duplicate_id: two different entries have the id `refund`: billing/refund and greet");
}

#[test]
fn a_prompt_is_a_tree_of_one() {
    let mut prompts = Prompts::default();
    tree("greet").unwrap().greet.register("hello", &mut prompts).unwrap();
    assert_eq!(prompts.get("hello").unwrap().id(), "greet");
}
