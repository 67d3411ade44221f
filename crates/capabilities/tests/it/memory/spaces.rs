//! Another user's, agent's or tenant's memory never appears.

use contexture_capabilities::memory::{
    Forget, ForgetOptions, Layer, Memories, Namespace, NewRecord, RecordFilter, SearchRequest,
};
use contexture_session::Tenant;
use proptest::prelude::*;
use serde_json::json;

use super::Process;

/// Names that are easily confused: parts of one look like parts of another.
fn name() -> impl Strategy<Value = Option<String>> {
    let names = ["a", "b", "a,agent=b", "\"a\"", "a\",\"agent\":\"b", "", "user=a", "ä", "a/b"];
    prop_oneof![Just(None), proptest::sample::select(names.to_vec()).prop_map(|it| Some(it.to_owned()))]
}

fn place() -> impl Strategy<Value = (Tenant, Namespace)> {
    let tenant = proptest::sample::select(vec!["t1", "t2", "default"]);
    (tenant, name(), name(), name()).prop_map(|(tenant, user, agent, custom)| {
        (Tenant::parse(tenant).unwrap(), Namespace { user, agent, custom })
    })
}

async fn check(memories: &Memories, places: &[(Tenant, Namespace)]) {
    for (no, (tenant, namespace)) in places.iter().enumerate() {
        let space = memories.space(tenant, namespace.clone()).unwrap();
        space.add(NewRecord::new(Layer::Facts, format!("harbour secret number{no}"))).await.unwrap();
        let create = json!({"command": "create", "path": format!("/memories/f{no}"), "file_text": format!("harbour file{no}")});
        space.run_file_command(&create, None).await.unwrap().unwrap();
    }
    for (tenant, namespace) in places {
        let space = memories.space(tenant, namespace.clone()).unwrap();
        let own = |it: &&(usize, &(Tenant, Namespace))| it.1.0 == *tenant && it.1.1 == *namespace;
        let numbered: Vec<_> = places.iter().enumerate().collect();
        let mut expected: Vec<String> = numbered
            .iter()
            .filter(own)
            .flat_map(|(no, _)| [format!("harbour secret number{no}"), format!("harbour file{no}")])
            .collect();
        expected.sort();
        let mut listed: Vec<String> =
            space.list(&RecordFilter::default()).await.unwrap().into_iter().map(|it| it.text).collect();
        listed.sort();
        assert_eq!(listed, expected);
        let mut found: Vec<String> = space
            .search(&SearchRequest::new("harbour", 100))
            .await
            .unwrap()
            .into_iter()
            .map(|it| it.text)
            .collect();
        found.sort();
        assert_eq!(found, expected);
        let view =
            space.run_file_command(&json!({"command": "view", "path": "/memories"}), None).await.unwrap();
        let shown: Vec<usize> =
            (0..places.len()).filter(|no| view.as_ref().unwrap().contains(&format!("/f{no}"))).collect();
        let own: Vec<usize> =
            numbered.iter().filter(own).map(|(no, _)| *no).filter(|no| !shown.contains(no)).collect();
        assert_eq!(own, Vec::<usize>::new());
        let exported = space.export().await.unwrap();
        assert_eq!(exported.lines().count(), expected.len());
    }
    // Forgetting one forgets nothing of another.
    let (tenant, namespace) = &places[0];
    let options = ForgetOptions::default();
    memories.space(tenant, namespace.clone()).unwrap().forget(&Forget::Everything, options).await.unwrap();
    for (other, further) in places {
        let space = memories.space(other, further.clone()).unwrap();
        let is_same = other == tenant && further == namespace;
        assert_eq!(space.list(&RecordFilter::default()).await.unwrap().is_empty(), is_same);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn another_users_agents_or_tenants_memory_never_appears(places in prop::collection::vec(place(), 1..8)) {
        let process = Process::new();
        futures::executor::block_on(check(&process.memories, &places));
    }
}

#[tokio::test]
async fn namespaces_are_listed_by_tenant() {
    let process = Process::new();
    let tenant = Tenant::parse("t1").unwrap();
    for namespace in [Namespace::of_user("ada"), Namespace::of_agent("support")] {
        let space = process.memories.space(&tenant, namespace).unwrap();
        space.add(NewRecord::new(Layer::Facts, "something")).await.unwrap();
    }
    let listed = process.memories.namespaces(&tenant).await.unwrap();
    assert_eq!(listed, [Namespace::of_agent("support"), Namespace::of_user("ada")]);
    assert_eq!(process.memories.namespaces(&Tenant::default()).await.unwrap(), []);
}
