"""A storm: faults of every kind upon a real control plane, the service and its clients.

`python -m tests.chaos.storm --faults N --seed S` runs it; docs/proof.md says what it proves.
"""

from __future__ import annotations
