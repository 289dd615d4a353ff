//! The SDKs inside, unmodified, by the model gateway: the address and the token that they are given exist only inside. What they
//! use is counted, and a budget that is spent stops them at once.

use std::io::Write;
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::secrets::clients::{
    ANTHROPIC, ANTHROPIC_NODE, ANTHROPIC_NODE_PREVIOUS, ANTHROPIC_PREVIOUS, GEMINI, OPENAI, OPENAI_NODE, Sdk,
    TEXT, TOKENS,
};
use crate::secrets::{Setup, Told, Upstream, have, upstream};

impl Setup {
    /// With a gateway to this SDK's provider, whose key is a variable of the caller's.
    pub fn gateway(self, upstream: &Upstream, sdk: &Sdk) -> Setup {
        let rule = json!({"key": format!("env:{}", sdk.key)});
        self.variable(sdk.key, upstream.key(sdk.provider)).set(&format!("gateway.{}", sdk.provider), rule)
    }
}

/// What the report says of a model: all it used.
#[track_caller]
fn counts(told: &Told, model: &str) -> Value {
    let models = told.report["gateway"]["models"].as_array().cloned().unwrap_or_default();
    let found = models.iter().find(|one| one["model"] == model).map(|one| one["used"].clone());
    found.unwrap_or_else(|| panic!("the report has no {model}: {}\n{:#?}", told.text, told.ran))
}

/// What goes in, as the upstream reports it: Anthropic's does not contain what comes from and goes to the cache.
fn input(sdk: &Sdk) -> u64 {
    if sdk.provider == "anthropic" { TOKENS.0 + 3 + 5 } else { TOKENS.0 }
}

/// A round, and two requests more than the budget.
fn try_gateway(sdk: &Sdk) {
    let Some(upstream) = upstream() else { return };
    if !sdk.is_installed() {
        return;
    }
    let round = sdk.actions.len() as u64;
    let setup = Setup::new(upstream, &[]).gateway(upstream, sdk);
    let setup = setup.set(&format!("gateway.{}.budget.requests", sdk.provider), json!(round + 1));
    let (model, echo) = (sdk.model("gateway", ""), sdk.model("gateway-trick", "echo"));
    let mut actions = sdk.all(&model);
    actions.extend([&echo, &model, &model].iter().map(|model| format!("whole:{model}")));
    let words = sdk.words(&setup.home, &actions);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let shown = ["sh", "-c", "printenv \"$0\" >&2; exec \"$@\"", sdk.key];
    let told = setup.run(&[&shown[..], &words].concat()).ok();
    let said = told.lines();
    let at = sdk.actions.len();
    sdk.check_round(upstream, &model, &said[..at]);
    // It says the key that upstream was sent, which the client must not see.
    assert!(said[at]["text"].as_str().is_some_and(|text| text.starts_with("You sent ")), "{said:#?}");
    // Each call raised the SDK's own error, and made one request: none was tried again.
    for refused in &said[at + 1..] {
        assert_eq!((&refused["error"], &refused["status"]), (&sdk.limited.into(), &429.into()), "{said:#?}");
        assert!(
            refused["message"].as_str().is_some_and(|text| text.contains("budget")),
            "it says why: {refused:#}"
        );
    }
    let counts = counts(&told, &model);
    let told_of = |name: &str| counts[name].as_u64().unwrap_or(u64::MAX);
    assert_eq!(told_of("refused"), 2, "{counts:#}");
    assert_eq!(told_of("requests"), round, "{counts:#}");
    // Counting tokens costs none.
    let answers = sdk.actions.iter().filter(|action| **action != "count").count() as u64;
    assert_eq!(told_of("input_tokens"), answers * input(sdk), "{counts:#}");
    assert_eq!(told_of("output_tokens"), answers * TOKENS.1, "{counts:#}");
    assert!(told_of("bytes_sent") > 0 && told_of("bytes_received") > 0, "{counts:#}");
    upstream.assert_clean("what came in", &told.ran.stdout);
    upstream.assert_clean("the messages", &told.ran.stderr);
    upstream.assert_clean("the report", &told.text);
}

#[test]
fn anthropic_for_python_does_a_round_by_the_gateway_and_stops_at_its_budget() {
    try_gateway(&ANTHROPIC);
}

#[test]
fn the_previous_anthropic_for_python_does_a_round_by_the_gateway_and_stops_at_its_budget() {
    try_gateway(&ANTHROPIC_PREVIOUS);
}

#[test]
fn anthropic_for_node_does_a_round_by_the_gateway_and_stops_at_its_budget() {
    try_gateway(&ANTHROPIC_NODE);
}

#[test]
fn the_previous_anthropic_for_node_does_a_round_by_the_gateway_and_stops_at_its_budget() {
    try_gateway(&ANTHROPIC_NODE_PREVIOUS);
}

#[test]
fn openai_for_python_does_a_round_by_the_gateway_and_stops_at_its_budget() {
    try_gateway(&OPENAI);
}

#[test]
fn openai_for_node_does_a_round_by_the_gateway_and_stops_at_its_budget() {
    try_gateway(&OPENAI_NODE);
}

#[test]
fn gemini_for_python_does_a_round_by_the_gateway_and_stops_at_its_budget() {
    try_gateway(&GEMINI);
}

#[test]
fn errors_of_a_provider_reach_the_client_as_they_are() {
    let Some(upstream) = upstream() else { return };
    if !ANTHROPIC.is_installed() {
        return;
    }
    let model = |trick: &str| ANTHROPIC.model("gateway-errors", trick);
    let (limited, broken) = (model("limited"), model("breaks"));
    let actions = [format!("whole:{limited}"), format!("stream:{broken}")];
    let outside = ANTHROPIC.outside(upstream, &actions);
    let seen = upstream.requests(&limited).len();
    let setup = Setup::new(upstream, &[]).gateway(upstream, &ANTHROPIC);
    let words = ANTHROPIC.words(&setup.home, &actions);
    let told = setup.run(&words.iter().map(String::as_str).collect::<Vec<_>>()).ok();
    // The text of the error has the number of the request in it.
    for (outside, inside) in outside.iter().zip(told.lines()) {
        assert_eq!(
            (&outside["error"], &outside["status"]),
            (&inside["error"], &inside["status"]),
            "{told:#?}"
        );
    }
    assert_eq!(upstream.requests(&limited).len(), seen * 2, "it tries again as often as outside: {told:#?}");
}

/// By curl, as one who knows the address from the variables but nothing else.
fn curl(setup: &Setup, script: &str) -> Told {
    let status = "curl -sS -o /tmp/answer -w '%{http_code} '";
    setup.sh(&script.replace("CURL", status)).ok()
}

#[test]
fn a_gateway_wants_the_token_of_its_session() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let setup = Setup::new(upstream, &[]).gateway(upstream, &ANTHROPIC);
    let body =
        r#"-d '{"model":"token-stand-in","max_tokens":9,"messages":[]}' -H 'content-type: application/json'"#;
    let told = curl(
        &setup,
        &format!(
            r#"CURL {body} $ANTHROPIC_BASE_URL/v1/messages
           CURL {body} -H 'x-api-key: sk-ant-api03-guessed' $ANTHROPIC_BASE_URL/v1/messages
           CURL {body} -H "x-api-key: ${{ANTHROPIC_API_KEY}}x" $ANTHROPIC_BASE_URL/v1/messages
           CURL {body} -H "x-other: $ANTHROPIC_API_KEY" $ANTHROPIC_BASE_URL/v1/messages"#
        ),
    );
    assert_eq!(told.ran.stdout.trim(), "401 401 401 401", "{told:#?}");
    assert_eq!(upstream.requests("token-stand-in"), Vec::<Value>::new(), "nothing was passed on");
    // With the token, in either place where a client of this provider sends it, and by the proxy too.
    let told = curl(
        &setup,
        &format!(
            r#"CURL {body} -H "x-api-key: $ANTHROPIC_API_KEY" $ANTHROPIC_BASE_URL/v1/messages
           CURL {body} -H "Authorization: Bearer $ANTHROPIC_API_KEY" $ANTHROPIC_BASE_URL/v1/messages
           CURL {body} -H "x-api-key: $ANTHROPIC_API_KEY" -x "$HTTP_PROXY" --noproxy '' $ANTHROPIC_BASE_URL/v1/messages"#
        ),
    );
    assert!(told.ran.stdout.starts_with("200 200"), "{told:#?}");
    // The address is of no use outside.
    let outside = std::net::TcpStream::connect(("127.0.0.1", port_of(&setup)));
    assert!(outside.is_err(), "a listener of the sandbox is on the host's loopback");
}

/// The port of the gateway, as a command inside sees it.
fn port_of(setup: &Setup) -> u16 {
    let base = setup.sh("echo $ANTHROPIC_BASE_URL").ok().ran.stdout;
    base.trim()
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .unwrap_or_else(|| panic!("no port: {base}"))
}

#[test]
fn a_gateway_passes_only_known_paths_and_allowed_models() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let setup = Setup::new(upstream, &[]).gateway(upstream, &ANTHROPIC);
    let setup = setup.set("gateway.anthropic.models", json!(["known-*"]));
    let ask = r#"CURL -H 'content-type: application/json' -H "x-api-key: $ANTHROPIC_API_KEY""#;
    let body = |model: &str| format!(r#"-d '{{"model":"{model}","max_tokens":9,"messages":[]}}'"#);
    let told = curl(
        &setup,
        &format!(
            r#"{ask} {} $ANTHROPIC_BASE_URL/v1/messages
           {ask} {} $ANTHROPIC_BASE_URL/v1/messages
           {ask} $ANTHROPIC_BASE_URL/echo
           {ask} $ANTHROPIC_BASE_URL/v1/organizations/api_keys
           {ask} --path-as-is $ANTHROPIC_BASE_URL/v1/messages/../../echo
           {ask} --path-as-is $ANTHROPIC_BASE_URL/v1/messages/%2e%2e/%2e%2e/echo
           {ask} -X DELETE $ANTHROPIC_BASE_URL/v1/messages"#,
            body("known-stand-in"),
            body("unknown-stand-in"),
        ),
    );
    let statuses: Vec<&str> = told.ran.stdout.split_whitespace().collect();
    assert_eq!(statuses[0], "200", "{told:#?}");
    assert!(statuses[1..].iter().all(|status| status.starts_with('4')), "{told:#?}");
    for seen in ["unknown-stand-in", "api_keys"] {
        assert_eq!(upstream.requests(seen), Vec::<Value>::new(), "{seen}");
    }
}

#[test]
fn a_gateway_passes_redirects_on_and_follows_none() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let setup = Setup::new(upstream, &[]).gateway(upstream, &OPENAI);
    let told = setup
        .sh(r#"curl -sS -o /dev/null -w '%{http_code} %{redirect_url}' -H "Authorization: Bearer $OPENAI_API_KEY" \
            -d '{"model":"redirected-stand-in-moved","messages":[]}' -H 'content-type: application/json' $OPENAI_BASE_URL/chat/completions"#)
        .ok();
    assert_eq!(told.ran.stdout, "302 https://elsewhere.web.test/v1/chat/completions", "{told:#?}");
    let seen = upstream.requests("redirected-stand-in");
    assert_eq!(seen.len(), 1, "{seen:#?}");
}

#[test]
fn a_gateway_strips_what_its_client_adds_to_authenticate() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let setup = Setup::new(upstream, &[]).gateway(upstream, &ANTHROPIC);
    let told = setup
        .sh(r#"curl -sS -H "x-api-key: $ANTHROPIC_API_KEY" -H 'Authorization: Bearer attackers-own' -H 'Proxy-Authorization: Basic eDp5' \
            -H 'Cookie: session=attackers-own' -H 'content-type: application/json' \
            -d '{"model":"stripped-stand-in","max_tokens":9,"messages":[]}' $ANTHROPIC_BASE_URL/v1/messages"#)
        .ok();
    // Refused, or without the others: the attacker's own account never gets the request.
    let seen = upstream.requests("stripped-stand-in");
    for request in &seen {
        assert_eq!(request["real"], "anthropic", "{request:#}");
        assert!(!request.to_string().contains("attackers-own"), "{request:#}\n{told:#?}");
    }
}

#[test]
fn ollama_streams_by_the_gateway_without_a_key() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let rule = json!({"upstream": "http://ollama.web.test"});
    let setup = Setup::new(upstream, &[]).set("gateway.ollama", rule);
    let told = setup
        .sh(r#"case $OLLAMA_HOST in http*) base=$OLLAMA_HOST;; *) base=http://$OLLAMA_HOST;; esac
            curl -sSN -d '{"model":"ollama-stand-in","messages":[{"role":"user","content":"hello"}]}' $base/api/chat"#)
        .ok();
    let text: String = told
        .lines()
        .iter()
        .filter_map(|line| line["message"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(text, TEXT, "{told:#?}");
    let counts = counts(&told, "ollama-stand-in");
    assert_eq!(
        (&counts["input_tokens"], &counts["output_tokens"]),
        (&TOKENS.0.into(), &TOKENS.1.into()),
        "{counts:#}"
    );
}

#[test]
fn tokens_and_costs_have_budgets_too() {
    let Some(upstream) = upstream() else { return };
    if !OPENAI.is_installed() {
        return;
    }
    let model = OPENAI.model("costly", "");
    for (budget, limit) in
        [("output_tokens", json!(20)), ("tokens", json!(60)), ("bytes", json!(1200)), ("cost", json!(0.06))]
    {
        let setup = Setup::new(upstream, &[]).gateway(upstream, &OPENAI);
        let setup = setup.set(&format!("gateway.openai.budget.{budget}"), limit);
        // 25 in and 15 out are 0.04.
        let setup = setup.set("gateway.prices", json!({"costly-*": {"input": 1000.0, "output": 1000.0}}));
        let actions: Vec<String> = (0..4).map(|_| format!("whole:{model}")).collect();
        let words = OPENAI.words(&setup.home, &actions);
        let told = setup.run(&words.iter().map(String::as_str).collect::<Vec<_>>()).ok();
        let said = told.lines();
        assert_eq!(said[0]["text"], TEXT, "{budget}: {said:#?}");
        assert_eq!(
            (&said[3]["error"], &said[3]["status"]),
            (&"RateLimitError".into(), &429.into()),
            "{budget}: {said:#?}"
        );
        let counts = counts(&told, &model);
        let passed = said.iter().filter(|one| one["text"] == TEXT).count() as u64;
        assert_eq!(counts["requests"], passed, "{budget}: {counts:#}");
        assert_eq!(counts["refused"], 4 - passed, "{budget}: {counts:#}");
        let cost = counts["cost"].as_f64().unwrap_or_default();
        assert!((cost - 0.04 * passed as f64).abs() < 1e-9, "{budget}: {counts:#}");
    }
}

#[test]
fn a_log_has_no_contents_unless_asked_for() {
    let Some(upstream) = upstream() else { return };
    if !OPENAI.is_installed() {
        return;
    }
    for contents in [false, true] {
        let setup = Setup::new(upstream, &[]).gateway(upstream, &OPENAI);
        let log = setup.home.join("gateway.log");
        let setup = setup.set("gateway.log", json!(log)).set("gateway.log_contents", json!(contents));
        let (model, echo) = (OPENAI.model("logged", ""), OPENAI.model("logged", "echo"));
        let words = OPENAI.words(
            &setup.home,
            &[format!("whole:{model}"), format!("stream:{model}"), format!("whole:{echo}")],
        );
        setup.run(&words.iter().map(String::as_str).collect::<Vec<_>>()).ok();
        let text = std::fs::read_to_string(&log).expect("the gateway writes its log");
        upstream.assert_clean("the log", &text);
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("lines of JSON")).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines.iter().all(|line| line["model"].as_str().is_some_and(|name| name.contains("logged"))),
            "{text}"
        );
        assert_eq!(text.contains("hello"), contents, "the question: {text}");
        assert_eq!(text.contains("hound"), contents, "the answer: {text}");
    }
}

#[test]
#[kennel_claim::claim("gateway/budgets-hold")]
fn what_is_under_way_when_the_command_ends_is_in_the_report() {
    if !have(&["bash"]) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a request");
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        // It says something for as long as somebody listens.
        while stream.write_all(b"data: {\"content\":\"and on\"}\n\n").is_ok() {}
    });
    let setup = Setup { home: kennel_tests::Scratch::new(), settings: json!({}), variables: Vec::new() };
    let rule = json!({"key": "env:OPENAI_API_KEY", "upstream": format!("http://127.0.0.1:{port}")});
    let setup = setup.variable("OPENAI_API_KEY", "sk-proj-0123456789abcdefghij").set("gateway.openai", rule);
    let body = r#"{"model":"m","stream":true}"#;
    let script = format!(
        "a=${{OPENAI_BASE_URL#http://}}; a=${{a%/v1}}; exec 3<>/dev/tcp/${{a%:*}}/${{a#*:}}
        printf 'POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer %s\\r\\nContent-Length: {}\\r\\n\\r\\n%s' \
            \"$OPENAI_API_KEY\" '{body}' >&3
        head -c 20000 <&3 | grep -c 'and on'",
        body.len()
    );
    let told = setup.run(&["bash", "-c", &script]).ok();
    assert!(told.ran.stdout.trim().parse::<u64>().is_ok_and(|events| events > 100), "{told:#?}");
    let total = &told.report["gateway"]["total"];
    assert!(total["bytes_received"].as_u64() > Some(10_000), "{total:#}");
    assert!(total["output_tokens"].as_u64() > Some(10_000), "{total:#}");
}
