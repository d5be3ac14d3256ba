"""HPACK as Python's package of this name has it: decodes and encodes the blocks of a connection, a line of JSON for each.

Texts are bytes as Latin-1, blocks are hexadecimal.
"""

import json
import sys

from hpack import Decoder, Encoder, NeverIndexedHeaderTuple
from hpack.exceptions import OversizedHeaderListError


def decoded(blocks, list_bytes_max):
    decoder = Decoder(max_header_list_size=list_bytes_max)
    answers = []
    for block in blocks:
        try:
            fields = decoder.decode(bytes.fromhex(block), raw=True)
        except OversizedHeaderListError:
            return answers + [{"oversized": True}]
        except Exception as error:
            return answers + [{"refused": f"{type(error).__name__}: {error}"}]
        answers.append({
            "fields": [[text(name), text(value)] for name, value in fields],
            "secret": [isinstance(field, NeverIndexedHeaderTuple) for field in fields],
        })
    return answers


def encoded(lists, huffman):
    encoder = Encoder()
    blocks = []
    for size, fields in lists:
        if size is not None:
            encoder.header_table_size = size
        triples = [(name.encode("latin-1"), value.encode("latin-1"), secret) for name, value, secret in fields]
        blocks.append(encoder.encode(triples, huffman=huffman).hex())
    return blocks


def text(part):
    return bytes(part).decode("latin-1")


for line in sys.stdin:
    asked = json.loads(line)
    if "blocks" in asked:
        answer = decoded(asked["blocks"], asked["listBytesMax"])
    else:
        answer = encoded(asked["lists"], asked["huffman"])
    print(json.dumps(answer), flush=True)
