"""How often the randomised tests repeat: few enough for continuous integration, or many (SARISSA_COUNTS=soak)."""

import os

_SOAK = os.environ.get("SARISSA_COUNTS", "ci") == "soak"

KILL9_ROUNDS = 20_000 if _SOAK else 150
KILL9_WRITERS = 8
MEMORY_STORE_BYTES = 10_000_000_000 if _SOAK else 1_000_000_000
# Each named point is killed at its first, second, ... passage.
KILL_POINT_PASSAGES = 20 if _SOAK else 3
POWER_CUTS = 5000 if _SOAK else 100
# Bits flipped in each class of file.
DAMAGE_FLIPS = 400 if _SOAK else 12
SPLIT_BRAIN_ROUNDS = 20_000 if _SOAK else 300
