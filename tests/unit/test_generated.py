"""The generated code is what the protos say, importable, and beside Google's own packages."""

import shutil
from pathlib import Path

from google.protobuf import timestamp_pb2
from google.rpc import status_pb2

from hermes.agent.v1 import turn_pb2, turn_pb2_grpc
from tests.support.make import run_make

PROTOS = Path(__file__).parents[2] / "protos"


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in folder.glob("hermes/**/*")
        if path.suffix in {".py", ".pyi", ".typed"}
    }


def test_generating_again_changes_nothing(tmp_path: Path) -> None:
    shutil.copytree(PROTOS, tmp_path / "protos", ignore=shutil.ignore_patterns("gen"))
    generated = tmp_path / "protos" / "gen"
    stale = generated / "hermes" / "removed_pb2.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    run_make("protos", folder=tmp_path)
    fresh, committed = contents(generated), contents(PROTOS / "gen")
    assert sorted(fresh) == sorted(committed), "run `make protos`"
    changed = [name for name in fresh if fresh[name] != committed[name]]
    assert not changed, "run `make protos`"


def test_each_proto_has_its_modules() -> None:
    for proto in PROTOS.glob("hermes/**/*.proto"):
        module = (PROTOS / "gen" / proto.relative_to(PROTOS)).with_suffix("")
        served = "\nservice " in proto.read_text("utf-8")
        assert module.with_name(f"{module.name}_pb2.pyi").is_file()
        assert module.with_name(f"{module.name}_pb2_grpc.pyi").is_file() == served


def test_generated_code_stands_beside_googles() -> None:
    turn = turn_pb2.Turn(turn_id="trn_1", create_time=timestamp_pb2.Timestamp(seconds=1))
    assert turn_pb2.Turn.FromString(turn.SerializeToString()) == turn
    assert turn_pb2_grpc.TurnServiceStub.__module__ == "hermes.agent.v1.turn_pb2_grpc"
    assert status_pb2.Status(code=5).code == 5
