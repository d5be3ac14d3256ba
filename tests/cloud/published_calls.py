"""Prints the calls that the published Python SDK has descriptors of, as JSON: names by service."""

import importlib
import json
import pkgutil

import viam.gen.app
import viam.gen.provisioning

services = {}
for package in (viam.gen.app, viam.gen.provisioning):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("_pb2"):
            continue
        for service in importlib.import_module(module.name).DESCRIPTOR.services_by_name.values():
            services[service.full_name] = [method.name for method in service.methods]
print(json.dumps(services))
