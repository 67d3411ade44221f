//! The examples below the help of each command.

pub(super) const EXAMPLES: &str = "\
Examples:
  contexture init hello && cd hello
  contexture resolve support --set plan=pro
  contexture inspect support --budget 120
  contexture run support --set plan=pro
  echo '[{\"documents\": [\"one\", \"two\"]}]' | contexture render -

Exit codes: 0 done, 1 a check failed, 2 wrong usage or definition, 3 a model, store or network
failed.
CONTEXTURE_SECTION_KEY in the environment overrides `key` of [section] in contexture.toml.";

pub(super) const INIT: &str = "\
Examples:
  contexture init                  here
  contexture init my-prompts       in a folder of its own

Nothing is overwritten: if one of the files exists, none is written.";

pub(super) const RESOLVE: &str = "\
Examples:
  contexture resolve support --input '{\"plan\": \"pro\"}'
  contexture resolve support --input @input.json --set locale=de --set user.age=41
  contexture resolve support --provider openai --model gpt-5-mini --budget 4000
  contexture resolve support --history chat.jsonl --user 'And in Dutch?'
  contexture resolve support --wire anthropic --model anthropic/claude-sonnet-4-5
  contexture resolve support --json > pass.json";

pub(super) const INSPECT: &str = "\
Examples:
  contexture inspect support
  contexture inspect support --set plan=pro --budget 120
  contexture inspect support --json | jq '.dropped'";

pub(super) const RUN: &str = "\
Examples:
  contexture run support --user 'Where is my order?'
  git diff | contexture run review --user - --model anthropic/claude-sonnet-4-5
  contexture run support --user 'And now?' --session customer-17 --key request-8c1
  contexture run extract --input @invoice.json --json | jq '.output'
  contexture run support --user 'What is this?' --block page=@page.txt --remind 'Answer in Dutch.'

The answer goes to standard output as it arrives, everything else to standard error. A tool that
asks for approval is asked about on a terminal; in a pipe the run ends there with exit code 1,
unless `--yes` is given. Ctrl-C stops the run and keeps what was said; a second one ends the
program.";

pub(super) const CHAT: &str = "\
Examples:
  contexture chat
  contexture chat support --set plan=pro
  contexture chat --last
  printf 'Hello\\nWhat did I say?\\n' | contexture chat --session test-1

A line is a turn; one that ends in `\\` continues. `/help` lists the commands. Ctrl-C stops an
answer, Ctrl-D leaves. In a pipe the answers alone go to standard output.";

pub(super) const KNOWLEDGE: &str = "\
Examples:
  contexture knowledge add handbook docs/ faq.html
  contexture knowledge search handbook 'How long do refunds take?' --top-k 3
  contexture knowledge list handbook --json
  contexture knowledge reindex

A folder `knowledge/NAME` of the project is a base by itself: only its files change it.";

pub(super) const MEMORY: &str = "\
Examples:
  contexture memory list
  contexture memory list --user ada --proposed
  contexture memory search 'When are the invoices due?' --user ada
  contexture memory forget m-1f0c --user ada --dry-run
  contexture memory export --user ada > ada.jsonl

A memory belongs to a namespace: any of `--user`, `--agent` and `--custom`. `list` without one lists
the namespaces. What is forgotten is not learnt again from older turns. A forgotten record leaves the
messages that said it; forgotten turns and sessions are emptied, unless `--keep-turns` is given.";

pub(super) const KNOWLEDGE_ADD: &str = "\
Examples:
  contexture knowledge add handbook docs/
  contexture knowledge add handbook README.md CHANGELOG.md --tenant acme

The id of a document is its path within the folder that is given, or the name of a file that is
given itself. What has not changed is left alone; a run that was stopped continues where it was.
In folders, files that are no text are left out with a reason.";

pub(super) const SKILLS: &str = "\
Examples:
  contexture skills list
  contexture skills check --json
  contexture skills route 'I want my money back'

Skills are folders with a SKILL.md, in skills/, in .agents/skills/ and where `[skills] paths` says.";

pub(super) const COMPACT: &str = "\
Examples:
  contexture compact support-1
  contexture compact support-1 --prompt support --set plan=pro --json
  contexture compact support-1 --undo

The newest rounds stay as they are, and nothing is deleted: `contexture sessions archives` lists
what is archived, and `--undo` brings it back. Where nothing can be summarised it says why.";

pub(super) const DIFF: &str = "\
Examples:
  contexture diff before.json now.json
  contexture diff support --a '{\"plan\": \"free\"}' --b '{\"plan\": \"pro\"}'
  contexture diff before.json now.json --exit-code --json

A file is what `contexture resolve --json` or `contexture inspect --json` printed.";

pub(super) const RENDER: &str = "\
Examples:
  contexture render entries.json
  echo '[{\"userPreferences\": \"short answers\"}]' | contexture render -
  contexture render entries.json --json

Entries that are texts or messages pass through; `--json` lists them under `messages`.";

pub(super) const WINDOW: &str = "\
Examples:
  contexture window chat.jsonl --turns 20
  contexture window request.json --tokens 8000 --model openai/gpt-5-mini > shorter.json
  cat chat.jsonl | contexture window - --json | jq '.dropped'

A transcript is JSON lines with this program's messages, each with an optional `turn`; or the
messages of OpenAI Chat Completions or of Anthropic, as lines, as a list, or in a request.

Turns are kept whole, and the newest one with content always is. A turn is what has one `turn` id,
or begins with a message of the user. System messages at the beginning are kept besides.

What is kept is printed as it came. A tool call without a result gets one that says `interrupted`,
a result without a call is left out; what was done goes to standard error.";

pub(super) const TOKENS: &str = "\
Examples:
  contexture tokens prompts/support.md
  contexture tokens *.md --model anthropic/claude-sonnet-4-5
  git diff | contexture tokens -";

pub(super) const LINT: &str = "\
Examples:
  contexture lint
  contexture lint --strict         for continuous integration
  contexture lint --json";

pub(super) const PROMPTS: &str = "\
Examples:
  contexture prompts
  contexture prompts --json | jq -r '.[].id'";

pub(super) const BLOCKS: &str = "\
Examples:
  contexture blocks
  contexture blocks preview house_rules
  contexture blocks --json | jq -r '.[].name'";

pub(super) const BLOCKS_PREVIEW: &str = "\
Examples:
  contexture blocks preview page --set page=7
  contexture blocks preview house_rules --body 'Be brief, {{ ctx.user }}.' --scope-user ada
  contexture blocks preview house_rules --body @draft.md --json";

pub(super) const FLOW: &str = "\
Examples:
  contexture flow list
  contexture flow check
  contexture flow graph research";

pub(super) const FLOW_CHECK: &str = "\
Examples:
  contexture flow check
  contexture flow check research
  contexture flow check --json | jq -r '.[] | select(.error) | .id'";

pub(super) const FLOW_GRAPH: &str = "\
Examples:
  contexture flow graph research
  contexture flow graph research --format svg -o research.svg";

pub(super) const SESSIONS: &str = "\
Examples:
  contexture sessions list
  contexture sessions show support-1 --view client --limit 20
  contexture sessions archives support-1
  contexture sessions export support-1 > support-1.jsonl
  contexture sessions export --all | contexture sessions import - --store postgres://db/app
  contexture sessions fork support-1 --at t3 --as support-1-again
  contexture sessions delete support-1 --yes

A relative PATH in `--store sqlite:PATH` starts in the current folder, elsewhere in the project's.";

pub(super) const SESSIONS_SHOW: &str = "\
Examples:
  contexture sessions show support-1
  contexture sessions show support-1 --view all --json | jq '.[-1]'

`history` is what the model sees, `client` what a user interface shows, `all` the whole log.";

pub(super) const SESSIONS_EVENT: &str = "\
Examples:
  contexture sessions event support-1 --name deploy.finished --text 'Version 7 is live.'
  contexture sessions event support-1 --name order.shipped --text - --key order-17 < notice.txt

While a turn runs, the command waits for its end. A suspended turn goes on waiting.";

pub(super) const SESSIONS_ARCHIVES: &str = "\
Examples:
  contexture sessions archives support-1
  contexture sessions archives support-1 2
  contexture sessions archives support-1 --search 'refund invoice'
  contexture sessions archives support-1 --full --json | jq 'length'";

pub(super) const FLOW_RUN: &str = "\
Examples:
  contexture flow run chat
  contexture flow run research --set topic='prompt caches' --session desk-7
  printf 'What is a lease?\\n' | contexture flow run chat
  contexture flow run research --input @topic.json --detach --json

What the run waits for is asked on the terminal, or read from standard input, a line each. At the
end of the input, and on Ctrl-C, the run is left as it is; `contexture flow resume` continues
it. Exit codes: 0 completed, 1 it waits, 3 it failed or was cancelled.";

pub(super) const FLOW_RESUME: &str = "\
Examples:
  contexture flow resume desk-7.0199f3c2
  contexture flow resume desk-7.0199f3c2 --answer approve.1=write
  contexture flow resume desk-7.0199f3c2 --answer 'buy.1={\"approve\": true}' --json";

pub(super) const FLOW_FORGET: &str = "\
Examples:
  contexture flow forget --before 30d
  contexture flow forget --before 12h --yes --json

Runs that wait or go on stay, however old they are. Versions of flows that no run needs, and what
`cache` nodes remember and nobody has used for as long, go too.";

pub(super) const SERVE: &str = "\
Examples:
  contexture serve
  contexture serve shop --listen 127.0.0.1:8080
  contexture serve --store postgres://db/app --listen 0.0.0.0:4747
  contexture serve --listen 127.0.0.1:0 --json
  contexture serve --print-openapi

On this machine alone no key is needed until there is one; `contexture keys create` makes keys.
SIGINT and SIGTERM stop it: turns that run may end first. A second one stops it at once.";

pub(super) const KEYS: &str = "\
Examples:
  contexture keys create --label 'the app'
  contexture keys create --tenant acme --expires-days 90 --requests-per-minute 600 --concurrent 20
  contexture keys create --admin --json | jq -r '.token'
  contexture keys list
  contexture keys revoke 3f9c2a7be10d

A key is shown once, when it is made: only its hash is kept. As soon as there is one, the server
asks everybody for a key. A key that is revoked opens nothing any more within a few seconds.";

pub(super) const AUDIT: &str = "\
Examples:
  contexture audit
  contexture audit --limit 1000 --json | jq '.[] | select(.act == \"session.deleted\")'";

pub(super) const COMPLETIONS: &str = "\
Examples:
  contexture completions bash > ~/.local/share/bash-completion/completions/contexture
  contexture completions zsh > ~/.zfunc/_contexture
  contexture completions fish > ~/.config/fish/completions/contexture.fish";
