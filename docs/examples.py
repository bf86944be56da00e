"""A Griffe extension: the house's `Example:` is a section of examples."""

import re

import griffe


class Examples(griffe.Extension):
    """Reads `Example:` in a docstring as Griffe reads `Examples:`."""

    def on_object(self, *, obj, **kwargs):
        """Renames the section."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE
            )
