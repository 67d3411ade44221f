//! The URL of a request: a provider's base URL joined with the path of its dialect.
//!
//! The rules: trailing slashes of the base are ignored; a query of the base is kept and comes first. As with the
//! official SDKs, an Anthropic base whose last segment is not a version (`v1`) gets `/v1`, and a Gemini base without
//! any version segment gets `/v1beta`. A model's name is escaped, so that it stays within its path segment.

use contexture_wire::{Dialect, Target};
use reqwest::Url;

use crate::secret::without_password;
use crate::{ClientError, ModelProvider};

/// Returns a provider's base URL, including the version.
pub(crate) fn base(name: &str, provider: &ModelProvider) -> Result<Url, ClientError> {
    let text = provider.base_url.as_deref().unwrap_or(provider.dialect.base_url()).trim();
    let failed = |reason: String| ClientError::BaseUrl {
        provider: name.to_owned(),
        url: without_password(text),
        reason,
    };
    let mut url = Url::parse(text).map_err(|err| failed(err.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(failed("it must begin with `http://` or `https://`".to_owned()));
    }
    let segments: Vec<&str> = url.path().split('/').filter(|it| !it.is_empty()).collect();
    let version = match provider.dialect {
        Dialect::Anthropic if !segments.last().is_some_and(|it| is_version(it)) => Some("v1"),
        Dialect::Gemini if !segments.iter().any(|it| is_version(it)) => Some("v1beta"),
        Dialect::Anthropic | Dialect::Gemini | Dialect::Openai | Dialect::OpenaiResponses => None,
    };
    push(&mut url, version);
    Ok(url)
}

/// Returns the URL that the request is sent to.
pub(crate) fn endpoint(base: &Url, target: &Target) -> Url {
    let path = target.path();
    let (path, query) = match path.rsplit_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path.as_str(), None),
    };
    let mut url = base.clone();
    push(&mut url, path.split('/').filter(|it| !it.is_empty()));
    if let Some(query) = query {
        let all = url.query().map_or_else(|| query.to_owned(), |own| format!("{own}&{query}"));
        url.set_query(Some(&all));
    }
    url
}

fn push<'a>(url: &mut Url, segments: impl IntoIterator<Item = &'a str>) {
    // An HTTP URL always has a path, so the other case cannot occur.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
}

/// Whether a path segment is a version: `v1`, `v1beta`, `v2alpha1`.
fn is_version(segment: &str) -> bool {
    let Some(rest) = segment.strip_prefix('v') else { return false };
    let number = rest.trim_start_matches(|it: char| it.is_ascii_digit());
    number.len() < rest.len()
        && number.chars().all(|it| it.is_ascii_alphanumeric())
        && (number.is_empty() || number.starts_with("alpha") || number.starts_with("beta"))
}

/// Returns the secrets in a URL: its password, and the keys and tokens in its query.
pub(crate) fn secrets(base: &Url) -> Vec<String> {
    let is_secret = |name: &str| ["key", "token", "secret", "sig"].iter().any(|it| name.contains(it));
    let query = base.query_pairs().filter(|(name, _)| is_secret(&name.to_ascii_lowercase()));
    let password = base.password().map(str::to_owned);
    password.into_iter().chain(query.map(|(_, value)| value.into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::{base, endpoint};
    use crate::ModelProvider;
    use contexture_wire::{Dialect, Target};

    fn joined(dialect: Dialect, base_url: &str) -> String {
        joined_for(dialect, base_url, "m")
    }

    fn joined_for(dialect: Dialect, base_url: &str, model: &str) -> String {
        let target = Target { stream: true, ..Target::new(dialect, "p", model) };
        match base("p", &ModelProvider::new(dialect).at(base_url)) {
            Ok(base) => endpoint(&base, &target).to_string(),
            Err(err) => format!("error: {err}"),
        }
    }

    #[test]
    fn slashes_at_the_end_do_not_matter() {
        for base in ["http://h:1/v1", "http://h:1/v1/", "http://h:1/v1//", " http://h:1/v1 "] {
            assert_eq!(joined(Dialect::Openai, base), "http://h:1/v1/chat/completions");
        }
        assert_eq!(joined(Dialect::OpenaiResponses, "http://h"), "http://h/responses");
    }

    #[test]
    fn anthropic_gets_its_version() {
        assert_eq!(joined(Dialect::Anthropic, "http://h"), "http://h/v1/messages");
        assert_eq!(joined(Dialect::Anthropic, "http://h/v1/"), "http://h/v1/messages");
        assert_eq!(joined(Dialect::Anthropic, "http://h/v1/proxy"), "http://h/v1/proxy/v1/messages");
        assert_eq!(joined(Dialect::Anthropic, "http://h/vertex"), "http://h/vertex/v1/messages");
    }

    #[test]
    fn gemini_gets_its_version() {
        let end = "models/m:streamGenerateContent?alt=sse";
        assert_eq!(joined(Dialect::Gemini, "http://h"), format!("http://h/v1beta/{end}"));
        assert_eq!(
            joined(Dialect::Gemini, "http://h/v1/projects/p"),
            format!("http://h/v1/projects/p/{end}")
        );
    }

    #[test]
    fn a_query_of_the_base_is_kept() {
        assert_eq!(joined(Dialect::Openai, "http://h/d?v=1"), "http://h/d/chat/completions?v=1");
        let gemini = joined(Dialect::Gemini, "http://h/v1?key=k");
        assert_eq!(gemini, "http://h/v1/models/m:streamGenerateContent?key=k&alt=sse");
    }

    #[test]
    fn a_model_s_name_stays_in_its_place() {
        let shown = joined_for(Dialect::Gemini, "http://h/v1", "../../x?key=#y");
        assert_eq!(shown, "http://h/v1/models/x%3Fkey=%23y:streamGenerateContent?alt=sse");
    }

    #[test]
    fn an_invalid_url_is_refused_without_its_password() {
        assert!(joined(Dialect::Openai, "localhost:11434/v1").starts_with("error: provider `p`: "));
        let refused = joined(Dialect::Openai, "ftp://me:word@h/v1?key=k");
        assert!(refused.contains("`***@h/v1`"), "{refused}");
    }
}
