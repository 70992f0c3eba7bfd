"""Errors a tool call can end in: type, code and slug of each in one table (contract section 1, 001 R12).

ToolFailure
  InvalidArguments  ToolNotFound  InvalidPath
  FileNotFound  FileExists  NoPermission  IsADirectory  NotADirectory
  FileTooLarge  BinaryFile  EncodingFailure  NoSpace  FileChanged
  FileReadFailed  FileWriteFailed  FileEditFailed  GlobFailed  GrepFailed  LsFailed
  EditTargetNotFound  EditTargetAmbiguous  EditNoChange
  ShellExecutionFailed  ShellTimeout  ShellIdleTimeout  ToolTimeout
  HttpFailure  FetchFailed  FetchTimeout  UrlNotAllowed  SearchFailed
  MemoryFailed  TodoFailed  StorageFailed
  PolicyDenied  ConfirmationDenied  ConfirmationTimeout  ConfirmationCancelled
  OperationCancelled  SandboxUnavailable  Internal
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pydantic import JsonValue


class Slug(StrEnum):
    """004's coarse classes of failure."""

    NOT_FOUND = "not_found"
    VALIDATION_ERROR = "validation_error"
    POLICY_DENIED = "policy_denied"
    SECURITY = "security"
    EXECUTION_ERROR = "execution_error"


class ToolFailure(Exception):  # noqa: N818  # the name that plug-ins rely on (contract section 7)
    """A call that failed in a way its caller is told about; the executor turns it into a result.

    `type` is the wire name, `code` 003's code. `message` says what happened, to what, and what to do next;
    `details` are for programs. `partial` is output that was produced before the failure.
    """

    type: ClassVar[str] = "InternalError"
    code: ClassVar[str] = "INTERNAL"
    slug: ClassVar[Slug] = Slug.EXECUTION_ERROR

    def __init__(self, message: str, details: Mapping[str, JsonValue] | None = None, *, partial: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, JsonValue] = dict(details or {})
        self.partial = partial


class InvalidArguments(ToolFailure):
    """Arguments that do not fit the tool's parameters; names every fault at once."""

    type = "ValidationError"
    code = "INVALID_ARGUMENTS"
    slug = Slug.VALIDATION_ERROR


class ToolNotFound(ToolFailure):
    """No tool of that name; the message names the closest ones."""

    type = "ToolNotFoundError"
    code = "TOOL_NOT_FOUND"
    slug = Slug.NOT_FOUND


class InvalidPath(ToolFailure):
    """A path outside the workspace, malformed, or leading to something that is no regular file."""

    type = "InvalidPathError"
    code = "INVALID_PATH"
    slug = Slug.SECURITY


class FileNotFound(ToolFailure):
    """Nothing there under that path."""

    type = "FileNotFoundError"
    code = "FILE_NOT_FOUND"


class FileExists(ToolFailure):
    """Something is there already and may not be replaced."""

    type = "FileExistsError"
    code = "FILE_EXISTS"


class NoPermission(ToolFailure):
    """The operating system refused access."""

    type = "PermissionError"
    code = "PERMISSION_DENIED"


class IsADirectory(ToolFailure):
    """A directory where a file is needed."""

    type = "IsADirectoryError"
    code = "IS_A_DIRECTORY"


class NotADirectory(ToolFailure):
    """Something else where a directory is needed."""

    type = "NotADirectoryError"
    code = "NOT_A_DIRECTORY"


class FileTooLarge(ToolFailure):
    """A whole file over the limit; a range of it can be read."""

    type = "FileTooLargeError"
    code = "FILE_TOO_LARGE"


class BinaryFile(ToolFailure):
    """Bytes that are no text; the message says what they look like."""

    type = "BinaryFileError"
    code = "BINARY_FILE"


class EncodingFailure(ToolFailure):
    """Text that the file's encoding cannot hold, or bytes that it cannot be."""

    type = "EncodingError"
    code = "ENCODING_ERROR"


class NoSpace(ToolFailure):
    """The disk or the quota is full; the old content stays."""

    type = "NoSpaceError"
    code = "NO_SPACE"


class FileChanged(ToolFailure):
    """The file is no longer what the person was shown."""

    type = "FileChangedError"
    code = "FILE_CHANGED"


class FileReadFailed(ToolFailure):
    """Reading failed for a reason none of the others names."""

    type = "FileReadError"
    code = "IO_ERROR"


class FileWriteFailed(ToolFailure):
    """Writing failed for a reason none of the others names."""

    type = "FileWriteError"
    code = "IO_ERROR"


class FileEditFailed(ToolFailure):
    """Editing failed for a reason none of the others names."""

    type = "FileEditError"
    code = "IO_ERROR"


class GlobFailed(ToolFailure):
    """Listing files failed for a reason none of the others names."""

    type = "GlobError"
    code = "IO_ERROR"


class GrepFailed(ToolFailure):
    """Searching failed for a reason none of the others names."""

    type = "GrepError"
    code = "IO_ERROR"


class LsFailed(ToolFailure):
    """Listing a directory failed for a reason none of the others names."""

    type = "LsError"
    code = "IO_ERROR"


class EditTargetNotFound(ToolFailure):
    """An edit's target is not in the file (000 Property 14)."""

    type = "EditTargetNotFound"
    code = "EDIT_TARGET_NOT_FOUND"


class EditTargetAmbiguous(ToolFailure):
    """An edit's target is in the file more than once (000 Property 15)."""

    type = "EditTargetAmbiguous"
    code = "EDIT_TARGET_AMBIGUOUS"


class EditNoChange(ToolFailure):
    """An edit that replaces a text by itself."""

    type = "EditNoChange"
    code = "EDIT_NO_CHANGE"


class ShellExecutionFailed(ToolFailure):
    """A command ended with a non-zero exit code or could not be started."""

    type = "ShellExecutionError"
    code = "EXECUTION_ERROR"


class ShellTimeout(ToolFailure):
    """A command ran longer than its limit and was ended."""

    type = "ShellTimeoutError"
    code = "TIMEOUT"


class ShellIdleTimeout(ToolFailure):
    """A command was silent longer than its limit and was ended."""

    type = "ShellIdleTimeoutError"
    code = "TIMEOUT"


class ToolTimeout(ToolFailure):
    """A tool ran longer than the executor allows."""

    type = "ToolTimeoutError"
    code = "TIMEOUT"


class HttpFailure(ToolFailure):
    """A web server answered with a status of 400 or more."""

    type = "HttpError"
    code = "HTTP_ERROR"


class FetchFailed(ToolFailure):
    """A web request got no answer."""

    type = "FetchError"
    code = "NETWORK_ERROR"


class FetchTimeout(ToolFailure):
    """A web request took longer than its limit."""

    type = "FetchTimeoutError"
    code = "TIMEOUT"


class UrlNotAllowed(ToolFailure):
    """An address that is never fetched, whatever anybody approves."""

    type = "UrlNotAllowedError"
    code = "URL_NOT_ALLOWED"


class SearchFailed(ToolFailure):
    """A web search got no usable answer."""

    type = "SearchError"
    code = "SEARCH_ERROR"


class MemoryFailed(ToolFailure):
    """A memory call that cannot be carried out."""

    type = "MemoryError"
    code = "MEMORY_ERROR"


class TodoFailed(ToolFailure):
    """A todo call that cannot be carried out; names the valid ids."""

    type = "TodoError"
    code = "TODO_ERROR"


class StorageFailed(ToolFailure):
    """The database could not be read or written."""

    type = "StorageError"
    code = "STORAGE_ERROR"


class PolicyDenied(ToolFailure):
    """The policy does not allow the call."""

    type = "PolicyDeniedError"
    code = "POLICY_DENIED"
    slug = Slug.POLICY_DENIED


class ConfirmationDenied(ToolFailure):
    """A person said no; the message is the person's reason, word for word, where there is one."""

    type = "ConfirmationDenied"
    code = "USER_DENIED"


class ConfirmationTimeout(ToolFailure):
    """Nobody answered in time."""

    type = "ConfirmationTimeout"
    code = "CONFIRMATION_TIMEOUT"

    def __init__(self, message: str = "Confirmation request timed out") -> None:
        super().__init__(message)


class ConfirmationCancelled(ToolFailure):
    """The question was withdrawn before it was answered."""

    type = "ConfirmationCancelled"
    code = "CANCELLED"

    def __init__(self, message: str = "Confirmation request cancelled") -> None:
        super().__init__(message)


class OperationCancelled(ToolFailure):
    """The work was given up; `partial` is what it had produced (001 R12.4)."""

    type = "OperationCancelled"
    code = "CANCELLED"

    def __init__(self, reason: str | None = None, *, partial: str = "") -> None:
        super().__init__(f"Cancelled: {reason}" if reason else "Cancelled before it was done", partial=partial)


class SandboxUnavailable(ToolFailure):
    """The sandbox the policy asks for does not work here; nothing was run."""

    type = "SandboxUnavailableError"
    code = "SANDBOX_UNAVAILABLE"


class Internal(ToolFailure):
    """A defect of ours; the log has the traceback."""

    type = "InternalError"
    code = "INTERNAL"


ERROR_TABLE: Mapping[str, type[ToolFailure]] = {
    failure.type: failure for failure in (*ToolFailure.__subclasses__(),) if failure.type != "InternalError"
} | {"InternalError": Internal}
"""Every error type that can stand in a result, by its wire name."""


def from_os_error(error: OSError, shown_path: str, otherwise: type[ToolFailure]) -> ToolFailure:
    """Return the failure that stands for an operating-system error on `shown_path`.

    `otherwise` is the tool's own type for what none of the named ones says. The message holds the path and the reason.
    """
    reason = error.strerror or str(error)
    details: dict[str, JsonValue] = {"path": shown_path, "reason": reason}
    match error.errno:
        case errno.ENOENT:
            return FileNotFound(f"{shown_path}: no such file or directory. Check the path with ls or glob.", details)
        case errno.EEXIST:
            return FileExists(f"{shown_path}: exists already.", details)
        case errno.EISDIR:
            return IsADirectory(f"{shown_path} is a directory. Use ls to list it.", details)
        case errno.ENOTDIR:
            return NotADirectory(f"{shown_path}: a part of the path is not a directory.", details)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return NoPermission(f"{shown_path}: {reason}. Ask the person to change its permissions.", details)
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return NoSpace(f"{shown_path}: {reason}. Nothing was changed; free some space first.", details)
        case errno.ELOOP:
            return InvalidPath(f"{shown_path}: {reason}.", details)
        case _:
            return otherwise(f"{shown_path}: {reason}.", details)
