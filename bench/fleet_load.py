"""Many calls at once, and their times."""

import contextlib
import itertools
import math
import threading
import time
from typing import Callable

import run

THOUSAND = 1000


def parallel(clients: int, names: list[str], connect: Callable, do: Callable) -> tuple[float, list[float]]:
    """do(connection, name) for each name, by so many threads; seconds in all, and of each call in the order of the names."""
    taken = itertools.count()  # next() of it is atomic
    seconds = [0.0] * len(names)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with contextlib.closing(connect()) as connection:
                while (number := next(taken)) < len(names) and not failures:
                    began = time.perf_counter()
                    do(connection, names[number])
                    seconds[number] = time.perf_counter() - began
        except Exception as error:  # noqa: BLE001 - whatever it is makes the section void
            failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0] if isinstance(failures[0], run.Void) else run.Void(f"{type(failures[0]).__name__}: {failures[0]}")
    return time.perf_counter() - began, seconds


def quantile_ms(seconds: list[float], quantile: float) -> float:
    ordered = sorted(seconds)
    return round(ordered[max(1, math.ceil(len(ordered) * quantile)) - 1] * 1e3, 3)


def quantiles(seconds: list[float]) -> dict[str, float]:
    return {"p50_ms": quantile_ms(seconds, 0.5), "p99_ms": quantile_ms(seconds, 0.99), "max_ms": quantile_ms(seconds, 1)}


def first_and_last(seconds: list[float]) -> dict:
    """Of all, of the first thousand and of the last one (halves, when there are not two thousand), and how the p99 grew."""
    edge = min(THOUSAND, max(1, len(seconds) // 2))
    first, last = quantiles(seconds[:edge]), quantiles(seconds[-edge:])
    return {"all": quantiles(seconds), "edge": edge, "first": first, "last": last, "p99_ratio": round(last["p99_ms"] / first["p99_ms"], 3)}
