"""An action proxy that starts Python actions as OpenWhisk's action loop does: in a
process of their own, whose environment is empty but for the proxy's __OW_* variables
and the env of /init."""

import http.server
import json
import os
import socketserver
import subprocess
import sys

SENTINEL = b"XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX\n"

# The action's process: a line of input is a run, a line on descriptor argv[1] its result.
LOOP = """
import json, os, sys
exec(compile(open(sys.argv[2]).read(), "main__", "exec"))
answers = os.fdopen(int(sys.argv[1]), "w")
for line in sys.stdin:
    try:
        result = main(json.loads(line)["value"])
    except Exception as error:
        result = {"error": str(error)}
    print(json.dumps(result), file=answers, flush=True)
"""


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    action = answers = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.init(json.loads(body)["value"]) if self.path == "/init" else self.run(body)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def init(self, value):
        env = {k: v for k, v in os.environ.items() if k.startswith("__OW_")}
        env.update(value["env"])
        code = os.path.join(os.environ.get("TMPDIR", "/tmp"), "action.py")
        with open(code, "w") as file:
            file.write(value["code"])
        read, write = os.pipe()
        Proxy.action = subprocess.Popen([sys.executable, "-c", LOOP, str(write), code],
                                        env=env, stdin=subprocess.PIPE, pass_fds=[write])
        os.close(write)
        Proxy.answers = os.fdopen(read, "rb")
        return b"{}"

    def run(self, body):
        self.action.stdin.write(body.replace(b"\n", b"") + b"\n")
        self.action.stdin.flush()
        answer = self.answers.readline()
        for descriptor in 1, 2:
            os.write(descriptor, SENTINEL)
        return answer

    def log_message(self, *_):
        pass


path = os.environ.get("__OW_PROXY_SOCKET")
if path:
    server = socketserver.UnixStreamServer(path, Proxy)
else:
    server = http.server.HTTPServer(("0.0.0.0", 8080), Proxy)
server.serve_forever()
