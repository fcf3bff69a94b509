"""Lists the wheels of an index: by the JSON API, else from the HTML page, else from a folder."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from accel_lab.core.machine.environment import Index
from accel_lab.environments.store.folder import write_atomic

from .pip_settings import NO_INDEX
from .releases import Wheel, read_wheel_name

DEFAULT_URL = "https://pypi.org/simple"
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
FRESH_S = 600.0
TIMEOUT_S = 30.0
_MAX_BYTES = 64 << 20


class IndexUnreachable(Exception):
    """An index did not answer; the message is one line."""


@dataclass(kw_only=True)
class Listing:
    """The wheels that were found, and a line for each index that failed or was read from the cache."""

    wheels: list[Wheel] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def list_wheels(index: Index, package: str, *, nightly: bool = False, memory: Path | None = None) -> Listing:
    """Lists all wheels of a package. An index that fails only adds a note; ``memory`` is a cache folder."""
    listing = Listing()
    for place in index.find_links:
        _collect(listing, place, package, lambda at=place: list(_links(at, package, index)), None)
    urls = [] if index.url == NO_INDEX else [*index.extra_urls, index.url or DEFAULT_URL]
    if nightly and index.nightly_url:
        urls.append(index.nightly_url)
    for url in urls:
        _collect(listing, url, package, lambda at=url: list(_simple(at, package, index)), memory)
    return listing


def _collect(listing: Listing, place: str, package: str, read: Any, memory: Path | None) -> None:
    kept = (
        memory / f"{hashlib.sha256(f'{place} {package}'.encode()).hexdigest()[:16]}.json" if memory else None
    )
    remembered = _remembered(kept) if kept and place.startswith("http") else None
    if remembered and time.time() - remembered[0] < FRESH_S:
        listing.wheels += remembered[1]
        return
    try:
        wheels = [replace(wheel, source=hide_secrets(place)) for wheel in read()]
    except IndexUnreachable as error:
        if remembered:
            listing.wheels += remembered[1]
            day = time.strftime("%Y-%m-%d", time.gmtime(remembered[0]))
            listing.notes.append(f"{error}; what it had on {day} is used")
        else:
            listing.notes.append(str(error))
        return
    listing.wheels += wheels
    if kept and place.startswith("http"):
        text = json.dumps({"time": time.time(), "wheels": [asdict(wheel) for wheel in wheels]})
        try:
            write_atomic(kept, text)
        except OSError:
            pass  # only a cache


def _remembered(path: Path) -> tuple[float, list[Wheel]] | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        wheels = []
        for row in data["wheels"]:
            fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
            wheels.append(Wheel(**fields))
        return float(data["time"]), wheels
    except (OSError, ValueError, KeyError, TypeError):
        return None


# -- kinds of index ----------------------------------------------------------------------------------


def _simple(url: str, package: str, index: Index) -> Iterator[Wheel]:
    page = f"{url.rstrip('/')}/{package}/"
    if url.startswith("file:"):
        folder = _path_of(page)
        if (folder / "index.html").is_file():
            yield from _from_html((folder / "index.html").read_text("utf-8", "replace"), package)
        elif folder.is_dir():
            yield from _from_folder(folder, package)
        return  # a local index need not have the package
    kind, text = _fetch(page, index)
    if kind is None:
        return
    if "json" in kind:
        yield from _from_json(text, package, page)
    else:
        yield from _from_html(text, package)


def _links(place: str, package: str, index: Index) -> Iterator[Wheel]:
    if place.startswith(("http:", "https:")):
        kind, text = _fetch(place, index)
        if kind is not None:
            yield from _from_html(text, package)
        return
    path = _path_of(place) if place.startswith("file:") else Path(place).expanduser()
    try:
        if path.is_file() and path.suffix == ".html":
            yield from _from_html(path.read_text("utf-8", "replace"), package)
        elif path.is_dir():
            yield from _from_folder(path, package)
        else:
            raise IndexUnreachable(f"find-links {place} is not there")
    except OSError as error:
        raise IndexUnreachable(f"find-links {place} cannot be read ({error.strerror})") from None


def _path_of(url: str) -> Path:
    return Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))


def _from_folder(folder: Path, package: str) -> Iterator[Wheel]:
    for file in sorted(folder.iterdir()):
        wheel = read_wheel_name(file.name, package)
        if wheel is not None:
            yield replace(wheel, size_bytes=file.stat().st_size)


def _from_json(text: str, package: str, page: str) -> Iterator[Wheel]:
    try:
        files = json.loads(text)["files"]
    except (ValueError, KeyError, TypeError):
        raise IndexUnreachable(f"{hide_secrets(page)} does not answer as a package index") from None
    for row in files:
        wheel = read_wheel_name(row.get("filename", ""), package)
        if wheel is not None:
            yield replace(
                wheel,
                uploaded=row.get("upload-time") or "",
                size_bytes=int(row.get("size") or 0),
                sha256=(row.get("hashes") or {}).get("sha256", ""),
                yanked=bool(row.get("yanked")),
            )


class _Anchors(html.parser.HTMLParser):
    """Collects the links of a simple-index page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.found.append((values["href"] or "", "data-yanked" in values))


def _from_html(text: str, package: str) -> Iterator[Wheel]:
    anchors = _Anchors()
    anchors.feed(text)
    for href, yanked in anchors.found:
        target = urllib.parse.urlsplit(href)
        wheel = read_wheel_name(urllib.parse.unquote(target.path.rsplit("/", 1)[-1]), package)
        if wheel is not None:
            digest = re.search(r"sha256=([0-9a-f]{64})", target.fragment)
            yield replace(wheel, sha256=digest[1] if digest else "", yanked=yanked)


# -- HTTP --------------------------------------------------------------------------------------------


def _fetch(url: str, index: Index) -> tuple[str | None, str]:
    """Returns content type and text of a page; the type is None if the index does not have the package."""
    plain, authorisation = _split_secrets(url)
    headers = {"Accept": _ACCEPT, "User-Agent": "accel-lab"}
    if authorisation:
        headers["Authorization"] = authorisation
    try:
        context = ssl.create_default_context(cafile=index.ca_bundle or None)
    except OSError as error:
        raise IndexUnreachable(f"the CA bundle {index.ca_bundle} cannot be read ({error.strerror})") from None
    host = urllib.parse.urlsplit(plain).hostname or plain
    try:
        request = urllib.request.Request(plain, headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:
            data: bytes = answer.read(_MAX_BYTES)
            return answer.headers.get_content_type(), data.decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        if error.code in (404, 410):
            return None, ""
        raise IndexUnreachable(f"the index at {host} answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise IndexUnreachable(f"the index at {host} cannot be reached: {error.reason}") from None
    except (OSError, ValueError, EOFError) as error:  # a timeout, a malformed answer, an invalid URL
        raise IndexUnreachable(f"the index at {host} cannot be read: {error}") from None


def _split_secrets(url: str) -> tuple[str, str]:
    """Returns the URL without user and password, and the header that carries them."""
    target = urllib.parse.urlsplit(url)
    secrets, at, host = target.netloc.rpartition("@")
    if not at:
        return url, ""
    pair = urllib.parse.unquote(secrets).encode()
    return target._replace(netloc=host).geturl(), "Basic " + base64.b64encode(pair).decode()


def hide_secrets(text: str) -> str:
    """Removes users and passwords from the URLs in a text."""
    return re.sub(r"\b(\w+://)[^/@\s]+@", r"\1", text)


def without_secrets(index: Index) -> Index:
    """Returns the index without secrets, for a report."""
    return replace(
        index,
        url=hide_secrets(index.url),
        extra_urls=tuple(map(hide_secrets, index.extra_urls)),
        find_links=tuple(map(hide_secrets, index.find_links)),
        nightly_url=hide_secrets(index.nightly_url),
    )
