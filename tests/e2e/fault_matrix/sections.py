"""Sections of a document that is written by several programs: each replaces its own, and leaves the others' as they are."""
import os
import re

OTHERS = ("## Several services", "## Texts")  # sections that begin so are not the matrix's own


def split(text):
    """[(title, text)] of the sections of the second level; what stands before the first has no title."""
    parts = re.split(r"(?m)^(?=## )", text)
    return [(part.splitlines()[0] if part.startswith("## ") else "", part) for part in parts if part]


def of_others(path):
    """The text of those that another program wrote, as it stands in the file now."""
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return "".join(text for title, text in split(file.read()) if title.startswith(OTHERS))


def put(path, title, rows):
    """In the place of the section with this title, or at the end."""
    with open(path, encoding="utf-8") as file:
        parts = split(file.read())
    new = (title, "\n".join(rows).rstrip() + "\n\n")
    at = [index for index, (there, _) in enumerate(parts) if there == title]
    if at:
        parts[at[0]] = new
    else:
        parts = [(there, text.rstrip() + "\n\n") for there, text in parts] + [new]
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(text for _, text in parts).rstrip() + "\n")
