"""Texts asked for of a service: whole or as they are written."""
import json
import os
import subprocess
import time
import urllib.error
import urllib.request

ASK_AGAIN = (429, 503)


def openais_client(case, base, token):
    """OpenAI's own client asks for texts, streams, and what is refused; the model that it asked, the first of the server's."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "client.mjs")
    done = subprocess.run(["node", script, base, token], capture_output=True, text=True, timeout=120, check=False)
    case.assertEqual(0, done.returncode, done.stderr)
    got = json.loads(done.stdout)
    written = [choice["text"] for choice in got["whole"]["choices"]]
    case.assertEqual(written, got["streamed"])
    case.assertNotEqual(written[0], written[1])
    case.assertEqual(got["whole"]["usage"], got["usage"])
    errors = got["errors"]
    case.assertEqual(("BadRequestError", 400, "temperature"), tuple(errors["temperature"][k] for k in ("kind", "status", "param")))
    case.assertEqual(("BadRequestError", "logit_bias", "unsupported_parameter"), tuple(errors["logit_bias"][k] for k in ("kind", "param", "code")))
    case.assertEqual(("NotFoundError", 404, "model_not_found"), tuple(errors["model"][k] for k in ("kind", "status", "code")))
    case.assertEqual({"kind": "AuthenticationError", "status": 401}, errors["token"])
    return got["model"]


def ask(cluster, model, fields, at_tokens=lambda count: None):
    """(fingerprint, choices as they are whole, the longest pause of a stream in s). Of a stream with log-probabilities
    at_tokens(count) is called at each piece."""
    body = json.dumps({"model": model, **fields}).encode()
    request = urllib.request.Request(f"{cluster.url}/v1/completions", body, {"Authorization": f"Bearer {cluster.token()}"})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return streamed(answer, at_tokens) if fields.get("stream") else whole(json.load(answer))
        except urllib.error.HTTPError as error:
            if error.code not in ASK_AGAIN:
                raise AssertionError(f"{error.code}: {error.read().decode()}") from error
            time.sleep(0.1)


def metric(metrics, name):
    """The sum of a metric's samples, those with some labels where `name` ends with them, of an answer of /metrics. None is a family that the service
    has and that nothing is said of yet; a name that it does not have is an error."""
    family = name.partition("{")[0]
    assert f"# TYPE {family} " in metrics, f"the service has no metric {family}"
    return sum(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith(name) and line[len(family)] in "{ ")


def whole(answer):
    return answer["system_fingerprint"], [{key: choice[key] for key in ("text", "finish_reason", "logprobs")} for choice in answer["choices"]], 0


def streamed(answer, at_tokens):
    fingerprint, choices, last, pause, has_ended = None, {}, time.monotonic(), 0, False
    for line in answer:
        has_ended = has_ended or line.strip() == b"data: [DONE]"
        if not line.startswith(b"data: {"):
            continue
        pause, last = max(pause, time.monotonic() - last), time.monotonic()
        event = json.loads(line[6:])
        if "error" in event:
            raise AssertionError(f"a stream ends with {event['error']}")
        fingerprint = fingerprint or event["system_fingerprint"]
        assert fingerprint == event["system_fingerprint"], "a stream keeps the model that it began with"
        for piece in event["choices"]:
            choice = choices.setdefault(piece["index"], {"text": "", "finish_reason": None, "logprobs": None})
            choice["text"] += piece["text"]
            choice["finish_reason"] = piece["finish_reason"] or choice["finish_reason"]
            for key, values in (piece["logprobs"] or {}).items():
                choice["logprobs"] = choice["logprobs"] or {}
                choice["logprobs"].setdefault(key, []).extend(values)
        at_tokens(sum(len((piece["logprobs"] or {"tokens": ()})["tokens"]) for piece in event["choices"]))
    if not has_ended:
        raise ConnectionError("the stream was cut off")
    return fingerprint, [choices[index] for index in sorted(choices)], pause
