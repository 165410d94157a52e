"""A worker whose orders run functions. It starts gpuwhisk standalone with the arguments that
it was given, creates two actions from gpufunc.py, and invokes them by the REST API."""

import base64
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import lines

NAMES = ["check-first", "check-second"]
MEMORY_MB = 512  # host memory of a function, beside its device memory
END = 12  # seconds that standalone may take to end its functions and itself


libc = ctypes.CDLL(None)


def end_with_parent():
    libc.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class Functions(lines.Worker):
    def __init__(self, command):
        super().__init__()
        # It ends by this program's order, or when this program is killed, and not by a signal to
        # the group.
        self.standalone = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True,
                                           preexec_fn=end_with_parent)

    def find(self):
        """Read the address from the line that standalone prints when it is ready."""
        for line in self.standalone.stdout:
            found = re.search(r"--apihost (\S+) --auth (\S+)", line)
            if found:
                self.url = found[1] + "/api/v1/namespaces/_/"
                self.auth = "Basic " + base64.b64encode(found[2].encode()).decode()
                return
        raise lines.Refused("standalone ended before it was ready")

    def end(self):
        self.standalone.terminate()
        try:
            self.standalone.wait(END)
        except subprocess.TimeoutExpired:
            self.standalone.kill()

    def memory(self):
        return 0, 0

    def sync(self):
        pass

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method, data=body and json.dumps(body).encode(),
                                         headers={"Authorization": self.auth, "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:  # a failed run has a record as well
            return json.load(e)

    def order_create(self, size):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpufunc.py")) as f:
            code = f.read()
        for name in NAMES:
            made = self.call("PUT", "actions/%s?overwrite=true" % name, {
                "exec": {"kind": "python:3", "code": code},
                "limits": {"memory": MEMORY_MB, "timeout": 60000},
                "annotations": [{"key": "gpu", "value": {"memory": "%d B" % size}}]})
            if "error" in made:
                raise lines.Refused("create %s: %s" % (name, made["error"]))
        return {}

    def order_pause(self, seconds):
        time.sleep(seconds)
        return {}

    def order_invoke(self, which, size):
        """Run an action and read its record, which is stored a moment after the answer."""
        run = self.call("POST", "actions/%s?blocking=true" % NAMES[which], {"bytes": size})
        if "activationId" not in run:
            raise lines.Refused("invoke %s: the call made no activation: %s" % (NAMES[which], run.get("error")))
        record = {}
        while "annotations" not in record:
            time.sleep(0.05)
            record = self.call("GET", "activations/" + run["activationId"])
        return self.judged(NAMES[which], record)

    def judged(self, name, record):
        response = record["response"]
        result = response.get("result") or {}
        gpu = {a["key"]: a["value"] for a in record["annotations"]}.get("gpu", {})
        right = bool(response.get("success") and result.get("correct") and result.get("intact"))
        answer = {"right": int(right), "annotated": int(bool(gpu.get("device"))), "back": int(gpu.get("start") == "host-warm")}
        if result.get("error"):
            answer["note"] = "a function failed: %s" % result["error"]
        times = [str(gpu.get(key, 0)) for key in ("queueTime", "prefetchTime", "gpuTime")]
        memory = "%d MiB" % (gpu.get("memory", 0) >> 20)
        answer["rows"] = [[name, gpu.get("device", ""), gpu.get("start", "")] + times + [memory, "right" if right else "wrong"]]
        return answer


def ended(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not stop the clean-up
    sys.exit(1)


pipe, worker = lines.own_stdout(), None
signal.signal(signal.SIGTERM, ended)
try:
    worker = Functions(sys.argv[1:])
    worker.find()
    lines.serve(pipe, worker)
finally:
    if worker:
        worker.end()
