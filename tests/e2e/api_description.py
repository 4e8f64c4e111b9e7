"""openapi.json as the tests use it: its operations, and whether an answer is as it says."""
import json
import re

import jsonschema

METHODS = ("get", "post", "put", "delete")


class Description:
    def __init__(self, document):
        self.document = document
        self.operations = {operation["operationId"]: (method.upper(), path, operation)
                           for path, methods in document["paths"].items() for method, operation in methods.items() if method in METHODS}

    def statuses(self, name):
        return {int(status) for status in self.operations[name][2]["responses"] if status != "default"}

    def parameters(self, name, where):
        return [parameter for parameter in self.operations[name][2].get("parameters", []) if parameter["in"] == where]

    def path(self, name, arguments):
        return re.sub(r"\{([a-z]+)\}", lambda found: arguments[found[1]], self.operations[name][1])

    def complaints(self, name, status, content_type, body):
        """What is not as described, as sentences. `body` is text."""
        responses = self.operations[name][2]["responses"]
        response = responses.get(str(status), responses["default"])
        described = response.get("content", {})
        if not described:
            return [f"{status} has a body, and should have none"] if body and str(status) in ("204", "304") else []
        if content_type not in described:
            return [f"{status} has the type {content_type}, not {' or '.join(described)}"]
        if "json" not in content_type:
            return []
        try:
            value = json.loads(body)
        except ValueError:
            return [f"{status} is not JSON: {body[:100]}"]
        schema = {**described[content_type]["schema"], "components": self.document["components"]}
        errors = jsonschema.Draft202012Validator(schema).iter_errors(value)
        return [f"{status}: {'/'.join(map(str, error.absolute_path)) or 'the body'}: {error.message[:200]}" for error in errors]
