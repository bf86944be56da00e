"""Networks: Flax Linen modules behind one step/unroll contract (`networks.contract.Network`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "actor_critic",
        "attention",
        "autoencoder",
        "causal_model",
        "continuation",
        "continuous",
        "contract",
        "dnc",
        "dual_coding",
        "embeddings",
        "encoder",
        "esbn",
        "event_store",
        "experience",
        "fast_weights",
        "feedforward",
        "language",
        "layers",
        "linear_attention",
        "memories",
        "policies",
        "q_network",
        "recurrent",
        "ring",
        "tiled_attention",
        "transformer",
        "transformer_block",
        "vectors",
    ],
)
