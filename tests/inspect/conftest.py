"""What tests of this folder share."""

from collections.abc import Iterator

import pytest
from jaxtyping import config as shape_checks


@pytest.fixture(autouse=True)
def shapes_go_unchecked() -> Iterator[None]:
    """The shapes are checked in the tests of the models; here the checks would cost far more than the models."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", before)
