"""The parent's end of the pipe to a worker: frames, limits, and exact types.

What comes back was written by a process that runs a student's code, so it is data to be doubted: a frame
longer than the limit, JSON that does not parse, a number that is too long, a reply to another question, or a
reply with anything in it but the fields that belong there, all end the conversation with Garbled. JSON has no
classes, so what does pass holds None, bool, int, float, str, list and dict, of exactly these types.
"""

import json
import math
import struct
from typing import Any

HEAD = struct.Struct(">I")
MAX_DIGITS = 20  # of a whole number: Python needs quadratic time for longer ones
KINDS = {"raised", "missing", "memory", "not plain"}


class Garbled(Exception):
    """The worker's end does not keep to the protocol."""


def encode(message: dict[str, Any]) -> bytes:
    """One frame."""
    body = json.dumps(message, allow_nan=False).encode()
    return HEAD.pack(len(body)) + body


def take_frame(received: bytearray, limit: int) -> bytes | None:
    """Remove one frame from the front of `received` and return its body; None if it is not complete yet."""
    if len(received) < HEAD.size:
        return None
    (length,) = HEAD.unpack_from(received)
    if length > limit:
        raise Garbled(f"a reply of {length:,} bytes, more than {limit:,}")
    if len(received) < HEAD.size + length:
        return None
    body = bytes(received[HEAD.size : HEAD.size + length])
    del received[: HEAD.size + length]
    return body


def decode(body: bytes, nonce: str) -> dict[str, Any]:
    """Parse one reply: {"value": plain data} or {"error": {"kind", "type", "message", "where"}}."""
    try:
        reply = json.loads(body, parse_int=_whole, parse_float=_real, parse_constant=float)
    except (ValueError, RecursionError) as error:
        raise Garbled(f"a reply that is not JSON ({type(error).__name__})") from None
    if type(reply) is not dict or reply.pop("id", None) != nonce:
        raise Garbled("a reply to no question")
    if set(reply) == {"value"}:
        return reply
    if set(reply) == {"error"} and _is_error(reply["error"]):
        told = {name: printable(reply["error"][name]) for name in ("kind", "type", "message")}
        return {"error": {**told, "where": [printable(name) for name in reply["error"]["where"]]}}
    raise Garbled("a reply without a value and without an error")


def _is_error(error: Any) -> bool:
    return (
        type(error) is dict
        and set(error) == {"kind", "type", "message", "where"}
        and error["kind"] in KINDS
        and type(error["type"]) is str
        and type(error["message"]) is str
        and type(error["where"]) is list
        and all(type(name) is str for name in error["where"])
    )


def printable(text: str) -> str:
    """Text that can be written as UTF-8: JSON allows halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError("a whole number that is too long")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError("a number that is too large")
    return value
