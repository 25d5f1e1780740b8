"""Tables as they are printed, read back: Markdown and LaTeX."""

import re

from tune_cd.analysis.tables import latex, markdown


def parsed(text):
    """The rows of one Markdown table, and that it is one."""
    lines = [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines()
    ]
    assert (
        len({len(line) for line in lines}) == 1
        and all(set(cell) == {"-"} for cell in lines[1])
        and len({len(line) for line in text.splitlines()}) == 1
    )
    return [lines[0], *lines[2:]]


UNESCAPED = {
    r"$\Lambda_p$": "Λp",
    r"$\Lambda_e$": "Λe",
    "$-$": "-",
    r"\textbackslash{}": "\\",
    r"$\pm$": "±",
    r"$\Lambda$": "Λ",
    r"$\Delta$": "Δ",
    "$<$": "<",
    "$>$": ">",
}


def read_latex(text):
    """The rows of a LaTeX table, unescaped; that environments nest and every row has as many cells as there are
    columns."""
    stack = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack and [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    columns = len(re.search(r"\\begin\{tabular\}\{@\{\}(l?c*)@\{\}\}", text)[1])
    rows = [line.removesuffix(r" \\") for line in text.splitlines() if line.endswith(r" \\")]
    cells = [re.split(r"(?<!\\) ?& ?", line) for line in rows]
    assert {len(line) for line in cells} == {columns}
    pattern = re.compile("|".join(map(re.escape, UNESCAPED)))
    assert not any(set("_#%&^~±ΔΛ") & set(re.sub(pattern, "", cell)) for line in cells for cell in line), (
        "nothing special is left as it is"
    )
    return [[pattern.sub(lambda found: UNESCAPED[found[0]], cell).strip() for cell in line] for line in cells]


def same(printed):
    """Markdown's and LaTeX's cells of a table of one level are the same; those cells."""
    rows = parsed(markdown(printed))
    assert read_latex(latex(printed)) == rows
    return rows
