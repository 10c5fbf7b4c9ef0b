"""What the result of a run says beside how it ended."""

import numpy as np

from gpde.methods.mini_batch.state import State, Work


def told(work: Work, state: State, nugget: float, first_weight: float | None, rim_ratio: float | int) -> tuple[str, ...]:
    """Sentences on a run whose batches began with a nugget, with a first weight unless weights raise themselves, and with rims
    held so many times harder than cores."""
    notes = []
    if state.start.num_steps:
        weight = "" if first_weight is None else f", from the proximal weight {first_weight:.1e}"
        notes.append(f"went on after {state.start.num_steps} earlier steps{weight}")
    if work.mean is not None:
        num, of = work.mean.coarse.num_points, work.problem.table.num_points
        notes.append(f"the prior mean is the full GP on {'all' if num == of else f'{num} of the'} {of} points")
    elif work.without_mean is not None:
        notes.append(work.without_mean)
    if state.phase is not None and state.phase.ratio == 1 < rim_ratio:
        notes.append("batches went astray with rims held harder than cores: begun again with one weight for all of a batch")
    raised = np.asarray(state.raised)
    if raised.any():
        largest = nugget * 10.0 ** raised.max()
        notes.append(f"the nugget was raised on {np.sum(raised > 0)} of {len(raised)} batches, to at most {largest:.1e}")
    skipped = int(np.sum(np.isnan(state.losses)))
    if skipped:
        notes.append(f"{skipped} of {state.num_steps} steps were skipped: their batch failed with every nugget tried")
    return tuple(notes)
