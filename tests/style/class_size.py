"""Counts the member functions that each class declares. It reads text, not C++: comments, strings and bodies are left out, then a
declaration is whatever ends with a semicolon or a body in the class's own braces."""
import re

HEAD = re.compile(r"(?<!enum )\b(?:class|struct)\s+([\w:]+)(?:\s+final)?(?:\s*:[^;{}()]*)?\s*\{")
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#[^\n]*', re.DOTALL | re.MULTILINE)
NO_FUNCTION = re.compile(r"(?:using|typedef|friend|static_assert|class|struct|union|enum)\b")


def closing(text, opening):
    """The index behind the bracket that closes the one at `opening`."""
    depth = 0
    for i in range(opening, len(text)):
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


def declarations(body):
    """The declarations directly in the body of a class, each without its own body."""
    found, said, i = [], "", 0
    while i < len(body):
        if body[i] == "(":
            end = closing(body, i)
            said, i = said + "(" + re.sub(r"[^*]", "", body[i + 1:i + 2]) + ")", end
        elif body[i] == "{":
            # clang-format puts a blank before a function's body, and none before the braces of an initialiser.
            is_body = "(" in said and said[-1].isspace() and not NO_FUNCTION.match(said.strip())
            i = closing(body, i)
            if is_body:
                found.append(said)
                said = ""
        elif body[i] == ";":
            found.append(said)
            said, i = "", i + 1
        else:
            said, i = said + body[i], i + 1
    return found


def is_member_function(declaration):
    """Whether it declares a function of the class's own: no field, nothing defaulted or deleted, no override (the base counts it)."""
    said = re.sub(r"\b(?:public|protected|private):|\[\[[^\]]*\]\]|\balignas\(\)", "", declaration)
    said = re.sub(r"\boperator\s*(?:\(\)|[^\s\w(]+)", "operator_", said).strip()
    while (fewer := re.sub(r"<[^<>;]*>", "", said)) != said:
        said = fewer
    said = re.sub(r"^template\s*", "", said.strip())
    if re.search(r"=\s*(?:default|delete)\s*$|\)[^()]*\boverride\b", said) or NO_FUNCTION.match(said):
        return False
    said = said.split("=")[0]
    return "(*)" not in said and re.search(r"[\w~]\s*\(\)", said) is not None


def member_functions(text):
    """(name, count) of each class in the text, nested ones by themselves."""
    code = NO_CODE.sub(lambda found: '""' if found.group().startswith('"') else " ", text)
    return [(head.group(1), sum(map(is_member_function, declarations(code[head.end():closing(code, head.end() - 1) - 1]))))
            for head in HEAD.finditer(code)]
