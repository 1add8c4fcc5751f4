"""Tables and lines on the screens of two runs."""

import collections
import re

from common import equal, only, order

TITLE = re.compile(r"^\s*(.*\S)\s*$")


def tables(text):
    """Titles of tables, each with its column names and its rows."""
    found, lines = collections.OrderedDict(), text.split("\n")
    i = 0
    while i < len(lines):
        if lines[i].lstrip().startswith("┏"):
            title = TITLE.match(lines[i - 1]).group(1) if i and TITLE.match(lines[i - 1]) else ""
            columns = [c.strip() for c in lines[i + 1].strip().strip("┃").split("┃")]
            rows = []
            i += 3
            while i < len(lines) and not lines[i].lstrip().startswith("└"):
                cells = [c.strip() for c in lines[i].strip().strip("│").split("│")]
                if rows and len(cells) > 1 and not any(cells[1:]) and cells[0].startswith("("):
                    rows[-1][0] += " " + cells[0]
                elif len(cells) == len(columns):
                    rows.append(cells)
                i += 1
            found[title] = (columns, rows)
        i += 1
    return found


def joined_rows(rows):
    """Labels of rows; words of a label that was broken over two lines are put together again."""
    labels = []
    for cells in rows:
        if labels and len(cells) > 1 and not any(cells[1:]):
            labels[-1] += " " + cells[0]
        else:
            labels.append(cells[0])
    return labels


def screen(place, ours, theirs, case, tally):
    sides = [tables(text) for text in (ours, theirs)]
    yield from only(place, sides[0], sides[1])
    yield from order(place, sides[0], sides[1])
    for title, (columns, rows) in sides[0].items():
        if title not in sides[1]:
            continue
        other_columns, other_rows = sides[1][title]
        yield from equal("%s/%s/columns" % (place, title), columns, other_columns)
        if "Error Summary" in title:
            continue
        labels = joined_rows(rows), joined_rows(other_rows)
        tally["rows"] += len(labels[1])
        yield from only("%s/%s" % (place, title), *labels)
        # Rows without a place of their own stand there as AIPerf came upon them.
        yield from order("%s/%s" % (place, title), *[[r for r in side if "(error-adjusted)" not in r] for side in labels])
        cells = [{r[0]: [c == "N/A" for c in r[1:]] for r in side if any(r[1:])} for side in (rows, other_rows)]
        for name in cells[0]:
            if name in cells[1]:
                yield from equal("%s/%s/%s/N/A" % (place, title, name), cells[0][name], cells[1][name])
    panels = [re.findall(r"╭─+ (.*?) ─+╮", text) for text in (ours, theirs)]
    yield from only(place + "/panel", *panels)

FOOT = re.compile(r"^([A-Z][A-Za-z ]+): ", re.M)
