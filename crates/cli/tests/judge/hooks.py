"""What Schemathesis must know to make requests that are valid here, beyond what JSON Schema can say."""

import schemathesis


def whole(value):
    """JSON Schema takes 3.0 for an integer; our numbers of things have no point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [whole(it) for it in value]
    return {key: whole(it) for key, it in value.items()} if isinstance(value, dict) else value


def fits(values):
    """Names are limited in bytes, and JSON Schema counts characters."""
    texts = [it for it in (values or {}).values() if isinstance(it, str)]
    base = (values or {}).get("base", "")
    is_short = not isinstance(base, str) or len(base.encode("utf-8", "surrogatepass")) <= 64
    return is_short and all(len(it.encode("utf-8", "surrogatepass")) <= 200 for it in texts)


@schemathesis.hook
def map_body(context, body):
    return whole(body)


@schemathesis.hook
def filter_path_parameters(context, path_parameters):
    return fits(path_parameters)


@schemathesis.hook
def filter_query(context, query):
    return fits(query)
