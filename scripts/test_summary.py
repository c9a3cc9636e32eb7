"""Prints the table of stages and the line that counts all tests; exits 1 when anything failed.

A stage that failed without a failed test in it (a build, a linter, a crash of the runner) counts as one failure.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def count(report: pathlib.Path) -> tuple[int, int]:
    """Passed and failed tests of one JUnit report (ctest's or pytest's)."""
    passed = failed = 0
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        # A test that did not run proves nothing, so it counts as failed.
        bad = any(case.find(tag) is not None for tag in ("failure", "error", "skipped"))
        bad = bad or case.get("status") in ("fail", "disabled", "notrun")
        failed += bad
        passed += not bad
    return passed, failed


def main(results: pathlib.Path) -> int:
    passed = failed = 0
    print(f"{'stage':<12}{'result':<10}{'passed':>8}{'failed':>8}{'seconds':>9}")
    for line in (results / "stages.txt").read_text().splitlines():
        stage, outcome, seconds = line.split()
        reports = [count(report) for report in sorted(results.glob(f"{stage}.xml")) + sorted(results.glob(f"{stage}-*.xml"))]
        stage_passed = sum(report[0] for report in reports)
        stage_failed = sum(report[1] for report in reports)
        if outcome == "failed" and stage_failed == 0:
            stage_failed = 1
        if not reports and outcome == "passed":
            stage_passed = 1
        passed += stage_passed
        failed += stage_failed
        print(f"{stage:<12}{outcome:<10}{stage_passed:>8}{stage_failed:>8}{seconds:>9}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
