"""Who uses the cores: what waits, and what is given up."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gpde.machine import threads


def test_chunks_are_joined_in_order_and_their_padding_is_dropped():
    rows = np.arange(17.0)
    (out,) = threads.map_chunks(lambda shared, x: (shared * x,), 2.0, (rows,), 5)
    np.testing.assert_array_equal(out, 2 * rows)


def test_ctrl_c_while_chunks_are_handed_out_does_not_wait_for_those_in_the_queue(monkeypatch):
    class Interrupted(ThreadPoolExecutor):
        num_submitted = 0

        def submit(self, *arguments, **more):
            self.num_submitted += 1
            if self.num_submitted == 60:
                raise KeyboardInterrupt
            return super().submit(*arguments, **more)

    started = []

    def slow(_, rows):
        started.append(rows)
        time.sleep(0.02)
        return (rows,)

    monkeypatch.setattr(threads, "ThreadPoolExecutor", Interrupted)
    monkeypatch.setattr(threads, "num_cores", lambda: 2)
    with pytest.raises(KeyboardInterrupt):
        threads.map_chunks(slow, None, (np.arange(200.0),), 1)
    assert len(started) < 20


def test_two_threads_of_a_program_take_turns_with_lapack():
    inside, most = [], []

    def work():
        with threads.one_blas_thread(), threads.one_blas_thread():  # a thread that is inside may enter again
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.02)
            inside.pop()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert max(most) == 1
