"""Meta-Language: predict the tokens of a random language that was never seen before.

`MetaLanguage-v0` is an environment and, through `MetaLanguage.sample_sequences`, a stream of
training sequences generated on the device.
"""

from gpicljax.systems.meta_language.env.meta_language import MetaLanguage

__all__ = [
    "MetaLanguage",
]
