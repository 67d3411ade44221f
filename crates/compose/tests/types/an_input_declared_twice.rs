use contexture_compose::{Context, Prompt};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Ticket {
    plan: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Other {
    flag: bool,
}

fn main() {
    let _ = Prompt::builder("p")
        .input::<Ticket>()
        .input::<Other>()
        .include(Context::text("b", "B."))
        .build();
}
