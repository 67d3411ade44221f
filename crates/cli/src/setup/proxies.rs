//! Proxies from HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, except for the hosts that NO_PROXY lists.

use contexture_model::{NoProxy, Proxy};

use crate::error::Failure;

/// Reads the usual proxy variables, in upper or lower case.
pub(crate) fn proxies(variable: impl Fn(&str) -> Option<String>) -> Result<Vec<Proxy>, Failure> {
    let either = |name: &str| variable(name).or_else(|| variable(&name.to_lowercase()));
    let except = either("NO_PROXY").and_then(|it| NoProxy::from_string(&it));
    let named = [
        ("HTTPS_PROXY", either("HTTPS_PROXY").map(Proxy::https)),
        ("HTTP_PROXY", either("HTTP_PROXY").map(Proxy::http)),
        ("ALL_PROXY", either("ALL_PROXY").map(Proxy::all)),
    ];
    let set = named.into_iter().filter_map(|(name, proxy)| Some((name, proxy?)));
    set.map(|(name, proxy)| match proxy {
        Ok(proxy) => Ok(proxy.no_proxy(except.clone())),
        // The address may contain a password, so the error does not show it.
        Err(_) => Err(Failure::usage(format!("the variable {name} is not the address of a proxy"))),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::proxies;

    #[test]
    fn a_proxy_that_is_none_is_refused_without_its_address() {
        let with = |text: &'static str| proxies(move |name| (name == "https_proxy").then(|| text.to_owned()));
        let failure = with("http://me:word@[").map(|_| ()).unwrap_err().to_json();
        assert_eq!(failure["error"]["message"], "the variable HTTPS_PROXY is not the address of a proxy");
        assert_eq!(with("http://me:word@proxy:3128").map(|it| it.len()).ok(), Some(1));
    }
}
