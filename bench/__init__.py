"""The benchmark of the figures that watchcache promises; `python -m bench` measures all of them.

It needs the real control plane (`make controlplane`), measures whole processes from outside, and
is no part of what is installed.
"""

from __future__ import annotations
