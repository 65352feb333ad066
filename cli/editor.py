"""The person's own editor, as ``$VISUAL`` or ``$EDITOR`` names it, on a file that only this person can read."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from duly.protocol.wire.errors import RequestError
from duly.protocol.wire.limits import FRAME_BYTES_MAX

VARIABLES = ("VISUAL", "EDITOR")
FALLBACKS = ("sensible-editor", "nano", "vi")


class EditedFile:
    """A text in a file of its own folder. It is removed at the end, unless ``keep`` was called: then nothing is lost."""

    def __init__(self, name: str, text: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="duly-edit-"))  # mode 0700
        self.path = self._folder / name
        self.original = text.encode("utf-8")
        self.path.write_bytes(self.original)
        self._kept = False

    def open(self) -> bytes:
        """Opens the editor and waits for its end. Gives what the file holds then.

        Raises ``RequestError``: ``request.no_editor``, ``request.editor_failed`` where the editor says that nothing
        is to be done with the text.
        """
        command = [*_command(), str(self.path)]
        # Ctrl-C belongs to the editor. A handler, not SIG_IGN, because the editor would inherit that.
        before = signal.signal(signal.SIGINT, lambda number, frame: None)
        try:
            code = subprocess.run(command, check=False).returncode
        except OSError as error:
            raise RequestError(
                "request.no_editor",
                f"The editor {command[0]!r} does not start: {error.strerror}.",
                hint="Set VISUAL or EDITOR to your editor, or give the changed plan with --file.",
            ) from None
        finally:
            signal.signal(signal.SIGINT, before)
        if code != 0:
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise RequestError("request.editor_failed", f"The editor ended with {how}; nothing was sent.")
        return self._left()

    def _left(self) -> bytes:
        """What stands where the file was. A pipe or a device has no end, so only a file is read, as far as a plan goes."""
        try:
            reading = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
            with open(reading, "rb") as file:
                if stat.S_ISREG(os.fstat(reading).st_mode):
                    return file.read(FRAME_BYTES_MAX + 1)
            how = "something else stands in its place"
        except OSError as error:
            how = str(error.strerror)
        raise RequestError("request.editor_failed", f"The editor left no file: {how}. Nothing was sent.")

    @property
    def is_changed(self) -> bool:
        return self.path.is_file() and self._left() != self.original

    def keep(self) -> Path:
        """Leaves the file where it is when this ends."""
        self._kept = True
        return self.path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._kept:
            shutil.rmtree(self._folder, ignore_errors=True)


def _command() -> list[str]:
    for variable in VARIABLES:
        named = os.environ.get(variable, "").strip()
        if named:
            try:
                return shlex.split(named)
            except ValueError as error:
                raise RequestError(
                    "request.no_editor", f"${variable} cannot be read as a command: {error}."
                ) from None
    for name in FALLBACKS:
        if shutil.which(name):
            return [name]
    raise RequestError(
        "request.no_editor",
        "No editor is named.",
        hint="Set VISUAL or EDITOR to your editor, or give the changed plan with --file.",
    )
