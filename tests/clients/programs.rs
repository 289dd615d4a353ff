//! The clients, and how each makes its request.
//!
//! A request is a script that reaches `$HOST` and succeeds only when the answer came. Clients that try again after a failure
//! are told not to, for the time that it takes.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use kennel_tests::{Scratch, ran, skipped};

use crate::clients::installed::{self, Need};
use crate::clients::table::Row;
use crate::clients::{Seen, Way, ask};
use kennel_tests::world::{self, World, world};

/// As the servers' script and the requests say.
const GRPC_PORT: u16 = 50051;

/// A client.
#[derive(Debug)]
pub struct Client {
    /// As the table calls it.
    pub name: &'static str,
    /// What it needs. The first is what the table gives the version of.
    pub needs: &'static [Need],
    /// The script.
    pub request: &'static str,
    /// What it says when it worked.
    pub proof: &'static str,
}

macro_rules! clients {
    ($($test:ident: $name:literal, [$($kind:ident($need:literal)),*], $proof:literal, $request:literal;)*) => {
        /// Every client, in the order of the table.
        pub const NAMES: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                let needs = &[$(Need::$kind($need)),*];
                try_it(&Client { name: $name, needs, request: $request, proof: $proof });
            }
        )*
    };
}

clients! {
    openai_for_python: "openai, Python", [Python("openai")], "hello from", "$PYTHON -c '
import os, openai
client = openai.OpenAI(base_url=\"https://%s/v1\" % os.environ[\"HOST\"], api_key=\"k\", max_retries=0, timeout=20)
message = {\"role\": \"user\", \"content\": \"hello\"}
print(client.chat.completions.create(model=\"demo\", messages=[message]).choices[0].message.content)'";

    anthropic_for_python: "anthropic, Python", [Python("anthropic")], "hello from", "$PYTHON -c '
import os, anthropic
client = anthropic.Anthropic(base_url=\"https://%s\" % os.environ[\"HOST\"], api_key=\"k\", max_retries=0, timeout=20)
message = {\"role\": \"user\", \"content\": \"hello\"}
print(client.messages.create(model=\"demo\", max_tokens=9, messages=[message]).content[0].text)'";

    openai_for_node: "openai, Node", [Node("openai"), Program("node")], "hello from", "node -e '
const OpenAI = require(\"openai\");
const client = new OpenAI({ baseURL: `https://${process.env.HOST}/v1`, apiKey: \"k\", maxRetries: 0, timeout: 20000 });
client.chat.completions.create({ model: \"demo\", messages: [{ role: \"user\", content: \"hello\" }] })
    .then(answer => console.log(answer.choices[0].message.content), error => { console.error(error); process.exit(1); })'";

    anthropic_for_node: "@anthropic-ai/sdk, Node", [Node("@anthropic-ai/sdk"), Program("node")], "hello from", "node -e '
const Anthropic = require(\"@anthropic-ai/sdk\");
const client = new Anthropic({ baseURL: `https://${process.env.HOST}`, apiKey: \"k\", maxRetries: 0, timeout: 20000 });
client.messages.create({ model: \"demo\", max_tokens: 9, messages: [{ role: \"user\", content: \"hello\" }] })
    .then(answer => console.log(answer.content[0].text), error => { console.error(error); process.exit(1); })'";

    huggingface_hub: "huggingface_hub", [Python("huggingface_hub")], "hello from a model", "
        export HF_ENDPOINT=https://$HOST HF_HUB_DISABLE_XET=1
        $PYTHON -c '
import huggingface_hub
# A download waits for half a minute where a host cannot be reached; a look at the file does not.
file = (\"demo/model\", \"config.json\")
huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(*file))
print(open(huggingface_hub.hf_hub_download(*file)).read())'";

    httpx: "httpx", [Python("httpx")], "hello from", "$PYTHON -c '
import os, httpx
print(httpx.get(\"https://%s/hello\" % os.environ[\"HOST\"], timeout=20).raise_for_status().text)'";

    requests: "requests", [Python("requests")], "hello from", "$PYTHON -c '
import os, requests
answer = requests.get(\"https://%s/hello\" % os.environ[\"HOST\"], timeout=20)
answer.raise_for_status()
print(answer.text)'";

    aiohttp: "aiohttp", [Python("aiohttp")], "hello from", "$PYTHON -c '
import os, asyncio, aiohttp
async def main():
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        async with session.get(\"https://%s/hello\" % os.environ[\"HOST\"]) as answer:
            print(await answer.text())
asyncio.run(main())'";

    aiohttp_with_trust_env: "aiohttp, `trust_env=True`", [Python("aiohttp")], "hello from", "$PYTHON -c '
import os, asyncio, aiohttp
async def main():
    async with aiohttp.ClientSession(raise_for_status=True, trust_env=True) as session:
        async with session.get(\"https://%s/hello\" % os.environ[\"HOST\"]) as answer:
            print(await answer.text())
asyncio.run(main())'";

    grpc_for_python: "grpcio, Python", [Python("grpcio")], "hello from", "$PYTHON -c '
import os, grpc
host = os.environ[\"HOST\"]
with open(os.environ[\"SSL_CERT_FILE\"], \"rb\") as roots:
    channel = grpc.secure_channel(host + \":50051\", grpc.ssl_channel_credentials(roots.read()))
print(channel.unary_unary(\"/demo.Demo/Hello\")(b\"\", metadata=[(\"asked\", host)], timeout=20).decode())'";

    grpc_for_node: "@grpc/grpc-js, Node", [Node("@grpc/grpc-js"), Program("node")], "hello from", "node -e '
const grpc = require(\"@grpc/grpc-js\"), same = x => x, host = process.env.HOST;
const roots = require(\"fs\").readFileSync(process.env.SSL_CERT_FILE);
const client = new grpc.Client(host + \":50051\", grpc.credentials.createSsl(roots));
const about = new grpc.Metadata();
about.set(\"asked\", host);
const options = { deadline: Date.now() + 20000 };
client.makeUnaryRequest(\"/demo.Demo/Hello\", same, same, Buffer.alloc(0), about, options, (error, answer) => {
    if (error) { console.error(String(error)); process.exit(1); }
    console.log(String(answer));
    process.exit(0);
})'";

    npm: "npm", [Node("npm"), Program("node")], "npm-demo", "
        echo '{}' > package.json
        node $CLIENTS/node_modules/npm/bin/npm-cli.js install --no-audit --no-fund --fetch-retries=0 \
            --registry=https://$HOST/ npm-demo
        ls node_modules";

    yarn_classic: "yarn 1", [Node("yarn"), Program("node")], "npm-demo", "
        echo '{\"name\": \"p\", \"version\": \"1.0.0\"}' > package.json
        node $CLIENTS/node_modules/yarn/bin/yarn.js add --non-interactive --registry https://$HOST/ npm-demo@1.0.0
        ls node_modules";

    yarn_berry: "yarn 4", [Node("@yarnpkg/cli-dist"), Program("node")], "npm-demo", "
        echo '{\"name\": \"p\", \"version\": \"1.0.0\"}' > package.json
        export YARN_NPM_REGISTRY_SERVER=https://$HOST YARN_HTTP_RETRY=0 YARN_NODE_LINKER=node-modules
        export YARN_ENABLE_TELEMETRY=0 YARN_NPM_MINIMAL_AGE_GATE=0
        node $CLIENTS/node_modules/@yarnpkg/cli-dist/bin/yarn.js add npm-demo@1.0.0
        ls node_modules";

    pnpm: "pnpm", [Node("pnpm"), Program("node")], "npm-demo", "
        echo '{\"name\": \"p\", \"version\": \"1.0.0\"}' > package.json
        printf 'cafile=%s\\n' $SSL_CERT_FILE > .npmrc
        export PNPM_CONFIG_REGISTRY=https://$HOST/ PNPM_CONFIG_FETCH_RETRIES=0
        $CLIENTS/node_modules/.bin/pnpm add npm-demo@1.0.0
        ls node_modules";

    pip: "pip", [Python("pip")], "demo-1.0-py3-none-any.whl", "
        $PYTHON -m pip download --disable-pip-version-check --no-cache-dir --no-deps --retries 0 \
            --index-url https://$HOST/simple -d got demo
        ls got";

    uv: "uv", [Python("uv")], "demo.py", "
        export UV_HTTP_RETRIES=0
        $CLIENTS/python/bin/uv pip install --no-cache --python $PYTHON --target got --index-url https://$HOST/simple demo
        ls got";

    cargo: "cargo", [Program("cargo")], "cargo-demo-1.0.0", "
        export CARGO_HOME=$HOME/c CARGO_REGISTRIES_DEMO_INDEX=sparse+https://$HOST/index/ CARGO_NET_RETRY=0
        mkdir src; touch src/lib.rs
        { printf '[package]\\nname = \"p\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n'
          printf '[dependencies]\\ncargo-demo = { version = \"1\", registry = \"demo\" }\\n'; } > Cargo.toml
        cargo fetch
        ls c/registry/src/*";

    go: "go", [Program("go")], "demo.go", "
        export GOPROXY=https://$HOST/go GOSUMDB=off GOFLAGS=-modcacherw GOPATH=$HOME/go GOTOOLCHAIN=local
        go mod download -json example.test/demo@v1.0.0
        ls go/pkg/mod/example.test/demo@v1.0.0";

    maven: "maven", [Program("mvn")], "BUILD SUCCESS", "
        printf '<settings><mirrors><mirror><id>m</id><mirrorOf>*</mirrorOf><url>https://%s/maven</url></mirror></mirrors></settings>' \
            $HOST > settings.xml
        parent='<parent><groupId>test.example</groupId><artifactId>parent</artifactId><version>1.0.0</version><relativePath/></parent>'
        printf '<project><modelVersion>4.0.0</modelVersion>%s<artifactId>p</artifactId><packaging>pom</packaging></project>' \
            \"$parent\" > pom.xml
        mvn -B -s settings.xml -Dmaven.repo.local=$HOME/m2 -Dmaven.wagon.http.retryHandler.count=0 \
            -Djavax.net.ssl.trustStore=$TRUST_STORE -Djavax.net.ssl.trustStorePassword=changeit validate";

    bundler: "bundler", [Program("bundle")], "demo.rb", "
        printf 'source \"https://%s\"\\ngem \"demo\"\\n' $HOST > Gemfile
        export BUNDLE_RETRY=0 BUNDLE_PATH=$HOME/gems BUNDLE_SILENCE_ROOT_WARNING=1
        bundle install
        ls gems/ruby/*/gems/demo-1.0.0/lib";

    git_over_https: "git over https", [Program("git")], "text", "
        git clone -q https://$HOST/demo.git clone
        cat clone/file";

    git_over_ssh: "git over ssh", [Program("git"), Program("ssh")], "text", "
        git clone -q ssh://$HOST$REPOSITORY clone
        cat clone/file";

    curl: "curl", [Program("curl")], "hello from", "curl -sSf https://$HOST/hello";

    wget: "wget", [Program("wget")], "hello from",
        "wget -nv --tries=1 --ca-certificate=$SSL_CERT_FILE -O - https://$HOST/hello";
}

/// Tries a client both ways, and compares what came of it with its row.
fn try_it(client: &Client) {
    let Some(world) = world() else { return };
    let Some(authority) = world.https() else { return };
    let mut version = None;
    for (at, need) in client.needs.iter().enumerate() {
        match need.version() {
            Ok(found) if at == 0 => version = found,
            Ok(_) => {}
            Err(reason) => return skipped(&reason),
        }
    }
    if client.name.ends_with("ssh") && !crate::clients::ssh::configure(world) {
        return;
    }
    if client.name.contains("grpc") {
        kennel_tests::eventually("the gRPC server listens", || {
            TcpStream::connect((world::THERE, GRPC_PORT)).ok()
        });
    }
    let scratch = Scratch::new();
    let word: String = client.name.chars().filter(char::is_ascii_alphanumeric).collect();
    let word = word.to_lowercase();
    let variables = variables(world, &authority, &scratch, client);
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let try_by = |way: Way| {
        let form = if way == Way::Variables { "with" } else { "bare" };
        let host = format!("{word}-{form}.web.test");
        let other = format!("{word}-{form}-denied.web.test");
        let seen = ask(way, client.request, &[&host, &other], &variables, &[]);
        let cells = [reached(client, &seen, &host), refused(world, &seen, &other)];
        (cells, seen.all)
    };
    // At the same time: some clients wait before they give up.
    let [with, bare] = std::thread::scope(|scope| {
        let with = scope.spawn(|| try_by(Way::Variables));
        let bare = try_by(Way::Nothing);
        [with.join().expect("it panics only with a message of its own"), bare]
    });
    println!("{}\n{}", with.1, bare.1);
    let cells = [client.name.to_owned(), version.unwrap_or_default()]
        .into_iter()
        .chain(with.0)
        .chain(bare.0)
        .collect();
    Row(cells).compare();
}

/// By which door a client got its answer.
fn reached(client: &Client, seen: &Seen, host: &str) -> String {
    let (said, code) = &seen.answers[0];
    if *code != 0 || !said.contains(client.proof) {
        return "fails".to_owned();
    }
    let doors = seen.doors(host, true);
    let doors: Vec<&str> = doors
        .into_iter()
        .filter_map(|door| match door {
            "connect" | "http" => Some("proxy"),
            "socks" => Some("SOCKS5"),
            "direct" => Some("transparent"),
            _ => None,
        })
        .collect();
    doors.join(", ")
}

/// How clients say that a name does not exist.
const NO_SUCH_HOST: [&str; 8] = [
    "not known",
    "unable to resolve",
    "not resolve",
    "enotfound",
    "no such host",
    "name not found",
    "name resolution failed",
    "could not reach host",
];

/// What a client says of a host that is not allowed, once it is certain that it was kept from it.
fn refused(world: &World, seen: &Seen, host: &str) -> String {
    let (said, code) = &seen.answers[1];
    if *code == 0 || !world.seen(host).is_empty() || seen.doors(host, false).is_empty() {
        return "**not refused**".to_owned();
    }
    let said = said.to_lowercase();
    let what = if said.contains("not on the allow list") {
        "the reason"
    } else if said.split(|c: char| !c.is_alphanumeric()).any(|word| word == "403") {
        "403"
    } else if NO_SUCH_HOST.iter().any(|text| said.contains(text)) {
        "no such host"
    } else {
        "a failure"
    };
    what.to_owned()
}

/// What the scripts go by, and where each client finds the authority that has signed the servers' certificate.
fn variables(
    world: &World,
    authority: &Path,
    scratch: &Scratch,
    client: &Client,
) -> Vec<(&'static str, String)> {
    let authority = authority.display().to_string();
    let clients = installed::folder().unwrap_or_default().display().to_string();
    let mut all = vec![
        ("PYTHONPATH", format!("{clients}/python")),
        ("PYTHON", world::python().unwrap_or_default().display().to_string()),
        ("NODE_PATH", format!("{clients}/node_modules")),
        ("CLIENTS", clients),
    ];
    for name in [
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "PIP_CERT",
        "CARGO_HTTP_CAINFO",
        "GIT_SSL_CAINFO",
        "CURL_CA_BUNDLE",
        "npm_config_cafile",
    ] {
        all.push((name, authority.clone()));
    }
    if client.name == "maven" {
        all.push(("TRUST_STORE", trust_store(&authority, scratch)));
    }
    if client.name.starts_with("git ") {
        crate::clients::ssh::repository(world);
        all.push(("REPOSITORY", world.file("www/demo.git").display().to_string()));
    }
    all
}

/// Java reads certificates from a file of its own form.
fn trust_store(authority: &str, scratch: &Scratch) -> String {
    let store = scratch.join("trust.p12").display().to_string();
    if !Path::new(&store).exists() {
        let mut keytool = Command::new("keytool");
        keytool.args(["-importcert", "-noprompt", "-alias", "test", "-storepass", "changeit"]);
        ran(keytool.args(["-file", authority, "-keystore", &store])).ok();
    }
    store
}
