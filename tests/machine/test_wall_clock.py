"""The clock on the wall: no second is lost, and none is counted twice."""

import contextlib
import subprocess
import sys
import time

from gpde.machine.wall_clock import WallClock, process_age


def test_every_second_belongs_to_the_innermost_name(monkeypatch):
    now = 100.0
    monkeypatch.setattr("gpde.machine.wall_clock.time.perf_counter", lambda: now)
    clock = WallClock("start", age=3.0)
    now = 101.0
    with clock.during("picture"):
        now = 103.0
        with clock.during("prediction"):
            now = 107.0
        now = 115.0
    now = 131.0
    with contextlib.suppress(ZeroDivisionError), clock.during("picture"):
        now = 163.0
        raise ZeroDivisionError
    now = 227.0
    assert clock.seconds == {"start": 3 + 1 + 16 + 64, "picture": 2 + 8 + 32, "prediction": 4}
    assert sum(clock.seconds.values()) == 3 + 127


def test_a_process_knows_its_age():
    before = time.time()
    code = "import time; time.sleep(0.2); from gpde.machine.wall_clock import process_age; print(process_age(), time.time())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    age, now = map(float, run.stdout.split())
    assert 0.2 <= age <= now - before + 0.05  # processes are counted in hundredths of a second
    assert process_age() > age
