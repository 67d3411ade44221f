//! The PostgreSQL server that the tests run against: installed if need be, then started in a temporary folder.

use std::process::Command;

use contexture_pgtest::Postgres;

/// Starts a server for the tests; it stops, and its folder goes away, when the value is dropped.
pub(crate) fn start() -> Result<Postgres, String> {
    if contexture_pgtest::find().is_none() {
        install()?;
    }
    println!("\n==> a PostgreSQL server for the tests");
    Postgres::start()
}

fn install() -> Result<(), String> {
    println!("\n==> installing Debian's package `postgresql`");
    let missing = |err| format!("{}: {err}", contexture_pgtest::MISSING);
    apt_get(&["update"]).map_err(missing)?;
    apt_get(&["install", "-y", "--no-install-recommends", "postgresql"]).map_err(missing)?;
    contexture_pgtest::find().map(|_| ()).ok_or_else(|| contexture_pgtest::MISSING.to_owned())
}

/// Runs `apt-get`, through `sudo` unless we are root.
pub(crate) fn apt_get(args: &[&str]) -> Result<(), String> {
    let mut words: Vec<&str> = if is_root() { vec![] } else { vec!["sudo", "--non-interactive"] };
    words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    words.extend(args);
    let shown = words.join(" ");
    let status = Command::new(words[0]).args(&words[1..]).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}")),
        Err(err) => Err(format!("`{shown}`: {err}")),
    }
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|it| it.stdout.trim_ascii() == b"0")
}
