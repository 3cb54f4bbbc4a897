//! Tests which parts are hidden and which stay readable, and puts random secrets in every place.

use proptest::prelude::*;

use super::*;

#[test]
fn secrets_are_hidden() {
    for (text, shown) in [
        ("https://me:secret@host/a", "https://***@host/a"),
        ("HTTPS://me:secret@host/a", "HTTPS://***@host/a"),
        ("https://secret@host/a", "https://***@host/a"),
        ("https://a@b@host", "https://***@host"),
        ("https://me:s/e?c#r@host/a", "https://***@host/a"),
        ("https://me:12/secret@host/a", "https://***@host/a"),
        ("https://me:p%40ss%2F@host/a", "https://***@host/a"),
        ("ssh://git:secret@host/a", "ssh://***@host/a"),
        ("git+https://x:secret@h.example/a@v1", "git+https://***@v1"),
        ("me:secret@host/a", "***@host/a"),
        ("registry:me:secret@host/a:1", "registry:***@host/a:1"),
        ("docker.io=me:secret@127.0.0.1:5000/x", "docker.io=***@127.0.0.1:5000/x"),
        ("https:/me:secret@h/x=https://me:secret@-7", "***@h/x=https://***@-7"),
        ("h:5000/x=https://me:secret@h", "***@h"),
        ("h.example:5000/x=https://me:secret@h", "h.example:5000/x=https://***@h"),
        ("https://g.example/a=https://me:secret@h/b", "https://g.example/a=https://***@h/b"),
        ("a https://u:p1@h1 b http://u:p2@h2, c", "a https://***@h1 b http://***@h2, c"),
        ("x=https://u:p1@h1,y=https://u:p2@h2", "x=https://***@h2"),
        ("me:secret@host/a@sha256:0123", "***@host/a@sha256:0123"),
        ("https%3A%2F%2Fme%3Asecret%40host%2Fa", "https%3A%2F%2F***%40host%2Fa"),
        ("https%3A%2F%2F%40host%2Fa", "https%3A%2F%2F%40host%2Fa"),
        ("me%3Asecret@host/a", "***@host/a"),
        ("https://host/a?token=secret", "https://host/a?***"),
        ("(https://host/a?b).", "(https://host/a?***)."),
        ("https://me:secret@host?token=secret", "https://***@host?***"),
        ("https://host/a#access_token=secret", "https://host/a#***"),
        ("https://host/a#aB3aB3aB3aB3aB3aB3aB3", "https://host/a#***"),
        ("https://me:secr… failed", "https://***… failed"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("\"authorization\": \"Basic dTpw\" is", "\"authorization\": \"Basic ***\" is"),
        ("proxy-authorization: Digest a=\"b\", c=d", "proxy-authorization: Digest ***\"b\", c=d"),
        ("sent Bearer 0123456789abcdef to", "sent Bearer *** to"),
        ("HF_TOKEN=hf_abc x", "HF_TOKEN=*** x"),
        ("HF_TOKEN=${HF_TOKEN:-secret} x", "HF_TOKEN=${HF_TOKEN:-***} x"),
        ("HF_TOKEN=${HF_TOKEN:-secret", "HF_TOKEN=${HF_TOKEN:-***"),
        ("http://HOST:secret/v1 or --api-key KEYsecret", "http://*** or --api-key ***"),
        ("API_KEY=${API_KEY:-${OTHER:-secret}}", "API_KEY=${API_KEY:-***}}"),
        ("--api-key $1a2b3c4d", "--api-key ***"),
        ("GITHUB_TOKEN_READ=x", "GITHUB_TOKEN_READ=***"),
        ("token = \"a b\" # c", "token = \"***\" # c"),
        ("{\"password\": \"x y\"}", "{\"password\": \"***\"}"),
        ("X-Api-Key: abc", "X-Api-Key: ***"),
        ("serve --api-key abc --port 1", "serve --api-key *** --port 1"),
        ("AWS_SECRET_ACCESS_KEY='a b' x", "AWS_SECRET_ACCESS_KEY='***' x"),
        ("DB_PASS=a GITHUB_PAT=b x", "DB_PASS=*** GITHUB_PAT=*** x"),
        ("BASIC_AUTH=a JWT=b DB_PWD=c", "BASIC_AUTH=*** JWT=*** DB_PWD=***"),
        ("AWS_CREDS=a SESSION_COOKIE=b", "AWS_CREDS=*** SESSION_COOKIE=***"),
    ] {
        assert_eq!(mask(text), shown, "{text}");
        assert_eq!(mask(shown), shown, "masking again changes nothing");
        let in_place = mask_in_place(text);
        assert_eq!(in_place.chars().count(), text.chars().count());
        assert!(!in_place.contains("secret"), "{in_place}");
    }
}

#[test]
fn what_is_no_secret_stays() {
    for text in [
        "",
        "git@host:a/b",
        "ssh://git@host/a/b",
        "me@example.org",
        "docker.io/a/b@sha256:0123",
        "h.example:5000/a/b:tag@sha256:0123",
        "https://h.example/a@b",
        "https://h.example:8443/npm/a@1.2/b",
        "https://h.example:8443: connection refused",
        "https://h.example/a#installation-of-rocm-7",
        "https://h.example/a-1.whl#sha256=0123456789012345678901",
        "http://[::1]:5000/v2/",
        "unix:///run/podman/podman.sock",
        "file:///srv/a@b",
        "pkg:pypi/torch@2.11.0",
        "is it https://h.example/a?",
        "--max-tokens=5 skip_special_tokens=True",
        "HF_TOKEN=$HF_TOKEN",
        "PWD=/root PATH=/bin PASS_THROUGH=1 GIT_AUTHOR=me auth=none",
        "if token == other",
        "the token: it is missing",
        "api-key-refused: the server refused it",
        "credential-helper-missing: the settings name a program",
        "exec: \"docker-credential-desktop.exe\": executable file not found",
        "exec: \"docker-credential-pass\": executable file not found",
        "bearer token is missing",
        "versions/versions.toml:3:24: message",
        "docker.io=127.0.0.1:5000",
        "@@ -1,2 +3,4 @@",
    ] {
        assert_eq!(mask(text), text);
        assert_eq!(Secret::from(text).masked(), text);
    }
}

#[test]
fn instructions_stay() {
    for text in [
        "curl http://HOST:PORT/v1/models or http://localhost:PORT/health, serve --api-key KEY; or --api-key-file FILE",
        "--secret id=NAME,env=VARIABLE and -H 'Authorization: Bearer $TOKEN'",
        "persist-credentials: false",
        "`HF_TOKEN=${HF_TOKEN:?}`; `HF_TOKEN=${HF_TOKEN:-}`",
        "HF_TOKEN=${HF_TOKEN:?set the token} x",
        "API_KEY=${API_KEY:-$OTHER} or API_KEY=${API_KEY:-${OTHER}}",
    ] {
        assert_eq!(mask(text), text);
    }
}

#[test]
fn a_value_is_one_secret_to_its_end() {
    let secret = Secret::from("https://me:a b\"c`d@host/x");
    assert_eq!(secret.to_string(), "https://***@host/x");
    assert_eq!(format!("{secret:?}"), "\"https://***@host/x\"");
    assert_eq!(serde_json::to_string(&secret).unwrap(), "\"https://***@host/x\"");
    assert_eq!(secret.expose(), "https://me:a b\"c`d@host/x");
    assert!(secret.is_secret() && !Secret::from("docker.io/a").is_secret());
    assert_eq!(Secret::from("TOKEN=a b").to_string(), "TOKEN=***");
    assert_eq!(format!("{:>8}|", Secret::from("a")), "       a|");
}

#[test]
fn tokens_are_known_by_their_form() {
    let mixed = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789";
    for token in [
        format!("hf_{}", &mixed[..34]),
        format!("ghp_{mixed}"),
        format!("github_pat_{mixed}_{mixed}"),
        format!("glpat-{}", &mixed[10..30]),
        format!("sk-{mixed}"),
        format!("sk-proj-{mixed}"),
        "sk-0123456789abcdef0123456789abcdef".to_owned(),
        "AKIAABCDEFGHIJ234567".to_owned(),
    ] {
        for text in [token.clone(), format!("a {token}, b"), format!("[\"{token}\"]")] {
            assert!(!mask(&text).contains(&token), "{text}");
            assert!(has_secret(&text), "{text}");
        }
        assert!(!has_secret(&format!("x{token}")));
    }
    for other in [
        "hf_transfer",
        "hf_hub_download_is_a_function_of_hugging_face",
        "sk-learn-has-many-words-but-is-no-token",
        "sk-no-key-required",
        "task-AbCdEf0123456789AbCdEf0123456789",
        "AKIAIOSFODNN7",
        "ghp_short1A",
    ] {
        assert_eq!(mask(other), other);
        assert!(!has_secret(other), "{other}");
    }
}

#[test]
fn names_of_keys_and_passwords_indicate_secrets() {
    for name in ["DBPASS", "DB_PASS", "SSH_KEY", "MY_SSH_KEY", "SSHKEY", "LICENSE_KEY", "APP_KEY"] {
        assert_eq!(mask(&format!("{name}=abc")), format!("{name}=***"));
    }
    for name in ["CACHE_BYPASS", "COMPASS", "GPG_KEY", "SORT_KEY", "SSH_PUBLIC_KEY", "SSH_KEY_PATH"]
    {
        let text = format!("{name}=abc");
        assert_eq!(mask(&text), text);
    }
}

#[test]
fn placeholders_are_no_secrets() {
    for text in [
        "--api-key ${KEY}",
        "--api-key=$KEY",
        "--token=",
        "TOKEN=changeme",
        "TOKEN=<your token>",
        "--api-key EMPTY",
        "PASSWORD=your-password",
        "https://${USER}:${PASSWORD}@h.example/",
        "https://h.example/a?page=2#part",
        "Ask us: team@h.example",
    ] {
        assert!(!has_secret(text), "{text}");
    }
    for text in [
        "--api-key abc",
        "--token=abc",
        "TOKEN=abc",
        "https://u:pw@h.example/",
        "See https://u:pw@h.example/ for more.",
        "https://h.example/a?sig=abc",
        "https://$USER:pw@h.example/",
    ] {
        assert!(has_secret(text), "{text}");
    }
}

#[test]
fn long_texts_take_little_time() {
    for part in [
        "sk-",
        "hf_",
        "://",
        "a://",
        "://#",
        ":",
        "authorization:",
        "token=",
        "%3a",
        "@",
        "bearer ",
        "a:1/",
    ] {
        let text = part.repeat(1_000_000 / part.len());
        assert!(mask(&text).len() <= 2 * text.len(), "{part}");
    }
}

/// Generates secrets as people choose them, with every character that has a meaning in a URL.
fn secrets() -> impl Strategy<Value = String> {
    "[A-Za-z0-9@:/%?#=&+~]{4,40}"
}

proptest! {
    #[test]
    fn no_random_secret_is_shown(secret in secrets(), user in "[a-z]{1,8}") {
        // A secret that also occurs in the rest of the text cannot be distinguished from it.
        let texts = [
            format!("https://{user}:{secret}@h.example/p"),
            format!("HTTP://{user}:{secret}@127.0.0.1:5000"),
            format!("https://{secret}@h.example/p"),
            format!("{user}:{secret}@h.example/p"),
            format!("docker.io={user}:{secret}@h.example/p"),
            format!("docker.io/x=https://{user}:{secret}@h.example/p"),
            format!("https://g.example/x=https://{user}:{secret}@h.example/p"),
            format!("https://h.example/p?{secret}"),
            format!("https://h.example/p#access_token={secret}"),
            format!("HF_TOKEN={secret}"),
            format!("--password {secret}"),
            format!("Authorization: Basic {secret}"),
        ];
        for text in texts {
            let without = text.replacen(&secret, "", 1);
            prop_assume!(!without.contains(&secret));
            let shown = [
                mask(&text).into_owned(),
                mask_in_place(&text).into_owned(),
                mask(&format!("a `{text}` b: {text}, c")).into_owned(),
                Secret::from(text.as_str()).to_string(),
                format!("{:?}", Secret::from(text.as_str())),
            ];
            for shown in shown {
                prop_assert!(!shown.contains(&secret), "{text} is shown as {shown}");
            }
            prop_assert_eq!(mask_in_place(&text).chars().count(), text.chars().count());
            let once = mask(&text).into_owned();
            prop_assert_eq!(mask(&once).into_owned(), once);
        }
    }
}
