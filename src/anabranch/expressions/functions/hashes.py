"""Digests, and bytes as texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anabranch.expressions.functions.signature import function, signature, table
from anabranch.expressions.functions.value import Value

_SHA2: Final = {
    0: "sha256",
    224: "spark_sha224",
    256: "sha256",
    384: "spark_sha384",
    512: "spark_sha512",
}


def _sha2(values: Sequence[Value]) -> str | None:
    name = _SHA2.get(values[1].literal) if isinstance(values[1].literal, int) else None
    return None if name is None else f"{name}({values[0].text})"


HASHES: Final = table(
    function("md5", signature("binary", "string", "md5({0})")),
    function("sha sha1", signature("binary", "string", "sha1({0})")),
    function("sha2", signature("binary, int constant", "string", _sha2)),
    function("crc32", signature("binary", "bigint", "spark_crc32({0})")),
    function("base64", signature("binary", "string", "to_base64({0})")),
    function("unbase64", signature("string", "binary", "spark_unbase64({0})", fails=True)),
    function(
        "hex",
        signature("bigint", "string", "(CASE WHEN {0} = 0 THEN '0' ELSE hex({0}) END)"),
        signature("binary", "string", "hex({0})"),
    ),
    function(
        "unhex",
        signature(
            "string",
            "binary",
            "(CASE WHEN regexp_full_match({0}, '[0-9A-Fa-f]*') THEN unhex({0}) END)",
        ),
    ),
)
