"""The checker catches what it is there to catch: each rule is broken once."""

import pytest

from harness.checker import History, Outcome, Violation


@pytest.fixture
def history():
    return History("s")


def written(history: History, row_id: str, value: int, client: str = "c"):
    return history.invoke(client, [(row_id, value)])


def acknowledged(history: History, row_id: str, value: int, client: str = "c") -> None:
    history.ok(written(history, row_id, value, client))


def broken(rule: str, history: History, rows, **options) -> None:
    with pytest.raises(Violation) as caught:
        history.check(rows, **options)
    assert caught.value.rule == rule


def test_what_was_acknowledged_and_nothing_else_passes(history):
    acknowledged(history, "a", 0)
    acknowledged(history, "b", 0)
    acknowledged(history, "a", 1)
    history.check([("b", 0), ("a", 1)])
    assert history.counts()[Outcome.OK] == 3
    assert history.ids_seen() == {"a", "b"}


def test_an_acknowledged_row_that_is_gone(history):
    acknowledged(history, "a", 0)
    broken("C1", history, [])


def test_a_row_that_nobody_sent(history):
    broken("C2", history, [("x", 0)])


def test_a_value_that_nobody_sent(history):
    acknowledged(history, "a", 0)
    broken("C2", history, [("a", 7)])


def test_a_refused_row_that_is_readable(history):
    history.refused(written(history, "a", 0))
    broken("C2", history, [("a", 0)])


def test_a_row_that_is_refused_after_it_was_readable(history):
    writes = written(history, "a", 0)
    history.check([("a", 0)], history.floor())
    with pytest.raises(Violation, match="C2"):
        history.refused(writes)


def test_a_row_of_unknown_outcome_may_be_there_or_not(history):
    written(history, "a", 0)
    history.check([])
    history.check([("a", 0)])
    # Once seen it stays.
    broken("C2", history, [])


def test_a_row_that_is_listed_twice(history):
    acknowledged(history, "a", 0)
    broken("C3", history, [("a", 0), ("a", 0)])


def test_an_older_value_than_the_acknowledged_one(history):
    acknowledged(history, "a", 0)
    acknowledged(history, "a", 1)
    broken("C4", history, [("a", 0)])


def test_a_newer_value_of_unknown_outcome_may_win_and_then_stays(history):
    acknowledged(history, "a", 0)
    written(history, "a", 1)
    history.check([("a", 0)])
    history.check([("a", 1)])
    broken("C4", history, [("a", 0)])


def test_rows_of_one_client_out_of_order(history):
    acknowledged(history, "a", 0)
    acknowledged(history, "b", 0)
    broken("C4", history, [("b", 0), ("a", 0)])


def test_rows_of_two_clients_have_no_order(history):
    acknowledged(history, "a", 0, "c")
    acknowledged(history, "b", 0, "d")
    history.check([("b", 0), ("a", 0)])


def test_a_read_shows_what_was_acknowledged_before_it_began_and_may_show_more(history):
    acknowledged(history, "a", 0)
    before = history.floor()
    acknowledged(history, "b", 0)
    history.check([("a", 0)], before)
    history.check([("a", 0), ("b", 0)], before)
    broken("C1", history, [("a", 0)], floor=history.floor())
