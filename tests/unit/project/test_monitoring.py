"""The rules for Prometheus and the board for Grafana use only metrics that lakeaudit exports, with their labels."""

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser as promql
import pytest
import yaml

from lakeaudit.alerts.samples import METRICS, STATUSES, UNCHECKED
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report.coverage_view import STANDINGS
from tests.builders.containerfile import ROOT

BOARD = json.loads((ROOT / "conf" / "grafana" / "lakeaudit.json").read_text())
(GROUP,) = yaml.safe_load((ROOT / "conf" / "prometheus" / "alerts.yml").read_text())["groups"]
RULES = GROUP["rules"]
OF_PROMETHEUS = {"up"}
"""Metrics that Prometheus makes itself."""
TARGETS = [target for panel in BOARD["panels"] for target in panel["targets"]]
OF_TARGETS = {"instance", "job"}
"""Labels that Prometheus adds."""
VALUES = {"severity": SEVERITIES, "lakeaudit_last_run": STATUSES, "standing": (*STANDINGS, UNCHECKED)}


def expressions() -> Iterator[Any]:
    yield from (pytest.param(rule["expr"], id=rule["alert"]) for rule in RULES)
    yield from (pytest.param(target["expr"], id=target["expr"]) for target in TARGETS)


def nodes(text: str) -> list[Any]:
    found: list[Any] = []
    promql.walk(promql.parse(text), found.append)
    return found


def faults(text: str) -> list[str]:
    """Metrics, labels and values of labels that no lakeaudit exports."""
    found = []
    selectors = [node for node in nodes(text) if isinstance(node, promql.VectorSelector)]
    labels = {"lake", *(label for each in selectors for label in METRICS.get(each.name or "", ((), ""))[0])}
    selectors = [each for each in selectors if each.name not in OF_PROMETHEUS]
    found += [f"metric {each.name}" for each in selectors if each.name not in METRICS]
    found += [f"by {label}" for label in by_labels(text) if label not in labels]
    for each in selectors:
        for matcher in each.matchers.matchers:
            if matcher.name not in {"lake", *METRICS.get(each.name or "", ((), ""))[0]}:
                found.append(f"{each.name} has no label {matcher.name}")
            known = VALUES.get(matcher.name)
            found += [f"no {value}" for value in matcher.value.split("|") if known and value not in known]
    return found


@pytest.mark.parametrize("text", list(expressions()))
def test_every_query_is_valid_and_uses_exported_metrics_and_labels(text: str) -> None:
    assert faults(text) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("lakeaudit_open > 0", "metric lakeaudit_open"),
        ('lakeaudit_rows_at_stake{severity="critical"}', "lakeaudit_rows_at_stake has no label severity"),
        ('lakeaudit_open_discrepancies{severity="fatal"}', "no fatal"),
        ("sum by (axis) (lakeaudit_tables)", "by axis"),
    ],
)
def test_a_wrong_query_would_be_noticed(text: str, fault: str) -> None:
    assert faults(text) == [fault]


def test_text_that_is_not_a_query_would_be_noticed() -> None:
    with pytest.raises(ValueError, match="expected"):
        promql.parse("sum by lake) (lakeaudit_tables)")


def by_labels(text: str) -> list[str]:
    """Labels that the query aggregates by."""
    modifiers = [node.modifier for node in nodes(text) if isinstance(node, promql.AggregateExpr)]
    return [label for modifier in modifiers if modifier is not None for label in modifier.labels]


def exported_labels(text: str) -> set[str]:
    """Labels that a result of the query has."""
    selectors = [node for node in nodes(text) if isinstance(node, promql.VectorSelector)]
    every = {"lake", *OF_TARGETS}.union(
        *(METRICS[each.name][0] for each in selectors if each.name and each.name in METRICS)
    )
    return {*by_labels(text)} or every


def test_texts_name_labels_that_their_query_returns() -> None:
    named = [(rule["expr"], " ".join(rule["annotations"].values()), r"\$labels\.(\w+)") for rule in RULES]
    named += [(target["expr"], target["legendFormat"], r"\{\{(\w+)\}\}") for target in TARGETS]
    wrong = [(label, text) for query, text, form in named for label in re.findall(form, text)
             if label not in exported_labels(query)]  # fmt: skip
    assert wrong == []
    assert any("$labels" in text for _, text, _ in named)


def test_rules_have_a_severity_and_texts() -> None:
    wrong = [
        rule["alert"]
        for rule in RULES
        if rule["labels"].keys() != {"severity"} or rule["annotations"].keys() != {"summary", "description"}
    ]
    assert wrong == []
    assert len({rule["alert"] for rule in RULES}) == len(RULES) > 5


def test_the_board_shows_each_panel_once_and_every_metric() -> None:
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)), "no panel covers another"
    used = " ".join([*(target["expr"] for target in TARGETS), *(rule["expr"] for rule in RULES)])
    unused = {name for name in METRICS if not re.search(rf"\b{name}\b", used)}
    assert unused == {"lakeaudit_last_run_timestamp_seconds", "lakeaudit_table_open_discrepancies"}


def test_the_variables_of_the_board_exist() -> None:
    names = {variable["name"] for variable in BOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps([BOARD["panels"], BOARD["templating"]]))) <= names | {
        "__all"
    }
    lake = next(each for each in BOARD["templating"]["list"] if each["name"] == "lake")
    (metric,) = re.findall(r"label_values\((\w+), lake\)", lake["query"]["query"])
    assert metric in METRICS
