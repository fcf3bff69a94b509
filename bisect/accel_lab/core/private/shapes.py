"""Rules for tokens that are recognized by their shape alone, as their issuers document it.

Each row is one alternative with its own hint, so that the tests find a row that never matches.
"""

from __future__ import annotations

import re

from .rule import Accept, Rule, varied

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

#: (name, hint, pattern). The hint is literal text of the pattern, case-sensitive.
_FIXED = (
    # Source forges and their registries.
    *((f"github {p}", f"{p}_", rf"{p}_[A-Za-z0-9]{{20,}}") for p in ("ghp", "gho", "ghu", "ghs", "ghr")),
    ("github fine-grained", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,}"),
    *(
        (f"gitlab {p}", f"{p}-", rf"{p}-[A-Za-z0-9_.-]{{20,}}")
        for p in (
            *("glpat", "gldt", "glft", "glsoat", "glrt", "glrtr", "glcbt", "glptt", "glimt", "glagent"),
            *("gloas", "glffct", "glwt"),
        )
    ),
    ("gitlab runner registration", "GR1348941", r"GR1348941[A-Za-z0-9_-]{20,}"),
    ("atlassian api", "ATATT3", r"ATATT3[\w=+/-]{40,}"),
    ("atlassian access", "ATCTT3", r"ATCTT3[\w=+/-]{40,}"),
    ("bitbucket app password", "ATBB", r"ATBB[A-Za-z0-9]{28,}"),
    ("npm", "npm_", r"npm_[A-Za-z0-9]{36,}"),
    ("pypi", "pypi-", r"pypi-[A-Za-z0-9_-]{40,}"),
    ("rubygems", "rubygems_", r"rubygems_[0-9a-f]{48,}"),
    ("docker access", "dckr_pat_", r"dckr_pat_[A-Za-z0-9_-]{20,}"),
    ("docker organisation", "dckr_oat_", r"dckr_oat_[A-Za-z0-9_-]{20,}"),
    ("artifactory key", "AKCp", r"AKCp[A-Za-z0-9]{50,}"),
    ("artifactory reference", "cmVmdGtu", r"cmVmdGtu[A-Za-z0-9]{50,}"),
    ("circleci", "CCIPAT_", r"CCIPAT_[A-Za-z0-9_]{30,}"),
    ("buildkite", "bkua_", r"bkua_[0-9a-f]{40,}"),
    # Models and experiments.
    ("huggingface", "hf_", r"hf_[A-Za-z0-9]{20,}"),
    ("huggingface organisation", "api_org_", r"api_org_[A-Za-z0-9]{30,}"),
    ("wandb", "wandb_v1_", r"wandb_v1_[A-Za-z0-9_]{30,}"),
    ("groq", "gsk_", r"gsk_[A-Za-z0-9]{40,}"),
    ("replicate", "r8_", r"r8_[A-Za-z0-9]{30,}"),
    ("perplexity", "pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    ("xai", "xai-", r"xai-[A-Za-z0-9]{40,}"),
    ("nvidia", "nvapi-", r"nvapi-[A-Za-z0-9_-]{40,}"),
    ("kaggle", "KGAT_", r"KGAT_[0-9a-f]{32,}"),
    ("runpod", "rpa_", r"rpa_[A-Z0-9]{30,}"),
    ("langsmith personal", "lsv2_pt_", r"lsv2_pt_[0-9a-f]{32}_[0-9a-f]{10,}"),
    ("langsmith service", "lsv2_sk_", r"lsv2_sk_[0-9a-f]{32}_[0-9a-f]{10,}"),
    ("pinecone", "pcsk_", r"pcsk_[A-Za-z0-9_]{40,}"),
    ("openai session", "sess-", r"sess-[A-Za-z0-9]{40,}"),
    # Clouds.
    *(
        (f"aws {p}", p, rf"{p}[A-Z0-9]{{16}}(?![A-Za-z0-9])")
        for p in ("AKIA", "ASIA", "ABIA", "ACCA", "AROA", "AIDA", "AGPA", "AIPA", "ANPA", "ANVA", "APKA")
    ),
    ("aws bedrock", "ABSK", r"ABSK[A-Za-z0-9+/]{100,}={0,2}"),
    ("amazon marketplace", "amzn.mws.", rf"amzn\.mws\.{_UUID}"),
    ("google api", "AIza", r"AIza[0-9A-Za-z_-]{35,}"),
    ("google oauth secret", "GOCSPX-", r"GOCSPX-[0-9A-Za-z_-]{20,}"),
    ("google access", "ya29.", r"ya29\.[0-9A-Za-z_-]{20,}"),
    ("google refresh", "1//0", r"1//0[0-9A-Za-z_-]{30,}"),
    ("google client", "googleusercontent.com", r"\d{6,16}-[0-9a-z]{32}\.apps\.googleusercontent\.com"),
    ("azure ad secret", "Q~", r"[A-Za-z0-9_.~-]{3}\dQ~[A-Za-z0-9_.~-]{31,34}"),
    ("azure storage", "AccountKey=", r"(?<=AccountKey=)[A-Za-z0-9+/]{80,90}={0,2}"),
    ("azure shared key", "SharedAccessKey=", r"(?<=SharedAccessKey=)[A-Za-z0-9+/]{40,90}={0,2}"),
    *((f"digitalocean {p}", f"{p}_v1_", rf"{p}_v1_[0-9a-f]{{60,}}") for p in ("dop", "doo", "dor")),
    ("alibaba", "LTAI", r"LTAI[A-Za-z0-9]{16,}"),
    ("tencent", "AKID", r"AKID[A-Za-z0-9]{32,}"),
    ("yandex", "AQVN", r"AQVN[A-Za-z0-9_-]{35,}"),
    ("heroku", "HRKU-", r"HRKU-[A-Za-z0-9_-]{30,}"),
    ("netlify", "nfp_", r"nfp_[A-Za-z0-9]{36,}"),
    ("fly", "fo1_", r"fo1_[A-Za-z0-9_-]{43,}"),
    ("fly machine", "fm2_", r"fm2_[A-Za-z0-9+/=_-]{60,}"),
    ("pulumi", "pul-", r"pul-[0-9a-f]{40,}"),
    ("planetscale token", "pscale_tkn_", r"pscale_tkn_[A-Za-z0-9_=.-]{32,}"),
    ("planetscale password", "pscale_pw_", r"pscale_pw_[A-Za-z0-9_=.-]{32,}"),
    ("supabase", "sbp_", r"sbp_[0-9a-f]{40,}"),
    ("databricks", "dapi", r"dapi[0-9a-f]{32}(?:-\d{1,2})?"),
    ("terraform", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    *((f"vault {p}", f"{p}.", rf"{p}\.[A-Za-z0-9_-]{{20,}}") for p in ("hvs", "hvb", "hvr")),
    *(
        (f"doppler {p}", f"dp.{p}.", rf"dp\.{p}\.(?:[a-z0-9_-]{{1,40}}\.)?[A-Za-z0-9]{{40,}}")
        for p in ("pt", "st", "ct", "sa", "scim", "audit")
    ),
    ("key block in base64", "LS0tLS1CRUdJTi", r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{20,}={0,2}"),
    ("1password", "ops_eyJ", r"ops_eyJ[A-Za-z0-9_=-]{100,}"),
    ("age", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    ("tailscale", "tskey-", r"tskey-[a-z]{2,20}-[A-Za-z0-9-]{15,}"),
    # Money and shops.
    *(
        (f"stripe {p}_{mode}", f"{p}_{mode}_", rf"{p}_{mode}_[0-9A-Za-z]{{16,}}")
        for p in ("sk", "rk", "pk")
        for mode in ("live", "test")
    ),
    ("stripe webhook", "whsec_", r"whsec_[A-Za-z0-9+/=]{20,}"),
    *(
        (f"shopify {p}", f"{p}_", rf"{p}_[0-9a-fA-F]{{32,}}")
        for p in ("shpat", "shpca", "shppa", "shpss", "shpua")
    ),
    ("square access", "sq0atp-", r"sq0atp-[0-9A-Za-z_-]{22,}"),
    ("square secret", "sq0csp-", r"sq0csp-[0-9A-Za-z_-]{40,}"),
    ("braintree", "access_token$production$", r"access_token\$production\$[0-9a-z]{16}\$[0-9a-f]{32}"),
    ("flutterwave", "FLWSECK", r"FLWSECK(?:_TEST)?-[0-9A-Za-z]{12,}(?:-X)?"),
    ("plaid", "access-", rf"access-(?:sandbox|development|production)-{_UUID}"),
    # Messages.
    *((f"slack {p}", f"{p}-", rf"{p}-[A-Za-z0-9.-]{{10,}}") for p in ("xoxa", "xoxb", "xoxc", "xoxd")),
    *(
        (f"slack {p}", f"{p}-", rf"{p}-[A-Za-z0-9.-]{{10,}}")
        for p in ("xoxe", "xoxo", "xoxp", "xoxr", "xoxs")
    ),
    ("slack rotated", "xoxe.xox", r"xoxe\.xox[bp]-[A-Za-z0-9-]{10,}"),
    ("slack app", "xapp-", r"xapp-\d-[A-Za-z0-9-]{10,}"),
    (
        "slack webhook",
        "hooks.slack.com/",
        r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[A-Za-z0-9_/+-]{20,}",
    ),
    ("discord webhook", "/api/webhooks/", r"(?<=/api/webhooks/)\d{10,25}/[A-Za-z0-9_-]{30,}"),
    ("teams webhook", ".office.com/", r"(?<=\.office\.com/)webhook(?:b2)?/[A-Za-z0-9@/_-]{30,}"),
    ("zapier webhook", "hooks.zapier.com/", r"(?<=hooks\.zapier\.com/)hooks/catch/[A-Za-z0-9/]{8,}"),
    ("sendgrid", "SG.", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    ("sendinblue", "xkeysib-", r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("mailchimp", "-us", r"[0-9a-f]{32}-us\d{1,2}"),
    ("twilio account", "AC", r"AC[0-9a-f]{32}(?![A-Za-z0-9])"),
    ("twilio key", "SK", r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    ("telegram", ":AA", r"\d{8,10}:AA[A-Za-z0-9_-]{30,}"),
    # Tools.
    ("linear", "lin_api_", r"lin_api_[A-Za-z0-9]{32,}"),
    ("notion", "ntn_", r"ntn_[A-Za-z0-9]{40,}"),
    ("figma", "figd_", r"figd_[A-Za-z0-9_-]{36,}"),
    ("postman", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("newrelic user", "NRAK-", r"NRAK-[A-Z0-9]{27}"),
    ("newrelic browser", "NRJS-", r"NRJS-[0-9a-f]{19}"),
    ("sentry organisation", "sntrys_", r"sntrys_[A-Za-z0-9_+/=-]{40,}"),
    ("sentry user", "sntryu_", r"sntryu_[A-Za-z0-9]{40,}"),
    ("grafana service", "glsa_", r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}"),
    ("grafana cloud", "glc_", r"glc_[A-Za-z0-9+/=]{32,}"),
    ("dynatrace", "dt0", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("contentful", "CFPAT-", r"CFPAT-[A-Za-z0-9_-]{40,}"),
    ("hubspot", "pat-", rf"pat-(?:na|eu)\d-{_UUID}"),
    ("typeform", "tfp_", r"tfp_[A-Za-z0-9_.=-]{40,}"),
    ("readme", "rdme_", r"rdme_[a-z0-9]{60,}"),
    ("easypost", "EZAK", r"EZAK[A-Za-z0-9]{54,}"),
    ("facebook", "EAACEdEose0cBA", r"EAACEdEose0cBA[0-9A-Za-z]{20,}"),
    ("dropbox", "sl.", r"sl\.(?:u\.)?[A-Za-z0-9_-]{60,}"),
    ("airtable", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
)
#: Shapes that ordinary words can have too; they count only if they contain both letters and digits.
_MIXED = (
    ("openai", "sk-", r"sk-[A-Za-z0-9_-]{20,}"),
    ("elevenlabs", "sk_", r"sk_[0-9a-f]{48,}"),
    ("notion old", "secret_", r"secret_[A-Za-z0-9]{40,}"),
    ("modal key", "ak-", r"ak-[A-Za-z0-9]{22}(?![A-Za-z0-9_-])"),
    ("modal secret", "as-", r"as-[A-Za-z0-9]{22}(?![A-Za-z0-9_-])"),
)


def _cased(text: str) -> bool:
    """Whether a word has a digit and letters of both cases."""
    return varied(text) and text != text.lower() and text != text.upper()


#: A run of characters of a JSON web token; ``_web`` checks its parts.
_WEB = r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4}"


def _web(match: re.Match[str], _before: str) -> bool:
    parts = match.group().split(".")
    return len(parts) >= 2 and (parts[1].startswith("eyJ") or len(parts[1]) >= 16)


def _near_wandb(match: re.Match[str], before: str) -> bool:
    start = max(match.start() - 80, 0)
    return "wandb" in ((before if start == 0 else "") + match.string[start : match.start()]).lower()


def _with_azure(match: re.Match[str], _before: str) -> bool:
    around = match.string[max(match.start() - 300, 0) : match.end() + 300].lower()
    return any(word in around for word in ("azure", "windows.net", "account_key", "accountkey", "blob"))


def _special(
    name: str, pattern: str, hints: tuple[str, ...], accept: Accept | None = None, *, folded: bool = False
) -> Rule:
    return Rule(kind="token", name=name, regex=pattern, hints=hints, folded=folded, accept=accept)


def _mixed_rule(name: str, hint: str, pattern: str) -> Rule:
    asks = _cased if name.startswith("modal") else varied
    return _special(
        name,
        rf"(?<![A-Za-z0-9])(?P<s>{pattern})",
        (hint,),
        lambda match, _: asks(match.group("s")[len(hint) :]),
    )


#: Every shape as a rule.
SHAPES: tuple[Rule, ...] = (
    *(
        _special(name, rf"(?P<s>{p})" if p.startswith("(?<=") else rf"(?<![A-Za-z0-9])(?P<s>{p})", (hint,))
        for name, hint, p in _FIXED
    ),
    *(_mixed_rule(*row) for row in _MIXED),
    _special("json web token", rf"(?<![A-Za-z0-9_-])(?P<s>{_WEB})", ("eyJ",), _web),
    _special(
        "vault old",
        r"(?<![A-Za-z0-9_.])(?P<s>[sbr]\.[A-Za-z0-9]{24})(?![A-Za-z0-9_.])",
        ("s.", "b.", "r."),
        lambda match, _: _cased(match.group("s")),
    ),
    _special(
        "discord bot",
        r"(?<![A-Za-z0-9_.-])(?P<s>[MNO][A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,45})",
        (".",),
        lambda match, _: all(map(_cased, match.group("s").split(".")[::2])),
    ),
    _special(
        "wandb key",
        r"(?<![A-Za-z0-9])(?P<s>[0-9a-f]{40})(?![A-Za-z0-9])",
        ("wandb",),
        _near_wandb,
        folded=True,
    ),
    _special("mailgun", r"(?<![A-Za-z0-9])(?P<s>key-[0-9a-f]{32})(?![A-Za-z0-9])", ("mailgun",), folded=True),
    _special(
        "azure bare key",
        r"(?<![A-Za-z0-9+/=])(?P<s>[A-Za-z0-9+/]{86}==)",
        ("azure", "windows.net", "account_key", "blob"),
        _with_azure,
        folded=True,
    ),
)
