"""Word lists: names that identify nobody, top-level domains, public domains."""

from __future__ import annotations

import builtins
import keyword


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Account and machine names that identify nobody.
GENERIC = _words(
    """
    admin administrator app build builder centos ci container debian default docker ec2-user fedora
    guest home host jenkins jovyan local localdomain localhost nobody public root runner server shared
    test tester ubuntu user users vagrant work workspace
    """
)
#: Words that are common in torch's logs and graphs; as a person's name they are replaced in paths only.
COMMON = (
    _words(
        """
        april art august batch bill bob buffer cache call case chase chunk clone code compiler copy cuda
        data dean debug decomp device dot double drew dtype dynamo error expand fails faith file forward
        frame frank function fused gather grace grant graph guard guards half hope index inductor info
        inputs jack june kernel kernels layer layout line linear long lowering main mark mask may mean
        memory miles model models module name node nodes norm numpy output outputs page passes pat python
        ray rich rob rose runtime scatter schedule scheduler script shape short size sky split stack stage
        stride summary symbol tensor tensors text torch trace tracing train triton value values vector
        verdict version view views weight weights will word wrapper
        """
    )
    | frozenset(keyword.kwlist)
    | {name.lower() for name in dir(builtins)}
)
#: Top-level domains of e-mail addresses that need no further check.
ENDINGS = _words(
    """
    ai app biz cloud com company corp dev edu email engineering eu global gov group info int internal
    intranet io lan local localdomain mil net network online org science site software systems tech
    """
)
#: Top-level domains of internal hosts.
INNER = frozenset({"internal", "corp", "lan", "intra", "intranet", "localdomain", "local", "priv"})
#: Top-level domains of internal hosts that are also common attribute names; they need more context.
INNER_DOUBTFUL = frozenset({"home", "private", "cluster", "lab"})
#: Well-known public domains.
PUBLIC_DOMAINS = _words(
    """
    anaconda.org apache.org arxiv.org example.com example.net example.org github.com
    githubusercontent.com gnu.org google.com huggingface.co json-schema.org kernel.org llvm.org
    nvidia.com openai.com python.org pytorch.org readthedocs.io w3.org wikipedia.org
    """
)


def is_public(host: str) -> bool:
    """Whether a host is in a well-known public domain."""
    return any(host == domain or host.endswith("." + domain) for domain in PUBLIC_DOMAINS)


def distinctive(name: str) -> bool:
    """Whether a name is unusual enough to be replaced everywhere with little risk of hitting another word."""
    lowered = name.lower()
    return len(name) >= 4 and lowered not in GENERIC and lowered not in COMMON
