//! What counts of a prompt, and what bounds its output, in each API.

use super::*;

/// Bytes of text, ids, media.
#[track_caller]
fn check_prompt(api: Api, body: &str, (text_bytes, tokens, media): (u64, u64, u64)) {
    let expected = PromptSize { text_bytes, tokens, media };
    assert_eq!(count_bytes(api, body).unwrap().prompt, expected, "{api:?} {body}");
}

#[track_caller]
fn check_output(api: Api, body: &str, per_answer: Option<u64>, answers: u64) {
    let expected = OutputCap { per_answer, answers };
    assert_eq!(count_bytes(api, body).unwrap().output, expected, "{api:?} {body}");
}

#[test]
fn a_chats_prompt_is_the_text_of_its_messages() {
    for (body, expected) in [
        (r#"{}"#, (0, 0, 0)),
        (r#"{"messages": null}"#, (0, 0, 0)),
        (r#"{"messages": [{"role": "user", "content": "12345"}]}"#, (5, 0, 0)),
        (
            r#"{"messages": [{"role": "user", "content": "caf\u00e9"}, {"role": "user", "content": "né"}]}"#,
            (8, 0, 0),
        ),
        (
            r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "12345"}, {"type": "text", "text": "6"}]}]}"#,
            (6, 0, 0),
        ),
        (r#"{"messages": [{"role": "user", "name": "bob", "content": null}]}"#, (3, 0, 0)),
        // What the assistant said before, and what it called.
        (r#"{"messages": [{"role": "assistant", "content": null, "refusal": "no"}]}"#, (2, 0, 0)),
        (
            r#"{"messages": [{"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function",
                "function": {"name": "look", "arguments": "{\"at\": 7}"}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "found"}]}"#,
            (4 + 9 + 5, 0, 0),
        ),
        // Pictures and sounds are not their base64.
        (
            r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "what?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAAAAAAAAAAAAAA", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}]}]}"#,
            (5, 0, 3),
        ),
        // Tools count as they stand.
        (r#"{"messages": [], "tools": [{"type":"function"}]}"#, (21, 0, 0)),
        (r#"{"functions": [ 1 ], "response_format": {"type":"text"}}"#, (5 + 15, 0, 0)),
        // What is not for the model.
        (
            r#"{"metadata": {"content": "12345"}, "user": "u", "stop": ["12345"], "prompt": "12345", "input": "x"}"#,
            (0, 0, 0),
        ),
        // What two readers could take differently counts both ways.
        (
            r#"{"messages": [{"content": "12", "content": "345", "Content": "6789", "cont\u0065nt": "0"}]}"#,
            (10, 0, 0),
        ),
    ] {
        check_prompt(Api::Chat, body, expected);
    }
}

#[test]
fn a_completions_prompt_is_text_or_ids_once_or_often() {
    for (body, expected, answers) in [
        (r#"{"prompt": "12345", "suffix": "67"}"#, (7, 0, 0), 1),
        (r#"{"prompt": ["12345", "\n"]}"#, (6, 0, 0), 2),
        (r#"{"prompt": [1, 22, 333]}"#, (0, 3, 0), 1),
        (r#"{"prompt": [[1, 22], [ 333 ], []]}"#, (0, 3, 0), 3),
        (r#"{"prompt": []}"#, (0, 0, 0), 1),
        (r#"{"prompt": null}"#, (0, 0, 0), 1),
        (r#"{"prompt": ["a", "b"], "n": 3}"#, (2, 0, 0), 6),
    ] {
        check_prompt(Api::Completions, body, expected);
        check_output(Api::Completions, body, None, answers);
    }
}

#[test]
fn a_response_reads_its_items_and_instructions() {
    for (body, expected) in [
        (r#"{"input": "12345", "instructions": "678"}"#, (8, 0, 0)),
        (r#"{"input": [{"role": "user", "content": "12345"}]}"#, (5, 0, 0)),
        (
            r#"{"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "12345"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
                {"type": "input_file", "file_id": "file-1", "file_url": null}]}]}"#,
            (5, 0, 2),
        ),
        (
            r#"{"input": [{"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "12345"},
                {"type": "custom_tool_call", "name": "sh", "input": "ls"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "AAAA"},
                {"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": "data:,"}}]}"#,
            (4 + 2 + 5 + 2 + 2 + 2, 0, 1),
        ),
        (r#"{"tools": [{}], "text": {"format": {}}}"#, (4 + 14, 0, 0)),
    ] {
        check_prompt(Api::Responses, body, expected);
    }
}

#[test]
fn a_messages_prompt_is_its_blocks_and_system() {
    for api in [Api::Messages, Api::CountTokens] {
        for (body, expected) in [
            (r#"{"system": "123", "messages": [{"role": "user", "content": "45"}]}"#, (5, 0, 0)),
            (
                r#"{"system": [{"type": "text", "text": "123", "cache_control": {"type": "ephemeral"}}]}"#,
                (3, 0, 0),
            ),
            (
                r#"{"messages": [{"role": "user", "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAAAAAAAAAA"}},
                    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}, "title": "T"},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "12\n45"}},
                    {"type": "document", "source": {"data": "12\n45", "type": "text"}},
                    {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "123"}]}},
                    {"type": "image", "source": {"type": "file", "file_id": "f"}},
                    {"type": "search_result", "source": "https://x", "title": "T", "content": [{"type": "text", "text": "1"}]}
                ]}]}"#,
                (1 + 5 + 5 + 3 + 9 + 1 + 1, 0, 3),
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hmm", "signature": "AAAA"},
                    {"type": "tool_use", "id": "t", "name": "look", "input": {"at": 7}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
                        {"type": "text", "text": "12345"}, {"type": "image", "source": {"type": "url", "url": "https://x"}}]},
                        {"type": "tool_result", "tool_use_id": "t", "content": "6"}]}]}"#,
                (3 + 4 + 9 + 5 + 1, 0, 1),
            ),
            (r#"{"tools": [{"name":"a","input_schema":{}}]}"#, (32, 0, 0)),
        ] {
            check_prompt(api, body, expected);
        }
    }
}

#[test]
fn what_gives_no_text_reads_its_input_and_has_no_output() {
    for (api, body, expected) in [
        (Api::Embeddings, r#"{"input": "12345"}"#, (5, 0, 0)),
        (Api::Embeddings, r#"{"input": ["12345", "6"], "n": "x", "max_tokens": "x"}"#, (6, 0, 0)),
        (Api::Embeddings, r#"{"input": [1, 2, 3]}"#, (0, 3, 0)),
        (Api::Embeddings, r#"{"input": [[1, 2], [3]]}"#, (0, 3, 0)),
        (Api::Moderations, r#"{"input": ["12", "3"]}"#, (3, 0, 0)),
        (
            Api::Moderations,
            r#"{"input": [{"type": "text", "text": "12"}, {"type": "image_url", "image_url": {"url": "x"}}]}"#,
            (2, 0, 1),
        ),
        (
            Api::Rerank,
            r#"{"query": "12", "documents": ["345", {"text": "6"}, {"image": "data:,"}], "top_n": 1}"#,
            (6, 0, 1),
        ),
        (Api::Speech, r#"{"input": "12345", "voice": "x", "instructions": "6"}"#, (6, 0, 0)),
        (Api::CountTokens, r#"{"messages": [{"content": "12345"}]}"#, (5, 0, 0)),
    ] {
        check_prompt(api, body, expected);
        check_output(api, body, Some(0), 1);
    }
}

#[test]
fn the_larger_cap_bounds_the_output() {
    for (body, cap) in [
        (r#"{}"#, None),
        (r#"{"max_tokens": null}"#, None),
        (r#"{"max_tokens": 0}"#, Some(0)),
        (r#"{"max_tokens": 1, "max_completion_tokens": 10000}"#, Some(10_000)),
        (r#"{"max_completion_tokens": 5, "max_tokens": 7}"#, Some(7)),
        (r#"{"max_output_tokens": 9, "max_tokens": null}"#, Some(9)),
        (r#"{"max_tokens": 99999999999999999999999}"#, Some(u64::MAX)),
    ] {
        for api in [Api::Chat, Api::Completions, Api::Responses, Api::Messages, Api::Other] {
            check_output(api, body, cap, 1);
        }
    }
}

#[test]
fn each_answer_that_is_asked_for_counts() {
    check_output(Api::Chat, r#"{"n": 3, "max_tokens": 5}"#, Some(5), 3);
    check_output(Api::Chat, r#"{"n": null}"#, None, 1);
    check_output(Api::Chat, r#"{"best_of": 9}"#, None, 1);
    check_output(Api::Completions, r#"{"n": 2, "best_of": 5}"#, None, 5);
    check_output(Api::Completions, r#"{"best_of": 1, "n": 4}"#, None, 4);
    check_output(Api::Images, r#"{"prompt": "a cat", "n": 4}"#, None, 4);
    check_output(Api::Messages, r#"{"n": 4}"#, None, 1);
    check_output(Api::Completions, r#"{"prompt": ["a", "b"], "n": 18446744073709551615}"#, None, u64::MAX);
}

#[test]
fn what_cannot_be_read_in_one_way_is_refused_by_its_name() {
    for (api, body, param) in [
        (Api::Chat, r#"{"max_tokens": -1}"#, "max_tokens"),
        (Api::Chat, r#"{"max_tokens": 1.0}"#, "max_tokens"),
        (Api::Chat, r#"{"max_tokens": 1e3}"#, "max_tokens"),
        (Api::Chat, r#"{"max_completion_tokens": "100"}"#, "max_completion_tokens"),
        (Api::Responses, r#"{"max_output_tokens": [1]}"#, "max_output_tokens"),
        (Api::Messages, r#"{"max_tokens": true}"#, "max_tokens"),
        (Api::Chat, r#"{"n": 0}"#, "n"),
        (Api::Chat, r#"{"n": {}}"#, "n"),
        (Api::Completions, r#"{"best_of": -0}"#, "best_of"),
        (Api::Chat, r#"{"max_tokens": 1, "max_tokens": 1}"#, "max_tokens"),
        (Api::Chat, r#"{"max_tokens": 1, "max\u005ftokens": 9}"#, "max_tokens"),
        (Api::Chat, r#"{"Max_Tokens": 1}"#, "max_tokens"),
        (Api::Chat, "{\"max_to\u{212a}ens\": 1}", "max_tokens"),
        (Api::Chat, r#"{"N": 1}"#, "n"),
        (Api::Chat, r#"{"messages": [], "messages": []}"#, "messages"),
        (Api::Chat, r#"{"Messages": []}"#, "messages"),
        (Api::Chat, r#"{"messages": 7}"#, "messages"),
        (Api::Embeddings, r#"{"input": true}"#, "input"),
        (Api::Messages, r#"{"system": 1.5}"#, "system"),
        (Api::Messages, r#"{"SYSTEM": "x"}"#, "system"),
        (Api::Chat, r#"{"tools": [], "TOOLS": []}"#, "tools"),
        (Api::Chat, r#"{"model": "a", "model": "b"}"#, "model"),
        (Api::Chat, "{\"\u{17f}tream\": true}", "stream"),
        (Api::Chat, r#"{"messages": [}"#, ""),
        (Api::Chat, r#"{"messages": ["\x"]}"#, ""),
        (Api::Chat, r#"[]"#, ""),
    ] {
        assert_eq!(refused_for(api, body), Some(param), "{api:?} {body}");
    }
}

#[test]
fn nothing_is_demanded_where_tokens_do_not_count() {
    let body = Bytes::from_static(br#"{"max_tokens": "many", "N": 1, "messages": 7, "messages": 8}"#);
    let kind = Kind::Json { model_required: false };
    let headers = HeaderMap::new();
    let reading = read(kind, &headers, &body, None).now_or_never().unwrap().unwrap();
    assert_eq!(reading, Reading::default());
}

#[test]
fn depth_costs_no_stack() {
    let deep = |open: &str, close: &str| {
        format!("{{\"messages\": {}\"x\"{}}}", open.repeat(100_000), close.repeat(100_000))
    };
    for (open, close) in
        [("[", "]"), ("{\"content\":", "}"), ("[{\"content\":", "}]"), ("{\"source\":{\"content\":", "}}")]
    {
        let size = count_bytes(Api::Chat, &deep(open, close)).unwrap().prompt;
        // As it stands, from some depth on.
        assert!(size.text_bytes > 99_900 * open.len() as u64, "{open} {size:?}");
    }
}

#[tokio::test]
async fn a_forms_prompt_counts_and_its_files_do_not() {
    let counting = |api| Some(Counting { api, estimator: Estimator::Bytes });
    let ask = async |fields: &[(&str, &str)]| {
        let (headers, body) = form(fields);
        let reading = read(FORM, &headers, &body, counting(Api::Transcriptions)).await?;
        Ok::<_, Fault>(*reading.tokens.unwrap())
    };
    let given = ask(&[("model", "m"), ("file", "RIFF"), ("prompt", "caf\u{e9}"), ("n", "2")]).await.unwrap();
    assert_eq!(given.prompt, PromptSize { text_bytes: 5, ..PromptSize::default() });
    assert_eq!(given.output, OutputCap { per_answer: None, answers: 2 });
    assert_eq!(ask(&[("model", "m")]).await.unwrap().prompt, PromptSize::default());
    for bad in [
        &[("model", "m"), ("n", "0")][..],
        &[("model", "m"), ("n", "")],
        &[("model", "m"), ("n", "1"), ("n", "2")],
    ] {
        assert!(matches!(ask(bad).await, Err(Fault::Invalid { param: Some("n"), .. })), "{bad:?}");
    }
}
