"""A slice of ``python -m tests.verify``: the embedded model, plain against drafted decoding, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from decoder_service.model import LoadedModel
from decoder_service.self_test import run_self_test
from tests.verify.cases import MODES
from tests.verify.matrix import NUM_ALONE, PLAIN_ALONE, Plan, load, run_mode, ways_of
from tests.verify.products import check_products
from tests.verify.prompts import load_prompts, spread

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]

PLANS = {
    "bfloat16": Plan(spread(load_prompts(), 4), max_tokens=16, dtypes=("bfloat16",)),
    "float32": Plan(spread(load_prompts(), 2), max_tokens=16, dtypes=("float32",)),
}


@pytest.fixture(scope="module", params=list(PLANS))
def dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def embedded(dtype: str) -> Iterator[LoadedModel]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield load(dtype)


@pytest.mark.parametrize("mode", MODES)
def test_drafts_batches_and_prefill_change_no_bit(embedded: LoadedModel, dtype: str, mode: str) -> None:
    rows = run_mode(embedded, dtype, mode, PLANS[dtype], lambda _what, _count: None)
    assert [row.way for row in rows] == ways_of(dtype, mode)
    for row in rows:
        assert row.passed, f"{row.way}: {row.problems}"
        assert row.num_prompts == (NUM_ALONE if row.way == PLAIN_ALONE else len(PLANS[dtype].prompts))
        assert row.num_tokens == row.num_prompts * PLANS[dtype].max_tokens
    assert max(row.tokens_per_step or 0 for row in rows) > 3


def test_no_matrix_product_of_the_model_depends_on_the_number_of_rows(embedded: LoadedModel) -> None:
    products = check_products(embedded.model)
    assert len(products) >= 4
    assert [product for product in products if not product.passed] == []


def test_the_self_test_passes(embedded: LoadedModel) -> None:
    report = run_self_test(embedded.model)
    assert report.is_exact, report.detail


def test_the_self_test_fails_when_single_rows_are_not_padded(
    embedded: LoadedModel, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels for one row add up in another order: plain steps differ from a prefill."""
    monkeypatch.setattr(embedded.model, "num_rows_for", lambda num_nodes: num_nodes)
    assert not run_self_test(embedded.model, num_compared=24).is_exact
