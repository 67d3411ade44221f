//! What providers say when they refuse, and what we make of it. One line a case.

use contexture_wire::{Dialect, classify};
use serde_json::Value;

/// Classifies a table of `dialect status body` lines; a body that is not JSON is text. The only caller of the API here.
fn classified(table: &str) -> String {
    let lines = table.lines().map(str::trim).filter(|it| !it.is_empty());
    let rows = lines.map(|line| {
        let mut words = line.splitn(3, ' ');
        let dialect = Dialect::parse(words.next().unwrap()).unwrap();
        let status = words.next().unwrap().parse().unwrap();
        let body = words.next().unwrap_or_default();
        let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
        let error = classify(dialect, status, &body);
        let message: String = error.message.chars().take(60).collect();
        let kind = format!("{:?}", error.kind);
        format!("{kind:<13} {:<27} {}\n", error.code.unwrap_or_default(), message.trim_end())
    });
    rows.collect()
}

#[test]
fn prompts_that_are_too_long() {
    insta::assert_snapshot!(classified(r#"
        openai 400 {"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}
        openai-responses 400 {"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}
        openai-responses 0 {"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}
        anthropic 400 {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"},"request_id":"req_1"}
        anthropic 400 {"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again"}}
        anthropic 413 {"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}
        anthropic 0 {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}
        gemini 400 {"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}
        gemini 400 [{"error":{"code":400,"message":"The input token count exceeds the maximum number of tokens allowed 1048576.","status":"INVALID_ARGUMENT"}}]
        gemini 400 {"error":{"code":400,"message":"Unable to submit request because the input token count is 1200000 but model only supports up to 1048576. Reduce the input token count and try again.","status":"INVALID_ARGUMENT"}}
        openai 400 {"object":"error","message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller","type":"BadRequestError","param":null,"code":400}
        openai 400 {"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","param":null,"code":400}}
        openai 400 {"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}
        openai 500 {"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"invalid_request_error"}}
        openai 500 {"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}
        openai 400 {"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}
        openai 400 {"error":"the input length exceeds the context length"}
        openai 400 {"error":{"message":"prompt too long; exceeded max context length by 904 tokens","type":"invalid_request_error","param":null,"code":null}}
        openai 400 {"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens (140000 of text input). Please reduce the length of either one, or use the \"middle-out\" transform.","code":400}}
        openai 400 {"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}","provider_name":"Anthropic"}}}
        openai 400 {"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","param":null,"code":"3051"}
        openai 413 {"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}
        openai 400 {"message":"Input is too long for requested model."}
        openai 400 {"error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens.","code":"Client specified an invalid argument"}
        openai 400 {"error":{"message":"The input (5000 tokens) is longer than the model's context length (4096 tokens).","type":"BadRequestError","code":400}}
        openai 422 {"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens","error_type":"validation"}
        openai 413 Payload Too Large
        openai 200 {"error":{"message":"Input length 6491 exceeds context length 1500"}}
    "#), @r"
    PromptTooLong context_length_exceeded     This model's maximum context length is 128000 tokens. Howeve
    PromptTooLong context_length_exceeded     Your input exceeds the context window of this model. Please
    PromptTooLong context_length_exceeded     Your input exceeds the context window of this model.
    PromptTooLong invalid_request_error       prompt is too long: 210000 tokens > 200000 maximum
    PromptTooLong invalid_request_error       input length and `max_tokens` exceed context limit: 190000 +
    PromptTooLong request_too_large           Request exceeds the maximum size
    PromptTooLong invalid_request_error       prompt is too long: 210000 tokens > 200000 maximum
    PromptTooLong INVALID_ARGUMENT            The input token count (1200000) exceeds the maximum number o
    PromptTooLong INVALID_ARGUMENT            The input token count exceeds the maximum number of tokens a
    PromptTooLong INVALID_ARGUMENT            Unable to submit request because the input token count is 12
    PromptTooLong BadRequestError             The decoder prompt (length 5000) is longer than the maximum
    PromptTooLong BadRequestError             This model's maximum context length is 4096 tokens. However,
    PromptTooLong exceed_context_size_error   the request exceeds the available context size, try increasi
    PromptTooLong invalid_request_error       the request exceeds the available context size. try increasi
    PromptTooLong server_error                Context size has been exceeded.
    PromptTooLong                             Trying to keep the first 5000 tokens when context the overfl
    PromptTooLong                             the input length exceeds the context length
    PromptTooLong invalid_request_error       prompt too long; exceeded max context length by 904 tokens
    PromptTooLong                             This endpoint's maximum context length is 131072 tokens. How
    PromptTooLong                             Provider returned error: prompt is too long: 210000 tokens >
    PromptTooLong 3051                        Prompt contains 40000 tokens and 0 draft tokens, too large f
    PromptTooLong context_length_exceeded     Please reduce the length of the messages or completion.
    PromptTooLong                             Input is too long for requested model.
    PromptTooLong                             This model's maximum prompt length is 131072 but the request
    PromptTooLong BadRequestError             The input (5000 tokens) is longer than the model's context l
    PromptTooLong                             Input validation error: `inputs` tokens + `max_new_tokens` m
    PromptTooLong                             Payload Too Large
    PromptTooLong                             Input length 6491 exceeds context length 1500
    ");
}

#[test]
fn limits_per_time_are_not_about_the_prompt() {
    insta::assert_snapshot!(classified(r#"
        openai 429 {"error":{"message":"Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 50000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}
        openai 429 {"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}
        openai 413 {"error":{"message":"Request too large for model `llama-3.3-70b` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}
        anthropic 429 {"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 40,000 input tokens per minute. Please reduce the prompt length."}}
        anthropic 400 {"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}
        gemini 429 {"error":{"code":429,"message":"You exceeded your current quota. Quota exceeded for metric: generate_content_free_tier_input_token_count, limit: 250000","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}
        openai 402 {"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}
        openai 429 Too Many Requests
        openai 0 {"error":{"message":"Rate limit reached","code":429}}
    "#), @r"
    RateLimited   rate_limit_exceeded         Request too large for gpt-4o in organization org-1 on tokens
    RateLimited   insufficient_quota          You exceeded your current quota, please check your plan and
    RateLimited   rate_limit_exceeded         Request too large for model `llama-3.3-70b` on tokens per mi
    RateLimited   rate_limit_error            This request would exceed your organization's rate limit of
    RateLimited   invalid_request_error       Your credit balance is too low to access the Anthropic API.
    RateLimited   RESOURCE_EXHAUSTED          You exceeded your current quota. Quota exceeded for metric:
    RateLimited   invalid_request_error       Insufficient Balance
    RateLimited                               Too Many Requests
    RateLimited                               Rate limit reached
    ");
}

#[test]
fn everything_else() {
    insta::assert_snapshot!(classified(r#"
        openai 401 {"error":{"message":"Incorrect API key provided: sk-1. You can find your API key at https://platform.openai.com.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}
        openai 401 {"error":{"message":"You didn't provide an API key.","type":"invalid_request_error","param":null,"code":null}}
        openai 404 {"error":{"message":"The model `gpt-9` does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}
        openai 404 {"error":"model 'llama9' not found"}
        openai 404 {"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}
        openai 400 {"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}
        openai 400 {"error":{"message":"max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you provided 200000.","type":"invalid_request_error","param":"max_tokens","code":null}}
        openai 400 {"error":{"message":"Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with length 70 instead.","type":"invalid_request_error","param":"prompt_cache_key","code":"string_above_max_length"}}
        openai 400 {"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","code":"content_filter","status":400}}
        openai 403 {"error":{"message":"Your chosen model requires moderation and your input was flagged for \"violence\".","code":403,"metadata":{"reasons":["violence"]}}}
        openai 500 {"error":{"message":"The server had an error while processing your request.","type":"server_error","param":null,"code":null}}
        openai 503 {"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}
        openai 502 <html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>
        openai 503 upstream connect error
        openai 422 {"detail":[{"type":"extra_forbidden","loc":["body","top_k"],"msg":"Extra inputs are not permitted"}]}
        openai 500 null
        openai-responses 0 {"type":"error","code":"server_error","message":"Something broke.","param":null,"sequence_number":3}
        anthropic 401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}
        anthropic 403 {"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}
        anthropic 404 {"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}
        anthropic 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}
        anthropic 0 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}
        anthropic 400 {"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude"}}
        anthropic 500 {"type":"error","error":{"type":"api_error","message":"Internal server error"}}
        gemini 400 {"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}
        gemini 403 {"error":{"code":403,"message":"Method doesn't allow unregistered callers","status":"PERMISSION_DENIED"}}
        gemini 404 {"error":{"code":404,"message":"models/gemini-9 is not found for API version v1beta","status":"NOT_FOUND"}}
        gemini 503 {"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}
        gemini 400 {"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"foo\"","status":"INVALID_ARGUMENT"}}
        gemini 0 {"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}
    "#), @r#"
    Auth          invalid_api_key             Incorrect API key provided: sk-1. You can find your API key
    Auth          invalid_request_error       You didn't provide an API key.
    NotFound      model_not_found             The model `gpt-9` does not exist or you do not have access t
    NotFound                                  model 'llama9' not found
    NotFound      NotFoundError               The model `x` does not exist.
    Invalid       unsupported_parameter       Unsupported parameter: 'max_tokens' is not supported with th
    Invalid       invalid_request_error       max_tokens is too large: 200000. This model supports at most
    Invalid       string_above_max_length     Invalid 'prompt_cache_key': string too long. Expected a stri
    Refused       content_filter              The response was filtered due to the prompt triggering Azure
    Refused                                   Your chosen model requires moderation and your input was fla
    Overloaded    server_error                The server had an error while processing your request.
    Overloaded    unavailable_error           Loading model
    Overloaded                                502 Bad Gateway
    Overloaded                                upstream connect error
    Invalid                                   body.top_k: Extra inputs are not permitted
    Overloaded                                the provider gave no reason, the status is 500
    Overloaded    server_error                Something broke.
    Auth          authentication_error        invalid x-api-key
    Auth          permission_error            Your API key does not have permission to use the specified r
    NotFound      not_found_error             model: claude-9
    Overloaded    overloaded_error            Overloaded
    Overloaded    overloaded_error            Overloaded
    Invalid       invalid_request_error       max_tokens: 100000 > 8192, which is the maximum allowed numb
    Overloaded    api_error                   Internal server error
    Auth          INVALID_ARGUMENT            API key not valid. Please pass a valid API key.
    Auth          PERMISSION_DENIED           Method doesn't allow unregistered callers
    NotFound      NOT_FOUND                   models/gemini-9 is not found for API version v1beta
    Overloaded    UNAVAILABLE                 The model is overloaded. Please try again later.
    Invalid       INVALID_ARGUMENT            Invalid JSON payload received. Unknown name "foo"
    Overloaded    INTERNAL                    An internal error has occurred.
    "#);
}

#[test]
fn words_are_found_wherever_they_stand_and_nothing_that_was_sent() {
    insta::assert_snapshot!(classified(r#"
        openai 422 {"detail":[{"type":"string_type","loc":["body","messages",0,"content"],"msg":"Not a string","input":"iVBORw0KGgo"},{"loc":["body"],"msg":"Bad"}]}
        openai 400 {"success":false,"errors":[{"code":7000,"message":"No route for that URI"}],"result":null}
        anthropic 403 {"Message":"User is not authorized to perform this"}
        openai 400 {"error":{"message":"two\u0000 \u001b[31mlines\nof text"}}
    "#), @r"
    Invalid                                   body.messages.0.content: Not a string; body: Bad
    Invalid                                   No route for that URI
    Auth                                      User is not authorized to perform this
    Invalid                                   two   [31mlines
    of text
    ");
}
