"""An S3 server that does what the worst network and the worst server do, on demand. It checks signatures and bodies as the real ones
do, and keeps objects in memory; a hook sees every request before and after it takes effect, and may break it anywhere."""
import email.utils
import hashlib
import hmac
import socket
import ssl
import struct
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

KEY, SECRET, BUCKET, REGION = "hostile-key", "hostile-secret+/=", "checkpoints", "eu-test-1"
PAGE = 1000
MAX_SKEW_S = 15 * 60


class Broken(Exception):
    """The connection is gone: nothing more is answered."""


def sign(secret, date, region, to_sign):
    key = ("AWS4" + secret).encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


class Request:
    """One request: what was asked, and what a hook may do to its answer."""

    def __init__(self, handler, number):
        self.handler, self.number = handler, number
        self.method = handler.command
        path, _, query = handler.path.partition("?")
        self.raw_path, self.raw_query = path, query
        self.key = urllib.parse.unquote(path)[len(BUCKET) + 2:]
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self.headers = handler.headers
        self.body = b""
        self.kind = "list" if "list-type" in self.query else self.method
        self.status, self.reply, self.reply_headers = 0, b"", {}

    def reset(self):
        """The connection breaks with a TCP reset, now."""
        connection = self.handler.connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        raise Broken

    def error(self, status, code, message="", **headers):
        self.status, self.reply_headers = status, {name.replace("_", "-"): str(value) for name, value in headers.items()}
        self.reply = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>".encode()


class HostileServer:
    """before(request): called when the head of a request is read, and its body not; it may reset, or answer by error().
    after(request): called when it has taken effect and is not answered yet; it may change the answer. cut: bytes of an answer's body
    that are sent before the connection breaks, reset or closed. drip_s: a pause after each 1,000 bytes of an answer."""

    def __init__(self, tls=None):
        self.objects, self.metadata, self.requests = {}, {}, []
        self.lock = threading.Lock()
        self.before = self.after = lambda request: None
        self.clock_ahead_s = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do(self):
                server.serve(self)
            do_GET = do_PUT = do_HEAD = do_DELETE = do

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except (Broken, OSError, ValueError):
                    self.close_connection = True

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that was killed

            def shutdown_request(self, request):
                try:
                    super().shutdown_request(request)
                except OSError:
                    pass

        self.http = Server(("127.0.0.1", 0), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.endpoint = f"{'https' if tls else 'http'}://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def place(self, prefix="j"):
        return f"s3://{BUCKET}/{prefix}?endpoint={self.endpoint}&region={REGION}"

    def stop(self):
        self.http.shutdown()
        self.http.server_close()

    def forget(self):
        """No object, no fault, no memory of requests."""
        with self.lock:
            self.objects, self.metadata, self.requests = {}, {}, []
        self.before = self.after = lambda request: None
        self.clock_ahead_s = 0

    def puts(self):
        """The keys of all PUTs that were answered with 200."""
        with self.lock:
            return [one.key for one in self.requests if one.method == "PUT" and one.status == 200]

    # --- one request

    def serve(self, handler):
        with self.lock:
            request = Request(handler, len(self.requests))
            self.requests.append(request)
        self.before(request)
        request.body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        if not request.status:
            self.judge(request)
        if not request.status:
            self.act(request)
        self.after(request)
        self.answer(request)

    def judge(self, request):
        """The signature, as AWS's documentation has it."""
        given = dict(part.strip().split("=", 1) for part in
                     request.headers.get("Authorization", "AWS4-HMAC-SHA256 a=b").split(" ", 1)[1].split(","))
        if "Signature" not in given:
            return request.error(403, "AccessDenied", "no signature")
        key, date, region, _, _ = given["Credential"].split("/")
        names = given["SignedHeaders"].split(";")
        missing = [name for name in ("host", "x-amz-content-sha256", "x-amz-date") if name not in names]
        missing += [name for name in names if name not in request.headers]  # signed and not sent
        missing += [name for name in request.headers if name.lower().startswith("x-amz-") and name.lower() not in names]
        query = "&".join(sorted(f"{quote(k)}={quote(v)}" for k, v in request.query.items()))
        lines = [f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in names]
        said = request.headers.get("x-amz-content-sha256", "")
        canonical = "\n".join([request.method, request.raw_path, query, "".join(lines), ";".join(names), said])
        stamp = request.headers.get("x-amz-date", "")
        to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, f"{date}/{region}/s3/aws4_request",
                             hashlib.sha256(canonical.encode()).hexdigest()])
        then = time.mktime(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) - time.timezone
        now = time.time() + self.clock_ahead_s
        if abs(now - then) > MAX_SKEW_S:
            return request.error(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.",
                                 Date=email.utils.formatdate(now, usegmt=True))
        if key != KEY:
            return request.error(403, "InvalidAccessKeyId", "The key is not known.")
        if region != REGION:
            return request.error(400, "AuthorizationHeaderMalformed", f"expecting '{REGION}'", x_amz_bucket_region=REGION)
        if missing or not hmac.compare_digest(sign(SECRET, date, region, to_sign), given["Signature"]):
            return request.error(403, "SignatureDoesNotMatch", f"unsigned or unsent: {missing}, canonical: {canonical}")
        if said != "UNSIGNED-PAYLOAD" and said != hashlib.sha256(request.body).hexdigest():
            return request.error(400, "XAmzContentSHA256Mismatch", "The body is not the one that was signed.")
        if self.endpoint.startswith("http://") and said == "UNSIGNED-PAYLOAD":
            return request.error(400, "InvalidRequest", "a body over plain http that is not signed")
        return None

    def act(self, request):
        request.status = 200
        with self.lock:
            if request.method == "PUT":
                self.objects[request.key] = request.body
                self.metadata[request.key] = {k.lower(): v for k, v in request.headers.items() if k.lower().startswith("x-amz-meta-")}
            elif request.method == "DELETE":
                request.status = 204
                self.objects.pop(request.key, None)
            elif request.kind == "list":
                request.reply = self.list_of(request, sorted(self.objects))
            elif request.key in self.objects:
                request.reply = self.objects[request.key]
                request.reply_headers = dict(self.metadata[request.key])
            else:
                request.error(404, "NoSuchKey", "The specified key does not exist.")

    @staticmethod
    def list_of(request, keys):
        after, most = request.query.get("continuation-token", ""), min(int(request.query.get("max-keys", PAGE)), PAGE)
        wanted = [key for key in keys if key.startswith(request.query.get("prefix", "")) and key > after]
        more = "<IsTruncated>true</IsTruncated><NextContinuationToken>%s</NextContinuationToken>" % escape(wanted[most - 1]) \
            if len(wanted) > most else "<IsTruncated>false</IsTruncated>"
        return ("<ListBucketResult>" + more + "".join(f"<Contents><Key>{escape(key)}</Key></Contents>" for key in wanted[:most]) +
                "</ListBucketResult>").encode()

    def answer(self, request):
        handler, body = request.handler, request.reply
        cut, drip_s = getattr(request, "cut", None), getattr(request, "drip_s", 0)
        head = [f"HTTP/1.1 {request.status} X", f"Content-Length: {len(body)}"]
        head += [f"{name}: {value}" for name, value in request.reply_headers.items()]
        whole = ("\r\n".join(head) + "\r\n\r\n").encode() + (b"" if request.method == "HEAD" else body)
        if cut is not None:
            handler.connection.sendall(whole[:cut])
            if getattr(request, "resets", False):
                time.sleep(0.02)  # or the reset overtakes the bytes
                request.reset()
            handler.close_connection = True
        elif drip_s:
            for at in range(0, len(whole), 1000):
                handler.connection.sendall(whole[at:at + 1000])
                time.sleep(drip_s)
        else:
            handler.connection.sendall(whole)


def quote(text):
    return urllib.parse.quote(text, safe="-_.~")
