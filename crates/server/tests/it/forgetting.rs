//! What is forgotten leaves no trace: the bytes of the store are searched, in SQLite's files and in every row of
//! PostgreSQL.

use std::path::PathBuf;
use std::sync::Arc;

use contexture::SystemTime;
use contexture_message::{Answer, Part, ToolCall};
use contexture_model::{Scripted, Step};
use contexture_project::{InMemory, Project};
use contexture_session::{Documents, SourceIndex, Store};
use contexture_store_postgres::{PostgresConfig, PostgresStore};
use contexture_store_sqlite::{SqliteConfig, SqliteStore};
use serde_json::{Value, json};

use crate::scene::{Ground, Scene, json_of};

const FILES: [(&str, &str); 2] = [
    ("contexture.toml", "[server]\nshutdown_grace_seconds = 1\n"),
    (
        "prompts/chat.md",
        "---\nmodel: openai/gpt-5-mini\nuse:\n  - memory: {policy: {archival_mode: auto}, capture: {accept: auto}}\n---\n\
         You are helpful.\n",
    ),
];

/// Where the bytes of a store are.
enum Bytes {
    Folder(PathBuf),
    Schema(String),
}

impl Bytes {
    /// Returns the places that have a word.
    async fn with(&self, word: &str) -> Vec<String> {
        match self {
            Bytes::Folder(folder) => {
                let has = |bytes: Vec<u8>| bytes.windows(word.len()).any(|it| it == word.as_bytes());
                let files = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
                let files = files.filter(|it| has(std::fs::read(it).unwrap()));
                files.map(|it| it.display().to_string()).collect()
            }
            Bytes::Schema(schema) => tables_with(schema, word).await,
        }
    }
}

/// Returns the tables of a schema that have a word in any row, as text or as bytes.
async fn tables_with(schema: &str, word: &str) -> Vec<String> {
    let url = contexture_pgtest::shared_url().unwrap();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let bytes: String = word.bytes().map(|it| format!("{it:02x}")).collect();
    let sql = "SELECT tablename FROM pg_tables WHERE schemaname = $1";
    let mut found = Vec::new();
    for table in client.query(sql, &[&schema]).await.unwrap() {
        let table: String = table.get(0);
        let sql = format!(
            "SELECT count(*) FROM \"{schema}\".\"{table}\" it WHERE it::text LIKE $1 OR it::text LIKE $2"
        );
        let patterns = (format!("%{word}%"), format!("%{bytes}%"));
        let rows: i64 = client.query_one(&sql, &[&patterns.0, &patterns.1]).await.unwrap().get(0);
        if rows > 0 {
            found.push(table);
        }
    }
    found
}

fn ground(store: impl Store + Documents + SourceIndex) -> Ground {
    let store = Arc::new(store);
    Ground { store: store.clone(), documents: store.clone(), sources: store }
}

/// A server with a store whose bytes can be searched.
struct Searched {
    scene: Scene,
    model: Scripted,
    bytes: Bytes,
    _folder: Option<tempfile::TempDir>,
}

impl Searched {
    async fn on_sqlite(steps: Vec<Step>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = SqliteConfig::new(Arc::new(SystemTime));
        let store = SqliteStore::open(folder.path().join("s.db"), config).unwrap();
        let bytes = Bytes::Folder(folder.path().to_owned());
        Self::of(ground(store), steps, bytes, Some(folder)).await
    }

    async fn on_postgres(steps: Vec<Step>) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let schema = format!("forgetting_{}_{now}", std::process::id());
        let config = PostgresConfig { schema: schema.clone(), connections: 8, ..PostgresConfig::default() };
        let url = contexture_pgtest::shared_url().unwrap();
        let store = PostgresStore::connect(&url, config).await.unwrap();
        Self::of(ground(store), steps, Bytes::Schema(schema), None).await
    }

    async fn of(ground: Ground, steps: Vec<Step>, bytes: Bytes, folder: Option<tempfile::TempDir>) -> Self {
        let project = Project::from_files(Arc::new(InMemory::new(FILES))).unwrap();
        let model = Scripted::new(steps);
        let given = model.clone();
        let agent = Arc::new(move |_: &Project| Ok(contexture::agent(given.clone())));
        Self { scene: ground.instance_of(project, agent).await, model, bytes, _folder: folder }
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        json_of(self.scene.post(path, body).send().await.unwrap()).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        json_of(self.scene.get(path).send().await.unwrap()).await
    }

    async fn say(&self, session: &str, text: &str) {
        self.post("/v1/sessions", json!({"id": session})).await;
        let body = json!({"prompt": "chat", "user": text, "user_id": "ada"});
        let (status, answer) = self.post(&format!("/v1/sessions/{session}/turns"), body).await;
        assert_eq!(status, 200, "{answer}");
        // The passes of the turn are written.
        self.get(&format!("/v1/sessions/{session}/passes")).await;
    }

    async fn add(&self, layer: &str, text: &str) -> String {
        let (status, new) = self.post("/v1/memories?user=ada", json!({"text": text, "layer": layer})).await;
        assert_eq!(status, 201, "{new}");
        new["id"].as_str().unwrap().to_owned()
    }

    async fn forget(&self, what: Value) -> Value {
        let (status, receipt) = self.post("/v1/memories/forget?user=ada", json!({"what": what})).await;
        assert_eq!(status, 200, "{receipt}");
        receipt["receipt"].clone()
    }

    async fn assert_gone(&self, word: &str) {
        assert_eq!(self.bytes.with(word).await, Vec::<String>::new(), "{word}");
        let (_, found) = self.post("/v1/memories/search?user=ada", json!({"query": word})).await;
        assert!(!found.to_string().contains(word), "{found}");
    }

    async fn assert_there(&self, word: &str) {
        assert_ne!(self.bytes.with(word).await, Vec::<String>::new(), "{word}");
    }
}

fn remembers(text: &str) -> Step {
    let arguments = json!({"text": text});
    let call = ToolCall { id: "c1".into(), name: "remember".into(), arguments };
    Step::Answer(Answer::parts(vec![Part::ToolCall(call)]))
}

fn says(text: &str) -> Step {
    Step::Answer(Answer::text(text))
}

/// Longer than what is stored in a row.
fn large() -> String {
    format!("The narwhalword is long. {}", "narwhalword and so on, ".repeat(600))
}

fn steps_of_records() -> Vec<Step> {
    vec![
        says("Under the shed."),
        remembers("The axolotldoor of Ada is green."),
        says("Noted."),
        remembers(&large()),
        says("Noted too."),
        says("Fine."),
    ]
}

/// A record of the application and of the model's tool, as core memory, as recall, in a call, and in a blob.
async fn records_leave_no_trace(searched: Searched) {
    let rule = searched.add("rules", "Always whisper about the zanzibarkey.").await;
    let fact = searched.add("facts", "The quokkastone in Graz lies under the wombatshed.").await;
    searched.add("facts", "Ada likes the platypus.").await;
    searched.say("one", "What lies in Graz?").await;
    searched.say("one", "Remember the color of my door, and my platypus.").await;
    searched.say("one", "Remember all of this.").await;
    let request = format!("{:?}", searched.model.requests()[0]);
    assert!(request.contains("zanzibarkey") && request.contains("quokkastone"), "it was shown: {request}");
    let (_, all) = searched.get("/v1/memories?user=ada").await;
    let id = |word: &str| {
        let mut all = all["memories"].as_array().unwrap().iter();
        all.find(|it| it["text"].as_str().unwrap().contains(word)).unwrap()["id"].clone()
    };
    let (door, long) = (id("axolotldoor"), id("narwhalword"));
    let words = ["zanzibarkey", "quokkastone", "wombatshed", "axolotldoor", "narwhalword"];
    for word in words {
        searched.assert_there(word).await;
    }
    let receipt = searched.forget(json!({"record": rule})).await;
    assert!(receipt["items"].as_u64() > Some(0) && receipt["passes"].as_u64() > Some(0), "{receipt}");
    for id in [json!(fact), door, long] {
        searched.forget(json!({"record": id})).await;
    }
    for word in words {
        searched.assert_gone(word).await;
    }
    searched.assert_there("platypus").await;
    // What was said stays, and the next turn works; the prefix has nothing of it.
    searched.say("one", "And now?").await;
    let requests = searched.model.requests();
    let last = format!("{:?}", requests.last().unwrap());
    assert!(last.contains("What lies in Graz") && last.contains("Noted too."), "{last}");
    assert!(words.iter().all(|it| !last.contains(it)), "{last}");
    for word in words {
        searched.assert_gone(word).await;
    }
    // The pass says so, shows the rest, and is not sent again.
    let (status, pass) = searched.get("/v1/passes/one.1").await;
    assert_eq!(status, 200, "{pass}");
    assert!(pass["forgotten"].is_string() && pass["request"].to_string().contains("[forgotten]"), "{pass}");
    assert!(pass["request"].to_string().contains("What lies in Graz"));
    for path in ["/v1/passes/one.1/replay", "/v1/passes/one.2/replay"] {
        let (status, problem) = searched.post(path, json!({})).await;
        assert_eq!((status, &problem["code"]), (410, &json!("pass_forgotten")), "{problem}");
    }
    let (_, page) = searched.get("/v1/sessions/one/passes").await;
    let newest = &page["passes"][0];
    assert!(newest["forgotten"].is_null(), "{newest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forgetting_leaves_documents_of_the_application_as_they_are() {
    let searched = Searched::on_sqlite(vec![says("Fine."), says("Yes.")]).await;
    let fact = searched.add("facts", "quokkastone").await;
    searched.say("one", "What of the quokkastone?").await;
    let text = "Ask for the quokkastone at the desk.";
    let artifact = json!({"name": "n.md", "text": text, "summary": "about a quokkastone here"});
    let (status, new) = searched.post("/v1/sessions/one/artifacts", artifact).await;
    assert_eq!(status, 200, "{new}");
    let event = json!({"name": "clerk", "text": "The clerk has the quokkastone now."});
    assert_eq!(searched.post("/v1/threads/one/events", event).await.0, 200);
    let what = json!({"what": {"record": fact}, "dry_run": true});
    let (_, planned) = searched.post("/v1/memories/forget?user=ada", what).await;
    let done = searched.forget(json!({"record": fact})).await;
    let counts = |it: &Value| format!("{} {} {}", it["items"], it["passes"], it["messages"]);
    assert_eq!(counts(&planned["receipt"]), counts(&done), "a dry run says what would be forgotten");
    let (_, read) = searched.get("/v1/sessions/one/artifacts/n.md").await;
    assert_eq!(
        (&read["text"], &read["artifact"]["summary"]),
        (&json!(text), &json!("about a quokkastone here"))
    );
    searched.say("one", "And now?").await;
    let last = format!("{:?}", searched.model.requests().last().unwrap());
    assert!(last.contains("The clerk has the quokkastone now."), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_record_goes_with_the_words_of_its_versions() {
    let searched = Searched::on_sqlite(vec![says("Fine.")]).await;
    let id = searched.add("facts", "The bike of Ada is purplecolored.").await;
    let exported =
        searched.scene.get("/v1/memories/transfer?user=ada").send().await.unwrap().text().await.unwrap();
    let edit = json!({"version": 1, "text": "The bike of Ada is orangecolored."});
    let patched = searched.scene.client.patch(format!("{}/v1/memories/{id}?user=ada", searched.scene.url));
    assert_eq!(patched.json(&edit).send().await.unwrap().status(), 200);
    searched.forget(json!({"record": id})).await;
    let lines = json!({"lines": exported, "source": "backup"});
    let (_, imported) = searched.post("/v1/memories/transfer?user=ada", lines).await;
    assert_eq!(imported["imported"]["added"], 0, "{imported}");
    searched.assert_gone("purplecolored").await;
    searched.assert_gone("orangecolored").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_records_leave_no_bytes_in_the_files_of_sqlite() {
    records_leave_no_trace(Searched::on_sqlite(steps_of_records()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_records_leave_no_bytes_in_the_rows_of_postgres() {
    records_leave_no_trace(Searched::on_postgres(steps_of_records()).await).await;
}

fn steps_of_turns() -> Vec<Step> {
    (0..9).map(|it| says(&format!("Answer {it} about the gnuhat."))).collect()
}

/// A turn, a session, everything of a user: what was said is gone from the log too.
async fn turns_leave_no_trace(searched: Searched) {
    searched.say("one", "From now on, my okapibox is in Graz.").await;
    searched.say("one", "From now on, my lynxbox is in Linz.").await;
    searched.say("two", "From now on, my ibexbox is in Wels.").await;
    searched.say("three", "Where is the lynxbox?").await;
    for word in ["okapibox", "lynxbox", "ibexbox"] {
        searched.assert_there(word).await;
    }
    let receipt = searched.forget(json!({"turn": {"thread": "one", "turn": "t1"}})).await;
    assert_eq!(receipt["records"].as_array().unwrap().len(), 1, "{receipt}");
    searched.assert_gone("okapibox").await;
    searched.assert_there("lynxbox").await;
    let (_, turns) = searched.get("/v1/sessions/one/messages").await;
    assert!(!turns.to_string().contains("okapi"), "{turns}");
    let (status, problem) = searched.get("/v1/passes/one.1").await;
    assert_eq!((status, &problem["code"]), (410, &json!("pass_forgotten")), "{problem}");
    // The thread goes on.
    searched.say("one", "What else?").await;
    let last = format!("{:?}", searched.model.requests().last().unwrap());
    assert!(last.contains("[forgotten]") && last.contains("lynxbox") && !last.contains("okapi"), "{last}");
    searched.assert_gone("okapibox").await;

    searched.forget(json!({"session": "two"})).await;
    searched.assert_gone("ibexbox").await;
    searched.assert_there("lynxbox").await;
    searched.forget(json!("everything")).await;
    for word in ["okapibox", "lynxbox", "ibexbox", "gnuhat"] {
        searched.assert_gone(word).await;
    }
    let (_, all) = searched.get("/v1/memories?user=ada&past=true").await;
    assert_eq!(all["memories"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_turns_leave_no_bytes_in_the_files_of_sqlite() {
    turns_leave_no_trace(Searched::on_sqlite(steps_of_turns()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_turns_leave_no_bytes_in_the_rows_of_postgres() {
    turns_leave_no_trace(Searched::on_postgres(steps_of_turns()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_whose_words_were_forgotten_is_not_tried_again() {
    let searched = Searched::on_sqlite(Vec::new()).await;
    let fact = "The safe opens with blue47x seven.";
    let body = json!({"text": fact, "layer": "facts"});
    let (_, added) = searched.post("/v1/memories?user=ada", body).await;
    let id = added["memory"]["id"].as_str().or(added["id"].as_str()).unwrap().to_owned();
    for (session, text) in [("words", fact), ("turn", "Say nothing of it.")] {
        searched.post("/v1/sessions", json!({"id": session})).await;
        let body = json!({"prompt": "chat", "user": text, "user_id": "ada"});
        let (status, failed) = searched.post(&format!("/v1/sessions/{session}/turns"), body).await;
        assert!(status >= 500 && failed["turn"] == "t1", "{status} {failed}");
    }
    let before = searched.model.requests().len();
    let turn = json!({"turn": {"thread": "turn", "turn": "t1"}});
    for what in [json!({"record": id}), turn] {
        let (status, receipt) = searched.post("/v1/memories/forget?user=ada", json!({"what": what})).await;
        assert_eq!(status, 200, "{receipt}");
    }
    for session in ["words", "turn"] {
        let path = format!("/v1/sessions/{session}/turns/t1/retry");
        let (status, problem) = searched.post(&path, json!({})).await;
        assert_eq!((status, &problem["code"]), (410, &json!("turn_forgotten")), "{problem}");
    }
    assert_eq!(searched.model.requests().len(), before, "nothing was sent");
}
