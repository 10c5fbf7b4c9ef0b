"""The study of deliberate faults is kept true: each still has its place in the library, and leaves it a program."""

import ast
from pathlib import Path

import pytest
from tests.mutants.__main__ import faulty
from tests.mutants.faults import FAULTS

import gpde

PACKAGE = Path(gpde.__file__).parent


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_has_one_place_in_the_library_and_leaves_a_program(fault):
    right = (PACKAGE / fault.file).read_text(encoding="utf-8")
    wrong = faulty(right, fault)
    assert ast.dump(ast.parse(wrong)) != ast.dump(ast.parse(right))


def test_there_are_at_least_thirty_faults_with_names_of_their_own():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 30
