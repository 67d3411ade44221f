//! Knowledge bases of a project, and the entries that search them.

use std::sync::Arc;

use contexture_compose::ResolveOptions;
use contexture_project::{Config, InMemory, Project};
use futures::executor::block_on;
use serde_json::json;

use crate::support::{faults, project};

const REFUNDS: (&str, &str) = (
    "knowledge/handbook/refunds.md",
    "# Refunds\n\nRefunds take 30 days after the parcel came back.\n\n# Shipping\n\nShipping is free above 50 euros.\n",
);

/// Resolves the prompt `p` for a question and lists the parts that are not its own.
fn parts(project: &Project, question: &str) -> String {
    let prompt = project.prompt("p").unwrap();
    let options =
        ResolveOptions { input: json!({"topic": "refunds"}), ..project.options(prompt, None, None) };
    let pass = block_on(prompt.resolve(options.user_message(question))).unwrap();
    let own = ["prompt", "in_flight"];
    let parts = pass.explain().parts.into_iter().filter(|it| !own.contains(&it.source.as_str()));
    let line = |it: contexture_compose::Part| {
        let reason = it.reason.map(|it| format!(" ({it})")).unwrap_or_default();
        format!("{} {} {}{reason}", it.source, it.slot, it.state)
    };
    parts.map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_folder_is_a_base_and_a_retriever_finds_its_passages() {
    let prompt =
        "---\nuse:\n  - retriever: {base: handbook, query: \"{{ input.topic }}\", top_k: 1}\n---\nHelp.";
    let project = project(&[("prompts/p.md", prompt), REFUNDS]);
    insta::assert_snapshot!(parts(&project, "How long?"), @r"
    retriever:handbook envelope empty
    knowledge:handbook#1 envelope kept
    ");
}

#[test]
fn a_name_is_enough_for_a_retriever() {
    let project = project(&[("prompts/p.md", "---\nuse: [{retriever: handbook}]\n---\nHelp."), REFUNDS]);
    assert!(parts(&project, "How long do refunds take?").contains("knowledge:handbook#1 envelope kept"));
}

#[test]
fn grounding_brings_evidence_an_instruction_and_tools() {
    let prompt = "---\nuse:\n  - grounding: {bases: [handbook], citations: required, quotes: optional, inject: both}\n---\nHelp.";
    let project = project(&[("prompts/p.md", prompt), REFUNDS]);
    insta::assert_snapshot!(parts(&project, "How long do refunds take?"), @r"
    context:grounding:handbook system kept
    grounding:handbook envelope empty
    knowledge:handbook#1 envelope kept
    contributor:grounding:handbook tools kept
    contributor:grounding:handbook tools kept
    ");
}

#[test]
fn a_pipeline_is_read_step_by_step() {
    let prompt = "---\nuse:\n  - pipeline:\n      - rewrite: \"{{ query }} {{ input.topic }}\"\n      - fan_out: [\"{{ user }}\"]\n      - retrieve: {base: handbook, top_k: 10}\n      - filter: {per_document: 1}\n      - expand: {neighbours: 1, tokens: 500}\n      - compress: {tokens: 100}\n---\nHelp.";
    let project = project(&[("prompts/p.md", prompt), REFUNDS]);
    let prompt = project.prompt("p").unwrap();
    let options = ResolveOptions { input: json!({"topic": "refunds"}), ..ResolveOptions::default() };
    let pass = block_on(prompt.resolve(options.user_message("How long?"))).unwrap();
    let part = pass.explain().parts.into_iter().find(|it| it.source == "pipeline:handbook").unwrap();
    let steps = part.detail.unwrap()["steps"].clone();
    let names: Vec<&str> = steps.as_array().unwrap().iter().filter_map(|it| it["step"].as_str()).collect();
    assert_eq!(names, ["rewrite", "fan_out", "retrieve", "filter", "expand", "compress"]);
    assert_eq!(steps[1]["queries_out"], json!(["How long? refunds", "How long?"]));
}

#[test]
fn a_step_that_asks_a_model_is_a_reason_without_one() {
    let prompt = "---\nuse:\n  - pipeline: [{rewrite: model}, {retrieve: {base: handbook}}]\n---\nHelp.";
    let project = project(&[("prompts/p.md", prompt), REFUNDS]);
    insta::assert_snapshot!(parts(&project, "How long?"), @r"
    pipeline:handbook envelope excluded (skipped: step `rewrite` failed: there is no model to ask)
    ");
}

#[test]
fn the_catalogue_lists_the_bases_of_the_project() {
    let config = "[knowledge.handbook]\ndescription = \"Refunds and shipping\"\n[knowledge.notes]\n";
    let prompt = "---\nuse: [{block: available_knowledge_bases}]\n---\nHelp.";
    let project = project(&[("prompts/p.md", prompt), REFUNDS, ("contexture.toml", config)]);
    let prompt = project.prompt("p").unwrap();
    let pass = block_on(prompt.resolve(ResolveOptions::default().user_message("Hi"))).unwrap();
    insta::assert_snapshot!(pass.request().messages[0].joined_text(), @r"
    Help.

    <available-knowledge-bases>
    - handbook: Refunds and shipping
    - notes
    </available-knowledge-bases>
    ");
    assert_eq!(project.knowledge().iter().map(|it| it.name()).collect::<Vec<_>>(), ["handbook", "notes"]);
}

#[test]
fn faults_name_the_place_and_what_there_is() {
    let of =
        |entry: &str| faults(&[("prompts/p.md", &format!("---\nuse:\n  - {entry}\n---\nHelp.")), REFUNDS]);
    let entries = [
        "retriever: {base: hanbook}",
        "retriever: {base: nothing}",
        "retriever: {base: handbook, query: \"{{ question }}\"}",
        "retriever: {base: handbook, topk: 3}",
        "retriever: {top_k: 3}",
        "retriever: {base: handbook, inject: everywhere}",
        "pipeline: [{retrive: {base: handbook}}]",
        "pipeline: [retrieve]",
        "grounding: {citations: required}",
        "grounding: {bases: [handbook], quotes: sometimes}",
    ];
    let all: Vec<String> = entries.iter().map(|it| of(it)).collect();
    insta::assert_snapshot!(all.join("\n"), @r"
    prompts/p.md:3:23 unknown_entry: `use[0].retriever.base`: there is no knowledge base `hanbook` [did you mean `handbook`?]
    prompts/p.md:3:23 unknown_entry: `use[0].retriever.base`: there is no knowledge base `nothing` [put documents into `knowledge/nothing/`, or add `[knowledge.nothing]` to `contexture.toml`]
    prompts/p.md:3:44 template_error: `use[0].retriever.query`: unknown variable `question` in a query [a query can read `input`, `ctx`, `user`, `last`, `history`]
    prompts/p.md:3:33 unknown_field: `use[0].retriever`: unknown field `topk` [did you mean `top_k`?]
    prompts/p.md:3:16 file_invalid: `use[0].retriever`: `base` is missing
    prompts/p.md:3:41 file_invalid: `use[0].retriever.inject`: expected `context` or `tool` or `both`, found `everywhere`
    prompts/p.md:3:16 unknown_field: `use[0].pipeline[0]`: there is no step `retrive` [did you mean `retrieve`?]
    prompts/p.md:3:15 file_invalid: `use[0].pipeline`: no step names a base: write `retrieve: {base: NAME}`
    prompts/p.md:3:16 file_invalid: `use[0].grounding`: `bases` or `retriever` is missing
    prompts/p.md:3:44 file_invalid: `use[0].grounding.quotes`: expected `required` or `optional` or `off`, found `sometimes`
    ");
}

#[test]
fn unknown_keys_of_the_configuration_are_refused() {
    let faults = |text: &str| Config::parse(text).unwrap_err().to_string();
    insta::assert_snapshot!(faults("[knowledge.handbook]\nlang = \"german\""), @"contexture.toml:2:1: `knowledge.handbook`: unknown field `lang` (did you mean `language`?)");
    insta::assert_snapshot!(faults("[knowledge.handbook]\nretriever = \"remote\""), @"contexture.toml:2:13: `knowledge.handbook.retriever`: expected `local`, or the settings of a search engine with its `url`, found the text `remote`");
    insta::assert_snapshot!(faults("[knowledge.handbook.retriever]\nurl = \"http://localhost\""), @"contexture.toml:1:1: `knowledge.handbook.retriever`: `request` is missing");
    insta::assert_snapshot!(faults("[embedder]\nkey = \"x\""), @"contexture.toml:2:1: `embedder`: unknown field `key` (known fields: url, model, authorization_env, path)");
    let good = "[knowledge.handbook]\nlanguage = \"german\"\nchunk_tokens = 200\nretriever = \"local\"\n\
        [knowledge.wiki.retriever]\nurl = \"http://localhost\"\nrequest = {q = \"{{ query }}\"}\nhits = \"/hits\"\n\
        id = \"/id\"\ntext = \"/text\"\n[embedder]\nurl = \"http://localhost/v1\"\nmodel = \"e\"\n";
    let config = Config::parse(good).unwrap();
    assert_eq!(config.knowledge["handbook"].chunk_tokens, 200);
}

#[test]
fn a_reload_finds_new_documents_and_new_bases() {
    #[derive(Clone, Default)]
    struct Editable(Arc<std::sync::Mutex<InMemory>>);
    impl contexture_project::Files for Editable {
        fn list(&self) -> Result<Vec<String>, contexture_project::FilesError> {
            self.0.lock().unwrap().list()
        }
        fn read(&self, path: &str) -> Result<String, contexture_project::FilesError> {
            self.0.lock().unwrap().read(path)
        }
    }
    let files = Editable::default();
    let write = |path: &str, text: &str| files.0.lock().unwrap().0.insert(path.to_owned(), text.to_owned());
    write("prompts/p.md", "---\nuse: [{retriever: handbook}]\n---\nHelp.");
    let mut project = Project::from_files(Arc::new(files.clone())).unwrap();
    assert!(project.prompt("p").is_err());
    write(REFUNDS.0, REFUNDS.1);
    project.reload().unwrap();
    assert!(parts(&project, "refunds").contains("knowledge:handbook#1"));
    write("knowledge/handbook/holidays.md", "Holidays: there are 28 days.");
    project.reload().unwrap();
    assert!(
        parts(&project, "holidays").contains("knowledge:handbook#2 envelope kept"),
        "{}",
        parts(&project, "holidays")
    );
}

#[test]
fn a_base_has_its_own_weights_and_bad_ones_are_refused() {
    let prompt = "---\nuse: [{retriever: {base: handbook, top_k: 1}}]\n---\nHelp.";
    let found = |config: &str| {
        let project = project(&[("prompts/p.md", prompt), REFUNDS, ("contexture.toml", config)]);
        let options = ResolveOptions::default().user_message("shipping is free");
        let pass = block_on(project.prompt("p").unwrap().resolve(options)).unwrap();
        let hit = pass.explain().parts.into_iter().find(|it| it.source.starts_with("knowledge:")).unwrap();
        let shares = hit.detail.unwrap()["shares"].clone();
        shares.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found(""), "lexical feedback phrase");
    assert_eq!(found("[knowledge.handbook.ranking.signals]\nfeedback = 0\nphrase = 0"), "lexical");
    let refused = |weights: &str| {
        let config = format!("[knowledge.handbook.ranking]\n{weights}\n");
        Config::parse(&config).unwrap_err().to_string()
    };
    insta::assert_snapshot!(refused("signals = {lexical = -1.0}"), @"contexture.toml:1:1: `knowledge.handbook.ranking`: `lexical` is -1; it must be 0 or more");
    insta::assert_snapshot!(refused("b = 2"), @"contexture.toml:1:1: `knowledge.handbook.ranking`: `b` is 2; it must be at most 1");
    insta::assert_snapshot!(refused("signals = {lexical = 0, feedback = 0, phrase = 0, dense = 0}"), @"contexture.toml:1:1: `knowledge.handbook.ranking`: no signal counts: one of `signals` must be more than 0");
    insta::assert_snapshot!(refused("signals = {lexcal = 1}"), @"contexture.toml:2:12: `knowledge.handbook.ranking.signals`: unknown field `lexcal` (did you mean `lexical`?)");
}

#[cfg(unix)]
#[test]
fn a_converter_makes_text_of_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("prompts/p.md", "---\nuse: [{retriever: {base: handbook, top_k: 1}}]\n---\nHelp.");
    write("contexture.toml", "[knowledge.handbook]\nconverter = [\"tr\", \"%\", \"#\"]\n");
    write("knowledge/handbook/refunds.pdf", "%PDF refunds take 30 days");
    let project = Project::open(folder.path()).unwrap();
    assert!(parts(&project, "refunds").contains("knowledge:handbook#1 envelope kept"));
}

/// Writes a static model of four words in two dimensions: refunds and money mean the same.
#[cfg(feature = "static-model")]
fn static_model(folder: &std::path::Path) {
    let words = ["[UNK]", "refunds", "money", "shipping"];
    let vectors: [[f32; 2]; 4] = [[0.0, 0.0], [1.0, 0.0], [1.0, 0.1], [0.0, 1.0]];
    let vocabulary: serde_json::Map<_, _> =
        words.iter().enumerate().map(|(idx, it)| ((*it).to_owned(), json!(idx))).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "post_processor": null,
        "decoder": null, "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    });
    let data: Vec<u8> = vectors.iter().flatten().flat_map(|it| it.to_le_bytes()).collect();
    let header = json!({"embeddings": {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, data.len()]}});
    let header = header.to_string();
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend(header.bytes());
    weights.extend(data);
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(folder.join("model.safetensors"), weights).unwrap();
    std::fs::write(folder.join("config.json"), json!({"normalize": true}).to_string()).unwrap();
}

#[cfg(feature = "static-model")]
#[test]
fn a_static_model_of_the_project_ranks_by_meaning() {
    use contexture_knowledge::Query;
    use contexture_session::{BaseId, Tenant};

    let folder = tempfile::tempdir().unwrap();
    static_model(&folder.path().join("models/tiny"));
    std::fs::create_dir_all(folder.path().join("knowledge/handbook")).unwrap();
    std::fs::write(folder.path().join("knowledge/handbook/a.md"), "refunds").unwrap();
    std::fs::write(folder.path().join("knowledge/handbook/b.md"), "shipping").unwrap();
    std::fs::write(folder.path().join("contexture.toml"), "[embedder]\npath = \"models/tiny\"\n").unwrap();
    let project = Project::open(folder.path()).unwrap();
    let base = project.base(&BaseId::parse("handbook").unwrap());
    let tenant = Tenant::default();
    let search = || {
        let retriever = block_on(base.retriever(&tenant)).unwrap();
        let found = block_on(retriever.retrieve(Query::new("money", 1))).unwrap();
        let hit = found.hits.first().map(|it| it.text.clone());
        (hit, found.notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    let (hit, notes) = search();
    assert_eq!(hit, None);
    assert!(notes.starts_with("ranked without vectors: 2 chunks have none of `static-"), "{notes}");
    let contexture_project::BaseHome::Folder(key) = base.home(&tenant) else { panic!() };
    assert_eq!(block_on(base.embed(&key, &|_| {})).unwrap(), Some(2));
    assert_eq!(search(), (Some("refunds".to_owned()), String::new()));
}

#[test]
fn a_static_model_that_is_missing_is_a_note_and_an_error_of_embedding() {
    use contexture_session::{BaseId, Tenant};

    let config = "[embedder]\npath = \"models/none\"\n";
    let project = project(&[("contexture.toml", config), REFUNDS]);
    let base = project.base(&BaseId::parse("handbook").unwrap());
    let retriever = block_on(base.retriever(&Tenant::default()));
    assert!(retriever.is_ok());
    let contexture_project::BaseHome::Folder(key) = base.home(&Tenant::default()) else { panic!() };
    let refused = block_on(base.embed(&key, &|_| {})).unwrap_err().to_string();
    assert!(refused.contains("embedder `models/none` is not available"), "{refused}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_takes_long_leaves_the_thread_to_others() {
    use contexture_session::BaseId;

    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("knowledge/handbook")).unwrap();
    std::fs::write(folder.path().join("knowledge/handbook/a.pdf"), "Refunds take 30 days.").unwrap();
    let converter = "[knowledge.handbook]\nconverter = [\"sh\", \"-c\", \"sleep 0.5; cat\"]\n";
    std::fs::write(folder.path().join("contexture.toml"), converter).unwrap();
    let project = Project::open(folder.path()).unwrap();
    let base = project.base(&BaseId::parse("handbook").unwrap());
    let mut n_turns = 0;
    let others = async {
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            n_turns += 1;
        }
    };
    tokio::select! {
        opened = base.open_folder() => opened.unwrap(),
        () = others => {}
    }
    assert!(n_turns > 1, "nothing else ran meanwhile");
}
