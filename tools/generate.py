"""Generates the Python code of the contract from proto/ into the client distribution.

Runs in the environment of requirements/proto.lock, which pins the generator to the oldest runtime
that the client supports: generated code refuses a runtime older than its generator. The same
contract always gives the same bytes, so that `tools.contract_check` can compare them with what is
checked in.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from grpc_tools import _proto, protoc

__all__ = ["generate", "main"]

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = Path("watchcache/v1alpha1")
CLIENT: Final = ROOT / "clients/python"
PATTERNS: Final = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def generate(out: Path) -> None:
    """Write the generated package below `out`, replacing what was generated there before."""
    package = out / PACKAGE
    package.mkdir(parents=True, exist_ok=True)
    for pattern in PATTERNS:
        for old in package.glob(pattern):
            old.unlink()
    sources = sorted((ROOT / "proto" / PACKAGE).glob("*.proto"))
    # The plugins for types are programs beside this interpreter.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={ROOT / 'proto'}",
            f"--proto_path={Path(next(iter(_proto.__path__)))}",
            f"--python_out={out}",
            f"--grpc_python_out={out}",
            f"--mypy_out=quiet:{out}",
            f"--mypy_grpc_out=quiet:{out}",
            *map(str, sources),
        ]
    )
    if status:
        sys.exit(status)
    _drop_empty_service_modules(package)


def _drop_empty_service_modules(package: Path) -> None:
    """Remove the modules of files that define no service: they hold only a version check."""
    for module in package.glob("*_pb2_grpc.py"):
        if "class " not in module.read_text(encoding="utf-8"):
            module.unlink()
            module.with_suffix(".pyi").unlink()


def main() -> int:
    """Generate into the client distribution, or into the folder that is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=CLIENT)
    generate(parser.parse_args().out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
