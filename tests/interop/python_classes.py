"""
Prints the abstract methods of every resource type of the published library: what `svc-server module new` writes stubs
from. A block for each type: its API, module and class, the imports of its methods, and their first lines.
"""

import importlib
import inspect
import pkgutil
import re
import types
import typing

from viam import components, services
from viam.resource.registry import Registry

# Each package registers its resource type when it is imported.
for package in (components, services):
    for one in pkgutil.iter_modules(package.__path__):
        try:
            importlib.import_module(f"{package.__name__}.{one.name}")
        except ModuleNotFoundError:
            # ML models need numpy, which not every installation has.
            pass

BUILT_IN = {"builtins", "NoneType"}


def shown(kind, used):
    """The annotation as it is written, with the names that it needs in `used`."""
    if kind is inspect.Signature.empty or kind is None or kind is type(None):
        return "None"
    if isinstance(kind, str):
        return kind
    origin = typing.get_origin(kind)
    if origin is not None:
        args = typing.get_args(kind)
        if origin in (typing.Union, types.UnionType):
            rest = [one for one in args if one is not type(None)]
            inner = " | ".join(shown(one, used) for one in rest)
            return f"{inner} | None" if len(rest) < len(args) else inner
        name = getattr(origin, "__name__", str(origin))
        if origin.__module__ != "builtins":
            used.add(("typing" if origin.__module__ == "collections.abc" else origin.__module__, name))
        parts = ["..." if one is Ellipsis else f"[{', '.join(shown(p, used) for p in one)}]" if isinstance(one, list)
                 else shown(one, used) for one in args]
        return f"{name}[{', '.join(parts)}]"
    if kind is typing.Any:
        used.add(("typing", "Any"))
        return "Any"
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__qualname__", "")
    if isinstance(kind, typing.TypeVar) or not name:
        used.add(("typing", "Any"))
        return "Any"
    if module.endswith("_pb2"):
        module = f"viam.gen.{module}"
    if module not in BUILT_IN:
        used.add((module, name.split(".")[0]))
    return name


def brief(text, used):
    """The library spells the values of JSON out, over several lines."""
    if "SupportsBytes" not in text:
        return text
    used.difference_update({("typing", "SupportsBytes"), ("typing", "SupportsFloat"), ("collections.abc", "Sequence")})
    used.add(("typing", "Any"))
    if not text.startswith("Mapping["):
        return "Any"
    return "Mapping[str, Any] | None" if text.endswith("| None") else "Mapping[str, Any]"


def method(name, function, hints):
    used = set()
    parts, keyword = ["self"], False
    signature = inspect.signature(function)
    for one in signature.parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.VAR_KEYWORD:
            parts.append(f"**{one.name}")
            continue
        if one.kind is one.KEYWORD_ONLY and not keyword and not any(p.startswith("*") for p in parts):
            parts.append("*")
        keyword = keyword or one.kind is one.KEYWORD_ONLY
        star = "*" if one.kind is one.VAR_POSITIONAL else ""
        text = f"{star}{one.name}: {brief(shown(hints.get(one.name, typing.Any), used), used)}"
        parts.append(text if one.default is one.empty else f"{text} = {one.default!r}")
    begin = "async def" if inspect.iscoroutinefunction(function) else "def"
    result = brief(shown(hints.get("return"), used), used)
    line = f"{begin} {name}({', '.join(parts)}) -> {result}:"
    # What `brief` has left out is imported for nothing otherwise.
    return line, {(module, word) for module, word in used if re.search(rf"\b{word}\b", line)}


for api, registration in sorted(Registry.REGISTERED_APIS().items(), key=lambda one: str(one[0])):
    cls = registration.resource_type
    lines, imports = [], set()
    for name, function in inspect.getmembers(cls, inspect.isfunction):
        if not getattr(function, "__isabstractmethod__", False):
            continue
        try:
            hints = typing.get_type_hints(function)
        except Exception:
            hints = dict(getattr(function, "__annotations__", {}))
        line, used = method(name, function, hints)
        lines.append(line)
        imports |= used
    print(f"{api} {cls.__module__} {cls.__name__}")
    for module in sorted({module for module, _ in imports if module != cls.__module__}):
        print(f"from {module} import {', '.join(sorted(word for one, word in imports if one == module))}")
    own = sorted({word for module, word in imports if module == cls.__module__ and word != cls.__name__})
    if own:
        print(f"from {cls.__module__} import {', '.join(own)}")
    for line in lines:
        print(line)
    print()
