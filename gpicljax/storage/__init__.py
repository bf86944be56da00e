"""Files that are whole or not there: atomic writes, manifests with checksums, locks, array folders.

Checkpoints, datasets and saved models are made of these.
"""

from gpicljax.storage.array_folder import SavedError
from gpicljax.storage.atomic import write_atomically

__all__ = [
    "SavedError",
    "write_atomically",
]
