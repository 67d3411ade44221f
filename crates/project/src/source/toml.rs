//! Parses TOML to a tree with source positions.

use serde_json::Number;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Place, Problem};
use crate::source::yaml::{Data, Node, Pair};

/// Parses TOML to the tree that all files are decoded from.
pub(crate) fn parse(text: &str) -> Result<Node, Problem> {
    let table = DeTable::parse(text).map_err(|err| {
        let offset = err.span().map_or(0, |it| it.start);
        Problem::invalid(format!("this is not TOML: {}", err.message())).at(place(text, offset))
    })?;
    let at = place(text, table.span().start);
    Ok(Node::new(table_data(text, table.get_ref())?, at))
}

fn table_data(text: &str, table: &DeTable<'_>) -> Result<Data, Problem> {
    let pairs = table.iter().map(|(key, value)| {
        let place = place(text, key.span().start);
        Ok(Pair { key: key.get_ref().to_string(), place, value: node(text, value)? })
    });
    let mut pairs = pairs.collect::<Result<Vec<Pair>, Problem>>()?;
    pairs.sort_by_key(|it| it.place);
    Ok(Data::Map(pairs))
}

fn node(text: &str, value: &Spanned<DeValue<'_>>) -> Result<Node, Problem> {
    let at = place(text, value.span().start);
    let data = match value.get_ref() {
        DeValue::String(it) => Data::Text(it.to_string()),
        DeValue::Boolean(it) => Data::Bool(*it),
        DeValue::Integer(it) => {
            let number = i64::from_str_radix(it.as_str(), it.radix());
            Data::Number(number.map_err(|_| Problem::invalid(format!("`{it}` is too large")).at(at))?.into())
        }
        DeValue::Float(it) => {
            let number = it.as_str().parse().ok().and_then(Number::from_f64);
            Data::Number(
                number.ok_or_else(|| Problem::invalid(format!("`{it}` is not a finite number")).at(at))?,
            )
        }
        DeValue::Datetime(it) => Data::Text(it.to_string()),
        DeValue::Array(items) => Data::List(items.iter().map(|it| node(text, it)).collect::<Result<_, _>>()?),
        DeValue::Table(table) => table_data(text, table)?,
    };
    Ok(Node::new(data, at))
}

fn place(text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |it| it + 1);
    let column = before.get(start..).unwrap_or_default().chars().count() + 1;
    Place { line: before.matches('\n').count() + 1, column }
}
