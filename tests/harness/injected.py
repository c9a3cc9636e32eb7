"""How many faults of which kind each test injected, for the eyes of a reader and for build/test-results/faults.json."""

import collections
import json

from harness.server import ROOT

RESULTS = ROOT / "build" / "test-results" / "faults.json"


class Injected(collections.Counter):
    """What one test injected, by kind."""

    def __str__(self) -> str:
        return "injected: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.items()))


def record(test: str, injected: Injected) -> None:
    """Adds the numbers of one test to the file; a test that runs again replaces its own."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known[test] = dict(sorted(injected.items()))
    total = collections.Counter()
    for name, counts in known.items():
        if name != "total":
            total.update(counts)
    known["total"] = dict(sorted(total.items()))
    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
