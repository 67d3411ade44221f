//! Whom the server runs as: PostgreSQL refuses to run as root.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A user without privileges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// Returns the account to change to; nothing if we are not root and can stay who we are.
    pub(crate) fn needed() -> Result<Option<Account>, String> {
        let us = std::fs::metadata("/proc/self").map_err(|err| format!("/proc/self: {err}"))?.uid();
        if us != 0 {
            return Ok(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").map_err(|err| format!("/etc/passwd: {err}"))?;
        let account = ["postgres", "nobody"].iter().find_map(|it| parse(&users, it));
        account.map(Some).ok_or_else(|| "there is no user `postgres` or `nobody` to run as".to_owned())
    }

    /// Makes a command run as this account.
    pub(crate) fn apply(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }

    /// Gives a folder to this account.
    pub(crate) fn own(self, folder: &Path) -> Result<(), String> {
        std::os::unix::fs::chown(folder, Some(self.uid), Some(self.gid))
            .map_err(|err| format!("{}: {err}", folder.display()))
    }
}

fn parse(users: &str, name: &str) -> Option<Account> {
    let line = users.lines().find(|it| it.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2).map(str::parse);
    Some(Account { uid: fields.next()?.ok()?, gid: fields.next()?.ok()? })
}
