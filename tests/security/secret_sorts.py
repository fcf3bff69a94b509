"""Secrets made up at run time, by sort: no token stands here in full, so no scanner sees a real one.

The shapes are what their issuers publish; they are written here on their own, not read from the rules.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
WEB = ALNUM + "-_"
B64 = ALNUM + "+/"


@dataclass(frozen=True, kw_only=True)
class Planted:
    """``text`` is what a person writes down; ``parts`` are what must not be read out of it."""

    text: str
    parts: tuple[str, ...]


Make = Callable[[random.Random], Planted]


def some(rng: random.Random, alphabet: str, length: int) -> str:
    """Letters by lot, with at least one digit and one letter where the alphabet has both, edges plain."""
    while True:
        made = "".join(rng.choice(alphabet) for _ in range(length))
        mixed = any(map(str.isdigit, made)) and any(map(str.isalpha, made))
        if (
            (mixed or length < 8 or alphabet.isalpha() or alphabet.isdigit())
            and made[0] not in "-_+/"
            and made[-1] not in "-_+/"
        ):
            return made


def bare(head: str, alphabet: str, length: int, tail: str = "") -> Make:
    """A token that its shape gives away."""

    def make(rng: random.Random) -> Planted:
        token = head + some(rng, alphabet, length) + tail
        return Planted(text=token, parts=(token,))

    return make


def dotted(*shape: tuple[str, str, int], glue: str = ".") -> Make:
    """A token of several parts."""

    def make(rng: random.Random) -> Planted:
        token = glue.join(head + some(rng, alphabet, length) for head, alphabet, length in shape)
        return Planted(text=token, parts=(token,))

    return make


def within(form: str, alphabet: str, length: int, head: str = "") -> Make:
    """A secret that what stands around it gives away; ``{}`` is its place."""

    def make(rng: random.Random) -> Planted:
        secret = head + some(rng, alphabet, length)
        return Planted(text=form.replace("{}", secret), parts=(secret,))

    return make


def at(head: str, make: Make) -> Make:
    """A secret at the end of an address that everybody knows."""

    def made(rng: random.Random) -> Planted:
        found = make(rng)
        return Planted(text=head + found.text, parts=found.parts)

    return made


def uuid(rng: random.Random) -> str:
    return "-".join(some(rng, HEX, n) for n in (8, 4, 4, 4, 12))


def _uuid(head: str) -> Make:
    def make(rng: random.Random) -> Planted:
        secret = uuid(rng)
        return Planted(text=head + secret, parts=(secret,))

    return make


def _web_token(rng: random.Random) -> Planted:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in (
            {"alg": "HS256", "typ": "JWT"},
            {"sub": some(rng, LOWER, 12), "iat": rng.randrange(10**9)},
        )
    ]
    token = ".".join([*parts, some(rng, WEB, 43)])
    return Planted(text=token, parts=(token,))


def key_lines(rng: random.Random, count: int = 4) -> list[str]:
    """The base64 lines of a private key."""
    return ["MII" + some(rng, B64, 61), *(some(rng, B64, 64) for _ in range(count - 1))]


#: Known by their shape alone.
SHAPED: dict[str, Make] = {
    "github ghp": bare("gh" + "p_", ALNUM, 36),
    "github gho": bare("gh" + "o_", ALNUM, 36),
    "github ghu": bare("gh" + "u_", ALNUM, 36),
    "github ghs": bare("gh" + "s_", ALNUM, 36),
    "github ghr": bare("gh" + "r_", ALNUM, 36),
    "github fine-grained": dotted(("github" + "_pat_", ALNUM, 22), ("", ALNUM, 59), glue="_"),
    "gitlab personal": bare("gl" + "pat-", WEB, 20),
    "gitlab deploy": bare("gl" + "dt-", WEB, 20),
    "gitlab runner": bare("gl" + "rt-", WEB, 20),
    "gitlab job": bare("gl" + "cbt-", WEB, 20),
    "gitlab trigger": bare("gl" + "ptt-", HEX, 40),
    "gitlab feed": bare("gl" + "ft-", WEB, 20),
    "gitlab agent": bare("gl" + "agent-", WEB, 50),
    "gitlab oauth": bare("gl" + "oas-", HEX, 64),
    "gitlab registration": bare("GR" + "1348941", WEB, 20),
    "atlassian": bare("ATA" + "TT3", WEB, 180, "=" + "1A2B3C4D"),
    "bitbucket": bare("AT" + "BB", ALNUM, 32),
    "npm": bare("np" + "m_", ALNUM, 36),
    "pypi": bare("py" + "pi-AgEIcHlwaS5vcmc", WEB, 120),
    "rubygems": bare("ruby" + "gems_", HEX, 48),
    "docker hub": bare("dckr" + "_pat_", WEB, 27),
    "artifactory": bare("AK" + "Cp8", ALNUM, 69),
    "circleci": bare("CCI" + "PAT_", ALNUM, 60),
    "huggingface": bare("h" + "f_", string.ascii_letters, 34),
    "huggingface organisation": bare("api" + "_org_", string.ascii_letters, 34),
    "openai": bare("s" + "k-", ALNUM, 48),
    "openai project": bare("s" + "k-proj-", WEB, 120),
    "anthropic": bare("s" + "k-ant-api03-", WEB, 95),
    "openrouter": bare("s" + "k-or-v1-", HEX, 64),
    "groq": bare("gs" + "k_", ALNUM, 52),
    "replicate": bare("r" + "8_", ALNUM, 37),
    "nvidia": bare("nv" + "api-", WEB, 64),
    "perplexity": bare("ppl" + "x-", ALNUM, 48),
    "wandb v1": bare("wandb" + "_v1_", ALNUM, 60),
    "langsmith": dotted(("lsv2" + "_pt_", HEX, 32), ("", HEX, 10), glue="_"),
    "pinecone": bare("pc" + "sk_", ALNUM, 60),
    "aws key id": bare("AK" + "IA", UPPER, 16),
    "aws temporary id": bare("AS" + "IA", UPPER, 16),
    "aws bedrock": bare("AB" + "SK", B64, 128),
    "google api": bare("AI" + "za", WEB, 35),
    "google oauth secret": bare("GOC" + "SPX-", WEB, 28),
    "google access": bare("ya" + "29.", WEB, 120),
    "google refresh": bare("1/" + "/0", WEB, 60),
    "azure ad": dotted(("", ALNUM, 3), ("8Q" + "~", ALNUM + "_", 34), glue=""),
    "azure storage": within(
        "DefaultEndpointsProtocol=https;Account" + "Key={}==;EndpointSuffix=core", B64, 86
    ),
    "azure shared access": within("SharedAccessKeyName=root;Shared" + "AccessKey={}=", B64, 43),
    "digitalocean": bare("do" + "p_v1_", HEX, 64),
    "digitalocean oauth": bare("do" + "o_v1_", HEX, 64),
    "alibaba": bare("LT" + "AI5t", ALNUM, 20),
    "databricks": bare("da" + "pi", HEX, 32, "-2"),
    "terraform": dotted(("", ALNUM, 14), ("atlasv1" + ".", WEB, 67)),
    "vault service": bare("hv" + "s.CAES", WEB, 90),
    "vault batch": bare("hv" + "b.AAAA", WEB, 120),
    "doppler": bare("dp" + ".pt.", ALNUM, 43),
    "pulumi": bare("pu" + "l-", HEX, 40),
    "planetscale": bare("pscale" + "_tkn_", WEB, 43),
    "supabase": bare("sb" + "p_", HEX, 40),
    "heroku": bare("HR" + "KU-AA", WEB, 58),
    "netlify": bare("nf" + "p_", ALNUM, 36),
    "tailscale": dotted(("tskey" + "-auth-", ALNUM, 12), ("", ALNUM, 32), glue="-"),
    "age": bare("AGE-SECRET" + "-KEY-1", UPPER, 58),
    "stripe secret": bare("s" + "k_live_", ALNUM, 24),
    "stripe restricted": bare("r" + "k_live_", ALNUM, 99),
    "stripe test": bare("s" + "k_test_", ALNUM, 24),
    "stripe webhook": bare("wh" + "sec_", ALNUM, 32),
    "shopify access": bare("shp" + "at_", HEX, 32),
    "shopify app": bare("shp" + "pa_", HEX, 32),
    "shopify shared": bare("shp" + "ss_", HEX, 32),
    "shopify custom": bare("shp" + "ca_", HEX, 32),
    "square": bare("sq0" + "atp-", WEB, 22),
    "slack bot": dotted(
        ("xox" + "b-", string.digits, 12), ("", string.digits, 12), ("", ALNUM, 24), glue="-"
    ),
    "slack user": dotted(("xox" + "p-", string.digits, 12), ("", string.digits, 12), ("", HEX, 32), glue="-"),
    "slack app": dotted(("xa" + "pp-1-A", UPPER, 10), ("", string.digits, 13), ("", HEX, 64), glue="-"),
    "slack webhook": at(
        "https://hooks." + "slack.com/",
        dotted(("services/T", UPPER, 10), ("B", UPPER, 10), ("", ALNUM, 24), glue="/"),
    ),
    "discord bot": dotted(("MT", ALNUM, 24), ("G", ALNUM, 5), ("", ALNUM, 38)),
    "discord webhook": at(
        "https://discord." + "com/api/webhooks/", dotted(("", string.digits, 18), ("", WEB, 68), glue="/")
    ),
    "teams webhook": at(
        "https://x.webhook." + "office.com/webhookb2/",
        dotted(("", HEX, 32), ("Incoming/", HEX, 32), glue="/"),
    ),
    "sendgrid": dotted(("S" + "G.", WEB, 22), ("", WEB, 43)),
    "sendinblue": dotted(("xkey" + "sib-", HEX, 64), ("", ALNUM, 16), glue="-"),
    "mailchimp": bare("", HEX, 32, "-us" + "14"),
    "twilio account": bare("A" + "C", HEX, 32),
    "twilio key": bare("S" + "K", HEX, 32),
    "telegram": dotted(("", string.digits, 10), ("A" + "A", WEB, 33), glue=":"),
    "web token": _web_token,
    "linear": bare("lin" + "_api_", ALNUM, 40),
    "notion": bare("nt" + "n_", ALNUM, 46),
    "figma": bare("fi" + "gd_", WEB, 40),
    "postman": dotted(("PM" + "AK-", HEX, 24), ("", HEX, 34), glue="-"),
    "sentry": bare("sntr" + "ys_", B64, 80),
    "grafana": dotted(("gl" + "sa_", ALNUM, 32), ("", HEX, 8), glue="_"),
    "new relic": bare("NR" + "AK-", UPPER, 27),
    "dynatrace": dotted(("dt0" + "c01.", UPPER, 24), ("", UPPER, 64)),
    "hubspot": _uuid("pat" + "-na1-"),
    "plaid": _uuid("access" + "-sandbox-"),
    "airtable": dotted(("p" + "at", ALNUM, 14), ("", HEX, 64)),
    "dropbox": bare("s" + "l.B", WEB, 130),
}
#: Known by what stands before them.
SAID: dict[str, Make] = {
    "aws secret": within("aws_secret_access_key = {}", B64, 40),
    "aws session": within("AWS_SESSION_TOKEN={}", B64, 120),
    "twilio token": within("TWILIO_AUTH_TOKEN={}", HEX, 32),
    "wandb variable": within("WANDB_API_KEY={}", HEX, 40),
    "wandb netrc": within("machine api.wandb.ai login user password {}", HEX, 40),
    "netrc": within("machine pypi.acme.io login bot42x password {}", ALNUM, 14),
    "azure sas": within("https://x.blob.core.windows.net/c?sv=2022-11-02&sp=r&sig={}%3D", ALNUM + "%", 44),
    "password option": within("deploy --password {} --force", ALNUM, 12),
    "password option with =": within("deploy --db-password={} --force", ALNUM, 12),
    "token option": within("deploy --token {}", ALNUM, 20),
    "sshpass": within("sshpass -p {} ssh box", ALNUM, 10),
    "docker login": within("docker login -u bot -p {} reg", ALNUM, 10),
    "mysql": within("mysqldump -u root -p{} db", ALNUM, 10),
    "curl login": within("curl -u bot9:{} https://x.org", ALNUM, 12),
    "connection string": within("Server=db;Uid=sa;Pwd={};Encrypt=no", ALNUM, 12),
    "login in a URL": within("postgres://bot9:{}@db/x", ALNUM, 14),
    "redis URL": within("redis://:{}@cache:6379/0", ALNUM, 14),
    "git URL": within("https://oauth2:{}@gitlab.com/x/y.git", ALNUM, 20),
    "authorization header": within("Authorization: Bearer {}", ALNUM, 30),
    "authorization with another scheme": within("Authorization: ApiKey {}", WEB, 30),
    "basic authorization": within("Authorization: Basic {}==", B64, 22),
    "cookie header": within("Cookie: sid={}; theme=dark", ALNUM, 24),
    "set-cookie": within("Set-Cookie: session={}; HttpOnly", ALNUM, 24),
    "api key header": within("X-Api-Key: {}", ALNUM, 24),
    "azure subscription": within("Ocp-Apim-Subscription-Key: {}", HEX, 32),
    "password in prose": within("the password is {}, ask ops", ALNUM, 10),
    "password with a colon": within("password: {}", ALNUM, 9),
    "aws signature": within("https://b.s3.amazonaws.com/k?X-Amz-Signature={}", HEX, 64),
    "key in a URL": within("https://maps.org/api?key={}&v=1", ALNUM, 24),
    "token in a URL": within("https://x.org/feed?access_token={}", ALNUM, 24),
    "mailgun": within("https://api.mailgun.net uses {}", HEX, 32, "key" + "-"),
    "gpg passphrase": within("gpg --passphrase {} -d x", ALNUM, 12),
    "pass": within("'user': 'x', 'pass': '{}'", ALNUM, 12),
    "variable of a password": within("MYSQL_PWD={}", ALNUM, 12),
    "sshpass variable": within("SSHPASS={} sshpass -e", ALNUM, 12),
    "user and password options": within("tool -u bot -p {} run", ALNUM, 12),
    "docker configuration": within("'auths': 'x.io' 'auth': '{}='", ALNUM, 24),
    "kube configuration": within("client-key-data: LS0tLS1CRUdJTi{}", ALNUM, 60),
    "django": within("secret_key = django-insecure-{}", ALNUM, 30),
    "service account key id": within("'private_key_id': '{}'", HEX, 40),
    "http proxy": within("http_proxy=http://u123:{}@proxy:3128", ALNUM, 12),
}


def _name(rng: random.Random) -> str:
    return (
        rng.choice("bcdfgklmnprstvz")
        + "".join(rng.choice(p) for p in ("aeiou", "bdgklmnprst", "aeiou", "bdgkmnrst"))
        + "ez"
    )


def _home(form: str) -> Make:
    def make(rng: random.Random) -> Planted:
        name = _name(rng)
        return Planted(text=form.replace("{}", name), parts=(name,))

    return make


def _windows(rng: random.Random) -> Planted:
    first, last = _name(rng).capitalize(), _name(rng).capitalize()
    return Planted(text=f"C:/Users/{first} {last}/x.py", parts=(first, last, f"{first} {last}"))


def _address(first: tuple[int, ...], form: str = "{}") -> Make:
    def make(rng: random.Random) -> Planted:
        octets = [*first, *(rng.randrange(20, 250) for _ in range(4 - len(first)))]
        address = ".".join(map(str, octets))
        return Planted(text=form.replace("{}", address), parts=(address,))

    return make


def _address6(rng: random.Random) -> Planted:
    address = "2a01:" + ":".join(some(rng, HEX, 4) for _ in range(7))
    return Planted(text=address, parts=(address,))


#: People and machines.
SOMEBODY: dict[str, Make] = {
    "home": _home("/home/{}/x"),
    "mac home": _home("/Users/{}/x"),
    "mac home in lower case": _home("/users/{}/x"),
    "nfs home": _home("/nfs/users/{}/x"),
    "data home": _home("/data/users/{}/x"),
    "scratch": _home("/scratch/{}/x"),
    "mounted home": _home("/mnt/fast/tier1/users/{}/x"),
    "people": _home("/data/people/{}/x"),
    "exported home": _home("/export/home/{}/x"),
    "afs home": _home("/afs/cern.ch/user/q/{}/x"),
    "tilde": _home("~{}/x"),
    "windows home": _windows,
    "windows home in lower case": _home("c:/users/{}/x"),
    "e-mail": _home("{}@acme-corp.com"),
    "e-mail of a country": _home("{}.x@tu-berlin.de"),
    "prompt": _home("{}@gpubox:~/x$ python a.py"),
    "copy target": _home("scp x {}@gpubox:/tmp"),
    "account variable": _home("SLURM_JOB_USER={}"),
    "host variable": _home("HOSTNAME={}07"),
    "node list": _home("SLURM_JOB_NODELIST={}[01-04]"),
    "public key": _home("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIx {}@box"),
    "home with a full name": _home("/mnt/c/Users/{} Mueller/x"),
    "second home": _home("/home2/{}/x"),
    "ssh login": _home("ssh {}@gpubox"),
    "internal host": _home("{}07.internal"),
    "local host": _home("{}-2.local"),
    "corporate host": _home("{}.dc1.corp"),
    "lan host": _home("{}.lan"),
    "intra host": _home("{}.intra"),
    "intranet host": _home("{}.intranet"),
    "cluster host": _home("{}.default.svc.cluster.local"),
    "host of a URL": _home("http://{}:8080/x"),
    "index": _home("--index-url https://{}.acme-corp.io/simple"),
    "private address": _address((10,)),
    "private address 192": _address((192, 168)),
    "carrier address": _address((100, 64)),
    "public address": _address((185,)),
    "public address with a port": _address((52, 17), "connect to {}:443"),
    "public address in a URL": _address((34,), "http://{}/x"),
    "address 6": _address6,
    "hardware address": lambda rng: (lambda mac: Planted(text=mac, parts=(mac,)))(
        ":".join(["3c", "5a", "9e"] + [some(rng, HEX, 2) for _ in range(3)])
    ),
}
SORTS: dict[str, Make] = {**SHAPED, **SAID, **SOMEBODY}


def windows_of(parts: tuple[str, ...], least: int = 6) -> Iterator[str]:
    """Every piece of so many characters of the parts; a part that is shorter counts whole.

    The pieces of hexadecimal digits are longer: a bundle is full of digests.
    """
    for part in parts:
        size = max(least, 10) if set(part) <= set(string.hexdigits) else least
        for at in range(max(len(part) - size + 1, 1)):
            yield part[at : at + size]
