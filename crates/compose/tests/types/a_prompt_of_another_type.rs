use contexture_compose::{Error, Prompt};

#[derive(schemars::JsonSchema)]
struct Ticket;

#[derive(schemars::JsonSchema)]
struct Reply;

fn typed() -> Result<Prompt<Ticket, Reply>, Error> {
    Prompt::builder("p").input::<Reply>().output::<Ticket>().build()
}

fn main() {
    let _ = typed();
}
