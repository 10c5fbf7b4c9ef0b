"""Points in tables, data frames and CSV files: coordinates are found by the names of their columns."""

import csv
import dataclasses
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

_SEPARATORS = ("\t", ";", ",")


def find_columns(names: Sequence[str], coordinates: Sequence[str], owner: str) -> list[int]:
    """Where each coordinate stands among named columns; case and spaces around a name do not matter."""
    plain = [name.strip().casefold() for name in names]
    places = []
    for coordinate in coordinates:
        found = [place for place, name in enumerate(plain) if name == coordinate.casefold()]
        if len(found) != 1:
            wrong = f"has {len(found)} columns" if found else "has no column"
            listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            raise ValueError(
                f"{owner} {wrong} for the coordinate '{coordinate}'; its columns are {listed}, and "
                f"one is needed for each of {', '.join(coordinates)}."
            )
        places.append(found[0])
    return places


def frame_points(frame: Any, coordinates: Sequence[str]) -> Float[np.ndarray, "points dim"]:
    """The points in a data frame (of pandas, polars, or anything with `columns` and `frame[name]`)."""
    names = list(frame.columns)
    places = find_columns([str(name)[:40] for name in names], coordinates, f"`points`: the {type(frame).__name__}")
    columns = []
    for place, coordinate in zip(places, coordinates, strict=True):
        try:
            columns.append(np.asarray(frame[names[place]], dtype=float))
        except (TypeError, ValueError) as error:
            raise ValueError(f"`points`: the column for '{coordinate}' must hold numbers ({error}).") from error
    return np.stack(columns, axis=1)


@dataclasses.dataclass(frozen=True)
class PointFile:
    """A CSV file of points: its cells as they stand there, and the points, with the line each comes from."""

    header: list[str]
    rows: list[list[str]]
    separator: str
    points: Float[np.ndarray, "points dim"]
    lines: list[int]

    def write(self, stream: Any, names: Sequence[str], columns: Iterable[Sequence[float]]) -> None:
        """Writes the file again, with further columns of numbers at its end."""
        writer = csv.writer(stream, delimiter=self.separator, lineterminator="\n")
        writer.writerow([*self.header, *names])
        writer.writerows([*row, *numbers] for row, numbers in zip(self.rows, columns, strict=True))


def read_points(file: Path, coordinates: Sequence[str]) -> PointFile:
    """Reads a CSV file, separated by commas, semicolons or tabs.

    With a header columns are found by their names, and there may be others. Without one the columns are the coordinates.
    """
    if not file.is_file():
        raise ValueError(f"there is no file '{file}'.")
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            separator = _separator(next((line for line in stream if line.strip()), ""), coordinates)
            stream.seek(0)
            reader = csv.reader(stream, delimiter=separator)
            lines = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"'{file}' cannot be read as a table in UTF-8 text ({error}).") from error

    header = lines.pop(0)[1] if lines and _is_header(lines[0][1], coordinates) else None
    if not lines:
        raise ValueError(f"'{file}' holds no points; one per line is needed, as in 0.5,0.25.")
    if header is None:
        width, places = len(coordinates), list(range(len(coordinates)))
        expected = f"without a header a line holds {', '.join(coordinates)} and nothing else"
    else:
        width, places = len(header), find_columns(header, coordinates, f"'{file}'")
        expected = f"the header has {width} columns"
    points = np.empty((len(lines), len(coordinates)))
    for index, (number, row) in enumerate(lines):
        if len(row) != width:
            advice = " (decimals are written with a point: 0.5)" if separator == "," else ""
            raise ValueError(f"'{file}', line {number}: {expected}; came {len(row)}: {separator.join(row)}{advice}.")
        for axis, place in enumerate(places):
            points[index, axis] = _number(row[place], f"'{file}', line {number}: the coordinate '{coordinates[axis]}'")
    return PointFile(header or list(coordinates), [row for _, row in lines], separator, points, [n for n, _ in lines])


def _separator(line: str, coordinates: Sequence[str]) -> str:
    """The one by which the first line names most coordinates; where it names none, a comma only if nothing else is there."""
    wanted = {coordinate.casefold() for coordinate in coordinates}

    def num_named(separator: str) -> int:
        return sum(cell.strip().casefold() in wanted for cell in next(csv.reader([line], delimiter=separator)))

    present = [separator for separator in _SEPARATORS if separator in line]
    return max(present, key=num_named, default=",")


def _is_header(row: Sequence[str], coordinates: Sequence[str]) -> bool:
    wanted = {coordinate.casefold() for coordinate in coordinates}
    numbers = [_is_number(cell.replace(",", ".")) for cell in row]  # 0,5 is no name either
    return any(cell.strip().casefold() in wanted for cell in row) or not any(numbers)


def _number(text: str, what: str) -> float:
    if not text.strip():
        raise ValueError(f"{what} is missing.")
    if not _is_number(text):
        advice = "; decimals are written with a point" if _is_number(text.replace(",", ".")) else ""
        raise ValueError(f"{what} must be a number; came '{text.strip()}'{advice}.")
    if not math.isfinite(float(text)):
        raise ValueError(f"{what} must be finite; came '{text.strip()}'.")
    return float(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
