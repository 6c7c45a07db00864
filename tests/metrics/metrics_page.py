"""Comparing expressions of Prometheus with the metrics that a broker has."""

import re

SERIES = re.compile(r"\b(kafka_\w+|process_\w+)(?:\{([^}]*)\})?")
OF_SCRAPES = ("job", "instance")
"""Labels that Prometheus adds."""


def unknown_series(expressions: str, page: str) -> list[str]:
    """Return what expressions name, and a page of metrics does not have: metrics, labels, and values of labels."""
    found = []
    for name, matchers in SERIES.findall(expressions):
        labels = re.findall(rf"^{name}(?:\{{(.*)\}})? ", page, re.MULTILINE)
        if not labels:
            found.append(name)
            continue
        for label, operator, value in re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', matchers):
            if label in OF_SCRAPES:
                continue
            if value and not any(f'{label}="' in each for each in labels):
                found.append(f"{name}: label {label}")
            elif operator == "=" and value and not any(f'{label}="{value}"' in each for each in labels):
                found.append(f"{name}: {label}={value}")
    return found
