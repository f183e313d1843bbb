"""A hundred thousand requests of all kinds, a thousand clients that leave, and what they cost one Envoy.

site.py     Envoy with the filter, before the fast service of the benchmarks
requests.py requests of each kind at once, each with the answer that it must get
leaving.py  clients that leave, in each phase of a request
memory.py   what Envoy holds when nothing is under way
"""

import sys

from harness.paths import ROOT

# The service and the load are those of the benchmarks.
sys.path.append(str(ROOT / "bench"))
