"""How does a chart stand alone? As an SVG file with its style inside, in the colours of print."""

import re
from importlib.resources import files

from .markup import Html, tag

FONT = 'text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }'


def picture(chart: Html) -> str:
    """The file of a chart. It asks for nothing from elsewhere, and runs nothing."""
    found = re.match(r"<svg [^>]*viewBox=\"0 0 ([\d.]+) ([\d.]+)\"[^>]*>", chart)
    if found is None:
        raise ValueError("A chart begins with an svg element that has a viewBox.")
    width, height = found[1], found[2]
    size = f'xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
    ground = tag("rect", width="100%", height="100%", fill="#ffffff")
    opening = found[0].replace("<svg ", f"<svg {size}", 1).replace(' tabindex="0"', "")
    return f"{opening}{tag('style', Html(_style()))}{ground}{chart[found.end() :]}\n"


def _style() -> str:
    """The print colours and the rules of charts of the report's style sheet."""
    sheet = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    colours = re.search(r"@media print \{\s*:root[^{]*\{(.*?)\}", sheet, re.DOTALL)
    rules = re.search(r"/\* Charts: .*?\*/(.*?)/\* End of charts\. \*/", sheet, re.DOTALL)
    if colours is None or rules is None:
        raise ValueError("The style sheet of the report has no print colours or no rules of charts.")
    return "".join(
        f"{line.strip()}\n"
        for line in [":root {", *colours[1].splitlines(), "}", FONT, *rules[1].splitlines()]
        if line.strip()
    )
