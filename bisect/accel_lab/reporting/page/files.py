"""Loads the templates and style sheets of a page from the package, once."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import Any

import jinja2

from accel_lab import __version__


def page(file: str, /, *sheets: str, **facts: Any) -> str:
    """Renders a page: the template with its facts, its style sheets, and a policy that loads nothing else."""
    sheet = style(*sheets)
    policy = (
        f"default-src 'none'; style-src 'sha256-{style_digest(sheet)}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    return template(file).render(style=sheet, csp=policy, version=__version__, **facts)


@cache
def template(name: str) -> jinja2.Template:
    """Returns a page's template; text is escaped, and a missing name raises an error."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)


@cache
def style(*names: str) -> str:
    """Returns the style sheets joined, as they are in the page."""
    return "".join("\n" + _text(name) for name in names)


def style_digest(text: str) -> str:
    """Returns the base64 of a style sheet's SHA-256, for the content security policy."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
