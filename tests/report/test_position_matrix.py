"""The map of positions on a page: as the measurement has it, and only where there is one."""

from bathyscope import diagnose
from bathyscope.report.page import to_html
from bathyscope.report.position_matrix import position_matrix
from tests.diagnosis.components import networks


def report_of(family):
    result = diagnose(networks.build(family), networks.batch_of(family), loss=networks.loss)
    return result.report()


def cells(path):
    """(column, row) of every square that a path of rectangles covers."""
    result = set()
    for part in path.split("M")[1:]:
        where, width = part.split("v1")[0].split("h")
        column, row = map(int, where.split())
        result |= {(column + i, row) for i in range(int(width))}
    return result


def test_a_causal_network_is_a_triangle():
    matrix = position_matrix(report_of("gpt"))
    assert matrix.columns == networks.LENGTH
    assert list(matrix.rows) == sorted(matrix.rows)
    read = {(c, number) for number, row in enumerate(matrix.rows) for c in range(row + 1)}
    assert cells(matrix.read) == read


def test_a_network_without_positions_at_its_output_has_no_matrix():
    report = report_of("vit")
    assert position_matrix(report) is None
    assert 'id="positions"' not in to_html(report)
    assert 'id="positions"' in to_html(report_of("gpt"))
