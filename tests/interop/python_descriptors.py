"""Prints the serialized descriptor of each contract in the published Python SDK, a base64 line each."""

import base64
import importlib
import pkgutil
import sys

import viam.gen
from google.protobuf.descriptor import FileDescriptor

for module in pkgutil.walk_packages(viam.gen.__path__, "viam.gen."):
    if module.name.endswith("_pb2"):
        importlib.import_module(module.name)

files = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for name, module in list(sys.modules.items())
    if name.startswith("viam.gen.") and isinstance(getattr(module, "DESCRIPTOR", None), FileDescriptor)
}
for file in files.values():
    print(base64.b64encode(file.serialized_pb).decode())
