"""The timeout of tests, which also stops Hypothesis from repeating an example that never ends."""

from types import SimpleNamespace

import pytest
from hypothesis import given, strategies

from tests.conftest import Stuck, pytest_timeout_set_timer


def test_an_example_that_never_ends_is_run_once():
    item, walks = SimpleNamespace(), []

    @given(strategies.integers())
    def walk(number):
        walks.append(number)
        pytest_timeout_set_timer(item, SimpleNamespace(method="signal", timeout=0.1))
        while True:
            pass

    try:
        with pytest.raises(Stuck, match=r"more than 0\.1 s"):
            walk()
    finally:
        item.cancel_timeout()
    assert len(walks) == 1
