"""`python -m tests.controlplane.build`: build the control plane and print the folder that holds it.

Progress goes to standard error; standard output is the folder alone, so that a shell can use it as
KUBEBUILDER_ASSETS.
"""

from __future__ import annotations

import sys

from tests.controlplane.build import (
    AssetsError,
    CompileError,
    GoError,
    RecipeError,
    ensure_binaries,
)


def main() -> int:
    """Build, print the folder, and return the exit code."""
    try:
        binaries = ensure_binaries(say)
    except (AssetsError, CompileError, GoError, RecipeError) as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; nothing was left that looks complete")
        return 130
    sys.stdout.write(f"{binaries.folder}\n")
    return 0


def say(text: str) -> None:
    """Print a line of progress at once."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
