"""The words of the field in place of words of our own: in code, messages and documents."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What is not to be found, and the word of the field for it.
PATTERNS = {
    r"\blikeness\b": "cosine similarity",
    r"\b[Tt]old\b|(?<!bathyscope )\btells\b(?! you why)": "reports, shows",
    r"\b(row|value|number|curve|line|file) an? (block|step|layer|sample|class|unit|file|figure)\b": "per",
    r"\bso many\b": "n, this many",
    r"\bgoes on\b": "resumes, continues",
    r"\banew\b": "again, re-initialize",
    r"\b[Gg]reatest\b": "largest",
    r"(?<!\bat )(?<!\bAt )(?<!not )(?<!changes )(?<!changes\n    )(?<!costs )(?<!copies )"
    r"\bleast\b(?![ -]squares)": "smallest",
    r"\b[Ss]hares? of\b|_share\b|\bshare_(?!memory|batches|[xy]\b)": "fraction",
    r"\b[Cc]ut-?offs?\b|_cutoff\b": "tolerance",
    r"^\s*(found|told|words)\b\s*[:=]|\bfor (found|told|words) in\b": "what it is",
    r"\b(hear|ears|hearing)\b|\bTap\b": "hook, observer",
    r"\b[Tt]runk\b": "body, backbone",
    r"\bgrave(st)?\b|\bgravity\b": "severe",
    r"\b(rungs?|RUNGS|Rung|racer|[Pp]atient)\b": "level, search, context",
    r"\b(best )?constant answer\b": "constant baseline",
    r"\bgrowth from the loss\b|\bon its way back\b": "cumulative gradient ratio, during backpropagation",
    r"\bnot[ _-]finite\b": "non-finite",
    r"\b(tally|stand-in)\b": "summary, substitute",
    r"\b(learnt|colour|normalis|initialis|behaviour|neighbour)": "American spelling, as PyTorch",
    # what replacing one word by another without reading the sentence leaves behind
    r"\b(that|they|to|who) fractions?\b (?!of)|\b(changes|costs|takes|needs|copies) smallest\b"
    r"|\b(is|are|was|were|been|being) reported (anything|what|so|otherwise)\b|\bare result\b"
    r"|\bseverest severity\b|most severe severity|\bis not a (narrower|wider|farther|learning)\b"
    r"|\b(per) (block|step|run|batch|token|vector|pass|study|branch) (is|has|reads|runs|ends|belongs|gives"
    r"|passes|multiplies)\b": "the word that the sentence needs",
    r"(?<![Tt]here )(?<![Tt]here\n)(?<![Tt]here\n   )(?<!where )\b(is|are|was|were) no "
    r"(?!longer|more|one\b|use\b|matter|worse|better|high|low|larg|small|narrow|wid|farth|different|less|few|fin"
    r"|lat|short|earl|deep)": "is not a",
    r"\bQueries that may look at nothing\b|\bTurn the sign\b": "fully masked queries, negate",
}

# Where a word of the left column is the right one: the start of a path, and the patterns.
ALLOWED = {
    "src/bathyscope/core/errors.py": {r"\b[Cc]ut-?offs?\b|_cutoff\b"},  # an argument of difflib
    "src/bathyscope/report/terminal.py": {r"\bnot[ _-]finite\b"},  # Python: if not finite
}


def _texts():
    for folder, pattern in (("src", "*.py"), ("src", "*.html"), ("docs", "*.md"), (".", "*.md")):
        paths = (ROOT / folder).glob(pattern) if folder == "." else (ROOT / folder).rglob(pattern)
        for path in paths:
            name = path.relative_to(ROOT).as_posix()
            # the reference is made of the source by `make docs`, perhaps of an older one
            if name != "CHANGELOG.md" and not name.startswith("docs/reference/"):
                yield name, path.read_text(encoding="utf-8")


TEXTS = dict(_texts())


@pytest.mark.parametrize("pattern", PATTERNS)
def test_words_of_the_field(pattern):
    regex = re.compile(pattern, re.MULTILINE)
    places = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1} {match.group(0).strip()!r}"
        for name, text in TEXTS.items()
        if not any(name.startswith(start) and pattern in of for start, of in ALLOWED.items())
        for match in regex.finditer(text)
    ]
    assert not places, f"say {PATTERNS[pattern]}:\n" + "\n".join(places[:40])


def test_the_pattern_finds_what_it_is_for():
    assert re.search(next(iter(PATTERNS)), "the likeness of samples")
