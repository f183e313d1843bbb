"""Records that an earlier build of the module wrote, and what today's build must make of them.

`make.py` runs a build of the module in a real Envoy and keeps what it wrote. Each `written_by_*.json` holds
the result of one run, and test_upgrade.py loads it.
"""
