"""Which properties may reach the two Iceberg clients, and which of them are secrets. Standard library only."""

from __future__ import annotations

import contextlib
import re
from urllib.parse import parse_qsl, unquote, urlsplit

# Everything that is not listed is refused: several clients import and run whatever class such a property names.
ALLOWED_KEYS = frozenset(
    {
        "type", "uri", "warehouse", "prefix", "credential", "token", "scope", "audience", "resource",
        "oauth2-server-uri", "rest.sigv4-enabled", "rest.signing-region", "rest.signing-name",
        "init_catalog_tables", "pool_pre_ping", "schema_version",
    }
)  # fmt: skip
ALLOWED_PREFIXES = ("s3.", "gcs.", "adls.", "glue.", "client.", "hive.", "header.")

# Keys whose values must not be seen in a log, an argument list, a document or a page. Also read by Spark, as Java regex.
SECRET_KEY_REGEX = (
    "(?i)secret|password|token|access[.-]?key|account-key|credential|connection-string|authorization|api-key"
)

_RUNS_CODE = re.compile(r"impl$|factory|provider|plugin|py-", re.IGNORECASE)
_PASSWORD_IN_ADDRESS = re.compile(r"://[^/\s]*:[^/\s]*@")
_SECRET_KEY = re.compile(SECRET_KEY_REGEX)
# Keys that name where a secret is, when it ends, or who it belongs to: not the secret itself.
_HARMLESS = re.compile(
    r"(access-key-id|expires-at|(-|\.|_)(enabled|provider|file|path|uri|url|endpoint))$|tokenfile$", re.I
)


def is_allowed(key: str) -> bool:
    """Whether a client may be given this property."""
    return not names_code(key) and (key in ALLOWED_KEYS or key.startswith(ALLOWED_PREFIXES))


def names_code(key: str) -> bool:
    """Whether the property names a class or module that a client would load and run."""
    return bool(_RUNS_CODE.search(key))


def is_secret(key: str, value: str = "") -> bool:
    """Whether a file in version control must not hold this value: by its key, or by a password in an address."""
    if "://" in value and _password(value):
        return True
    return bool(_SECRET_KEY.search(key)) and not _HARMLESS.search(key) and value.lower() not in {"", "true", "false"}


def is_hidden(key: str) -> bool:
    """Whether no log or page may show the value; a header can carry anything, so it counts."""
    return bool(_SECRET_KEY.search(key)) or key.startswith("header.")


def passwords_in(value: str) -> set[str]:
    """The passwords an address holds, in its user part or its query, as written and as they are meant."""
    if "://" not in value:
        return set()
    found = {_password(value) or ""}
    with contextlib.suppress(ValueError):
        found |= {text for key, text in parse_qsl(urlsplit(value).query) if _SECRET_KEY.search(key)}
    return {spelled for text in found if text for spelled in (text, unquote(text))}


def may_hold_secret(line: str) -> bool:
    """Whether a line of a file had better not be shown, as errors end up in logs and on pages."""
    return bool(_SECRET_KEY.search(line) or _PASSWORD_IN_ADDRESS.search(line))


def _password(address: str) -> str | None:
    try:
        return urlsplit(address).password
    except ValueError:  # not an address after all
        return None
