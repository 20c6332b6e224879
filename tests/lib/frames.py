"""frames.py: the frames of proto/PROTOCOL.md for programs in Python, and what of keepstep.proto a
receiver must check beyond what protobuf does. `protoc --python_out` of keepstep.proto must be on
the path. An agent and a false controller of the tests share this."""

import re
import struct

import keepstep_pb2 as P
from google.protobuf.message import DecodeError

HEADER, MAGIC, MAJOR = struct.Struct(">4sBBHI"), b"KSTP", 1
KINDS = {number: "".join(word.title() for word in name.split("_")[1:])
         for name, number in P.MessageKind.items()}
FROM_CONTROLLER = ("Ack Desired Check CheckpointAnswer PeerAsk LogRead SnapshotAsk Peers SaveAsk "
                   "Exchange").split()
BODY_SIZES = dict.fromkeys(("Desired", "Check", "SaveAsk"), 69632) | {"Exchange": 12288}
FALLBACKS = {"HelloResult": P.HELLO_VERSION, "DesiredMode": P.DESIRED_NONE}
NAME = r"([A-Za-z0-9][A-Za-z0-9._-]*)?"
TEXTS = {"job_name": (NAME, 63), "target": (NAME, 63), "name": (NAME, 63), "node": (NAME, 63),
         "asker": (NAME, 63), "key": (r"[^\n\t]+", 63), "cluster_id": (r"([0-9a-f]{32})?", 32),
         "text": (r"[^\0]*", 191), "address": (r"[0-9A-Fa-f:.]+", 45), "value": (r"", 4096),
         "directory": (r"[^\n\t]*", 511), "restore_directory": (r"[^\n\t]*", 511)}


class Refused(Exception):
    """A peer broke a rule: its session ends."""


def check_fields(m):
    """Refuses what breaks a rule of the proto's comments; an unknown enum value is its fallback."""
    for field, value in m.ListFields():
        for one in value if field.label == field.LABEL_REPEATED else [value]:
            text, bad = one if isinstance(one, str) else "", False
            if field.message_type:
                check_fields(one)
            elif field.enum_type and one not in field.enum_type.values_by_number:
                bad = field.enum_type.name not in FALLBACKS
                setattr(m, field.name, FALLBACKS.get(field.enum_type.name, 0))
            elif isinstance(one, (str, bytes)):
                pattern, size = TEXTS.get(field.name, (r".*", 65536))
                bad = len(text.encode() or one) > size or not re.fullmatch(pattern, text) or \
                    re.search(r"[\0-\x08\x0b-\x1f\x7f]", text)
            elif field.type == field.TYPE_UINT64:
                bad = one >> 63 and field.name != "nonce"
            if bad:
                raise Refused(f"{field.full_name} is {one!r:.80}")


def check_desired(m):
    """What the proto says of the fields of a Desired together."""
    if not m.cluster_id or m.mode == P.DESIRED_RUN and not (
            m.job_name and m.slot < m.slot_count <= 1 << 20 and 1 <= m.rank_count <= 16
            and m.first_rank + m.rank_count <= m.world <= 1 << 20
            and m.tensor * m.context * m.pipeline * m.data == m.world
            and sorted(m.order.split("-")) == ["cp", "dp", "pp", "tp"]
            and (not m.start or m.master_address and 1 <= m.master_port <= 65535)):
        raise Refused("a Desired that contradicts itself")


def frame(m):
    kind = next(kind for kind, name in KINDS.items() if name == m.DESCRIPTOR.name)
    body = m.SerializeToString()
    return HEADER.pack(MAGIC, MAJOR, kind, 0, len(body)) + body


async def read_frame(reader, allowed):
    """The next frame's message; None where its kind is unknown."""
    magic, major, kind, flags, size = HEADER.unpack(await reader.readexactly(HEADER.size))
    name = KINDS.get(kind)
    if magic != MAGIC or major != MAJOR or flags >> 8 or name and name not in allowed or \
            size > (BODY_SIZES.get(name, 4096) if name else 131072):
        raise Refused(f"{magic!r} version {major} flags {flags:#x}: {size} bytes of {name or kind}")
    body = await reader.readexactly(size)
    if name:
        try:
            m = getattr(P, name).FromString(body)
        except DecodeError as error:
            raise Refused(f"{name}: {error}") from error
        check_fields(m)
        return m
