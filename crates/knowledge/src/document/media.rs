//! Kinds of files.

/// How the text of a document is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Media {
    /// Markdown.
    Markdown,
    /// Plain text.
    Text,
    /// Source code, or data in a text format.
    Code {
        /// The extension of the file's name.
        extension: String,
    },
    /// HTML; its text is kept as Markdown.
    Html,
    /// One JSON value a line; each is kept as a paragraph.
    JsonLines,
}

/// Extensions of files that are text with a structure of lines.
const CODE: &[&str] = &[
    "bash", "c", "cc", "cfg", "clj", "conf", "cpp", "cs", "css", "csv", "dart", "erl", "ex", "exs", "fs",
    "go", "graphql", "h", "hpp", "hs", "ini", "java", "jl", "js", "json", "jsx", "kt", "lua", "m", "ml",
    "php", "pl", "proto", "ps1", "py", "r", "rb", "rs", "scala", "scss", "sh", "sql", "svelte", "swift",
    "tf", "toml", "ts", "tsv", "tsx", "vue", "xml", "yaml", "yml", "zig",
];
const OFFICE: &[&str] = &["doc", "docx", "odp", "ods", "odt", "ppt", "pptx", "rtf", "xls", "xlsx", "epub"];

fn extension(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or(String::new(), |(_, it)| it.to_ascii_lowercase())
}

impl Media {
    /// Returns the kind of file that a name promises.
    pub fn of_path(path: &str) -> Media {
        match extension(path).as_str() {
            "md" | "markdown" | "mdx" => Media::Markdown,
            "html" | "htm" | "xhtml" => Media::Html,
            "jsonl" | "ndjson" => Media::JsonLines,
            code if CODE.contains(&code) => Media::Code { extension: code.to_owned() },
            _ => Media::Text,
        }
    }

    /// Returns the kind of a media type such as `text/markdown`.
    pub fn of_type(media_type: &str) -> Media {
        match media_type.split(';').next().unwrap_or_default().trim() {
            "text/markdown" => Media::Markdown,
            "text/html" | "application/xhtml+xml" => Media::Html,
            "application/jsonl" | "application/x-ndjson" => Media::JsonLines,
            other => match other.strip_prefix("text/x-") {
                Some(extension) => Media::Code { extension: extension.to_owned() },
                None => Media::Text,
            },
        }
    }

    /// Returns the media type.
    pub fn media_type(&self) -> String {
        match self {
            Media::Markdown => "text/markdown".to_owned(),
            Media::Text => "text/plain".to_owned(),
            Media::Html => "text/html".to_owned(),
            Media::JsonLines => "application/jsonl".to_owned(),
            Media::Code { extension } => format!("text/x-{extension}"),
        }
    }
}

/// Returns the kind of a file that is no text, by its first bytes or its name.
pub(super) fn needs_conversion(path: &str, bytes: &[u8]) -> Option<&'static str> {
    let extension = extension(path);
    if bytes.starts_with(b"%PDF-") || extension == "pdf" {
        return Some("PDF");
    }
    // Compound files of older Office programs begin like this; newer ones are archives with a telling name.
    let is_compound = bytes.starts_with(b"\xd0\xcf\x11\xe0");
    (is_compound || OFFICE.contains(&extension.as_str())).then_some("Office")
}
