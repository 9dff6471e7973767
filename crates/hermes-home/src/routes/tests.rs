use std::path::Path;

use secrecy::ExposeSecret as _;

use super::*;
use crate::ProcessVars;
use crate::dotenv::DotEnv;

fn resolved(yaml: &str, env: &str, dotenv: &str) -> Result<String, String> {
    let process: ProcessVars =
        DotEnv::parse(env).entries.into_iter().map(|e| (e.name, e.value)).collect();
    let vars = Vars::new(&process, &DotEnv::parse(dotenv));
    let mut config = crate::load::read_config(Path::new("config.yaml"), yaml, &vars)
        .map_err(|e| e.to_string())?
        .config;
    apply_variables(&mut config, &vars, |_, _, _| {});
    let lines =
        routes(&config, &vars).map_err(|error| error.to_string())?.into_iter().map(|route| {
            match route {
                Route::Rehearsal => "rehearsal".to_owned(),
                Route::Endpoint(e) => format!(
                    "{}|{}|{}|{}|{}",
                    e.provider,
                    e.base_url,
                    e.model,
                    e.api_key.as_ref().map_or("-", |key| key.expose_secret()),
                    e.context_length.map_or_else(|| "?".to_owned(), |n| n.to_string()),
                ),
            }
        });
    Ok(lines.collect::<Vec<_>>().join(" ; "))
}

fn check(yaml: &str, env: &str, dotenv: &str, expected: &str) {
    assert_eq!(resolved(yaml, env, dotenv).unwrap(), expected, "{yaml}");
}

#[test]
fn settings_lead_to_endpoints() {
    check("", "", "", "rehearsal");
    check("", "OPENAI_API_KEY=k\n", "", "rehearsal");
    check("model: {provider: rehearsal, default: x}\n", "", "", "rehearsal");
    check(
        "model: {default: m, provider: custom, base_url: http://127.0.0.1:9/v1/, api_key: any, context_length: 200000}\n",
        "",
        "",
        "custom|http://127.0.0.1:9/v1|m|any|200000",
    );
    check(
        "model: {default: m, provider: ollama}\n",
        "",
        "",
        "ollama|http://127.0.0.1:11434/v1|m|-|?",
    );
    check(
        "model: m\n",
        "OPENROUTER_API_KEY=k\n",
        "",
        "openrouter|https://openrouter.ai/api/v1|m|k|?",
    );
    check(
        "model: {default: m, provider: OpenAI}\n",
        "OPENAI_API_KEY=outer\n",
        "OPENAI_API_KEY=inner\n",
        "openai|https://api.openai.com/v1|m|inner|?",
    );
    check(
        "model: m\n",
        "OPENAI_BASE_URL=http://h:1/v1\nOPENAI_API_KEY=k\n",
        "",
        "custom|http://h:1/v1|m|k|?",
    );
    check(
        "model: {default: big, provider: work}\nproviders:\n  work: {base_url: 'https://w/v1/chat/completions', key_env: WK, models: {big: {context_length: 5}}}\nfallback_providers:\n- {provider: ollama, model: small}\n- {provider: work, model: other, api_key: second}\n",
        "",
        "WK=k\n",
        "work|https://w/v1|big|k|5 ; ollama|http://127.0.0.1:11434/v1|small|-|? ; work|https://w/v1|other|second|?",
    );
    check(
        "custom_providers:\n- {name: My Box, base_url: 'http://10.0.0.2/v1', model: m}\n",
        "",
        "MY_BOX_API_KEY=k\n",
        "My Box|http://10.0.0.2/v1|m|k|?",
    );
    check(
        "model: {default: m, base_url: 'http://${HOST}/v1', api_key: '${K}'}\n",
        "HOST=h:2\n",
        "K=v\n",
        "custom|http://h:2/v1|m|v|?",
    );
}

#[test]
fn a_key_of_the_environment_does_not_reach_a_custom_address() {
    let yaml = "model: {default: m, provider: custom, base_url: 'https://stranger.example/v1'}\n";
    check(yaml, "OPENAI_API_KEY=k\n", "", "custom|https://stranger.example/v1|m|-|?");
    check(yaml, "", "OPENAI_API_KEY=k\n", "custom|https://stranger.example/v1|m|k|?");
    check(
        yaml,
        "OPENAI_BASE_URL=https://api.example\nOPENAI_API_KEY=k\n",
        "",
        "custom|https://stranger.example/v1|m|-|?",
    );
}

#[test]
fn what_is_missing_is_said_with_the_next_step() {
    let check = |yaml: &str, what: &str| {
        let error = resolved(yaml, "", "").unwrap_err();
        assert!(error.contains(what) && error.contains("hint: "), "{yaml}: {error}");
    };
    check("model: {provider: ollama}\n", "no model is configured for provider ollama");
    check("model: {default: m, provider: openrouter}\n", "no key for provider openrouter");
    check("model: {default: m, provider: openrooter}\n", "did you mean openrouter");
    check("model: {default: m, provider: custom}\n", "no address is configured");
    check("model: m\n", "no provider");
    check("model: {default: m, base_url: 'localhost:80'}\n", "is not an address");
    check(
        "model: {default: m, base_url: 'http://x/v1', api_key: '${NOPE}'}\n",
        "a variable that is not set",
    );
    check("model: {default: m, base_url: 'http://x/v1', key_env: NOPE}\n", "NOPE");
    check(
        "model: {default: m, base_url: 'http://x/v1', api_mode: anthropic_messages}\n",
        "not supported",
    );
}

#[test]
fn a_fallback_that_cannot_be_used_is_left_out_and_named_while_the_primary_is_used() {
    let yaml = "model: {default: m, provider: ollama}\nfallback_providers: [{provider: ollama}, {provider: nowhere, model: x}, {provider: ollama, model: y}, {base_url: 'http://127.0.0.1:9/v1', model: z, api_key_command: 'exit 1'}]\n";
    let vars = Vars::default();
    let config = crate::load::read_config(Path::new("c"), yaml, &vars).unwrap().config;
    let told = routes_told(&config, &vars).unwrap();
    assert_eq!(told.chain.len(), 2);
    let keys: Vec<&str> = told.left_out.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["fallback_providers.0", "fallback_providers.1", "fallback_providers.3"]);
    assert!(told.left_out[1].1.to_string().contains("nowhere"));
    let lines: Vec<String> = chain(&config, &vars).iter().map(ToString::to_string).collect();
    assert!(lines[2].starts_with("fallback_providers.1: unusable: there is no provider"));
}

#[test]
fn the_chain_is_described_without_secrets_and_without_running_commands() {
    let yaml = "model: {default: m, base_url: 'https://u:hidden@h/v1', api_key_command: 'exit 1'}\nfallback_providers: [{provider: nowhere, model: x}, {provider: ollama, model: y, api_key: hidden}]\n";
    let vars = Vars::default();
    let config = crate::load::read_config(Path::new("c"), yaml, &vars).unwrap().config;
    let lines: Vec<String> = chain(&config, &vars).iter().map(ToString::to_string).collect();
    assert_eq!(
        lines[0],
        "model: m at https://u:[redacted]@h/v1 (custom), key: the command in model.api_key_command"
    );
    assert!(
        lines[1].starts_with("fallback_providers.0: unusable: there is no provider \"nowhere\"")
    );
    assert_eq!(
        lines[2],
        "fallback_providers.1: y at http://127.0.0.1:11434/v1 (ollama), key: fallback_providers.1.api_key"
    );
    assert!(!format!("{config:?}").contains("hidden@") || !lines.join("").contains("hidden@"));
}

#[test]
fn private_networks_count_as_local() {
    for (url, local) in [
        ("http://127.0.0.1:1/v1", true),
        ("http://[::1]:8/v1", true),
        ("http://user@localhost/v1", true),
        ("http://192.168.1.5/v1", true),
        ("http://box.local/v1", true),
        ("https://api.openai.com/v1", false),
        ("https://127.0.0.1.evil.example/v1", false),
    ] {
        assert_eq!(is_local(url), local, "{url}");
    }
}

#[test]
fn fields_that_every_request_has_are_refused_in_extra_body_and_others_go_along() {
    let route = |extra: &str| {
        let yaml = format!(
            "model: {{default: m, base_url: http://h/v1, temperature: 0.5, extra_body: {extra}}}\n"
        );
        let config = crate::load::read_config(Path::new("config.yaml"), &yaml, &Vars::default());
        routes(&config.unwrap().config, &Vars::default())
    };
    let error = route("{stream: false}").unwrap_err().to_string();
    assert!(error.contains("\"stream\"") && error.contains("hint: take stream out"), "{error}");
    let Route::Endpoint(endpoint) = route("{top_k: 5}").unwrap().remove(0) else { panic!() };
    assert_eq!(endpoint.extra_body, [("top_k".to_owned(), "5".to_owned())]);
    assert_eq!(endpoint.temperature, Some(0.5));
}
