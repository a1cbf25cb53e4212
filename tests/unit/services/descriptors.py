"""The methods of all contracts, read from the generated code."""

import importlib
from collections.abc import Mapping
from pathlib import Path

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor

GENERATED = Path(__file__).resolve().parents[3] / "protos" / "gen"


def methods() -> Mapping[str, MethodDescriptor]:
    """Returns every RPC by its full name, as a policy names it."""
    pool = descriptor_pool.Default()
    found: dict[str, MethodDescriptor] = {}
    for path in sorted(GENERATED.rglob("*_pb2.py")):
        module = path.relative_to(GENERATED).with_suffix("")
        importlib.import_module(".".join(module.parts))
        proto = pool.FindFileByName(f"{str(module).removesuffix('_pb2')}.proto")
        for service in proto.services_by_name.values():
            for method in service.methods:
                found[f"/{service.full_name}/{method.name}"] = method
    return found
