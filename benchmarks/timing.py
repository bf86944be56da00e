"""Times of calls and of compilations, which benchmarks report beside their rounds."""

import time

import jax


def time_call(function, *arguments):
    """Returns what a call returns, once its arrays are there, and the CPU seconds that it took."""
    start = time.process_time()
    result = jax.block_until_ready(function(*arguments))
    return result, time.process_time() - start


def compile_program(function, *arguments, **options):
    """Compiles a function for its arguments, without the cache on disk.

    Args:
      function: what is compiled.
      *arguments: of the function.
      **options: of `jax.jit`.

    Returns:
      The program, and the CPU seconds that it took to trace and to compile.
    """
    has_cache = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        return time_call(lambda: jax.jit(function, **options).lower(*arguments).compile())
    finally:
        jax.config.update("jax_enable_compilation_cache", has_cache)
