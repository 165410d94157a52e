#!/usr/bin/env python3
"""Action proxy for Python 3: standard library only, one file.

It answers POST /init and POST /run as OpenWhisk's own Python runtime does. The
difference lies inside: the user's code runs in this process, on its main
thread, so that what it loads stays between activations; a CUDA context first
of all. One activation runs at a time, others wait in their sockets.

The HTTP side is a poll loop over plain sockets, because http.server spends
more time on a request than most actions do.
"""

import json
import os
import select
import signal
import socket
import struct
import sys

SENTINEL = b"XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX\n"
MAX_HEAD = 64 << 10    # request line and headers
MAX_BODY = 256 << 20   # code is at most 48 MiB before base64 and JSON
CHUNK = 256 << 10
# Header fields of an answer. This proxy closes no idle connection, so it promises more.
KEEP_ALIVE = "Connection: keep-alive\r\nKeep-Alive: timeout=60\r\n"
REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found",
           405: "Method Not Allowed", 411: "Length Required",
           413: "Payload Too Large", 431: "Request Header Fields Too Large",
           500: "Internal Server Error", 502: "Bad Gateway"}


class Rejected(Exception):
    """An answer other than success: a status code and an error text."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Output:
    """The two log streams, held by descriptors the user's code cannot close."""

    def __init__(self):
        self.fds = (os.dup(1), os.dup(2))
        self.fflush = None
        for stream in (sys.stdout, sys.stderr):
            # Flush each line, so that a crash or a kill loses no output.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace",
                               line_buffering=True)

    def watch_libc(self):
        """Find fflush, so that what C code buffers comes before the sentinel."""
        try:
            import ctypes
            self.fflush = ctypes.CDLL(None).fflush
        except (ImportError, OSError, AttributeError):
            self.fflush = None

    def flush(self):
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            try:
                stream.flush()
            except Exception:  # replaced, closed or broken by the user's code
                pass
        if self.fflush is not None:
            self.fflush(None)

    def end(self):
        """Mark the end of an activation on both streams."""
        self.flush()
        for fd in self.fds:
            try:
                os.write(fd, SENTINEL)
            except OSError:
                pass

    def error(self, text):
        self.flush()
        try:
            os.write(self.fds[1], text.encode("utf-8", "backslashreplace"))
        except OSError:
            pass


def own_frames_left_out(tb):
    """Cut the proxy's and the import system's frames off a traceback's head."""
    own = (__file__, "<frozen importlib._bootstrap>",
           "<frozen importlib._bootstrap_external>")
    while tb is not None and tb.tb_frame.f_code.co_filename in own:
        tb = tb.tb_next
    return tb


def describe(error):
    import traceback
    tb = own_frames_left_out(error.__traceback__)
    return "".join(traceback.format_exception(type(error), error, tb))


def as_text(value):
    return value if isinstance(value, str) else json.dumps(
        value, ensure_ascii=False, separators=(",", ":"))


def set_env(name, value):
    try:
        os.environ[name] = value
    except (ValueError, TypeError, UnicodeError):
        pass  # not a text, or not a valid name for a variable


class Action:
    """The user's code and what /init and /run do with it."""

    def __init__(self, output):
        self.output = output
        self.main = None
        self.ended = False   # the code has exited: no further run
        self.pid = os.getpid()

    def init(self, body):
        if self.main is not None:
            text = "Cannot initialize the action more than once."
            self.output.error(text + "\n")
            raise Rejected(403, text)
        value = self.init_value(body)
        for name, text in value.get("env", {}).items():
            set_env(name, as_text(text))
        self.output.watch_libc()
        self.load(value["code"], value.get("binary", False),
                  value.get("main") or "main")
        return b'{"ok":true}\n'

    def init_value(self, body):
        message = parse(body)
        value = message.get("value", {}) if isinstance(message, dict) else None
        wanted = {"code": str, "binary": bool, "main": str, "env": dict}
        if not isinstance(value, dict):
            raise Rejected(400, "Error unmarshaling request: value is no object")
        value = {k: v for k, v in value.items() if v is not None}
        for key, kind in wanted.items():
            if not isinstance(value.get(key, kind()), kind):
                raise Rejected(400, "Error unmarshaling request: wrong type of " + key)
        if not value.get("code"):
            raise Rejected(403, "Missing main/no code to execute.")
        return value

    def load(self, code, binary, main):
        try:
            folder = self.unpack(code, binary)
            os.chdir(folder)
            self.activate_virtualenv(folder)
        except Rejected:
            raise
        except Exception as error:
            self.fail_init("%s\n" % error, "The action failed to generate or "
                           "locate a binary. See logs for details.")
        try:
            self.main = self.load_main(folder, main)
        except SyntaxError as error:
            self.fail_init(describe(error), "The action failed to generate or "
                           "locate a binary. See logs for details.")
        except BaseException as error:
            self.fail_init(describe(error) + "Command exited abruptly during "
                           "initialization.\n", "Cannot start action. Check "
                           "logs for details.")

    def fail_init(self, log, text):
        self.main = None
        self.output.error(log)
        self.output.end()
        raise Rejected(502, text)

    @staticmethod
    def load_main(folder, main):
        import importlib
        sys.dont_write_bytecode = True  # a container loads its code once
        if folder not in sys.path:
            sys.path.insert(0, folder)
        importlib.invalidate_caches()
        sys.modules.pop("main__", None)
        module = importlib.import_module("main__")
        try:
            return getattr(module, main)
        except AttributeError:
            raise ImportError("cannot import name %r from 'main__' (%s)" % (
                main, module.__file__)) from None

    def unpack(self, code, binary):
        """Write the code to a new folder, as a file that tools can read back."""
        folder = action_folder()
        data = code.encode("utf-8", "surrogatepass")
        if binary:
            import base64
            import binascii
            try:
                data = base64.b64decode(code, validate=True)
            except binascii.Error as error:
                raise Rejected(400, "cannot decode the request: %s" % error)
        if data[:4] == b"PK\x03\x04":
            import io
            import zipfile
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                extract(archive, folder)
        else:
            write(os.path.join(folder, "exec"), data)
        self.name_main(folder)
        return folder

    @staticmethod
    def name_main(folder):
        # The stock runtime renames the file in the same way, so user code sees the
        # module name main__.
        for name in ("exec", "__main__.py"):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                os.replace(path, os.path.join(folder, "main__.py"))
        if not (os.path.exists(os.path.join(folder, "main__.py"))
                or os.path.isdir(os.path.join(folder, "main__"))):
            raise ValueError("Zip file does not include main__")

    @staticmethod
    def activate_virtualenv(folder):
        root = os.path.join(folder, "virtualenv")
        if not os.path.isdir(root):
            return
        for part in ("bin", "Scripts"):
            script = os.path.join(root, part, "activate_this.py")
            if os.path.exists(script):
                with open(script) as file:
                    code = compile(file.read(), script, "exec")
                exec(code, {"__file__": script, "__name__": "activate_this"})
                return
        raise ValueError("Invalid virtualenv. Zip file does not include "
                         "'activate_this.py'.")

    def run(self, body):
        if self.main is None:
            raise Rejected(500, "no action defined yet")
        if self.ended:
            raise Rejected(500, "command exited")
        message = parse(body)
        if not isinstance(message, dict):
            raise Rejected(400, "Error unmarshaling request: no object")
        for key, value in message.items():
            if key != "value" and isinstance(value, str):
                set_env("__OW_" + key.upper(), value)
        try:
            return self.call(message.get("value", {}))
        finally:
            self.output.end()

    def call(self, args):
        try:
            result = self.invoke(args)
            if not isinstance(result, (dict, list, tuple, type(None))):
                raise Rejected(502, "The action did not return a dictionary or array.")
            # The bytes equal those of the stock runtime, because their number counts as
            # the size of the response.
            return (json.dumps(result, ensure_ascii=False) + "\n").encode("utf-8")
        except Rejected:
            raise
        except BaseException as error:
            # The action did not raise an exception: it exited, or its result is not
            # JSON. In the stock runtime, either ends the process.
            if not isinstance(error, SystemExit):
                self.output.error(describe(error))
            self.ended = True
            raise Rejected(400, "command exited") from None

    def invoke(self, args):
        try:
            return self.main(args)
        except Exception as error:
            self.output.error(describe(error) + "\n")
            return {"error": str(error)}
        finally:
            if os.getpid() != self.pid:
                os._exit(0)  # a forked child that has left the action's function


def parse(body):
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Rejected(400, "Error unmarshaling request: %s" % error) from None


def action_folder():
    """A folder of our own: beside us if we may write there, else in /tmp."""
    for parent in (os.getcwd(), os.environ.get("TMPDIR") or "/tmp"):
        for name in ("action", "action-%d" % os.getpid()):
            folder = os.path.join(parent, name, "1", "bin")
            try:
                os.makedirs(folder)
                return folder
            except OSError:
                continue
    raise OSError("no folder to unpack the action in")


def extract(archive, folder):
    """Unpack with the permissions that the archive carries."""
    for item in archive.infolist():
        path = archive.extract(item, folder)
        mode = item.external_attr >> 16 & 0o777
        if mode and not item.is_dir():
            os.chmod(path, mode | 0o400)


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


class Connection:
    """One keep-alive connection and the request that is being read from it."""

    def __init__(self, sock):
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A peer that stops reading must not block the proxy forever.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                        struct.pack("ll", 60, 0))
        self.sock = sock
        self.reset(b"")

    def reset(self, rest):
        self.data = bytearray(rest)
        self.head = None     # (method, path) once the head is complete
        self.length = 0
        self.keep = True

    def read(self):
        """Read what has come. True: a request is complete. None: it is over."""
        want = CHUNK
        if self.head is not None:
            want = max(CHUNK, min(self.length - len(self.data), 16 * CHUNK))
        try:
            data = self.sock.recv(want, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            return None
        self.data += data
        return self.complete()

    def complete(self):
        if self.head is None:
            end = self.data.find(b"\r\n\r\n")
            if end < 0 and len(self.data) <= MAX_HEAD:
                return False
            if end < 0 or end > MAX_HEAD:
                raise Rejected(431, "The request head is too large.")
            self.parse_head(bytes(self.data[:end]))
            del self.data[:end + 4]
        return len(self.data) >= self.length

    def parse_head(self, head):
        first, *lines = head.decode("latin-1").split("\r\n")
        parts = first.split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            raise Rejected(400, "This is no HTTP/1 request.")
        self.keep = parts[2] != "HTTP/1.0"
        fields = {}
        for line in lines:
            name, _, value = line.partition(":")
            fields[name.strip().lower()] = value.strip()
        self.keep = self.keep and fields.get("connection", "").lower() != "close"
        self.length = self.body_length(fields)
        self.head = (parts[0], parts[1].partition("?")[0])
        if fields.get("expect", "").lower() == "100-continue":
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    @staticmethod
    def body_length(fields):
        if "transfer-encoding" in fields:
            raise Rejected(411, "A Content-Length is needed.")
        text = fields.get("content-length", "0")
        if not (text.isascii() and text.isdigit()):
            raise Rejected(400, "The Content-Length is no number.")
        if len(text) > 12 or int(text) > MAX_BODY:
            raise Rejected(413, "The request is too large.")
        return int(text)

    def take(self):
        """The complete request's head and body; what follows it is kept."""
        head, body = self.head, self.data
        rest = b""
        if len(body) > self.length:
            rest = bytes(body[self.length:])
            del body[self.length:]
        keep = self.keep
        self.reset(rest)
        return head, body, keep

    def answer(self, code, body, keep=True):
        head = ("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n"
                "Content-Length: %d\r\n%s\r\n"
                % (code, REASONS[code], len(body), KEEP_ALIVE if keep else "Connection: close\r\n"))
        self.sock.sendall(head.encode("ascii") + body)


class Server:
    """The poll loop. Everything, the user's code too, runs on its thread."""

    def __init__(self, listener, action):
        self.action = action
        self.listener = listener
        self.open = {}
        self.poll = select.poll()
        self.poll.register(self.listener, select.POLLIN)

    def serve(self):
        while True:
            for fd, _ in self.poll.poll():
                if fd == self.listener.fileno():
                    self.accept()
                elif fd in self.open:
                    self.step(fd, self.open[fd])

    def accept(self):
        try:
            sock, _ = self.listener.accept()
        except OSError:
            return
        self.open[sock.fileno()] = Connection(sock)
        self.poll.register(sock, select.POLLIN)

    def close(self, fd, connection):
        self.poll.unregister(fd)
        del self.open[fd]
        connection.sock.close()

    def step(self, fd, connection):
        try:
            state = connection.read()
            while state:
                head, body, keep = connection.take()
                connection.answer(*self.handle(head, body), keep)
                state = connection.complete() if keep else None
        except Rejected as error:
            self.refuse(connection, error)
            state = None
        except OSError:
            state = None
        if state is None:
            self.close(fd, connection)

    @staticmethod
    def refuse(connection, error):
        try:
            connection.answer(error.code, error_body(error), False)
        except OSError:
            pass

    def handle(self, head, body):
        endpoint = {"/init": self.action.init, "/run": self.action.run}.get(head[1])
        try:
            if endpoint is None:
                raise Rejected(404, "There is nothing at this path.")
            if head[0] != "POST":
                raise Rejected(405, "Only POST is answered here.")
            return 200, endpoint(body)
        except Rejected as error:
            return error.code, error_body(error)


def error_body(error):
    return (json.dumps({"error": str(error)}, separators=(",", ":")) + "\n").encode()


def listen():
    """Listen on a Unix socket if one is named, else on a port."""
    path = os.environ.pop("__OW_PROXY_SOCKET", "")
    host = os.environ.pop("__OW_PROXY_HOST", "") or "0.0.0.0"
    port = int(os.environ.pop("__OW_PROXY_PORT", "") or "8080")
    if path:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(128)
        return listener
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=128)


def main():
    listener = listen()
    sys.path.pop(0)  # our own directory: user code must not import us
    # The first process of a container would otherwise ignore the signal.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    Server(listener, Action(Output())).serve()


if __name__ == "__main__":
    main()
