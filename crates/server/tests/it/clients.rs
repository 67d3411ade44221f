//! Clients that generators make of the OpenAPI document, against the server: see `tests/clients`.
//!
//! The TypeScript client is made if `CONTEXTURE_TEST_NODE` is set, the Python client if `CONTEXTURE_TEST_PYTHON` is.
//! `cargo xtask test` sets both.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use contexture_server::openapi;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::scene::{Scene, answering};
use crate::sdk::given;

const TSCONFIG: &str = r#"{
    "compilerOptions": {"strict": true, "target": "es2022", "module": "nodenext", "lib": ["es2022", "dom"], "types": []},
    "files": ["client.ts", "wrong.ts"]
}"#;

/// Returns a folder with the document.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("openapi.json"), openapi()).unwrap();
    folder
}

fn source(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Runs a program in a folder, to a good end.
async fn run(folder: &Path, program: impl AsRef<OsStr>, args: &[&OsStr]) {
    let mut command = Command::new(program);
    // The Python generator runs `ruff`, which is installed next to it.
    let bin = Path::new(command.as_std().get_program()).parent().map(Path::to_owned).unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let output = command.current_dir(folder).env("PATH", path).args(args).kill_on_drop(true).output();
    let output = output.await.unwrap();
    let texts = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success(), "{args:?}: {}", texts.concat());
}

async fn server() -> Scene {
    answering(&["Hello.", "Hello again."]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typescript_client_is_generated_and_works() {
    let Some(node) = given("CONTEXTURE_TEST_NODE").map(PathBuf::from) else { return };
    let (folder, scene) = (folder(), server().await);
    let path = folder.path();
    std::os::unix::fs::symlink(node.join("node_modules"), path.join("node_modules")).unwrap();
    std::fs::write(path.join("package.json"), r#"{"type": "module"}"#).unwrap();
    std::fs::write(path.join("tsconfig.json"), TSCONFIG).unwrap();
    for name in ["client.ts", "wrong.ts"] {
        std::fs::copy(source(name), path.join(name)).unwrap();
    }
    let modules = node.join("node_modules");
    let (generator, compiler) =
        (modules.join("openapi-typescript/bin/cli.js"), modules.join("typescript/bin/tsc"));
    run(path, "node", &[generator.as_ref(), "openapi.json".as_ref(), "-o".as_ref(), "api.d.ts".as_ref()])
        .await;
    run(path, "node", &[compiler.as_ref(), "-p".as_ref(), ".".as_ref()]).await;
    run(path, "node", &["client.js".as_ref(), scene.url.as_ref()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_client_is_generated_and_works() {
    let Some(python) = given("CONTEXTURE_TEST_PYTHON") else { return };
    let (folder, scene) = (folder(), server().await);
    let path = folder.path();
    let generate =
        "-m openapi_python_client generate --path openapi.json --output-path contexture_client --meta none";
    let generate: Vec<&OsStr> = generate.split(' ').chain(["--fail-on-warning"]).map(OsStr::new).collect();
    run(path, &python, &generate).await;
    run(path, &python, &[source("client.py").as_ref(), path.as_ref(), scene.url.as_ref()]).await;
}

/// Calls a function with every schema in a value, and where it is.
fn each_schema(value: &Value, at: &str, check: &mut impl FnMut(&Value, &str)) {
    const NAMED: [&str; 2] = ["properties", "schemas"];
    const LISTS: [&str; 4] = ["oneOf", "anyOf", "allOf", "prefixItems"];
    let Value::Object(fields) = value else {
        value.as_array().into_iter().flatten().for_each(|it| each_schema(it, at, check));
        return;
    };
    for (name, field) in fields {
        let at = format!("{at}/{name}");
        match (name.as_str(), field) {
            (name, Value::Object(all)) if NAMED.contains(&name) => {
                all.iter().for_each(|(name, it)| check(it, &format!("{at}/{name}")));
            }
            (name, Value::Array(all)) if LISTS.contains(&name) => all.iter().for_each(|it| check(it, &at)),
            ("schema" | "items" | "not", it) => check(it, &at),
            ("additionalProperties", it) if *it != false => check(it, &at),
            _ => {}
        }
        each_schema(field, &at, check);
    }
}

#[test]
fn the_document_suits_generators() {
    let document: Value = serde_json::from_str(&openapi()).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut wrong = Vec::new();
    each_schema(&document, "", &mut |schema, at| {
        let is_property = at.contains("/properties/");
        let reference = schema["$ref"].as_str().and_then(|it| it.strip_prefix("#/components/schemas/"));
        if schema.is_boolean() {
            wrong.push(format!("{at}: a boolean"));
        }
        if is_property && !schema["default"].is_null() {
            wrong.push(format!("{at}: a default, which makes a property required in TypeScript"));
        }
        if reference.is_some_and(|it| !schemas.contains_key(it)) {
            wrong.push(format!("{at}: {schema} does not exist"));
        }
    });
    let is_odd = |name: &str| {
        name.ends_with(|it: char| it.is_ascii_digit())
            || ["View", "Shape"].iter().any(|it| name.ends_with(it))
            || !name.starts_with(|it: char| it.is_ascii_uppercase())
    };
    wrong.extend(schemas.keys().filter(|it| is_odd(it)).map(|it| format!("{it}: an odd name")));
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let has = |name: &str| !operation[name].is_null();
            if !["operationId", "tags", "summary"].iter().all(|it| has(it)) {
                wrong.push(format!("{method} {path}: no name, tag or summary"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for union in ["TurnEvent", "RunEvent", "Part", "ToolOutput"] {
        let union = &schemas[union];
        let n_variants = union["oneOf"].as_array().map_or(0, Vec::len);
        let mapping = &union["discriminator"]["mapping"];
        assert_eq!(mapping.as_object().map_or(0, |it| it.len()), n_variants, "{union}");
    }
    assert_eq!(openapi(), openapi(), "equal documents have equal bytes");
}
