"""What can go wrong, as exceptions. The message of each is the library's own text, which names what was
found, what was expected and where."""

from __future__ import annotations

__all__ = ["Error", "CompileError", "UnsupportedError", "InternalError", "NoMemoryError", "RunError", "MissingLibraryError",
           "DeviceError", "FileError", "GxcWarning"]


class Error(Exception):
    """All errors of gxc."""


class CompileError(Error, ValueError):
    """The program or an option is wrong; the message is the diagnostic, with line and column."""


class UnsupportedError(Error, NotImplementedError):
    """The program is right, but gxc cannot compile it, or libgxrt cannot run it, yet."""


class InternalError(Error):
    """A bug of gxc; the message names the file that shows it again."""


class NoMemoryError(Error, MemoryError):
    """The system had no memory, or no process or file, for the compiler: try again."""


class RunError(Error, RuntimeError):
    """A run failed, or the arrays do not fit the program."""


class FileError(RunError):
    """The file is missing, damaged or not made by gxc."""


class MissingLibraryError(RunError):
    """A library is missing; the message says which, and how to get it."""


class DeviceError(RunError):
    """No such device, not enough memory, or it failed."""


class GxcWarning(UserWarning):
    """What gxc warns of: the program compiles, but see the text."""
