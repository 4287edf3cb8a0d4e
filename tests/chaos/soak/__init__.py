"""A soak: an hour of mixed load, with days of tokens and watches in it, that leaves all as it was.

`python -m tests.chaos.soak --seconds N` runs it; docs/proof.md says what it proves.
"""

from __future__ import annotations
