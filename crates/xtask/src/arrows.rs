//! Dependencies between crates point down only.

use serde_json::Value;

/// The crates from top to bottom: one may use those on lower floors only. Crates on one floor may not use
/// each other.
const FLOORS: &[&[&str]] = &[
    &["contexture-cli"],
    &["contexture-server"],
    &["contexture"],
    &["contexture-project"],
    &["contexture-flow", "contexture-capabilities"],
    &["contexture-agent", "contexture-knowledge"],
    &["contexture-model", "contexture-store-sqlite", "contexture-store-postgres"],
    &["contexture-session", "contexture-compose", "contexture-wire"],
    &["contexture-history"],
    &["contexture-template", "contexture-message"],
];

/// Crates that are there for development; nothing shipped may use them.
const DEV_ONLY: &[&str] =
    &["contexture-bench", "contexture-testkit", "contexture-mockmodel", "contexture-pgtest", "xtask"];

/// Lists the arrows that do not point down, as `from -> to`.
pub(crate) fn upward(metadata: &[u8]) -> Result<Vec<String>, String> {
    let metadata: Value = serde_json::from_slice(metadata).map_err(|err| format!("cargo metadata: {err}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let names: Vec<&str> = packages.iter().filter_map(|it| it["name"].as_str()).collect();
    let mut upward = Vec::new();
    for package in packages {
        let from = package["name"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = dependency["name"].as_str().unwrap_or_default();
            // A dev-dependency is no arrow: tests may use the test kit, which uses the crate under test.
            let is_shipped = dependency["kind"].as_str() != Some("dev");
            if is_shipped && names.contains(&to) && !points_down(from, to) {
                upward.push(format!("{from} -> {to}"));
            }
        }
    }
    Ok(upward)
}

fn points_down(from: &str, to: &str) -> bool {
    if DEV_ONLY.contains(&from) {
        return true;
    }
    match (floor(from), floor(to)) {
        (Some(from), Some(to)) => to > from,
        // A crate that is on no floor has not been given its place yet.
        _ => false,
    }
}

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::upward;

    fn checked(arrows: &[(&str, &str, Option<&str>)]) -> String {
        let package = |from: &str| {
            let dependencies: Vec<_> = arrows
                .iter()
                .filter(|(it, _, _)| *it == from)
                .map(|(_, to, kind)| serde_json::json!({"name": to, "kind": kind}))
                .collect();
            serde_json::json!({"name": from, "dependencies": dependencies})
        };
        let names = ["contexture", "contexture-compose", "contexture-message", "contexture-testkit", "new"];
        let packages: Vec<_> = names.iter().map(|it| package(it)).collect();
        let metadata = serde_json::json!({"packages": packages}).to_string();
        upward(metadata.as_bytes()).unwrap().join(", ")
    }

    #[test]
    fn the_arrows_of_this_workspace_point_down() {
        assert_eq!(crate::steps::arrows(), Ok(()));
    }

    #[test]
    fn arrows_point_down_only() {
        assert_eq!(checked(&[("contexture", "contexture-compose", None)]), "");
        assert_eq!(
            checked(&[("contexture-message", "contexture-compose", None)]),
            "contexture-message -> contexture-compose"
        );
    }

    #[test]
    fn test_crates_are_for_tests() {
        assert_eq!(checked(&[("contexture-compose", "contexture-testkit", Some("dev"))]), "");
        assert_eq!(
            checked(&[("contexture-compose", "contexture-testkit", None)]),
            "contexture-compose -> contexture-testkit"
        );
    }

    #[test]
    fn a_crate_without_a_place_is_reported() {
        assert_eq!(checked(&[("new", "contexture-message", None)]), "new -> contexture-message");
    }
}
