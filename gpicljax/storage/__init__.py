"""Files that are whole or not there: atomic writes, manifests with checksums, locks, array folders.

Checkpoints, datasets and saved models are made of these.
"""

from gpicljax.storage.array_folder import SavedError
from gpicljax.storage.atomic import to_json_text, write_atomically
from gpicljax.storage.lock import LockedError, exclusive, is_locked

__all__ = [
    "LockedError",
    "SavedError",
    "exclusive",
    "is_locked",
    "to_json_text",
    "write_atomically",
]
