"""What side-by-side processes do in tests: no model, and one of them may be killed."""

from __future__ import annotations

import os
import signal

from tests.verify.matrix import Outcome, Plan
from tests.verify.side_by_side import Reports


def report_and_end(plan: Plan, reports: Reports) -> Outcome:
    """Report twice."""
    (dtype,) = plan.dtypes
    reports.put((dtype, 1))
    reports.put((dtype, 2))
    return Outcome(rows=[], products={dtype: []}, num_threads=1)


def be_killed(plan: Plan, reports: Reports) -> Outcome:
    """Report once; the process of float32 is then killed, as for want of memory."""
    (dtype,) = plan.dtypes
    reports.put((dtype, 1))
    if dtype == "float32":
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(rows=[], products={dtype: []}, num_threads=1)
