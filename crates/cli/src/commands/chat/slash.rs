//! Parses slash commands.

use contexture_project::did_you_mean;

use crate::error::Failure;

/// A slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slash {
    Help,
    Exit,
    Sessions,
    New(Option<String>),
    Session(String),
    History(usize),
    Model(Option<String>),
    Tools,
    System(Option<String>),
    Retry,
    /// `true` shows every part.
    Context(bool),
    Compact,
    Undo,
    Archives(Option<u64>),
    Refresh,
}

/// All commands, with their arguments and descriptions.
pub(super) const COMMANDS: [(&str, &str, &str); 15] = [
    ("help", "", "show this"),
    ("exit", "", "leave; so does Ctrl-D"),
    ("sessions", "", "list the sessions"),
    ("new", "[ID]", "begin a new session"),
    ("session", "ID", "go on with a session; it is made if it is not there"),
    ("history", "[N]", "show the newest N turns, or 10"),
    ("model", "[NAME]", "show the model, or choose `provider/model` for this session"),
    ("tools", "", "list the tools that the model may call"),
    ("system", "[TEXT]", "give this session further instructions, or take them away"),
    ("retry", "", "say the last thing again"),
    ("context", "[all]", "show what fills the model's window now, in groups or part by part"),
    ("compact", "", "summarise the older turns now"),
    ("undo", "", "take the newest summary back"),
    ("archives", "[N]", "list what is summarised, or show what one archive covers"),
    ("refresh", "", "evaluate the frozen prefix again at the next turn"),
];

/// Parses a line that starts with a slash.
pub(super) fn parse(line: &str) -> Result<Slash, Failure> {
    let line = line.trim_start_matches('/');
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = Some(rest.trim()).filter(|it| !it.is_empty()).map(str::to_owned);
    let wrong =
        |what: &str| Err(Failure::usage(format!("`/{name}` {what}")).hint("`/help` lists the commands"));
    let slash = match name {
        "help" => Slash::Help,
        "exit" => Slash::Exit,
        "sessions" => Slash::Sessions,
        "tools" => Slash::Tools,
        "retry" => Slash::Retry,
        "compact" => Slash::Compact,
        "undo" => Slash::Undo,
        "refresh" => Slash::Refresh,
        "context" => {
            return match argument.as_deref() {
                None => Ok(Slash::Context(false)),
                Some("all") => Ok(Slash::Context(true)),
                Some(_) => wrong("takes nothing, or `all`"),
            };
        }
        "archives" => {
            let number = argument.as_deref().map(|it| it.strip_prefix('a').unwrap_or(it).parse());
            return match number.transpose() {
                Ok(number) => Ok(Slash::Archives(number)),
                Err(_) => wrong("takes the number of an archive"),
            };
        }
        "new" => return Ok(Slash::New(argument)),
        "model" => return Ok(Slash::Model(argument)),
        "system" => return Ok(Slash::System(argument)),
        "session" => {
            return match argument {
                Some(id) => Ok(Slash::Session(id)),
                None => wrong("needs the name of a session"),
            };
        }
        "history" => {
            return match argument.as_deref().map_or(Ok(10), str::parse) {
                Ok(n_turns) => Ok(Slash::History(n_turns)),
                Err(_) => wrong("takes a number of turns"),
            };
        }
        _ => {
            let failure = Failure::usage(format!("there is no command `/{name}`"));
            let near = did_you_mean(name, COMMANDS.iter().map(|it| it.0)).map(|it| it.replacen('`', "`/", 1));
            return Err(failure.hint(near.unwrap_or_else(|| {
                "`/help` lists the commands; a blank in front sends the line to the model".to_owned()
            })));
        }
    };
    match argument {
        None => Ok(slash),
        Some(_) => wrong("takes nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, Slash, parse};

    fn parsed(line: &str) -> String {
        match parse(line) {
            Ok(slash) => format!("{slash:?}"),
            Err(failure) => {
                let error = failure.to_json()["error"].clone();
                format!("{}: {}", error["message"], error["hint"])
            }
        }
    }

    #[test]
    fn commands_take_what_they_say() {
        assert_eq!(parsed("/help"), "Help");
        assert_eq!(parsed("/history"), "History(10)");
        assert_eq!(parsed("/history 3 "), "History(3)");
        assert_eq!(parsed("/new"), "New(None)");
        assert_eq!(parsed("/system Be  brief."), r#"System(Some("Be  brief."))"#);
        assert_eq!(parsed("/context all"), "Context(true)");
        assert_eq!(parsed("/archives a3"), "Archives(Some(3))");
        assert!(parsed("/archives x").contains("the number of an archive"));
        assert!(parsed("/session").contains("needs the name"));
        assert!(parsed("/exit now").contains("takes nothing"));
        assert!(parsed("/history x").contains("a number of turns"));
    }

    #[test]
    fn an_unknown_command_is_told_with_the_nearest_one() {
        assert_eq!(parsed("/histroy"), r#""there is no command `/histroy`": "did you mean `/history`?""#);
        assert!(parsed("/etc/passwd is what?").contains("a blank in front"));
    }

    #[test]
    fn every_command_that_is_listed_is_there() {
        for (name, takes, _) in COMMANDS {
            let line = format!("/{name} {}", if takes == "ID" { "x" } else { "" });
            assert!(
                !matches!(parse(&line), Err(failure) if failure.to_text().contains("no command")),
                "{line}"
            );
        }
        assert_eq!(parse("/new a").ok(), Some(Slash::New(Some("a".to_owned()))));
    }
}
