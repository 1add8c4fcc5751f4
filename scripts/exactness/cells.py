"""Which cells of the matrix are run: every pair of settings at least once, then what is left of the number for triples."""

import itertools
import random

FACTORS = {
    "family": [],  # the families that run
    "corpus": ["sonnet", "coding", "random"],
    "bust": [
        "none",
        "system_prefix",
        "system_suffix",
        "first_turn_prefix",
        "first_turn_suffix",
        "warmup_isolation_system",
        "warmup_isolation_first_turn",
    ],
    "context": ["none", "system", "user", "pool", "system+user", "verbatim"],
    "turns": [1, 2, 3, 4, 5],
    "length": ["least", 64, 257, 1024, 8192, 32768],
    "spread": ["fixed", "stddev", "pairs", "range"],
    "template": ["on", "off"],
    # Most talk is chat.
    "endpoint": ["chat", "chat", "responses", "messages", "completions"],
}
# Cells of the longest length that a family gets: they cost as much as all its others.
LONGEST = 32768
MOST_LONGEST = 2


def has_system(cell):
    return cell["context"] in ("system", "system+user", "verbatim")


def has_user_context(cell):
    return cell["context"] in ("user", "system+user")


def roles(cell):
    """Of the messages of a conversation's first request."""
    return ["system"] * has_system(cell) + ["user"] * has_user_context(cell) + ["user"]


def allowed(cell, refusing):
    """Whether a cell means something. `refusing` holds (family, roles) of the requests that a template takes no such of."""
    completions = cell["endpoint"] == "completions"
    if completions and (cell["bust"] != "none" or cell["context"] not in ("none", "pool")):
        return False
    if completions and (cell["turns"] != 1 or cell["template"] == "on"):
        return False
    if cell["length"] == "least" and cell["spread"] != "fixed":
        return False
    if cell["length"] == LONGEST and (cell["turns"] > 1 or cell["spread"] == "stddev"):
        return False
    if cell["length"] == 8192 and cell["turns"] > 3:
        return False
    if cell["bust"] == "warmup_isolation_system" and not has_system(cell):
        return False
    if (cell["family"], tuple(roles(cell))) in refusing:
        # A refusal is shown once in a simple cell; without the template the server has nothing to count.
        simple = cell["length"] == 64 and cell["spread"] == "fixed" and cell["turns"] == 1 and cell["bust"] == "none"
        return cell["template"] == "on" and simple and not completions
    return True


def draw(rng, factors, refusing, fixed):
    """A cell with some settings given; None if none was found."""
    for _ in range(400):
        cell = {name: rng.choice(values) for name, values in factors.items()}
        cell.update(fixed)
        # Few draws would meet all at once what these two kinds of cells need.
        if cell["endpoint"] == "completions":
            cell.update({"template": "off", "turns": 1, "bust": "none"}, **fixed)
        elif (cell["family"], tuple(roles(cell))) in refusing:
            cell.update({"template": "on", "turns": 1, "bust": "none", "length": 64, "spread": "fixed"}, **fixed)
        if allowed(cell, refusing):
            return cell
    return None


def groups(cell, size):
    names = list(FACTORS)
    return {tuple((n, cell[n]) for n in some) for some in itertools.combinations(names, size)}


def choose(families, refusing, count, seed):
    """Up to `count` cells, in the order of the families, and how many of the possible pairs they cover: (cells, covered, possible)."""
    rng = random.Random(seed)
    factors = dict(FACTORS, family=list(families))
    pairs = set()
    for a, b in itertools.combinations(factors, 2):
        for x, y in itertools.product(factors[a], factors[b]):
            if draw(rng, factors, refusing, {a: x, b: y}):
                pairs.add(((a, x), (b, y)))
    open_pairs = set(pairs)
    cells, seen, longest = [], set(), {}

    def take(cell):
        key = tuple(cell.values())
        if key in seen or (cell["length"] == LONGEST and longest.get(cell["family"], 0) >= MOST_LONGEST):
            return False
        seen.add(key)
        longest[cell["family"]] = longest.get(cell["family"], 0) + (cell["length"] == LONGEST)
        cells.append(cell)
        return True

    def best(fixed, gain, tries):
        drawn = [draw(rng, factors, refusing, fixed) for _ in range(tries)]
        drawn = [c for c in drawn if c and tuple(c.values()) not in seen]
        drawn = [c for c in drawn if c["length"] != LONGEST or longest.get(c["family"], 0) < MOST_LONGEST]
        return max(drawn, key=gain, default=None)

    gain_pairs = lambda cell: len(groups(cell, 2) & open_pairs)
    hopeless = set()
    while open_pairs - hopeless and len(cells) < count:
        pair = min(open_pairs - hopeless, key=repr)
        cell = best(dict(pair), gain_pairs, 40)
        if cell is None or not take(cell):
            hopeless.add(pair)
            continue
        open_pairs -= groups(cell, 2)
    triples = set()
    for cell in cells:
        triples |= groups(cell, 3)
    turn = itertools.cycle(families)
    tired = 0
    while len(cells) < count and tired < len(families) * 3:
        cell = best({"family": next(turn)}, lambda c: len(groups(c, 3) - triples), 12)
        if cell is None or not take(cell):
            tired += 1
            continue
        triples |= groups(cell, 3)
    order = {family: i for i, family in enumerate(families)}
    cells.sort(key=lambda cell: order[cell["family"]])
    return cells, len(pairs) - len(open_pairs), len(pairs)
