"""Takes a key out of what is recorded or told: raw, in base64, in hexadecimal and URL-encoded.

A server gets the key with each request and may send it back in an error, in a redirect or in an answer.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any
from urllib.parse import quote, quote_plus

from duly.protocol.wire.limits import MODEL_KEY_CHARS_MIN

MARK = "[key removed]"


class Mask:
    """The mask of one key. A key that is too short to be a secret is not looked for."""

    def __init__(self, key: str) -> None:
        forms = _forms(key) if len(key) >= MODEL_KEY_CHARS_MIN else set()
        found = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        # In bytes of any encoding; hexadecimal and percent codes come in either case.
        self._text = re.compile(found, re.IGNORECASE) if forms else None
        self._bytes = re.compile(found.encode("ascii"), re.IGNORECASE) if forms else None

    def bytes(self, data: bytes) -> bytes:
        """The bytes without the key; a JSON text that hides it behind escapes is written anew."""
        if self._bytes is None:
            return data
        data = self._bytes.sub(MARK.encode(), data)
        if b"\\" in data:
            try:
                value = json.loads(data)
            except (ValueError, RecursionError):
                return data
            clean = self.value(value)
            if clean != value:
                return json.dumps(clean, ensure_ascii=False).encode("utf-8", "replace")
        return data

    def text(self, text: str) -> str:
        return text if self._text is None else self._text.sub(MARK, text)

    def value(self, value: Any) -> Any:
        """The value with the key taken out of every text in it, names of fields included."""
        if self._text is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(item) for name, item in value.items()}
        return value


def _forms(key: str) -> set[str]:
    raw = key.encode("ascii", "replace")
    forms = {key, raw.hex(), quote(key, safe=""), quote_plus(key), json.dumps(key)[1:-1]}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            # The first and last signs of each alignment depend on the neighbours; what lies between is the key's own.
            coded = encode(b"\0" * before + raw).decode("ascii")
            first = (0, 2, 3)[before]
            last = len(coded) if (len(raw) + before) % 3 == 0 else len(coded.rstrip("=")) - 1
            forms.add(coded[first:last])
    return forms
