"""How often the randomised tests repeat: few enough for continuous integration, or many (SARISSA_COUNTS=soak)."""

import os

_SOAK = os.environ.get("SARISSA_COUNTS", "ci") == "soak"

KILL9_ROUNDS = 5000 if _SOAK else 50
KILL9_WRITERS = 8
MEMORY_STORE_BYTES = 10_000_000_000 if _SOAK else 1_000_000_000
