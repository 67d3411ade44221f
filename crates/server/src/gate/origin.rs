//! Checks on web pages, for servers without API keys.
//!
//! Without keys every local user may call, and so may every web page in a local browser: a page can post to any
//! address, and can point its own host name to this machine (DNS rebinding). A browser reports the page's origin and
//! the host name it used. So without a key
//!
//! 1. the name in `Host` is one of this machine (`localhost`, `127.0.0.1`, `[::1]`), or the host of an origin that the
//!    configuration allows;
//! 2. an `Origin` is the server's own, or one that the configuration allows.

use contexture_message::ErrorCode;
use std::net::IpAddr;

use axum::http::{HeaderMap, Uri, header};

use crate::Problem;

/// Refuses a request from a web page that is not allowed.
pub(super) fn check(uri: &Uri, headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    let text = |name: header::HeaderName| headers.get(name).map(|it| it.to_str().unwrap_or("?"));
    // HTTP/2 has the name in its own place.
    let host = uri.authority().map(|it| it.as_str()).or_else(|| text(header::HOST));
    let hosts = || allowed.iter().filter_map(|it| it.split_once("://")).map(|(_, it)| name_of(it));
    if let Some(host) = host
        && !is_loopback_name(name_of(host))
        && !hosts().any(|it| it.eq_ignore_ascii_case(name_of(host)))
    {
        let hint = "ask for `127.0.0.1` or `localhost`; a server with API keys takes any name";
        let text = format!("`{}` is not a name of this machine", crate::http::input::shown(host));
        return Err(Problem::new(ErrorCode::HostForbidden, text).hint(hint));
    }
    let Some(origin) = text(header::ORIGIN) else { return Ok(()) };
    let is_allowed = |it: &String| it == "*" || it.trim_end_matches('/').eq_ignore_ascii_case(origin);
    let is_own = origin
        .split_once("://")
        .is_some_and(|(_, it)| host.is_some_and(|host| it.eq_ignore_ascii_case(host)));
    if is_own || allowed.iter().any(is_allowed) {
        return Ok(());
    }
    let text = format!("web pages of `{}` may not call this server", crate::http::input::shown(origin));
    Err(Problem::new(ErrorCode::OriginForbidden, text).hint("`server.cors_origins` lists those that may"))
}

/// Returns the name in `name:port`.
fn name_of(host: &str) -> &str {
    let host = host.trim_end_matches('/');
    match host.strip_prefix('[').and_then(|it| it.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_loopback_name(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};

    use super::check;

    fn outcome(host: &'static str, origin: &'static str, allowed: &[&str]) -> String {
        let pairs = [("host", host), ("origin", origin)].into_iter().filter(|(_, it)| !it.is_empty());
        let headers: HeaderMap =
            pairs.map(|(name, it)| (HeaderName::from_static(name), HeaderValue::from_static(it))).collect();
        let allowed: Vec<String> = allowed.iter().map(|it| (*it).to_owned()).collect();
        let checked = check(&Uri::from_static("/v1/sessions"), &headers, &allowed);
        checked.map_or_else(|it| it.code().to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn a_request_without_a_browser_comes_in_by_a_name_of_this_machine() {
        for host in
            ["", "127.0.0.1:4747", "localhost:4747", "LOCALHOST", "localhost.", "127.8.8.8", "[::1]:4747"]
        {
            assert_eq!(outcome(host, "", &[]), "fine", "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:4747",
            "127.0.0.1.evil.example",
            "localhost.evil",
            "10.0.0.1",
            "[::2]",
            "x",
        ] {
            assert_eq!(outcome(host, "", &[]), "host_forbidden", "{host}");
        }
        assert_eq!(outcome("app.example", "", &["https://app.example:8443"]), "fine");
    }

    #[test]
    fn a_web_page_is_the_servers_own_or_is_allowed() {
        let host = "127.0.0.1:4747";
        assert_eq!(outcome(host, "http://127.0.0.1:4747", &[]), "fine");
        for origin in
            ["https://evil.example", "null", "http://127.0.0.1:8080", "http://localhost:4747", "?", "http://"]
        {
            assert_eq!(outcome(host, origin, &[]), "origin_forbidden", "{origin}");
        }
        assert_eq!(outcome(host, "https://app.example", &["https://app.example/"]), "fine");
        assert_eq!(outcome(host, "https://app.example.evil", &["https://app.example"]), "origin_forbidden");
        assert_eq!(outcome(host, "https://any.example", &["*"]), "fine");
        assert_eq!(outcome("evil.example", "http://evil.example", &[]), "host_forbidden");
        assert_eq!(outcome("evil.example", "http://evil.example", &["*"]), "host_forbidden");
    }
}
