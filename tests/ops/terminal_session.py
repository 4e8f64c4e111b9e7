"""A program on its own terminal. The session keeps the screen, as a person sees it, and the bytes that the program sent.

Every wait has one deadline, and its error shows the screen at the deadline."""
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

import pyte

DEADLINE_S = 20

# A shell ignores SIGINT for what it runs in the background, and programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


class TerminalSession:
    def __init__(self, arguments, columns=100, lines=30, environment=None):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.sent = b""
        self.exit_code = None
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            surroundings = {"TERM": "xterm-256color", "PATH": os.environ["PATH"], **(environment or {})}
            os.execve(arguments[0], list(map(str, arguments)), surroundings)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.exit_code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.terminal)

    def resize(self, columns, lines):
        self.screen.resize(lines, columns)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))  # sends SIGWINCH

    def type(self, text):
        os.write(self.terminal, text.encode())

    def rows(self):
        return [row.rstrip() for row in self.screen.display]

    def text(self):
        return "\n".join(self.rows()).rstrip()

    def read(self, timeout_s=0.05):
        """Reads the bytes that have come. False when the program has closed its side."""
        ready, _, _ = select.select([self.terminal], [], [], timeout_s)
        if not ready:
            return True
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            return False
        self.sent += data
        self.stream.feed(data)
        return bool(data)

    def wait_until(self, condition, what, timeout_s=DEADLINE_S):
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {timeout_s} s for {what}; on the screen was:\n{self.text()}")
            if not self.read() and not condition():
                raise AssertionError(f"it ended before {what}; on the screen was:\n{self.text()}")

    def wait_for(self, *texts):
        self.wait_until(lambda: all(text in self.text() for text in texts), f"{texts} on the screen")

    def wait_exit(self, timeout_s=DEADLINE_S):
        deadline = time.monotonic() + timeout_s
        while self.read():
            if time.monotonic() > deadline:
                raise AssertionError(f"it did not end within {timeout_s} s; on the screen was:\n{self.text()}")
        _, status = os.waitpid(self.pid, 0)
        self.exit_code = os.waitstatus_to_exitcode(status)
        return self.exit_code
