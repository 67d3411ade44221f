//! `tokens`: counts the tokens of texts.

use contexture_message::{Tokens, counter_for};
use serde_json::json;

use crate::args::TokensArgs;
use crate::error::Failure;
use crate::output::Reply;
use crate::read;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, DIM, paint};
use crate::terminal::table::{Align, Cell, Table};

pub(super) fn run(args: &TokensArgs, as_json: bool, screen: Screen) -> Result<Reply, Failure> {
    if args.files.iter().filter(|it| *it == "-").count() > 1 {
        return Err(Failure::usage("standard input can be read only once"));
    }
    let counter = counter_for(args.model.as_deref());
    let profile = counter.profile();
    let mut counts: Vec<(&str, Tokens)> = Vec::with_capacity(args.files.len());
    for file in &args.files {
        counts.push((file, counter.count(&read::text(file)?)));
    }
    let total: Tokens = counts.iter().map(|(_, tokens)| *tokens).sum();
    if as_json {
        let files: Vec<_> =
            counts.iter().map(|(file, tokens)| json!({"file": file, "tokens": tokens})).collect();
        let counter = json!({"name": profile.name, "exact": profile.exact});
        return Ok(Reply::json(json!({"files": files, "total": total, "counter": counter})));
    }
    let mut table = Table::new(&[("", Align::Right), ("", Align::Left)]);
    for (file, tokens) in &counts {
        table.row(vec![Cell::new(tokens.to_string()), Cell::new(file)]);
    }
    if counts.len() > 1 {
        table.row(vec![Cell::new(total.to_string()).style(BOLD), Cell::new("total").style(BOLD)]);
    }
    let mut lines = table.lines(0, screen.width);
    let exactness = if profile.exact { "exact" } else { "an estimate" };
    lines.push(paint(DIM, &format!("counted by {}, {exactness}", profile.name)));
    Ok(Reply::styled(lines.join("\n")))
}
