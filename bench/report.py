"""Tables of a benchmark run, for the terminal and for docs/benchmarks.md."""

import pathlib
import re
import statistics

BASELINES = ("original", "original-preencoded")
KINDS = {"small": "Small rollouts (0.5 KB of JSON, one row a request)",
         "tokens8k": "8k-token rollouts (8192 token ids and log probabilities, 133 KB of JSON, one row a request)"}
# Of docs/benchmarks.md; other programs write them, at the end of the page.
SEPARATE_SECTIONS = ("## Group commit\n",)
HEAD = ("clients", "system", "durability", "stores", "rows/s", "p50 ms", "p99 ms", "rows/s ÷ original", "rows/s ÷ original, pre-encoded")


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(values: list[float], unit: str = "") -> str:
    if not values:
        return "–"
    return f"{number(statistics.median(values))}{unit} ({number(min(values))}–{number(max(values))})"


def ratios(runs: list[dict], kind: str, clients: int, system: str, baseline: str) -> list[float]:
    """One ratio for each round in which both ran."""
    def rates(name: str) -> dict[int, float]:
        return {run["round"]: run["result"]["rows_per_second"] for run in runs
                if (run["kind"], run["clients"], run["system"]) == (kind, clients, name)}
    ours, theirs = rates(system), rates(baseline)
    return [ours[turn] / theirs[turn] for turn in sorted(ours) if theirs.get(turn)]


def rows(runs: list[dict], kind: str) -> list[tuple[str, ...]]:
    lines = []
    cells = dict.fromkeys((run["clients"], run["system"]) for run in sorted(runs, key=lambda run: (run["clients"], run["order"]))
                          if run["kind"] == kind)
    for clients, system in cells:
        mine = [run for run in runs if (run["kind"], run["clients"], run["system"]) == (kind, clients, system)]
        results = [run["result"] for run in mine]
        errors = sum(result["errors"] for result in results)
        compared = [ratios(runs, kind, clients, system, baseline) if system not in BASELINES else [] for baseline in BASELINES]
        lines.append((str(clients), mine[0]["title"] + (f" [{errors} errors]" if errors else ""), mine[0]["durability"], mine[0]["stores"],
                      spread([result["rows_per_second"] for result in results]),
                      spread([result["p50_ms"] for result in results]), spread([result["p99_ms"] for result in results]),
                      *(spread(values, "×") for values in compared)))
    return lines


def text_table(lines: list[tuple[str, ...]], head: tuple[str, ...] = HEAD) -> str:
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in [head, *lines])


def markdown_table(lines: list[tuple[str, ...]], head: tuple[str, ...] = HEAD) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ("---",) * len(head), *lines])


def print_tables(document: dict) -> None:
    for kind, title in KINDS.items():
        lines = rows(document["runs"], kind)
        if lines:
            print(f"\n{title}\n{text_table(lines)}")


def encode_milliseconds(runs: list[dict], kind: str) -> list[float]:
    return [run["result"]["python_encode_ms_per_row"] for run in runs if run["kind"] == kind and run["system"] == "original"]


def sections(page: str) -> list[str]:
    """What comes before the first "## " heading, then each section with its heading."""
    return re.split(r"^(?=## )", page, flags=re.MULTILINE)


def write_section(path: pathlib.Path, title: str, body: str) -> None:
    """Puts a section at the end of the page, in place of one with that title."""
    kept = [part for part in sections(path.read_text()) if not part.startswith(f"## {title}\n")]
    path.write_text("".join(kept).rstrip("\n") + f"\n\n## {title}\n\n{body}")


def write_docs(path: pathlib.Path, document: dict) -> None:
    page = path.read_text() if path.exists() else ""
    separate = "".join("\n" + part for part in sections(page) if part.startswith(SEPARATE_SECTIONS))
    machine, settings, runs = document["machine"], document["settings"], document["runs"]
    facts = "\n".join(f"- {name.replace('_', ' ')}: {value}" for name, value in machine.items())
    tables = "\n\n".join(f"## {title}\n\n{markdown_table(rows(runs, kind))}" for kind, title in KINDS.items() if rows(runs, kind))
    pinning = ("The server ran on core 0 and its clients on core 1; the original had both." if settings["pin"]
               else "Nothing was pinned.")
    encoding = " and ".join(f"{spread(encode_milliseconds(runs, kind))} ms a `{kind}` row" for kind in KINDS if encode_milliseconds(runs, kind))
    path.write_text(f"""# Benchmarks

Sarissa beside the original embedded store (`lance_context.RolloutStore` {machine["lance_context"]}), in one run. This page is written by

    make bench BENCH_FLAGS=--write-docs

which runs `{settings["command"]}`. `bench/results/{document["date"]}.json` has every single run.

{facts}

Date: {document["date"]}. {settings["rounds"]} rounds of {settings["seconds"]} s windows after {settings["warmup"]} s of warm-up. The systems take turns,
and every second round runs them in reverse order. Every window has a fresh data directory and, for Sarissa, a fresh server process.
{pinning} A figure is the median over the rounds with the lowest and the highest in brackets; a ratio is taken within each round.
After each window the listed ids were compared with the acknowledged ones, id by id; a difference makes the run void.

Durability, of a row at the moment of its acknowledgement:

- `sync`: survives power loss. The log file and its directory are synced first (`--log-sync=always`, the default).
- `os`: handed to the operating system; survives the end of the process but not of the machine. Sarissa with `--log-sync=none`; the original
  always, it makes no sync call.

{tables}

## What these figures do not say

- The machine is small and noisy: clients, server and whatever else runs share {machine["cores"]} cores (load average {machine["load_average_before"]} at the start). The
  ranges show it. Compare ratios, never a figure of this page with one from elsewhere.
- The rate of a single client with `sync` means nothing here: a thread that wakes from a sync queues behind other work for a slice of the scheduler, often
  4 ms, while the flush of a virtual disk may cost next to nothing. Look at 16 clients and more. Nor does such a disk show what group commit gains on a
  real drive.
- The load is a closed loop: a client sends when its last answer is there. A slow system is thereby asked less, and its p99 looks better than under
  arrivals that do not wait.
- The sides differ in shape. Sarissa is reached over HTTP by a generator in C++ that patches prepared requests. The original runs inside the Python process
  that drives it, without a network, and each of its clients has a store of its own, because its handles take one add at a time and two on one store fence
  each other: that favours it. Its Python method encodes each row as JSON within the measured time, under the interpreter lock ({encoding}): that is
  what a user of the package pays. The `pre-encoded` rows leave it out and hand ready text to the native method below; measure the store by those.
- A row of the original is invisible until a flush; a row of Sarissa is visible at its acknowledgement.
- The windows are short: they hold few flushes to generations and no long-term maintenance.
{separate}""")
